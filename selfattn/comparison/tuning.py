"""Equal tuning: the same learning rates for every model, tried with seeds of their own, judged on validation alone."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from statistics import mean

from selfattn.comparison.options import CompareOptions
from selfattn.comparison.plan import Plan, Training
from selfattn.comparison.trainings import DIVERGED, Trainings
from selfattn.experiments.tuning import search
from selfattn.results.record import TuningTrial
from selfattn.runs.directory import RunDirectory
from selfattn.training.config import TrainingConfig

GRID = (0.25, 0.5, 1.0, 2.0, 4.0)  # of the recipe's rate, where the task has no grid
_WIDENINGS, _STEP = 4, 2.0  # most widenings of the grid, and its factor

Rates = Mapping[str, Sequence[float]]  # by model


def grid(options: CompareOptions, recipe: TrainingConfig) -> tuple[float, ...]:
    """Return the learning rates to try: those of the options, or the recipe's times powers of two."""
    return tuple(sorted(options.rates)) or tuple(float(f"{recipe.lr * factor:.6g}") for factor in GRID)


def tune(plan: Plan, trainings: Trainings) -> Plan:
    """Try the same learning rates for every model at every budget, and choose each model's best on validation.

    Every rate is tried with the first tuning seed. The other seeds go to each model's best rate and its neighbours,
    since a repeated trial far away from the best changes nothing. The best rate has the best mean of the validation
    metric over its seeds; equal ones are ordered by their mean validation loss. A model whose best rate is the lowest
    or highest that it has tried goes on to the next one.

    Args:
        plan: of the comparison.
        trainings: runs the trials.
    """
    rates = dict.fromkeys(plan.models, grid(trainings.options, trainings.recipe))
    trials: dict[str, tuple[TuningTrial, ...]] = dict.fromkeys(plan.models, ())
    for budget in plan.variants:
        repeated: dict[str, set[float]] = {name: set() for name in plan.models}
        measure = partial(_measure, plan, trainings, budget, repeated)
        tried, best = search(rates, measure, _beyond, widenings=_WIDENINGS)
        for name, same in tried.items():
            of_model = (_trial(plan, trainings, job) for job in _jobs(plan, name, budget, same, repeated[name]))
            trials[name] += tuple(replace(trial, chosen=trial.settings["lr"] == same[best[name]]) for trial in of_model)
    return replace(plan, trials=trials, tuned=True)


def _jobs(plan: Plan, name: str, budget: float, tried: Sequence[float], repeated: Collection[float]) -> list[Training]:
    """List the trials of a model, seed after seed; rates that are not repeated have the first seed alone."""
    start = f"tuning/{name}" + ("" if budget == plan.main else f"-budget{budget!r}")
    return [
        Training(
            f"{start}-trial{place}-seed{seed}",
            name,
            replace(plan.models[name], training={"lr": rate}),
            seed,
            budget,
            plan.variants[budget],
            plan.steps,
            tested=False,
        )
        for seed in plan.tuning_seeds
        for place, rate in enumerate(tried)
        if seed == plan.tuning_seeds[0] or rate in repeated
    ]


def _measure(
    plan: Plan, trainings: Trainings, budget: float, repeated: Mapping[str, set[float]], tried: Rates
) -> dict[str, list[tuple[float, float]]]:
    """Run trials; return the rank of each rate, lower is better: the metric, then the validation loss.

    The best rate of each model and its neighbours are added to `repeated`, until all of them have all seeds.
    """
    while True:
        jobs = {name: _jobs(plan, name, budget, rates, repeated[name]) for name, rates in tried.items()}
        trainings.run_all(sorted((job for same in jobs.values() for job in same), key=lambda job: job.seed))
        ranks: dict[str, list[tuple[float, float]]] = {}
        count = sum(map(len, repeated.values()))
        for name, rates in tried.items():
            trials = [_trial(plan, trainings, job) for job in jobs[name]]
            ranks[name] = [_rank([trial for trial in trials if trial.settings["lr"] == rate], plan) for rate in rates]
            repeated[name].update(_around_best(rates, ranks[name]))
        if sum(map(len, repeated.values())) == count or len(plan.tuning_seeds) == 1:
            return ranks


def _around_best(rates: Sequence[float], ranks: Sequence[tuple[float, float]]) -> list[float]:
    """Return the best learning rate and its neighbours."""
    order = sorted(rates)
    at = order.index(rates[min(range(len(ranks)), key=ranks.__getitem__)])
    return order[max(at - 1, 0) : at + 2]


def _rank(trials: Sequence[TuningTrial], plan: Plan) -> tuple[float, float]:
    """The mean metric and loss over seeds; a rate at which a training diverged is worse than all others."""
    scores = [trial.valid for trial in trials if trial.valid is not None]
    if len(scores) < len(trials):
        return math.inf, math.inf
    sign = -1 if plan.headline.better == "higher" else 1
    return sign * mean(scores), mean(trial.loss or 0.0 for trial in trials)


def _trial(plan: Plan, trainings: Trainings, job: Training) -> TuningTrial:
    """Read a trial from its directory: the best metric and the lowest loss of its validations."""
    directory, budget = RunDirectory(trainings.options.out / job.path), None if job.budget == plan.main else job.budget
    record = directory.record()
    trial = TuningTrial(job.model.training, job.seed, seconds=record.train_seconds, budget=budget)
    if record.status == DIVERGED:
        return trial
    reports = directory.metrics()
    best = max if plan.headline.better == "higher" else min
    valid = best(report.measures[plan.headline.metric] for report in reports)
    return replace(trial, valid=valid, loss=min(report.valid_loss for report in reports))


def _beyond(tried: Rates, best: Mapping[str, int]) -> dict[str, list[float]]:
    """Return the next rate for each model whose best rate is the lowest or highest that it has tried."""
    more: dict[str, list[float]] = {}
    for name, rates in tried.items():
        factor = {min(rates): 1 / _STEP, max(rates): _STEP}.get(chosen := rates[best[name]])
        more[name] = [chosen * factor] if factor else []
    return more
