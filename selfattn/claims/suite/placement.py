"""Claim: it matters where attention sits: after the RNN, after it and fed back into it, or before it."""

from __future__ import annotations

from functools import partial
from statistics import fmean
from typing import Any

from selfattn.claims import small
from selfattn.claims.claim import MARGIN, Arm, Blocks, Claim, Contrasts, Trials, at
from selfattn.claims.suite.by_length import ITEMS, by_length
from selfattn.evaluation.cost.flops import BatchShape, training_flops
from selfattn.models.config import ModelConfig
from selfattn.registry import register
from selfattn.report.drawing.numbers import estimate_text

SYMBOLS, LENGTHS = 4, (4, 8, 12, 16, 20)  # so few symbols that one does not say where it stands
LONG = LENGTHS[-3:]
RATES = (5e-3, 1e-2, 2e-2)
PLACES: dict[str, dict[str, Any]] = {
    "after": {"width": 32},
    "fed": {"width": 29, "input_feeding": True},
    "before": {"width": 26, "attention": "bahdanau"},
}


make = partial(small.copies, symbols=SYMBOLS)


def flops(config: ModelConfig) -> int:
    """Count the operations of one training step at the longest sources."""
    return training_flops(config, small.vocabulary(SYMBOLS), BatchShape(64, LENGTHS[-1], LENGTHS[-1] + 1))


@register.claim("placement")
class Placement(Claim):
    """Three places of the same attention, each as wide as equal operations allow."""

    name = "placement"
    source = "Luong et al. 2015, sections 3.3 and 4; Bahdanau et al. 2015, section 3.1"
    seconds = (25.0, 240.0)
    points = ("gain",)

    def arms(self, quick: bool) -> tuple[Arm, ...]:
        """After the RNN, after it with input feeding, before it."""
        return tuple(Arm(place, settings, RATES) for place, settings in PLACES.items())

    def config(self, arm: Arm) -> ModelConfig:
        """What the model of an arm is made of: Luong's, but for the place of the attention."""
        changes = {f"decoder.{name}": value for name, value in arm.settings.items() if name != "width"}
        return small.resized("luong-general", changes, hidden_dim=arm.settings["width"])

    def measure(self, arm: Arm, *, seed: int, rate: float | None, quick: bool, steps: int = 500) -> dict[str, float]:
        """Train on copies of all lengths; ``exact`` is the mean of exact match over the long ones."""
        config, steps = self.config(arm), 250 if quick else steps
        figures = by_length(config, make, LENGTHS, symbols=SYMBOLS, steps=steps, seed=seed, rate=rate)
        return figures | {"exact": fmean(figures[f"exact@{length}"] for length in LONG)}

    def contrasts(self, trials: Trials) -> Contrasts:
        """Input feeding gains on long sources; what attention before the RNN does is looked at, not tested."""
        return (trials.share_difference("gain", "fed", "after", "exact", "above", MARGIN, items=ITEMS * len(LONG)),)

    def blocks(self, trials: Trials) -> Blocks:
        """Exact match by length, and what the models compute."""
        lines = {arm: trials.spots(arm, at("exact", LENGTHS)) for arm in trials.arms}
        rows = {
            arm.name: (f"{flops(self.config(arm)) / 1e6:.0f}", estimate_text(trials.mean(arm.name, "exact")))
            for arm in self.arms(trials.quick)
            if arm.name in trials.arms
        }
        return self.chart("exact-by-length", lines), self.table("operations", ("flops", "exact"), rows)
