"""Tuning gives every model the same chance: wide rates, wider at an edge, and seeds that no comparison has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from math import log
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from selfattn.comparison import tuning
from selfattn.comparison.options import MOST_SEEDS, CompareOptions
from selfattn.comparison.plan import Plan, PlannedModel
from selfattn.models.config import config_to_dict
from selfattn.models.presets import PRESETS
from selfattn.results.quality import Better, Headline
from selfattn.training.config import TrainingConfig
from selfattn.training.validation import Criterion

RECIPE = TrainingConfig(lr=0.004)


@pytest.mark.parametrize("count", [8, 16])
def test_rates_are_searched_over_a_factor_of_thirty_evenly(count: int) -> None:
    rates = sorted(choice.training.get("lr", RECIPE.lr) for choice in tuning.choices(count, RECIPE))
    low, high = (factor * RECIPE.lr for factor in tuning.LR_FACTORS)
    assert high / low >= 30
    assert low <= rates[0]
    assert rates[-1] <= high
    assert rates[-1] / rates[0] > 30 ** (1 - 2 / count)
    gaps = [log(b / a) for a, b in pairwise(rates)]
    assert max(gaps) < 3 * log(high / low) / count  # nowhere is much left out


def tuned(
    best: Mapping[str, float | tuple[float, ...]],
    monkeypatch: pytest.MonkeyPatch,
    count: int = 8,
    better: Better = "higher",
    budgets: tuple[float, ...] = (1.0,),
) -> tuple[Plan, list[Any]]:
    """Tune two models, of each of which a trial is the better the nearer its rate is to the best."""
    models = {name: PlannedModel(name, config_to_dict(PRESETS[name].config)) for name in best}
    headline = Headline(better=better)
    plan = Plan("dates", "", quick=False, seeds=3, models=models, tuned=False, headline=headline)
    plan = replace(plan, budgets=budgets, steps=800)
    asked: list[Any] = []

    def directory(path: Path) -> Any:
        job = next(job for job in asked if path == Path("out") / job.path)
        name = next(name for name in best if job.label.startswith(name))
        rates = best[name]
        rate = rates[budgets.index(job.variant.share)] if isinstance(rates, tuple) else rates
        apart = abs(log(job.model.training.get("lr", RECIPE.lr) / rate))
        # Of several budgets the loss judges, and what the metric says is the opposite of it.
        figure = max(0.0, 1 - apart / 10) if better == "higher" and len(budgets) == 1 else apart / 10
        report = SimpleNamespace(measures={"exact_match": figure}, valid_loss=apart)
        return SimpleNamespace(metrics=lambda: [report], record=lambda: SimpleNamespace(train_seconds=1.0))

    monkeypatch.setattr(tuning, "RunDirectory", directory)
    monkeypatch.setattr(tuning, "run_all", lambda jobs, some: asked.extend(job for job in some if job not in asked))
    criterion = Criterion(lambda *_: {}, "exact_match", higher_is_better=better == "higher")
    options = CompareOptions(models=tuple(best), out=Path("out"), tune=count)
    jobs: Any = SimpleNamespace(
        options=options,
        recipe=RECIPE,
        training_set=lambda seed: SimpleNamespace(criterion=criterion),
        check=lambda failed, count: None,
    )
    return tuning.tune(plan, jobs), asked


def test_a_best_rate_at_the_edge_widens_the_search_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Around the rate that one family likes, the other's lies outside."""
    plan, _ = tuned({"rnn-attention": 0.004, "transformer": 0.1}, monkeypatch)
    found = plan.models["transformer"].training["lr"]
    assert found > 4 * RECIPE.lr
    assert found == pytest.approx(0.1, rel=0.5)
    trials = [[trial.settings for trial in model.trials] for model in plan.models.values()]
    assert trials[0] == trials[1]
    assert len(trials[0]) > 8
    low, _ = tuned({"rnn-attention": 0.004, "transformer": 1e-4}, monkeypatch)
    assert low.models["transformer"].training["lr"] < RECIPE.lr / 8
    inside, _ = tuned({"rnn-attention": 0.004, "transformer": 0.003}, monkeypatch)
    assert [len(model.trials) for model in inside.models.values()] == [8, 8]
    assert inside.tuned


def test_trials_have_a_seed_that_no_comparison_trains_with(monkeypatch: pytest.MonkeyPatch) -> None:
    plan, asked = tuned({"rnn-attention": 0.004, "transformer": 0.1}, monkeypatch)
    seeds = {job.seed for job in asked}
    assert len(seeds) == 1
    assert min(seeds) >= MOST_SEEDS
    assert not seeds & {seed for _, seed, _ in plan.runs()}
    assert not any(job.tested for job in asked)


def test_of_equals_the_lower_loss_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where all trials answer everything, the first of them would always be the recipe."""
    real = tuning.TuningTrial
    monkeypatch.setattr(
        tuning, "TuningTrial", lambda settings, _, seconds, loss: real(settings, 1.0, seconds, loss=loss)
    )
    plan, _ = tuned({"rnn-attention": 0.0015, "transformer": 0.01}, monkeypatch)
    rates = [model.training.get("lr", RECIPE.lr) for model in plan.models.values()]
    assert rates[0] < RECIPE.lr < rates[1]


def test_of_a_rate_of_errors_the_lowest_is_chosen_and_recorded_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    plan, _ = tuned({"rnn-attention": 0.004, "transformer": 0.003}, monkeypatch, better="lower")
    for model in plan.models.values():
        assert min(trial.valid for trial in model.trials) >= 0
        assert [trial.chosen for trial in model.trials].index(True) == min(
            range(8), key=lambda k: model.trials[k].valid
        )


def test_every_budget_has_a_search_of_its_own_for_the_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    best = {"rnn-attention": (0.008, 0.003, 0.002), "transformer": (0.001, 0.003, 0.004)}  # smallest budget first
    plan, asked = tuned(best, monkeypatch, count=16, budgets=(0.125, 0.25, 0.5))
    assert {(job.variant.share, job.steps) for job in asked} == {(0.125, 800), (0.25, 800), (0.5, 800)}
    assert len({job.path for job in asked}) == len(asked)
    for name, rates in best.items():
        model = plan.models[name]
        assert plan.planned(name, plan.main) == model
        for budget, rate in zip(plan.budgets, rates, strict=True):
            trials = [trial for trial in model.trials if trial.budget == (None if budget == 0.5 else budget)]
            (chosen,) = (trial for trial in trials if trial.chosen)
            assert chosen.loss == min(trial.loss or 0.0 for trial in trials)
            training = plan.planned(name, plan.variants[budget]).training
            assert log(training.get("lr", RECIPE.lr) / rate) == pytest.approx(0, abs=0.2)
            assert training.get("lr", RECIPE.lr) == chosen.settings.get("lr", RECIPE.lr)
        # The dropout that was chosen with the largest budget, at the smallest, too.
        settings = [job.model for job in asked if job.label.startswith(f"{name}-budget")]
        assert all(one.config == model.config for one in settings)
    assert [len(model.trials) for model in plan.models.values()] == [48, 48]


def test_the_recipe_alone_is_no_search_with_any_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    plan, asked = tuned({"rnn-attention": 0.1, "transformer": 0.1}, monkeypatch, count=1, budgets=(0.25, 1.0))
    assert [len(model.trials) for model in plan.models.values()] == [1, 1]
    assert len(asked) == 2


def test_few_trials_have_no_edges(monkeypatch: pytest.MonkeyPatch) -> None:
    plan, _ = tuned({"rnn-attention": 0.1, "transformer": 0.1}, monkeypatch, count=3)
    assert [len(model.trials) for model in plan.models.values()] == [3, 3]
    assert replace(plan, tuned=True) == plan
