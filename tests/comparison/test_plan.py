"""Budgets, the plan and tuning: full schedules, the ledger, departures; every model has as many trials of one space."""

import json
import re
import runpy
import shutil
import sys
from dataclasses import replace
from math import log
from pathlib import Path
from types import SimpleNamespace

import pytest
from forging import change_plan, departures, reseal
from third_party import FILES, isolated_registries

from selfattn.codec import encode, fingerprint
from selfattn.comparison import compare as compare_module
from selfattn.comparison import preparation, tested, trainings
from selfattn.comparison import trainings as tuning
from selfattn.comparison.compare import compare
from selfattn.comparison.options import MOST_SEEDS
from selfattn.comparison.plan import ComparisonPlan, PlannedModel, TrainingAmount, read_plan, read_space
from selfattn.comparison.preparation import RUNS, TRIALS_TO_TARGET, make_plan, prepare
from selfattn.comparison.report import write_comparison
from selfattn.comparison.verify import verify
from selfattn.data.dates.source import split_days
from selfattn.errors import SettingError, UserError
from selfattn.evaluation.design import locate
from selfattn.experiments.plan import write_plan
from selfattn.models.families import PRESETS
from selfattn.registry import load_plugin
from selfattn.report.ranking import budget_outcomes
from selfattn.report.verdict import verdict
from selfattn.results.plan import AtBudget, Budgets, Seal
from selfattn.results.quality import BudgetDifference, Headline
from selfattn.results.record import read_record, record_from_dict
from selfattn.runs.directory import WEIGHTS, RunDirectory
from selfattn.runs.ledger import LEDGER, begin_ledger, read_ledger, record_access
from selfattn.runs.training_set import make_training_set
from selfattn.tasks.dates import SPACE, Dates
from selfattn.tasks.translation import AT_MOST, Translation
from selfattn.training.config import TrainingConfig
from selfattn.training.observer import Observer
from selfattn.training.step import check_finite

MODELS = ("rnn-plain", "rnn-attention")
TWO = {name: PlannedModel(name, PRESETS[name].config) for name in MODELS}
PLAN_OF_TWO = ComparisonPlan(task="dates", command="", quick=True, seeds=1, models=TWO)


def test_every_budget_has_trainings_with_a_full_schedule(finished):
    names = [f"{name}-seed{seed}{end}" for name in MODELS for seed in (5, 6) for end in ("", "-budget0.25")]
    assert sorted(path.name for path in (finished / "runs").iterdir()) == sorted(names)
    for name in names:
        directory, is_part = RunDirectory(finished / "runs" / name), name.endswith("0.25")
        training = directory.config().training
        assert directory.metrics()[-1].step == (2 if is_part else 8)
        assert (training.max_steps, training.warmup_steps) == ((2, 2) if is_part else (None, 8))
        assert training.seed == int(name.partition("-seed")[2][0])
    record = read_record(finished / "results.json")
    cells = [(cell.budget, cell.steps, set(cell.models)) for cell in record.budgets.cells]
    assert cells == [(0.25, 2, set(MODELS)), (1.0, 8, set(MODELS))]
    assert record.budgets.pair == MODELS
    assert {model.name: model.metrics["exact_match"] for model in record.models} == record.budgets.cells[-1].models
    assert all(model.seeds == (5, 6) for model in record.models)


def test_one_test_is_one_line_of_the_ledger_whoever_notes_it(tmp_path):
    """A worker that outlives a killed program notes its test behind the resumed program, which did so in its stead."""
    begin_ledger(tmp_path, Seal("0" * 64, "now"), "first")
    run = tmp_path / "runs" / "plain-seed0"
    for digest in ("a", "a", "b", "", "a", ""):  # without a digest nobody knows whether it is the same test
        record_access(run, f"command {digest}", answers=digest)
    assert [entry.answers for entry in read_ledger(tmp_path)[1:]] == ["a", "b", "", ""]


def test_the_plan_is_sealed_before_and_every_access_is_in_the_ledger_and_a_report_made_again(finished, tmp_path):
    record, plan = read_record(finished / "results.json"), read_plan(finished)
    assert plan.seal == record.plan.seal
    assert fingerprint(plan.seal.decides) == plan.seal.sha256
    assert (plan.seal.decides["budgets"], plan.seal.decides["primary"]) == ([0.25, 1.0], list(MODELS))
    assert {entry.run for entry in record.plan.entries} == {path.name for path in (finished / "runs").iterdir()}
    assert {entry.plan for entry in record.plan.entries} == {plan.seal.sha256}
    assert record.plan.departures == ()
    assert json.loads((finished / LEDGER).read_text().splitlines()[0])["run"] == ""
    write_comparison(finished, tmp_path)
    for file in ("report.html", "report.md", "results.json"):
        assert (tmp_path / file).read_bytes() == (finished / file).read_bytes()


def test_a_margin_and_a_pilot_are_parts_of_the_plan(copy, tmp_path, settings):
    reseal(copy, {"margin": 1.0}, margin=1.0, pilot=True)
    record, files = write_comparison(copy, tmp_path / "report")
    assert record.margin == 1.0
    assert "pilot: explores, confirms nothing" in files.markdown.read_text()
    assert "예비 실험" in files.html.read_text()
    wrong = {"`margin` is about one difference": {"models": (*MODELS, "rnn-peeky"), "margin": 1.0}}
    for problem, change in (wrong | {"`seeds`": {"seeds": (3, 5)}}).items():
        with pytest.raises(SettingError, match=problem):
            compare("dates", **settings | change | {"out": tmp_path / "new"})


@pytest.mark.usefixtures("no_page")
def test_a_confirmation_may_draw_a_new_test_and_says_so(finished, tmp_path, settings):
    few = settings | {"models": MODELS[:1], "seeds": 1, "budgets": (1.0,), "out": tmp_path / "out"}
    record, _ = compare("dates", test_draw=1, **few)
    plan, first = read_plan(tmp_path / "out"), tested.RunOnDisk(finished / "runs" / "rnn-plain-seed5")
    drawn = tested.RunOnDisk(tmp_path / "out" / "runs" / "rnn-plain-seed5")
    assert drawn.config.training == first.config.training
    assert not {pair.source for pair in drawn.outputs.pairs} & {pair.source for pair in first.outputs.pairs}
    assert {pair.target for pair in drawn.outputs.pairs} <= set(map(str, split_days()["test"]))
    assert plan.seal.decides["test_draw"] == plan.test_draw == record.settings["test_draw"] == 1
    assert record.plan.departures == ()
    file = tmp_path / "pairs.tsv"
    file.write_text("".join(f"{number}\t{number}\n" for number in range(200)))
    with pytest.raises(SettingError, match=r"`test_draw`: .*pairs.tsv, test part has one test part"):
        compare("dates", data=file, test_draw=1, **settings | {"out": tmp_path / "file"})


def test_a_finished_comparison_is_resumed_with_a_word(copy, settings, capsys, monkeypatch):
    monkeypatch.setattr(trainings, "fit", None)  # nothing is trained
    before, _ = write_comparison(copy, copy)
    capsys.readouterr()
    record, files = compare("dates", out=copy, resume=True, **settings, lang="ko")
    assert "all runs are finished" in capsys.readouterr().err
    assert "--lang ko" in record.command
    assert '<html lang="ko"' in files.html.read_text()
    of_runs = {"command": "", "plan": None, "outputs_sha256": ""}  # the plan that is packed has the command, too
    assert replace(record, **of_runs) == replace(before, **of_runs)
    for change, problem in (
        ({"resume": True, "seeds": 3}, "holds another experiment, made by: selfattn compare dates"),
        ({}, "or go on with it: `resume`"),
    ):
        with pytest.raises(UserError, match=problem):
            compare("dates", out=copy, **settings | change)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("--quick", "compare dates --quick"),
        ("lines --quick", "compare lines --quick"),
        ("--plugin a.py --plugin b lines --quick", "--plugin a.py --plugin b compare lines --quick"),
    ],
)
def test_the_short_command_takes_plugins(words, expected, monkeypatch):
    monkeypatch.setattr(runpy, "run_module", lambda *_, **__: None)
    monkeypatch.setattr("sys.argv", ["compare", *words.split()])
    runpy.run_path(str(Path(trainings.__file__).parents[1] / "tasks" / "compare.py"), run_name="__main__")
    assert sys.argv[1:] == expected.split()


@pytest.mark.usefixtures("no_page")
def test_a_plugin_is_tried_first_and_may_not_change(tmp_path, settings):
    """A broken one fails before anything is trained; an edited one is no part of the same comparison."""
    plugin, out = tmp_path / "mine.py", tmp_path / "out"
    code = (FILES / "cosine_score.py").read_text()
    few = {"models": MODELS[1:], "set": (*settings["set"], "decoder.score=cosine"), "seeds": 1, "budgets": (1.0,)}

    def with_factor(factor, **more):
        plugin.write_text(code.replace("shortened(key), 1.0", f"shortened(key), {factor}"))
        with isolated_registries():
            load_plugin(str(plugin))
            return compare("dates", out=out, **settings | few, **more)

    with pytest.raises(ZeroDivisionError):
        with_factor("1 / 0")
    assert not out.exists()
    assert with_factor("1.0")[0].plan.departures == ()
    with pytest.raises(UserError, match=r"mine.* is not the same as when this was made"):
        with_factor("2.0", resume=True)


def test_a_diverged_training_counts_as_a_failed_run(copy, monkeypatch, settings):
    fit, diverging = trainings.fit, ("rnn-attention-seed5", "rnn-attention-seed5-budget0.25")

    class Diverging(Observer):
        def stepped(self, report):
            check_finite("loss", float("nan"), report.step, report.lr, "float32")

    monkeypatch.setattr(trainings, "fit", lambda *given, **named: fit(*given, **named | {"observers": [Diverging()]}))
    for run in diverging:
        shutil.rmtree(copy / "runs" / run)
    record, _ = compare("dates", resume=True, out=copy, **settings)
    model = record.models[1]
    assert (5 in model.failed, model.seeds) == (True, (5, 6))
    assert model.metrics["character_error_rate"].runs[0] == 1.0
    assert all(cell.failed["rnn-attention"] for cell in record.budgets.cells)
    assert {departure.kind: departure.what for departure in record.plan.departures} == {"again": diverging}
    assert any("Training failed: " in one.say("en") for one in verdict(record).others)
    assert not any(gate.name == "same training" and not gate.passed for gate in record.gates)
    monkeypatch.setattr(trainings, "fit", None)  # it is not tried again until it succeeds
    assert compare("dates", resume=True, out=copy, **settings)[0] == record


def test_a_forecast_counts_every_budget(cli, tmp_path, monkeypatch):
    monkeypatch.setattr(compare_module, "step_seconds", lambda models, _: dict.fromkeys(models, 0.5))
    options = (
        "compare dates --models rnn-plain,transformer --items-per-epoch 96 --batch-size 32 --validation-items 5 "
        "--test-items 5 --seeds 2 --budgets 0.25,0.5,1 --apart --jobs 2 --epochs 4 --plan-only --out"
    )

    def lines(*more):
        return cli(*options.split(), tmp_path / "out", *more).out.splitlines()

    said = lines("--no-tune")
    assert said[0] == "rnn-plain, batch_size 32: 500.0 ms a step"
    # twice 3, 6 and 12 steps, of two models, half a second each, two at once
    assert said[2].startswith("plan: SHA-256 ")
    assert said[3].startswith("12 trainings, 2 in parallel: about 0.3 minutes")
    tuned = lines("--space", "lr=1e-3,2e-3", "--trials", 3)
    assert tuned[2] == "2 tunings of 3 trials for each model and budget, settings from lr=1e-3,2e-3"
    assert tuned[4].startswith("48 trainings")
    assert not (tmp_path / "out").exists()


def test_shares_of_the_pairs_keep_the_steps():
    plan = replace(PLAN_OF_TWO, budgets=(0.25, 0.5, 1.0), budget_in="examples", examples=400)
    assert plan.amounts == {1.0: TrainingAmount(), 0.5: TrainingAmount(200), 0.25: TrainingAmount(100)}
    assert [run.name for run in plan.runs()[:2]] == list(MODELS)
    recipe = TrainingConfig(epochs=4, items_per_epoch=100, validation_items=5)
    data = make_training_set(Dates(), recipe, first=200)
    shown = [tuple(example.source) for epoch in range(4) for example in data.epoch(epoch)]
    full = [tuple(one.source) for k in range(2) for one in make_training_set(Dates(), recipe).epoch(k)]
    assert len(shown) == 400
    assert set(shown) == set(full)


def test_the_usual_comparison_of_a_translation_follows_from_its_data(tmp_path):
    corpus = tmp_path / "pairs.tsv"
    corpus.write_text("".join(f"a word {k}\t낱말 {k}\n" for k in range(100)), "utf-8")
    usual = Translation().usual_comparison(), Translation(data=(corpus,)).usual_comparison()
    assert [(one["budgets"], one.get("at_most")) for one in usual] == [((1.0,), AT_MOST), ((1.0,), None)]
    assert "dropout=0.1..0.4" in usual[1]["space"]  # a hundred pairs are few


def test_means_that_cross_within_their_intervals_claim_no_crossing(finished):
    record = read_record(finished / "results.json")
    models = record.budgets.cells[0].models

    def keys(*rows):
        """What is said of these differences by budget, with the half-widths of their intervals."""
        differences = [BudgetDifference(budget, d, d - half, d + half) for budget, d, half in rows]
        cells = tuple(AtBudget(one.budget, models, 1, 1, difference=one) for one in differences)
        budgets = Budgets("steps", cells, MODELS, locate(differences))
        return [sentence.key for sentence in budget_outcomes(replace(record, budgets=budgets))]

    undecided = ["budgets.same", "budgets.same", "budgets.not located"]
    assert keys((0.25, -0.1, 0.2), (0.5, 0.05, 0.2), (1.0, 0.1, 0.2)) == undecided
    assert keys((0.25, -0.3, 0.2), (0.5, -0.05, 0.2), (1.0, 0.1, 0.2)) == ["budgets.better", *undecided[1:]]
    located = ["budgets.better", "budgets.same", "budgets.located"]
    assert keys((0.25, 0.3, 0.2), (0.5, 0.1, 0.2), (1.0, -0.3, 0.1)) == located
    assert [one.key for one in budget_outcomes(record)] == ["budgets.few"]  # two seeds


@pytest.mark.usefixtures("no_page")
def test_every_budget_is_trained_with_the_rate_that_was_tuned_for_it(tmp_path, settings):
    out, name = tmp_path / "out", MODELS[0]
    tuned = {"models": (name,), "space": ("lr=0.002,0.004",), "trials": 2, "seeds": 1, "budgets": (0.5, 1.0)}
    record, files = compare("dates", **settings | tuned | {"out": out})
    trials = read_plan(out).trials[name]
    for end, budget, steps in (("", None, 8), ("-budget0.5", 0.5, 4)):
        (chosen,) = (trial for trial in trials if trial.chosen and trial.budget == budget)
        assert RunDirectory(out / "runs" / f"{name}-seed5{end}").config().training.lr == chosen.settings["lr"]
        assert RunDirectory(out / "tuning" / f"{name}{end}-trial0").metrics()[-1].step == steps
    assert [gate.passed for gate in record.gates if gate.name == "same training"] == [True]
    assert record.plan.departures == ()
    assert [model.trials for model in record.models] == [trials]
    assert record_from_dict(encode(record)) == record
    assert re.search(r"50 %: lr 0\.", files.markdown.read_text().replace("\u00a0", " "))
    # A rate that was not chosen in a trial is a departure.
    other = [replace(one, settings={"lr": 0.5}) if one.chosen and one.budget == 0.5 else one for one in trials]
    change_plan(out, trials={name: tuple(other)})
    assert departures(out) == {"settings": (f"{name}-seed5-budget0.5",), "tuning": ("plan.json", "tuning")}


# Tuning gives every model the same chance: as many trials of one space, each with a seed of its own


PAIR = ("rnn-attention", "transformer")


def planned(**changes):
    settings = {
        "task": "dates", "command": "", "quick": False, "seeds": 5, "tuned": False, "steps": 800,
        "models": {name: PlannedModel(name, PRESETS[name].config) for name in PAIR},
        "space": ("lr=1e-3..1.6e-2:log", "batch_size=8,16"), "tuning_trials": 4, "tunings": 5,
        "read_in_a_step": {"batch_size": 16},
    }  # fmt: skip
    return ComparisonPlan(**settings | changes)


def tune_measured(monkeypatch, measure, **changes):
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
    plan, jobs = tune_measured(monkeypatch, near(0.004))
    for trials in plan.trials.values():
        assert [trial.seed for trial in trials] == list(range(MOST_SEEDS, MOST_SEEDS + 20))
        assert [trial.tuning for trial in trials] == [number // 4 for number in range(20)]
        for of_tuning in (trials[k : k + 4] for k in range(0, 20, 4)):
            (chosen,) = [trial for trial in of_tuning if trial.chosen]
            assert chosen.valid == max(trial.valid or 0 for trial in of_tuning)
            assert sum(float(str(trial.settings["lr"])) < 0.004 for trial in of_tuning) == 2  # half of the rates
    assert plan.trials[PAIR[0]] != plan.trials[PAIR[1]]  # each has a sequence of its own
    assert not {job.seed for job in jobs} & {run.seed for run in plan.runs()}
    assert [job.seed for job in jobs] == sorted(job.seed for job in jobs)  # a worker keeps the data of a seed
    other, _ = tune_measured(monkeypatch, near(0.004), tuning_seed=20_000)
    assert [t.settings for t in other.trials[PAIR[0]]] != [t.settings for t in plan.trials[PAIR[0]]]


def test_every_run_has_the_choice_of_its_tuning(monkeypatch):
    plan, _ = tune_measured(monkeypatch, near(0.004), seeds=10)
    for run in plan.runs():
        (chosen,) = [t for t in plan.trials[run.name] if t.chosen and t.tuning == run.seed % 5]
        assert run.model.training == chosen.settings
        assert run.steps == (800 if chosen.settings["batch_size"] == 16 else 1600)  # as many pairs


def test_equal_scores_are_ordered_by_loss_and_a_diverged_trial_is_the_worst(monkeypatch):
    plan, _ = tune_measured(monkeypatch, lambda job: (0.5, job.model.training["lr"]), tunings=1)
    assert plan.chosen("transformer", 1.0, 0)["lr"] == min(t.settings["lr"] for t in plan.trials["transformer"])
    lower = {"tunings": 1, "headline": Headline(better="lower")}
    fewest, _ = tune_measured(monkeypatch, lambda job: (job.model.training["lr"], 1.0), **lower)
    assert fewest.chosen("transformer", 1.0, 0) == plan.chosen("transformer", 1.0, 0)
    last, _ = tune_measured(monkeypatch, lambda job: (None if job.seed < MOST_SEEDS + 3 else 0.0, 9.0), tunings=1)
    assert [trial.chosen for trial in last.trials["transformer"]] == [False, False, False, True]


def test_every_budget_has_trials_of_its_own(monkeypatch):
    def measure(job):
        return near({1.0: 0.002, 0.125: 0.008}[job.amount.share])(job)

    plan, jobs = tune_measured(monkeypatch, measure, budgets=(0.125, 1.0), tunings=1, tuning_trials=16)
    assert len({job.path for job in jobs}) == len(jobs) == 64
    for budget, best in ((1.0, 0.002), (0.125, 0.008)):
        assert plan.chosen("transformer", budget, 0)["lr"] == pytest.approx(best, rel=0.2)


def test_a_space_is_understood_or_refused():
    models = {name: PlannedModel(name, PRESETS[name].config) for name in PAIR}
    recipe = TrainingConfig(lr=0.004)
    texts = ("lr=1e-3..1e-2:log", "batch=8,16", "dropout=0.1,0.3", "transformer:lr=1e-4..1e-2:log")
    preparation.check_space(texts, models, recipe)
    spaces = read_space(texts, PAIR)
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
    monkeypatch.setattr(preparation, "steps_of", lambda *_: 1)  # without drawing an epoch

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


@pytest.mark.usefixtures("no_page")
def test_a_comparison_that_was_stopped_while_tuning_goes_on(tuned, tuned_copy, tuning_settings):
    plan = read_plan(tuned_copy)
    command = plan.command.replace(str(tuned), str(tuned_copy))
    write_plan(tuned_copy, replace(plan, trials={}, tuned=False, command=command))
    for path in ("tuning/rnn-plain-trial3", "runs/rnn-plain-seed6"):
        shutil.rmtree(tuned_copy / path)
    for answers in (tuned_copy / "runs").glob(f"*/{tested.ANSWERS}"):  # of a run that is trained and not tested
        answers.unlink()
        answers.with_name(tested.RESULT).unlink()
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
