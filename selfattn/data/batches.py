"""Batches of examples of similar length, padded on the right, in an order that a seed decides.

Axis letters: b batch, s source length, t target length.
"""

import math
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from selfattn.data.pairs import Example, Examples
from selfattn.processes import paused_collector
from selfattn.tokenizers.protocol import BOS, PAD

_WINDOW = 100  # batches that are sorted by length together


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Examples as tensors, padded on the right to the longest. Masks are True at real tokens.

    Args:
        source: int64 [b s].
        source_mask: bool [b s].
        target_in: int64 [b t], input of the decoder: bos, then the target without its last id.
        target_out: int64 [b t], expected output of the decoder: the target.
        target_mask: bool [b t], of both target tensors.
        indices: index of each row among the examples that the batch was made of.
        links: bool [b t s], True where a target token is linked to a source token; None without any link.
    """

    source: Tensor
    source_mask: Tensor
    target_in: Tensor
    target_out: Tensor
    target_mask: Tensor
    indices: list[int]
    links: Tensor | None = None

    def to(self, device: torch.device | str) -> "Batch":
        """Return the batch on this device."""
        return self.changed(lambda tensor: tensor.to(device), self.indices)

    def changed(self, change: Callable[[Tensor], Tensor], indices: list[int]) -> "Batch":
        """Apply a function to every tensor of the batch.

        Args:
            change: function of one tensor.
            indices: of the rows of the result.

        Example:
            >>> batch = collate([Example([7, 2], [8, 9, 2]), Example([7, 6, 2], [8, 2])], 0, 1, [3, 5])
            >>> batch.changed(lambda tensor: tensor[:1], batch.indices[:1]).target_out.tolist()
            [[8, 9, 2]]
        """
        tensors = (self.source, self.source_mask, self.target_in, self.target_out, self.target_mask)
        source, source_mask, target_in, target_out, target_mask = map(change, tensors)
        links = None if self.links is None else change(self.links)
        return Batch(source, source_mask, target_in, target_out, target_mask, indices, links)


def padding_of(batch: Batch) -> tuple[int, int]:
    """Count padding and positions of a batch, source and target together.

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
        pad_id: padding id.
        bos_id: first id of `target_in`.
        indices: of the examples, for `Batch.indices`.

    Raises:
        ValueError: no examples, or a target without ids.

    Example:
        >>> examples = [Example([7, 2], [8, 9, 2]), Example([7, 6, 2], [8, 2])]
        >>> batch = collate(examples, pad_id=0, bos_id=1, indices=[0, 1])
        >>> batch.source.tolist(), batch.target_in.tolist(), batch.target_out.tolist()
        ([[7, 2, 0], [7, 6, 2]], [[1, 8, 9], [1, 8, 0]], [[8, 9, 2], [8, 2, 0]])
        >>> batch.source_mask.tolist()
        [[True, True, False], [True, True, True]]
    """
    if not all(example.target for example in examples):
        raise ValueError("collate needs at least one id (such as eos) in the target of every example")
    source, source_mask = _padded([example.source for example in examples], pad_id)
    target_in, _ = _padded([[bos_id, *example.target[:-1]] for example in examples], pad_id)
    target_out, target_mask = _padded([example.target for example in examples], pad_id)
    links = None
    if any(example.links for example in examples):
        links = torch.zeros(*target_out.shape, source.shape[1], dtype=torch.bool)
        for row, example in enumerate(examples):
            for source_place, target_place in example.links:
                links[row, target_place, source_place] = True
    return Batch(source, source_mask, target_in, target_out, target_mask, list(indices), links)


def batches(
    examples: Sequence[Example],
    *,
    batch_size: int | None,
    max_tokens: int | None,
    generator: torch.Generator | None = None,
) -> Iterator[Batch]:
    """Return an iterator over batches that together have every example once.

    With a generator: the examples are shuffled, cut into windows of about 100 batches, sorted by length inside a
    window, and cut into batches, which come in random order. This leaves little padding, and the order depends only on
    the generator's seed and the lengths. Without a generator, the order is kept.

    Args:
        examples: all of them; for a stream see `stream_batches`.
        batch_size: most rows in a batch; None for no bound.
        max_tokens: most tokens in a batch, padding included, source and target together; None for no bound. A longer
            example makes a batch by itself.
        generator: of the shuffling, on the CPU; default None, which keeps the order.

    Raises:
        ValueError: neither bound is given, or one is not positive.

    Example:
        >>> examples = [Example([5] * n + [2], [6, 2]) for n in (3, 1, 4, 1, 5)]
        >>> options = dict(batch_size=2, max_tokens=None)
        >>> [batch.indices for batch in batches(examples, **options)]
        [[0, 1], [2, 3], [4]]
        >>> shuffled = batches(examples, **options, generator=torch.Generator().manual_seed(0))
        >>> sorted(index for batch in shuffled for index in batch.indices)
        [0, 1, 2, 3, 4]
    """
    groups = batch_places(examples, batch_size=batch_size, max_tokens=max_tokens, generator=generator)
    return (collate([examples[index] for index in group], PAD, BOS, group) for group in groups)


@paused_collector()
def batch_places(
    examples: Sequence[Example], *, batch_size: int | None, max_tokens: int | None, generator: torch.Generator | None
) -> list[Sequence[int]]:
    """Return the places of the examples of each batch of `batches`, which has the same arguments.

    Example:
        >>> examples = [Example([5] * n + [2], [6, 2]) for n in (3, 1, 4)]
        >>> batch_places(examples, batch_size=2, max_tokens=None, generator=None)
        [[0, 1], [2]]
    """
    rows, tokens = _bounds(batch_size, max_tokens)
    lengths = lengths_of(examples)  # of millions: in arrays, and as Python's numbers a window at a time
    if generator is None:
        return list(_cut(range(len(lengths)), lengths.tolist(), rows, tokens))
    groups: list[Sequence[int]] = []
    order = torch.randperm(len(lengths), generator=generator).numpy()
    start = total = 0
    for end, size in enumerate(lengths.sum(axis=1)[order].tolist(), 1):
        total += size
        if end == len(order) or end - start >= _WINDOW * rows or total >= _WINDOW * tokens:
            window = lengths[order[start:end]].tolist()
            places = order[start:end].tolist()
            for group in _cut(sorted(range(len(window)), key=window.__getitem__), window, rows, tokens):
                groups.append(array("q", [places[place] for place in group]))
            start = end
            total = 0
    return [groups[place] for place in _order(len(groups), generator)]


def stream_batches(
    examples: Iterable[Example],
    *,
    batch_size: int | None = None,
    max_tokens: int | None = None,
    buffer: int = 10_000,
    generator: torch.Generator,
) -> Iterator[Batch]:
    """Do what `batches` does for a stream, which may be larger than memory or endless.

    Each window of `buffer` examples is shuffled, sorted by length and cut into batches, which come in random order.
    The order depends only on the generator's seed, the lengths and the order of the stream. Examples of different
    windows never share a batch, so a file that is sorted by length or topic should be shuffled first.

    Args:
        examples: the stream; at most `buffer` examples are read ahead.
        batch_size: see `batches`.
        max_tokens: see `batches`.
        buffer: examples in a window; default 10,000.
        generator: of the shuffling, on the CPU.

    Returns:
        Batches whose `indices` count the examples of the stream from 0.

    Raises:
        ValueError: neither bound is given, or one is not positive.

    Example:
        >>> examples = (Example([5] * n + [2], [6, 2]) for n in (3, 1, 4, 1, 5))
        >>> chance = torch.Generator().manual_seed(0)
        >>> stream = stream_batches(examples, batch_size=2, buffer=4, generator=chance)
        >>> [sorted(batch.indices) for batch in stream]
        [[1, 3], [0, 2], [4]]
    """
    rows, tokens = _bounds(batch_size, max_tokens)
    start = 0
    stream = iter(examples)
    while window := list(islice(stream, buffer)):
        lengths = lengths_of(window).tolist()
        order = sorted(_order(len(window), generator), key=lengths.__getitem__)
        groups = list(_cut(order, lengths, rows, tokens))
        for number in _order(len(groups), generator):
            group = groups[number]
            yield collate([window[place] for place in group], PAD, BOS, [start + place for place in group])
        start += len(window)


def lengths_of(examples: Sequence[Example]) -> NDArray[np.int64]:
    """Return the number of ids of source and target of each example, ``[n 2]``."""
    if isinstance(examples, Examples):
        return examples.lengths()
    sizes = [(len(example.source), len(example.target)) for example in examples]
    return np.array(sizes, dtype=np.int64).reshape(-1, 2)


def _order(count: int, generator: torch.Generator) -> list[int]:
    order: list[int] = torch.randperm(count, generator=generator).tolist()
    return order


def _bounds(batch_size: int | None, max_tokens: int | None) -> tuple[float, float]:
    bounds = [bound for bound in (batch_size, max_tokens) if bound is not None]
    if not bounds or min(bounds) < 1:
        raise ValueError(f"give batch_size, max_tokens or both, at least 1; got {batch_size} and {max_tokens}")
    return batch_size or math.inf, max_tokens or math.inf


def _cut(order: Iterable[int], lengths: Sequence[Sequence[int]], rows: float, tokens: float) -> Iterator[list[int]]:
    """Cut the order into batches, each as large as the bounds allow."""
    group: list[int] = []
    source = target = 0
    for index in order:
        size = lengths[index]
        longest = max(source, size[0]), max(target, size[1])
        if group and (len(group) == rows or (len(group) + 1) * sum(longest) > tokens):
            yield group
            group = []
            longest = size[0], size[1]
        group.append(index)
        source, target = longest
    if group:
        yield group


def _padded(rows: Sequence[Sequence[int]], pad_id: int) -> tuple[Tensor, Tensor]:
    width = max(len(row) for row in rows)
    lengths = torch.tensor([len(row) for row in rows])
    ids = torch.tensor([[*row, *[pad_id] * (width - len(row))] for row in rows], dtype=torch.int64)
    return ids, torch.arange(width) < lengths[:, None]
