"""The RNN family: an encoder, and decoders without attention, with attention after the RNN, and before it."""

from abc import ABC
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

import torch
from torch import Tensor, nn

from selfattn.attention import KeyValue, MultiHeadAttention
from selfattn.attention.masks import Mask
from selfattn.layers import RecurrentStack, RecurrentState, TokenEmbedding
from selfattn.layers.dropout import Dropout
from selfattn.models.encoder_decoder.model import Decoder, Encoder
from selfattn.models.protocol import OF_SOURCE, Decoded, DecoderState, EncoderMemory


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
    """Makes the decoder's first state from the encoder's last.

    Args:
        kind: ``"copy"`` takes over each layer's ``h`` (Sutskever et al. 2014: same number of layers, same width);
            ``"project"`` takes ``tanh(W h)`` for each layer and part (Bahdanau et al. 2015, appendix A.2.2), from the
            encoder's layer of the same number, or where it has none, from the source's summary.
        source_dim: width of what the encoder hands over.
        stack: the decoder's.
    """

    def __init__(self, kind: Literal["copy", "project"], source_dim: int, stack: RecurrentStack) -> None:
        super().__init__()
        self.kind = kind
        self.num_layers = len(stack.layers)
        self.num_parts = 2 if stack.cell == "lstm" else 1
        count = self.num_layers * self.num_parts if kind == "project" else 0
        self.projections = nn.ModuleList(nn.Linear(source_dim, stack.hidden_dim) for _ in range(count))

    def forward(self, memory: EncoderMemory) -> RecurrentState:
        """Return for each layer its parts ``[b hidden]``."""
        final = () if memory.final is None else memory.final
        if self.kind == "copy":
            return tuple((h,) for h in final)
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
        recurrent: for each layer its parts.
        fed: ``[b d]``: the source's summary (peeky) or the last attentional vector (input feeding); None without.
        memory: keys and values of the source; None without attention.
        memory_mask: which of them may be seen; None without attention.
    """

    recurrent: RecurrentState
    fed: Tensor | None
    memory: KeyValue | None = field(default=None, metadata=OF_SOURCE)
    memory_mask: Mask | None = field(default=None, metadata=OF_SOURCE)


RNNParts = tuple[TokenEmbedding, RecurrentStack, Bridge, nn.Linear, float]


class RNNDecoder(Decoder, ABC):
    """Takes its parts as its own.

    Args:
        parts: target embedding; stack, whose input is the embedding and whatever a decoder feeds it beside; bridge,
            which makes the first state; output layer; and probability of dropping a unit before the output.
    """

    def __init__(self, parts: RNNParts) -> None:
        super().__init__()
        self.embed, self.stack, self.bridge, self.output, dropout = parts
        self.dropout = Dropout(dropout)

    def first_state(self, memory: EncoderMemory, attention: MultiHeadAttention, fed: Tensor | None = None) -> RNNState:
        """Make the first state of a decoder that attends to the memory, projected once."""
        projected = attention.project_context(memory.states)
        return RNNState(self.bridge(memory), fed, projected, Mask.of_keys(memory.mask))


class PlainDecoder(RNNDecoder):
    """Everything the decoder knows of the source is one vector (Sutskever et al. 2014).

    Args:
        parts: of the decoder; when peeky, the stack and the output read the summary as well.
        peeky: also feed that vector to every step and to the output (Cho et al. 2014, section 2.2).
    """

    def __init__(self, parts: RNNParts, *, peeky: bool = False) -> None:
        super().__init__(parts)
        self.peeky = peeky

    def start(self, memory: EncoderMemory) -> RNNState:
        """Take over the encoder's final state."""
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
    """Attention after the RNN: the new state asks the source, and ``[context; state]`` goes to the output.

    The textbook's decoder takes the joined vector as it is. Luong et al. 2015 (section 3, equation 5) put
    ``tanh(W [context; state])``, the attentional vector, before the output, and with input feeding (section 3.3)
    also join it to the next step's input. Without input feeding nothing of the attention goes back into the RNN, so
    training has no loop over time: one call of the RNN, one of the attention.

    Args:
        parts: of the decoder; the output reads the joined, or the attentional vector, which with input feeding the
            stack reads as well.
        attention: from states to the encoder's states.
        combine: the ``W`` of the attentional vector; default none: the textbook's.
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
        """Take over the encoder's final state, and project its states for the attention, once."""
        fed = None
        if self.input_feeding and self.combine is not None:
            fed = memory.states.new_zeros(memory.states.shape[0], self.combine.out_features)
        return self.first_state(memory, self.cross_attn, fed)

    def forward(self, tokens: Tensor, state: RNNState, *, need_weights: bool = False) -> tuple[Decoded, RNNState]:
        """Read tokens ``[b t]``: at once, or with input feeding one after the other."""
        x = self.embed(tokens)
        if self.input_feeding:
            h, weights, new = _one_by_one(self._advance, x, state, need_weights=need_weights)
        else:
            h, weights, new = self._advance(x, state, need_weights=need_weights)
        return Decoded(h, self.output, cross_weights=() if weights is None else (weights,)), new

    def _advance(self, x: Tensor, state: RNNState, *, need_weights: bool) -> tuple[Tensor, Tensor | None, RNNState]:
        """Map embedded tokens ``[b t e]`` to what the output layer reads ``[b t d]``."""
        if state.fed is not None:
            x = torch.cat([x, state.fed[:, None]], dim=-1)
        h, recurrent = self.stack(x, state.recurrent)
        context, weights = self.cross_attn(h, state.memory, mask=state.memory_mask, need_weights=need_weights)
        joined = torch.cat([context, h], dim=-1)
        if self.combine is not None:
            joined = torch.tanh(self.combine(joined))
        joined = self.dropout(joined)
        fed = joined[:, -1] if self.input_feeding else None
        return joined, weights, replace(state, recurrent=recurrent, fed=fed)


class BahdanauDecoder(RNNDecoder):
    """Attention before the RNN (Bahdanau et al. 2015, section 3.1 and appendix A.2.2).

    The previous state asks the source; the context is joined to the embedding at the RNN's input. The output reads
    state, context and embedding through a maxout layer (the paper's deep output; the paper gives it the previous
    state, this decoder the new one, which has seen the token).

    Args:
        parts: of the decoder; the stack reads the context as well.
        attention: from states to the encoder's states.
        maxout: maps ``[state; context; embedding]`` to pairs ``[2 l]``, of which the larger goes on to the output.
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
        joined, weights, new = _one_by_one(self._advance, self.embed(tokens), state, need_weights=need_weights)
        pairs = self.maxout(joined).unflatten(-1, (-1, 2))
        h = self.dropout(pairs.amax(dim=-1))
        return Decoded(h, self.output, cross_weights=() if weights is None else (weights,)), new

    def _advance(self, x: Tensor, state: RNNState, *, need_weights: bool) -> tuple[Tensor, Tensor | None, RNNState]:
        query = state.recurrent[-1][0][:, None]
        context, weights = self.cross_attn(query, state.memory, mask=state.memory_mask, need_weights=need_weights)
        h, recurrent = self.stack(torch.cat([x, context], dim=-1), state.recurrent)
        joined = torch.cat([h, context, x], dim=-1)
        return joined, weights, replace(state, recurrent=recurrent)


def _one_by_one(
    advance: Callable[..., tuple[Tensor, Tensor | None, RNNState]], x: Tensor, state: RNNState, *, need_weights: bool
) -> tuple[Tensor, Tensor | None, RNNState]:
    """Advance by the embedded tokens ``[b t e]`` one at a time, and join what comes of it along ``t``."""
    read: list[tuple[Tensor, Tensor | None]] = []
    for token in torch.split(x, 1, dim=1):
        vector, weights, state = advance(token, state, need_weights=need_weights)
        read.append((vector, weights))
    vectors, rows = zip(*read, strict=True)
    return torch.cat(vectors, dim=1), torch.cat(rows, dim=2) if need_weights else None, state
