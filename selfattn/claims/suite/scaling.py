"""Claim: dividing scores by the square root of the width helps training where heads are wide."""

from __future__ import annotations

from functools import partial

from selfattn.claims import small
from selfattn.claims.claim import Blocks, Claim, Contrasts, Setup, Trials, number, share
from selfattn.registry import register

SYMBOLS, WIDTH = 16, 64
HEADS = {"narrow": 8, "wide": 1}  # how many: heads of width 8 and 64
SCORES = ("scaled_dot", "dot")


@register.claim("scaling")
class Scaling(Claim):
    """Transformers with narrow and with wide heads, with and without the division, at the best rate of each."""

    source = "Vaswani et al. 2017, section 3.2.1"
    seconds = (15.0, 120.0)
    points = ("gain",)
    kinds = {f"{score}-{heads}": {"score": score, "heads": n} for heads, n in HEADS.items() for score in SCORES}
    rates = (3e-3, 1e-2, 3e-2)
    sizes = {"steps": 300, "tested": 400, "length": 10}
    quick_sizes = {"steps": 120, "tested": 200, "length": 6}
    shows = {"scaled": ("scaled_dot-wide", "right"), "unscaled": ("dot-wide", "right")}
    columns = {"right": share, "valid": number}

    def measure(self, setup: Setup) -> dict[str, float]:
        """Learn to reverse, and measure the share of right tokens."""
        parts = {"dim": WIDTH, "ffn_dim": 2 * WIDTH, "num_heads": setup["heads"], "score": setup["score"]}
        task = partial(small.reversals, symbols=SYMBOLS)
        model = small.trained(
            setup, small.resized("transformer", **parts), partial(task, 64, setup["length"]), symbols=SYMBOLS
        )
        valid, test = small.validation_and_test(partial(task, setup["tested"], setup["length"]), seed=setup.seed)
        return {"valid": small.loss_of(model, valid), "right": small.forced_accuracy(model, test)}

    def contrasts(self, trials: Trials) -> Contrasts:
        """With wide heads the division gains."""
        items = self.size["tested"] * (self.size["length"] + 1)
        return (trials.lead("gain", "scaled_dot-wide", "dot-wide", "right", items),)

    def blocks(self, trials: Trials) -> Blocks:
        """Right tokens by the width of a head, a line with and a line without the division."""
        places = {score: {WIDTH // n: f"{score}-{heads}" for heads, n in HEADS.items()} for score in SCORES}
        lines = {score: trials.spots_across(arms, "right") for score, arms in places.items()}
        return self.chart("scaling", lines, of="line"), self.table("means", self.columns, self.rows(trials))
