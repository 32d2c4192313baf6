"""The attention explorer on Hugging Face models: how they read texts, and what their attention is."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from selfattn.decoding.common import evaluating
from selfattn.errors import UserError, described
from selfattn.integrations.foreign import check_reads_text
from selfattn.integrations.passages import Kind
from selfattn.integrations.watch import Watch, watch
from selfattn.runs.attention_view import AttentionView

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
    generate: Mapping[str, Any] | None = None,
) -> AttentionView:
    """Run a Hugging Face model on a text and return its attention, which draws itself in a notebook.

    An encoder-decoder reads the text and writes the target, or what it generates where there is no target. An encoder
    reads text and target as two sentences, as its tokenizer joins them; a decoder reads the target as the text's
    continuation. The model need not be able to return its weights. For weights that you computed yourself, see
    :func:`~selfattn.integrations.own_weights.explore_weights`.

    Args:
        model: of transformers.
        tokenizer: of the model.
        text: the input.
        target: the output, the second sentence, or the continuation; default what an encoder-decoder generates, and
            nothing for other models.
        layers: numbers from 0, counted apart for encoder, decoder and cross-attention; default all.
        heads: numbers from 0; default all.
        max_new_tokens: most tokens to generate; default 128.
        generate: further arguments of ``model.generate``, such as ``{"num_beams": 4, "forced_bos_token_id": 7}``. With
            them, ``{}`` included, a decoder goes on with the text.

    Returns:
        An :class:`AttentionView`; ``.save("map.html")`` writes it as a page.

    Raises:
        UserError: transformers is not installed; text or target is no text, has no token, or more tokens than the
            model has positions; the model reads no text, cannot generate, or hands over no weights; there is no such
            layer or head; or there are more than 20 million weights, which no page can show.

    Example:
        ``explore(AutoModel.from_pretrained("DIR"), AutoTokenizer.from_pretrained("DIR"), "a small text")``
    """
    for name, value in (("text", text), ("target", target)):
        if not isinstance(value, str) and (name == "text" or value is not None):
            raise UserError(f"`{name}` is one text, not {type(value).__name__}: explore several one after another")
    if target is not None and generate is not None:
        raise UserError("give `target` or `generate`: with a target nothing is generated")
    check_reads_text(model)
    is_pair = bool(model.config.is_encoder_decoder)
    options = {"max_new_tokens": max_new_tokens} | dict(generate or {})
    kinds = {layer.kind for layer in Watch(model, layers, heads).by_module.values()}
    is_two = not is_pair and target is not None and "decoder" not in kinds
    with evaluating(model), torch.inference_mode():
        read = text if is_pair or is_two or target is None else text + target
        inputs, second = encoded(model, tokenizer, read, target if is_two else None)
        check_positions(model, inputs["input_ids"].shape[1], "text")
        labels = inputs["input_ids"][:, :0]
        if is_pair and target is not None:
            labels = tokenizer(text_target=target, return_tensors="pt").input_ids.to(model.device)
            if not labels.numel():
                raise UserError("the target has no token: give some words")
            inputs["decoder_input_ids"] = decoder_inputs(model, labels)
        elif is_pair or generate is not None:
            written = _generated(model, inputs, options)
            labels = written[:, 1:] if is_pair else labels
            inputs = inputs | {"decoder_input_ids": written[:, :-1]} if is_pair else {"input_ids": written}
        source = inputs["input_ids"]
        check_positions(model, max(source.shape[1], labels.shape[1]), "target" if is_pair else "text")
        with warnings.catch_warnings(), watch(model, layers=layers, heads=heads) as seen:
            warnings.filterwarnings("ignore", message="watch: no weights")  # the view says it
            check_size(model, seen, source.shape[1], labels.shape[1])
            try:
                model(**inputs, **({"use_cache": False} if is_pair else {}))
            except UserError:
                raise
            except (IndexError, RuntimeError, TypeError, ValueError) as error:
                raise UserError(f"{type(model).__name__} cannot read this text: {described(error)}") from error
    if not seen.layers:
        names = ", ".join(layer.name for layer in seen.without_weights) or "no layer ran"
        raise UserError(f"{type(model).__name__} hands over no attention weights: {names}")
    if second is not None:
        read = f"{text} ↔ {target}"
    elif generate is not None and not is_pair:
        read = str(tokenizer.decode(source[0], skip_special_tokens=True))
    return _view(model, tokenizer, seen, read, source[0], labels[0], second)


def _view(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    seen: Watch,
    read: str,
    source: Tensor,
    labels: Tensor,
    second: int | None,
) -> AttentionView:
    """Return the weights that were seen, as a view."""
    is_pair = bool(model.config.is_encoder_decoder)
    maps: dict[Kind, dict[int, Tensor]] = {"cross": {}, "encoder": {}, "decoder": {}}
    s = len(source)
    t = len(labels)
    sizes: dict[Kind, tuple[int, int]] = {"encoder": (s, s), "decoder": (t, t), "cross": (t, s)}
    for layer in seen.layers:
        kind: Kind = layer.kind if is_pair else "encoder"  # of one sequence, to itself
        for call in layer.calls:  # more than one where layers share their weights
            i, j = call.shape[-2:]
            if (i, j) != sizes[kind]:
                raise UserError(f"{layer.name}: its {i} queries and {j} keys are not the tokens of the text")
            number = layer.number if len(layer.calls) == 1 else len(maps[kind])
            if number in maps[kind]:
                advice = "explore a part of the model alone"
                raise UserError(f"{layer.name}: another tower has a layer {number} too: {advice}")
            maps[kind][number] = call[0].float().cpu()
    return AttentionView(
        source=read,
        prediction=str(tokenizer.decode(labels, skip_special_tokens=True)),
        source_tokens=readable(tokenizer, source),
        target_tokens=readable(tokenizer, labels),
        weights=tuple(maps["cross"].values()),
        encoder_weights=tuple(maps["encoder"].values()),
        decoder_weights=tuple(maps["decoder"].values()),
        layers={kind: list(weights) for kind, weights in maps.items()},
        heads=() if seen.heads is None else tuple(seen.heads),
        model=Path(model.config.name_or_path or "").name or type(model).__name__,
        second=second,
        without=tuple(layer.name for layer in seen.without_weights),
    )


def _generated(model: Any, inputs: Mapping[str, Tensor], options: Mapping[str, Any]) -> Tensor:
    """Return the tokens ``[1 t]`` that a model generates, the decoder's beginning or the prompt among them.

    Raises:
        UserError: the model cannot generate, or not with these arguments.
    """
    name = type(model).__name__
    if not model.can_generate():
        raise UserError(f"{name} cannot generate: give a `target`, or load the model with its head for generation")
    if options.get("num_return_sequences", 1) != 1:
        raise UserError("`num_return_sequences`: the explorer shows one sequence; leave it out")
    try:
        written = model.generate(**inputs, **options)
    except (TypeError, ValueError) as error:
        raise UserError(f"{name} cannot generate like this: {described(error)}") from error
    tokens: Tensor = written if isinstance(written, Tensor) else written.sequences
    return tokens


def check_size(model: PreTrainedModel, seen: Watch, source: int, target: int) -> None:
    """Check that a page can show the weights of the layers and heads that are watched.

    Raises:
        UserError: there are more than 20 million.
    """
    sizes = {"encoder": source * source, "decoder": target * target, "cross": source * target}
    if not model.config.is_encoder_decoder:
        sizes["decoder"] = source * source
    num_heads = model.config.get_text_config().num_attention_heads if seen.heads is None else len(seen.heads)
    count = sum(sizes[layer.kind] for layer in seen.by_module.values()) * num_heads
    if count > MOST_WEIGHTS:
        advice = "give a shorter text, or choose `layers` and `heads`"
        raise UserError(f"{count:,} weights are more than a page can show ({MOST_WEIGHTS:,}): {advice}")


def encoded(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, text: str, second: str | None = None
) -> tuple[dict[str, Tensor], int | None]:
    """Return what a model reads for a text, or for two sentences, and where the second begins.

    Args:
        model: of transformers.
        tokenizer: of the model.
        text: the text, or the first sentence.
        second: the second sentence; default none.

    Raises:
        UserError: there is no token.
    """
    named = inspect.signature(model.forward).parameters  # what only `**kwargs` takes is not understood
    has_segments = "token_type_ids" in named and getattr(model.config, "type_vocab_size", 0) > 1
    options = {"return_token_type_ids": True} if has_segments else {}
    encoding = tokenizer(text, second, return_tensors="pt", **options)
    tokens = encoding["input_ids"]
    if not tokens.numel():
        raise UserError("the text has no token: give some words")
    inputs = {name: tensor.to(model.device) for name, tensor in encoding.items() if name in named}
    inputs["input_ids"] = tokens.to(model.device)
    start = None
    if second is not None:
        if not tokenizer.is_fast:
            raise UserError("two sentences need a fast tokenizer: load it with AutoTokenizer")
        sentences = encoding.sequence_ids(0)
        start = sentences.index(1) if 1 in sentences else None
        if start is None:
            raise UserError("the second sentence has no token: give some words")
    return inputs, start


def decoder_inputs(model: Any, labels: Tensor) -> Tensor:
    """Return what a decoder reads while it writes the labels ``[1 t]``: a beginning, and all labels but the last.

    Raises:
        UserError: the configuration does not say with which token the decoder begins.
    """
    if hasattr(model, "prepare_decoder_input_ids_from_labels"):
        shifted: Tensor = model.prepare_decoder_input_ids_from_labels(labels=labels)
        return shifted
    configs = (getattr(model, "generation_config", None), model.config)
    for name in ("decoder_start_token_id", "bos_token_id"):
        for config in configs:
            start = getattr(config, name, None)
            if start is not None:
                return torch.cat([labels.new_full((1, 1), start), labels[:, :-1]], dim=1)
    raise UserError(f"{type(model).__name__}: set model.config.decoder_start_token_id, with which a target begins")


def check_positions(model: PreTrainedModel, count: int, what: str) -> None:
    """Check that a model has a position for each token.

    Raises:
        UserError: there are more tokens than positions.
    """
    if any("rotary" in type(module).__name__.lower() for module in model.modules()):
        return  # positions without a table
    most = getattr(model.config.get_text_config(), "max_position_embeddings", None) or count
    for name, module in model.named_modules():
        is_table = isinstance(module, nn.Embedding) and name.endswith("embeddings.position_embeddings")
        if is_table and module.padding_idx is not None:  # RoBERTa counts from the position after that of the padding
            most = min(most, module.num_embeddings - module.padding_idx - 1)
    if count > most:
        raise UserError(f"the {what} has {count:,} tokens; {type(model).__name__} has positions for {most:,}")


def readable(tokenizer: PreTrainedTokenizerBase, ids: Tensor) -> tuple[str, ...]:
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
