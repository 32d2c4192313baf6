"""Train on sources of many lengths, and measure exact match at each; several claims share this."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import partial

import torch

from selfattn.claims import small
from selfattn.data.batches import Batch
from selfattn.models.config import ModelConfig

Make = Callable[[int, int, torch.Generator], Batch]
"""Makes so many rows of one source length from a generator."""

BATCH, ITEMS = 64, 200  # rows of a training batch; sources of each length in a test, and of all in a validation


def by_length(
    config: ModelConfig,
    make: Make,
    lengths: Sequence[int],
    *,
    symbols: int,
    steps: int,
    seed: int,
    rate: float | None,
) -> dict[str, float]:
    """Train on sources of 2 symbols to the longest length, and measure what is right at each length.

    Args:
        config: of the model.
        make: sources and targets; every training batch has one length, which is drawn evenly.
        lengths: of the test, rising.
        symbols: how many there are.
        steps: of training.
        seed: of the trial.
        rate: the learning rate, as `measure` gets it.

    Returns:
        ``exact@LENGTH``, the share of exact targets on unseen sources of each length, and ``valid``, the mean loss on
        others.
    """

    def mixed(draws: torch.Generator) -> Batch:
        return make(BATCH, int(torch.randint(2, lengths[-1] + 1, (1,), generator=draws)), draws)

    model = small.trained(config, mixed, vocab_size=small.vocabulary(symbols), steps=steps, seed=seed, rate=rate)
    unseen = {length: small.validation_and_test(partial(make, ITEMS, length), seed=seed) for length in lengths}
    exact = {f"exact@{length}": small.exact_share(model, test) for length, (_, test) in unseen.items()}
    return {"valid": sum(small.loss_of(model, validation) for validation, _ in unseen.values()) / len(unseen)} | exact


def halving_length(exact: Sequence[float], lengths: Sequence[int]) -> float:
    """Return the length at which exact match falls to one half, interpolated; at least the first, at most the last.

    Example:
        >>> halving_length([1.0, 0.75, 0.25], [4, 8, 12]), halving_length([0.2, 0.1], [4, 8])
        (10.0, 4.0)
    """
    for k, (here, there) in enumerate(itertools.pairwise(exact)):
        if here < 0.5:
            return float(lengths[k])
        if there < 0.5:
            return lengths[k] + (lengths[k + 1] - lengths[k]) * (here - 0.5) / (here - there)
    return float(lengths[0] if exact[-1] < 0.5 else lengths[-1])
