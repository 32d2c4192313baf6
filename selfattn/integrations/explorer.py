"""The attention explorer on Hugging Face models: how they read texts, and what their attention is."""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from selfattn.decoding.common import evaluating
from selfattn.errors import UserError, describe_error
from selfattn.integrations.transformers import NAME, register
from selfattn.integrations.watch import Kind, Watch, watch
from selfattn.runs.attention_view import AttentionView
from selfattn.runs.hub import fetch, is_address

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

MOST_WEIGHTS = 20_000_000  # about as many characters of a page
Maps = Sequence[Tensor | None]


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
    :func:`~selfattn.integrations.explorer.explore_weights`.

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
        with warnings.catch_warnings(), watch(model, layers=layers, heads=heads) as watched:
            warnings.filterwarnings("ignore", message="watch: no weights")  # the view says it
            check_size(model, watched, source.shape[1], labels.shape[1])
            try:
                model(**inputs, **({"use_cache": False} if is_pair else {}))
            except UserError:
                raise
            except (IndexError, RuntimeError, TypeError, ValueError) as error:
                raise UserError(f"{type(model).__name__} cannot read this text: {describe_error(error)}") from error
    if not watched.layers:
        names = ", ".join(watched.without_weights) or "no layer ran"
        raise UserError(f"{type(model).__name__} hands over no attention weights: {names}")
    if second is not None:
        read = f"{text} ↔ {target}"
    elif generate is not None and not is_pair:
        read = str(tokenizer.decode(source[0], skip_special_tokens=True))
    return _view(model, tokenizer, watched, read, source[0], labels[0], second)


def _view(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    watched: Watch,
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
    for layer in watched.layers:
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
        heads=() if watched.heads is None else tuple(watched.heads),
        model=Path(model.config.name_or_path or "").name or type(model).__name__,
        second=second,
        without=watched.without_weights,
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
        raise UserError(f"{name} cannot generate like this: {describe_error(error)}") from error
    tokens: Tensor = written if isinstance(written, Tensor) else written.sequences
    return tokens


def check_size(model: PreTrainedModel, watched: Watch, source: int, target: int) -> None:
    """Check that a page can show the weights of the layers and heads that are watched.

    Raises:
        UserError: there are more than 20 million.
    """
    sizes = {"encoder": source * source, "decoder": target * target, "cross": source * target}
    if not model.config.is_encoder_decoder:
        sizes["decoder"] = source * source
    num_heads = model.config.get_text_config().num_attention_heads if watched.heads is None else len(watched.heads)
    count = sum(sizes[layer.kind] for layer in watched.by_module.values()) * num_heads
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


def check_positions(model: PreTrainedModel, count: int, side: str) -> None:
    """Check that a model has a position for each token.

    Raises:
        UserError: there are more tokens than positions.
    """
    if any("rotary" in type(module).__name__.lower() for module in model.modules()):
        return  # positions without a table
    limit = getattr(model.config.get_text_config(), "max_position_embeddings", None) or count
    for name, module in model.named_modules():
        is_table = isinstance(module, nn.Embedding) and name.endswith("embeddings.position_embeddings")
        if is_table and module.padding_idx is not None:  # RoBERTa counts from the position after that of the padding
            limit = min(limit, module.num_embeddings - module.padding_idx - 1)
    if count > limit:
        raise UserError(f"the {side} has {count:,} tokens; {type(model).__name__} has positions for {limit:,}")


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


def foreign_model(place: Path) -> tuple[PreTrainedModel, PreTrainedTokenizerBase] | None:
    """Load the Hugging Face model that a place names, with its tokenizer and with attention by :func:`selfattn.attend`.

    Args:
        place: a directory, or ``hf://ORG/NAME``. No code that comes with it is run.

    Returns:
        None where the place is a run of this project.

    Raises:
        UserError: the Hub cannot be reached; the model brings code of its own; it reads no text; or transformers is
            missing or cannot load it.
    """
    directory = fetch(place)
    config = directory / "config.json"
    text = config.read_text(encoding="utf-8", errors="replace") if config.is_file() else ""
    if (directory / "run.json").exists() or '"model_type"' not in text:
        return None
    register()
    import transformers

    source = re.sub(r"^hf:/+|@.*$", "", str(place)) if is_address(place) else place
    try:
        config = transformers.AutoConfig.from_pretrained(source, trust_remote_code=False)
        kind = getattr(transformers, (config.architectures or ["AutoModel"])[0], transformers.AutoModel)
        model = kind.from_pretrained(source, attn_implementation=NAME, trust_remote_code=False)
        check_reads_text(model)
        return model, transformers.AutoTokenizer.from_pretrained(source, trust_remote_code=False)
    except (OSError, ValueError, KeyError, ImportError) as error:
        reason = describe_error(error)
        if "trust_remote_code" in str(error):  # transformers has no native class for it
            reason = "it needs code that comes with it, which is never run"
        raise UserError(f"{source}: transformers cannot load this model: {reason}") from None


def check_reads_text(model: PreTrainedModel) -> None:
    """Check that a model reads tokens.

    Raises:
        UserError: it reads pictures or sound.
    """
    read = model.main_input_name
    if read != "input_ids":
        name = type(model).__name__
        raise UserError(f"{name} reads {read}, not text: keep its weights with selfattn.watch(model)")


def explore_weights(
    tokens: Sequence[str],
    attentions: Maps = (),
    *,
    target_tokens: Sequence[str] = (),
    decoder_attentions: Maps = (),
    cross_attentions: Maps = (),
    second: int | None = None,
    layers: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
    model: str = "model",
) -> AttentionView:
    """Return weights that you computed as a view, which draws itself in a notebook.

    The arguments are what models of transformers return with ``output_attentions=True``: for each layer a tensor
    ``[1 h i j]`` or ``[h i j]``. Row ``k`` belongs to the step that read token ``k``.

    Args:
        tokens: that the model reads, ``s`` of them.
        attentions: self-attention to these tokens, for each layer ``[h s s]``; None for a layer without weights.
        target_tokens: that a decoder reads, ``t`` of them; default none.
        decoder_attentions: self-attention of the decoder, ``[h t t]``; default none.
        cross_attentions: from target to source, ``[h t s]``; default none.
        second: the token with which the second of two sentences begins; default there is one sentence.
        layers: numbers from 0; default all.
        heads: numbers from 0; default all.
        model: what the model is called; default "model".

    Raises:
        UserError: there are no weights; several texts; other sizes than the tokens say; no such layer, head or
            ``second``; or more weights than a page can show.

    Example:
        >>> view = explore_weights(["a", "dog"], [torch.tensor([[[1.0, 0.0], [0.5, 0.5]]])])
        >>> view
        <AttentionView '' ← 'a dog': 1 layer, 1 head>
    """
    s = len(tokens)
    t = len(target_tokens)
    if second is not None and not 0 < second < s:
        raise UserError(f"`second` {second}: give the place of a token, 1 to {s - 1}")
    maps_by_kind: dict[Kind, tuple[str, Maps, tuple[int, int]]] = {
        "cross": ("cross_attentions", cross_attentions, (t, s)),
        "encoder": ("attentions", attentions, (s, s)),
        "decoder": ("decoder_attentions", decoder_attentions, (t, t)),
    }
    chosen: dict[Kind, dict[int, Tensor]] = {}
    without = []
    for kind, (name, maps, size) in maps_by_kind.items():
        chosen[kind] = {}
        numbers = range(len(maps)) if layers is None else layers
        for number in numbers if len(maps) else ():
            if not 0 <= number < len(maps):
                raise UserError(f"`layers` {number}: `{name}` has layers 0 to {len(maps) - 1}")
            weights = maps[number]
            if weights is None:
                without.append(f"{name}[{number}]")
            else:
                chosen[kind][number] = _checked(weights, f"{name}[{number}]", size, heads)
    for name, words in (("tokens", tokens), ("target_tokens", target_tokens)):
        if isinstance(words, str) or any(not isinstance(word, str) for word in words):
            raise UserError(f"`{name}`: expected a list of tokens as texts, such as ['good', 'dog']")
    count = sum(weights.numel() for weights in chain.from_iterable(maps.values() for maps in chosen.values()))
    if not count:
        raise UserError("no weights: run the model with `output_attentions=True` and attn_implementation='eager'")
    if count > MOST_WEIGHTS:
        raise UserError(f"{count:,} weights are more than a page can show ({MOST_WEIGHTS:,}): choose `layers`, `heads`")
    return AttentionView(
        source=" ".join(tokens),
        prediction=" ".join(target_tokens),
        source_tokens=tuple(tokens),
        target_tokens=tuple(target_tokens),
        weights=tuple(chosen["cross"].values()),
        encoder_weights=tuple(chosen["encoder"].values()),
        decoder_weights=tuple(chosen["decoder"].values()),
        layers={kind: list(maps_of_kind) for kind, maps_of_kind in chosen.items()},
        heads=() if heads is None else tuple(heads),
        model=model,
        second=second,
        is_shifted=False,
        without=tuple(without),
    )


def _checked(weights: Tensor, name: str, size: tuple[int, int], heads: Sequence[int] | None) -> Tensor:
    """Return the weights ``[h i j]`` of the heads that are chosen.

    Raises:
        UserError: they are of several texts, have another size, a row of more than 1, or no such head.
    """
    if not isinstance(weights, Tensor):
        raise UserError(f"{name} is a {type(weights).__name__}: make it a tensor, torch.as_tensor(weights)")
    if weights.dim() == 4 and len(weights) != 1:
        raise UserError(f"{name} has {len(weights)} texts: give one, such as weights[:1]")
    weights = weights[0] if weights.dim() == 4 else weights
    if weights.dim() != 3 or tuple(weights.shape[1:]) != size:
        raise UserError(f"{name} is {list(weights.shape)}: the tokens say [heads, {size[0]}, {size[1]}]")
    weights = weights.detach().float().cpu()
    if not bool(torch.isfinite(weights).all()) or weights.min() < -1e-3 or weights.max() > 1 + 1e-3:
        raise UserError(f"{name} is not between 0 and 1: give the weights after the softmax")
    if (largest := float(weights.sum(dim=-1).max())) > 1.02:  # less: a sink, or a key that is left out
        raise UserError(f"{name} has a row that sums to {largest:.2f}: rows are queries, columns are keys")
    if heads is None:
        return weights
    wrong = [head for head in heads if not 0 <= head < len(weights)]
    if wrong or not len(heads):
        raise UserError(f"`heads` {list(heads)}: {name} has heads 0 to {len(weights) - 1}")
    return weights[list(heads)]
