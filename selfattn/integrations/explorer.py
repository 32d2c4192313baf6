"""The attention explorer on Hugging Face models."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from selfattn.errors import UserError
from selfattn.integrations.transformers import NAME, Kind, register, watch
from selfattn.runs.attention_view import AttentionView
from selfattn.runs.hub import fetch, is_address

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

MOST_WEIGHTS = 20_000_000  # about as many characters of a page


def explore(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    text: str,
    target: str | None = None,
    *,
    layers: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
    max_new_tokens: int = 128,
) -> AttentionView:
    """Run a Hugging Face model on a text and return its attention, which draws itself in a notebook.

    An encoder-decoder reads the text and writes the target, or what it generates where there is no target. Other
    models read the text, and the target after it, as one sequence. The model need not be able to return its weights.

    Args:
        model: of transformers.
        tokenizer: of the model.
        text: the input.
        target: the output; default what an encoder-decoder generates, and nothing for other models.
        layers: numbers from 0, counted apart for encoder, decoder and cross-attention; default all.
        heads: numbers from 0; default all.
        max_new_tokens: most tokens to generate; default 128.

    Returns:
        An :class:`AttentionView`; ``.save("map.html")`` writes it as a page.

    Raises:
        UserError: transformers is not installed; the text has no token; there is no such layer or head; or there are
            more than 20 million weights, which no page can show.

    Example:
        ``explore(AutoModel.from_pretrained("DIR"), AutoTokenizer.from_pretrained("DIR"), "a small text")``
    """
    device = model.device
    was_training = model.training
    model.train(False)
    try:
        with torch.inference_mode():
            if model.config.is_encoder_decoder:
                source = _ids(tokenizer, text).to(device)
                if target is None:
                    generated: Any = model.generate(source, max_new_tokens=max_new_tokens)  # type: ignore[operator]
                    labels: Tensor = generated[:, 1:]
                else:
                    labels = tokenizer(text_target=target, return_tensors="pt").input_ids.to(device)
                start = model.generation_config.decoder_start_token_id
                start = model.config.decoder_start_token_id if start is None else start
                read = torch.cat([labels.new_full((1, 1), start), labels[:, :-1]], dim=1)
                i, j = labels.shape[1], source.shape[1]
                _check_size(model, j * j + i * (j + i), layers, heads)
                with watch(model, layers=layers, heads=heads) as seen:
                    model(input_ids=source, decoder_input_ids=read, use_cache=False)
                prediction = str(tokenizer.decode(labels[0], skip_special_tokens=True))
            else:
                source = _ids(tokenizer, text if target is None else text + target).to(device)
                labels, prediction = source[:, :0], ""
                _check_size(model, source.shape[1] ** 2, layers, heads)
                with watch(model, layers=layers, heads=heads) as seen:
                    model(input_ids=source)
    finally:
        model.train(was_training)
    maps: dict[Kind, list[Tensor]] = {"cross": [], "encoder": [], "decoder": []}
    numbers: dict[Any, list[int]] = {"cross": [], "encoder": [], "decoder": []}
    for layer in seen.layers:
        kind = layer.kind if model.config.is_encoder_decoder else "encoder"  # of one sequence, to itself
        for call in layer.calls:  # more than one where layers share their weights
            maps[kind].append(call[0].float().cpu())
            numbers[kind].append(layer.number if len(layer.calls) == 1 else len(numbers[kind]))
    return AttentionView(
        source=text if model.config.is_encoder_decoder or target is None else text + target,
        prediction=prediction,
        source_tokens=_tokens(tokenizer, source[0]),
        target_tokens=_tokens(tokenizer, labels[0]),
        weights=tuple(maps["cross"]),
        encoder_weights=tuple(maps["encoder"]),
        decoder_weights=tuple(maps["decoder"]),
        layers=dict(numbers),
        heads=() if heads is None else tuple(heads),
        model=Path(model.config.name_or_path or "").name or type(model).__name__,
    )


def foreign_model(place: Path) -> tuple[PreTrainedModel, PreTrainedTokenizerBase] | None:
    """Load the Hugging Face model that a place names; None where the place is a run of this project.

    Args:
        place: a directory, or ``hf://ORG/NAME``.

    Raises:
        UserError: the Hub cannot be reached, or transformers is missing or cannot load the model.
    """
    directory = fetch(place) if is_address(place) else place
    config = directory / "config.json"
    if (directory / "run.json").exists() or not config.is_file():
        return None
    if '"model_type"' not in config.read_text(encoding="utf-8", errors="replace"):
        return None
    return open_model(re.sub(r"^hf:/+|@.*$", "", str(place)) if is_address(place) else place)


def open_model(place: str | Path) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Load a model and its tokenizer as transformers does, with attention by :func:`selfattn.attend`.

    Args:
        place: a directory, or a repository of the Hub such as ``ORG/NAME``. No code of a repository is run.

    Raises:
        UserError: transformers is not installed, or it cannot load the model.
    """
    register()
    import transformers

    try:
        config = transformers.AutoConfig.from_pretrained(place)
        kind = getattr(transformers, (config.architectures or ["AutoModel"])[0], transformers.AutoModel)
        model = kind.from_pretrained(place, attn_implementation=NAME)
        return model, transformers.AutoTokenizer.from_pretrained(place)
    except (OSError, ValueError, KeyError, ImportError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise UserError(f"{place}: transformers cannot load this model: {reason}") from None


def _ids(tokenizer: PreTrainedTokenizerBase, text: str) -> Tensor:
    ids: Tensor = tokenizer(text, return_tensors="pt").input_ids
    if not ids.numel():
        raise UserError("the text has no token: give some words")
    return ids


def _check_size(
    model: PreTrainedModel, weights_of_a_head: int, layers: Sequence[int] | None, heads: Sequence[int] | None
) -> None:
    config = model.config.get_text_config()
    num_layers = len(layers) if layers is not None else config.num_hidden_layers
    num_heads = len(heads) if heads is not None else config.num_attention_heads
    if (weights := weights_of_a_head * num_layers * num_heads) > MOST_WEIGHTS:
        raise UserError(
            f"{weights:,} weights are more than a page can show ({MOST_WEIGHTS:,}): give a shorter text, or choose "
            "`layers` and `heads`"
        )


def _tokens(tokenizer: PreTrainedTokenizerBase, ids: Tensor) -> tuple[str, ...]:
    """Return tokens as a person reads them: a space where a word begins, letters in place of bytes."""
    tokens = []
    for number, token in zip(ids.tolist(), tokenizer.convert_ids_to_tokens(ids.tolist()), strict=True):
        if number in tokenizer.all_special_ids:
            tokens.append(token)
        elif token[:1] in ("Ġ", "▁", "Ċ"):  # byte-level BPE writes bytes as letters; SentencePiece marks a space
            tokens.append(token.replace("▁", " ") if token[0] == "▁" else tokenizer.convert_tokens_to_string([token]))
        else:
            tokens.append(token if token.startswith("##") else tokenizer.convert_tokens_to_string([token]) or token)
    return tuple(tokens)
