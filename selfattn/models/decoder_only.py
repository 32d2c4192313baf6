"""Models of source and target as one sequence: by masked self-attention, or by an RNN; and continued texts."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from selfattn.attention.masks import Mask, all_real
from selfattn.layers.recurrent import RecurrentStack, RecurrentState
from selfattn.layers.transformer import Past, StackOutput, TokenEmbedding, TransformerBlock, run_stack
from selfattn.models.protocol import AttentionMaps, Decoded, DecoderState, Memory, Seq2Seq


@dataclass(frozen=True)
class Prefix(Memory, DecoderState):
    """Everything read so far, the source first: keys and values of every layer.

    Attributes:
        caches: by layer, keys ``[b h s e]``, or a state.
        mask: bool ``[b s]``: which of the keys are real tokens; None: all of them.
        positions: int64 ``[b s]``: where each key stands in its row's text, padding not counted.
    """

    caches: tuple[Past, ...]
    mask: Tensor | None
    positions: Tensor


class DecoderOnly(Seq2Seq):
    """Masked self-attention over ``source <sep> target`` (Radford et al. 2018; Liu et al. 2018, section 4.2.3).

    The target's ``<bos>`` is the separator. Positions run on from the source's last real token, so padding between
    the two changes nothing. With a source of no tokens at all this is a language model.

    Args:
        embed: one embedding for source and target.
        layers: blocks without cross-attention.
        output: maps ``[.. d]`` to logits.
        norm: applied to the last block's output; default none.
        bidirectional_prefix: source tokens see the whole source (Raffel et al. 2020, section 3.2.1, "prefix LM");
            default False: they see what comes before them.
    """

    def __init__(
        self,
        embed: TokenEmbedding,
        layers: Sequence[TransformerBlock],
        output: nn.Linear,
        *,
        norm: nn.Module | None = None,
        bidirectional_prefix: bool = False,
    ) -> None:
        super().__init__()
        self.embed = embed
        self.layers = nn.ModuleList(layers)
        self.norm = norm
        self.output = output
        self.bidirectional_prefix = bidirectional_prefix
        self.reads_one_sequence = not bidirectional_prefix

    def encode(self, source: Tensor, source_mask: Tensor) -> Prefix:
        """Read the sources and keep keys and values of every layer."""
        positions = _positions(source_mask)
        mask = None if all_real(source_mask) else source_mask
        read = self._read(source, mask, positions, prefix=source.shape[1])
        return Prefix(read.caches, mask, positions)

    def advance(self, tokens: Tensor, state: Prefix, *, need_weights: bool = False) -> tuple[Decoded, Prefix]:
        """Read tokens ``[b t]``; everything before them is in the caches."""
        new = torch.arange(tokens.shape[1], device=tokens.device)
        mask = None
        if state.mask is None:
            new = (new + state.positions.shape[1]).expand_as(tokens)
        else:
            new = new + state.mask.sum(dim=1, keepdim=True)
            mask = torch.cat([state.mask, torch.ones_like(tokens, dtype=torch.bool)], dim=1)
        positions = torch.cat([state.positions, new], dim=1)
        read = self._read(tokens, mask, positions, caches=state.caches, need_weights=need_weights)
        return Decoded(read.x, self.output, read.self_weights), Prefix(read.caches, mask, positions)

    def pre_logits(self, source: Tensor, target_in: Tensor, *, source_mask: Tensor) -> Decoded:
        """Read source and target in one pass."""
        return Decoded(self._read_pair(source, target_in, source_mask).x[:, source.shape[1] :], self.output)

    def attention_maps(self, source: Tensor, target_in: Tensor, *, source_mask: Tensor) -> AttentionMaps:
        """Return all weights, cut into source to source, target to target, and target to source.

        The rows of the last two sum to one only together: a target token attends to both in one distribution.
        """
        weights = self._read_pair(source, target_in, source_mask, need_weights=True).self_weights
        s = source.shape[1]
        rows = [w[:, :, :s, :s] for w in weights]
        below = [w[:, :, s:] for w in weights]
        return AttentionMaps(tuple(rows), tuple(w[..., s:] for w in below), tuple(w[..., :s] for w in below))

    def _read_pair(
        self, source: Tensor, target_in: Tensor, source_mask: Tensor, *, need_weights: bool = False
    ) -> StackOutput:
        mask = torch.cat([source_mask, torch.ones_like(target_in, dtype=torch.bool)], dim=1)
        tokens = torch.cat([source, target_in], dim=1)
        positions = _positions(mask)
        hiding = None if all_real(source_mask) else mask
        return self._read(tokens, hiding, positions, prefix=source.shape[1], need_weights=need_weights)

    def _read(
        self,
        tokens: Tensor,
        mask: Tensor | None,
        positions: Tensor,
        *,
        caches: tuple[Past, ...] | None = None,
        prefix: int = 0,
        need_weights: bool = False,
    ) -> StackOutput:
        """Read ``tokens [b i]``, the last of the keys that ``mask [b j]`` and ``positions [b j]`` describe.

        Without a mask all keys are real. Behind ``caches`` all of ``tokens`` are.
        """
        i = tokens.shape[1]
        new_positions = positions[:, positions.shape[1] - i :]
        x = self.embed(tokens, new_positions)
        if mask is not None:
            x = x.masked_fill(~mask[:, -i:, None], 0.0)
        attention = Mask(causal=True)
        if mask is not None or (self.bidirectional_prefix and prefix):
            allowed = self._allowed(new_positions, positions, mask, prefix)[:, None]
            # What stands at padding sees the row's first token, where that is real.
            is_safe = caches is not None or mask is None or all_real(mask[:, 0])
            attention = Mask.safe(allowed) if is_safe else Mask(allowed)
            if mask is not None and not (self.bidirectional_prefix and prefix):
                attention = replace(attention, tokens=mask[:, -i:])
        return run_stack(
            self.layers, self.norm, x, caches=caches, mask=attention, positions=new_positions, need_weights=need_weights
        )

    def _allowed(self, query_positions: Tensor, key_positions: Tensor, key_mask: Tensor | None, prefix: int) -> Tensor:
        """Which keys each query may see, ``[b i j]``: real ones, not after it; a free prefix."""
        allowed = query_positions[:, :, None] >= key_positions[:, None, :]
        if self.bidirectional_prefix and prefix:
            i, j = allowed.shape[1:]
            inside = torch.arange(j, device=allowed.device) < prefix
            allowed = allowed | (inside[j - i :, None] & inside)
        return allowed if key_mask is None else allowed & key_mask[:, None, :]


def _positions(mask: Tensor) -> Tensor:
    """Count real tokens from 0 in each row: ``[b j]`` bool to ``[b j]`` int64; padding repeats the last number."""
    return (mask.cumsum(dim=1) - 1).clamp(min=0)


@dataclass(frozen=True)
class Read(Memory, DecoderState):
    """Everything read so far.

    Attributes:
        recurrent: for each layer its parts, each ``[b d]``.
    """

    recurrent: RecurrentState


class RecurrentModel(Seq2Seq):
    """A GRU over ``source <sep> target`` (Cho et al. 2014); without a source a language model (Mikolov et al. 2010).

    Args:
        embed: one embedding for source and target.
        stack: of GRUs, read forward. An LSTM would need its cell after each row's last token, which torch does not
            return for padded rows.
        output: maps ``[.. d]`` to logits.
    """

    reads_one_sequence = True
    takes_gaps = False

    def __init__(self, embed: TokenEmbedding, stack: RecurrentStack, output: nn.Linear) -> None:
        super().__init__()
        self.embed = embed
        self.stack = stack
        self.output = output

    def encode(self, source: Tensor, source_mask: Tensor) -> Read:
        """Read the sources ``[b s]``; after no tokens the state is zero."""
        if source.shape[1] == 0:
            source = nn.functional.pad(source, (0, 1))
            source_mask = nn.functional.pad(source_mask, (0, 1))
        _, final = self.stack.read(self.embed(source), source_mask)
        return Read(tuple((h,) for h in final))

    def advance(self, tokens: Tensor, state: Read, *, need_weights: bool = False) -> tuple[Decoded, Read]:
        """Read tokens ``[b t]``."""
        states, recurrent = self.stack(self.embed(tokens), state.recurrent)
        return Decoded(states, self.output), Read(recurrent)


@dataclass(frozen=True)
class Begun(Memory, DecoderState):
    """A text so far.

    Attributes:
        text: memory or state of what is read.
        last: the beginning's last token ``[b]``, which the first step reads; after it None.
    """

    text: Any
    last: Tensor | None


class Continuation(Seq2Seq):
    r"""A language model whose source is the beginning of a text and whose target is the rest of it.

    ``<bos>`` stands in front of the beginning, where a language model reads it; the ``<bos>`` that every target
    begins with is not read. So every way of decoding continues texts, and

    .. math:: p(y_k \mid y_{<k}, x) = p_{LM}(y_k \mid \text{<bos>}\ x\ y_{<k}).

    Args:
        model: trained with sources of no tokens; one that reads source and target as one sequence.
        bos_id: the token that its texts begin with.

    Raises:
        ValueError: the model has an encoder for its source, or reads it in both directions.

    Example:
        >>> from selfattn.models.build import build
        >>> from selfattn.models.families import PRESETS
        >>> model = build(PRESETS["decoder-only"].config, vocab_size=11, pad_id=0, seed=0)
        >>> nothing, mask = torch.zeros(1, 0, dtype=torch.int64), torch.zeros(1, 0, dtype=torch.bool)
        >>> full = model(nothing, torch.tensor([[1, 5, 6, 7]]), source_mask=mask)
        >>> begun, mask = torch.tensor([[5, 6]]), torch.ones(1, 2, dtype=torch.bool)
        >>> rest = Continuation(model, bos_id=1)(begun, torch.tensor([[1, 7]]), source_mask=mask)
        >>> torch.allclose(rest, full[:, 2:], atol=1e-5)
        True
    """

    def __init__(self, model: Seq2Seq, bos_id: int) -> None:
        super().__init__()
        if not model.reads_one_sequence:
            reason = "the model has an encoder or reads its source in both directions"
            raise ValueError(f"Continuation: {reason}; it cannot go on from it")
        self.model = model
        self.bos_id = bos_id

    def encode(self, source: Tensor, source_mask: Tensor) -> Begun:
        """Read ``<bos>`` and the beginnings ``[b s]`` but for their last tokens."""
        prefix, last = self._shift(source, source_mask)
        return Begun(self.model.encode(prefix, source_mask), last)

    def start(self, memory: Begun) -> Begun:
        """Go on from the beginning."""
        return Begun(self.model.start(memory.text), memory.last)

    def step(self, token: Tensor, state: Begun) -> tuple[Tensor, Begun]:
        """Read one token ``[b]``; at the first step the beginning's last one in its place."""
        logits, text = self.model.step(token if state.last is None else state.last, state.text)
        return logits, Begun(text, None)

    def forward(self, source: Tensor, target_in: Tensor, *, source_mask: Tensor) -> Tensor:
        """Return logits ``[b t v]`` for the target's positions."""
        prefix, last = self._shift(source, source_mask)
        logits: Tensor = self.model(prefix, _with_first(target_in, last), source_mask=source_mask)
        return logits

    def attention_maps(self, source: Tensor, target_in: Tensor, *, source_mask: Tensor) -> AttentionMaps:
        """Return all weights; the source's axis is ``<bos>`` and the beginning without its last token."""
        prefix, last = self._shift(source, source_mask)
        return self.model.attention_maps(prefix, _with_first(target_in, last), source_mask=source_mask)

    def _shift(self, source: Tensor, source_mask: Tensor) -> tuple[Tensor, Tensor]:
        """Put ``<bos>`` in front and take the last real token of each row off: ``[b s]`` and ``[b]``."""
        tokens = torch.cat([source.new_full((len(source), 1), self.bos_id), source], dim=1)
        return tokens[:, :-1], tokens.gather(1, source_mask.sum(dim=1, keepdim=True))[:, 0]


def _with_first(target_in: Tensor, first: Tensor) -> Tensor:
    return torch.cat([first[:, None], target_in[:, 1:]], dim=1)
