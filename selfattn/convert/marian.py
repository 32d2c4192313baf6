"""``transformers`` Marian models (``MarianMTModel``, the published opus-mt models) to ours and back, or a refusal.

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

import json
import pickle
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from selfattn import codec
from selfattn.convert.plain import check_like
from selfattn.errors import UserError, option
from selfattn.files import reading
from selfattn.models.build import build
from selfattn.models.config import override
from selfattn.models.encoder_decoder import EncoderDecoder
from selfattn.models.families import EncoderDecoderConfig, TransformerConfig
from selfattn.models.protocol import Seq2Seq
from selfattn.tokenizers.borrowed import MarianSpecials, MarianTokenizer
from selfattn.tokenizers.load import SeparateTokenizer
from selfattn.tokenizers.protocol import BOS, PAD

_SHARED = "model.shared.weight"
HEAD = "lm_head.weight"
_BIAS = "final_logits_bias"
TABLES = ["model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"]
POSITIONS = ["model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight"]
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
# What is one for both stacks there: our name to theirs.
_COMMON = {"dim": "d_model", "activation": "activation_function", "max_length": "max_position_embeddings"} | {
    name: name for name in ("scale_embedding", "dropout", "attention_dropout", "activation_dropout")
}
# What each stack has of its own: our name to theirs, behind the name of the side.
_OWN = {"num_layers": "layers", "num_heads": "attention_heads", "ffn_dim": "ffn_dim"}
# All settings of the model: our path to their name.
_SETTINGS = {"share_embeddings": "share_encoder_decoder_embeddings", "tie_output": "tie_word_embeddings"}
for _side in ("encoder", "decoder"):
    _SETTINGS |= {f"{_side}.{ours}": theirs for ours, theirs in _COMMON.items()}
    _SETTINGS |= {f"{_side}.{ours}": f"{_side}_{theirs}" for ours, theirs in _OWN.items()}
# What every Transformer stack of this architecture is where it has no setting.
_STACK = TransformerConfig(norm_first=False, sinusoid_layout="halves")
# What the ids are: our name to theirs.
_IDS = {
    "source_vocab_size": "vocab_size",
    "vocab_size": "decoder_vocab_size",
    "start_id": "decoder_start_token_id",
    "eos_id": "eos_token_id",
    "pad_id": "pad_token_id",
}
# The defaults of MarianConfig for what older files lack.
_DEFAULTS = {"share_encoder_decoder_embeddings": True, "tie_word_embeddings": True}

# What can have one value only, because another has no counterpart here, such as layers dropped as a whole.
_FIXED = {"model_type": "marian", "is_encoder_decoder": True, "is_decoder": False, "static_position_embeddings": True}
_FIXED |= {"normalize_before": False, "normalize_embedding": False, "add_final_layer_norm": False}
_FIXED |= {"encoder_layerdrop": 0.0, "decoder_layerdrop": 0.0, "add_bias_logits": False, "tie_encoder_decoder": False}
_FIXED |= {"architectures": ["MarianMTModel"]}
# Further names of a setting, which must say the same.
_ALIASES = {"hidden_size": "d_model", "num_hidden_layers": "encoder_layers"}
_ALIASES |= {"num_attention_heads": "encoder_attention_heads"}
# What says nothing of what the model computes: notes, forms of outputs, training, arguments of generate().
_DESCRIPTIVE = set(
    """
    transformers_version torch_dtype dtype torchscript use_bfloat16 tf_legacy_loss return_dict use_return_dict
    output_attentions output_hidden_states use_cache gradient_checkpointing chunk_size_feed_forward
    add_cross_attention id2label label2id num_labels problem_type classifier_dropout classif_dropout finetuning_task
    tokenizer_class prefix task_specific_params sep_token_id bos_token_id init_std extra_pos_embeddings
    max_length min_length max_new_tokens do_sample early_stopping num_beams num_beam_groups diversity_penalty
    temperature top_k top_p typical_p repetition_penalty length_penalty no_repeat_ngram_size
    encoder_no_repeat_ngram_size bad_words_ids num_return_sequences output_scores return_dict_in_generate
    forced_bos_token_id forced_eos_token_id remove_invalid_values exponential_decay_length_penalty suppress_tokens
    begin_suppress_tokens renormalize_logits
    """.split()  # noqa: SIM905  # a list would take fifty lines
)
_DTYPES = {torch.float16, torch.bfloat16, torch.float32, torch.float64}


@dataclass(frozen=True, kw_only=True)
class MarianIds:
    """What token ids mean to a model of the Marian architecture.

    Attributes:
        vocab_size: number of target tokens.
        source_vocab_size: number of source tokens.
        start_id: every target begins with it (``decoder_start_token_id``); in published models it is the padding.
        eos_id: ends source and target.
        pad_id: fills rows up.
    """

    vocab_size: int
    source_vocab_size: int
    start_id: int
    eos_id: int
    pad_id: int


def config_from_marian(config: Mapping[str, Any]) -> tuple[EncoderDecoderConfig, MarianIds]:
    """Read a Marian configuration.

    Args:
        config: the values of ``config.json``, or of ``MarianConfig.to_dict()``.

    Returns:
        Our configuration, and the ids.

    Raises:
        UserError: a value is missing, is not what it should be, or says something that has no counterpart here.

    Example:
        >>> theirs = {
        ...     "model_type": "marian", "vocab_size": 11, "d_model": 6, "max_position_embeddings": 32,
        ...     "encoder_layers": 2, "encoder_attention_heads": 3, "encoder_ffn_dim": 13,
        ...     "decoder_layers": 1, "decoder_attention_heads": 3, "decoder_ffn_dim": 17,
        ...     "activation_function": "swish", "scale_embedding": True,
        ...     "dropout": 0.1, "attention_dropout": 0.0, "activation_dropout": 0.0,
        ...     "decoder_start_token_id": 10, "eos_token_id": 0, "pad_token_id": 10,
        ... }
        >>> ours, ids = config_from_marian(theirs)
        >>> ours.encoder.activation, ours.encoder.num_layers, ids.start_id
        ('silu', 2, 10)
    """
    _check_settings(config, {*_SETTINGS.values(), *_IDS.values()})
    theirs: dict[str, Any] = _DEFAULTS | {"decoder_vocab_size": config.get("vocab_size")}
    theirs |= {name: value for name, value in config.items() if value is not None}
    sizes = theirs.get("vocab_size"), theirs["decoder_vocab_size"]
    if theirs["share_encoder_decoder_embeddings"] and sizes[0] != sizes[1]:
        raise UserError(f"decoder_vocab_size: {sizes[1]} differs from vocab_size {sizes[0]}, but there is one table")
    if theirs.get("activation_function") == "swish":
        theirs["activation_function"] = "silu"
    try:
        settings = {path: theirs[name] for path, name in _SETTINGS.items()}
        ours = override(EncoderDecoderConfig(encoder=_STACK, decoder=_STACK), settings, "")
        ids = MarianIds(**{ours: theirs[name] for ours, name in _IDS.items()})
    except KeyError as error:
        raise UserError(f"{error.args[0]}: is missing; is this the configuration of a Marian model?") from None
    _check_ids({theirs: getattr(ids, ours) for ours, theirs in _IDS.items()})
    return ours, ids


def config_to_marian(config: EncoderDecoderConfig, ids: MarianIds) -> dict[str, Any]:
    """Write a Marian configuration, for ``MarianConfig(**values)`` or a ``config.json``.

    Args:
        config: a Transformer encoder and decoder as the architecture has them.
        ids: sizes of the vocabularies, and the special tokens.

    Returns:
        Plain JSON values. ``forced_eos_token_id`` is null: no decoding here makes a target end that did not.

    Raises:
        UserError: the configuration says something that the architecture has not.

    Example:
        >>> ids = MarianIds(vocab_size=11, source_vocab_size=11, start_id=10, eos_id=0, pad_id=10)
        >>> config_to_marian(EncoderDecoderConfig(encoder=TransformerConfig(), decoder=TransformerConfig()), ids)
        Traceback (most recent call last):
        ...
        selfattn.errors.UserError: encoder.norm_first: the Marian architecture has False here, got True
    """
    stacks = {"encoder": config.encoder, "decoder": config.decoder}
    if not all(isinstance(stack, TransformerConfig) and stack.activation != "swiglu" for stack in stacks.values()):
        raise UserError("the Marian architecture is a Transformer encoder with a Transformer decoder, without swiglu")
    values: dict[str, Any] = {"model_type": "marian"}
    for path, name in _SETTINGS.items():
        values.setdefault(name, attrgetter(path)(config))
    values |= {name: getattr(ids, ours) for ours, name in _IDS.items()}
    back, _ = config_from_marian(values)
    for side, stack in stacks.items():
        for name, value in vars(stack).items():
            if value != (expected := getattr(getattr(back, side), name)):
                raise UserError(f"{side}.{name}: the Marian architecture has {expected!r} here, got {value!r}")
    if values["activation_function"] == "silu":
        values["activation_function"] = "swish"
    fixed = {"architectures": ["MarianMTModel"], "is_encoder_decoder": True}
    return fixed | {"forced_eos_token_id": None, "bos_token_id": None} | values


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

    The tables of positions are left out: their sines are computed here, and other values are refused. Of several names
    for one tied matrix one is enough; where there are more, they must be equal.

    Args:
        state: what ``MarianMTModel.state_dict()`` gives, or what ``save_pretrained`` writes; copied.
        config: what ``MarianConfig.to_dict()`` gives, or the values of ``config.json``.

    Returns:
        The model, in evaluation mode and in the dtype of the weights, on the CPU; its configuration; its ids.

    Raises:
        UserError: a key is missing or unused, a tensor has another shape than the configuration says, tied tensors
            differ, or the tensors are not of one floating dtype (quantised ones are refused); and what
            :func:`~selfattn.convert.marian.config_from_marian` raises.

    Example:
        A model of our own, there and back:

        >>> from selfattn.models.families import TransformerConfig
        >>> stack = TransformerConfig(dim=6, num_heads=3, norm_first=False, sinusoid_layout="halves")
        >>> config = EncoderDecoderConfig(encoder=stack, decoder=stack, share_embeddings=True, tie_output=True)
        >>> ids = MarianIds(vocab_size=11, source_vocab_size=11, start_id=10, eos_id=0, pad_id=10)
        >>> model = build(config, vocab_size=11, pad_id=10, seed=0)
        >>> back = from_marian(*to_marian(Marian(model, config, ids)))
        >>> all(torch.equal(back.model.state_dict()[name], tensor) for name, tensor in model.state_dict().items())
        True
    """
    ours, ids = config_from_marian(config)
    sizes = {"vocab_size": ids.vocab_size, "source_vocab_size": ids.source_vocab_size}
    model = build(ours, **sizes, pad_id=ids.pad_id, seed=0)
    assert isinstance(model, EncoderDecoder)
    expected = _in_their_names(model)
    _check_weights(state)
    for name in POSITIONS:
        if name in state:
            _check_positions(name, state[name], config["max_position_embeddings"], config["d_model"])
    state = {name: tensor for name, tensor in state.items() if name not in POSITIONS}
    _spread(state, _tied(ours))
    if ours.share_embeddings:
        state.pop(_SHARED, None)
    right, shapes = ({name: tuple(w.shape) for name, w in weights.items()} for weights in (expected, state))
    if wrong := sorted(name for name in right.keys() | shapes.keys() if right.get(name) != shapes.get(name)):
        raise UserError(f"weights: missing, not of this model, or of another shape: {', '.join(wrong)}")
    for name, tensor in _in_their_names(model.to(state[HEAD].dtype)).items():
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
        UserError: what :func:`~selfattn.convert.marian.config_to_marian` raises.
        ValueError: a part of the model was replaced, is pruned or parametrised, or has a hook.

    Example:
        See :func:`from_marian`.
    """
    config = config_to_marian(marian.config, marian.ids)
    sizes = {"vocab_size": marian.ids.vocab_size, "source_vocab_size": marian.ids.source_vocab_size}
    with torch.device("meta"):
        fresh = build(marian.config, **sizes, pad_id=marian.ids.pad_id)
    check_like(marian.model, fresh, "to_marian")
    state = _in_their_names(marian.model)
    _spread(state, _tied(marian.config))
    positions = _sines(config["max_position_embeddings"], config["d_model"]).to(state[HEAD].dtype)
    return state | dict.fromkeys(POSITIONS, positions), config


def never_write(model: EncoderDecoder, tokens: Iterable[int]) -> None:
    """Make some tokens impossible as outputs, in place: their bias in the output layer becomes minus infinity.

    The published models need it for the padding: they were trained without that word, and its logit is always 0.

    Args:
        model: whose output layer has a bias.
        tokens: their ids, such as ``[ids.pad_id]`` (``bad_words_ids`` of ``generation_config.json``).

    Example:
        >>> from selfattn.models.families import PRESETS
        >>> model = build(PRESETS["transformer"].config, vocab_size=5, pad_id=0, seed=0)
        >>> never_write(model, [0])
        >>> ids = torch.tensor([[1]])
        >>> model(ids, ids, source_mask=ids > 0)[0, 0, 0].item()
        -inf
    """
    with torch.no_grad():
        model.decoder.output.bias[list(tokens)] = -torch.inf


def _in_their_names(model: EncoderDecoder) -> dict[str, Tensor]:
    """Return the weights of a model in their names and shapes; they share memory with it."""
    state: dict[str, Tensor] = {}
    for name, tensor in model.state_dict().items():
        renamed = f"model.{name}"
        for ours, theirs in _RENAMED:
            renamed = renamed.replace(ours, theirs)
        state[_OUTPUT.get(name, renamed)] = tensor
    return state | {_BIAS: state[_BIAS][None]}


def _tied(config: EncoderDecoderConfig) -> list[str]:
    """Name the tensors that are one matrix."""
    if config.share_embeddings:
        return [_SHARED, *TABLES, *([HEAD] if config.tie_output else [])]
    return [TABLES[1], HEAD] if config.tie_output else []


def _spread(state: dict[str, Tensor], names: list[str]) -> None:
    """Give all these names the tensor that some of them have."""
    present = [name for name in names if name in state]
    for name in present[1:]:
        if not torch.equal(state[name], state[present[0]]):
            raise UserError(f"weights: {present[0]} and {name} differ, but the configuration says that they are one")
    for name in names if present else ():
        state[name] = state[present[0]]


def _check_settings(config: Mapping[str, Any], settings: set[str]) -> None:
    """Refuse a configuration that says something besides the architecture, such as quantised weights, by its name.

    Args:
        config: the values of ``config.json``.
        settings: the names of those that are read.

    Raises:
        UserError: a value has no counterpart, two names of one setting differ, or a name is unknown.
    """
    for name, only in _FIXED.items():
        is_unsaid = name == "architectures" and config.get(name) is None
        if name in config and config[name] != only and not is_unsaid:
            raise UserError(f"{name}: expected {only!r}, got {config[name]!r}; this has no counterpart here")
    for name, setting in _ALIASES.items():
        if config.get(name) is not None and config[name] != config.get(setting):
            raise UserError(f"{name}: {config[name]!r} differs from {setting} {config.get(setting)!r}")
    for name in sorted(config.keys() - settings - _FIXED.keys() - _ALIASES.keys() - _DESCRIPTIVE):
        is_empty = config[name] is None or config[name] == {} or config[name] == []
        if not name.startswith("_") and not is_empty:  # an underscore: transformers' own notes
            raise UserError(f"{name}: is no setting of a Marian model; this has no counterpart here")


def _check_ids(ids: Mapping[str, Any]) -> None:
    """Refuse ids that are none, or that a vocabulary does not have.

    Args:
        ids: by their names in the configuration, the sizes of the vocabularies among them.

    Raises:
        UserError: there is such an id.
    """
    for name, number in ids.items():
        if type(number) is not int or number < 0:
            raise UserError(f"{name}: expected a whole number of at least 0, got {number!r}")
    target = ids["decoder_vocab_size"]
    both = min(ids["vocab_size"], target)
    for name, size in {"decoder_start_token_id": target, "eos_token_id": both, "pad_token_id": both}.items():
        if ids[name] >= size:
            raise UserError(f"{name}: expected an id below {size}, got {ids[name]}")


def _sines(length: int, dim: int) -> Tensor:
    """Return the architecture's table of positions ``[length dim]``: sines in the first half, cosines in the second."""
    places = torch.arange(length, dtype=torch.float64)
    angles = places[:, None] / torch.tensor([10000.0 ** (2 * k / dim) for k in range(dim // 2)], dtype=torch.float64)
    return torch.cat([angles.sin(), angles.cos()], dim=-1).float()


def _check_positions(name: str, table: Tensor, length: int, dim: int) -> None:
    """Refuse a table of positions that are not the sines that are computed here."""
    if table.shape != (length, dim):
        raise UserError(f"{name}: expected a table of {length} positions by {dim}, got {list(table.shape)}")
    if not torch.allclose(table.float().cpu(), _sines(length, dim), atol=5e-3):  # bfloat16 has 8 bits
        raise UserError(f"{name}: these positions are not the sines of the architecture; this has no counterpart here")


def _check_weights(state: Mapping[str, Tensor]) -> None:
    """Refuse what is no plain tensor of numbers, and dtypes that cannot all be kept."""
    for name, tensor in state.items():
        is_plain = isinstance(tensor, Tensor) and type(tensor.data) is Tensor
        if not is_plain or tensor.dtype not in _DTYPES or tensor.is_meta:
            kind = f"{tensor.dtype} on {tensor.device}" if isinstance(tensor, Tensor) else type(tensor).__name__
            raise UserError(f"weights: {name}: expected a plain floating point tensor with values, got {kind}")
    kinds = sorted({str(tensor.dtype) for tensor in state.values()})
    if len(kinds) > 1:
        raise UserError(f"weights: expected one dtype, got {' and '.join(kinds)}; convert the state dict to one first")


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
_DESCRIPTIVE_OF_TOKENS = set(
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
                if (actual := numbers.get(name)) != number:
                    raise UserError(f"{file}: {name} has the id {actual}, but {CONFIG} says {number}; {_ADVICE}")
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
            elif setting not in _NAMES and setting not in _DESCRIPTIVE_OF_TOKENS:
                raise UserError(f"{file}: {setting}: is not understood; remove it if the tokens do not depend on it")
        return names

    def _notes(self, tokenizer: SeparateTokenizer) -> list[str]:
        """Return lines on what a user should know of a model."""
        source, target = self.languages
        languages = f", {source} to {target}" if source and target else ""
        notes = [f"init-from {self.path}: a Marian model{languages}; its tokens and weights as they are"]
        codes = tokenizer.source.codes if isinstance(tokenizer.source, MarianTokenizer) else []
        if codes:
            firsts = ", ".join(codes[:3])
            notes.append(f"  {len(codes):,} language codes such as {firsts}: each source text begins with one of them")
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
