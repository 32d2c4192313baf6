"""Equal tuning: so many trials for each model, from one space of settings, judged on validation alone."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

from selfattn.comparison.plan import Plan, Planned
from selfattn.comparison.running.jobs import Job, Jobs
from selfattn.comparison.running.side_by_side import do_all
from selfattn.figures.record import TuningTrial
from selfattn.models.config import override
from selfattn.runs.directory import RunDirectory
from selfattn.streams import seed_for
from selfattn.training.config import TrainingConfig

LR_FACTORS = (0.25, 2.0)  # of the recipe's rate, drawn evenly on a log scale
WARMUPS = (0.05, 0.1, 0.2)
DROPOUTS = (0.0, 0.1, 0.2, 0.3)
SMOOTHINGS = (0.0, 0.05, 0.1)

WARMUP_FACTORS = (0.25, 0.5, 1.0)  # where the recipe has a number of steps


def space(recipe: TrainingConfig) -> dict[str, str]:
    """Say what is searched, for the record.

    Example:
        >>> space(TrainingConfig(warmup_steps=400))["warmup_steps"]
        "the recipe's times 0.25, 0.5, 1"
    """
    steps = recipe.warmup_steps is not None
    warmup = f"the recipe's times {_listed(WARMUP_FACTORS)}" if steps else _listed(WARMUPS)
    return {
        "lr": f"the recipe's times {LR_FACTORS[0]:g} to {LR_FACTORS[1]:g}, log-uniform",
        "warmup_steps" if steps else "warmup": warmup,
        "dropout": _listed(DROPOUTS),
        "label_smoothing": _listed(SMOOTHINGS),
    }


def _listed(values: Sequence[float]) -> str:
    return ", ".join(f"{value:g}" for value in values)


@dataclass(frozen=True)
class Choice:
    """Settings of one trial.

    Attributes:
        training: settings of the training by name.
        dropout: of every dropout of the model that is called so; None leaves them.
    """

    training: Mapping[str, float]
    dropout: float | None = None

    def to_json(self) -> dict[str, float]:
        """Return the settings as plain values.

        Example:
            >>> Choice({"lr": 0.001}, dropout=0.1).to_json()
            {'lr': 0.001, 'dropout': 0.1}
        """
        return dict(self.training) | ({} if self.dropout is None else {"dropout": self.dropout})

    def applied_to(self, model: Planned) -> Planned:
        """Return a model with these settings."""
        config = model.model
        if self.dropout is not None:
            config = override(config, dict.fromkeys(dropout_names(config), self.dropout))
        return replace(model.resized(config), training=self.training)


def choices(count: int, recipe: TrainingConfig, *, seed: int = 0) -> list[Choice]:
    """Draw the settings of all trials: the same for every model.

    The first is the recipe as it is, so that tuning never takes a model further from what is best on validation.

    Args:
        count: of trials, at least 1.
        recipe: what is changed.
        seed: of the drawing.

    Example:
        >>> recipe = TrainingConfig(lr=0.004)
        >>> [round(choice.to_json().get("lr", recipe.lr), 5) for choice in choices(3, recipe)]
        [0.004, 0.00514, 0.00371]
    """
    draw = random.Random(seed_for(seed, "tuning"))
    low, high = (math.log(factor) for factor in LR_FACTORS)
    found = [Choice({})]
    for _ in range(count - 1):
        lr = recipe.lr * math.exp(draw.uniform(low, high))
        training: dict[str, float] = {"lr": lr}
        if recipe.warmup_steps is None:
            training["warmup"] = draw.choice(WARMUPS)
        else:
            training["warmup_steps"] = max(1, round(recipe.warmup_steps * draw.choice(WARMUP_FACTORS)))
        training["label_smoothing"] = draw.choice(SMOOTHINGS)
        found.append(Choice(training, draw.choice(DROPOUTS)))
    return found


def dropout_names(config: Any) -> list[str]:
    """List the settings called ``dropout``, dotted.

    Example:
        >>> from selfattn.models.presets import PRESETS
        >>> dropout_names(PRESETS["rnn-attention"].config)
        ['encoder.dropout', 'decoder.dropout']
    """
    found = []
    for field in fields(config):
        value = getattr(config, field.name)
        if is_dataclass(value):
            found += [f"{field.name}.{name}" for name in dropout_names(value)]
        elif field.name == "dropout":
            found.append(field.name)
    return found


def tune(plan: Plan, jobs: Jobs) -> Plan:
    """Try the same settings for every model, and take each one's best on validation, the first of equals.

    Args:
        plan: of the comparison.
        jobs: does the trials.
    """
    tried = choices(jobs.options.tune, jobs.recipe)
    made = {
        name: [
            Job(f"tuning/{name}-trial{number}", choice.applied_to(model), tested=False)
            for number, choice in enumerate(tried)
        ]
        for name, model in plan.models.items()
    }
    do_all(jobs, [job for own in made.values() for job in own])
    criterion, tuned = jobs.training_set(0).criterion, {}
    for name, own in made.items():
        trials = []
        for job, choice in zip(own, tried, strict=True):
            directory = RunDirectory(jobs.options.out / job.path)
            reached = max(criterion.value(report.measures) for report in directory.metrics())
            trials.append(TuningTrial(choice.to_json(), reached, directory.record().train_seconds))
        winner = max(range(len(trials)), key=lambda place: trials[place].valid)
        marked = tuple(replace(trial, chosen=k == winner) for k, trial in enumerate(trials))
        tuned[name] = replace(own[winner].model, trials=marked)
    return replace(plan, models=tuned, tuned=True)
