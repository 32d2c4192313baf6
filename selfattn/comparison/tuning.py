"""Equal tuning: the same settings for every model, tried with seeds of their own, judged on validation alone."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from statistics import mean

from torch.quasirandom import SobolEngine

from selfattn.comparison.options import CompareOptions
from selfattn.comparison.plan import Plan, Training
from selfattn.comparison.trainings import DIVERGED, Trainings
from selfattn.experiments.tuning import search
from selfattn.results.record import TuningTrial
from selfattn.runs.directory import RunDirectory
from selfattn.streams import seed_for
from selfattn.training.config import TrainingConfig

GRID = (0.25, 0.5, 1.0, 2.0, 4.0)  # of the recipe's rate, where the task has no grid
LR_FACTORS = (0.125, 4.0)  # of the recipe's rate, evenly in log, in a random search
WARMUPS = (0.05, 0.1, 0.2)
WARMUP_FACTORS = (0.25, 0.5, 1.0)  # where the recipe has a number of steps
DROPOUTS = (0.0, 0.1, 0.2, 0.3)
SMOOTHINGS = (0.0, 0.05, 0.1)
_WIDENINGS, _STEP = 4, 2.0  # most widenings of the grid, and its factor

Settings = Mapping[str, float]
Tried = Mapping[str, Sequence[Settings]]  # by model


def space(options: CompareOptions, recipe: TrainingConfig) -> dict[str, str]:
    """Describe what is tried, setting by setting.

    Example:
        >>> from pathlib import Path
        >>> space(CompareOptions(models=("a",), out=Path("out")), TrainingConfig(lr=0.004))
        {'lr': '0.001, 0.002, 0.004, 0.008, 0.016; beyond if best at an edge'}
    """
    if not options.trials:
        return {"lr": f"{_listed(grid(options, recipe))}; beyond if best at an edge"}
    low, high = LR_FACTORS
    warmup = {"warmup": _listed(WARMUPS)}
    if recipe.warmup_steps is not None:
        warmup = {"warmup_steps": f"the recipe's times {_listed(WARMUP_FACTORS)}"}
    rates = {"lr": f"the recipe's times {low:g} to {high:g}, even in log"}
    return rates | warmup | {"dropout": _listed(DROPOUTS), "label_smoothing": _listed(SMOOTHINGS)}


def _listed(values: Iterable[float]) -> str:
    return ", ".join(f"{value:g}" for value in values)


def grid(options: CompareOptions, recipe: TrainingConfig) -> tuple[float, ...]:
    """Return the learning rates to try: those of the options, or the recipe's times powers of two."""
    return tuple(sorted(options.rates)) or tuple(float(f"{recipe.lr * factor:.6g}") for factor in GRID)


def draw_settings(count: int, recipe: TrainingConfig) -> list[Settings]:
    """Draw the settings of a random search: the recipe's, then a scrambled Sobol' sequence over all four.

    Example:
        >>> [round(settings["lr"], 5) for settings in draw_settings(3, TrainingConfig(lr=0.004))]
        [0.004, 0.00876, 0.00183]
    """
    low, high = map(math.log, LR_FACTORS)
    name, warmups = "warmup", list(WARMUPS)
    if recipe.warmup_steps is not None:
        name, warmups = "warmup_steps", [max(1, round(recipe.warmup_steps * factor)) for factor in WARMUP_FACTORS]
    drawn: list[Settings] = [{setting: getattr(recipe, setting) for setting in ("lr", name, "label_smoothing")}]
    sequence = SobolEngine(4, scramble=True, seed=seed_for(0, "tuning"))  # type: ignore[no-untyped-call]  # PyTorch has no types for it
    for rate, warmup, smoothing, dropout in sequence.draw(count).tolist()[:-1]:
        settings = {"lr": recipe.lr * math.exp(low + rate * (high - low)), name: _at(warmups, warmup)}
        drawn.append(settings | {"label_smoothing": _at(SMOOTHINGS, smoothing), "dropout": _at(DROPOUTS, dropout)})
    return drawn


def _at(values: Sequence[float], share: float) -> float:
    return values[min(int(share * len(values)), len(values) - 1)]


def tune(plan: Plan, trainings: Trainings) -> Plan:
    """Try the same settings for every model at every budget, and choose each model's best on validation.

    Every rate is tried with the first tuning seed. The other seeds go to each model's best rate and its neighbours,
    since a repeated trial far away from the best changes nothing; in a random search, every setting has all seeds. The
    best settings have the best mean of the validation metric over their seeds; equal ones are ordered by their mean
    validation loss. A model whose best rate is the lowest or highest that it has tried goes on to the next one.

    Args:
        plan: of the comparison.
        trainings: runs the trials.
    """
    options, recipe = trainings.options, trainings.recipe
    rates: list[Settings] = [{"lr": rate} for rate in grid(options, recipe)]
    settings = draw_settings(options.trials, recipe) if options.trials else rates
    widenings = 0 if options.trials else _WIDENINGS
    trials: dict[str, tuple[TuningTrial, ...]] = dict.fromkeys(plan.models, ())
    for budget in plan.variants:
        repeated: dict[str, set[int]] = {name: set(range(options.trials)) for name in plan.models}
        measure = partial(_measure, plan, trainings, budget, repeated)
        tried, best = search(dict.fromkeys(plan.models, settings), measure, _beyond, widenings=widenings)
        for name, same in tried.items():
            of_model = (_trial(plan, trainings, *job) for job in _jobs(plan, name, budget, same, repeated[name]))
            trials[name] += tuple(replace(trial, chosen=trial.settings == same[best[name]]) for trial in of_model)
    return replace(plan, trials=trials, tuned=True)


def _jobs(
    plan: Plan, name: str, budget: float, tried: Sequence[Settings], repeated: Collection[int]
) -> list[tuple[Settings, Training]]:
    """List the trials of a model with their settings, seed after seed.

    Settings whose place is not among the repeated ones have the first seed alone.
    """
    start = f"tuning/{name}" + ("" if budget == plan.main else f"-budget{budget!r}")
    return [
        (
            settings,
            Training(
                f"{start}-trial{place}-seed{seed}",
                name,
                plan.models[name].tuned(settings),
                seed,
                budget,
                plan.variants[budget],
                plan.steps,
                tested=False,
            ),
        )
        for seed in plan.tuning_seeds
        for place, settings in enumerate(tried)
        if seed == plan.tuning_seeds[0] or place in repeated
    ]


def _measure(
    plan: Plan, trainings: Trainings, budget: float, repeated: Mapping[str, set[int]], tried: Tried
) -> dict[str, list[tuple[float, float]]]:
    """Run trials; return the rank of each setting, lower is better: the metric, then the validation loss.

    The best rate of each model and its neighbours are added to `repeated`, until all of them have all seeds.
    """
    while True:
        jobs = {name: _jobs(plan, name, budget, settings, repeated[name]) for name, settings in tried.items()}
        trainings.run_all(sorted((job for same in jobs.values() for _, job in same), key=lambda job: job.seed))
        ranks: dict[str, list[tuple[float, float]]] = {}
        count = sum(map(len, repeated.values()))
        for name, settings in tried.items():
            trials = [_trial(plan, trainings, *job) for job in jobs[name]]
            ranks[name] = [_rank([trial for trial in trials if trial.settings == same], plan) for same in settings]
            repeated[name].update(_around_best(settings, ranks[name]))
        if sum(map(len, repeated.values())) == count or len(plan.tuning_seeds) == 1:
            return ranks


def _around_best(settings: Sequence[Settings], ranks: Sequence[tuple[float, float]]) -> list[int]:
    """Return the places of the best learning rate and of its neighbours."""
    order = sorted(range(len(settings)), key=lambda place: settings[place]["lr"])
    at = order.index(min(range(len(ranks)), key=ranks.__getitem__))
    return order[max(at - 1, 0) : at + 2]


def _rank(trials: Sequence[TuningTrial], plan: Plan) -> tuple[float, float]:
    """The mean metric and loss over seeds; settings with which a training diverged are worse than all others."""
    scores = [trial.valid for trial in trials if trial.valid is not None]
    if len(scores) < len(trials):
        return math.inf, math.inf
    sign = -1 if plan.headline.better == "higher" else 1
    return sign * mean(scores), mean(trial.loss or 0.0 for trial in trials)


def _trial(plan: Plan, trainings: Trainings, settings: Settings, job: Training) -> TuningTrial:
    """Read a trial from its directory: the best metric and the lowest loss of its validations."""
    directory, budget = RunDirectory(trainings.options.out / job.path), None if job.budget == plan.main else job.budget
    record = directory.record()
    trial = TuningTrial(settings, job.seed, seconds=record.train_seconds, budget=budget)
    if record.status == DIVERGED:
        return trial
    reports = directory.metrics()
    best = max if plan.headline.better == "higher" else min
    valid = best(report.measures[plan.headline.metric] for report in reports)
    return replace(trial, valid=valid, loss=min(report.valid_loss for report in reports))


def _beyond(tried: Tried, best: Mapping[str, int]) -> dict[str, list[Settings]]:
    """Return the next rate for each model whose best rate is the lowest or highest that it has tried."""
    more: dict[str, list[Settings]] = {}
    for name, settings in tried.items():
        rates = [same["lr"] for same in settings]
        factor = {min(rates): 1 / _STEP, max(rates): _STEP}.get(chosen := rates[best[name]])
        more[name] = [{"lr": chosen * factor}] if factor else []
    return more
