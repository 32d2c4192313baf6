"""``transformers``' Marian architecture (``MarianMTModel``, the published opus-mt models) to our model and back.

Junczys-Dowmunt et al. 2018, "Marian"; Tiedemann and Thottingal 2020, "OPUS-MT". Only state dicts and plain values go
in and out; ``transformers`` is not needed.

**What a target begins with.** There is no ``<bos>``: give ``ids.start_id``, which is the padding, as ``bos_id``. The
padding's embedding is zero, and there it is a real token; a mask of the target must not be made from ids.

**What generate() means here.** Their ``generate(num_beams=k, length_penalty=a, early_stopping="never",
max_new_tokens=n)`` is ``beam_search(beam_size=k, length_penalty=LengthPenalty(a, offset=0), max_length=n)`` of
``selfattn.decoding``, and with ``num_beams=1`` it is ``greedy``. The lengths of both count ``<eos>`` and not the start;
their ``max_length`` counts the start too. The differences:

- ``early_stopping=False``, their default, stops by an estimate and may miss a better target that is longer; ``True``
  stops at the first ``k``. Here stopping early never changes the result, as with ``"never"``.
- ``forced_eos_token_id`` makes a target that reaches the longest length end, at no cost. Here it is cut off, says so
  (``finished``), and comes after any finished one.
- ``bad_words_ids`` is applied to log-probabilities. Here :func:`never_write` takes such tokens out of the
  distribution, so that the others again sum to 1; as Marian itself, which has no padding among its words.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from selfattn.codec import read, write
from selfattn.convert.marian_config import MarianIds, config_from_marian, config_to_marian
from selfattn.errors import UserError
from selfattn.models.build import build
from selfattn.models.encoder_decoder.config import EncoderDecoderConfig
from selfattn.models.encoder_decoder.model import EncoderDecoder

_SHARED, HEAD, _BIAS = "model.shared.weight", "lm_head.weight", "final_logits_bias"
TABLES = ["model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"]
POSITIONS = ["model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight"]
_CONFIG, _GENERATION = "config.json", "generation_config.json"
_WEIGHTS, _PICKLED = "model.safetensors", "pytorch_model.bin"
_ADVICE = "is this a directory of a Marian model?"
_SPECIAL = ("decoder_start_token_id", "eos_token_id", "pad_token_id")
# Our names to theirs, in this order.
_OUTPUT = {"decoder.output.weight": HEAD, "decoder.output.bias": _BIAS}
_RENAMED = (
    (".embed.tokens.", ".embed_tokens."),
    (".self_attn_norm.", ".self_attn_layer_norm."),
    (".cross_attn_norm.", ".encoder_attn_layer_norm."),
    (".cross_attn.", ".encoder_attn."),
    (".feed_forward_norm.", ".final_layer_norm."),
    (".feed_forward.", "."),
)


@dataclass(frozen=True, eq=False)
class Marian:
    """A model of the Marian architecture, and what it takes to use it.

    Attributes:
        model: the model.
        config: what it is made of.
        ids: sizes of the vocabularies, and the special tokens.
    """

    model: EncoderDecoder
    config: EncoderDecoderConfig
    ids: MarianIds


def from_marian(state: Mapping[str, Tensor], config: Mapping[str, Any]) -> Marian:
    """Make our model from the weights and the configuration of a ``MarianMTModel``.

    The tables of positions, which older checkpoints hold, are left out: their sines are computed here. Of several names
    for one tied matrix one is enough; where there are more, they must be equal.

    Args:
        state: what ``MarianMTModel.state_dict()`` gives, or what ``save_pretrained`` writes; copied.
        config: what ``MarianConfig.to_dict()`` gives, or the values of ``config.json``.

    Returns:
        The model, in evaluation mode and in the dtype of the weights, on the CPU; its configuration; its ids.

    Raises:
        UserError: a key is missing or unused, a tensor has another shape than the configuration says, tied tensors
            differ, dtypes are mixed; and what
            :func:`~selfattn.convert.marian_config.config_from_marian` raises.

    Example:
        A model of our own, there and back:

        >>> from selfattn.models.transformer_config import TransformerConfig
        >>> stack = TransformerConfig(dim=6, num_heads=3, norm_first=False, sinusoid_layout="halves")
        >>> config = EncoderDecoderConfig(encoder=stack, decoder=stack, share_embeddings=True, tie_output=True)
        >>> ids = MarianIds(vocab_size=11, source_vocab_size=11, start_id=10, eos_id=0, pad_id=10)
        >>> model = build(config, vocab_size=11, pad_id=10, seed=0)
        >>> back = from_marian(*to_marian(Marian(model, config, ids)))
        >>> all(torch.equal(back.model.state_dict()[name], tensor) for name, tensor in model.state_dict().items())
        True
    """
    ours, ids = config_from_marian(config)
    model = _built(ours, ids)
    expected = _in_their_names(model)
    state = {name: tensor for name, tensor in state.items() if name not in POSITIONS}
    for names in _tied(ours):
        _spread(state, names)
    if ours.share_embeddings:
        state.pop(_SHARED, None)
    if wrong := sorted(expected.keys() ^ state.keys()):
        raise UserError(f"weights: missing or not of this model: {', '.join(wrong)}")
    dtypes = {tensor.dtype for tensor in state.values()}
    if len(dtypes) > 1 or not all(dtype.is_floating_point for dtype in dtypes):
        raise UserError(f"weights: expected one floating point dtype, got {', '.join(sorted(map(str, dtypes)))}")
    for name, tensor in expected.items():
        if (shape := tuple(state[name].shape)) != tuple(tensor.shape):
            raise UserError(f"weights: {name} has shape {shape}, the configuration says {tuple(tensor.shape)}")
    for name, tensor in _in_their_names(model.to(dtypes.pop())).items():
        tensor.copy_(state[name])
    return Marian(model.eval(), ours, ids)


def to_marian(marian: Marian) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Write the weights and the configuration of a ``MarianMTModel``.

    Args:
        marian: the model with the configuration that it was built from.

    Returns:
        All that ``MarianMTModel(MarianConfig(**config)).load_state_dict(state)`` wants, under every name of tied
        matrices, tables of positions included; and the configuration. Tensors share memory with the model.

    Raises:
        UserError: what :func:`~selfattn.convert.marian_config.config_to_marian` raises.

    Example:
        See :func:`from_marian`.
    """
    config = config_to_marian(marian.config, marian.ids)
    state = _in_their_names(marian.model)
    for names in _tied(marian.config):
        _spread(state, names)
    positions = position_table(config["max_position_embeddings"], config["d_model"])
    return state | {name: positions.to(state[HEAD].dtype) for name in POSITIONS}, config


def never_write(model: EncoderDecoder, tokens: Iterable[int]) -> None:
    """Make some tokens impossible as outputs, in place: their bias in the output layer becomes minus infinity.

    The published models need it for the padding: they were trained without that word, and its logit is always 0.

    Args:
        model: whose output layer has a bias.
        tokens: their ids, such as ``ids.never_written`` of what :func:`load_marian` returns.

    Example:
        >>> from selfattn.models.presets import PRESETS
        >>> model = build(PRESETS["transformer"].config, vocab_size=5, pad_id=0, seed=0)
        >>> never_write(model, [0])
        >>> ids = torch.tensor([[1]])
        >>> model(ids, ids, source_mask=ids > 0)[0, 0, 0].item()
        -inf
    """
    with torch.no_grad():
        model.decoder.output.bias[list(tokens)] = -torch.inf


def position_table(length: int, dim: int) -> Tensor:
    """Return the sines and cosines of the architecture, computed in float64, as float32 ``[length dim]``.

    Example:
        >>> position_table(1, 4).tolist()
        [[0.0, 0.0, 1.0, 1.0]]
    """
    steps = torch.tensor([10000.0 ** (2 * k / dim) for k in range(dim // 2)], dtype=torch.float64)
    angles = torch.arange(length, dtype=torch.float64)[:, None] / steps
    return torch.cat([angles.sin(), angles.cos()], dim=-1).float()


def _built(config: EncoderDecoderConfig, ids: MarianIds) -> EncoderDecoder:
    model = build(config, vocab_size=ids.vocab_size, source_vocab_size=ids.source_vocab_size, pad_id=ids.pad_id, seed=0)
    assert isinstance(model, EncoderDecoder)
    return model


def _in_their_names(model: EncoderDecoder) -> dict[str, Tensor]:
    """Return the weights of a model in their names and shapes; they share memory with it."""
    state: dict[str, Tensor] = {}
    for name, tensor in model.state_dict().items():
        theirs = f"model.{name}"
        for ours, other in _RENAMED:
            theirs = theirs.replace(ours, other)
        state[_OUTPUT.get(name, theirs)] = tensor
    return state | {_BIAS: state[_BIAS][None]}


def _tied(config: EncoderDecoderConfig) -> list[list[str]]:
    """Name the tensors that are one matrix, group by group."""
    if config.share_embeddings:
        return [[_SHARED, *TABLES, *([HEAD] if config.tie_output else [])]]
    return [[TABLES[1], HEAD]] if config.tie_output else []


def _spread(state: dict[str, Tensor], names: list[str]) -> None:
    """Give all these names the tensor that some of them have."""
    present = [name for name in names if name in state]
    for name in present[1:]:
        if not torch.equal(state[name], state[present[0]]):
            raise UserError(f"weights: {present[0]} and {name} differ, but the configuration says that they are one")
    for name in names if present else ():
        state[name] = state[present[0]]


def load_marian(directory: str | Path) -> Marian:
    """Read a checkpoint directory of the Marian architecture. Nothing is downloaded.

    Read are ``config.json``; the ids of ``generation_config.json``, where there is one; and the weights in
    ``model.safetensors``, or else in ``pytorch_model.bin``, which may hold tensors and nothing that could be run.
    Before a published model decodes, :func:`~selfattn.convert.marian.never_write` has to be told what it never writes.

    Args:
        directory: where the files are.

    Returns:
        The model, in evaluation mode and in the dtype of the weights (``.model.float()`` widens half precision), its
        configuration, and what its ids mean.

    Raises:
        UserError: a file is missing or cannot be read; the two configurations name different special tokens; and what
            :func:`~selfattn.convert.marian.from_marian` raises.

    Example:
        >>> load_marian("opus-mt-nowhere")
        Traceback (most recent call last):
        ...
        selfattn.errors.UserError: opus-mt-nowhere/config.json: no such file; is this a directory of a Marian model?
    """
    directory = Path(directory)
    config = read(dict[str, Any], directory / _CONFIG, advice=_ADVICE)
    if (directory / _GENERATION).exists():
        generation = read(dict[str, Any], directory / _GENERATION, advice=_ADVICE)
        for name in _SPECIAL:
            if name in generation and generation[name] != config.get(name):
                raise UserError(
                    f"{directory / _GENERATION}: {name} is {generation[name]!r}, in {_CONFIG} {config.get(name)!r}"
                )
        if "bad_words_ids" in generation:
            config["bad_words_ids"] = generation["bad_words_ids"]
    state = _read_weights(directory)
    try:
        return from_marian(state, config)
    except UserError as error:
        raise UserError(f"{directory}: {error}") from None


def save_marian(marian: Marian, directory: str | Path) -> None:
    """Write a checkpoint directory that ``MarianMTModel.from_pretrained`` reads.

    The files are ``config.json``, ``generation_config.json`` (the special tokens only) and ``model.safetensors``. The
    tokenizer's files are not written: copy those of the model that this one was made from.

    Args:
        marian: the model with the configuration that it was built from.
        directory: made where it does not exist; files of these names are replaced.

    Raises:
        UserError: what :func:`~selfattn.convert.marian.to_marian` raises.

    Example:
        >>> import tempfile
        >>> from selfattn.convert.marian_config import MarianIds
        >>> from selfattn.models.build import build
        >>> from selfattn.models.encoder_decoder.config import EncoderDecoderConfig
        >>> from selfattn.models.transformer_config import TransformerConfig
        >>> stack = TransformerConfig(dim=6, num_heads=3, norm_first=False, sinusoid_layout="halves")
        >>> config = EncoderDecoderConfig(encoder=stack, decoder=stack)
        >>> ids = MarianIds(vocab_size=11, source_vocab_size=7, start_id=5, eos_id=0, pad_id=5)
        >>> model = build(config, vocab_size=11, source_vocab_size=7, pad_id=5, seed=0)
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     save_marian(Marian(model, config, ids), directory)
        ...     load_marian(directory).ids == ids
        True
    """
    state, config = to_marian(marian)
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    generation = {name: config[name] for name in _SPECIAL}
    if marian.ids.never_written:
        generation["bad_words_ids"] = [[token] for token in marian.ids.never_written]
    write(directory / _CONFIG, config)
    write(directory / _GENERATION, generation)
    # One name of each tied matrix, and no tables of positions, as `save_pretrained` does.
    drop = list(POSITIONS)
    if marian.config.tie_output:
        drop += [HEAD, *(TABLES if marian.config.share_embeddings else [])]
    saved = {name: tensor.contiguous().clone() for name, tensor in state.items() if name not in drop}
    save_file(saved, directory / _WEIGHTS, metadata={"format": "pt"})


def _read_weights(directory: Path) -> dict[str, Tensor]:
    if (directory / _WEIGHTS).exists():
        try:
            return load_file(directory / _WEIGHTS)
        except SafetensorError as error:
            raise UserError(f"{directory / _WEIGHTS}: damaged or no safetensors file ({error})") from None
    path = directory / _PICKLED
    if not path.exists():
        raise UserError(f"{directory}: holds neither {_WEIGHTS} nor {_PICKLED}; the weights must be in one file")
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError) as error:
        reason = str(error).partition("\n")[0]
        raise UserError(f"{path}: damaged, or holds more than tensors, which is not read ({reason})") from None
    if not isinstance(state, dict) or not all(isinstance(tensor, Tensor) for tensor in state.values()):
        raise UserError(f"{path}: expected tensors by name, got {type(state).__name__}")
    return dict(state)
