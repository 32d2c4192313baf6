"""The protocol of all sequence-to-sequence models: encode, start, advance, step, forward.

Training and decoding call these methods and no others. What is asked of a model before it is built (widths, limits)
belongs to its configuration, :mod:`selfattn.models.config`.
"""

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Self, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from selfattn.attention.cache import Cache, KeyValue
from selfattn.attention.masks import Mask
from selfattn.errors import UserError
from selfattn.layers.recurrent import map_leaves


class Reorderable:
    """A frozen dataclass of batch-first tensors, nested at will, whose rows can be picked and repeated."""

    def reorder(self, index: Tensor, *, sources: Tensor | None = None) -> Self:
        """Pick rows along the batch axis: for beams, and to let finished sentences leave.

        Args:
            index: int64 ``[new b]``.
            sources: int64, ascending: the sources that stay, in a search with the same number of hypotheses for each,
                in consecutive rows. Fields marked :data:`OF_SOURCE` then keep one row for each source. Default: those
                fields are picked by ``index`` like the others.

        Raises:
            ValueError: hypotheses share the keys of their source, and ``sources`` is missing.
        """
        parts = {}
        for field in dataclasses.fields(cast(Any, self)):
            if sources is None or "of_source" not in field.metadata:
                pick = partial(_picked, index=index, sources=sources)
            else:
                pick = partial(_picked_of_source, sources=sources, shared_by=len(index) // max(1, len(sources)))
            parts[field.name] = map_leaves(pick, getattr(self, field.name), _LEAVES)
        return type(self)(**parts)


OF_SOURCE = {"of_source": True}
"""Marks a state field that is the same for all hypotheses of a source; a beam search keeps it once."""


_LEAVES = (Reorderable, Cache, KeyValue, Mask)


def _picked(leaf: Any, *, index: Tensor, sources: Tensor | None) -> Any:
    """Pick the rows of hypotheses."""
    if isinstance(leaf, Tensor):
        return leaf.index_select(0, index)
    if isinstance(leaf, Reorderable):
        return leaf.reorder(index, sources=sources)
    if isinstance(leaf, KeyValue) and leaf.shared_by > 1:
        raise ValueError("reorder: the hypotheses of a source share its keys; say with `sources` which stay")
    return leaf.reorder(index) if isinstance(leaf, Cache | KeyValue | Mask) else leaf


def _picked_of_source(leaf: Any, *, sources: Tensor, shared_by: int) -> Any:
    """Pick the rows of sources; ``shared_by`` hypotheses share each of them."""
    if isinstance(leaf, Reorderable):
        return leaf.reorder(sources)
    if isinstance(leaf, KeyValue):
        picked = leaf if len(sources) == len(leaf.key) else leaf.reorder(sources)  # all sources stay: no copy
        shared_by = max(1, shared_by)
        return picked if picked.shared_by == shared_by else dataclasses.replace(picked, shared_by=shared_by)
    if isinstance(leaf, Tensor):
        return leaf if len(sources) == len(leaf) else leaf.index_select(0, sources)
    if isinstance(leaf, Mask):
        return leaf if leaf.allowed is None or len(leaf.allowed) == len(sources) else leaf.reorder(sources)
    return leaf.reorder(sources) if isinstance(leaf, Cache) else leaf


class Memory(Reorderable):
    """What an encoder returns; each family has its own frozen dataclass.

    Attributes:
        weights: of the encoder's self-attention by layer, each ``[b h s s]``; default none.
    """

    weights: tuple[Tensor, ...] = ()


class DecoderState(Reorderable):
    """What a decoder carries from step to step; each family has its own frozen dataclass."""


@dataclass(frozen=True)
class EncoderMemory(Memory):
    """The source, encoded: the memory of every encoder-decoder.

    Attributes:
        states: ``[b s d]``, zero or meaningless at padding.
        mask: bool ``[b s]``, True for real tokens.
        final: an RNN encoder's final ``h`` by layer, each ``[b d]``; None for a Transformer encoder.
        weights: self-attention weights by layer, each ``[b h s s]``; empty without ``need_weights``.
    """

    states: Tensor
    mask: Tensor
    final: tuple[Tensor, ...] | None = None
    weights: tuple[Tensor, ...] = ()

    def summary(self) -> Tensor:
        """Return one vector for the whole source, ``[b d]``: the top layer's final ``h``, or the mean of the states."""
        if self.final is not None:
            return self.final[-1]
        states = self.states.masked_fill(~self.mask[..., None], 0.0)
        return states.sum(dim=1) / self.mask.sum(dim=1, keepdim=True).clamp(min=1)


@dataclass(frozen=True)
class Decoded:
    """The decoder's output before the final projection to the vocabulary.

    That projection may be most of the work of a step, so the caller decides for which states to compute it.

    Attributes:
        states: ``[b t d]``, the input of the output layer.
        output: the output layer, which maps states to logits.
        self_weights: by layer, each ``[b h t j]``; empty without ``need_weights`` or without self-attention.
        cross_weights: by layer, each ``[b h t s]``; empty without ``need_weights`` or without cross-attention.
    """

    states: Tensor
    output: nn.Linear
    self_weights: tuple[Tensor, ...] = ()
    cross_weights: tuple[Tensor, ...] = ()

    def logits(self) -> Tensor:
        """Compute the logits ``[b t v]``."""
        logits: Tensor = self.output(self.states)
        return logits


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


class Seq2Seq(nn.Module, ABC):
    """A model that reads a source and writes a target, token ids in and logits out.

    ``forward`` equals stacked ``step`` calls. The result for a sentence depends neither on padding nor on the rest of
    its batch. A model defines :meth:`encode` and :meth:`advance`; the other methods have defaults, which may be
    overridden. The argument ``memory`` is always what the same model's :meth:`encode` returned, and ``state`` what its
    :meth:`start`, :meth:`advance` or :meth:`step` returned.

    Attributes:
        reads_one_sequence: whether it reads source and target as one sequence from left to right, and can therefore
            continue a prompt; default False.
        takes_gaps: whether a source's mask may hide a token between others; default True. If False, as for an encoder
            that reads one token after the other, only tokens at the right end may be masked.
        defines: which of ``advance``, ``step`` and ``forward`` a subclass defines or inherits from another subclass.
    """

    reads_one_sequence: bool = False
    takes_gaps: bool = True
    defines: ClassVar[frozenset[str]] = frozenset()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.defines = cls.defines | (vars(cls).keys() & {"advance", "step", "forward"})

    @property
    def device(self) -> torch.device:
        """The device of its weights; the CPU for a model without PyTorch weights, such as an exported one."""
        return next((weight.device for weight in self.parameters()), torch.device("cpu"))

    @abstractmethod
    def encode(self, source: Tensor, source_mask: Tensor) -> Memory:
        """Read sources: ids ``[b s]`` int64 and mask ``[b s]`` bool (True = real token), padded on the right."""

    def encode_watched(self, source: Tensor, source_mask: Tensor) -> Memory:
        """Read sources as :meth:`encode` does, with the weights of self-attention; by default without any."""
        return self.encode(source, source_mask)

    def start(self, memory: Any) -> DecoderState:
        """Return the state before the first target token; by default the memory, which then must be a state too."""
        if not isinstance(memory, DecoderState):
            kind = type(memory).__name__
            raise UserError(f"{type(self).__name__}: has no method start, and its memory {kind} is no DecoderState")
        return memory

    def advance(self, tokens: Tensor, state: Any, *, need_weights: bool = False) -> tuple[Decoded, DecoderState]:
        """Read target tokens ``[b t]`` from a state on; return the output at each token, and the new state."""
        raise NotImplementedError(f"{type(self).__name__} has no method advance")

    def step(self, token: Tensor, state: Any) -> tuple[Tensor, DecoderState]:
        """Read one target token ``[b]``; return logits ``[b v]`` for the next, and the new state."""
        decoded, new = self.advance(token.unsqueeze(1), state)
        return decoded.logits()[:, 0], new

    def pre_logits(self, source: Tensor, target_in: Tensor, *, source_mask: Tensor) -> Decoded | None:
        """Compute ``forward`` without its output layer, which a loss may then apply to some tokens at a time.

        Returns:
            The output before that layer; None if the model has no method ``advance``, so that only ``forward`` serves.
        """
        if "advance" not in self.defines:
            return None
        return self.advance(target_in, self.start(self.encode(source, source_mask)))[0]

    def forward(self, source: Tensor, target_in: Tensor, *, source_mask: Tensor) -> Tensor:
        """Return logits ``[b t v]`` for given target inputs ``[b t]``, which begin with ``<bos>``."""
        decoded = self.pre_logits(source, target_in, source_mask=source_mask)
        if decoded is None:
            return stepped_logits(self, target_in, self.start(self.encode(source, source_mask)))
        return decoded.logits()

    def attention_maps(self, source: Tensor, target_in: Tensor, *, source_mask: Tensor) -> AttentionMaps:
        """Return all attention weights for ``source`` and ``target_in``."""
        memory = self.encode_watched(source, source_mask)
        decoded, _ = self.advance(target_in, self.start(memory), need_weights=True)
        return AttentionMaps(memory.weights, decoded.self_weights, decoded.cross_weights)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Move or convert all tensors. Tied weights stay tied, also when they leave the meta device."""
        places: dict[int, list[tuple[nn.Module, str]]] = {}
        for module in self.modules():
            for name, parameter in module.named_parameters(recurse=False):
                places.setdefault(id(parameter), []).append((module, name))
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]  # PyTorch has no types for it
        for (first, first_name), *others in places.values():
            for module, name in others:
                setattr(module, name, getattr(first, first_name))
        return self

    __call__: Callable[..., Any]


def stepped_logits(model: Seq2Seq, tokens: Tensor, state: Any) -> Tensor:
    """Return the logits of reading target tokens one by one with ``step``, as decoding does.

    Args:
        model: any sequence-to-sequence model.
        tokens: target inputs ``[b t]``, int64, at least one step.
        state: what the model's ``start``, ``advance`` or ``step`` returned.

    Returns:
        Logits ``[b t v]``.

    Example:
        >>> from selfattn.models.build import build
        >>> model = build("rnn-attention", vocab_size=11).eval()
        >>> source = torch.tensor([[5, 6, 2]])
        >>> target_in = torch.tensor([[1, 7]])
        >>> state = model.start(model.encode(source, source > 0))
        >>> logits = stepped_logits(model, target_in, state)
        >>> torch.allclose(logits, model(source, target_in, source_mask=source > 0), atol=1e-5)
        True
    """
    rows = []
    for token in tokens.unbind(dim=1):
        logits, state = model.step(token, state)
        rows.append(logits)
    return torch.stack(rows, dim=1)


def token_by_token(
    advance: Callable[..., tuple[Decoded, Any]], tokens: Tensor, state: Any, *, need_weights: bool = False
) -> tuple[Decoded, Any]:
    """Advance by one token at a time, and join what each step gives.

    Args:
        advance: reads tokens from a state on, as :meth:`Seq2Seq.advance` does.
        tokens: ids ``[b t]``, or their vectors ``[b t d]``.
        state: before the first token.
        need_weights: see :meth:`Seq2Seq.advance`.

    Returns:
        The output at each token, and the state behind the last.
    """
    if tokens.shape[1] == 1:
        return advance(tokens, state, need_weights=need_weights)
    steps = []
    for token in torch.split(tokens, 1, dim=1):
        step, state = advance(token, state, need_weights=need_weights)
        steps.append(step)
    states = torch.cat([step.states for step in steps], dim=1)
    self_weights = _joined_weights(step.self_weights for step in steps)
    cross_weights = _joined_weights(step.cross_weights for step in steps)
    return Decoded(states, steps[0].output, self_weights, cross_weights), state


def _joined_weights(steps: Iterable[Sequence[Tensor]]) -> tuple[Tensor, ...]:
    """Join the weights of each layer; a family may return None for weights that nobody asked for."""
    return tuple(joined_rows(rows, dim=2) for rows in zip(*steps, strict=True) if rows[0] is not None)


def joined_rows(rows: Sequence[Tensor], dim: int) -> Tensor:
    """Join rows of several steps; weights of earlier steps are 0 for the keys that they did not have."""
    width = rows[-1].shape[-1]
    return torch.cat([F.pad(part, (0, width - part.shape[-1])) for part in rows], dim=dim)
