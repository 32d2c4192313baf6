"""A local directory as ``MarianMTModel.save_pretrained`` writes it, or as opus-mt models are published: in and out."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from selfattn.codec import read, write
from selfattn.convert.marian import HEAD, POSITIONS, TABLES, Marian, from_marian, to_marian
from selfattn.errors import UserError

_CONFIG, _GENERATION = "config.json", "generation_config.json"
_WEIGHTS, _PICKLED = "model.safetensors", "pytorch_model.bin"
_ADVICE = "is this a directory of a Marian model?"
_SPECIAL = ("decoder_start_token_id", "eos_token_id", "pad_token_id")


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
    save_file(_saved(state, marian), directory / _WEIGHTS, metadata={"format": "pt"})


def _saved(state: dict[str, Tensor], marian: Marian) -> dict[str, Tensor]:
    """Keep one name of each tied matrix, and no tables of positions, as ``save_pretrained`` does."""
    drop = list(POSITIONS)
    if marian.config.tie_output:
        drop += [HEAD, *(TABLES if marian.config.share_embeddings else [])]
    return {name: tensor.contiguous().clone() for name, tensor in state.items() if name not in drop}


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
