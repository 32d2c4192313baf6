"""Batches: examples of like length together, padded on the right, in an order that a seed decides.

Axis letters: b batch, s source length, t target length.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from selfattn.data.pairs import Pair

if TYPE_CHECKING:
    from selfattn.tokenizers.protocol import Tokenizer


@dataclass(frozen=True, slots=True)
class Example:
    """A pair as token ids, each side with the end of text (eos) behind it.

    Args:
        source: ids of the source.
        target: ids of the target.
    """

    source: list[int]
    target: list[int]


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
        return Batch(
            self.source.to(device),
            self.source_mask.to(device),
            self.target_in.to(device),
            self.target_out.to(device),
            self.target_mask.to(device),
            self.indices,
        )


def padding_of(batch: Batch) -> tuple[int, int]:
    """Count places of a batch, source and target together: those that are padding, and all.

    Example:
        >>> padding_of(collate([Example([7, 2], [8, 9, 2]), Example([7, 6, 2], [8, 2])], 0, 1, [0, 1]))
        (2, 12)
    """
    places = batch.source_mask.numel() + batch.target_mask.numel()
    return places - int(batch.source_mask.sum()) - int(batch.target_mask.sum()), places


def encode_pairs(pairs: Iterable[Pair], tokenizer: Tokenizer) -> list[Example]:
    """Turn pairs into examples: the ids of each side, with eos behind them.

    Example:
        >>> from selfattn.tokenizers.char import CharTokenizer
        >>> encode_pairs([Pair("ab", "b")], CharTokenizer("ab"))
        [Example(source=[4, 5, 2], target=[5, 2])]
    """
    eos = [tokenizer.eos_id]
    source, target = tokenizer.source, tokenizer.target
    return [Example(source.encode(pair.source) + eos, target.encode(pair.target) + eos) for pair in pairs]


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
        examples: what to deal out.
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
    if batch_size is None and max_tokens is None:
        raise ValueError("batches needs batch_size, max_tokens or both")
    for name, number in (("batch_size", batch_size), ("max_tokens", max_tokens), ("window", window)):
        if number is not None and number < 1:
            raise ValueError(f"{name} must be at least 1, got {number}")
    if generator is None:
        groups = list(cut(range(len(examples)), examples, batch_size, max_tokens))
    else:
        shuffled = torch.randperm(len(examples), generator=generator).tolist()
        groups = []
        for part in _windows(shuffled, examples, batch_size, max_tokens, window):
            part.sort(key=lambda index: (len(examples[index].source), len(examples[index].target)))
            groups.extend(cut(part, examples, batch_size, max_tokens))
        groups = [groups[place] for place in torch.randperm(len(groups), generator=generator).tolist()]
    return (collate([examples[index] for index in group], pad_id, bos_id, group) for group in groups)


def _windows(
    order: Iterable[int], examples: Sequence[Example], batch_size: int | None, max_tokens: int | None, window: int
) -> Iterator[list[int]]:
    """Cut the order where `window` batches should be full, padding not counted."""
    part: list[int] = []
    tokens = 0
    for index in order:
        part.append(index)
        tokens += len(examples[index].source) + len(examples[index].target)
        rows_full = batch_size is not None and len(part) >= window * batch_size
        if rows_full or (max_tokens is not None and tokens >= window * max_tokens):
            yield part
            part, tokens = [], 0
    if part:
        yield part


def cut(
    order: Iterable[int], examples: Sequence[Example], batch_size: int | None, max_tokens: int | None
) -> Iterator[list[int]]:
    """Cut the order into batches, each as large as the bounds allow."""
    group: list[int] = []
    source = target = 0
    for index in order:
        longer_source = max(source, len(examples[index].source))
        longer_target = max(target, len(examples[index].target))
        too_many = batch_size is not None and len(group) == batch_size
        too_large = max_tokens is not None and (len(group) + 1) * (longer_source + longer_target) > max_tokens
        if group and (too_many or too_large):
            yield group
            group = []
            longer_source, longer_target = len(examples[index].source), len(examples[index].target)
        group.append(index)
        source, target = longer_source, longer_target
    if group:
        yield group


def _padded(rows: Sequence[Sequence[int]], pad_id: int) -> tuple[Tensor, Tensor]:
    width = max(len(row) for row in rows)
    lengths = torch.tensor([len(row) for row in rows])
    ids = torch.tensor([[*row, *[pad_id] * (width - len(row))] for row in rows], dtype=torch.int64)
    return ids, torch.arange(width) < lengths[:, None]
