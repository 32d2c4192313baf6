"""The ``config.json`` of ``transformers``' Marian architecture to our configuration and back.

=====================================  =============================================================================
theirs                                 ours
=====================================  =============================================================================
``vocab_size``                         ``source_vocab_size`` of the ids
``decoder_vocab_size``                 ``vocab_size`` of the ids
``d_model``                            ``dim`` of both stacks
``encoder_layers``, ...                ``num_layers``, ``num_heads``, ``ffn_dim`` of each stack
``activation_function``                ``activation`` ("swish" is called silu here)
``dropout`` and the two others         ``dropout``, ``attention_dropout``, ``activation_dropout``
``scale_embedding``                    ``scale_embedding``
``max_position_embeddings``            ``max_length``; sines are computed here, so nothing ends there
``share_encoder_decoder_embeddings``   ``share_embeddings``
``tie_word_embeddings``                ``tie_output``
=====================================  =============================================================================

The rest of the architecture has no setting of its own there: post-norm without a last norm, LayerNorm, scaled dot
product, sines and cosines in two halves. What is not about the architecture (how to decode, how to train) is not read.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from selfattn.errors import UserError
from selfattn.models.encoder_decoder.config import EncoderDecoderConfig
from selfattn.models.transformer_config import TransformerConfig

# What is one for both stacks there: our name to theirs.
_COMMON = {"dim": "d_model", "activation": "activation_function", "max_length": "max_position_embeddings"} | {
    name: name for name in ("scale_embedding", "dropout", "attention_dropout", "activation_dropout")
}
# What each stack has of its own: our name to theirs, behind the name of the side.
_OWN = {"num_layers": "layers", "num_heads": "attention_heads", "ffn_dim": "ffn_dim"}
# What every Transformer stack of this architecture is where it has no setting: as ours is by default, but for two.
_STACK: dict[str, Any] = {
    field.name: field.default for field in dataclasses.fields(TransformerConfig) if field.name not in _COMMON | _OWN
} | {"norm_first": False, "sinusoid_layout": "halves"}
# What both have together, and what the ids are: our name to theirs.
_WHOLE = {"share_embeddings": "share_encoder_decoder_embeddings", "tie_output": "tie_word_embeddings"}
_IDS = {
    "source_vocab_size": "vocab_size",
    "vocab_size": "decoder_vocab_size",
    "start_id": "decoder_start_token_id",
    "eos_id": "eos_token_id",
    "pad_id": "pad_token_id",
}
# What can have one value only, because another has no counterpart here, such as layers dropped as a whole.
_FIXED = {"model_type": "marian", "is_encoder_decoder": True, "is_decoder": False, "static_position_embeddings": True}
_FIXED |= {"normalize_before": False, "normalize_embedding": False, "add_final_layer_norm": False}
_FIXED |= {"encoder_layerdrop": 0.0, "decoder_layerdrop": 0.0}
# The defaults of MarianConfig for what older files lack.
_DEFAULTS = {"share_encoder_decoder_embeddings": True, "tie_word_embeddings": True, "bad_words_ids": None}


@dataclass(frozen=True, kw_only=True)
class MarianIds:
    """What token ids mean to a model of the Marian architecture.

    Attributes:
        vocab_size: number of target tokens.
        source_vocab_size: number of source tokens.
        start_id: every target begins with it (``decoder_start_token_id``); in published models it is the padding.
        eos_id: ends source and target.
        pad_id: fills rows up.
        never_written: tokens that no target may contain (``bad_words_ids``); in published models the padding.

    Raises:
        UserError: an id is outside its vocabulary.

    Example:
        >>> MarianIds(vocab_size=11, source_vocab_size=11, start_id=10, eos_id=0, pad_id=10).never_written
        ()
    """

    vocab_size: int
    source_vocab_size: int
    start_id: int
    eos_id: int
    pad_id: int
    never_written: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for size in (self.vocab_size, self.source_vocab_size):
            if type(size) is not int or size < 1:
                raise UserError(f"vocab_size: expected a whole number of at least 1, got {size!r}")
        shared = min(self.vocab_size, self.source_vocab_size)
        for name, value, size in (
            ("decoder_start_token_id", self.start_id, self.vocab_size),
            ("eos_token_id", self.eos_id, shared),
            ("pad_token_id", self.pad_id, shared),
            *(("bad_words_ids", value, self.vocab_size) for value in self.never_written),
        ):
            if type(value) is not int or not 0 <= value < size:
                raise UserError(f"{name}: expected an id from 0 to {size - 1}, got {value}")


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
    for name, only in _FIXED.items():
        if name in config and config[name] != only:
            raise UserError(f"{name}: expected {only!r}, got {config[name]!r}; this has no counterpart here")
    theirs = _DEFAULTS | {"decoder_vocab_size": config.get("vocab_size")}
    theirs |= {name: value for name, value in config.items() if value is not None}
    sizes = theirs.get("vocab_size"), theirs["decoder_vocab_size"]
    if theirs["share_encoder_decoder_embeddings"] and sizes[0] != sizes[1]:
        raise UserError(
            f"decoder_vocab_size: {sizes[1]} differs from vocab_size {sizes[0]}, "
            "but share_encoder_decoder_embeddings says that there is one table"
        )
    try:
        return _converted(theirs)
    except KeyError as error:
        raise UserError(f"{error.args[0]}: is missing; is this the configuration of a Marian model?") from None


def _converted(theirs: Mapping[str, Any]) -> tuple[EncoderDecoderConfig, MarianIds]:
    common = {ours: theirs[name] for ours, name in _COMMON.items()}
    if common["activation"] == "swish":
        common["activation"] = "silu"
    stacks: dict[str, Any] = {
        side: TransformerConfig(**_STACK, **common, **{ours: theirs[f"{side}_{name}"] for ours, name in _OWN.items()})
        for side in ("encoder", "decoder")
    }
    ours = EncoderDecoderConfig(**stacks, **{ours: theirs[name] for ours, name in _WHOLE.items()})
    words = theirs["bad_words_ids"] or ()
    if any(len(word) != 1 for word in words):
        raise UserError(f"bad_words_ids: expected words of one token each, got {words}")
    never_written = tuple(word[0] for word in words)
    return ours, MarianIds(**{ours: theirs[name] for ours, name in _IDS.items()}, never_written=never_written)


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
        selfattn.errors.UserError: encoder.norm_first: the Marian architecture has False, got True
    """
    stacks = {"encoder": config.encoder, "decoder": config.decoder}
    if not all(isinstance(stack, TransformerConfig) for stack in stacks.values()):
        raise UserError("the Marian architecture is a Transformer encoder with a Transformer decoder")
    for side, stack in stacks.items():
        for name, only in _STACK.items():
            if getattr(stack, name) != only:
                raise UserError(f"{side}.{name}: the Marian architecture has {only!r}, got {getattr(stack, name)!r}")
    values: dict[str, Any] = {"model_type": "marian"}
    for ours, theirs in _COMMON.items():
        values[theirs], second = (getattr(stack, ours) for stack in stacks.values())
        if "swiglu" in (values[theirs], second):
            raise UserError("encoder.activation: the Marian architecture has no gate, got 'swiglu'")
        if values[theirs] != second:
            raise UserError(
                f"{ours}: the Marian architecture has one for both stacks, got {values[theirs]!r} and {second!r}"
            )
    if config.share_embeddings and ids.vocab_size != ids.source_vocab_size:
        raise UserError(f"share_embeddings: one table cannot have {ids.source_vocab_size} and {ids.vocab_size} rows")
    values |= {f"{side}_{name}": getattr(stack, ours) for side, stack in stacks.items() for ours, name in _OWN.items()}
    values |= {name: getattr(config, ours) for ours, name in _WHOLE.items()}
    values |= {name: getattr(ids, ours) for ours, name in _IDS.items()}
    if values["activation_function"] == "silu":
        values["activation_function"] = "swish"
    fixed = {"architectures": ["MarianMTModel"], "is_encoder_decoder": True}
    return fixed | {"forced_eos_token_id": None, "bos_token_id": None} | values
