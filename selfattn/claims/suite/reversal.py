"""Claim: reversing the source helps a model without attention and is indifferent to one with it."""

from __future__ import annotations

from functools import partial
from statistics import fmean

from selfattn.claims import small
from selfattn.claims.claim import MARGIN, Arm, Blocks, Claim, Contrasts, Trials, at, contrast, minus
from selfattn.claims.suite.by_length import ITEMS, by_length
from selfattn.registry import register
from selfattn.report.drawing.numbers import estimate_text
from selfattn.results.claims import Contrast, Need

SYMBOLS, LENGTHS, WIDTH = 8, (4, 6, 8, 10, 12), 64
RATES = (3e-3, 6e-3, 1.2e-2)
TASKS = {"monotone": partial(small.copies, symbols=SYMBOLS), "reversed": partial(small.reversals, symbols=SYMBOLS)}
MODELS = {"plain": "rnn-plain", "attention": "rnn-attention"}
READINGS = {"forward": "forward", "reversing": "backward"}


@register.claim("reversal")
class Reversal(Claim):
    """Both models read both ways, on a task whose order is the source's and on one whose order is the opposite."""

    name = "reversal"
    source = "Sutskever et al. 2014, section 3.3"
    seconds = (30.0, 330.0)
    points = ("plain-monotone", "attention-monotone", "attention-reversed", "by-task", "by-model")

    def arms(self, quick: bool) -> tuple[Arm, ...]:
        """Two models by two tasks by two directions of reading."""
        return tuple(
            Arm(f"{model}-{task}-{reading}", {"model": preset, "task": task, "direction": direction}, RATES)
            for model, preset in MODELS.items()
            for task in TASKS
            for reading, direction in READINGS.items()
        )

    def measure(self, arm: Arm, *, seed: int, rate: float | None, quick: bool, steps: int = 1000) -> dict[str, float]:
        """Train on all lengths; ``exact`` is the mean of exact match over the lengths of the test."""
        config = small.resized(
            arm.settings["model"], {"encoder.direction": arm.settings["direction"]}, hidden_dim=WIDTH
        )
        make, steps = TASKS[arm.settings["task"]], 300 if quick else steps
        figures = by_length(config, make, LENGTHS, symbols=SYMBOLS, steps=steps, seed=seed, rate=rate)
        return figures | {"exact": fmean(figures[f"exact@{length}"] for length in LENGTHS)}

    def contrasts(self, trials: Trials) -> Contrasts:
        """The gain on the monotone task; none with attention on either; and more than on the reversed task."""
        gains = {
            (model, task): trials.differences(f"{model}-{task}-reversing", f"{model}-{task}-forward", "exact")
            for model in MODELS
            for task in TASKS
        }
        most = gains["plain", "monotone"]

        def gain(model: str, task: str, need: Need) -> Contrast:
            arms = (f"{model}-{task}-reversing", f"{model}-{task}-forward")
            return trials.share_difference(f"{model}-{task}", *arms, "exact", need, MARGIN, items=ITEMS * len(LENGTHS))

        return (
            gain("plain", "monotone", "above"),
            *(gain("attention", task, "within") for task in TASKS),
            contrast("by-task", minus(most, gains["plain", "reversed"]), "above", 0.0),
            contrast("by-model", minus(most, gains["attention", "monotone"]), "above", 0.0),
        )

    def blocks(self, trials: Trials) -> Blocks:
        """Exact match by length of the monotone task, and the mean over lengths of every arm."""
        lines = {arm: trials.spots(arm, at("exact", LENGTHS)) for arm in trials.arms if "-monotone-" in arm}
        rows = {arm: [estimate_text(trials.mean(arm, "exact"))] for arm in trials.arms}
        return self.chart("exact-by-length", lines), self.table("exact", ["exact"], rows)
