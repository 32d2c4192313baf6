"""Tuning gives every model the same chance: as many trials of one space, each with a seed of its own."""

import shutil
from dataclasses import replace
from math import log
from pathlib import Path
from types import SimpleNamespace

import pytest

from selfattn.comparison import compare as compare_module
from selfattn.comparison import preparation
from selfattn.comparison import trainings as tuning
from selfattn.comparison.compare import compare
from selfattn.comparison.options import MOST_SEEDS, RUNS, TRIALS_TO_TARGET
from selfattn.comparison.plan import ComparisonPlan, PlannedModel, read_plan, read_space
from selfattn.comparison.preparation import make_plan, prepare
from selfattn.comparison.verify import verify
from selfattn.errors import SettingError
from selfattn.experiments.plan import write_plan
from selfattn.models.families import PRESETS
from selfattn.results.quality import Headline
from selfattn.results.record import read_record
from selfattn.runs.directory import WEIGHTS
from selfattn.runs.ledger import LEDGER
from selfattn.tasks.dates import SPACE, Dates
from selfattn.training.config import TrainingConfig

MODELS = ("rnn-attention", "transformer")


def planned(**changes):
    settings = {
        "task": "dates", "command": "", "quick": False, "seeds": 5, "tuned": False, "steps": 800,
        "models": {name: PlannedModel(name, PRESETS[name].config) for name in MODELS},
        "space": ("lr=1e-3..1.6e-2:log", "batch_size=8,16"), "tuning_trials": 4, "tunings": 5,
        "read_in_a_step": {"batch_size": 16},
    }  # fmt: skip
    return ComparisonPlan(**settings | changes)


def tuned(monkeypatch, measure, **changes):
    """Tune models whose trials are measured by a function: the score (None: diverged) and the loss of a training."""
    jobs = []

    def directory(path):
        job = next(job for job in jobs if path == Path("out") / job.path)
        valid, loss = measure(job)
        record = SimpleNamespace(train_seconds=1.0, status="diverged" if valid is None else "finished")
        report = SimpleNamespace(measures={"exact_match": valid}, valid_loss=loss)
        return SimpleNamespace(metrics=lambda: [report], record=lambda: record)

    monkeypatch.setattr(tuning, "RunDirectory", directory)
    return tuning.tune(planned(**changes), Path("out"), jobs.extend), jobs


def near(best):
    """A model with this best rate; its score says little, its loss nothing."""
    return lambda job: (1 - abs(log(job.model.training["lr"] / best)) / 10, 1.0)


def test_all_models_have_as_many_trials_each_with_a_seed_of_its_own(monkeypatch):
    plan, jobs = tuned(monkeypatch, near(0.004))
    for trials in plan.trials.values():
        assert [trial.seed for trial in trials] == list(range(MOST_SEEDS, MOST_SEEDS + 20))
        assert [trial.tuning for trial in trials] == [number // 4 for number in range(20)]
        for of_tuning in (trials[k : k + 4] for k in range(0, 20, 4)):
            (chosen,) = [trial for trial in of_tuning if trial.chosen]
            assert chosen.valid == max(trial.valid or 0 for trial in of_tuning)
            assert sum(float(str(trial.settings["lr"])) < 0.004 for trial in of_tuning) == 2  # half of the rates
    assert plan.trials[MODELS[0]] != plan.trials[MODELS[1]]  # each has a sequence of its own
    assert not {job.seed for job in jobs} & {run.seed for run in plan.runs()}
    assert [job.seed for job in jobs] == sorted(job.seed for job in jobs)  # a worker keeps the data of a seed
    other, _ = tuned(monkeypatch, near(0.004), tuning_seed=20_000)
    assert [t.settings for t in other.trials[MODELS[0]]] != [t.settings for t in plan.trials[MODELS[0]]]


def test_every_run_has_the_choice_of_its_tuning(monkeypatch):
    plan, _ = tuned(monkeypatch, near(0.004), seeds=10)
    for run in plan.runs():
        (chosen,) = [t for t in plan.trials[run.name] if t.chosen and t.tuning == run.seed % 5]
        assert run.model.training == chosen.settings
        assert run.steps == (800 if chosen.settings["batch_size"] == 16 else 1600)  # as many pairs


def test_equal_scores_are_ordered_by_loss_and_a_diverged_trial_is_the_worst(monkeypatch):
    plan, _ = tuned(monkeypatch, lambda job: (0.5, job.model.training["lr"]), tunings=1)
    assert plan.chosen("transformer", 1.0, 0)["lr"] == min(t.settings["lr"] for t in plan.trials["transformer"])
    lower = {"tunings": 1, "headline": Headline(better="lower")}
    fewest, _ = tuned(monkeypatch, lambda job: (job.model.training["lr"], 1.0), **lower)
    assert fewest.chosen("transformer", 1.0, 0) == plan.chosen("transformer", 1.0, 0)
    last, _ = tuned(monkeypatch, lambda job: (None if job.seed < MOST_SEEDS + 3 else 0.0, 9.0), tunings=1)
    assert [trial.chosen for trial in last.trials["transformer"]] == [False, False, False, True]


def test_a_space_is_understood_or_refused():
    models = {name: PlannedModel(name, PRESETS[name].config) for name in MODELS}
    recipe = TrainingConfig(lr=0.004)
    texts = ("lr=1e-3..1e-2:log", "batch=8,16", "dropout=0.1,0.3", "transformer:lr=1e-4..1e-2:log")
    preparation.check_space(texts, models, recipe)
    spaces = read_space(texts, MODELS)
    assert [str(axis) for axis in spaces["transformer"]][:2] == ["lr=0.0001..0.01:log", "batch_size=8,16"]
    dropped = models["transformer"].at_point({"dropout": 0.3, "lr": 0.1})
    assert (dropped.config.encoder.dropout, dropped.config.decoder.dropout, dropped.training) == (0.3, 0.3, {"lr": 0.1})
    refused = {
        "lr": "expected name=LOW..HIGH", "lr=1e-3..x": "expected name=LOW..HIGH", "lr=1e-2..1e-3": "the range is empty",
        "warmup=0..0.4:log": "begins at 0", "batch=8": "2 to 64 different values", "lr=-1,0.1": "`lr`: expected a numb",
        "batch=8,8": "2 to 64 different values", "batch=1.5,8": "expected whole numbers", "epochs=1,2": "is not tuned",
        "warmup=0.1..1.5": "`warmup`: expected a number", "encoder.num_layers=1,2": "no probability of this model",
        "lrr=1e-3..1e-2": "no probability of this model", "rnn:lr=1e-3..1e-2": "'rnn' is not a model",
        "batch=8,16 batch_size=8,32": "stands there twice",
    }  # fmt: skip
    for text, problem in refused.items():
        with pytest.raises(SettingError, match=problem):
            preparation.check_space(text.split(), models, recipe)


FEW = {"models": ("rnn-attention",), "validation_items": 5, "test_items": 5}
UNTUNED = {"tuned": True, "space": ()}
# What is given, what the plan then has, and a part of its command.
PLANS = [
    ({}, {"space": SPACE[:2], "tunings": 5, "tuning_trials": 2, "budgets": (1.0,)}, ""),  # of this model
    ({"epochs": 3}, {"tunings": 3, "tuning_trials": 4, "budgets": (1.0,)}, "--epochs 3"),
    ({"epochs": 3, "quick": True, "tune": True}, {"tunings": 1, "budgets": (1.0,)}, "--quick"),
    ({"budgets": (0.5,)}, {"budgets": (0.5,)}, "--budgets 0.5"),
    ({"quick": True, "space": ("lr=0.1,0.2",)}, {"space": ("lr=0.1,0.2",)}, "--space lr=0.1,0.2"),
    ({"epochs": 3, "tune": False}, UNTUNED, "--no-tune"),
    ({"epochs": 3, "quick": True}, UNTUNED, "--quick"),
    ({"epochs": 3, "lr": 0.01}, UNTUNED, "--lr 0.01"),
]
REFUSED = {
    "`lr` is one value for all trainings": {"lr": 0.01, "space": ("lr=0.1,0.2",)},
    "`trials` goes with `tune`": {"tune": False, "trials": 8},
    "`tunings` 4: `seeds` 6 cannot be divided": {"epochs": 3, "seeds": 6, "tunings": 4},
    "`tuning_seed` 1: these are seeds of final runs": {"epochs": 3, "tuning_seed": 1},
}


def test_tuning_is_the_default_except_in_quick_comparisons_and_with_a_rate(tmp_path, monkeypatch):
    monkeypatch.setattr(compare_module, "steps_of", lambda *_: 1)  # without drawing an epoch

    def plan_of(**changes):
        return make_plan(*prepare("dates", {"out": tmp_path} | FEW | changes))

    for changes, expected, written in PLANS:
        plan = plan_of(**changes)
        assert {name: getattr(plan, name) for name in expected} == expected, changes
        assert written in plan.command
    assert "tune" not in plan_of().command
    assert plan_of(epochs=3).space[:2] == ("lr=0.001..0.016:log", "batch_size=8,16,32,64")
    for problem, wrong in REFUSED.items():
        with pytest.raises(SettingError, match=problem):
            plan_of(**wrong)
    assert Dates().usual_comparison()["first_seed"] + RUNS * TRIALS_TO_TARGET < 9000  # of the pilot


def test_runs_are_compared_as_clusters_of_their_tunings(tuned):
    record, plan = read_record(tuned / "results.json"), read_plan(tuned)
    assert [model.tunings for model in record.models] == [(0, 1)] * 2
    assert (record.tuning.trials, record.tuning.tunings, record.tuning.is_common) == (2, 2, True)
    for run in plan.runs():
        assert run.model.training == {**plan.chosen(run.name, 1.0, run.seed)}
    assert record.plan.departures == ()
    assert not [gate for gate in record.gates if gate.name == "same training" and not gate.passed]
    checked = [(finding.name.startswith("validation of"), finding.differences) for finding in verify(tuned)]
    assert not any(differences for _, differences in checked)
    assert sum(is_trial for is_trial, _ in checked) == 8


def test_a_comparison_that_was_stopped_while_tuning_goes_on(tuned, tuned_copy, tuning_settings):
    plan = read_plan(tuned_copy)
    command = plan.command.replace(str(tuned), str(tuned_copy))
    write_plan(tuned_copy, replace(plan, trials={}, tuned=False, command=command))
    shutil.rmtree(tuned_copy / "tuning" / "rnn-plain-trial3")
    shutil.rmtree(tuned_copy / "runs")
    kept = tuned_copy / "tuning" / "rnn-plain-trial0" / WEIGHTS
    before = kept.stat().st_mtime_ns
    ledger = tuned_copy / LEDGER
    ledger.write_bytes(ledger.read_bytes().splitlines(keepends=True)[0])
    (tuned_copy / "costs.json").unlink()
    record, _ = compare("dates", out=tuned_copy, resume=True, **tuning_settings)
    as_planned = read_record(tuned / "results.json")
    assert [model.metrics for model in record.models] == [model.metrics for model in as_planned.models]
    assert record.plan.departures == ()
    assert kept.stat().st_mtime_ns == before, "a finished trial was trained again"
