"""Equal tuning: as many trials for each model, from one space of settings, judged on validation alone."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial
from typing import Any

from torch.quasirandom import SobolEngine

from selfattn.comparison.options import MOST_SEEDS
from selfattn.comparison.plan import Plan, PlannedModel, Variant
from selfattn.comparison.trainings import Training, Trainings
from selfattn.experiments.queue import run_all
from selfattn.experiments.tuning import search
from selfattn.models.config import override
from selfattn.results.record import TuningTrial
from selfattn.runs.directory import RunDirectory
from selfattn.streams import seed_for
from selfattn.training.config import TrainingConfig

LR_FACTORS = (0.125, 4.0)  # of the recipe's rate, evenly in log
WARMUPS = (0.05, 0.1, 0.2)
WARMUP_FACTORS = (0.25, 0.5, 1.0)  # where the recipe has a number of steps
DROPOUTS = (0.0, 0.1, 0.2, 0.3)
SMOOTHINGS = (0.0, 0.05, 0.1)
BEYOND = (2.0, 4.0)  # times the rate at an edge, if it is the best

_SEED = MOST_SEEDS  # of all trials; no comparison trains with it
_WIDENINGS, _FEWEST = 2, 4  # most widenings; fewest trials for a search


def space(recipe: TrainingConfig, budgets: Sequence[float] = (1.0,)) -> dict[str, str]:
    """Describe what is searched, setting by setting.

    Example:
        >>> space(TrainingConfig(warmup_steps=400))["warmup_steps"]
        "the recipe's times 0.25, 0.5, 1"
    """
    in_steps = recipe.warmup_steps is not None
    described = {
        "lr": f"the recipe's times {LR_FACTORS[0]:g} to {LR_FACTORS[1]:g}, even in log; beyond if best at an edge",
        "warmup_steps" if in_steps else "warmup": (
            f"the recipe's times {_listed(WARMUP_FACTORS)}" if in_steps else _listed(WARMUPS)
        ),
        "dropout": _listed(DROPOUTS),
        "label_smoothing": _listed(SMOOTHINGS),
    }
    smaller = {"lr, smaller budgets": "the same, the other settings as chosen with the largest"}
    return described | (smaller if len(budgets) > 1 else {})


def _listed(values: Sequence[float]) -> str:
    return ", ".join(f"{value:g}" for value in values)


@dataclass(frozen=True)
class Choice:
    """Settings of one trial.

    Attributes:
        training: settings of the training.
        dropout: of every dropout of the model; None leaves them.
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

    def applied_to(self, model: PlannedModel) -> PlannedModel:
        """Return a model with these settings."""
        config = model.model
        if self.dropout is not None:
            config = override(config, dict.fromkeys(dropout_names(config), self.dropout))
        return replace(model.resized(config), training={**model.training, **self.training})


def choices(count: int, recipe: TrainingConfig, *, seed: int = 0) -> list[Choice]:
    """Draw the settings of all trials: the same for every model.

    The first is the recipe. The others are a scrambled Sobol' sequence over all four settings.

    Args:
        count: number of trials, at least 1.
        recipe: to be tuned.
        seed: of the draw.

    Example:
        >>> recipe = TrainingConfig(lr=0.004)
        >>> [round(choice.to_json().get("lr", recipe.lr), 5) for choice in choices(3, recipe)]
        [0.004, 0.00876, 0.00183]
    """
    low, high = map(math.log, LR_FACTORS)
    sequence = SobolEngine(4, scramble=True, seed=seed_for(seed, "tuning"))  # type: ignore[no-untyped-call]  # PyTorch has no types for it
    drawn = [Choice({})]
    for rate, warmup, smoothing, dropout in sequence.draw(count).tolist()[:-1]:
        training: dict[str, float] = {"lr": recipe.lr * math.exp(low + rate * (high - low))}
        if recipe.warmup_steps is None:
            training["warmup"] = _at(WARMUPS, warmup)
        else:
            training["warmup_steps"] = max(1, round(recipe.warmup_steps * _at(WARMUP_FACTORS, warmup)))
        drawn.append(Choice(training | {"label_smoothing": _at(SMOOTHINGS, smoothing)}, _at(DROPOUTS, dropout)))
    return drawn


def _at(values: Sequence[float], share: float) -> float:
    return values[min(int(share * len(values)), len(values) - 1)]


def dropout_names(config: Any) -> list[str]:
    """List the settings called ``dropout``, dotted.

    Example:
        >>> from selfattn.models.presets import PRESETS
        >>> dropout_names(PRESETS["rnn-attention"].config)
        ['encoder.dropout', 'decoder.dropout']
    """
    names = []
    for field in fields(config):
        value = getattr(config, field.name)
        if is_dataclass(value):
            names += [f"{field.name}.{name}" for name in dropout_names(value)]
        elif field.name == "dropout":
            names.append(field.name)
    return names


def tune(plan: Plan, trainings: Trainings) -> Plan:
    """Try the same settings for every model, and choose each model's best on validation.

    With the largest budget all settings are tried, with every smaller one as many learning rates. Ties are broken by
    the validation loss; with several budgets it decides alone, for little training leaves a metric at its lowest.
    Where the best rate of a model is the lowest or highest tried, all models try rates beyond it.

    Args:
        plan: of the comparison.
        trainings: runs the trials.
    """
    recipe, full = trainings.recipe, choices(trainings.options.tune, trainings.recipe)
    rates = [Choice({"lr": choice.training.get("lr", recipe.lr)}) for choice in full]
    *smaller, largest = sorted(plan.budgets)
    for budget in (largest, *smaller) if len(full) > 1 else (largest,):
        variant = plan.variants[budget]
        is_main = variant == plan.main
        measure = partial(_measure, plan, trainings, variant)
        settings = dict.fromkeys(plan.models, full if is_main else rates)
        result = search(settings, measure, partial(_beyond, recipe=recipe), widenings=_WIDENINGS)
        models = {}
        for name, model in plan.models.items():
            tried, best = result.tried[name], result.best[name]
            share = None if is_main else budget
            trials = tuple(
                replace(_trial(plan, trainings, job, choice), chosen=place == best, budget=share)
                for place, (job, choice) in enumerate(zip(_jobs(plan, name, variant, tried), tried, strict=True))
            )
            tuned = tried[best].applied_to(model) if is_main else model
            models[name] = replace(tuned, trials=(*model.trials, *trials))
        plan = replace(plan, models=models)
    return replace(plan, tuned=True)


def trials_by_budget(count: int, budgets: Iterable[float]) -> dict[float, int]:
    """Return the number of trials of each model with each budget, if no search is widened.

    Args:
        count: settings to try; one, the recipe's, is no search.
        budgets: shares of the training.

    Example:
        >>> trials_by_budget(8, (0.5, 1.0)), trials_by_budget(1, (0.5, 1.0))
        ({0.5: 8, 1.0: 8}, {1.0: 1})
    """
    return dict.fromkeys(budgets, count) if count > 1 else {max(budgets): count}


def _jobs(plan: Plan, name: str, variant: Variant, tried: Sequence[Choice]) -> list[Training]:
    budget = plan.budget_of(variant)
    end = "" if budget is None else f"-budget{budget!r}"
    return [
        Training(
            f"tuning/{name}{end}-trial{number}",
            choice.applied_to(plan.models[name]),
            _SEED,
            variant,
            plan.steps,
            tested=False,
        )
        for number, choice in enumerate(tried)
    ]


def _measure(
    plan: Plan, trainings: Trainings, variant: Variant, tried: Mapping[str, Sequence[Choice]]
) -> dict[str, list[tuple[float, float]]]:
    """Run trials; return their losses: the metric, then the validation loss."""
    jobs = {name: _jobs(plan, name, variant, settings) for name, settings in tried.items()}
    trials = [job for same in jobs.values() for job in same]
    trainings.check(run_all(trainings, trials), len(trials))
    sign = -1 if plan.headline.better == "higher" else 1
    losses = {}
    for name, same in jobs.items():
        results = [_trial(plan, trainings, *pair) for pair in zip(same, tried[name], strict=True)]
        weight = 0 if len(plan.budgets) > 1 else sign
        losses[name] = [(weight * trial.valid, trial.loss or 0.0) for trial in results]
    return losses


def _trial(plan: Plan, trainings: Trainings, job: Training, choice: Choice) -> TuningTrial:
    """Read a trial from its directory: the best metric and the lowest loss of its validations."""
    directory = RunDirectory(trainings.options.out / job.path)
    reports, criterion = directory.metrics(), trainings.training_set(_SEED).criterion
    reached = max(criterion.value(report.measures) for report in reports)  # of a criterion more is better
    valid = reached if plan.headline.better == "higher" else -reached
    loss = min(report.valid_loss for report in reports)
    return TuningTrial(choice.to_json(), valid, directory.record().train_seconds, loss=loss)


def _beyond(
    tried: Mapping[str, Sequence[Choice]], best: Mapping[str, int], *, recipe: TrainingConfig
) -> dict[str, list[Choice]]:
    """Return, for all models, the best choices of models at rates beyond the edge at which they lie."""
    settings = next(iter(tried.values()))  # the same for all
    rates = [choice.training.get("lr", recipe.lr) for choice in settings]
    more = []
    for place in sorted(set(best.values())) if len(settings) >= _FEWEST else ():
        power = {min(rates): -1, max(rates): 1}.get(rates[place], 0)
        further = [rates[place] * factor**power for factor in BEYOND if power]
        more += [replace(settings[place], training={**settings[place].training, "lr": rate}) for rate in further]
    return dict.fromkeys(tried, more)
