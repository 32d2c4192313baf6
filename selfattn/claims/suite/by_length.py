"""Train on sources of many lengths, and measure exact match at each; several claims share this."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from statistics import fmean

import torch

from selfattn.claims import small
from selfattn.claims.claim import Setup
from selfattn.data.batches import Batch
from selfattn.models.config import ModelConfig

Make = Callable[[int, int, torch.Generator], Batch]
"""Makes so many rows of one source length from a generator."""


def by_length(setup: Setup, config: ModelConfig, make: Make, *, symbols: int) -> dict[str, float]:
    """Train on sources of 2 symbols to the longest length, and measure what is right at each length.

    Args:
        setup: of the trial; its settings ``lengths`` are those of the test, rising, ``tested`` the sources of each,
            ``batch`` the sources of a training step.
        config: of the model.
        make: sources and targets; every training batch has one length, which is drawn evenly.
        symbols: how many there are.

    Returns:
        ``exact@LENGTH``, the share of exact targets on unseen sources of each length; ``exact``, their mean;
        ``longest``, that of the last length; ``halving``, the length at which it falls to one half; ``valid``, the mean
        loss on others.
    """
    lengths = setup["lengths"]

    def mixed(draws: torch.Generator) -> Batch:
        return make(setup["batch"], int(torch.randint(2, lengths[-1] + 1, (1,), generator=draws)), draws)

    model = small.trained(setup, config, mixed, symbols=symbols)
    unseen = [small.validation_and_test(partial(make, setup["tested"], n), seed=setup.seed) for n in lengths]
    exact = [small.exact_share(model, test) for _, test in unseen]
    return {
        "valid": fmean(small.loss_of(model, validation) for validation, _ in unseen),
        "exact": fmean(exact),
        "longest": exact[-1],
        "halving": halving_length(exact, lengths),
        **{f"exact@{n}": share for n, share in zip(lengths, exact, strict=True)},
    }


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
