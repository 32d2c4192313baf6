"""What a model is made of, as frozen dataclasses that check themselves and travel as JSON. Imports no torch."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal

from selfattn.errors import UserError
from selfattn.models.checked import Checked


@dataclass(frozen=True, kw_only=True)
class RNNEncoderConfig(Checked):
    """An RNN encoder.

    Attributes:
        embed_dim: width of the source embedding.
        hidden_dim: width of the state in one direction.
        cell: LSTM or GRU.
        num_layers: how many layers.
        direction: forward, backward (the reversed source), or both.
        residual: add a layer's input to its output, from the second layer on.
        handover: hand over each layer's final h, or an LSTM's c as well ("all").
        dropout: of embeddings and between layers.
    """

    embed_dim: int = 32
    hidden_dim: int = 128
    cell: Literal["lstm", "gru"] = "lstm"
    num_layers: int = 1
    direction: Literal["forward", "backward", "both"] = "forward"
    residual: bool = False
    handover: Literal["hidden", "all"] = "hidden"
    dropout: float = 0.0

    @property
    def output_dim(self) -> int:
        """Width of what it hands over."""
        return self.hidden_dim * (2 if self.direction == "both" else 1)


@dataclass(frozen=True, kw_only=True)
class RNNDecoderConfig(Checked):
    """An RNN decoder.

    Attributes:
        attention: none (fixed-length vector); peeky (that vector at every step); textbook (after the RNN,
            [context; state] to the output); luong (tanh(W [context; state]) before the output); bahdanau (before
            the RNN).
        embed_dim: width of the target embedding.
        hidden_dim: width of the state.
        cell: LSTM or GRU.
        num_layers: how many layers.
        residual: add a layer's input to its output, from the second layer on.
        initial_state: zero, copied from the encoder, or projected.
        score: how the state is compared with the source.
        score_dim: width inside the tanh of additive and concat; default the query's.
        max_source_length: longest source of the location score.
        num_heads: attention heads.
        project: whether the attention has projections; needed for heads that differ in more than their slice.
        input_feeding: feed the attentional vector to the next step (luong only).
        dropout: of embeddings, between layers, and before the output.
    """

    attention: Literal["none", "peeky", "textbook", "luong", "bahdanau"] = "textbook"
    embed_dim: int = 32
    hidden_dim: int = 128
    cell: Literal["lstm", "gru"] = "lstm"
    num_layers: int = 1
    residual: bool = False
    initial_state: Literal["zero", "copy", "project"] = "copy"
    score: Literal["dot", "scaled_dot", "general", "concat", "additive", "location"] = "dot"
    score_dim: int | None = None
    max_source_length: int = 512
    num_heads: int = 1
    project: bool = False
    input_feeding: bool = False
    dropout: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.input_feeding and self.attention != "luong":
            raise UserError(f"RNNDecoderConfig.input_feeding: only with attention 'luong', not {self.attention!r}")
        if self.attention == "none" and self.initial_state == "zero":
            raise UserError(
                "RNNDecoderConfig.initial_state: with 'zero' and attention 'none' nothing of the source reaches the "
                "decoder; use 'copy' or 'project'"
            )
        if self.hidden_dim % self.num_heads:
            raise UserError(
                f"RNNDecoderConfig.num_heads: {self.num_heads} does not divide hidden_dim {self.hidden_dim}"
            )


@dataclass(frozen=True, kw_only=True)
class TransformerConfig(Checked):
    """A stack of Transformer blocks: an encoder, a decoder, or a decoder-only model.

    Attributes:
        dim: model width.
        num_heads: attention heads.
        num_kv_heads: key-value heads; default as many as heads; 1 is multi-query attention.
        num_layers: how many blocks.
        ffn_dim: width inside the feed-forward blocks.
        activation: relu, gelu, silu (swish) or swiglu.
        norm: layer or rms.
        norm_first: pre-norm, or post-norm as in the original.
        position: none, sinusoidal, learned, rotary, alibi or t5 (relative bias); all but the added ones act in
            self-attention only.
        sinusoid_layout: sines and cosines in turn, or in two halves as in Marian.
        scale_embedding: multiply the token embeddings by the square root of dim.
        score: how a query is compared with a key.
        qk_norm: RMS-normalise queries and keys in each head.
        window: how many positions back a decoder's token sees, itself included; default all.
        max_length: number of learned positions, and longest text of the location score.
        dropout: of embeddings and of each part's output.
        attention_dropout: of attention weights.
        activation_dropout: inside the feed-forward blocks.
    """

    dim: int = 64
    num_heads: int = 4
    num_kv_heads: int | None = None
    num_layers: int = 1
    ffn_dim: int = 128
    activation: Literal["relu", "gelu", "silu", "swiglu"] = "relu"
    norm: Literal["layer", "rms"] = "layer"
    norm_first: bool = True
    position: Literal["none", "sinusoidal", "learned", "rotary", "alibi", "t5"] = "sinusoidal"
    sinusoid_layout: Literal["interleaved", "halves"] = "interleaved"
    scale_embedding: bool = True
    score: Literal["dot", "scaled_dot", "general", "concat", "additive", "location"] = "scaled_dot"
    qk_norm: bool = False
    window: int | None = None
    max_length: int = 512
    dropout: float = 0.0
    attention_dropout: float = 0.0
    activation_dropout: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.dim % self.num_heads:
            raise UserError(f"TransformerConfig.num_heads: {self.num_heads} does not divide dim {self.dim}")
        if self.num_kv_heads is not None and self.num_heads % self.num_kv_heads:
            raise UserError(
                f"TransformerConfig.num_kv_heads: {self.num_kv_heads} does not divide num_heads {self.num_heads}"
            )
        if self.position == "sinusoidal" and self.dim % 2:
            raise UserError(f"TransformerConfig.dim: sinusoidal positions need an even width, got {self.dim}")
        if self.position == "rotary" and self.dim // self.num_heads % 2:
            raise UserError(f"TransformerConfig.dim: rotary needs an even head width, got {self.dim // self.num_heads}")

    @property
    def output_dim(self) -> int:
        """Width of what it hands over."""
        return self.dim

    @property
    def embed_dim(self) -> int:
        """Width of its embedding."""
        return self.dim


@dataclass(frozen=True, kw_only=True)
class EncoderDecoderConfig(Checked):
    """An encoder of either family with a decoder of either family.

    Attributes:
        encoder: how the source is read.
        decoder: how the target is written.
        share_embeddings: one embedding table for source and target; their widths must agree.
        tie_output: the output layer's matrix is the target embedding (Press and Wolf 2017).
    """

    encoder: RNNEncoderConfig | TransformerConfig
    decoder: RNNDecoderConfig | TransformerConfig
    share_embeddings: bool = False
    tie_output: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.share_embeddings and self.encoder.embed_dim != self.decoder.embed_dim:
            raise UserError(
                f"EncoderDecoderConfig.share_embeddings: the encoder's embedding has width {self.encoder.embed_dim}, "
                f"the decoder's {self.decoder.embed_dim}"
            )
        if isinstance(self.decoder, RNNDecoderConfig):
            _check_start(self.encoder, self.decoder)
            if self.decoder.attention not in ("none", "peeky"):
                _check_attention(self.encoder, self.decoder)
            if self.tie_output:
                _check_tie(self.encoder, self.decoder)


def _check_start(encoder: RNNEncoderConfig | TransformerConfig, decoder: RNNDecoderConfig) -> None:
    """Copying the encoder's state needs one of the same shape."""
    if decoder.initial_state != "copy":
        return
    where = "EncoderDecoderConfig.decoder.initial_state: 'copy'"
    if isinstance(encoder, TransformerConfig):
        raise UserError(f"{where} needs an RNN encoder; use 'project'")
    for what, theirs, ours in (
        ("width", encoder.output_dim, decoder.hidden_dim),
        ("num_layers", encoder.num_layers, decoder.num_layers),
    ):
        if theirs != ours:
            raise UserError(
                f"{where} needs equal shapes, but {what} is {theirs} in the encoder and {ours} in the decoder; "
                "use 'project'"
            )


def _check_attention(encoder: RNNEncoderConfig | TransformerConfig, decoder: RNNDecoderConfig) -> None:
    """Attention without projections takes states as they come: their widths have to fit the heads and the score."""
    if decoder.project:
        return
    width = encoder.output_dim
    if width % decoder.num_heads:
        raise UserError(
            f"EncoderDecoderConfig.decoder.num_heads: {decoder.num_heads} does not divide the encoder's width {width}"
        )
    if decoder.score in ("dot", "scaled_dot") and width != decoder.hidden_dim:
        raise UserError(
            f"EncoderDecoderConfig.decoder.score: {decoder.score!r} needs equal widths, but the encoder's is {width} "
            f"and the decoder's {decoder.hidden_dim}; use 'general', or project"
        )


def _check_tie(encoder: RNNEncoderConfig | TransformerConfig, decoder: RNNDecoderConfig) -> None:
    """A tied output reads vectors of the embedding's width; luong and bahdanau have a layer that makes such vectors."""
    seen = {
        "none": 0,
        "peeky": encoder.output_dim,
        "textbook": decoder.hidden_dim if decoder.project else encoder.output_dim,
    }
    if decoder.attention in seen and decoder.hidden_dim + seen[decoder.attention] != decoder.embed_dim:
        raise UserError(
            f"EncoderDecoderConfig.tie_output: with attention {decoder.attention!r} the output reads width "
            f"{decoder.hidden_dim + seen[decoder.attention]}, the embedding has {decoder.embed_dim}"
        )


@dataclass(frozen=True, kw_only=True)
class DecoderOnlyConfig(Checked):
    """A decoder-only model over source and target as one sequence.

    Attributes:
        stack: the blocks.
        bidirectional_prefix: source tokens see the whole source.
        tie_output: the output layer's matrix is the embedding.
    """

    stack: TransformerConfig
    bidirectional_prefix: bool = False
    tie_output: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.stack.score == "location":  # it counts keys by their place in the batch, which padding would shift
            raise UserError("DecoderOnlyConfig.stack.score: 'location' needs a source of its own; use another score")


ModelConfig = EncoderDecoderConfig | DecoderOnlyConfig

_KINDS: dict[str, type[Any]] = {
    "encoder-decoder": EncoderDecoderConfig,
    "decoder-only": DecoderOnlyConfig,
    "rnn-encoder": RNNEncoderConfig,
    "rnn-decoder": RNNDecoderConfig,
    "transformer": TransformerConfig,
}


def config_to_dict(config: Any) -> dict[str, Any]:
    """Turn a configuration into plain JSON values, each dataclass with its ``kind``.

    Example:
        >>> config_to_dict(DecoderOnlyConfig(stack=TransformerConfig()))["stack"]["kind"]
        'transformer'
    """
    kind = next(name for name, cls in _KINDS.items() if type(config) is cls)
    values = {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}
    return {"kind": kind} | {
        name: config_to_dict(value) if dataclasses.is_dataclass(value) else value for name, value in values.items()
    }


def config_from_dict(data: dict[str, Any], where: str = "model configuration") -> Any:
    """Make the configuration that :func:`config_to_dict` wrote.

    Args:
        data: the JSON values.
        where: what to call the place in an error message.

    Raises:
        UserError: the kind or a field is unknown, or a value is out of its range.

    Example:
        >>> config = DecoderOnlyConfig(stack=TransformerConfig(dim=32))
        >>> config_from_dict(config_to_dict(config)) == config
        True
    """
    if not isinstance(data, dict):
        raise UserError(f"{where}: expected an object with a kind, got {data!r}")
    kind = data.get("kind")
    if not isinstance(kind, str) or kind not in _KINDS:
        raise UserError(f"{where}: kind {kind!r} is unknown; known: {', '.join(_KINDS)}")
    cls = _KINDS[kind]
    known = {field.name for field in dataclasses.fields(cls)}
    values: dict[str, Any] = {}
    for name, value in data.items():
        if name == "kind":
            continue
        if name not in known:
            raise UserError(f"{where}: {kind} has no setting {name!r}; it has {', '.join(sorted(known))}")
        values[name] = config_from_dict(value, where) if isinstance(value, dict) else value
    try:
        return cls(**values)
    except TypeError as error:
        raise UserError(f"{where}: {error}") from None


def override(config: Any, settings: dict[str, Any], where: str = "--set") -> Any:
    """Return the configuration with some settings changed, named by dotted paths.

    Args:
        config: any configuration of this page.
        settings: such as ``{"encoder.hidden_dim": 256}``.
        where: what to call the place in an error message.

    Raises:
        UserError: a name does not exist, or a value is out of its range.

    Example:
        >>> override(DecoderOnlyConfig(stack=TransformerConfig()), {"stack.dim": 32}).stack.dim
        32
    """
    return _override(config, settings, where, "")


def _override(config: Any, settings: dict[str, Any], where: str, prefix: str) -> Any:
    """Change everything at once, so that only the result has to be consistent, not what lies on the way there."""
    known = {field.name for field in dataclasses.fields(config)}
    changes: dict[str, Any] = {}
    inner: dict[str, dict[str, Any]] = {}
    for path, value in settings.items():
        name, dot, rest = path.partition(".")
        full = f"{where} {prefix}{path}"
        if name not in known:
            raise UserError(f"{full}: there is no setting {name!r} here; there is {', '.join(sorted(known))}")
        is_group = dataclasses.is_dataclass(getattr(config, name))
        if dot and not is_group:
            raise UserError(f"{full}: {name!r} is one setting, not a group of settings")
        if is_group and not dot:
            raise UserError(f"{full}: this is a group of settings; name one of them, such as {name}.dropout")
        if dot:
            inner.setdefault(name, {})[rest] = value
        else:
            changes[name] = value
    for name, parts in inner.items():
        changes[name] = _override(getattr(config, name), parts, where, f"{prefix}{name}.")
    return dataclasses.replace(config, **changes)
