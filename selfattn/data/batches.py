"""Batches: examples of like length together, padded on the right, in an order that a seed decides.

Axis letters: b batch, s source length, t target length.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import torch
from torch import Tensor

from selfattn.data.examples import Example

BUFFER = 10_000
"""Examples of a stream that are held at once."""


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Examples as tensors, padded on the right to the longest. Masks are True at real tokens.

    Args:
        source: int64 [b s].
        source_mask: bool [b s].
        target_in: int64 [b t], what a decoder reads: bos, then the target without its last id.
        target_out: int64 [b t], what it should say: the target.
        target_mask: bool [b t], of both target tensors.
        indices: the place of each row among the examples that the batch was made of.
    """

    source: Tensor
    source_mask: Tensor
    target_in: Tensor
    target_out: Tensor
    target_mask: Tensor
    indices: list[int]

    def to(self, device: torch.device | str) -> Batch:
        """Return the batch on this device."""
        return self.changed(lambda tensor: tensor.to(device), self.indices)

    def changed(self, change: Callable[[Tensor], Tensor], indices: list[int]) -> Batch:
        """Return the batch with every tensor changed in the same way.

        Args:
            change: of one tensor.
            indices: of the rows that the change leaves.

        Example:
            >>> batch = collate([Example([7, 2], [8, 9, 2]), Example([7, 6, 2], [8, 2])], 0, 1, [3, 5])
            >>> batch.changed(lambda tensor: tensor[:1], batch.indices[:1]).target_out.tolist()
            [[8, 9, 2]]
        """
        tensors = (self.source, self.source_mask, self.target_in, self.target_out, self.target_mask)
        source, source_mask, target_in, target_out, target_mask = map(change, tensors)
        return Batch(source, source_mask, target_in, target_out, target_mask, indices)


def padding_of(batch: Batch) -> tuple[int, int]:
    """Count places of a batch, source and target together: those that are padding, and all.

    Example:
        >>> padding_of(collate([Example([7, 2], [8, 9, 2]), Example([7, 6, 2], [8, 2])], 0, 1, [0, 1]))
        (2, 12)
    """
    places = batch.source_mask.numel() + batch.target_mask.numel()
    return places - int(batch.source_mask.sum()) - int(batch.target_mask.sum()), places


def collate(examples: Sequence[Example], pad_id: int, bos_id: int, indices: Sequence[int]) -> Batch:
    """Put examples into one batch.

    Args:
        examples: at least one, with at least one id in each target. A source may be empty, as a language model's is.
        pad_id: the id that fills up.
        bos_id: the id that `target_in` begins with.
        indices: one number for each example, handed on.

    Raises:
        ValueError: no examples, a target without ids, or not as many indices as examples.

    Example:
        >>> examples = [Example([7, 2], [8, 9, 2]), Example([7, 6, 2], [8, 2])]
        >>> batch = collate(examples, pad_id=0, bos_id=1, indices=[0, 1])
        >>> batch.source.tolist(), batch.target_in.tolist(), batch.target_out.tolist()
        ([[7, 2, 0], [7, 6, 2]], [[1, 8, 9], [1, 8, 0]], [[8, 9, 2], [8, 2, 0]])
        >>> batch.source_mask.tolist()
        [[True, True, False], [True, True, True]]
    """
    if not examples or len(examples) != len(indices):
        raise ValueError(f"collate needs examples and an index for each, got {len(examples)} and {len(indices)}")
    if not all(example.target for example in examples):
        raise ValueError("collate needs at least one id (such as eos) in the target of every example")
    source, source_mask = _padded([example.source for example in examples], pad_id)
    target_in, _ = _padded([[bos_id, *example.target[:-1]] for example in examples], pad_id)
    target_out, target_mask = _padded([example.target for example in examples], pad_id)
    return Batch(source, source_mask, target_in, target_out, target_mask, list(indices))


def batches(
    examples: Sequence[Example],
    *,
    batch_size: int | None,
    max_tokens: int | None,
    pad_id: int,
    bos_id: int,
    generator: torch.Generator | None,
    window: int = 100,
) -> Iterator[Batch]:
    """Return an iterator over batches that together have every example once.

    With a generator: the examples are shuffled, cut into windows of about `window` batches, sorted by length inside
    a window, and cut into batches, which come in random order. So there is little padding, and the order depends on
    the generator's seed and the lengths, not on the model. Without one, the order is kept.

    Args:
        examples: all of them; for a stream see `stream_batches`.
        batch_size: most rows in a batch; None for no bound.
        max_tokens: most tokens in a batch, padding included, source and target together; None for no bound. An
            example that is longer than this by itself makes a batch by itself.
        pad_id: see `collate`.
        bos_id: see `collate`.
        generator: of the shuffling, on the CPU; None keeps the order.
        window: batches that are sorted together; default 100.

    Raises:
        ValueError: neither bound is given, or one of the numbers is not positive.

    Example:
        >>> examples = [Example([5] * n + [2], [6, 2]) for n in (3, 1, 4, 1, 5)]
        >>> options = dict(batch_size=2, max_tokens=None, pad_id=0, bos_id=1)
        >>> [batch.indices for batch in batches(examples, **options, generator=None)]
        [[0, 1], [2, 3], [4]]
        >>> shuffled = batches(examples, **options, generator=torch.Generator().manual_seed(0))
        >>> sorted(index for batch in shuffled for index in batch.indices)
        [0, 1, 2, 3, 4]
    """
    groups = batch_places(
        list(map(lengths_of, examples)),
        batch_size=batch_size,
        max_tokens=max_tokens,
        generator=generator,
        window=window,
    )
    return (collate([examples[index] for index in group], pad_id, bos_id, group) for group in groups)


def batch_places(
    lengths: Sequence[tuple[int, int]],
    *,
    batch_size: int | None,
    max_tokens: int | None,
    generator: torch.Generator | None,
    window: int = 100,
) -> list[list[int]]:
    """Return for each batch of `batches` the places of its examples, of which only the lengths need to be known.

    Args:
        lengths: of the source and of the target of each example, see `lengths_of`.
        batch_size: see `batches`.
        max_tokens: see `batches`.
        generator: see `batches`.
        window: see `batches`.

    Raises:
        ValueError: as `batches`.

    Example:
        >>> batch_places([(4, 2), (2, 2), (5, 2)], batch_size=2, max_tokens=None, generator=None)
        [[0, 1], [2]]
    """
    bounds = _Bounds("batches", batch_size, max_tokens, window=window)
    if generator is None:
        return list(bounds.cut(range(len(lengths)), lengths))
    windows = bounds.windows(_order(len(lengths), generator), lengths, window)
    groups = [group for part in windows for group in bounds.cut_by_length(part, lengths)]
    return [groups[place] for place in _order(len(groups), generator)]


def stream_batches(
    examples: Iterable[Example],
    *,
    batch_size: int | None = None,
    max_tokens: int | None = None,
    buffer: int = BUFFER,
    pad_id: int,
    bos_id: int,
    generator: torch.Generator | None,
) -> Iterator[Batch]:
    """Do what `batches` does for a stream, which may be larger than memory or have no end: a window of it is held.

    With a generator: each window of `buffer` examples is shuffled, sorted by length and cut into batches, which come
    in random order. The order depends on the generator's seed, the lengths and the order of the stream, not on the
    model. What lies further apart than a window stays apart: let a file that is sorted by length or topic come
    shuffled (`selfattn.data.shuffling.shuffled`). Without a generator the order is kept.

    Args:
        examples: the stream; never more than `buffer` of them are read ahead.
        batch_size: see `batches`.
        max_tokens: see `batches`.
        buffer: examples in a window; default 10,000.
        pad_id: see `collate`.
        bos_id: see `collate`.
        generator: of the shuffling, on the CPU; None keeps the order.

    Returns:
        Batches whose `indices` count the examples of the stream from 0.

    Raises:
        ValueError: neither bound is given, or one of the numbers is not positive.

    Example:
        >>> examples = (Example([5] * n + [2], [6, 2]) for n in (3, 1, 4, 1, 5))
        >>> stream = stream_batches(examples, batch_size=2, buffer=4, pad_id=0, bos_id=1, generator=None)
        >>> [batch.indices for batch in stream]
        [[0, 1], [2, 3], [4]]
    """
    bounds = _Bounds("stream_batches", batch_size, max_tokens, buffer=buffer)
    stream = iter(examples)
    cuts = bounds.in_order(stream, buffer) if generator is None else bounds.at_random(stream, buffer, generator)
    return (
        collate([held[place] for place in group], pad_id, bos_id, [start + place for place in group])
        for start, held, group in cuts
    )


def lengths_of(example: Example) -> tuple[int, int]:
    """Return how many ids the source and the target of an example have.

    Example:
        >>> lengths_of(Example([7, 2], [8, 9, 2]))
        (2, 3)
    """
    return len(example.source), len(example.target)


def _order(count: int, generator: torch.Generator) -> list[int]:
    order: list[int] = torch.randperm(count, generator=generator).tolist()
    return order


_Lengths = Sequence[tuple[int, int]]
_Cut = tuple[int, list[Example], list[int]]  # how many examples came before a window, the window, places in it


class _Bounds:
    """How large a batch may be, and all that is cut by it."""

    def __init__(self, function: str, batch_size: int | None, max_tokens: int | None, **window: int) -> None:
        if batch_size is None and max_tokens is None:
            raise ValueError(f"{function} needs batch_size, max_tokens or both")
        for name, number in {"batch_size": batch_size, "max_tokens": max_tokens, **window}.items():
            if number is not None and number < 1:
                raise ValueError(f"{name} must be at least 1, got {number}")
        self.rows, self.tokens = batch_size or math.inf, max_tokens or math.inf

    def windows(self, order: Iterable[int], lengths: _Lengths, window: int) -> Iterator[list[int]]:
        """Cut the order where `window` batches should be full, padding not counted."""
        part: list[int] = []
        tokens = 0
        for index in order:
            part.append(index)
            tokens += sum(lengths[index])
            if len(part) >= window * self.rows or tokens >= window * self.tokens:
                yield part
                part, tokens = [], 0
        if part:
            yield part

    def cut(self, order: Iterable[int], lengths: _Lengths) -> Iterator[list[int]]:
        """Cut the order into batches, each as large as the bounds allow."""
        group: list[int] = []
        source = target = 0
        for index in order:
            size = lengths[index]
            longest = max(source, size[0]), max(target, size[1])
            if group and (len(group) == self.rows or (len(group) + 1) * sum(longest) > self.tokens):
                yield group
                group, longest = [], size
            group.append(index)
            source, target = longest
        if group:
            yield group

    def cut_by_length(self, order: Iterable[int], lengths: _Lengths) -> Iterator[list[int]]:
        return self.cut(sorted(order, key=lengths.__getitem__), lengths)

    def in_order(self, stream: Iterator[Example], buffer: int) -> Iterator[_Cut]:
        start, held = 0, list(islice(stream, buffer))
        while held:
            *full, last = self.cut(range(len(held)), list(map(lengths_of, held)))
            yield from ((start, held, group) for group in full)
            start, held = start + last[0], held[last[0] :]
            # The end of the window cut the last group short, not a bound: it is filled up from what comes, if the
            # window has space and anything comes.
            more = list(islice(stream, buffer - len(held)))
            if not more:
                yield start, held, list(range(len(held)))
                start, held = start + len(held), list(islice(stream, buffer))
            held += more

    def at_random(self, stream: Iterator[Example], buffer: int, generator: torch.Generator) -> Iterator[_Cut]:
        start = 0
        while held := list(islice(stream, buffer)):
            groups = list(self.cut_by_length(_order(len(held), generator), list(map(lengths_of, held))))
            yield from ((start, held, groups[place]) for place in _order(len(groups), generator))
            start += len(held)


def _padded(rows: Sequence[Sequence[int]], pad_id: int) -> tuple[Tensor, Tensor]:
    width = max(len(row) for row in rows)
    lengths = torch.tensor([len(row) for row in rows])
    ids = torch.tensor([[*row, *[pad_id] * (width - len(row))] for row in rows], dtype=torch.int64)
    return ids, torch.arange(width) < lengths[:, None]
