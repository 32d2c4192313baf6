"""Models trained on sources of many lengths, and how much they get right at each: what claims of this room share."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence

import torch

from selfattn.claims.claim import Arm, Claim, Found
from selfattn.claims.rules import contrast, share_error
from selfattn.claims.sequences import exact_share, held_out, loss_of, stream
from selfattn.claims.training import train_for
from selfattn.data.batches import Batch
from selfattn.figures.claims import Contrast, Need
from selfattn.models.build import build
from selfattn.models.config import ModelConfig
from selfattn.models.protocol import Seq2Seq
from selfattn.report.blocks import Chart, ChartLine
from selfattn.report.drawing.scale import Scale

Make = Callable[[int, int, torch.Generator], Batch]
"""Makes so many rows of one source length from a generator."""

BATCH, ITEMS = 64, 200  # rows of a training batch; sources of each length in a test, and of all in a validation


def trained(
    config: ModelConfig,
    make: Callable[[torch.Generator], Batch],
    *,
    vocab_size: int,
    steps: int,
    seed: int,
    rate: float,
) -> Seq2Seq:
    """Build a model and train it on batches made by rule; the same seed gives every model the same batches."""
    model = build(config, vocab_size=vocab_size, seed=seed)
    train_for(model, stream(make, seed=seed), steps=steps, lr=rate, seed=seed)
    return model


def mixed(make: Make, shortest: int, longest: int) -> Callable[[torch.Generator], Batch]:
    """Return what makes training batches, each of one length, which is drawn evenly."""

    def draw(draws: torch.Generator) -> Batch:
        length = int(torch.randint(shortest, longest + 1, (1,), generator=draws))
        return make(BATCH, length, draws)

    return draw


def by_length(model: Seq2Seq, make: Make, lengths: Sequence[int], *, seed: int, items: int = ITEMS) -> dict[str, float]:
    """Measure ``exact@LENGTH`` on unseen sources of each length, and ``valid``, the mean loss on others."""

    def unseen(length: int, name: str) -> Batch:
        return held_out(lambda draws: make(items, length, draws), seed=seed, name=name)

    valid = [loss_of(model, unseen(length, "validation")) for length in lengths]
    exact = {f"exact@{length}": exact_share(model, unseen(length, "test")) for length in lengths}
    return {"valid": sum(valid) / len(valid)} | exact


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


def difference(
    name: str, found: Found, arm: str, other: str, figure: str, need: Need, bound: float, *, items: int = ITEMS
) -> Contrast:
    """Hold a share of one arm minus that of another, seed by seed, against a bound; full marks are no certainty.

    Args:
        name: of the contrast.
        found: the trials.
        arm: whose share it is.
        other: whose share is taken from it.
        figure: a share in [0, 1].
        need: see :func:`selfattn.claims.rules.contrast`.
        bound: likewise.
        items: that the figure is a share of; default :data:`ITEMS`.
    """
    error = math.hypot(*(share_error(found.values(one, figure), items) for one in (arm, other)))
    return contrast(name, found.differences(arm, other, figure), need, bound, least_error=error)


def length_chart(claim: Claim, found: Found, arms: Iterable[Arm], lengths: Sequence[int]) -> Chart:
    """Draw exact match against the length of the source, a line for each arm; the claim says `caption` and `axis`."""
    places = {float(length): f"exact@{length}" for length in lengths}
    lines = (ChartLine(arm.name, found.spots(arm.name, places), claim.say(f"arm.{arm.name}")) for arm in arms)
    return Chart("exact-by-length", claim.say("caption"), tuple(lines), Scale(), claim.say("axis"))
