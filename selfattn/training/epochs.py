"""The examples of an epoch as the groups of batches that make its steps."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence

import torch

from selfattn.data.batches import Batch, batches, stream_batches
from selfattn.data.examples import Example
from selfattn.training.config import TrainingConfig

Group = list[Batch]
"""Batches whose gradients make one step."""


def cut_epoch(
    examples: Iterable[Example], config: TrainingConfig, *, pad_id: int, bos_id: int, generator: torch.Generator
) -> tuple[Iterator[Group], int | None]:
    """Cut an epoch into the groups of batches that make its steps.

    A sequence is dealt out as a whole by :func:`selfattn.data.batches.batches`. Anything else is read as it comes by
    :func:`selfattn.data.batches.stream_batches`: it may be larger than memory, or have no end.

    Args:
        examples: of the epoch.
        config: gives ``batch_size``, ``max_tokens`` and ``accumulate``.
        pad_id: padding token.
        bos_id: the token that every target begins with.
        generator: of the order.

    Returns:
        The groups in their order, and how many; None where nobody knows. The last group may be smaller.

    Example:
        >>> examples = [Example([4, 2], [5, 2])] * 7
        >>> config = TrainingConfig(batch_size=2, accumulate=3)
        >>> chance = torch.Generator().manual_seed(0)
        >>> groups, count = cut_epoch(examples, config, pad_id=0, bos_id=1, generator=chance)
        >>> count, [len(group) for group in groups]
        (2, [3, 1])
    """
    cut: Callable[..., Iterator[Batch]] = batches if isinstance(examples, Sequence) else stream_batches
    made = cut(
        examples,
        batch_size=config.batch_size,
        max_tokens=config.max_tokens,
        pad_id=pad_id,
        bos_id=bos_id,
        generator=generator,
    )
    if not isinstance(examples, Sequence):
        return _grouped(made, config.accumulate), None
    known = list(made)
    return _grouped(iter(known), config.accumulate), -(-len(known) // config.accumulate)


def _grouped(stream: Iterator[Batch], size: int) -> Iterator[Group]:
    while group := list(itertools.islice(stream, size)):
        yield group
