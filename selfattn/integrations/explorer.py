"""The attention explorer on Hugging Face models."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from selfattn.decoding.stepping import evaluating
from selfattn.errors import UserError
from selfattn.integrations.transformers import NAME, register
from selfattn.integrations.watch import Kind, watch
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
    is_pair = model.config.is_encoder_decoder
    read = text if is_pair or target is None else text + target
    with evaluating(model), torch.inference_mode():
        source: Tensor = tokenizer(read, return_tensors="pt").input_ids.to(model.device)
        if not source.numel():
            raise UserError("the text has no token: give some words")
        labels, inputs = source[:, :0], {"input_ids": source}
        if is_pair:
            if target is None:
                labels = model.generate(source, max_new_tokens=max_new_tokens)[:, 1:]  # type: ignore[operator]  # typed loosely
            else:
                labels = tokenizer(text_target=target, return_tensors="pt").input_ids.to(model.device)
            start = model.generation_config.decoder_start_token_id
            start = model.config.decoder_start_token_id if start is None else start
            inputs["decoder_input_ids"] = torch.cat([labels.new_full((1, 1), start), labels[:, :-1]], dim=1)
        j, i = source.shape[1], labels.shape[1]
        config = model.config.get_text_config()
        num_layers = config.num_hidden_layers if layers is None else len(layers)
        num_heads = config.num_attention_heads if heads is None else len(heads)
        if (count := (j * j + i * (j + i)) * num_layers * num_heads) > MOST_WEIGHTS:
            advice = "give a shorter text, or choose `layers` and `heads`"
            raise UserError(f"{count:,} weights are more than a page can show ({MOST_WEIGHTS:,}): {advice}")
        with watch(model, layers=layers, heads=heads) as seen:
            model(**inputs, **({"use_cache": False} if is_pair else {}))
    maps: dict[Kind, dict[int, Tensor]] = {"cross": {}, "encoder": {}, "decoder": {}}
    for layer in seen.layers:
        kind = layer.kind if is_pair else "encoder"  # of one sequence, to itself
        for call in layer.calls:  # more than one where layers share their weights
            maps[kind][layer.number if len(layer.calls) == 1 else len(maps[kind])] = call[0].float().cpu()
    return AttentionView(
        source=read,
        prediction=str(tokenizer.decode(labels[0], skip_special_tokens=True)),
        source_tokens=_tokens(tokenizer, source[0]),
        target_tokens=_tokens(tokenizer, labels[0]),
        weights=tuple(maps["cross"].values()),
        encoder_weights=tuple(maps["encoder"].values()),
        decoder_weights=tuple(maps["decoder"].values()),
        layers={kind: list(weights) for kind, weights in maps.items()},
        heads=() if heads is None else tuple(heads),
        model=Path(model.config.name_or_path or "").name or type(model).__name__,
    )


def foreign_model(place: Path) -> tuple[PreTrainedModel, PreTrainedTokenizerBase] | None:
    """Load the Hugging Face model that a place names, with its tokenizer and with attention by :func:`selfattn.attend`.

    Args:
        place: a directory, or ``hf://ORG/NAME``. No code of a repository is run.

    Returns:
        None where the place is a run of this project.

    Raises:
        UserError: the Hub cannot be reached, or transformers is missing or cannot load the model.
    """
    directory = fetch(place) if is_address(place) else place
    config = directory / "config.json"
    text = config.read_text(encoding="utf-8", errors="replace") if config.is_file() else ""
    if (directory / "run.json").exists() or '"model_type"' not in text:
        return None
    register()
    import transformers

    source = re.sub(r"^hf:/+|@.*$", "", str(place)) if is_address(place) else place
    try:
        config = transformers.AutoConfig.from_pretrained(source)
        kind = getattr(transformers, (config.architectures or ["AutoModel"])[0], transformers.AutoModel)
        model = kind.from_pretrained(source, attn_implementation=NAME)
        return model, transformers.AutoTokenizer.from_pretrained(source)
    except (OSError, ValueError, KeyError, ImportError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise UserError(f"{source}: transformers cannot load this model: {reason}") from None


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
