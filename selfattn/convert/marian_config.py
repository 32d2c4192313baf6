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

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from selfattn.errors import UserError
from selfattn.models.encoder_decoder.config import EncoderDecoderConfig
from selfattn.models.transformer_config import TransformerConfig

Function = Literal["relu", "gelu", "silu"]
_ACTIVATIONS: dict[str, Function] = {"relu": "relu", "gelu": "gelu", "silu": "silu", "swish": "silu"}

# What a file may say in one way only; the older files say more than today's. A layer that is dropped as a whole while
# training has no counterpart here.
_ONLY: dict[str, Any] = {
    "is_encoder_decoder": True,
    "is_decoder": False,
    "normalize_before": False,
    "normalize_embedding": False,
    "add_final_layer_norm": False,
    "static_position_embeddings": True,
    "encoder_layerdrop": 0,
    "decoder_layerdrop": 0,
}

# What every Transformer stack of this architecture is, in our words.
_STACK: dict[str, Any] = {
    "num_kv_heads": None,
    "norm": "layer",
    "norm_first": False,
    "position": "sinusoidal",
    "sinusoid_layout": "halves",
    "score": "scaled_dot",
    "qk_norm": False,
    "window": None,
}

# What their encoder and decoder have in common, and ours need not.
_COMMON = (
    "dim",
    "activation",
    "scale_embedding",
    "max_length",
    "dropout",
    "attention_dropout",
    "activation_dropout",
)


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
        shared = min(self.vocab_size, self.source_vocab_size)
        for name, value, size in (
            ("decoder_start_token_id", self.start_id, self.vocab_size),
            ("eos_token_id", self.eos_id, shared),
            ("pad_token_id", self.pad_id, shared),
            *(("bad_words_ids", value, self.vocab_size) for value in self.never_written),
        ):
            if not 0 <= value < size:
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
    if config.get("model_type") != "marian":
        raise UserError(f"model_type: expected 'marian', got {config.get('model_type')!r}")
    for name, only in _ONLY.items():
        if config.get(name, only) != only:
            raise UserError(f"{name}: {config[name]!r} has no counterpart here; expected {only!r}")
    vocab_size = _whole(config, "vocab_size")
    decoder_vocab_size = (
        vocab_size if config.get("decoder_vocab_size") is None else _whole(config, "decoder_vocab_size")
    )
    share = _flag(config, "share_encoder_decoder_embeddings", default=True)
    if share and decoder_vocab_size != vocab_size:
        raise UserError(
            f"decoder_vocab_size: {decoder_vocab_size} differs from vocab_size {vocab_size}, "
            "but share_encoder_decoder_embeddings says that there is one table"
        )

    def stack(side: str) -> TransformerConfig:
        return TransformerConfig(
            dim=_whole(config, "d_model"),
            num_layers=_whole(config, f"{side}_layers"),
            num_heads=_whole(config, f"{side}_attention_heads"),
            ffn_dim=_whole(config, f"{side}_ffn_dim"),
            activation=_activation(config),
            scale_embedding=_flag(config, "scale_embedding"),
            max_length=_whole(config, "max_position_embeddings"),
            dropout=_required(config, "dropout"),
            attention_dropout=_required(config, "attention_dropout"),
            activation_dropout=_required(config, "activation_dropout"),
            **_STACK,
        )

    ours = EncoderDecoderConfig(
        encoder=stack("encoder"),
        decoder=stack("decoder"),
        share_embeddings=share,
        tie_output=_flag(config, "tie_word_embeddings", default=True),
    )
    ids = MarianIds(
        vocab_size=decoder_vocab_size,
        source_vocab_size=vocab_size,
        start_id=_whole(config, "decoder_start_token_id"),
        eos_id=_whole(config, "eos_token_id"),
        pad_id=_whole(config, "pad_token_id"),
        never_written=_single_tokens(config.get("bad_words_ids")),
    )
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
        selfattn.errors.UserError: encoder.norm_first: the Marian architecture has False, got True
    """
    encoder, decoder = config.encoder, config.decoder
    if not isinstance(encoder, TransformerConfig) or not isinstance(decoder, TransformerConfig):
        raise UserError("the Marian architecture is a Transformer encoder with a Transformer decoder")
    for side, part in (("encoder", encoder), ("decoder", decoder)):
        for name, only in _STACK.items():
            if getattr(part, name) != only:
                raise UserError(f"{side}.{name}: the Marian architecture has {only!r}, got {getattr(part, name)!r}")
        if part.activation not in _ACTIVATIONS:
            raise UserError(f"{side}.activation: the Marian architecture has no gate, got {part.activation!r}")
    for name in _COMMON:
        if getattr(encoder, name) != getattr(decoder, name):
            raise UserError(
                f"{name}: the Marian architecture has one for both stacks, "
                f"got {getattr(encoder, name)!r} and {getattr(decoder, name)!r}"
            )
    if config.share_embeddings and ids.vocab_size != ids.source_vocab_size:
        raise UserError(f"share_embeddings: one table cannot have {ids.source_vocab_size} and {ids.vocab_size} rows")
    return {
        "model_type": "marian",
        "architectures": ["MarianMTModel"],
        "is_encoder_decoder": True,
        "vocab_size": ids.source_vocab_size,
        "decoder_vocab_size": ids.vocab_size,
        "d_model": encoder.dim,
        "encoder_layers": encoder.num_layers,
        "encoder_attention_heads": encoder.num_heads,
        "encoder_ffn_dim": encoder.ffn_dim,
        "decoder_layers": decoder.num_layers,
        "decoder_attention_heads": decoder.num_heads,
        "decoder_ffn_dim": decoder.ffn_dim,
        "activation_function": "swish" if encoder.activation == "silu" else encoder.activation,
        "dropout": encoder.dropout,
        "attention_dropout": encoder.attention_dropout,
        "activation_dropout": encoder.activation_dropout,
        "scale_embedding": encoder.scale_embedding,
        "max_position_embeddings": encoder.max_length,
        "share_encoder_decoder_embeddings": config.share_embeddings,
        "tie_word_embeddings": config.tie_output,
        "decoder_start_token_id": ids.start_id,
        "eos_token_id": ids.eos_id,
        "forced_eos_token_id": None,
        "pad_token_id": ids.pad_id,
        "bos_token_id": None,
    }


def _required(config: Mapping[str, Any], name: str) -> Any:
    if name not in config:
        raise UserError(f"{name}: missing; is this the configuration of a Marian model?")
    return config[name]


def _whole(config: Mapping[str, Any], name: str) -> int:
    value = _required(config, name)
    if isinstance(value, bool) or not isinstance(value, int):
        raise UserError(f"{name}: expected a whole number, got {value!r}")
    return value


def _flag(config: Mapping[str, Any], name: str, *, default: bool | None = None) -> bool:
    """Read true or false; the defaults are those of ``MarianConfig``, for settings that older files lack."""
    value = _required(config, name) if default is None else config.get(name, default)
    if not isinstance(value, bool):
        raise UserError(f"{name}: expected true or false, got {value!r}")
    return value


def _activation(config: Mapping[str, Any]) -> Function:
    name = _required(config, "activation_function")
    if not isinstance(name, str) or name not in _ACTIVATIONS:
        raise UserError(f"activation_function: {name!r} has no counterpart here; known: {', '.join(_ACTIVATIONS)}")
    return _ACTIVATIONS[name]


def _single_tokens(words: Any) -> tuple[int, ...]:
    """Read ``bad_words_ids``, each a list of one token."""
    if words is None:
        return ()
    if not isinstance(words, list) or not all(
        isinstance(word, list) and len(word) == 1 and type(word[0]) is int for word in words
    ):
        raise UserError(f"bad_words_ids: expected a list of single tokens such as [[7]], got {words!r}")
    return tuple(word[0] for word in words)
