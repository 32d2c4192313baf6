"""Claims on the scores of attention: they saturate the softmax unless they are divided, which may help training."""

import math
import time
from functools import partial
from statistics import linear_regression

import torch

from selfattn.attention import attend, scores
from selfattn.claims import small
from selfattn.claims.claim import Arm, Blocks, Claim, Setup, number, share
from selfattn.claims.rules import Contrasts, Trials, contrast
from selfattn.registry import register
from selfattn.report.blocks import Heading, Paragraph
from selfattn.report.drawing.scale import number_scale

WIDTHS, KEYS, QUERIES = (8, 32, 128, 512, 2048), 32, 512
SOFTMAX = {"unscaled": scores.dot, "scaled": scores.scaled_dot}
LEARNED = ("dot", "scaled_dot", "general", "concat", "additive", "location")
PAIRS, NAMES, VALUES = 6, 12, 8


def slope(values: tuple[float, ...]) -> float:
    """Return the slope of the log of values in the log of the width, by least squares."""
    return linear_regression([math.log(width) for width in WIDTHS], [math.log(value) for value in values]).slope


@register.claim("scores")
class Scores(Claim):
    """The gradient of the softmax by width; and what six score functions learn on one task."""

    source = (
        "Vaswani et al. 2017, section 3.2.1, footnote 4; Luong et al. 2015, section 3.1; Bahdanau et al. 2015, A.1.2"
    )
    seconds = (1, 220)
    sizes = {"steps": 800, "tested": 500}
    shows = {"dot_narrow": ("unscaled", "gradient@8"), "dot_wide": ("unscaled", "gradient@2048")}
    shows |= {"scaled_narrow": ("scaled", "gradient@8"), "scaled_wide": ("scaled", "gradient@2048")}
    unit = "number"
    columns = {"exact": share, "valid": number, "milliseconds": number}

    def arms(self) -> tuple[Arm, ...]:
        """The softmax alone, with and without the division; then models that are trained, for each score."""
        learned = (Arm(name, {**self.size, "score": name}, (1e-2, 3e-2, 9e-2)) for name in LEARNED)
        return *(Arm(name) for name in SOFTMAX), *(() if self.quick else learned)

    def measure(self, setup: Setup) -> dict[str, float]:
        """Return gradient and entropy by width, or what a model has learned and the time of a step."""
        if setup.rate is None:
            return _saturation(setup.arm.name, setup.seed)
        config = small.resized("luong-dot", {"decoder.score": setup["score"]}, hidden_dim=32)
        make = partial(small.lookups, pairs=PAIRS, names=NAMES, values=VALUES)
        begun = time.process_time()
        model = small.trained(setup, config, lambda draws: make(64, generator=draws), symbols=NAMES + VALUES)
        spent = (time.process_time() - begun) / setup["steps"]
        valid, test = small.validation_and_test(lambda draws: make(setup["tested"], generator=draws), seed=setup.seed)
        exact = small.exact_share(model, test)
        return {"valid": small.loss_of(model, valid), "exact": exact, "milliseconds": 1000 * spent}

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
        gradient, entropy = ({arm: trials.spots(arm, figure) for arm in SOFTMAX} for figure in ("gradient", "entropy"))
        charts = (
            self.chart("gradient", gradient, scale="powers", across=across),
            self.chart("entropy", entropy, scale=number_scale([0, 1]), across=across),
        )
        if self.quick:  # trains nothing
            return charts
        heading, text = Heading(self.say("learned"), "scores-learned"), Paragraph(self.say("learned.text"))
        return *charts, heading, text, self.table("learned", self.columns, self.rows(trials))


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


SYMBOLS, WIDTH = 16, 64
HEADS = {"narrow": 8, "wide": 1}  # how many: heads of width 8 and 64
DIVIDED = ("scaled_dot", "dot")


@register.claim("scaling")
class Scaling(Claim):
    """Transformers with narrow and with wide heads, with and without the division, at the best rate of each."""

    source = "Vaswani et al. 2017, section 3.2.1"
    seconds = (10, 120)
    points = ("gain",)
    kinds = {f"{score}-{heads}": {"score": score, "heads": n} for heads, n in HEADS.items() for score in DIVIDED}
    rates = (3e-3, 1e-2, 3e-2)
    sizes = {"steps": 300, "tested": 400, "length": 10}
    quick_sizes = {"steps": 120, "tested": 200, "length": 6}
    shows = {"scaled": ("scaled_dot-wide", "right"), "unscaled": ("dot-wide", "right")}
    figure, columns = "right", {"right": share, "valid": number}
    lines = {score: {WIDTH // n: f"{score}-{heads}" for heads, n in HEADS.items()} for score in DIVIDED}

    def measure(self, setup: Setup) -> dict[str, float]:
        """Learn to reverse, and measure the share of right tokens."""
        parts = {"dim": WIDTH, "ffn_dim": 2 * WIDTH, "num_heads": setup["heads"], "score": setup["score"]}
        task, length = partial(small.reversals, symbols=SYMBOLS), setup["length"]
        config = small.resized("transformer", **parts)
        model = small.trained(setup, config, partial(task, 64, length), symbols=SYMBOLS)
        return small.graded(setup, model, partial(task, setup["tested"], length))

    def contrasts(self, trials: Trials) -> Contrasts:
        """With wide heads the division gains."""
        items = self.size["tested"] * (self.size["length"] + 1)
        return (trials.lead("gain", "scaled_dot-wide", "dot-wide", "right", items),)
