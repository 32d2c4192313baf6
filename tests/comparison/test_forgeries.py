"""Whatever decides what is printed is sealed or computed again: each way to cheat, and what the report says of it.

Nothing tells of a plan, a ledger and outputs that were all forged together, but the weights: only a hash that was
published before the training would.
"""

import hashlib
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from forging import change_plan, departures, differing, edit, pack_again, reseal, write_ledger
from safetensors.torch import load_file, save_file
from small_runs import accept_changes

from selfattn.codec import line_of
from selfattn.comparison import tested
from selfattn.comparison.compare import compare
from selfattn.comparison.costs import COSTS, digest_of_costs
from selfattn.comparison.plan import TUNING, read_plan
from selfattn.comparison.report import PACKED, write_comparison
from selfattn.comparison.tested import ANSWERS, RESULT
from selfattn.comparison.trainings import DIVERGED, digest_of_trials, pick_best
from selfattn.comparison.verify import verify
from selfattn.errors import UserError
from selfattn.report.write import RESULTS
from selfattn.results.record import read_record
from selfattn.results.subject import Subject
from selfattn.runs.directory import METRICS, RECORD, WEIGHTS
from selfattn.runs.ledger import LEDGER, read_ledger, seal_step
from selfattn.tasks.dates import Dates

pytestmark = pytest.mark.usefixtures("no_page")

RUN, TRIAL = "rnn-plain-seed5", "rnn-attention-trial1"
OTHER = "rnn-attention-seed5"
EIGHT = [f"rnn-{kind}-seed{seed}{end}" for end in ("", "-budget0.25") for kind in ("plain", "attention")
         for seed in (5, 6)]  # fmt: skip
OF_SEED_6 = [run for run in EIGHT if "seed6" in run]


# Forgeries of the comparison over two budgets


def edited(name, change):
    """Change a file of a comparison, and its checksum in `run.json` where a run has one."""

    def forge(place):
        edit(place / name, change)
        if Path(name).name in (RESULT, ANSWERS, METRICS):
            accept_changes((place / name).parent)

    return forge


def gone(name):
    return lambda place: shutil.rmtree(place / name) if (place / name).is_dir() else (place / name).unlink()


def each(*forgeries):
    return lambda place: [forge(place) for forge in forgeries]


def replan(change):
    """Change the plan to values that are made from it."""
    return lambda place: change_plan(place, **change(read_plan(place)))


def planned_in(year, **changes):
    created = f"{year}-01-01T00:00:00+00:00"
    return lambda place: change_plan(place, seal=replace(read_plan(place).seal, created=created), **changes)


def with_a_clock_that_went_back(place):
    """A clock that shows an earlier time after the plan accuses nobody."""
    entries = read_ledger(place)[1:]
    planned_in(2100)(place)
    write_ledger(place, entries)


def with_lines(change):
    def forge(place):
        lines = (place / LEDGER).read_text().splitlines(keepends=True)
        (place / LEDGER).write_text("".join(change(lines)))

    return forge


def with_an_edited_line(lines):
    entry = json.loads(lines[3])
    del entry["checksum"]
    edited = line_of(entry | {"when": "2100-01-01T00:00:00+00:00"}, checksum=True)
    return [*lines[:3], edited, *lines[4:]]


def with_tags_and_a_failure(place):
    edited(f"runs/{RUN}/{RESULT}", lambda values: values.update(failed="the loss is not a number"))(place)
    for path in (place / "runs").glob("*-seed*"):
        answers = [replace(answer, tag="easy") for answer in tested.RunOnDisk(path).outputs.answers]
        tested.keep(path, tested.RunOnDisk(path).result, answers)
    write_ledger(place)


with_right_outputs = edited(f"runs/{OTHER}/{ANSWERS}", lambda line: line.update(output=line["target"]))
with_passed_gates = edited(
    f"runs/{RUN}/{RESULT}", lambda values: [gate.update(passed=True) for gate in values["gates"]]
)
with_quick_steps = edited(COSTS, lambda values: values["models"]["rnn-plain"].update(step_seconds=1e-6))
# What each makes of a comparison over two budgets, and all that is told of it.
FORGED = {
    "plan": (
        replan(lambda plan: {"budgets": (1.0,), "margin": 2.0, "pilot": True, "seeds": 1, "matching":
                             replace(plan.matching, limit=10.0, allowed_apart=False)}),
        {"plan": ["budgets", "margin", "pilot", "matching", "seeds"], "missing": [*EIGHT[4:], *OF_SEED_6[:2]]},
    ),
    "fewer": (lambda place: reseal(place, {"seeds": 1}, seeds=1), {"plan": ["ledger", *EIGHT], "missing": OF_SEED_6}),
    "recipe": (
        lambda place: reseal(place, {"recipe": {**read_plan(place).seal.decides["recipe"], "lr": 0.5},
                                     "test": {"items": 20, "sha256": "0"}}),
        {"plan": ["ledger", *EIGHT], "settings": EIGHT, "test": [RUN]},
    ),
    "earlier": (planned_in(2000, command="selfattn compare dates"), {"plan": ["command", "created"]}),
    "later": (planned_in(2100), {"plan": ["created"], "before": EIGHT}),
    "clock": (with_a_clock_that_went_back, {}),
    "edited line": (with_lines(with_an_edited_line), {"ledger": [LEDGER]}),
    "exchanged lines": (with_lines(lambda lines: [*lines[:3], lines[4], lines[3], *lines[5:]]), {"ledger": [LEDGER]}),
    "no first line": (with_lines(lambda lines: lines[1:]), {"ledger": [LEDGER]}),
    "no line of a run": (
        with_lines(lambda lines: [line for line in lines if f'"{RUN}"' not in line]),
        {"ledger": [LEDGER], "unrecorded": [RUN]},
    ),
    "no ledger": (gone(LEDGER), {"ledger": [LEDGER], "unrecorded": EIGHT, "costs": [COSTS]}),
    "gates and times": (each(with_passed_gates, with_quick_steps), {"unrecorded": [RUN], "costs": [COSTS]}),
    "times until they suit": (
        each(with_quick_steps, lambda place: seal_step(
            place, COSTS, "", plan=read_plan(place).seal.sha256, digest=digest_of_costs(place))),
        {"costs": [COSTS]},
    ),
    "right outputs": (with_right_outputs, {"unrecorded": [OTHER]}),
    "tags and a failure": (with_tags_and_a_failure, {"test": EIGHT}),
}  # fmt: skip


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_comparison_is_not_as_planned(name, copy):
    forge, expected = FORGED[name]
    forge(copy)
    found = departures(copy)
    assert {kind: sorted(what) for kind, what in found.items()} == {kind: sorted(expected[kind]) for kind in expected}
    if name == "plan":
        plan = write_comparison(copy, copy.parent / "again")[0].plan
        assert (plan.seeds, plan.planned_seeds) == (1, 2)
    if name == "tags and a failure":
        write_comparison(copy, copy)
        assert differing(copy, 1) == [f"{RUN} (diverged)"]


# Forgeries of a tuning

# A perfect score of a trial, as whoever wants its settings would write.
with_a_better_trial = edited(f"tuning/{TRIAL}/{METRICS}", lambda line: line.update(valid_exact_match=1.0))


def with_a_better_trial_in_plan_and_ledger(place):
    with_a_better_trial(place)
    plan, name = read_plan(place), "rnn-attention"
    worse, better, *others = plan.trials[name]
    assert (better.seed, better.tuning) == (10_001, 0)
    chosen = (replace(worse, chosen=False), replace(better, valid=1.0, chosen=True), *others)
    plan = change_plan(place, trials={**plan.trials, name: chosen})
    digest = digest_of_trials(plan, place)
    entries = [replace(entry, answers=digest) if entry.sealed == TUNING else entry for entry in read_ledger(place)[1:]]
    write_ledger(place, entries)


def with_other_choices(plan):
    return {"trials": {m: tuple(replace(t, chosen=not t.chosen) for t in trials) for m, trials in plan.trials.items()}}


def with_the_tuning_behind_the_tests(place):
    _, tuning, *tests, costs = read_ledger(place)
    assert (tuning.sealed, costs.sealed, {entry.sealed for entry in tests}) == (TUNING, COSTS, {""})
    write_ledger(place, [*tests, tuning, costs])


def chained_without_the_plan(place):
    """The line behind the plan's, of the tuning, is chained anew as the first."""
    previous, lines = "", []
    for entry in read_ledger(place)[1:]:
        lines.append(line_of(replace(entry, previous=previous), checksum=True).rstrip() + "\n")
        previous = hashlib.sha256(lines[-1].encode().rstrip()).hexdigest()
    (place / LEDGER).write_text("".join(lines))


def exchange(first, second):
    aside = first.with_name("aside")
    first.rename(aside)
    second.rename(first)
    aside.rename(second)


def with_trials_and_runs_exchanged(place):
    exchange(place / "tuning" / "rnn-attention-trial0", place / "tuning" / TRIAL)
    change_plan(place, trials=pick_best(read_plan(place), place))
    exchange(place / "runs" / RUN, place / "runs" / "rnn-plain-seed6")
    write_ledger(place)


# What is told at least, and what `verify` computes again and finds different.
TUNED = {
    "trial": (with_a_better_trial, {"tuning": {"plan.json", "tuning"}}),
    "trial, plan, ledger": (with_a_better_trial_in_plan_and_ledger, {}),
    "choices": (replan(with_other_choices), {"tuning": {"plan.json"}, "settings": {RUN}}),
    "order": (with_the_tuning_behind_the_tests, {"tuning": {LEDGER}}),
    "no plan": (chained_without_the_plan, {"ledger": {LEDGER}}),
    "exchanged": (
        with_trials_and_runs_exchanged,
        {"tuning": {"rnn-attention-trial0", TRIAL}, "settings": {RUN, "rnn-plain-seed6"}},
    ),
    "diverged trial": (
        edited(f"tuning/{TRIAL}/{RECORD}", lambda values: values.update(status=DIVERGED)),
        {"tuning": {TRIAL}},
    ),
    "diverged run": (edited(f"runs/{RUN}/{RESULT}", lambda values: values.update(failed="forged")), {"test": {RUN}}),
}


@pytest.mark.parametrize("name", TUNED)
def test_a_forged_tuning_is_not_as_planned(name, tuned_copy):
    forge, expected = TUNED[name]
    forge(tuned_copy)
    found = departures(tuned_copy)
    assert all(what <= set(found[kind]) for kind, what in expected.items())
    if name == "trial":  # the plan still has the true score
        assert f"validation of {TRIAL}" not in differing(tuned_copy)
    if name == "trial, plan, ledger":  # the weights alone have it
        assert f"validation of {TRIAL}" in differing(tuned_copy, 1)


# What cannot be compared is said in a line


def cut_to_two_answers(place):
    """The last items are cut from all runs, as if there had never been more."""
    for run in (place / "runs").iterdir():
        lines = (run / ANSWERS).read_text("utf-8").splitlines(keepends=True)
        (run / ANSWERS).write_text("".join(lines[:2]), "utf-8")
        accept_changes(run)


def without_an_answer(place):
    run = tested.RunOnDisk(place / "runs" / "rnn-attention-seed6")
    tested.keep(run.path, run.result, run.outputs.answers[1:])


def with_copies_of_the_full_runs(place):
    for run in sorted((place / "runs").glob("*-budget0.25")):
        shutil.rmtree(run)
        shutil.copytree(run.with_name(run.name.removesuffix("-budget0.25")), run)


IN = f"runs/{RUN}"
UNTESTED = f"{{copy}}/{IN}: not tested yet, or gone; finish the comparison: selfattn compare "
REFUSED = [
    (cut_to_two_answers, f"{ANSWERS} has 2 pairs"),
    (without_an_answer, "rnn-attention-seed6: not tested on the same pairs as "),
    (with_copies_of_the_full_runs, "trained as much as a run of another budget"),
    (gone(IN), UNTESTED),
    (gone(f"{IN}/{RESULT}"), UNTESTED),
    (gone(f"{IN}/{ANSWERS}"), UNTESTED),
    (gone("plan.json"), "{copy}/plan.json: no such file; name the directory of a "),
    (edited(f"{IN}/test.json", lambda v: v.pop("created")), f"{{copy}}/{IN}/test.json: created: is missing; "),
    (edited(f"{IN}/test.jsonl", lambda v: v.pop("output")), f"{{copy}}/{IN}/test.jsonl:1: output: is missing; "),
    (edited("plan.json", lambda v: v.update(models={})),
     "models: Dictionary should have at least 1 item after validation, not 0, found {{}}; "),
    (edited("plan.json", lambda v: v.pop("seal")), "{copy}/plan.json: not a plan that this version can read; "),
    (edited("plan.json", lambda v: v.update(seeds="3")), 'plan.json: seeds: expected a valid integer, found "3"; '),
]  # fmt: skip


@pytest.mark.parametrize(("forge", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_a_comparison_with_something_missing_or_wrong_has_no_report(forge, message, copy, cli):
    forge(copy)
    out = copy.parent / "report"
    refusal = cli("report", copy, "--out", out).refusal()
    assert message.format(copy=copy) in refusal
    assert not out.exists()
    if message == UNTESTED:
        assert refusal.endswith(" --resume\n")
    if forge is cut_to_two_answers:
        assert message in cli("verify", copy).refusal()


def test_a_run_stands_in_its_own_place(tuned_copy, cli):
    gone("runs/rnn-plain-seed6")(tuned_copy)
    shutil.copytree(tuned_copy / "runs" / RUN, tuned_copy / "runs" / "rnn-plain-seed6")
    for command in (("verify", tuned_copy), ("report", tuned_copy, "--out", tuned_copy.parent / "report")):
        assert "rnn-plain: seeds [5, 5] have the settings of tunings [0, 0]" in cli(*command).refusal()


def test_tests_that_are_repeated_are_told(copy, cli, settings, monkeypatch):
    monkeypatch.setattr("selfattn.tasks.dates.Dates.test_items", lambda self, quick: 20)
    cli("evaluate", copy / "runs" / RUN).success()
    shutil.rmtree(copy / "runs" / "rnn-plain-seed6-budget0.25")
    compare("dates", resume=True, out=copy, **settings)
    assert departures(copy) == {"again": (RUN, "rnn-plain-seed6-budget0.25")}


def test_weights_that_were_swapped_after_the_test_are_caught(copy):
    run = copy / "runs" / OTHER
    save_file({name: -weights for name, weights in load_file(run / WEIGHTS).items()}, run / WEIGHTS)
    assert differing(copy, 2) == [OTHER]  # its checksum differs
    accept_changes(run)
    # Figures are of the outputs on disk; the ledger has another digest of this run.
    found = [(finding.name, finding.values) for finding in verify(copy, 2) if finding.differences]
    assert found[0] == (f"outputs of {OTHER}", 2)
    assert [name for name, _ in found[1:]] == ["outputs_sha256", "plan"]
    assert "models.rnn-attention.metrics.character_error_rate" in differing(copy)


def test_a_plan_a_ledger_and_answers_forged_together_are_seen_in_the_weights_alone(copy, tmp_path):
    for path in (copy / "runs").glob("rnn-attention-*"):
        run = tested.RunOnDisk(path)
        right = [replace(answer, output=answer.target) for answer in run.outputs.answers]
        perfect = {"exact_match": 1.0, "character_error_rate": 0.0}
        tested.keep(path, replace(run.result, scores=perfect, gates=()), right)
    write_ledger(copy)
    record, _ = write_comparison(copy, copy)
    assert record.plan.departures == ()
    assert record.models[1].metrics["exact_match"].mean == 1
    for name in (RESULTS, PACKED):
        shutil.copy(copy / name, tmp_path)
    assert differing(tmp_path) == []
    changed = [name for name in differing(copy) if name.startswith("outputs")]
    assert changed == [f"outputs of {run}" for run in EIGHT if "attention" in run]


def test_what_is_packed_is_that_of_the_runs_and_of_the_ledger(copy, tmp_path):
    """Files are exchanged, or right outputs accepted in `run.json`: the ledger has the outputs of each run."""

    def exchanged(folder):
        exchange(folder / "runs" / RUN / ANSWERS, folder / "runs" / OTHER / ANSWERS)

    def differing_with(change):
        sha256 = pack_again(copy / PACKED, change, tmp_path / PACKED)
        edit(tmp_path / RESULTS, lambda values: values.update(outputs_sha256=sha256))
        return differing(tmp_path)

    assert all(len(entry.outputs) == 64 for entry in read_ledger(copy) if entry.run)
    shutil.copy(copy / RESULTS, tmp_path)
    with pytest.raises(UserError, match=r"test\.jsonl: was changed or damaged"):
        differing_with(lambda folder: edit(folder / "runs" / OTHER / ANSWERS, lambda line: line.update(output="x")))
    assert "plan" in differing_with(with_right_outputs)
    sha256 = pack_again(copy / PACKED, exchanged, copy / PACKED)
    assert differing(copy) == [PACKED]
    edit(copy / RESULTS, lambda values: values.update(outputs_sha256=sha256))
    assert differing(copy) == ["outputs_sha256"]


def test_the_pair_is_that_of_the_plan_whatever_the_task_says_later(finished, tmp_path, monkeypatch):
    monkeypatch.setattr(Dates, "subject", classmethod(lambda cls: Subject(("rnn-plain", "nothing"))))
    after = write_comparison(finished, tmp_path / "after")[0]
    assert [pair.primary for pair in after.pairs] == [pair.primary for pair in read_record(finished / RESULTS).pairs]
    assert any(pair.primary for pair in after.pairs)
