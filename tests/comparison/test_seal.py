"""Whatever decides what is printed is sealed or computed again: cheats that `verify` or the report catch."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from small_runs import accept_changes

from selfattn.codec import encode
from selfattn.comparison import check, tested
from selfattn.comparison.check import decisions, validation_in_test
from selfattn.comparison.costs import COSTS, digest_of_costs
from selfattn.comparison.plan import TUNING, read_plan
from selfattn.comparison.report import PACKED, pack, unpacked, write_comparison
from selfattn.comparison.tested import RESULT
from selfattn.comparison.trainings import choose, digest_of_trials
from selfattn.comparison.verify import verify
from selfattn.data.pairs import Pair
from selfattn.errors import UserError
from selfattn.experiments.plan import write_plan
from selfattn.registry import changed_plugins
from selfattn.report.write import RESULTS
from selfattn.results.plan import Seal
from selfattn.results.record import Subject
from selfattn.runs.directory import METRICS
from selfattn.runs.ledger import LEDGER, begin_ledger, read_ledger, record_access, seal_step
from selfattn.tasks.dates import Dates


def departures(place: Path, report: Path) -> dict[str, tuple[str, ...]]:
    plan = write_comparison(place, report)[0].plan
    assert plan is not None
    return {str(departure.kind): departure.what for departure in plan.departures}


def differing(place: Path) -> list[str]:
    return [finding.name for finding in verify(place) if finding.differences]


def edit(path: Path, change: Any) -> None:
    values = json.loads(path.read_text())
    values.pop("checksum", None)
    change(values)
    path.write_text(json.dumps(values))


def better_trial(place: Path) -> Path:
    """Give a trial a perfect score, as whoever wants its settings would."""
    trial = place / "tuning" / "rnn-attention-trial1"
    lines = [json.loads(line) | {"valid_exact_match": 1.0} for line in (trial / METRICS).read_text().splitlines()]
    for line in lines:
        line.pop("checksum", None)
    (trial / METRICS).write_text("".join(json.dumps(line) + "\n" for line in lines))
    accept_changes(trial)
    return trial


def test_a_trial_that_was_changed_after_the_tuning_is_caught(tuned_copy: Path, tmp_path: Path) -> None:
    better_trial(tuned_copy)
    assert set(departures(tuned_copy, tmp_path / "report")["tuning"]) >= {"plan.json", "tuning"}
    assert "validation of rnn-attention-trial1" not in differing(tuned_copy)  # the plan still has the true score


def test_another_choice_is_caught(tuned_copy: Path, tmp_path: Path) -> None:
    plan = read_plan(tuned_copy)
    turned = {name: tuple(replace(t, chosen=not t.chosen) for t in trials) for name, trials in plan.trials.items()}
    write_plan(tuned_copy, replace(plan, trials=turned))
    found = departures(tuned_copy, tmp_path / "report")
    assert "plan.json" in found["tuning"]
    assert found["settings"]


def test_a_trial_forged_with_plan_and_ledger_is_seen_in_its_weights(tuned_copy: Path, tmp_path: Path) -> None:
    better_trial(tuned_copy)
    plan = read_plan(tuned_copy)
    trials = tuple(
        replace(t, valid=1.0) if (t.seed, t.tuning) == (10_001, 0) else t for t in plan.trials["rnn-attention"]
    )
    plan = replace(plan, trials={**plan.trials, "rnn-attention": check_choice(trials)})
    write_plan(tuned_copy, plan)
    entries = read_ledger(tuned_copy)
    (tuned_copy / LEDGER).unlink()
    begin_ledger(tuned_copy, plan.seal, plan.command)
    for entry in entries[1:]:
        if entry.run:
            record_access(tuned_copy / "runs" / entry.run, entry.command, plan=entry.plan, answers=entry.answers)
        else:
            digest = digest_of_trials(plan, tuned_copy) if entry.sealed == TUNING else entry.answers
            seal_step(tuned_copy, entry.sealed, entry.command, plan=entry.plan, digest=digest)
    assert "tuning" not in departures(tuned_copy, tuned_copy)
    assert "validation of rnn-attention-trial1" in differing(tuned_copy)


def check_choice(trials: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(replace(t, chosen=t.seed == 10_001) if t.tuning == 0 else t for t in trials)


def test_tuning_comes_before_the_first_test(tuned_copy: Path, tmp_path: Path) -> None:
    entries = read_ledger(tuned_copy)
    steps = [entry.sealed or ("test" if entry.run else "plan") for entry in entries]
    assert steps == ["plan", "tuning", *["test"] * 4, "costs.json"]
    (tuned_copy / LEDGER).unlink()
    plan = read_plan(tuned_copy)
    begin_ledger(tuned_copy, plan.seal, plan.command)
    for entry in (*entries[2:6], entries[1], entries[6]):
        if entry.run:
            record_access(tuned_copy / "runs" / entry.run, entry.command, plan=entry.plan, answers=entry.answers)
        else:
            seal_step(tuned_copy, entry.sealed, entry.command, plan=entry.plan, digest=entry.answers)
    assert departures(tuned_copy, tmp_path / "report") == {"tuning": ("ledger.jsonl",)}


def test_the_pair_is_that_of_the_plan_whatever_the_task_says_later(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = write_comparison(finished, tmp_path / "before")[0]
    monkeypatch.setattr(Dates, "subject", classmethod(lambda cls: Subject(("rnn-plain", "nothing"))))
    after = write_comparison(finished, tmp_path / "after")[0]
    assert [pair.primary for pair in before.pairs] == [pair.primary for pair in after.pairs]
    assert any(pair.primary for pair in after.pairs)


def test_gates_times_and_curves_that_were_edited_are_caught(copy: Path, tmp_path: Path) -> None:
    run = copy / "runs" / "rnn-plain-seed5"
    edit(run / RESULT, lambda values: [gate.update(passed=True) for gate in values["gates"]])
    accept_changes(run)
    edit(copy / COSTS, lambda values: values["models"]["rnn-plain"].update(step_seconds=1e-6))
    found = departures(copy, tmp_path / "report")
    assert (found["unrecorded"], found["costs"]) == (("rnn-plain-seed5",), ("costs.json",))


def test_a_limit_that_was_widened_afterwards_is_a_changed_plan(copy: Path, tmp_path: Path) -> None:
    plan = read_plan(copy)
    write_plan(copy, replace(plan, matching=replace(plan.matching, limit=10.0, allowed_apart=False)))
    assert departures(copy, tmp_path / "report")["plan"] == ("matching",)


def test_a_published_report_follows_from_plan_and_runs(tuned: Path, tmp_path: Path) -> None:
    out = tmp_path / "report"
    out.mkdir()
    for name in (RESULTS, PACKED):
        shutil.copy(tuned / name, out)
    assert differing(out) == []

    def caught(change: Any) -> list[str]:
        shutil.copy(tuned / RESULTS, out)
        edit(out / RESULTS, change)
        return differing(out)

    assert caught(lambda values: values.update(margin=30.0)) == ["margin"]  # the margin that suits
    assert caught(lambda values: [model.pop("tunings") for model in values["models"]])  # runs instead of tunings
    assert caught(lambda values: values["plan"]["seal"]["decides"].update(primary=None)) == ["plan"]
    assert caught(lambda values: values["matching"].update(limit=10.0)) == ["matching"]
    assert caught(lambda values: values["tuning"].update(trials=20)) == ["tuning"]
    assert caught(lambda values: values["tuning"]["space"]["rnn-plain"].update(lr="0.0001..0.1:log")) == ["tuning"]
    assert caught(lambda values: values["settings"].update(epochs=99)) == ["settings"]
    assert caught(lambda values: values["settings"].update(beam=8)) == ["settings"]
    assert caught(lambda values: values["settings"].update(pretrained="none")) == ["settings"]
    assert caught(lambda values: values["models"][0]["config"]["encoder"].update(hidden_dim=64))
    assert caught(lambda values: values["models"][0].update(failed=[6]))
    assert caught(lambda values: values["models"][0].update(preset="transformer"))
    assert caught(lambda values: values["models"][0].update(changes={}))
    assert caught(lambda values: values["models"][0].update(parameters_body=1))
    assert caught(lambda values: values["plan"].update(seeds=9, planned_seeds=9)) == ["plan"]
    assert caught(lambda values: values["plan"].pop("entries")) == ["plan"]
    assert caught(lambda values: values["plan"].pop("seal")) == ["plan"]
    assert caught(lambda values: values.update(command=values["command"] + " --patience 2")) == ["command"]
    assert caught(lambda values: values["subject"]["words"]["en"].update({"metric.exact_match": "accuracy"}))
    assert caught(lambda values: values["units"].pop("character_error_rate"))
    assert caught(lambda values: values["models"][0]["cost"].update(training_flops=1.0))  # not seen before
    assert caught(lambda values: values["models"][0]["curves"][0]["points"].pop())  # not seen before


def test_runs_that_were_packed_otherwise_are_refused(tuned: Path, tmp_path: Path) -> None:
    """Outputs, tags and the number of items are those that the ledger has."""
    with unpacked(tuned / PACKED) as (folder, _):
        run = folder / "runs" / "rnn-plain-seed5"
        lines = [json.loads(line) | {"tag": "easy"} for line in (run / "test.jsonl").read_text().splitlines()]
        (run / "test.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        files = {
            path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*.*") if path.is_file()
        }
        shutil.copy(tuned / RESULTS, tmp_path)
        sha256 = pack(files, tmp_path / PACKED)
    edit(tmp_path / RESULTS, lambda values: values.update(outputs_sha256=sha256))
    with pytest.raises(UserError, match=r"test\.jsonl: was changed or damaged"):
        differing(tmp_path)


def forge_ledger(place: Path) -> None:
    """Write the ledger again for what is on disk now."""
    plan = read_plan(place)
    entries = read_ledger(place)
    (place / LEDGER).unlink()
    begin_ledger(place, plan.seal, plan.command)
    for entry in entries[1:]:
        if entry.run:
            run = place / "runs" / entry.run
            record_access(run, entry.command, plan=entry.plan, answers=tested.Tested(run).digest)
        else:
            digest = digest_of_trials(plan, place) if entry.sealed == TUNING else digest_of_costs(place)
            seal_step(place, entry.sealed, entry.command, plan=entry.plan, digest=digest)


def exchange(first: Path, second: Path) -> None:
    """Exchange two directories."""
    aside = first.with_name("aside")
    first.rename(aside)
    second.rename(first)
    aside.rename(second)


def test_trials_and_runs_in_each_other_s_place_are_not_as_planned(tuned_copy: Path, tmp_path: Path) -> None:
    exchange(tuned_copy / "tuning" / "rnn-attention-trial0", tuned_copy / "tuning" / "rnn-attention-trial1")
    plan = read_plan(tuned_copy)
    write_plan(tuned_copy, replace(plan, trials=choose(plan, tuned_copy)))
    exchange(tuned_copy / "runs" / "rnn-plain-seed5", tuned_copy / "runs" / "rnn-plain-seed6")
    forge_ledger(tuned_copy)
    found = departures(tuned_copy, tmp_path / "report")
    assert found["tuning"] == ("rnn-attention-trial0", "rnn-attention-trial1")
    assert {"rnn-plain-seed5", "rnn-plain-seed6"} <= set(found["settings"])


def test_times_that_were_taken_until_they_suit_are_caught(copy: Path, tmp_path: Path) -> None:
    edit(copy / COSTS, lambda values: values["models"]["rnn-plain"].update(step_seconds=1e-6))
    seal_step(copy, COSTS, "", plan=read_plan(copy).seal.sha256, digest=digest_of_costs(copy))
    assert departures(copy, tmp_path / "report") == {"costs": ("costs.json",)}


def test_another_command_and_an_earlier_plan_are_caught(copy: Path, tmp_path: Path) -> None:
    plan = read_plan(copy)
    seal = replace(plan.seal, created="2000-01-01T00:00:00+00:00")
    write_plan(copy, replace(plan, command="selfattn compare dates", seal=seal))
    assert departures(copy, tmp_path / "report") == {"plan": ("command", "created")}


def test_tags_and_failures_forged_with_the_ledger_are_caught(copy: Path, tmp_path: Path) -> None:
    run = copy / "runs" / "rnn-plain-seed5"
    edit(run / RESULT, lambda values: values.update(failed="the loss is not a number"))
    accept_changes(run)
    for path in (copy / "runs").glob("*-seed*"):
        answers = [replace(answer, tag="easy") for answer in tested.Tested(path).answered.answers]
        tested.keep(path, tested.Tested(path).result, answers)
    forge_ledger(copy)
    assert set(departures(copy, copy)) == {"test"}
    assert differing(copy) == ["rnn-plain-seed5 (diverged)"]


def test_validation_items_that_are_test_items_are_named() -> None:
    pairs = [Pair(str(number), "x") for number in range(100)]

    def named(validation: list[Pair]) -> str:
        tests = SimpleNamespace(pairs=pairs, validation=validation, probes={})
        data = (SimpleNamespace(settings={}), tests)
        task = SimpleNamespace(decoding={})
        trainings: Any = SimpleNamespace(data=lambda seed: data, recipe=Dates().recipe(True), task=task)
        plan: Any = read_plan_of_nothing()
        return validation_in_test(Seal("", "", encode(decisions(plan, trainings))))

    assert named(pairs) == "100 of 100 test items"
    assert named([Pair("other", "x"), pairs[0]]) == ""


def read_plan_of_nothing() -> Any:
    from selfattn.comparison.plan import ComparisonPlan, PlannedModel
    from selfattn.models.families import PRESETS

    models = {"transformer": PlannedModel("transformer", PRESETS["transformer"].config)}
    return ComparisonPlan(task="dates", command="", quick=True, seeds=1, models=models)


def test_a_changed_plugin_is_a_departure() -> None:
    assert changed_plugins({"a/mine.py": "1"}, {"b/mine.py": "1"}) == []
    assert changed_plugins({"mine.py": "1", "other": "2", "third": "3"}, {"mine": "2", "other": ""}) == [
        "mine.py",
        "third",
    ]
    run = SimpleNamespace(config=SimpleNamespace(plugins={"mine.py": "2"}))
    plan: Any = SimpleNamespace(plugins={})
    assert check.plugins_apart(plan, [run]) == ["mine.py"]  # type: ignore[list-item]
