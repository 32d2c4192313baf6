"""A model of an encoder and a decoder, each of which may be an RNN or a Transformer (Vaswani et al. 2017).

Decoders of the RNN family: without attention, with attention after the RNN, and before it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, cast

import torch
from torch import Tensor, nn

from selfattn.attention.cache import KeyValue
from selfattn.attention.layer import MultiHeadAttention
from selfattn.attention.masks import Mask
from selfattn.layers.recurrent import RecurrentStack, RecurrentState
from selfattn.layers.transformer import Dropout, Past, TokenEmbedding, TransformerBlock, run_stack
from selfattn.models.protocol import OF_SOURCE, Decoded, DecoderState, EncoderMemory, Seq2Seq, token_by_token


class Encoder(nn.Module, ABC):
    """Reads a source.

    Attributes:
        output_dim: width of the states that it returns.
        takes_gaps: see :class:`~selfattn.models.protocol.Seq2Seq`; default True.
    """

    output_dim: int
    takes_gaps: bool = True

    @abstractmethod
    def forward(self, source: Tensor, source_mask: Tensor, *, need_weights: bool = False) -> EncoderMemory:
        """Encode ids ``[b s]`` with mask ``[b s]``."""

    __call__: Callable[..., EncoderMemory]


class Decoder(nn.Module, ABC):
    """Writes a target, given an encoder's memory.

    Attributes:
        output: maps ``[.. d]`` to logits ``[.. v]``.
    """

    output: nn.Linear

    @abstractmethod
    def start(self, memory: EncoderMemory) -> DecoderState:
        """Return the state before the first target token."""

    @abstractmethod
    def forward(self, tokens: Tensor, state: Any, *, need_weights: bool = False) -> tuple[Decoded, DecoderState]:
        """Read target tokens ``[b t]`` from a state on; return the output at each token, and the new state."""

    __call__: Callable[..., tuple[Decoded, DecoderState]]


class EncoderDecoder(Seq2Seq):
    """A sequence-to-sequence model from an encoder and a decoder (Sutskever et al. 2014; Vaswani et al. 2017).

    Args:
        encoder: an RNN or Transformer encoder.
        decoder: an RNN or Transformer decoder built for the encoder's ``output_dim``.
    """

    def __init__(self, encoder: Encoder, decoder: Decoder) -> None:
        super().__init__()
        self.encoder = encoder
        self.decoder = decoder
        self.takes_gaps = encoder.takes_gaps

    def encode(self, source: Tensor, source_mask: Tensor) -> EncoderMemory:
        """Run the encoder."""
        return self.encoder(source, source_mask)

    def start(self, memory: EncoderMemory) -> DecoderState:
        """Start the decoder."""
        return self.decoder.start(memory)

    def advance(
        self, tokens: Tensor, state: DecoderState, *, need_weights: bool = False
    ) -> tuple[Decoded, DecoderState]:
        """Run the decoder."""
        return self.decoder(tokens, state, need_weights=need_weights)

    def encode_watched(self, source: Tensor, source_mask: Tensor) -> EncoderMemory:
        """Run the encoder, with its weights; an RNN has none."""
        return self.encoder(source, source_mask, need_weights=True)


class TransformerEncoder(Encoder):
    """Self-attention blocks over the source.

    Args:
        embed: source embedding, with positions where they are added.
        layers: the blocks.
        norm: applied to the last block's output; pre-norm needs one, post-norm does not. Default none.
    """

    def __init__(
        self, embed: TokenEmbedding, layers: Sequence[TransformerBlock], *, norm: nn.Module | None = None
    ) -> None:
        super().__init__()
        self.embed = embed
        self.layers = nn.ModuleList(layers)
        self.norm = norm
        self.output_dim = embed.tokens.embedding_dim

    def forward(self, source: Tensor, source_mask: Tensor, *, need_weights: bool = False) -> EncoderMemory:
        """Encode ids ``[b s]`` with mask ``[b s]``."""
        mask = Mask.of_keys(source_mask)
        x = self.embed(source)
        if mask.allowed is not None:
            x = x.masked_fill(~source_mask[..., None], 0.0)  # padding must not influence anything
        result = run_stack(self.layers, self.norm, x, mask=mask, need_weights=need_weights)
        return EncoderMemory(result.x, source_mask, weights=result.self_weights)


@dataclass(frozen=True)
class TransformerState(DecoderState):
    """What a Transformer decoder carries: keys and values of the source and of the target so far.

    Attributes:
        caches: for each layer the cache, or the state, of its self-attention; None before the first token.
        memory: for each layer keys and values of the source for its cross-attention, projected once.
        memory_mask: which source tokens the cross-attention may see.
    """

    caches: tuple[Past, ...]
    memory: tuple[KeyValue, ...] = field(metadata=OF_SOURCE)
    memory_mask: Mask = field(metadata=OF_SOURCE)


class TransformerDecoder(Decoder):
    """Masked self-attention, cross-attention and feed-forward over the target.

    Args:
        embed: target embedding, with positions where they are added.
        layers: the blocks, each with cross-attention.
        output: maps ``[.. d]`` to logits.
        norm: applied to the last block's output; default none.
    """

    def __init__(
        self,
        embed: TokenEmbedding,
        layers: Sequence[TransformerBlock],
        output: nn.Linear,
        *,
        norm: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.embed = embed
        self.layers = nn.ModuleList(layers)
        self.norm = norm
        self.output = output

    def start(self, memory: EncoderMemory) -> TransformerState:
        """Project the memory for every layer, once."""
        blocks = [cast(TransformerBlock, layer) for layer in self.layers]
        projected = tuple(block.project_memory(memory.states, memory.mask) for block in blocks)
        return TransformerState((None,) * len(projected), projected, Mask.of_keys(memory.mask))

    def forward(
        self, tokens: Tensor, state: TransformerState, *, need_weights: bool = False
    ) -> tuple[Decoded, TransformerState]:
        """Read tokens ``[b t]``, all at once; earlier tokens are in the caches."""
        past = state.caches[0]  # all layers have read the same tokens
        if past is None:
            positions = torch.arange(tokens.shape[1], device=tokens.device)
        else:
            positions = past.next_positions(tokens.shape[1])
        x = self.embed(tokens, positions)
        shared = {"mask": Mask(causal=True), "memory_mask": state.memory_mask, "positions": positions}
        shared["need_weights"] = need_weights
        result = run_stack(self.layers, self.norm, x, caches=state.caches, memory=state.memory, **shared)
        decoded = Decoded(result.x, self.output, result.self_weights, result.cross_weights)
        return decoded, replace(state, caches=result.caches)


class RNNEncoder(Encoder):
    """Reads the source with a recurrent stack and keeps every hidden state.

    Args:
        embed: source embedding.
        stack: its direction may be forward, backward (the reversed source) or both.
    """

    takes_gaps = False

    def __init__(self, embed: TokenEmbedding, stack: RecurrentStack) -> None:
        super().__init__()
        self.embed = embed
        self.stack = stack
        self.output_dim = stack.output_dim

    def forward(self, source: Tensor, source_mask: Tensor, *, need_weights: bool = False) -> EncoderMemory:
        """Encode ids ``[b s]`` with mask ``[b s]``."""
        states, final = self.stack.read(self.embed(source), source_mask)
        return EncoderMemory(states, source_mask, final)


class Bridge(nn.Module):
    """Makes the decoder's first state from the encoder's final one.

    Args:
        kind: ``"copy"`` copies each layer's ``h`` (Sutskever et al. 2014; needs as many layers of the same width);
            ``"project"`` computes ``tanh(W h)`` for each layer and part (Bahdanau et al. 2015, appendix A.2.2), with
            the ``h`` of the encoder's layer of the same number. If the encoder has no such layer, ``h`` is the summary
            of the source.
        source_dim: width of that ``h``.
        stack: of the decoder.
    """

    def __init__(self, kind: Literal["copy", "project"], source_dim: int, stack: RecurrentStack) -> None:
        super().__init__()
        self.kind = kind
        self.num_layers = len(stack.layers)
        self.num_parts = 2 if stack.cell == "lstm" else 1
        count = self.num_layers * self.num_parts if kind == "project" else 0
        self.projections = nn.ModuleList(nn.Linear(source_dim, stack.hidden_dim) for _ in range(count))

    def forward(self, memory: EncoderMemory) -> RecurrentState:
        """Return for each layer its parts, each ``[b d]``: ``h``, and with an LSTM the cell."""
        final = () if memory.final is None else memory.final
        if self.kind == "copy":
            return tuple((h,) for h in final)  # an LSTM's cell begins at zero
        summary = memory.summary()
        projections = iter(self.projections)
        state: list[tuple[Tensor, ...]] = []
        for layer in range(self.num_layers):
            h = final[layer] if layer < len(final) else summary
            state.append(tuple(torch.tanh(next(projections)(h)) for _ in range(self.num_parts)))
        return tuple(state)


@dataclass(frozen=True)
class RNNState(DecoderState):
    """What an RNN decoder carries.

    Attributes:
        recurrent: for each layer of the stack its parts, see :class:`Bridge`.
        fed: ``[b d]``, what each step reads beside its token: the source's summary (peeky) or the last attentional
            vector (input feeding); None without either.
        memory: keys and values of the source; None without attention.
        memory_mask: which of the keys may be seen; None without attention.
    """

    recurrent: RecurrentState
    fed: Tensor | None
    memory: KeyValue | None = field(default=None, metadata=OF_SOURCE)
    memory_mask: Mask | None = field(default=None, metadata=OF_SOURCE)


class RNNParts(NamedTuple):
    """What all RNN decoders have.

    Attributes:
        embed: target embedding.
        stack: reads the embedding and what the decoder joins to it.
        bridge: makes the first state.
        output: output layer.
        dropout: probability of dropping a unit before the output.
    """

    embed: TokenEmbedding
    stack: RecurrentStack
    bridge: Bridge
    output: nn.Linear
    dropout: float


class RNNDecoder(Decoder, ABC):
    """Base of the RNN decoders: holds the parts that all of them have.

    Args:
        parts: of the decoder.
    """

    def __init__(self, parts: RNNParts) -> None:
        super().__init__()
        self.embed = parts.embed
        self.stack = parts.stack
        self.bridge = parts.bridge
        self.output = parts.output
        self.dropout = Dropout(parts.dropout)

    def first_state(self, memory: EncoderMemory, attention: MultiHeadAttention, fed: Tensor | None = None) -> RNNState:
        """Make the first state of a decoder with attention; the memory is projected here, once."""
        projected = attention.project_context(memory.states)
        return RNNState(self.bridge(memory), fed, projected, Mask.of_keys(memory.mask))


class PlainDecoder(RNNDecoder):
    """A decoder without attention: it knows the source by a single vector (Sutskever et al. 2014).

    Args:
        parts: of the decoder; when peeky, the stack and the output read the summary as well.
        peeky: also feed that vector to every step and to the output (Cho et al. 2014, section 2.2).
    """

    def __init__(self, parts: RNNParts, *, peeky: bool = False) -> None:
        super().__init__(parts)
        self.peeky = peeky

    def start(self, memory: EncoderMemory) -> RNNState:
        """Make the first state from the encoder's final one."""
        return RNNState(self.bridge(memory), memory.summary() if self.peeky else None)

    def forward(self, tokens: Tensor, state: RNNState, *, need_weights: bool = False) -> tuple[Decoded, RNNState]:
        """Read tokens ``[b t]`` with one call of the RNN; there are no attention weights."""
        x = self.embed(tokens)
        summary = None if state.fed is None else state.fed[:, None].expand(-1, tokens.shape[1], -1)
        if summary is not None:
            x = torch.cat([summary, x], dim=-1)
        h, recurrent = self.stack(x, state.recurrent)
        if summary is not None:
            h = torch.cat([summary, h], dim=-1)
        return Decoded(self.dropout(h), self.output), RNNState(recurrent, state.fed)


class AttentionDecoder(RNNDecoder):
    """Attention after the RNN: its new state is the query, and ``[context; state]`` goes to the output.

    The textbook's output layer reads the joined vector itself. That of Luong et al. 2015 (section 3, equation 5) reads
    the attentional vector ``tanh(W [context; state])``. Input feeding (section 3.3) also joins the attentional vector
    to the next step's input. Without input feeding no result of the attention returns to the RNN, so training has no
    loop over time: one call of the RNN, and one of the attention.

    Args:
        parts: of the decoder. The output reads the joined or the attentional vector; with input feeding the stack
            reads the attentional vector as well.
        attention: from the decoder's states to the encoder's.
        combine: the ``W`` of the attentional vector; default none, as in the textbook.
        input_feeding: feed the attentional vector to the next step; needs ``combine``. Default False.
    """

    def __init__(
        self,
        parts: RNNParts,
        attention: MultiHeadAttention,
        *,
        combine: nn.Linear | None = None,
        input_feeding: bool = False,
    ) -> None:
        super().__init__(parts)
        self.cross_attn = attention
        self.combine = combine
        self.input_feeding = input_feeding

    def start(self, memory: EncoderMemory) -> RNNState:
        """Make the first state, and project the encoder's states for the attention, once."""
        fed = None
        if self.input_feeding and self.combine is not None:
            fed = memory.states.new_zeros(memory.states.shape[0], self.combine.out_features)
        return self.first_state(memory, self.cross_attn, fed)

    def forward(self, tokens: Tensor, state: RNNState, *, need_weights: bool = False) -> tuple[Decoded, RNNState]:
        """Read tokens ``[b t]``: at once, or with input feeding one after the other."""
        x = self.embed(tokens)
        if self.input_feeding:
            return token_by_token(self._advance, x, state, need_weights=need_weights)
        return self._advance(x, state, need_weights=need_weights)

    def _advance(self, x: Tensor, state: RNNState, *, need_weights: bool) -> tuple[Decoded, RNNState]:
        """Read embedded tokens ``[b t e]``; with input feeding a single one."""
        if state.fed is not None:
            x = torch.cat([x, state.fed.unsqueeze(1)], dim=-1)
        h, recurrent = self.stack(x, state.recurrent)
        context, weights = self.cross_attn(h, state.memory, mask=state.memory_mask, need_weights=need_weights)
        joined = torch.cat([context, h], dim=-1)
        if self.combine is not None:
            joined = torch.tanh(self.combine(joined))
        joined = self.dropout(joined)
        fed = joined[:, -1] if self.input_feeding else None
        cross_weights = () if weights is None else (weights,)
        decoded = Decoded(joined, self.output, cross_weights=cross_weights)
        return decoded, replace(state, recurrent=recurrent, fed=fed)


class BahdanauDecoder(RNNDecoder):
    """Attention before the RNN (Bahdanau et al. 2015, section 3.1 and appendix A.2.2).

    The previous state is the query, and the context is joined to the embedding at the RNN's input. The output reads
    state, context and embedding through a maxout layer, the paper's deep output. In the paper that is the previous
    state, here the new one, which has seen the token.

    Args:
        parts: of the decoder; the stack reads the context as well.
        attention: from the decoder's states to the encoder's.
        maxout: maps ``[state; context; embedding]`` to ``l`` pairs of numbers; the output reads the larger of each.
    """

    def __init__(self, parts: RNNParts, attention: MultiHeadAttention, maxout: nn.Linear) -> None:
        super().__init__(parts)
        self.cross_attn = attention
        self.maxout = maxout

    def start(self, memory: EncoderMemory) -> RNNState:
        """Make the first state, and project the encoder's states for the attention, once."""
        return self.first_state(memory, self.cross_attn)

    def forward(self, tokens: Tensor, state: RNNState, *, need_weights: bool = False) -> tuple[Decoded, RNNState]:
        """Read tokens ``[b t]``, one after the other."""
        joined, new = token_by_token(self._advance, self.embed(tokens), state, need_weights=need_weights)
        pairs = self.maxout(joined.states).unflatten(-1, (-1, 2))
        h = self.dropout(pairs.amax(dim=-1))
        return replace(joined, states=h), new

    def _advance(self, x: Tensor, state: RNNState, *, need_weights: bool) -> tuple[Decoded, RNNState]:
        """Read a single embedded token; the states are ``[state; context; embedding]``, for the maxout layer."""
        query = state.recurrent[-1][0].unsqueeze(1)  # the previous h of the top layer
        context, weights = self.cross_attn(query, state.memory, mask=state.memory_mask, need_weights=need_weights)
        h, recurrent = self.stack(torch.cat([x, context], dim=-1), state.recurrent)
        joined = torch.cat([h, context, x], dim=-1)
        cross_weights = () if weights is None else (weights,)
        decoded = Decoded(joined, self.output, cross_weights=cross_weights)
        return decoded, replace(state, recurrent=recurrent)
