"""Exposure: a model that in training always reads the right tokens goes astray on its own; scheduled sampling helps."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch

from selfattn.claims.claim import Arm, Claim, Found
from selfattn.claims.rules import MARGIN, contrast, share_error
from selfattn.claims.sequences import BOS, EOS, FIRST, batch_of, forced_hits, held_out, stream, vocabulary, written_hits
from selfattn.claims.training import train_for
from selfattn.data.batches import Batch
from selfattn.decoding.beam import beam_search
from selfattn.decoding.greedy import greedy
from selfattn.decoding.sampling import sample
from selfattn.figures.claims import Contrast
from selfattn.models.build import build
from selfattn.models.presets import get_preset
from selfattn.registry import register
from selfattn.report.blocks import Block, Chart, ChartLine, Column, Row, Table
from selfattn.report.drawing.scale import Scale
from selfattn.streams import generator

PLACES, LENGTH, ERROR = 16, 12, 2
WRONG = (0, 1, 2, 4)  # tokens of the prefix that are replaced


def walks(rows: int, draws: torch.Generator) -> Batch:
    """Make walks on a ring, each step -1, 0 or 1; the source is the places as read, up to two away from the truth."""
    start = torch.randint(0, PLACES, (rows, 1), generator=draws)
    places = start + torch.randint(-1, 2, (rows, LENGTH), generator=draws).cumsum(dim=1)
    readings = places + torch.randint(-ERROR, ERROR + 1, (rows, LENGTH), generator=draws)
    return batch_of(FIRST + readings % PLACES, FIRST + places % PLACES)


def with_errors(batch: Batch, count: int, draws: torch.Generator) -> torch.Tensor:
    """Return what the decoder reads with so many tokens of each row, none of them the first, replaced by others."""
    given = batch.target_in
    where = torch.rand(len(given), LENGTH, generator=draws).argsort(dim=1)[:, :count] + 1
    shift = torch.randint(1, PLACES, where.shape, generator=draws)
    return given.scatter(1, where, FIRST + (given.gather(1, where) - FIRST + shift) % PLACES)


@register.claim("exposure")
class Exposure(Claim):
    """The same Transformer trained on right tokens, on its own now and then, and on its own alone."""

    name = "exposure"
    source = "Bengio et al. 2015; Ranzato et al. 2016, section 1"
    seconds = (35, 200)
    points = ("gap", "grows", "shrinks", "gain")

    def arms(self, quick: bool) -> tuple[Arm, ...]:
        """From which probability of the right token to which."""
        settings = {"steps": 120 if quick else 300, "rows": 64, "tested": 300 if quick else 1000, "dim": 32}
        kinds = {"teacher-forcing": (1.0, 1.0), "scheduled-sampling": (1.0, 0.0), "free-running": (0.0, 0.0)}
        return tuple(Arm(name, {**settings, "forcing": ends}, (3e-3, 1e-2, 3e-2)) for name, ends in kinds.items())

    def measure(self, arm: Arm, *, seed: int, rate: float | None, quick: bool) -> dict[str, float]:
        """Train; test with right tokens before each, with wrong ones among them, and on the model's own."""
        config: Any = get_preset("transformer").config
        size = {"dim": arm.settings["dim"], "ffn_dim": 2 * arm.settings["dim"]}
        config = replace(config, encoder=replace(config.encoder, **size), decoder=replace(config.decoder, **size))
        model = build(config, vocab_size=vocabulary(PLACES), seed=seed)
        start, end = arm.settings["forcing"]
        rows, tested = arm.settings["rows"], arm.settings["tested"]
        batches, steps = stream(lambda draws: walks(rows, draws), seed=seed), arm.settings["steps"]
        train_for(
            model, batches, steps=steps, lr=rate or 0.0, seed=seed, teacher_forcing=start, teacher_forcing_end=end
        )
        valid, test = (held_out(lambda draws: walks(tested, draws), seed=seed, name=n) for n in ("validation", "test"))
        limits: dict[str, Any] = {"bos_id": BOS, "eos_id": EOS, "max_length": LENGTH + 1}
        drawn = sample(model, test.source, test.source_mask, generator=generator(seed, "claims/sampling"), **limits)
        best = [found[0] for found in beam_search(model, test.source, test.source_mask, beam_size=4, **limits)]
        figures = {
            "valid": 1 - _share(written_hits(greedy(model, valid.source, valid.source_mask, **limits), valid)),
            "greedy": _share(written_hits(greedy(model, test.source, test.source_mask, **limits), test)),
            "sampled": _share(written_hits(drawn, test)),
            "beam": _share(written_hits(best, test)),
        }
        for count in WRONG:
            given = with_errors(test, count, generator(seed, f"claims/errors/{count}"))
            figures[f"forced@{count}"] = _share(forced_hits(model, test, given))
        return figures

    def contrasts(self, found: Found) -> tuple[Contrast, ...]:
        """The gap, how it grows with wrong tokens, by how much scheduled sampling is nearer, and what it writes."""
        items = (300 if found.quick else 1000) * LENGTH
        gaps = {arm: _minus(found.values(arm, "forced@0"), found.values(arm, "greedy")) for arm in found.arms}
        forced, sampled = gaps["teacher-forcing"], gaps["scheduled-sampling"]
        lost = [
            _slope(row) for row in zip(*(found.values("teacher-forcing", f"forced@{k}") for k in WRONG), strict=True)
        ]
        error = math.sqrt(2) * share_error(found.values("teacher-forcing", "greedy"), items)
        gain = found.differences("scheduled-sampling", "teacher-forcing", "greedy")
        return (
            contrast("gap", forced, "above", MARGIN, least_error=error),
            contrast("grows", lost, "above", 0.0),
            contrast("shrinks", _minus(forced, sampled), "above", 0.0, least_error=error),
            contrast("gain", gain, "above", 0.0, least_error=error),
        )

    def blocks(self, found: Found) -> tuple[Block, ...]:
        """Accuracy by wrong tokens before, and in a table every way of decoding."""
        ways = ("forced@0", "greedy", "sampled", "beam")
        lines, rows = [], []
        for arm in found.arms:
            spots = found.spots(arm, {count: f"forced@{count}" for count in WRONG})
            lines.append(ChartLine(arm, spots, self.say(f"arm.{arm}")))
            rows.append(Row((self.say(f"arm.{arm}"), *(f"{100 * found.mean(arm, way).mean:.1f}" for way in ways))))
        heads = tuple(Column(self.say(f"column.{way.partition('@')[0]}"), way != "arm") for way in ("arm", *ways))
        words = {key: self.say(key) for key in ("caption", "unit", "height")}
        chart = Chart("exposure", words["caption"], tuple(lines), Scale(), words["unit"], height=words["height"])
        return chart, Table("decoding", heads, tuple(rows))


def _share(hits: torch.Tensor) -> float:
    """The share of right tokens, the end left out, which is always at the same place."""
    return float(hits[:, :LENGTH].double().mean())


def _minus(a: tuple[float, ...], b: tuple[float, ...]) -> tuple[float, ...]:
    return tuple(x - y for x, y in zip(a, b, strict=True))


def _slope(shares: tuple[float, ...]) -> float:
    """By how much accuracy falls with each wrong token: the least-squares line over them."""
    middle = sum(WRONG) / len(WRONG)
    return sum((middle - k) * share for k, share in zip(WRONG, shares, strict=True)) / sum(
        (k - middle) ** 2 for k in WRONG
    )
