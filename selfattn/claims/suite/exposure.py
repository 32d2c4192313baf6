"""Exposure: a model that in training always reads the right tokens goes astray on its own; scheduled sampling helps."""

from __future__ import annotations

from functools import partial
from statistics import linear_regression
from typing import Any

import torch

from selfattn.claims import small
from selfattn.claims.claim import Claim, Contrasts, Setup, Trials, percent
from selfattn.claims.rules import MARGIN, contrast, minus
from selfattn.data.batches import Batch
from selfattn.decoding.beam import beam_search
from selfattn.decoding.sampling import sample
from selfattn.models.build import build
from selfattn.registry import register
from selfattn.streams import generator

PLACES, LENGTH, ERROR = 16, 12, 2
WRONG = (0, 1, 2, 4)  # tokens of the prefix that are replaced


def walks(rows: int, draws: torch.Generator) -> Batch:
    """Make walks on a ring, each step -1, 0 or 1; the source is the places as read, up to two away from the truth."""
    start = torch.randint(0, PLACES, (rows, 1), generator=draws)
    places = start + torch.randint(-1, 2, (rows, LENGTH), generator=draws).cumsum(dim=1)
    readings = places + torch.randint(-ERROR, ERROR + 1, (rows, LENGTH), generator=draws)
    return small.batch_of(small.FIRST + readings % PLACES, small.FIRST + places % PLACES)


def with_errors(batch: Batch, count: int, draws: torch.Generator) -> torch.Tensor:
    """Return what the decoder reads with so many tokens of each row, none of them the first, replaced by others."""
    given = batch.target_in
    where = torch.rand(len(given), LENGTH, generator=draws).argsort(dim=1)[:, :count] + 1
    shift = torch.randint(1, PLACES, where.shape, generator=draws)
    return given.scatter(1, where, small.FIRST + (given.gather(1, where) - small.FIRST + shift) % PLACES)


@register.claim("exposure")
class Exposure(Claim):
    """The same Transformer trained on right tokens, on its own now and then, and on its own alone."""

    source = "Bengio et al. 2015; Ranzato et al. 2016, section 1"
    seconds = (35, 200)
    points = ("gap", "grows", "shrinks", "gain")
    kinds = {  # from which probability of the right token to which
        "teacher-forcing": {"forcing": (1.0, 1.0)},
        "scheduled-sampling": {"forcing": (1.0, 0.0)},
        "free-running": {"forcing": (0.0, 0.0)},
    }
    rates = (3e-3, 1e-2, 3e-2)
    sizes = {"steps": 300, "rows": 64, "tested": 1000, "dim": 32}
    quick_sizes = {"steps": 120, "tested": 400}
    not_quick = ("free-running",)
    shows = {"forced": ("teacher-forcing", "forced@0"), "greedy": ("teacher-forcing", "greedy")}
    shows |= {"sampling": ("scheduled-sampling", "greedy")}
    figure, columns = "forced", dict.fromkeys(("forced@0", "greedy", "sampled", "beam"), percent)

    def measure(self, setup: Setup) -> dict[str, float]:
        """Train; test with right tokens before each, with wrong ones among them, and on the model's own."""
        dim, (start, last), seed = setup["dim"], setup["forcing"], setup.seed
        model = build(
            small.resized("transformer", dim=dim, ffn_dim=2 * dim), vocab_size=small.vocabulary(PLACES), seed=seed
        )
        batches = small.stream(partial(walks, setup["rows"]), seed=seed)
        small.train(setup, model, batches, teacher_forcing=start, teacher_forcing_end=last)
        valid, test = small.validation_and_test(partial(walks, setup["tested"]), seed=seed)
        ends: dict[str, Any] = {"bos_id": small.BOS, "eos_id": small.EOS, "max_length": LENGTH + 1}
        drawn = sample(model, test.source, test.source_mask, **ends, generator=generator(seed, "claims/sampling"))
        best = [first for first, *_ in beam_search(model, test.source, test.source_mask, **ends, beam_size=4)]
        hits = {"sampled": small.written_hits(drawn, test), "beam": small.written_hits(best, test)}
        hits["greedy"] = small.greedy_hits(model, test)
        for count in WRONG:
            given = with_errors(test, count, generator(seed, f"claims/errors/{count}"))
            hits[f"forced@{count}"] = small.forced_hits(model, test, given)
        wrong = 1 - _share(small.greedy_hits(model, valid))
        return {"valid": wrong} | {name: _share(hit) for name, hit in hits.items()}

    def contrasts(self, trials: Trials) -> Contrasts:
        """The gap, how it grows with wrong tokens, by how much scheduled sampling is nearer, and what it writes."""
        ours, other = "teacher-forcing", "scheduled-sampling"
        forced, sampled = (minus(trials.values(arm, "forced@0"), trials.values(arm, "greedy")) for arm in (ours, other))
        by_seed = zip(*(trials.values(ours, f"forced@{count}") for count in WRONG), strict=True)
        lost = [-linear_regression(WRONG, shares).slope for shares in by_seed]  # with each wrong token
        error = trials.share_error((ours, ours), "greedy", self.size["tested"] * LENGTH)
        return (
            contrast("gap", forced, "above", MARGIN, least_error=error),
            contrast("grows", lost, "above", 0.0),
            contrast("shrinks", minus(forced, sampled), "above", 0.0, least_error=error),
            contrast("gain", trials.differences(other, ours, "greedy"), "above", 0.0, least_error=error),
        )


def _share(hits: torch.Tensor) -> float:
    """The share of right tokens, the end left out, which is always at the same place."""
    return float(hits[:, :LENGTH].double().mean())
