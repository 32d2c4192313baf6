"""Marian models of Hugging Face (opus-mt) as the start of a training: weights, tokens and settings, or a refusal."""

import json
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from selfattn import codec
from selfattn.convert.marian import Marian, MarianIds, from_marian
from selfattn.errors import UserError, option
from selfattn.files import reading
from selfattn.models.build import build
from selfattn.models.families import EncoderDecoderConfig
from selfattn.models.protocol import Seq2Seq
from selfattn.tokenizers.borrowed import MarianSpecials, MarianTokenizer
from selfattn.tokenizers.load import SeparateTokenizer
from selfattn.tokenizers.protocol import BOS, PAD

RECIPE: dict[str, Any] = {"epochs": 3, "lr": 5e-5, "schedule": "linear", "average": "none"}
"""Settings of a training that starts from such a model, in place of the recipe's for random weights."""

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
_PICKLED = "pytorch_model.bin"
_MODELS = {"source": "source.spm", "target": "target.spm"}
FILES = ("*.spm",)
"""Patterns of the files that such a model has beside those of a run."""
_VOCABULARY = "vocab.json"
_TARGET_VOCABULARY = "target_vocab.json"
_TOKENIZER = "tokenizer_config.json"
_GENERATION = "generation_config.json"
_NEVER = -100.0  # below all biases: for <pad> and <bos>, which the model must not write; the loss stays finite
_ADVICE = "restore the files of the model"
# Names of the special tokens, and what else tokenizer_config.json says that a text's tokens do not depend on.
_NAMES = {"unk_token": "<unk>", "eos_token": "</s>", "pad_token": "<pad>"}
_DESCRIPTIVE = set(
    """
    source_lang target_lang separate_vocabs model_max_length name_or_path special_tokens_map_file tokenizer_file
    vocab source_spm target_spm target_vocab_file backend is_local local_files_only processor_class
    """.split()  # noqa: SIM905  # a list would take fifteen lines
)
_ONLY: dict[str, tuple[Any, ...]] = {
    "tokenizer_class": ("MarianTokenizer",),
    "sp_model_kwargs": (None, {}),
    "additional_special_tokens": (None, []),
    "extra_special_tokens": (None, [], {}),
    "clean_up_tokenization_spaces": (None, False),
}


@dataclass(frozen=True, eq=False)
class MarianStart:
    """A Marian model with the ids and files of selfattn.

    Attributes:
        config: of the model.
        model: in evaluation mode, in float32.
        tokenizer: of both sides.
        notes: lines on what a user should know of it.
    """

    config: EncoderDecoderConfig
    model: Seq2Seq
    tokenizer: SeparateTokenizer
    notes: Sequence[str]


@dataclass(frozen=True)
class MarianDirectory:
    """A Marian model of Hugging Face on disk.

    Attributes:
        path: directory as ``save_pretrained`` writes it, with ``source.spm``, ``target.spm`` and ``vocab.json``.
    """

    path: Path

    @property
    def weights_file(self) -> Path:
        """The file with the weights."""
        return self.path / WEIGHTS if (self.path / WEIGHTS).is_file() else self.path / _PICKLED

    @cached_property
    def tokenizer_settings(self) -> dict[str, Any]:
        """What ``tokenizer_config.json`` says; empty without."""
        file = self.path / _TOKENIZER
        return _json(file) if file.is_file() else {}

    @property
    def languages(self) -> tuple[str, str]:
        """The languages of source and target as the tokenizer's settings name them; empty where they do not."""
        settings = self.tokenizer_settings
        return str(settings.get("source_lang") or ""), str(settings.get("target_lang") or "")

    def open(self) -> MarianStart:
        """Open the model with its tokens.

        The tokens are those of the model, under ids that begin with the four special tokens of selfattn, and the tables
        are in that order. All logits are the model's, but those of ``<pad>`` and ``<bos>``, which it never writes.

        Raises:
            UserError: a file is missing or broken, or says something that has no counterpart here; the message names
                it.
        """
        path = self.path
        for name in ("added_tokens.json", "adapter_config.json"):
            if (path / name).is_file() and _json(path / name):
                raise UserError(f"{path / name}: has no counterpart in a run; merge or remove what it adds")
        settings = _json(path / CONFIG)
        weights = self._weights()
        try:
            marian = from_marian(weights, settings)
        except UserError as error:
            raise UserError(f"{path}: {error}") from None
        tokenizer = self._tokenizer(marian.ids, shares=marian.config.share_embeddings)
        sizes = {"vocab_size": len(tokenizer), "source_vocab_size": len(tokenizer.source)}
        model = build(marian.config, **sizes, pad_id=PAD)
        model.load_state_dict(_in_our_order(marian, tokenizer))
        return MarianStart(marian.config, model.eval(), tokenizer, self._notes(tokenizer))

    def _weights(self) -> dict[str, Tensor]:
        """Read the weights as float32."""
        file = self.weights_file
        if not file.is_file():
            raise UserError(f"{self.path}: no weights in it; expected {WEIGHTS} or {_PICKLED}")
        try:
            with reading(file, _ADVICE):
                if file.suffix == ".safetensors":
                    state = load_file(file)
                else:
                    state = torch.load(file, map_location="cpu", weights_only=True)
        except (SafetensorError, pickle.UnpicklingError, RuntimeError, EOFError) as error:
            reason = " ".join(str(error).split())[:200]
            raise UserError(f"{file}: cannot be read as weights ({reason}); {_ADVICE}") from None
        if not isinstance(state, Mapping):
            raise UserError(f"{file}: expected tensors by name; {_ADVICE}")
        return {name: tensor.float() if isinstance(tensor, Tensor) else tensor for name, tensor in state.items()}

    def _tokenizer(self, ids: MarianIds, *, shares: bool) -> SeparateTokenizer:
        """Open the tokenizers of both sides."""
        path = self.path
        settings = self.tokenizer_settings
        names = self._special_names()
        has_two = bool(settings.get("separate_vocabs", False))
        if has_two and shares:
            raise UserError(f"{path / _TOKENIZER}: separate_vocabs, but {CONFIG} says that both sides share one table")
        sides = {}
        for side, size in (("source", ids.source_vocab_size), ("target", ids.vocab_size)):
            file = path / (_TARGET_VOCABULARY if has_two and side == "target" else _VOCABULARY)
            numbers = _json(file)
            if len(numbers) != size:
                raise UserError(f"{file}: {len(numbers):,} pieces, but {CONFIG} says {size:,}; {_ADVICE}")
            for name, number in ((names["eos_token"], ids.eos_id), (names["pad_token"], ids.pad_id)):
                if numbers.get(name) != number:
                    raise UserError(
                        f"{file}: {name} has the id {numbers.get(name)}, but {CONFIG} says {number}; {_ADVICE}"
                    )
            unknown = numbers.get(names["unk_token"])
            if unknown is None:
                raise UserError(f"{file}: has no {names['unk_token']}; {_ADVICE}")
            start = ids.pad_id if has_two and side == "source" else ids.start_id
            specials = MarianSpecials(ids.pad_id, start, ids.eos_id, unknown)
            sides[side] = MarianTokenizer.open(path / _MODELS[side], file, specials)
        return SeparateTokenizer(sides["source"], sides["target"])

    def _special_names(self) -> dict[str, str]:
        """Refuse settings of the tokenizer that are not understood; return the names of the special tokens."""
        file = self.path / _TOKENIZER
        settings = self.tokenizer_settings
        names = {}
        for setting, usual in _NAMES.items():
            name = settings.get(setting, usual)
            names[setting] = _content(name if isinstance(name, dict) else {"content": name}, f"{file}: {setting}")
        for setting, value in settings.items():
            if setting == "added_tokens_decoder":
                if not isinstance(value, dict):
                    raise UserError(f"{file}: {setting}: expected an object; {_ADVICE}")
                added = {_content(entry, f"{file}: {setting}") for entry in value.values()}
                if not added <= set(names.values()):
                    raise UserError(f"{file}: {setting}: adds {min(added - set(names.values()))}; not understood")
            elif setting in _ONLY:
                if value not in _ONLY[setting]:
                    raise UserError(f"{file}: {setting}: {json.dumps(value)[:60]} has no counterpart in a run")
            elif setting not in _NAMES and setting not in _DESCRIPTIVE:
                raise UserError(f"{file}: {setting}: is not understood; remove it if the tokens do not depend on it")
        return names

    def _notes(self, tokenizer: SeparateTokenizer) -> list[str]:
        """Return lines on what a user should know of a model."""
        source, target = self.languages
        languages = f", {source} to {target}" if source and target else ""
        notes = [f"init-from {self.path}: a Marian model{languages}; its tokens and weights as they are"]
        codes = tokenizer.source.codes if isinstance(tokenizer.source, MarianTokenizer) else []
        if codes:
            shown = ", ".join(codes[:3])
            notes.append(f"  {len(codes):,} language codes such as {shown}: each source text begins with one of them")
        file = self.path / _GENERATION
        beams = _json(file).get("num_beams", 1) if file.is_file() else 1
        if beams != 1:
            notes.append(f"  {_GENERATION}: {beams} beams are not part of a run; decode with {option('beam')} {beams}")
        return notes


def _json(path: Path) -> dict[str, Any]:
    """Read an object of JSON."""
    values = codec.read_json(path, advice=_ADVICE)
    if not isinstance(values, dict):
        raise UserError(f"{path}: expected an object of JSON; {_ADVICE}")
    return values


def _content(entry: object, place: str) -> str:
    """Return the text of a token that an object of JSON describes."""
    content = entry.get("content") if isinstance(entry, dict) else None
    if not isinstance(content, str):
        raise UserError(f"{place}: a token without its text; {_ADVICE}")
    return content


def _in_our_order(marian: Marian, tokenizer: SeparateTokenizer) -> dict[str, Tensor]:
    """Return the weights with the rows of all tables in the order of our ids."""
    rows = {}
    for side, part in (("encoder", tokenizer.source), ("decoder", tokenizer.target)):
        assert isinstance(part, MarianTokenizer)
        rows[side] = torch.tensor(part.theirs)
    order = {f"{side}.embed.tokens.weight": rows[side] for side in rows}
    order |= {"decoder.output.weight": rows["decoder"], "decoder.output.bias": rows["decoder"]}
    state = {name: t[order[name]] if name in order else t for name, t in marian.model.state_dict().items()}
    bias = state["decoder.output.bias"]
    bias[[PAD, BOS]] = bias.min() + _NEVER
    return state
