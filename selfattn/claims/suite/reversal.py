"""Claim: reversing the source helps a model without attention and is indifferent to one with it."""

from __future__ import annotations

from functools import partial

from selfattn.claims import small
from selfattn.claims.claim import Blocks, Claim, Contrasts, Setup, Trials, share
from selfattn.claims.rules import contrast, minus
from selfattn.claims.suite.by_length import by_length
from selfattn.registry import register
from selfattn.results.claims import Contrast, Need

SYMBOLS, WIDTH = 8, 64
TASKS = {"monotone": partial(small.copies, symbols=SYMBOLS), "reversed": partial(small.reversals, symbols=SYMBOLS)}
READINGS = {"forward": "forward", "reversing": "backward"}


@register.claim("reversal")
class Reversal(Claim):
    """Both models read both ways, on a task whose order is the source's and on one whose order is the opposite."""

    source = "Sutskever et al. 2014, section 3.3"
    seconds = (30.0, 330.0)
    points = ("plain-monotone", "attention-monotone", "attention-reversed", "by-task", "by-model")
    kinds = {
        f"{model}-{task}-{reading}": {"model": f"rnn-{model}", "task": task, "direction": direction}
        for model in ("plain", "attention")
        for task in TASKS
        for reading, direction in READINGS.items()
    }
    rates = (6e-3, 1.2e-2, 2.4e-2)
    sizes = {"steps": 1000, "lengths": (4, 6, 8, 10, 12), "tested": 200, "batch": 64}
    quick_sizes = {"batch": 32, "steps": 250, "lengths": (3, 5)}
    shows = {reading: (f"plain-monotone-{reading}", "exact") for reading in READINGS}
    shows |= {f"attention_{reading}": (f"attention-monotone-{reading}", "exact") for reading in READINGS}
    figure, columns = "exact", {"exact": share}

    def measure(self, setup: Setup) -> dict[str, float]:
        """Train on all lengths."""
        config = small.resized(setup["model"], {"encoder.direction": setup["direction"]}, hidden_dim=WIDTH)
        return by_length(setup, config, TASKS[setup["task"]], symbols=SYMBOLS)

    def contrasts(self, trials: Trials) -> Contrasts:
        """The gain on the monotone task; none with attention on either; and more than on the reversed task."""
        items = self.size["tested"] * len(self.size["lengths"])

        def gains(model: str, task: str) -> tuple[float, ...]:
            return trials.differences(f"{model}-{task}-reversing", f"{model}-{task}-forward", "exact")

        def gain(model: str, task: str, need: Need) -> Contrast:
            arms = (f"{model}-{task}-reversing", f"{model}-{task}-forward")
            return trials.lead(f"{model}-{task}", *arms, "exact", items, need)

        most = gains("plain", "monotone")
        return (
            gain("plain", "monotone", "above"),
            *(gain("attention", task, "within") for task in TASKS),
            contrast("by-task", minus(most, gains("plain", "reversed")), "above", 0.0),
            contrast("by-model", minus(most, gains("attention", "monotone")), "above", 0.0),
        )

    def blocks(self, trials: Trials) -> Blocks:
        """Exact match by length of the monotone task, and the mean over lengths of every arm."""
        chart, _ = super().blocks(Trials(trial for trial in trials.trials if "-monotone-" in trial.arm))
        return chart, self.table("means", self.columns, self.rows(trials))
