"""Gates and what is held against the plan, by hand and on runs that were never trained; the baseline of a user."""

import json
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from selfattn.codec import encode
from selfattn.comparison import check, testing
from selfattn.comparison.check import decisions, make_gates, validation_in_test
from selfattn.comparison.plan import ComparisonPlan, PlannedModel, read_plan
from selfattn.comparison.preparation import make_plan, prepare
from selfattn.comparison.report import write_comparison
from selfattn.comparison.tested import RunTable
from selfattn.comparison.testing import RunTest
from selfattn.data.pairs import Pair
from selfattn.errors import UserError
from selfattn.evaluation import gates as gates_module
from selfattn.evaluation.gates import output_gates
from selfattn.models.families import PRESETS
from selfattn.registry import changed_plugins
from selfattn.results.plan import Seal
from selfattn.results.record import Gate, Matching
from selfattn.results.subject import Baseline
from selfattn.runs.directory import RunDirectory
from selfattn.tasks.baselines import stated_baseline
from selfattn.tasks.dates import Dates
from selfattn.training.config import TrainingConfig

MODEL = PRESETS["rnn-attention"].config
PASSED, FAILED = Gate("overfitting", True, "learnt"), Gate("overfitting", False, "not learnt")
MAIN, HALF = 1.0, 0.5


def run_of(
    name, seed=0, *, gates=(), steps=10, tokens=1000, failed=False, data="dates", score=0.5, threads=1, model=MODEL,
    **training,
):  # fmt: skip
    """What a gate reads of a tested run."""
    machine = {"threads": threads, "cpu": "Xeon"}
    return SimpleNamespace(
        seed=seed, failed=failed, path=Path("runs", f"{name}-seed{seed}"),
        metrics=[SimpleNamespace(step=1, tokens=7), SimpleNamespace(step=steps, tokens=tokens)],
        record=SimpleNamespace(versions={"torch": "2.13.0"}, machine=machine, commit=None),
        config=SimpleNamespace(data={"kind": data}, training=TrainingConfig(**training), model=model),
        result=SimpleNamespace(gates=tuple(gates), scores={"exact_match": score}),
    )  # fmt: skip


def gates_of(*runs, half=(), **of_plan):
    rows = [(MAIN, run) for run in runs] + [(HALF, run) for run in half]
    trained = RunTable.gather((budget, run.path.name.partition("-")[0], run) for budget, run in rows)
    matching = Matching(counts=dict.fromkeys(trained.main, 100.0))
    untuned = {"space": (), "read_in_a_step": {}, "models": trained.main}
    plan = {"main": MAIN, "baseline": None, "matching": matching} | untuned | of_plan
    return list(make_gates(trained, SimpleNamespace(**plan)))


def only(name, *runs, **given):
    (found,) = [gate for gate in gates_of(*runs, **given) if gate.name == name]
    return found


def test_runs_that_differ_in_nothing_pass():
    found = gates_of(run_of("a"), run_of("a", 1), run_of("b"), run_of("b", 1))
    limits = {"same data": 0.0, "same training": 0.0, "matched budgets": 0.02, "same machine": 0.0}
    assert {gate.name: gate.limit for gate in found} == limits
    assert {(gate.passed, gate.value) for gate in found} == {(True, 0.0)}
    same = "all runs had the same settings of the training, and each the steps and tokens of the others of its seed"
    assert found[1].reason == same


@pytest.mark.parametrize(
    ("name", "other", "reason"),
    [
        ("same data", {"data": "names"}, "b-seed0 was trained on other data than a-seed0"),
        ("same training", {"lr": 0.5}, "lr: 0.001 of a-seed0, 0.5 of b-seed0"),
        ("same training", {"steps": 9}, "9 steps of b-seed0, 10 of a-seed0"),
        ("same training", {"tokens": 1001}, "1,001 tokens of b-seed0, 1,000 of a-seed0"),
        ("same machine", {"threads": 2}, "threads: 1, 2"),
    ],
)
def test_a_difference_of_runs_is_named(name, other, reason):
    gate = only(name, run_of("a", lr=0.001), run_of("b", **{"lr": 0.001} | other))
    assert (gate.passed, gate.value, gate.limit, gate.reason) == (False, 1.0, 0.0, reason)
    assert gate.note == (name == "same machine")


def test_each_gate_of_a_model_that_did_not_pass_is_listed_and_of_those_that_did_the_first():
    overlap = Gate("overlap", True, "none known")
    results = {"a": (PASSED, FAILED, FAILED), "b": (PASSED, PASSED, PASSED)}
    runs = [run_of(name, k, gates=(gate, overlap)) for name, gates in results.items() for k, gate in enumerate(gates)]
    assert [(gate.name, gate.model, gate.seed, gate.passed) for gate in gates_of(*runs)[4:]] == [
        ("overfitting", "a", 1, False), ("overfitting", "a", 2, False), ("overlap", "", 0, True),  # said once
        ("overfitting", "b", 0, True),
    ]  # fmt: skip


def test_every_run_is_held_against_the_baseline():
    gates = gates_of(run_of("a"), run_of("b", score=0.7), baseline=Baseline("exact_match", 0.6, "Smith"))
    found = [(gate.model, gate.passed, gate.value) for gate in gates if gate.name == "published baseline"]
    assert found == [("a", False, 0.5), ("b", True, 0.7)]


def test_of_smaller_budgets_only_what_is_wrong_is_told():
    runs = (run_of("a"), run_of("b"))
    assert len(gates_of(*runs, half=[run_of("a", steps=5), run_of("b", steps=5, gates=(FAILED,))])) == 4
    (found,) = gates_of(*runs, half=[run_of("a", steps=5), run_of("b", steps=6)])[4:]
    assert (found.name, found.reason) == ("same training", "6 steps of b-seed0, 5 of a-seed0")
    (found,) = gates_of(*runs, half=[run_of("a"), run_of("b", data="names")])[4:]
    assert found.name == "same data"


@pytest.mark.parametrize(
    ("matching", "passed", "value", "reason"),
    [
        (Matching(counts={"a": 100.0, "b": 125.0}, limit=0.25), True, 0.25,
         "parameters outside embeddings: b has 125, 25.0% more than a with 100; without any axis over .*(?<!same)$"),
        (Matching(counts={"a": 100.0, "b": 126.0}, limit=0.25), False, 0.26, "parameters outside emb.*: b has 126"),
        (Matching("flops", 1e6, {"a": 1.0e6, "b": 1.5e6}, limit=0.1), False, 0.5,
         r"flops: b has 1.5e\+06, 50.0% more than a with 1e\+06$"),
        (Matching("body", 1e6, {"a": 1.0e6, "b": 1.5e6}, limit=0.1, allowed_apart=True), True, 0.5,
         r"parameters of the body: b has 1.5e\+06, 50.0% more than a with 1e\+06; the comparison was asked for all the "
         "same$"),
    ],
)  # fmt: skip
def test_models_are_matched_within_the_limit_in_what_was_solved_for(matching, passed, value, reason):
    found = only("matched budgets", run_of("a"), run_of("b"), matching=matching)
    assert (found.passed, found.limit, found.value) == (passed, matching.limit, value)
    assert re.match(reason, found.reason), found.reason


def test_bodies_more_than_a_factor_of_two_apart_are_no_match(monkeypatch):
    """An output matrix of its own counts among the parameters outside embeddings."""
    sizes = {"small": 100, "twice": 200, "more": 201}
    monkeypatch.setattr("selfattn.comparison.check.body", sizes.__getitem__)
    small = run_of("a", model="small")
    twice, more = (only("matched budgets", small, run_of("b", model=one)) for one in ("twice", "more"))
    assert (twice.passed, more.passed) == (True, False)
    assert more.reason.endswith("; without any axis over the vocabulary b has 101.0% more than a")
    of_bodies = Matching("body", 100, {"a": 100.0, "b": 100.0})
    found = only("matched budgets", small, run_of("b", model="more"), matching=of_bodies)
    assert (found.passed, "vocabulary" in found.reason) == (True, False)


def test_steps_are_compared_within_a_seed_and_not_with_those_that_diverged_or_stopped_by_one_rule():
    runs = [run_of("a"), run_of("a", 1, steps=20), run_of("b"), run_of("b", 1, steps=20)]
    assert only("same training", *runs).passed
    assert only("same training", run_of("a", steps=3, failed=True), run_of("b"), run_of("c")).passed
    assert not only("same training", run_of("a"), run_of("b", steps=3), run_of("c")).passed
    for rule in ({"patience": 3}, {"target_exact_match": 0.9}):
        found = only("same training", run_of("a", **rule), run_of("b", steps=3, **rule))
        assert found.passed
        assert found.reason == "all runs had the same settings of the training, and stopped by the same rule"


def test_rates_that_were_tuned_may_differ():
    found = only("same training", run_of("a", lr=0.1), run_of("b", lr=0.2), space=("lr=0.1,0.2",))
    assert found.passed
    assert found.reason.endswith("of its seed; tuned: lr")
    smaller = run_of("b", steps=20, tokens=1001, batch_size=4)  # as many pairs in other batches
    sizes = {"space": ("batch_size=4,8",), "read_in_a_step": {"batch_size": 8}}
    assert only("same training", run_of("a", steps=10, tokens=1000, batch_size=8), smaller, **sizes).passed


@pytest.mark.parametrize(
    ("valid", "right", "is_fault"), [(0.4, 0, True), (0.04, 0, False), (0.4, 2, True), (0.4, 3, False)]
)
def test_collapsed_outputs_are_a_fault_where_validation_was_far_better(valid, right, is_fault, monkeypatch):
    reports = [SimpleNamespace(measures={"exact_match": value}) for value in (0.0, valid, 0.01)]
    monkeypatch.setattr(testing, "RunDirectory", lambda _: SimpleNamespace(metrics=lambda: reports))
    targets = [str(number) for number in range(10)]
    run, tests = SimpleNamespace(path=Path()), SimpleNamespace(pairs=targets)
    learned = RunTest(run, Dates(), tests).has_learned(targets[:right] + ["x"] * (10 - right))
    assert learned == is_fault
    *_, gate = output_gates(["x"] * 20, [str(number) for number in range(20)], [True] * 20, learned=learned)
    assert (gate.passed, gate.note) == (False, not is_fault)


def test_a_test_that_is_longer_than_the_validation_shows_no_collapse():
    validation, long = [Pair("a" * length, "b") for length in range(1, 11)], Pair("a" * 50, "b")
    for pairs, expected in (
        ([*validation, long], False),
        ([*validation[:8], long, long], True),
        ([Pair("a", "b" * 50)] * 3, True),
    ):
        tests = gates_module.TestSet(pairs, validation, lambda: [])
        assert RunTest(None, Dates(), tests).is_beyond() == expected


# What is held against the plan


def test_another_machine_is_declared(copy, tmp_path):
    run = RunDirectory(copy / "runs" / "rnn-plain-seed6")
    record = run.record()
    versions, machine = {**record.versions, "torch": "1.0"}, {**record.machine, "threads": 9}
    run.write_record(replace(record, versions=versions, machine=machine, commit="0123456789ab"))
    again, _ = write_comparison(copy, tmp_path / "report")
    assert [text.partition(":")[0] for text in again.plan.machines] == ["commit", "torch", "threads"]
    (gate,) = [gate for gate in again.gates if gate.name == "same machine"]
    assert (gate.passed, gate.note) == (False, True)


def test_the_better_of_two_comparisons_cannot_be_seen_but_a_replay_is(copy, tmp_path, monkeypatch):
    """A second comparison of the same plan in another directory departs from nothing."""
    seal, plans = read_plan(copy).seal, tmp_path / "published.json"
    monkeypatch.setattr(check, "PUBLISHED", plans)
    for created, name in (("2020-01-01T00:00:00+00:00", "dates"), (seal.created, "")):  # before, and this one itself
        plans.write_text(json.dumps({"dates": {"sha256": seal.sha256, "created": created}}))
        again = write_comparison(copy, tmp_path / "report")[0].plan
        assert (again.replays, again.departures) == (name, ())


def test_validation_items_that_are_test_items_are_named():
    pairs = [Pair(str(number), "x") for number in range(100)]
    models = {"transformer": PlannedModel("transformer", PRESETS["transformer"].config)}
    plan = ComparisonPlan(task="dates", command="", quick=True, seeds=1, models=models)
    for validation, named in ((pairs, "100 of 100 test items"), ([Pair("other", "x"), pairs[0]], "")):
        data = (SimpleNamespace(settings={}), SimpleNamespace(pairs=pairs, validation=validation, probes={}))
        task, recipe = SimpleNamespace(decoding={}), Dates().recipe(True)
        trainings = SimpleNamespace(data=lambda seed, data=data: data, recipe=recipe, task=task)
        assert validation_in_test(Seal("", "", encode(decisions(plan, trainings)))) == named


def test_a_changed_plugin_is_a_departure():
    assert changed_plugins({"a/mine.py": "1"}, {"b/mine.py": "1"}) == []
    changed = changed_plugins({"mine.py": "1", "other": "2", "third": "3"}, {"mine": "2", "other": ""})
    assert changed == ["mine.py", "third"]
    run = SimpleNamespace(config=SimpleNamespace(plugins={"mine.py": "2"}))
    assert check.plugins_apart(SimpleNamespace(plugins={}), [run]) == ["mine.py"]


# The baseline that a user states: what others reached on the same data

SOURCE = "Smith 2026, a Transformer: 41.02"


@pytest.mark.parametrize(
    ("text", "source", "language", "expected"),
    [
        (None, None, "de", None),
        ("bleu=38", SOURCE, "de", Baseline("bleu", 38.0, SOURCE)),
        ("bleu_lowercased_tokenised=38.5", f"  {SOURCE}\n", "de", Baseline("bleu_lowercased_tokenised", 38.5, SOURCE)),
        ("exact_match=1", "by\nhand", "ko", Baseline("exact_match", 1.0, "by hand")),
    ],
)
def test_a_baseline_has_a_metric_a_value_and_a_source(text, source, language, expected):
    assert stated_baseline(text, source, language) == expected
    with pytest.raises(UserError, match=r"one of bleu \(at most 100\), chrf"):  # Korean has no such score
        stated_baseline("bleu_lowercased_tokenised=38", SOURCE, "ko")


@pytest.mark.parametrize(
    ("text", "source", "message"),
    [
        ("38", SOURCE, "`baseline` 38: expected metric=value, a value above 0 of one of bleu"),
        ("comet=1", SOURCE, r"chrf \(at most 100\), exact_match \(at most 1\)$"),
        ("ter=50", SOURCE, "expected metric=value"),  # lower is better
        ("bleu=", SOURCE, "expected metric=value"),
        ("bleu=nan", SOURCE, "expected metric=value"),
        ("bleu=101", SOURCE, r"bleu \(at most 100\)"),
        ("bleu=38", None, "`baseline` metric=value and `baseline_source`, who reached it on what, go together"),
        (None, SOURCE, "go together"),
    ],
)
def test_a_baseline_that_cannot_be_meant(text, source, message):
    with pytest.raises(UserError, match=message) as caught:
        stated_baseline(text, source, "de")
    assert "\n" not in str(caught.value)


def test_a_stated_baseline_is_part_of_the_plan_and_of_the_command(tmp_path):
    (tmp_path / "pairs.tsv").write_text("".join(f"a word {k}\tein Wort {k}\n" for k in range(100)))
    settings = {
        "data": (tmp_path / "pairs.tsv",), "target": "de", "vocab_size": 300, "validation_items": 10, "quick": True,
        "apart": True, "test_items": 20, "models": ("rnn-plain",), "baseline_source": SOURCE,
    }  # fmt: skip
    with pytest.raises(UserError, match="expected metric=value"):
        prepare("translation", settings | {"baseline": "38"})
    plan = make_plan(*prepare("translation", settings | {"baseline": "bleu=99"}))
    assert plan.baseline == Baseline("bleu", 99.0, SOURCE)
    assert f"--baseline bleu=99 --baseline-source '{SOURCE}'" in plan.command


@pytest.mark.parametrize(
    ("baseline", "training", "share", "is_checked"),
    [
        ({}, {}, 1, True), ({"examples": 200}, {}, 1, True),
        ({"examples": 201}, {}, 1, False), ({"examples": 101}, {}, 0.5, False),  # two epochs of 100 pairs
        ({"distinct": 101}, {}, 1, False), ({"examples": 61}, {"items_per_epoch": 30}, 1, False),
        ({"examples": 1}, {"max_steps": 1}, 1, False),  # after how many pairs is not known
    ],
)  # fmt: skip
def test_a_published_model_is_a_baseline_for_those_that_were_trained_on_as_many_pairs(
    baseline, training, share, is_checked
):
    config = SimpleNamespace(
        training=TrainingConfig(**{"epochs": 2} | training), data={}, model=SimpleNamespace(architecture="transformer")
    )
    published = {"transformer": Baseline("exact_match", 0.99, SOURCE, **baseline)}
    task = SimpleNamespace(published=lambda data: published, language="en")
    tests = SimpleNamespace(seen=SimpleNamespace(pairs=100), pairs=[Pair("x", "a"), Pair("y", "c")])
    test = RunTest(SimpleNamespace(config=config), task, tests)
    gate = test.published_baseline(["a", "b"], share)
    assert (gate and (gate.passed, gate.value)) == ((False, 0.5) if is_checked else None)
    config.model.architecture = "rnn"  # for which nothing is published
    assert test.published_baseline(["a", "b"], share) is None
