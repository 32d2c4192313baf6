"""Budgets and the plan: whole schedules, a ledger of the test, and every way to depart from what was fixed."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from small_runs import accept_changes

from selfattn.codec import encode, fingerprint
from selfattn.comparison import costs, testing
from selfattn.comparison.again import report
from selfattn.comparison.compare import _prepared, compare, make_plan, write_comparison
from selfattn.comparison.planning.plan import Plan, Planned, Variant, read_plan, run_name
from selfattn.comparison.running import jobs
from selfattn.errors import SettingError, UserError
from selfattn.evaluation.statistics.crossings import locate
from selfattn.report.blocks import Paragraph
from selfattn.report.sections.budgets import BudgetsSection
from selfattn.report.verdict.conditions import budget_outcomes
from selfattn.report.verdict.verdict import limits, verdict
from selfattn.results.budgets import BudgetDifference
from selfattn.results.protocol import AtBudget, Budgets, Departure
from selfattn.results.reading import read_record, record_from_dict
from selfattn.results.record import Record
from selfattn.runs.directory import WEIGHTS, RunDirectory
from selfattn.runs.ledger import begin_ledger, note_look, read_looks
from selfattn.tasks.dates import Dates
from selfattn.tasks.translation import Translation
from selfattn.training.config import TrainingConfig
from selfattn.training.observer import Observer, StepReport
from selfattn.training.step import check_finite
from selfattn.words.messages import Message

Cli = Callable[..., Any]
MODELS = ("rnn-plain", "rnn-attention")
SETTINGS: dict[str, Any] = {
    "models": MODELS, "set": ("encoder.hidden_dim=8", "decoder.hidden_dim=8"), "quick": True, "apart": True,
    "seeds": 2, "first_seed": 5, "budgets": (0.25, 1.0), "jobs": 1, "test_items": 20,
    "epochs": 2, "items_per_epoch": 64, "batch_size": 8, "validation_items": 5, "warmup_steps": 8,
}  # fmt: skip


PLAN_OF_TWO = Plan("dates", "", quick=True, seeds=1, models={name: Planned(name, {}) for name in MODELS})


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A comparison over two budgets with two seeds."""
    out = tmp_path_factory.mktemp("budgets") / "out"
    compare("dates", out=out, **SETTINGS)
    return out


@pytest.fixture
def again(made: Path, tmp_path: Path) -> Path:
    return shutil.copytree(made, tmp_path / "out")


def departures(out: Path) -> dict[str, tuple[str, ...]]:
    """What a report that is made now says, in its record and on its first screen."""
    record, files = write_comparison(out, out.parent / "report")
    assert record.protocol is not None
    said = [one.say("en") for one in verdict(record).others]
    assert sum(one.startswith("Not as planned: ") for one in said) == len(record.protocol.departures)
    assert ("carried out as planned" in files.markdown.read_text()) == (not record.protocol.departures)
    return {one.kind: one.what for one in record.protocol.departures}


def test_every_budget_has_a_training_of_its_own_with_a_whole_schedule(made: Path) -> None:
    names = [f"{name}-seed{seed}{end}" for name in MODELS for seed in (5, 6) for end in ("", "-budget0.25")]
    assert sorted(path.name for path in (made / "runs").iterdir()) == sorted(names)
    for name in names:
        directory, is_part = RunDirectory(made / "runs" / name), name.endswith("0.25")
        training = directory.config().training
        assert directory.metrics()[-1].step == (4 if is_part else 16)
        assert (training.max_steps, training.warmup_steps) == ((4, 2) if is_part else (None, 8))
        assert training.seed == int(name.partition("-seed")[2][0])
    record = read_record(made / "results.json")
    assert record.budgets is not None
    assert [(one.budget, one.steps) for one in record.budgets.cells] == [(0.25, 4), (1.0, 16)]
    assert [set(one.models) for one in record.budgets.cells] == [set(MODELS)] * 2
    assert record.budgets.pair == MODELS
    whole = record.budgets.cells[-1].models
    assert {model.name: model.metrics["exact_match"] for model in record.models} == whole
    assert all(model.seeds == (5, 6) for model in record.models)


def test_the_plan_is_fixed_before_and_every_look_is_in_the_ledger(made: Path) -> None:
    record, plan = read_record(made / "results.json"), read_plan(made)
    assert record.protocol is not None
    assert plan.seal == record.protocol.seal
    assert fingerprint(plan.seal.decides) == plan.seal.sha256
    assert plan.seal.decides["budgets"] == [0.25, 1.0]
    assert plan.seal.decides["primary"] == list(MODELS)
    assert {look.run for look in record.protocol.looks} == {path.name for path in (made / "runs").iterdir()}
    assert {look.plan for look in record.protocol.looks} == {plan.seal.sha256}
    assert all(plan.seal.created <= look.when for look in record.protocol.looks)
    assert record.protocol.departures == ()
    assert json.loads((made / "ledger.jsonl").read_text().splitlines()[0])["run"] == ""


def test_a_budget_left_out_afterwards_is_told(again: Path) -> None:
    dataclasses.replace(read_plan(again), budgets=(1.0,)).save(again)
    assert departures(again) == {"plan": ("budgets",)}


def test_a_margin_is_fixed_in_the_plan(again: Path) -> None:
    """Also where it is taken away afterwards, which leaves nothing in the plan to look at."""
    plan = read_plan(again)
    assert plan.seal is not None
    decides = {**plan.seal.decides, "margin": 1.0}
    seal = dataclasses.replace(plan.seal, decides=decides, sha256=fingerprint(decides))
    lines = (again / "ledger.jsonl").read_text()
    looks = read_looks(again)
    (again / "ledger.jsonl").unlink()
    begin_ledger(again, seal, plan.command)
    assert lines
    for look in looks[1:]:
        note_look(again / "runs" / look.run, look.command, plan=seal.sha256, answers=look.answers)
    dataclasses.replace(plan, seal=seal, margin=1.0).save(again)
    assert departures(again) == {}
    record, _ = write_comparison(again, again.parent / "report")
    assert record.margin == 1.0
    for margin in (2.0, None):
        dataclasses.replace(plan, seal=seal, margin=margin).save(again)
        assert departures(again) == {"plan": ("margin",)}


def test_a_confirmation_may_draw_its_test_afresh_and_says_so(made: Path, tmp_path: Path) -> None:
    settings = SETTINGS | {"models": MODELS[:1], "seeds": 1, "budgets": (1.0,), "out": tmp_path / "out"}
    record, files = compare("dates", test_draw=1, **settings)
    plan, first = read_plan(tmp_path / "out"), testing.Tested(made / "runs" / "rnn-plain-seed5")
    drawn = testing.Tested(tmp_path / "out" / "runs" / "rnn-plain-seed5")
    assert drawn.config.training == first.config.training
    assert len(drawn.pairs) == len(first.pairs) == 20
    assert not {pair.source for pair in drawn.pairs} & {pair.source for pair in first.pairs}
    held_out = {pair.target for pair in Dates().splits(0).test(20_000)}  # nearly all days of the part
    assert sum(pair.target in held_out for pair in drawn.pairs) >= 19
    assert plan.seal is not None
    assert plan.seal.decides["test_draw"] == plan.test_draw == record.settings["test_draw"] == 1
    assert record.protocol is not None
    assert record.protocol.departures == ()
    assert "- test_draw: 1" in files.markdown.read_text().replace("\\", "")
    answered = dataclasses.replace(record, gates=())
    assert "The test items are draw 1 of the generator" in " ".join(one.say("en") for one in limits(answered))
    assert "새로 뽑은 1번 표본" in " ".join(one.say("ko") for one in limits(answered))
    again, _ = compare("dates", test_draw=1, resume=True, **settings)
    assert again == record
    with pytest.raises(UserError, match="not tested on the same pairs"):
        report([first.path, drawn.path], tmp_path / "pooled")


def test_files_have_one_test_part(tmp_path: Path) -> None:
    file = tmp_path / "pairs.tsv"
    file.write_text("".join(f"{number}\t{number}\n" for number in range(200)))
    with pytest.raises(SettingError, match=r"`test_draw`: .*pairs.tsv, test part has one test part"):
        compare("dates", data=file, test_draw=1, **SETTINGS | {"out": tmp_path / "out"})
    assert not (tmp_path / "out").exists()


def test_a_margin_is_of_two_models(tmp_path: Path) -> None:
    """That of a comparison about all its models would be of no difference in particular."""
    with pytest.raises(SettingError, match="`margin`: of which difference"):
        compare("dates", **SETTINGS | {"models": (*MODELS, "rnn-peeky"), "margin": 1.0, "out": tmp_path / "out"})


def test_a_plan_that_did_not_know_a_setting_yet_is_not_taken_for_changed(again: Path) -> None:
    plan = read_plan(again)
    assert plan.seal is not None
    older = {name: value for name, value in plan.seal.decides.items() if name != "pilot"}
    seal = dataclasses.replace(plan.seal, decides=older)
    dataclasses.replace(plan, seal=seal).save(again)
    assert departures(again) == {"plan": ("sha256",)}  # of this test's own making, and no `pilot`
    dataclasses.replace(plan, seal=seal, pilot=True).save(again)
    record, _ = write_comparison(again, again.parent / "report")
    assert record.protocol is not None
    assert record.protocol.departures[0].what == ("pilot", "sha256")


def test_a_plan_that_was_changed_and_hashed_again_is_told_by_the_ledger(again: Path) -> None:
    plan = read_plan(again)
    assert plan.seal is not None
    decides = {**plan.seal.decides, "seeds": 1}
    seal = dataclasses.replace(plan.seal, decides=decides, sha256=fingerprint(decides))
    dataclasses.replace(plan, seeds=1, seal=seal).save(again)
    assert departures(again)["plan"][0] == "ledger"


def test_a_second_look_at_the_test_is_told(again: Path, cli: Cli) -> None:
    run = again / "runs" / "rnn-plain-seed5"
    assert cli("evaluate", run).code == 0
    assert departures(again) == {"again": ("rnn-plain-seed5",)}


def test_a_run_that_was_made_again_is_told(tmp_path: Path) -> None:
    settings = SETTINGS | {"models": MODELS[:1], "seeds": 1, "budgets": (1.0,), "out": tmp_path / "out"}
    compare("dates", **settings)
    shutil.rmtree(tmp_path / "out" / "runs" / "rnn-plain-seed5")
    compare("dates", resume=True, **settings)
    assert departures(tmp_path / "out") == {"again": ("rnn-plain-seed5",)}


def test_a_test_that_nobody_wrote_down_is_told(again: Path) -> None:
    lines = (again / "ledger.jsonl").read_text().splitlines(keepends=True)
    (again / "ledger.jsonl").write_text("".join(line for line in lines if '"rnn-plain-seed6"' not in line))
    assert departures(again) == {"unrecorded": ("rnn-plain-seed6",)}


def test_a_run_with_other_settings_or_of_before_the_plan_is_told(again: Path) -> None:
    plan = read_plan(again)
    assert plan.seal is not None
    recipe = {**plan.seal.decides["recipe"], "lr": 0.5}  # type: ignore[dict-item]
    decides = {**plan.seal.decides, "recipe": recipe}
    late = dataclasses.replace(plan.seal, decides=decides, sha256=fingerprint(decides), created="2100-01-01T00:00:00")
    dataclasses.replace(plan, seal=late).save(again)
    found = departures(again)
    assert len(found["settings"]) == len(found["before"]) == 8


def test_other_test_items_are_told(again: Path) -> None:
    plan = read_plan(again)
    assert plan.seal is not None
    decides = {**plan.seal.decides, "test": {"items": 20, "sha256": "0" * 64}}
    dataclasses.replace(plan, seal=dataclasses.replace(plan.seal, decides=decides)).save(again)
    assert departures(again) == {"plan": ("sha256",), "test": ("rnn-plain-seed5",)}


def test_a_comparison_that_was_stopped_goes_on_and_is_as_planned(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_fit, out = jobs.fit, tmp_path / "out"

    def stop(*given: Any, **settings: Any) -> Any:
        if given[2].name == "rnn-attention-seed6":
            raise KeyboardInterrupt
        return real_fit(*given, **settings)

    monkeypatch.setattr(jobs, "fit", stop)
    with pytest.raises(KeyboardInterrupt):
        compare("dates", out=out, **SETTINGS)
    monkeypatch.setattr(jobs, "fit", real_fit)
    record, _ = compare("dates", out=out, resume=True, **SETTINGS)
    assert record.protocol is not None
    assert record.protocol.departures == ()
    assert record.budgets == read_record(made / "results.json").budgets


def test_a_training_that_diverged_counts_as_one_that_answers_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_fit, settings = jobs.fit, SETTINGS | {"out": tmp_path / "out", "epochs": 1, "budgets": (0.5, 1.0)}

    class Diverging(Observer):
        def stepped(self, report: StepReport) -> None:
            check_finite("loss", float("nan"), report.step, 0, report.lr, "float32")

    def fit(*given: Any, **options: Any) -> Any:
        diverges = given[2].name.startswith("rnn-attention-seed5")
        return real_fit(*given, **options | ({"observers": [Diverging()]} if diverges else {}))

    monkeypatch.setattr(jobs, "fit", fit)
    record, _ = compare("dates", **settings)
    (model,) = [one for one in record.models if one.name == "rnn-attention"]
    assert (model.failed, model.seeds) == ((5,), (5, 6))
    assert model.metrics["character_error_rate"].runs[0] == 1.0  # nothing of a date that was not written is right
    assert record.budgets is not None
    assert [one.failed for one in record.budgets.cells] == [{"rnn-attention": 1}] * 2
    assert record.protocol is not None
    assert record.protocol.departures == ()
    said = " ".join(one.say("en") for one in verdict(record).others).replace("\u00a0", " ")
    assert "1 runs of rnn-attention with 100 % of the training diverged. They count as failures and score zero." in said
    assert not any(gate.name == "same training" and not gate.passed for gate in record.gates)
    again, _ = compare("dates", resume=True, **settings)  # it is not tried again until it succeeds
    assert again == record


def test_a_pilot_says_so(made: Path, tmp_path: Path) -> None:
    plan = read_plan(shutil.copytree(made, tmp_path / "out"))
    dataclasses.replace(plan, pilot=True).save(tmp_path / "out")
    _, files = write_comparison(tmp_path / "out", tmp_path / "report")
    assert "pilot: explores, confirms nothing" in files.markdown.read_text()
    assert "예비 실험" in files.html.read_text()
    pooled = [tmp_path / "out", made / "runs" / "rnn-plain-seed5"]
    with pytest.raises(UserError, match=r"out: a pilot, which only explores; its runs are put together with none"):
        report(pooled, tmp_path / "pooled")
    with pytest.raises(UserError, match="a pilot"):
        report([tmp_path / "out" / "runs" / "rnn-plain-seed5"], tmp_path / "alone")


def test_a_small_budget_that_was_trained_otherwise_stops_the_verdict(again: Path) -> None:
    """One run of the smaller budget left steps out, as its record says."""
    run = again / "runs" / "rnn-plain-seed5-budget0.25"
    lines = (run / "metrics.jsonl").read_text()
    (run / "metrics.jsonl").write_text(lines.replace('"step": 4', '"step": 3'))
    accept_changes(run)
    record, _ = write_comparison(again, again.parent / "report")
    (found,) = [gate for gate in record.gates if gate.name == "same training" and not gate.passed]
    assert "3 steps of rnn-plain-seed5-budget0.25" in found.reason or "4 steps of rnn-attention" in found.reason
    assert verdict(record).stopped


def test_what_is_planned_counts_every_budget(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(costs, "step_seconds", lambda models, **_: dict.fromkeys(models, 0.5))
    settings = ("--seeds", 2, "--budgets", "0.25,0.5,1", "--apart", "--jobs", 2, "--epochs", 4)
    given = ("--models", "rnn-plain,transformer", "--items-per-epoch", 96, "--batch-size", 32, *settings)
    lines = cli("compare", "dates", *given, "--plan-only", "--out", tmp_path / "out").out.splitlines()
    assert lines[0] == "rnn-plain: 6 trainings of 3 to 12 steps, 500.0 ms a step"
    # twice 3, 6 and 12 steps, of two models, half a second each, two at once
    assert lines[2].startswith("12 trainings, 2 side by side: about 21 seconds")
    tuned = cli("compare", "dates", *given, "--tune", 3, "--plan-only", "--out", tmp_path / "out").out.splitlines()
    assert tuned[2].startswith("30 trainings")  # of each model three trials of 12, of 3 and of 6 steps
    once = cli("compare", "dates", *given, "--tune", 1, "--plan-only", "--out", tmp_path / "out").out.splitlines()
    assert once[2].startswith("14 trainings")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--budgets 0", "--budgets 0: expected shares above 0 and up to 1, each once"),
        ("--budgets 0.5,2", "--budgets 2: expected shares above 0 and up to 1, each once"),
        ("--budgets 0.5,0.5", "--budgets 0.5: expected shares above 0 and up to 1, each once"),
        ("--budgets half", "expected numbers, separated by commas; got half"),
        ("--budgets nan,1", "--budgets nan: expected shares above 0 and up to 1, each once"),
        ("--budget-in tokens", "--budget-in"),
        ("--margin 0", "--margin: expected points above 0 and below 100, got 0.0"),
        ("--margin 100", "--margin: expected points above 0 and below 100, got 100.0"),
        ("--margin nan", "--margin: expected points above 0 and below 100, got nan"),
        ("--test-draw -1", "--test-draw: expected a whole number of at least 0, got -1"),
        ("--first-seed -1", "--first-seed: expected a whole number of at least 0, got -1"),
    ],
)
def test_bad_values_are_one_line(cli: Cli, tmp_path: Path, options: str, said: str) -> None:
    done = cli("compare", "dates", *options.split(), "--out", tmp_path / "out")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert said in done.err
    assert not (tmp_path / "out").exists()


def test_a_share_of_the_steps_keeps_the_share_of_the_warm_up() -> None:
    recipe = TrainingConfig(warmup_steps=101)
    assert Variant(share=0.5).applied_to(recipe, 7) == TrainingConfig(max_steps=4, warmup_steps=50)
    assert Variant(300).applied_to(recipe, 7) == recipe
    averaged = TrainingConfig(average="last", average_last=10)
    assert Variant(share=0.125).applied_to(averaged, 80) == dataclasses.replace(averaged, max_steps=10, average_last=1)
    assert Variant(share=0.001).applied_to(TrainingConfig(), 7) == TrainingConfig(max_steps=1)
    assert run_name("a", 3, Variant(share=0.125)) == "runs/a-seed3-budget0.125"


def with_differences(record: Record, *found: tuple[float, float, float]) -> Record:
    """A record over several budgets, of whose differences these are known, with the half-widths of their intervals."""
    assert record.budgets is not None
    differences = [BudgetDifference(budget, d, d - half, d + half) for budget, d, half in found]
    models = record.budgets.cells[0].models
    cells = tuple(AtBudget(one.budget, models, 1, 1, difference=one) for one in differences)
    return dataclasses.replace(record, budgets=Budgets("steps", cells, MODELS, locate(differences)))


@pytest.mark.parametrize(
    ("unit", "said"),
    [("steps", "a share of 3,125 steps."), ("examples", "a share of 2,500 distinct training pairs, always")],
)
def test_shares_are_said_to_be_of_the_whole_training(made: Path, unit: Any, said: str) -> None:
    """Also where the largest share is not all of it."""
    record = read_record(made / "results.json")
    assert record.budgets is not None
    models = record.budgets.cells[0].models
    two = (AtBudget(0.2, models, 625, 1, 500), AtBudget(0.4, models, 1250, 1, 1000))
    block = BudgetsSection().blocks(dataclasses.replace(record, budgets=Budgets(unit, two, MODELS)))[0]
    assert isinstance(block, Paragraph)
    (sentence,) = block.sentences
    assert isinstance(sentence, Message)
    assert said in sentence.say("en")


def test_of_many_runs_that_departed_the_first_are_named(made: Path) -> None:
    record = read_record(made / "results.json")
    assert record.protocol is not None
    many = dataclasses.replace(record.protocol, departures=(Departure("again", tuple("abcde")),))
    found = verdict(dataclasses.replace(record, protocol=many)).others
    assert "Not as planned: trained or tested again (a, b, c and 2 more)." in [one.say("en") for one in found]


def test_means_that_cross_within_their_intervals_claim_no_crossing(made: Path) -> None:
    record = read_record(made / "results.json")

    def said(*found: tuple[float, float, float]) -> str:
        sentences = budget_outcomes(with_differences(record, *found))
        return " ".join(one.say("en") for one in sentences).replace("\u00a0", " ")

    crossing = said((0.25, -0.1, 0.2), (0.5, 0.05, 0.2), (1.0, 0.1, 0.2))
    assert "the order changes is not decided" in crossing
    assert "better" not in crossing
    assert "changes between" not in crossing
    assert "the order changes is not decided" in said((0.25, -0.3, 0.2), (0.5, -0.05, 0.2), (1.0, 0.1, 0.2))
    assert said((0.25, 0.3, 0.2), (0.5, 0.1, 0.2), (1.0, 0.3, 0.1)) == (
        "With 25 % and 100 % of the training rnn-plain is better. "
        "With 50 % of the training the difference is within chance. "
        "No change of order is seen between 25 % and 100 % of the training."
    )
    located = said((0.25, 0.3, 0.2), (0.5, 0.1, 0.2), (1.0, -0.3, 0.1))
    assert "With 25 % of the training rnn-plain is better." in located
    assert "With 100 % of the training rnn-attention is better." in located
    assert "The order of the two changes between 25 % and 100 % of the training." in located
    assert [one.key for one in budget_outcomes(record)] == ["budgets.few"]  # two seeds


def test_departures_stand_in_the_record_of_an_older_reader(made: Path) -> None:
    """The record is read back as it was written, departures included."""
    record = read_record(made / "results.json")
    assert record.protocol is not None
    protocol = dataclasses.replace(record.protocol, departures=(Departure("again", ("rnn-plain-seed5",)),))
    changed = dataclasses.replace(record, protocol=protocol)
    assert record_from_dict(encode(changed)) == changed


def test_the_usual_budgets_are_those_of_the_usual_training(tmp_path: Path) -> None:
    """What is asked for stands in the command, also where it is the default of other tasks."""

    def planned(**settings: Any) -> tuple[tuple[float, ...], str]:
        found = make_plan(*_prepared("dates", {"out": tmp_path, "models": ("rnn-plain",)} | settings))
        return found.budgets, found.command.partition(str(tmp_path))[2]

    assert planned() == ((0.2, 0.4), "")
    assert planned(budgets=(1.0,)) == ((1.0,), " --budgets 1.0")
    assert planned(epochs=3) == ((1.0,), " --epochs 3")
    assert planned(quick=True)[0] == (1.0,)
    assert planned(quick=True, budgets=(0.5, 1.0)) == ((0.5, 1.0), " --budgets 0.5,1.0")


def test_phrases_are_asked_about_over_budgets_and_a_corpus_is_not(tmp_path: Path) -> None:
    corpus = tmp_path / "pairs.tsv"
    corpus.write_text("".join(f"a word {k}\t낱말 {k}\n" for k in range(100)), "utf-8")
    usual = Translation().usual_comparison(), Translation(data=(corpus,)).usual_comparison()
    assert [one["budgets"] for one in usual] == [(0.4, 1.0), (1.0,)]


def test_shares_of_the_pairs_hold_the_steps_and_come_from_as_many_epochs_as_they_fill() -> None:
    plan = dataclasses.replace(PLAN_OF_TWO, budgets=(0.25, 0.5, 1.0), budget_in="examples", examples=400)
    assert plan.variants == {1.0: Variant(), 0.5: Variant(200), 0.25: Variant(100)}
    assert [name for name, _, _ in plan.runs()[:2]] == list(MODELS)
    recipe = TrainingConfig(epochs=4, items_per_epoch=100, validation_items=5)
    data = Dates().training_set(recipe, first=200)
    seen = [tuple(example.source) for epoch in range(4) for example in data.epoch(epoch)]
    whole = [tuple(one.source) for k in range(2) for one in Dates().training_set(recipe).epoch(k)]
    assert len(seen) == 400
    assert set(seen) == set(whole)


def test_every_budget_is_trained_with_the_rate_that_was_tuned_for_it(tmp_path: Path) -> None:
    out = tmp_path / "out"
    settings = SETTINGS | {"tune": 2, "seeds": 1, "budgets": (0.25, 0.5, 1.0), "out": out}
    record, files = compare("dates", **settings)
    plan = read_plan(out)
    names = {path.name for path in (out / "tuning").iterdir()}
    assert names == {
        f"{name}{end}-trial{k}" for name in MODELS for end in ("", "-budget0.5", "-budget0.25") for k in (0, 1)
    }
    for name in MODELS:
        for end, budget, steps in (("", None, 16), ("-budget0.5", 0.5, 8), ("-budget0.25", 0.25, 4)):
            trials = [trial for trial in plan.models[name].trials if trial.budget == budget]
            (chosen,) = (trial for trial in trials if trial.chosen)
            assert chosen.loss == min(trial.loss or 0.0 for trial in trials)
            config = RunDirectory(out / "runs" / f"{name}-seed5{end}").config()
            assert config.training.lr == chosen.settings.get("lr", config.training.lr)
            assert RunDirectory(out / "tuning" / f"{name}{end}-trial0").metrics()[-1].step == steps
    (gate,) = [gate for gate in record.gates if gate.name == "same training"]
    assert gate.passed
    assert record.protocol is not None
    assert record.protocol.departures == ()
    assert [len(model.tuning) for model in record.models] == [6, 6]
    assert record_from_dict(encode(record)) == record
    said = files.markdown.read_text().replace("\u00a0", " ")
    assert re.search(r"\| [^|]+; 25 %: lr 0\.00[^|]+; 50 %: lr 0\.00", said)
    # A rate that was not chosen in a trial is a departure.
    model = plan.models["rnn-plain"]
    turned = tuple(dataclasses.replace(trial, chosen=trial.chosen != (trial.budget == 0.5)) for trial in model.trials)
    other = dataclasses.replace(model, trials=turned)
    dataclasses.replace(plan, models={**plan.models, "rnn-plain": other}).save(out)
    again, _ = write_comparison(out, tmp_path / "report")
    assert again.protocol is not None
    assert {one.kind: one.what for one in again.protocol.departures} == {"settings": ("rnn-plain-seed5-budget0.5",)}


@pytest.mark.slow
def test_the_same_bits_however_many_go_on_at_once(made: Path, tmp_path: Path) -> None:
    record, _ = compare("dates", out=tmp_path / "out", **SETTINGS | {"jobs": 2})
    runs = [path.relative_to(made) for path in (made / "runs").iterdir()]
    assert all((made / run / WEIGHTS).read_bytes() == (tmp_path / "out" / run / WEIGHTS).read_bytes() for run in runs)
    assert record.budgets == read_record(made / "results.json").budgets
    assert record.protocol is not None
    assert record.protocol.departures == ()
