"""Tuning gives every model the same chance: one grid of rates for all, wider at an edge, with seeds of its own."""

from collections.abc import Callable, Mapping
from math import log
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from selfattn.comparison import compare as compare_module
from selfattn.comparison import trainings as tuning
from selfattn.comparison.compare import _prepare, make_plan
from selfattn.comparison.options import MOST_SEEDS, CompareOptions
from selfattn.comparison.plan import Plan, PlannedModel
from selfattn.errors import SettingError
from selfattn.models.presets import PRESETS
from selfattn.results.quality import Headline
from selfattn.tasks.dates import RATES, Dates
from selfattn.training.config import TrainingConfig

RECIPE = TrainingConfig(lr=0.004)
Measure = Callable[[Any], tuple[float | None, float]]


def tuned(
    monkeypatch: pytest.MonkeyPatch, measure: Mapping[str, Measure], better: Any = "higher", **options: Any
) -> tuple[Plan, list[Any]]:
    """Tune models whose trials are measured by functions: the score (None: diverged) and the loss of a training."""
    jobs: list[Any] = []

    def directory(path: Path) -> Any:
        job = next(job for job in jobs if path == Path("out") / job.path)
        valid, loss = next(same for name, same in measure.items() if job.label.startswith(name))(job)
        record = SimpleNamespace(train_seconds=1.0, status="diverged" if valid is None else "finished")
        report = SimpleNamespace(measures={"exact_match": valid}, valid_loss=loss)
        return SimpleNamespace(metrics=lambda: [report], record=lambda: record)

    monkeypatch.setattr(tuning, "RunDirectory", directory)
    settings = CompareOptions(models=tuple(measure), out=Path("out"), tune=True, **options)
    plan = Plan(
        task="dates", command="", quick=False, seeds=3, tuned=False, headline=Headline(better=better), steps=800,
        models={name: PlannedModel(name, PRESETS[name].config) for name in measure},
        budgets=settings.budgets or (1.0,), space={"lr": ""},
        tuning_seeds=tuple(range(MOST_SEEDS, MOST_SEEDS + settings.tuning_seeds)),
    )  # fmt: skip
    runner: Any = SimpleNamespace(options=settings, recipe=RECIPE)
    runner.run_all = lambda more: jobs.extend(job for job in more if job not in jobs)
    return tuning.tune(plan, runner), jobs


def near(best: float) -> Measure:
    """A model with this best rate; its score says little, its loss nothing."""
    return lambda job: (1 - abs(log(job.model.training.get("lr", RECIPE.lr) / best)) / 10, 1.0)


def rates_of(plan: Plan, name: str, budget: float | None = None) -> list[Any]:
    return [trial.settings["lr"] for trial in plan.trials[name] if trial.budget == budget]


def test_all_models_try_the_same_grid_with_seeds_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    plan, jobs = tuned(monkeypatch, {"rnn-attention": near(0.008), "transformer": near(0.002)})
    grid = [0.001, 0.002, 0.004, 0.008, 0.016]
    for name, best in (("rnn-attention", 0.008), ("transformer", 0.002)):
        around = [best / 2, best, 2 * best]  # which have the second seed, too
        assert rates_of(plan, name) == grid + around
        assert [trial.seed for trial in plan.trials[name]] == 5 * [10_000] + 3 * [10_001]
        assert [trial.settings for trial in plan.trials[name] if trial.chosen] == 2 * [{"lr": best}]
        assert plan.planned(name, plan.main).training == {"lr": best}
    assert {job.seed for job in jobs} == {trial.seed for trial in plan.trials["transformer"]} == {10_000, 10_001}
    assert not {job.seed for job in jobs} & {run.seed for run in plan.runs()}
    assert not any(job.tested for job in jobs)
    assert [job.seed for job in jobs] == sorted(job.seed for job in jobs)  # a worker keeps the data of a seed
    assert plan.tuned


def test_a_model_goes_on_beyond_the_grid_while_its_best_rate_lies_at_an_edge(monkeypatch: pytest.MonkeyPatch) -> None:
    """Around the rate that one family likes, the other's lies outside."""
    models = {"rnn-attention": near(0.1), "transformer": near(0.0005)}
    plan, _ = tuned(monkeypatch, models, rates=(0.002, 0.004, 0.008), tuning_seeds=1)
    assert rates_of(plan, "transformer") == [0.002, 0.004, 0.008, 0.001, 0.0005, 0.00025]
    assert rates_of(plan, "rnn-attention") == [0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128]
    assert [plan.chosen(name, plan.main)["lr"] for name in plan.models] == [0.128, 0.0005]
    far, _ = tuned(monkeypatch, {"transformer": near(1e-9)}, rates=(0.002, 0.004), tuning_seeds=1)
    assert len(rates_of(far, "transformer")) == 2 + 4  # after four times the best may lie at an edge


def test_the_mean_over_tuning_seeds_decides_then_the_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    scores = {0.001: (0.9, 0.1), 0.002: (0.6, 0.6), 0.004: (0.5, 0.7), 0.008: (0.0, 0.0), 0.016: (0.0, 0.0)}

    def measure(job: Any) -> tuple[float, float]:
        rate = job.model.training["lr"]
        return scores[rate][job.seed - MOST_SEEDS], rate  # of equals the lower loss

    plan, _ = tuned(monkeypatch, {"transformer": measure})
    assert plan.chosen("transformer", plan.main) == {"lr": 0.002}
    fewest, _ = tuned(monkeypatch, {"transformer": measure}, better="lower", rates=(0.002, 0.004, 0.008, 0.016))
    assert fewest.chosen("transformer", fewest.main) == {"lr": 0.008}


def test_a_trial_that_diverged_is_the_worst_and_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def measure(job: Any) -> tuple[float | None, float]:
        rate, is_second = job.model.training["lr"], job.seed > MOST_SEEDS
        return (None if rate > 0.004 and is_second else rate), 1.0

    plan, _ = tuned(monkeypatch, {"transformer": measure})
    assert plan.chosen("transformer", plan.main) == {"lr": 0.004}
    assert [trial.valid for trial in plan.trials["transformer"]][-2:] == [None, None]


def test_every_budget_has_a_grid_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    def measure(job: Any) -> tuple[float, float]:
        return near({1.0: 0.002, 0.5: 0.004, 0.125: 0.008}[job.variant.share])(job)

    plan, jobs = tuned(monkeypatch, {"transformer": measure}, budgets=(0.125, 0.5, 1.0))
    assert {(job.variant.share, job.steps) for job in jobs} == {(0.125, 800), (0.5, 800), (1.0, 800)}
    assert len({job.path for job in jobs}) == len(jobs) == 24
    for budget, rate in ((0.125, 0.008), (0.5, 0.004), (1.0, 0.002)):
        assert plan.planned("transformer", budget).training == plan.chosen("transformer", budget) == {"lr": rate}
        assert len(rates_of(plan, "transformer", None if budget == 1 else budget)) == 8


def test_tuning_is_the_default_except_in_quick_comparisons_and_with_a_rate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compare_module, "steps_of", lambda *_: 1)  # without drawing an epoch

    def planned(**changes: Any) -> tuple[bool, str, Mapping[str, str]]:
        few = {"models": ("rnn-attention",), "validation_items": 5, "test_items": 5}
        plan = make_plan(*_prepare("dates", {"out": tmp_path} | few | changes))
        return not plan.tuned, plan.command, plan.space

    usual = ", ".join(f"{rate:g}" for rate in RATES)
    assert planned()[2] == {"lr": f"{usual}; beyond if best at an edge"}
    assert planned(quick=True, tune=True)[2] == {"lr": "0.001, 0.002, 0.004, 0.008, 0.016; beyond if best at an edge"}
    assert planned(quick=True, rates=(0.1, 0.2))[2] == {"lr": "0.1, 0.2; beyond if best at an edge"}
    for changes, written in (({"tune": False}, "--no-tune"), ({"quick": True}, "--quick"), ({"lr": 0.01}, "--lr 0.01")):
        is_tuned, command, space = planned(**changes)
        assert not is_tuned
        assert not space
        assert written in command
    assert "tune" not in planned()[1]
    for wrong, problem in (
        ({"lr": 0.01, "rates": (0.1, 0.2)}, "`lr` is one rate for all models"),
        ({"lr": 0.01, "tune": True}, "`lr` is one rate for all models"),
        ({"tune": False, "rates": (0.1, 0.2)}, "`rates` are tried by tuning"),
        ({"rates": (0.1,)}, "`rates` 0.1: expected two or more"),
        ({"rates": (0.1, -1.0)}, "`rates` 0.1,-1: expected two or more"),
    ):
        with pytest.raises(SettingError, match=problem):
            planned(**wrong)
    assert Dates().usual_comparison()["first_seed"] + Dates().usual_comparison()["seeds"][0] < 900  # of the pilot
