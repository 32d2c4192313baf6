"""The one protocol of all sequence-to-sequence models: encode, start, step, forward.

Decoding, training, evaluation and the comparison know nothing of a model but this page.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

from torch import Tensor, nn

from selfattn.layers import RecurrentState


class Reorderable:
    """A frozen dataclass of batch-first tensors, nested at will, whose rows can be picked and repeated."""

    def reorder(self, index: Tensor) -> Self:
        """Pick rows along the batch axis: for beams, and to let finished sentences leave.

        Args:
            index: int64 ``[new b]``.
        """
        picked: Self = _reorder(self, index)
        return picked


def _reorder(tree: Any, index: Tensor) -> Any:
    if isinstance(tree, Tensor):
        return tree.index_select(0, index)
    if isinstance(tree, tuple):
        return tuple(_reorder(part, index) for part in tree)
    if dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        parts = {field.name: _reorder(getattr(tree, field.name), index) for field in dataclasses.fields(tree)}
        return type(tree)(**parts)
    return tree


class Memory(Reorderable):
    """What an encoder hands over; each family has its own frozen dataclass."""


class DecoderState(Reorderable):
    """What a decoder carries from step to step; each family has its own frozen dataclass."""


@dataclass(frozen=True)
class EncoderMemory(Memory):
    """The source, encoded: the memory of every encoder-decoder.

    Attributes:
        states: ``[b s d]``, zero or meaningless at padding.
        mask: bool ``[b s]``, True for real tokens.
        final: an RNN encoder's final state by layer; None for a Transformer encoder.
        weights: self-attention weights by layer, each ``[b h s s]``, where asked for.
    """

    states: Tensor
    mask: Tensor
    final: RecurrentState | None = None
    weights: tuple[Tensor, ...] = ()

    def summary(self) -> Tensor:
        """Return one vector for the whole source, ``[b d]``: the top layer's final ``h``, or the mean of the states."""
        if self.final is not None:
            return self.final[-1][0]
        kept = self.states.masked_fill(~self.mask[..., None], 0.0)
        return kept.sum(dim=1) / self.mask.sum(dim=1, keepdim=True).clamp(min=1)


@dataclass(frozen=True)
class Decoded:
    """A whole target decoded at once.

    Attributes:
        states: ``[b t d]``, what the output layer maps to logits.
        self_weights: by layer, each ``[b h t t]``; empty where not asked for, or where a decoder has none.
        cross_weights: by layer, each ``[b h t s]``; likewise.
    """

    states: Tensor
    self_weights: tuple[Tensor, ...] = ()
    cross_weights: tuple[Tensor, ...] = ()


@dataclass(frozen=True)
class AttentionMaps:
    """All attention weights of a model for given sources and targets, one tensor a layer.

    Row ``k`` of a target axis belongs to the step that predicts target token ``k``.

    Attributes:
        encoder: self-attention in the encoder, each ``[b h s s]``.
        decoder: self-attention in the decoder, each ``[b h t t]``.
        cross: attention from target to source, each ``[b h t s]``.
    """

    encoder: tuple[Tensor, ...]
    decoder: tuple[Tensor, ...]
    cross: tuple[Tensor, ...]


@dataclass(frozen=True)
class PreLogits:
    """What a model says before its last product: with a large vocabulary logits are most of what a step moves.

    Attributes:
        states: ``[b t d]``.
        output: the layer that maps them to logits ``[b t v]``.
    """

    states: Tensor
    output: nn.Linear

    def logits(self) -> Tensor:
        """Compute them all."""
        logits: Tensor = self.output(self.states)
        return logits


class Seq2Seq(nn.Module, ABC):
    """A model that reads a source and writes a target, token ids in and logits out.

    ``forward`` equals stacked ``step`` calls; a sentence gives the same alone, in a batch, with any padding.

    Attributes:
        reads_one_sequence: whether it reads source and target as one sequence from left to right, and so can go on
            from the beginning of a text; default False.
    """

    reads_one_sequence: bool = False

    @abstractmethod
    def encode(self, source: Tensor, source_mask: Tensor) -> Memory:
        """Read sources: ids ``[b s]`` int64 and mask ``[b s]`` bool (True = real token), padded on the right."""

    @abstractmethod
    def start(self, memory: Memory) -> DecoderState:
        """Return the state before the first target token."""

    @abstractmethod
    def step(self, token: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        """Read one target token ``[b]``; return logits ``[b v]`` for the next, and the new state."""

    @abstractmethod
    def forward(self, source: Tensor, target_in: Tensor, *, source_mask: Tensor) -> Tensor:
        """Return logits ``[b t v]`` for given target inputs ``[b t]``, which begin with ``<bos>``."""

    def pre_logits(self, source: Tensor, target_in: Tensor, *, source_mask: Tensor) -> PreLogits | None:
        """Do what ``forward`` does but for the output layer, which a loss may apply to some tokens at a time.

        Returns:
            None where a model does not say (the default): its loss is computed from ``forward``.
        """
        return None

    @abstractmethod
    def attention_maps(self, source: Tensor, target_in: Tensor, *, source_mask: Tensor) -> AttentionMaps:
        """Return every attention weight computed while reading ``source`` and ``target_in``."""

    __call__: Callable[..., Any]
