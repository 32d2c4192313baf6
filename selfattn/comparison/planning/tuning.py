"""Equal tuning: so many trials for each model, from one space of settings, judged on validation alone."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

from torch.quasirandom import SobolEngine

from selfattn.comparison.planning.options import MOST_SEEDS
from selfattn.comparison.planning.plan import Plan, Planned, Variant
from selfattn.comparison.running.jobs import Job, Jobs
from selfattn.comparison.running.side_by_side import do_all
from selfattn.models.config import override
from selfattn.results.record import TuningTrial
from selfattn.runs.directory import RunDirectory
from selfattn.streams import seed_for
from selfattn.training.config import TrainingConfig

LR_FACTORS = (0.125, 4.0)  # of the recipe's rate, spread evenly on a log scale
WARMUPS = (0.05, 0.1, 0.2)
DROPOUTS = (0.0, 0.1, 0.2, 0.3)
SMOOTHINGS = (0.0, 0.05, 0.1)

WARMUP_FACTORS = (0.25, 0.5, 1.0)  # where the recipe has a number of steps
BEYOND = (2.0, 4.0)  # times an edge, where the best rate lies there

_SEED = MOST_SEEDS  # of all trials: no comparison trains with it
_WIDENINGS, _ENOUGH = 2, 4  # at most; trials that have an inside


def space(recipe: TrainingConfig, budgets: Sequence[float] = (1.0,)) -> dict[str, str]:
    """Say what is searched, for the record.

    Args:
        recipe: what is changed.
        budgets: shares of the training; with several, the rate is searched for at each.

    Example:
        >>> space(TrainingConfig(warmup_steps=400))["warmup_steps"]
        "the recipe's times 0.25, 0.5, 1"
    """
    steps = recipe.warmup_steps is not None
    warmup = f"the recipe's times {_listed(WARMUP_FACTORS)}" if steps else _listed(WARMUPS)
    return {
        "lr": f"the recipe's times {LR_FACTORS[0]:g} to {LR_FACTORS[1]:g}, even in log; beyond if best at an edge",
        "warmup_steps" if steps else "warmup": warmup,
        "dropout": _listed(DROPOUTS),
        "label_smoothing": _listed(SMOOTHINGS),
    } | ({"lr, smaller budgets": "the same, the other settings as chosen with the largest"} if len(budgets) > 1 else {})


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
        return replace(model.resized(config), training=dict(model.training) | dict(self.training))


def choices(count: int, recipe: TrainingConfig, *, seed: int = 0) -> list[Choice]:
    """Draw the settings of all trials: the same for every model.

    The first is the recipe as it is, so that tuning never takes a model further from what is best on validation. The
    others are a scrambled Sobol' sequence over all four settings, so that few trials leave no wide gap in any of them.

    Args:
        count: of trials, at least 1.
        recipe: what is changed.
        seed: of the drawing.

    Example:
        >>> recipe = TrainingConfig(lr=0.004)
        >>> [round(choice.to_json().get("lr", recipe.lr), 5) for choice in choices(3, recipe)]
        [0.004, 0.00876, 0.00183]
    """
    low, high = (math.log(factor) for factor in LR_FACTORS)
    sequence = SobolEngine(4, scramble=True, seed=seed_for(seed, "tuning"))  # type: ignore[no-untyped-call]  # PyTorch has no types for it
    points = sequence.draw(count).tolist()[:-1]
    found = [Choice({})]
    for rate, warmup, smoothing, dropout in points:
        training: dict[str, float] = {"lr": recipe.lr * math.exp(low + rate * (high - low))}
        if recipe.warmup_steps is None:
            training["warmup"] = _at(WARMUPS, warmup)
        else:
            training["warmup_steps"] = max(1, round(recipe.warmup_steps * _at(WARMUP_FACTORS, warmup)))
        training["label_smoothing"] = _at(SMOOTHINGS, smoothing)
        found.append(Choice(training, _at(DROPOUTS, dropout)))
    return found


def _at(values: Sequence[float], share: float) -> float:
    return values[min(int(share * len(values)), len(values) - 1)]


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
    """Try the same settings for every model, and take each one's best on validation, of equals that of the lowest loss.

    Where the best rate of some model is the lowest or the highest that was tried, all models try the same settings at
    rates beyond it, too.

    With several budgets, settings are tried at the largest, and then as many learning rates at every smaller one, the
    other settings as chosen. There the loss alone judges: with little training a metric may be the same for all.

    Args:
        plan: of the comparison.
        jobs: does the trials.
    """
    settings = choices(jobs.options.tune, jobs.recipe)
    models = _searched(plan, jobs, settings, plan.main)
    rates = [Choice({"lr": choice.training.get("lr", jobs.recipe.lr)}) for choice in settings]
    at_most = replace(plan, models=models)
    for budget in sorted(plan.budgets)[:-1] if len(settings) > 1 else ():  # one trial, the recipe's, is no search
        for name, searched in _searched(at_most, jobs, rates, plan.variants[budget]).items():
            trials = (replace(trial, budget=budget) for trial in searched.trials)
            models[name] = replace(models[name], trials=(*models[name].trials, *trials))
    return replace(plan, models=models, tuned=True)


def trials_by_budget(count: int, budgets: Sequence[float]) -> dict[float, int]:
    """Return how many trials each model has with which budget, if no search is widened.

    Args:
        count: of settings to try; one, the recipe's, is no search.
        budgets: shares of the training.

    Example:
        >>> trials_by_budget(8, (0.25, 0.5, 1.0)), trials_by_budget(8, (1.0,)), trials_by_budget(1, (0.5, 1.0))
        ({0.25: 8, 0.5: 8, 1.0: 8}, {1.0: 8}, {1.0: 1})
    """
    return dict.fromkeys(budgets if count > 1 else [max(budgets)], count)


def _searched(plan: Plan, jobs: Jobs, tried: Sequence[Choice], variant: Variant) -> dict[str, Planned]:
    """The models with their best settings for a budget; the search is widened where a best rate lies at an edge."""
    tried = list(tried)
    for widening in range(_WIDENINGS + 1):
        tuned = _tuned(plan, jobs, tried, variant)
        more = _beyond(tuned, tried, jobs.recipe) if widening < _WIDENINGS else []
        if not more:
            break
        tried += more
    return tuned


def _tuned(plan: Plan, jobs: Jobs, tried: Sequence[Choice], variant: Variant) -> dict[str, Planned]:
    budget = next(share for share, own in plan.variants.items() if own == variant)
    end = "" if variant == plan.main else f"-budget{budget:g}"

    def job(name: str, number: int, choice: Choice) -> Job:
        model = choice.applied_to(plan.models[name])
        return Job(f"tuning/{name}{end}-trial{number}", model, _SEED, variant, plan.steps, tested=False)

    made = {name: [job(name, number, choice) for number, choice in enumerate(tried)] for name in plan.models}
    do_all(jobs, [job for own in made.values() for job in own])
    criterion, tuned = jobs.training_set(_SEED).criterion, {}
    sign = 1 if plan.headline.better == "higher" else -1  # of a criterion more is better
    for name, own in made.items():
        trials: list[TuningTrial] = []
        ranks: list[tuple[float, ...]] = []
        for one, choice in zip(own, tried, strict=True):
            directory = RunDirectory(jobs.options.out / one.path)
            reports = directory.metrics()
            reached = max(criterion.value(report.measures) for report in reports)
            loss = min(report.valid_loss for report in reports)
            ranks.append((-loss,) if len(plan.budgets) > 1 else (reached, -loss))
            seconds = directory.record().train_seconds
            trials.append(TuningTrial(choice.to_json(), sign * reached, seconds, loss=loss))
        winner = max(range(len(trials)), key=ranks.__getitem__)
        marked = tuple(replace(trial, chosen=k == winner) for k, trial in enumerate(trials))
        tuned[name] = replace(own[winner].model, trials=marked)
    return tuned


def _beyond(tuned: Mapping[str, Planned], tried: Sequence[Choice], recipe: TrainingConfig) -> list[Choice]:
    """The choices of models whose best rate lies at an edge, at rates beyond it."""
    rates = [choice.training.get("lr", recipe.lr) for choice in tried]
    if len(tried) < _ENOUGH:
        return []
    chosen = {next(k for k, trial in enumerate(model.trials) if trial.chosen) for model in tuned.values()}
    found = []
    for place in sorted(chosen):
        power = {min(rates): -1, max(rates): 1}.get(rates[place], 0)
        further = [rates[place] * factor**power for factor in BEYOND if power]
        found += [replace(tried[place], training=dict(tried[place].training) | {"lr": rate}) for rate in further]
    return found
