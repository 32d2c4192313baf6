"""Claim: scores of wide vectors saturate the softmax, and dividing by the square root of the width prevents it."""

from __future__ import annotations

import math
import time
from functools import partial

import torch

from selfattn.attention import attend, scores
from selfattn.claims.claim import Arm, Claim, Found
from selfattn.claims.rules import contrast
from selfattn.claims.sequences import (
    FIRST,
    batch_of,
    exact_share,
    loss_of,
    random_symbols,
    stream,
    validation_and_test,
    vocabulary,
)
from selfattn.claims.training import resized, train_for
from selfattn.data.batches import Batch
from selfattn.figures.claims import Contrast
from selfattn.models.build import build
from selfattn.registry import register
from selfattn.report.blocks import Block, Chart, ChartLine, Column, Heading, Paragraph, Row, Table
from selfattn.report.drawing.scale import number_scale

WIDTHS, KEYS, QUERIES = (8, 32, 128, 512, 2048), 32, 512
SOFTMAX = {"unscaled": scores.dot, "scaled": scores.scaled_dot}
LEARNED = ("dot", "scaled_dot", "general", "concat", "additive", "location")
HIDDEN, PAIRS, NAMES, VALUES, RATES = 32, 6, 12, 8, (3e-3, 1e-2, 3e-2)


def lookups(draws: torch.Generator, rows: int = 64) -> Batch:
    """Make sources of names, each followed by its value, whose target is the values in the order of the names.

    Where to look depends on what stands there, not on the place.
    """
    order = torch.rand(rows, NAMES, generator=draws).argsort(dim=1)[:, :PAIRS]
    values = random_symbols(rows, PAIRS, symbols=VALUES, generator=draws)
    source = torch.stack([order + FIRST + VALUES, values], dim=2).flatten(1)
    return batch_of(source, values.gather(1, order.argsort(dim=1)))


def slope(values: tuple[float, ...]) -> float:
    """Return the slope of the log of values in the log of the width, by least squares."""
    xs, ys = ([math.log(one) for one in of] for of in (WIDTHS, values))
    middle = sum(xs) / len(xs)
    return sum((x - middle) * y for x, y in zip(xs, ys, strict=True)) / sum((x - middle) ** 2 for x in xs)


@register.claim("scores")
class Scores(Claim):
    """The gradient of the softmax by width; and what six score functions learn on one task."""

    name = "scores"
    source = (
        "Vaswani et al. 2017, section 3.2.1, footnote 4; Luong et al. 2015, section 3.1; Bahdanau et al. 2015, A.1.2"
    )
    seconds = (25.0, 200.0)

    def arms(self, quick: bool) -> tuple[Arm, ...]:
        """The softmax alone, with and without the division; then models that are trained, for each score."""
        alone = (Arm(name, {"widths": WIDTHS, "keys": KEYS}) for name in SOFTMAX)
        return (*alone, *(Arm(name, {"score": name, "hidden": HIDDEN}, RATES) for name in LEARNED))

    def measure(self, arm: Arm, *, seed: int, rate: float | None, quick: bool, steps: int = 800) -> dict[str, float]:
        """Return gradient and entropy by width, or what a model has learned and the time of a step."""
        if rate is None:
            return _saturation(arm.name, seed)
        config = resized("luong-dot", {"decoder.score": arm.settings["score"]}, hidden_dim=HIDDEN)
        model = build(config, vocab_size=vocabulary(NAMES + VALUES), seed=seed)
        steps = 200 if quick else steps
        begun = time.process_time()
        train_for(model, stream(lookups, seed=seed), steps=steps, lr=rate, seed=seed)
        spent = (time.process_time() - begun) / steps
        valid, test = validation_and_test(partial(lookups, rows=500), seed=seed)
        return {"valid": loss_of(model, valid), "exact": exact_share(model, test), "milliseconds": 1000 * spent}

    def contrasts(self, found: Found) -> tuple[Contrast, ...]:
        """Unscaled the gradient falls with the width; scaled it stays."""
        return (
            contrast("unscaled", self.slopes(found, "unscaled"), "below", 0.0),
            contrast("scaled", self.slopes(found, "scaled"), "within", 0.1),
        )

    def slopes(self, found: Found, arm: str) -> tuple[float, ...]:
        """Return the slope of each seed."""
        by_width = [found.values(arm, f"gradient@{width}") for width in WIDTHS]
        return tuple(map(slope, zip(*by_width, strict=True)))

    def blocks(self, found: Found) -> tuple[Block, ...]:
        """The gradient by width; the entropy; and the score functions side by side."""
        charts = []
        for figure, powers in (("gradient", True), ("entropy", False)):
            places = {width: f"{figure}@{width}" for width in WIDTHS}
            lines = tuple(ChartLine(arm, found.spots(arm, places)) for arm in SOFTMAX)
            drawn = [
                value for line in lines for spot in line.spots for value in (spot.low or spot.y, spot.high or spot.y)
            ]
            scale = number_scale(drawn, powers=True) if powers else number_scale([0, 1])
            across = number_scale(WIDTHS, powers=True)
            caption, height = self.say(f"caption.{figure}"), self.say(f"height.{figure}")
            charts.append(Chart(figure, caption, lines, scale, self.say("width"), across=across, height=height))
        heads = (Column(self.say("column.score"), numeric=False), *map(Column, map(self.say, _COLUMNS)))
        rows = []
        for arm in (arm for arm in LEARNED if arm in found.arms):
            exact, loss, time = (found.mean(arm, figure) for figure in ("exact", "valid", "milliseconds"))
            share = f"{100 * exact.mean:.0f} [{100 * (exact.low or 0):.0f}, {100 * (exact.high or 0):.0f}]"
            rows.append(Row((self.say(f"arm.{arm}"), share, f"{loss.mean:.3f}", f"{time.mean:.1f}"), arm))
        table = Table("learned", heads, tuple(rows))
        return (*charts, Heading(self.say("learned"), "scores-learned"), Paragraph(self.say("learned.text")), table)


_COLUMNS = ("column.exact", "column.loss", "column.time")


def _saturation(arm: str, seed: int) -> dict[str, float]:
    """The norm of the softmax's derivative, and the entropy of its weights as a share of the largest, by width."""
    draws, found = torch.Generator().manual_seed(seed), {}
    for width in WIDTHS:
        query, key = (torch.randn(1, 1, n, width, generator=draws, dtype=torch.float64) for n in (QUERIES, KEYS))
        weights = attend(query, key, key, score=SOFTMAX[arm], need_weights=True).weights
        assert weights is not None
        derivative = torch.diag_embed(weights) - weights[..., :, None] * weights[..., None, :]
        found[f"gradient@{width}"] = float(derivative.norm(dim=(-2, -1)).mean())
        found[f"entropy@{width}"] = float(torch.special.entr(weights).sum(-1).mean()) / math.log(KEYS)
    return found
