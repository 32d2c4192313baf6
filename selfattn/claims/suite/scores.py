"""Claim: scores of wide vectors saturate the softmax, and dividing by the square root of the width prevents it."""

from __future__ import annotations

import math
import time
from functools import partial
from statistics import linear_regression

import torch

from selfattn.attention import attend, scores
from selfattn.claims import small
from selfattn.claims.claim import Arm, Blocks, Claim, Contrasts, Trials, at, contrast
from selfattn.models.build import build
from selfattn.registry import register
from selfattn.report.blocks import Heading, Paragraph
from selfattn.report.drawing.numbers import estimate_text
from selfattn.report.drawing.scale import number_scale

WIDTHS, KEYS, QUERIES = (8, 32, 128, 512, 2048), 32, 512
SOFTMAX = {"unscaled": scores.dot, "scaled": scores.scaled_dot}
LEARNED = ("dot", "scaled_dot", "general", "concat", "additive", "location")
HIDDEN, PAIRS, NAMES, VALUES, RATES = 32, 6, 12, 8, (3e-3, 1e-2, 3e-2)


def slope(values: tuple[float, ...]) -> float:
    """Return the slope of the log of values in the log of the width, by least squares."""
    return linear_regression([math.log(width) for width in WIDTHS], [math.log(value) for value in values]).slope


@register.claim("scores")
class Scores(Claim):
    """The gradient of the softmax by width; and what six score functions learn on one task."""

    name = "scores"
    source = (
        "Vaswani et al. 2017, section 3.2.1, footnote 4; Luong et al. 2015, section 3.1; Bahdanau et al. 2015, A.1.2"
    )
    seconds = (25.0, 220.0)

    def arms(self, quick: bool) -> tuple[Arm, ...]:
        """The softmax alone, with and without the division; then models that are trained, for each score."""
        alone = (Arm(name, {"widths": WIDTHS, "keys": KEYS}) for name in SOFTMAX)
        return (*alone, *(Arm(name, {"score": name, "hidden": HIDDEN}, RATES) for name in LEARNED))

    def measure(self, arm: Arm, *, seed: int, rate: float | None, quick: bool, steps: int = 800) -> dict[str, float]:
        """Return gradient and entropy by width, or what a model has learned and the time of a step."""
        if rate is None:
            return _saturation(arm.name, seed)
        config = small.resized("luong-dot", {"decoder.score": arm.settings["score"]}, hidden_dim=HIDDEN)
        model = build(config, vocab_size=small.vocabulary(NAMES + VALUES), seed=seed)
        steps = 200 if quick else steps
        made = partial(small.lookups, pairs=PAIRS, names=NAMES, values=VALUES)
        begun = time.process_time()
        small.train_for(
            model, small.stream(lambda draws: made(64, generator=draws), seed=seed), steps=steps, lr=rate, seed=seed
        )
        spent = (time.process_time() - begun) / steps
        valid, test = small.validation_and_test(lambda draws: made(500, generator=draws), seed=seed)
        return {
            "valid": small.loss_of(model, valid),
            "exact": small.exact_share(model, test),
            "milliseconds": 1000 * spent,
        }

    def contrasts(self, trials: Trials) -> Contrasts:
        """Unscaled the gradient falls with the width; scaled it stays."""
        unscaled, scaled = (
            [slope(by_width) for by_width in zip(*(trials.values(arm, f"gradient@{w}") for w in WIDTHS), strict=True)]
            for arm in SOFTMAX
        )
        return contrast("unscaled", unscaled, "below", 0.0), contrast("scaled", scaled, "within", 0.1)

    def blocks(self, trials: Trials) -> Blocks:
        """The gradient by width; the entropy; and the score functions side by side."""
        across = number_scale(WIDTHS, powers=True)
        gradient, entropy = (
            {arm: trials.spots(arm, at(figure, WIDTHS)) for arm in SOFTMAX} for figure in ("gradient", "entropy")
        )
        rows = {
            arm: (
                estimate_text(trials.mean(arm, "exact")),
                f"{trials.mean(arm, 'valid').mean:.3f}",
                f"{trials.mean(arm, 'milliseconds').mean:.1f}",
            )
            for arm in LEARNED
            if arm in trials.arms
        }
        return (
            self.chart("gradient", gradient, scale="powers", across=across),
            self.chart("entropy", entropy, scale=number_scale([0, 1]), across=across),
            Heading(self.say("learned"), "scores-learned"),
            Paragraph(self.say("learned.text")),
            self.table("learned", ("exact", "loss", "time"), rows),
        )


def _saturation(arm: str, seed: int) -> dict[str, float]:
    """The norm of the softmax's derivative, and the entropy of its weights as a share of the largest, by width."""
    draws, figures = torch.Generator().manual_seed(seed), {}
    for width in WIDTHS:
        query, key = (torch.randn(1, 1, n, width, generator=draws, dtype=torch.float64) for n in (QUERIES, KEYS))
        weights = attend(query, key, key, score=SOFTMAX[arm], need_weights=True).weights
        assert weights is not None
        derivative = torch.diag_embed(weights) - weights[..., :, None] * weights[..., None, :]
        figures[f"gradient@{width}"] = float(derivative.norm(dim=(-2, -1)).mean())
        figures[f"entropy@{width}"] = float(torch.special.entr(weights).sum(-1).mean()) / math.log(KEYS)
    return figures
