"""The decoder-only model: source and target are one sequence, read by masked self-attention alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from selfattn.attention import KeyValue
from selfattn.layers import TokenEmbedding, TransformerBlock
from selfattn.models.protocol import AttentionMaps, DecoderState, Memory, PreLogits, Seq2Seq


@dataclass(frozen=True)
class PrefixMemory(Memory):
    """The source, read: keys and values of every layer.

    Attributes:
        caches: by layer, keys ``[b h s e]``.
        mask: bool ``[b s]``, True for real tokens.
    """

    caches: tuple[KeyValue, ...]
    mask: Tensor


@dataclass(frozen=True)
class PrefixState(DecoderState):
    """Keys and values of everything read so far.

    Attributes:
        caches: by layer.
        mask: bool ``[b j]``: which of the keys are real tokens.
        positions: int64 ``[b j]``: where each key stands in its row's text, padding not counted.
    """

    caches: tuple[KeyValue, ...]
    mask: Tensor
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

    def encode(self, source: Tensor, source_mask: Tensor) -> PrefixMemory:
        """Read the sources and keep keys and values of every layer."""
        positions = _positions(source_mask)
        _, caches, _ = self._read(source, source_mask, positions, prefix=source.shape[1])
        return PrefixMemory(caches, source_mask)

    def start(self, memory: Memory) -> PrefixState:
        """Go on from the source."""
        assert isinstance(memory, PrefixMemory)
        return PrefixState(memory.caches, memory.mask, _positions(memory.mask))

    def step(self, token: Tensor, state: DecoderState) -> tuple[Tensor, PrefixState]:
        """Read one token ``[b]``; everything before it is in the caches."""
        assert isinstance(state, PrefixState)
        mask = torch.cat([state.mask, torch.ones_like(token, dtype=torch.bool)[:, None]], dim=1)
        positions = torch.cat([state.positions, state.mask.sum(dim=1, keepdim=True)], dim=1)
        x, caches, _ = self._read(token[:, None], mask, positions, caches=state.caches)
        return self.output(x)[:, 0], PrefixState(caches, mask, positions)

    def forward(self, source: Tensor, target_in: Tensor, *, source_mask: Tensor) -> Tensor:
        """Return logits ``[b t v]`` for the target's positions, source and target read in one pass."""
        return self.pre_logits(source, target_in, source_mask=source_mask).logits()

    def pre_logits(self, source: Tensor, target_in: Tensor, *, source_mask: Tensor) -> PreLogits:
        """Return what the output layer reads at the target's positions, and that layer."""
        x, _, _ = self._read_pair(source, target_in, source_mask)
        return PreLogits(x[:, source.shape[1] :], self.output)

    def attention_maps(self, source: Tensor, target_in: Tensor, *, source_mask: Tensor) -> AttentionMaps:
        """Return all weights, cut into source to source, target to target, and target to source.

        The rows of the last two sum to one only together: a target token attends to both in one distribution.
        """
        _, _, weights = self._read_pair(source, target_in, source_mask, need_weights=True)
        s = source.shape[1]
        return AttentionMaps(
            encoder=tuple(w[:, :, :s, :s] for w in weights),
            decoder=tuple(w[:, :, s:, s:] for w in weights),
            cross=tuple(w[:, :, s:, :s] for w in weights),
        )

    def _read_pair(
        self, source: Tensor, target_in: Tensor, source_mask: Tensor, *, need_weights: bool = False
    ) -> tuple[Tensor, tuple[KeyValue, ...], tuple[Tensor, ...]]:
        mask = torch.cat([source_mask, torch.ones_like(target_in, dtype=torch.bool)], dim=1)
        tokens = torch.cat([source, target_in], dim=1)
        return self._read(tokens, mask, _positions(mask), prefix=source.shape[1], need_weights=need_weights)

    def _read(
        self,
        tokens: Tensor,
        mask: Tensor,
        positions: Tensor,
        *,
        caches: tuple[KeyValue, ...] | None = None,
        prefix: int = 0,
        need_weights: bool = False,
    ) -> tuple[Tensor, tuple[KeyValue, ...], tuple[Tensor, ...]]:
        """Read ``tokens [b i]``, the last of the keys that ``mask [b j]`` and ``positions [b j]`` describe."""
        i = tokens.shape[1]
        own_positions = positions[:, positions.shape[1] - i :]
        allowed = self._allowed(own_positions, positions, mask, prefix)[:, None]
        x = self.embed(tokens, own_positions).masked_fill(~mask[:, -i:, None], 0.0)
        new_caches: list[KeyValue] = []
        weights: list[Tensor] = []
        for number, layer in enumerate(self.layers):
            x, cache, own, _ = layer(
                x,
                cache=None if caches is None else caches[number],
                mask=allowed,
                positions=own_positions,
                need_weights=need_weights,
            )
            new_caches.append(cache)
            if own is not None:
                weights.append(own)
        if self.norm is not None:
            x = self.norm(x)
        return x, tuple(new_caches), tuple(weights)

    def _allowed(self, query_positions: Tensor, key_positions: Tensor, key_mask: Tensor, prefix: int) -> Tensor:
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
        return allowed & key_mask[:, None, :]


def _positions(mask: Tensor) -> Tensor:
    """Count real tokens from 0 in each row: ``[b j]`` bool to ``[b j]`` int64; padding repeats the last number."""
    return (mask.cumsum(dim=1) - 1).clamp(min=0)
