"""Claim: reversing the source helps a model without attention and is indifferent to one with it."""

from __future__ import annotations

from statistics import fmean

import torch

from selfattn.claims.claim import Arm, Claim, Found
from selfattn.claims.encoding.by_length import ITEMS, by_length, difference, length_chart, mixed, trained
from selfattn.claims.rules import MARGIN, contrast
from selfattn.claims.sequences import copies, reversals, vocabulary
from selfattn.data.batches import Batch
from selfattn.figures.claims import Contrast, Need
from selfattn.models.config import override
from selfattn.models.presets import get_preset
from selfattn.registry import register
from selfattn.report.blocks import Block, Column, Row, Table
from selfattn.report.drawing.numbers import estimate_text

SYMBOLS, LENGTHS, WIDTH = 8, (4, 6, 8, 10, 12), 64
RATES = (3e-3, 6e-3, 1.2e-2)
TASKS = ("monotone", "reversed")
MODELS = {"plain": "rnn-plain", "attention": "rnn-attention"}
READINGS = {"forward": "forward", "reversing": "backward"}


def make(task: str, rows: int, length: int, draws: torch.Generator) -> Batch:
    """Make sources and targets in the same order, or in opposite orders."""
    return (copies if task == "monotone" else reversals)(rows, length, symbols=SYMBOLS, generator=draws)


@register.claim("reversal")
class Reversal(Claim):
    """Both models read both ways, on a task whose order is the source's and on one whose order is the opposite."""

    name = "reversal"
    source = "Sutskever et al. 2014, section 3.3"
    seconds = (30.0, 280.0)
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
        assert rate is not None
        settings = {"encoder.hidden_dim": WIDTH, "decoder.hidden_dim": WIDTH}
        config = override(
            get_preset(arm.settings["model"]).config, settings | {"encoder.direction": arm.settings["direction"]}
        )

        def of_task(rows: int, length: int, draws: torch.Generator) -> Batch:
            return make(arm.settings["task"], rows, length, draws)

        draw, steps = mixed(of_task, 2, LENGTHS[-1]), 300 if quick else steps
        model = trained(config, draw, vocab_size=vocabulary(SYMBOLS), steps=steps, seed=seed, rate=rate)
        found = by_length(model, of_task, LENGTHS, seed=seed)
        return found | {"exact": fmean(found[f"exact@{length}"] for length in LENGTHS)}

    def contrasts(self, found: Found) -> tuple[Contrast, ...]:
        """The gain on the monotone task; none with attention on either; and more than on the reversed task."""
        gains = {
            (model, task): found.differences(f"{model}-{task}-reversing", f"{model}-{task}-forward", "exact")
            for model in MODELS
            for task in TASKS
        }
        by_task, by_model = (
            [one - other for one, other in zip(gains["plain", "monotone"], gains[other], strict=True)]
            for other in (("plain", "reversed"), ("attention", "monotone"))
        )

        def gain(model: str, task: str, need: Need) -> Contrast:
            arms = (f"{model}-{task}-reversing", f"{model}-{task}-forward")
            return difference(f"{model}-{task}", found, *arms, "exact", need, MARGIN, items=ITEMS * len(LENGTHS))

        tasks, models = contrast("by-task", by_task, "above", 0.0), contrast("by-model", by_model, "above", 0.0)
        attending = (gain("attention", task, "within") for task in TASKS)
        return gain("plain", "monotone", "above"), *attending, tasks, models

    def blocks(self, found: Found) -> tuple[Block, ...]:
        """Exact match by length of the monotone task, and the mean over lengths of every arm."""
        arms = [arm for arm in self.arms(found.quick) if arm.name in found.arms]
        chart = length_chart(self, found, [arm for arm in arms if arm.settings["task"] == "monotone"], LENGTHS)
        columns = (Column(self.say("column.model"), numeric=False), Column(self.say("column.exact")))
        means = {arm.name: found.mean(arm.name, "exact") for arm in arms}
        rows = tuple(Row((self.say(f"arm.{name}"), estimate_text(one))) for name, one in means.items())
        return chart, Table("exact", columns, rows)
