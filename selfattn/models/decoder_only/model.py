"""The decoder-only model: source and target are one sequence, read by masked self-attention alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from selfattn.attention.cache import Cache
from selfattn.attention.masks import Mask, all_real
from selfattn.layers import TokenEmbedding, TransformerBlock
from selfattn.layers.transformer import StackOutput, run_stack
from selfattn.models.protocol import AttentionMaps, Decoded, DecoderState, Memory, Seq2Seq


@dataclass(frozen=True)
class Prefix(Memory, DecoderState):
    """Everything read so far, the source first: keys and values of every layer.

    Attributes:
        caches: by layer, keys ``[b h s e]``.
        mask: bool ``[b s]``: which of the keys are real tokens; None: all of them.
        positions: int64 ``[b s]``: where each key stands in its row's text, padding not counted.
    """

    caches: tuple[Cache, ...]
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
        window: how many positions back a token sees, itself included; default all.
    """

    def __init__(
        self,
        embed: TokenEmbedding,
        layers: Sequence[TransformerBlock],
        output: nn.Linear,
        *,
        norm: nn.Module | None = None,
        bidirectional_prefix: bool = False,
        window: int | None = None,
    ) -> None:
        super().__init__()
        self.embed = embed
        self.layers = nn.ModuleList(layers)
        self.norm = norm
        self.output = output
        self.bidirectional_prefix = bidirectional_prefix
        self.reads_one_sequence = not bidirectional_prefix
        self.window = window

    def encode(self, source: Tensor, source_mask: Tensor) -> Prefix:
        """Read the sources and keep keys and values of every layer."""
        positions = _positions(source_mask)
        mask = None if all_real(source_mask) else source_mask
        read = self._read(source, mask, positions, prefix=source.shape[1])
        return Prefix(read.caches, mask, positions)

    def advance(self, tokens: Tensor, state: DecoderState, *, need_weights: bool = False) -> tuple[Decoded, Prefix]:
        """Read tokens ``[b t]``; everything before them is in the caches."""
        assert isinstance(state, Prefix)
        new, mask = torch.arange(tokens.shape[1], device=tokens.device), None
        if state.mask is None:
            new = (new + state.positions.shape[1]).expand_as(tokens)
        else:
            new = new + state.mask.sum(dim=1, keepdim=True)
            mask = torch.cat([state.mask, torch.ones_like(tokens, dtype=torch.bool)], dim=1)
        positions = torch.cat([state.positions, new], dim=1)
        read = self._read(tokens, mask, positions, caches=state.caches, sees_itself=True, need_weights=need_weights)
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
        return AttentionMaps(
            encoder=tuple(w[:, :, :s, :s] for w in weights),
            decoder=tuple(w[:, :, s:, s:] for w in weights),
            cross=tuple(w[:, :, s:, :s] for w in weights),
        )

    def _read_pair(
        self, source: Tensor, target_in: Tensor, source_mask: Tensor, *, need_weights: bool = False
    ) -> StackOutput:
        mask = torch.cat([source_mask, torch.ones_like(target_in, dtype=torch.bool)], dim=1)
        tokens, positions = torch.cat([source, target_in], dim=1), _positions(mask)
        hiding = None if all_real(source_mask) else mask
        return self._read(tokens, hiding, positions, prefix=source.shape[1], need_weights=need_weights)

    def _read(
        self,
        tokens: Tensor,
        mask: Tensor | None,
        positions: Tensor,
        *,
        caches: tuple[Cache, ...] | None = None,
        prefix: int = 0,
        sees_itself: bool = False,
        need_weights: bool = False,
    ) -> StackOutput:
        """Read ``tokens [b i]``, the last of the keys that ``mask [b j]`` and ``positions [b j]`` describe.

        Without a mask all keys are real. ``sees_itself`` says that all of ``tokens`` are.
        """
        i = tokens.shape[1]
        new_positions = positions[:, positions.shape[1] - i :]
        x = self.embed(tokens, new_positions)
        if mask is not None:
            x = x.masked_fill(~mask[:, -i:, None], 0.0)
        attention = Mask(causal=True)
        if mask is not None or self.window is not None or (self.bidirectional_prefix and prefix):
            allowed = self._allowed(new_positions, positions, mask, prefix)[:, None]
            # What stands at padding sees the row's first token, where that is real.
            is_safe = sees_itself or mask is None or all_real(mask[:, 0])
            attention = Mask.safe(allowed) if is_safe else Mask(allowed)
        return run_stack(
            self.layers, self.norm, x, caches=caches, mask=attention, positions=new_positions, need_weights=need_weights
        )

    def _allowed(self, query_positions: Tensor, key_positions: Tensor, key_mask: Tensor | None, prefix: int) -> Tensor:
        """Which keys each query may see, ``[b i j]``: real ones, not after it, not too far back; a free prefix."""
        distance = query_positions[:, :, None] - key_positions[:, None, :]
        allowed = distance >= 0
        if self.window is not None:
            allowed = allowed & (distance < self.window)
        if self.bidirectional_prefix and prefix:
            i, j = distance.shape[1:]
            query_index = torch.arange(j - i, j, device=distance.device)
            inside = torch.arange(j, device=distance.device) < prefix
            free = (query_index < prefix)[:, None] & inside
            if self.window is not None:
                free = free & (distance.abs() < self.window)
            allowed = allowed | free
        return allowed if key_mask is None else allowed & key_mask[:, None, :]


def _positions(mask: Tensor) -> Tensor:
    """Count real tokens from 0 in each row: ``[b j]`` bool to ``[b j]`` int64; padding repeats the last number."""
    return (mask.cumsum(dim=1) - 1).clamp(min=0)
