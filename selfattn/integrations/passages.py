"""The weights of attention layers, and which calls belong together: a map for each sequence that a model goes through.

A model reads a sequence in one call, or in several with a cache: the prompt, then one token after another. Rows and
columns of a map are positions of the sequence. Where a call begins again at a position that there already is, the
cache was cut (a draft of assisted decoding was rejected), and the later rows count.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Self
from weakref import ReferenceType

import torch
from torch import Tensor, nn

from selfattn.errors import UserError

Kind = Literal["encoder", "decoder", "cross"]
"""What an attention layer attends to."""


@dataclass(eq=False)
class Passage:
    """A sequence of tokens on its way through a model, or a batch of them.

    Attributes:
        cache: keys and values of the tokens so far; None where each call reads all tokens.
        forward: number of the model's call, from 0.
        start: position of the call's first token.
        length: positions that the sequence has in the end; None: all that were computed.
        beams: ``[r t]``, the row that wrote each token of the returned sequences, or -1; None without beam search.
        prompt: positions before the first token that the beams wrote.
        begun: the position after the first call of the latest generation; 0 where it had no part in it.
    """

    cache: ReferenceType[Any] | None = None
    forward: int = -1
    start: int = 0
    length: int | None = None
    beams: Tensor | None = None
    prompt: int = 0
    begun: int = 0

    def has(self, cache: Any) -> bool:
        """Return whether the sequence goes on with this cache."""
        return self.cache is not None and self.cache() is cache


@dataclass(eq=False)
class Call:
    """The weights of one call of a layer, and where they belong.

    Attributes:
        weights: ``[b h i j]``.
        passage: the sequence that the call is part of.
        forward: number of the model's call in the passage.
        use: how often the layer was called before in this call of the model; layers may share their weights.
        start: position of the first row.
        columns: position of the first column.
        has_past: whether rows and columns are positions of one sequence that a cache keeps.
    """

    weights: Tensor
    passage: Passage
    forward: int
    use: int
    start: int
    columns: int
    has_past: bool

    @classmethod
    def of(cls, weights: Tensor, passage: Passage, use: int, is_cross: bool) -> Self:
        """Place the weights ``[b h i j]`` of a call.

        The keys of a cache end at the position of the last query: a sliding window begins later than at 0, and what
        a cache of fixed size has after that position is not in use. Cross-attention has all keys of the source.
        """
        has_past = passage.cache is not None and not is_cross
        columns = 0
        if has_past:
            positions = passage.start + weights.shape[2]
            columns = max(0, positions - weights.shape[3])
            weights = weights[..., :positions]
        return cls(weights, passage, passage.forward, use, passage.start, columns, has_past)

    @property
    def end(self) -> int:
        """The position after the last row."""
        return self.start + self.weights.shape[2]

    @property
    def num_columns(self) -> int:
        """The position after the last column."""
        return self.columns + self.weights.shape[3]


@dataclass
class Layer:
    """The weights of one attention layer, for each time that the model called it.

    Attributes:
        name: of the layer in the model, such as ``model.layers.0.self_attn``.
        kind: self-attention of an ``encoder`` or a ``decoder``, or ``cross``.
        tower: the part of the model, such as ``vision_model``, where several have layers of this kind; else empty.
        number: the model's own number of the layer, as in ``layers.3.``: layer 3 of a model in which only some layers
            have attention is 3. Where the layers of a tower have no numbers of their own, or share them, they are
            counted from 0.
        placed: the weights of each call, and where they belong.
        has_run: whether the model called the layer.
    """

    name: str
    kind: Kind
    tower: str
    number: int
    placed: list[Call] = field(default_factory=list, repr=False)
    has_run: bool = False

    @property
    def calls(self) -> list[Tensor]:
        """The weights ``[b h i j]`` of each call, as the layer computed them; while generating, of each step."""
        return [call.weights for call in self.placed]

    @property
    def sequences(self) -> list[Tensor]:
        """The weights ``[b h i j]`` of each sequence, or batch of sequences, that the model went through.

        Rows and columns are positions of the sequence. A key that a call did not have is 0. Drafts that assisted
        decoding rejected are left out. After ``model.generate`` with beams, ``b`` are the returned sequences. A layer
        that the model calls several times in a forward pass has a map for each.
        """
        return list(sequences(self.placed))

    @property
    def weights(self) -> Tensor:
        """The weights ``[b h i j]`` of the only sequence that the model went through.

        Raises:
            UserError: there are several sequences, or none.
        """
        maps = self.sequences
        if len(maps) != 1:
            advice = "watch each apart, or see `sequences`" if maps else "run the model inside the block"
            raise UserError(f"watch: {self.name} went through {len(maps)} sequences: {advice}")
        return maps[0]


def sequences(calls: Sequence[Call]) -> Iterator[Tensor]:
    """Yield the map ``[b h i j]`` of each sequence, and of each use of a layer that is called several times.

    A key that a call did not have yet, or not any more, is 0. After a beam search the rows ``b`` are the returned
    sequences, and a sequence that ended before the longest has rows of 0.

    Raises:
        UserError: the calls of a sequence have batches of different sizes.
    """
    groups: dict[tuple[int, int], list[Call]] = {}
    for call in calls:
        groups.setdefault((id(call.passage), call.use), []).append(call)
    for group in groups.values():
        yield _joined(group)


def _joined(calls: list[Call]) -> Tensor:
    """Join the calls of one sequence."""
    batches = {len(call.weights) for call in calls}
    if len(batches) > 1:
        sizes = " and ".join(str(size) for size in sorted(batches))
        raise UserError(f"watch: the batch changed its size within a sequence ({sizes} rows): see `calls`")
    length = calls[0].passage.length
    end = calls[-1].end if length is None else min(length, calls[-1].end)
    num_rows = end
    num_columns = max(call.num_columns for call in calls)
    parts = []
    for call in reversed(calls):  # the last call that begins at or before a position has its row
        if call.start < end:
            weights = call.weights[:, :, : end - call.start]
            padded = nn.functional.pad(weights, (call.columns, num_columns - call.num_columns))
            parts.append(padded if call.passage.beams is None else _of_beams(call, padded, call.passage.beams))
            end = call.start
    weights = torch.cat(parts[::-1], dim=-2)
    return weights[..., :num_rows] if calls[-1].has_past else weights


def _of_beams(call: Call, weights: Tensor, beams: Tensor) -> Tensor:
    """Return the weights ``[r h i j]`` of the returned sequences, from those ``[b h i j]`` of all beams."""
    place = torch.arange(weights.shape[2], device=weights.device)
    token = (call.start + place + 1 - call.passage.prompt).clamp(min=0)
    row = beams.to(weights.device)[:, token]  # [r i]
    chosen = weights[row.clamp(min=0), :, place]  # [r i h j]
    return chosen.masked_fill((row < 0)[:, :, None, None], 0).transpose(1, 2)
