"""A comparison by target: what ends a run, the race of a tuning, the record, and what the report says."""

import multiprocessing
import shutil
import sys
from dataclasses import replace
from itertools import combinations, permutations, product
from pathlib import Path
from types import SimpleNamespace

import cloudpickle
import pytest
from forging import differing, edit
from joblib import _parallel_backends as joblib_backends
from third_party import isolated_registries

from selfattn.comparison import compare as compare_module
from selfattn.comparison import trainings as tuning
from selfattn.comparison.compare import _rehearse, compare, forecast
from selfattn.comparison.plan import ComparisonPlan, PlannedModel, planned_trials, read_plan
from selfattn.comparison.preparation import make_plan, prepare
from selfattn.data.pairs import Pair
from selfattn.errors import SettingError
from selfattn.evaluation.variances import compare_arrivals
from selfattn.experiments.plan import write_plan
from selfattn.models.families import PRESETS
from selfattn.registry import TASKS
from selfattn.report.text import markdown_of
from selfattn.report.verdict import round_count, times_text, verdict
from selfattn.report.write import document
from selfattn.results.quality import ModelArrivals, RatioTest, Target
from selfattn.results.record import read_record
from selfattn.runs.directory import RunDirectory
from selfattn.runs.ledger import LEDGER
from selfattn.runs.task import TaskData

MODELS = ("rnn-attention", "transformer")
PUBLISHED = Path(__file__).parents[2] / "docs/results/reports/dates.json"


class Echo(TaskData):
    """Write the input once more."""

    name = "echo"

    def pair(self, chance):
        text = "".join(chance.choices("abcd", k=chance.randint(2, 4)))
        return Pair(text, text)


UNTIL, ITEMS = 0.15, 13
SETTINGS = {
    "until": UNTIL, "at_most": 400, "seeds": 2, "trials": 2, "space": ("lr=1e-2..5e-2:log",), "jobs": 1, "apart": True,
    "test_items": 10, "models": MODELS, "validate_every": 10, "validation_items": ITEMS, "look_items": 6,
    "match": "none", "warmup_steps": 5, "set": (
        "rnn-attention:encoder.hidden_dim=32", "rnn-attention:decoder.hidden_dim=32", "transformer:encoder.dim=32",
        "transformer:decoder.dim=32",
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A small comparison: two models, two races of two trials each."""
    out = tmp_path_factory.mktemp("target") / "out"
    with isolated_registries():
        TASKS.register("echo")(Echo)
        record, _ = compare("echo", **SETTINGS, out=out, rehearse=False)
        yield out, record


def test_a_run_is_the_best_trial_of_its_tuning_and_is_not_trained_again(finished):
    out, record = finished
    assert not (out / "runs").exists()
    for model in record.models:
        chosen = [trial for trial in model.trials if trial.chosen]
        assert [trial.tuning for trial in chosen] == [0, 1]
        assert tuple(trial.examples for trial in chosen) == record.target.models[model.name].examples
        for trial in model.trials:
            assert trial.examples is None or trial.examples >= chosen[trial.tuning].examples
    ends = {}
    for number in (0, 1):  # a trial that has read more than the best stops
        first, second = (RunDirectory(out / f"tuning/rnn-attention-trial{2 * number + k}") for k in range(2))
        ends[number] = first.record().status, second.record().status
        assert second.metrics()[-1].examples <= first.metrics()[-1].examples
    assert ends == {0: ("target reached", "stopped by an observer"), 1: ("finished", "target reached")}
    assert record.target.models["transformer"].examples == (None, None)


def test_examples_are_counted_and_a_look_is_confirmed_on_all_items(finished):
    out, _ = finished
    for directory in (RunDirectory(path) for path in (out / "tuning").iterdir()):
        batch = directory.config().training.batch_size
        for report in directory.metrics():
            assert report.examples == report.step * batch
            share = report.measures["exact_match"]
            if share >= UNTIL:  # on all 13 items; a look of 6 alone never ends a run
                assert share * ITEMS == pytest.approx(round(share * ITEMS))
        if directory.record().status == "target reached":
            assert directory.metrics()[-1].measures["exact_match"] >= UNTIL


@pytest.mark.usefixtures("no_page")
def test_the_record_is_verified_and_resumed_and_a_forged_arrival_is_caught(finished, tmp_path):
    out, record = finished
    assert differing(out) == []
    for name in ("results.json", "packed.tar.xz"):
        shutil.copy(out / name, tmp_path / name)
    assert differing(tmp_path) == []
    edit(tmp_path / "results.json", lambda values: values["target"]["models"][MODELS[0]].update(examples=[80, 80]))
    assert differing(tmp_path)
    again, _ = compare("echo", **SETTINGS, out=out, resume=True)
    assert again.target == record.target


def test_a_plugin_is_rehearsed_without_the_target(finished, monkeypatch):
    def rehearsed(task, *, rehearse, out, **settings):
        trainings, chosen = prepare(task, settings | {"out": out})
        plan = make_plan(trainings, chosen)
        done.append((rehearse, plan.until, trainings.recipe.max_steps, plan.space, list(plan.models)))

    done = []
    monkeypatch.setattr(compare_module, "compare", rehearsed)
    _rehearse("echo", SETTINGS)
    assert done == [(False, None, 2, (), list(MODELS))]


@pytest.mark.usefixtures("no_page")
def test_the_same_command_gives_the_same_numbers_however_many_go_on_at_once(finished, tmp_path, capsys, monkeypatch):
    """The last trials of two races are lost, and are run again by another process."""
    here, start = sys.modules[__name__], joblib_backends.get_memmapping_executor
    # Of two workers one does all: each takes seconds to begin.
    monkeypatch.setattr(joblib_backends, "get_memmapping_executor", lambda _, **settings: start(1, **settings))
    two = SETTINGS | {"jobs": 2}
    assert "--jobs" not in prepare("echo", two)[0].command  # what comes out does not depend on it
    before, record = finished
    out = shutil.copytree(before, tmp_path / "two")
    plan = read_plan(out)
    write_plan(out, replace(plan, trials={}, tuned=False, command=plan.command.replace(str(before), str(out))))
    (out / LEDGER).write_bytes((out / LEDGER).read_bytes().splitlines(keepends=True)[0])
    for model in MODELS:
        shutil.rmtree(out / "tuning" / f"{model}-trial3")
    cloudpickle.register_pickle_by_value(here)  # this file is no module of a worker
    try:
        again, _ = compare("echo", **two, out=out, resume=True)
    finally:
        cloudpickle.unregister_pickle_by_value(here)
    assert again.target == record.target
    assert capsys.readouterr().err.count("  loss ") == 2  # the last look of each race; all are in the logs
    assert not [child for child in multiprocessing.active_children() if "Loky" in child.name]  # nobody to wait for


@pytest.mark.parametrize("order", list(permutations((4000, 6000, 5000, None))))
def test_pruning_never_changes_the_choice(monkeypatch, order):
    """A race in which beaten trials stop chooses as one in which all go on to the end."""
    plan = ComparisonPlan(
        task="dates", command="", quick=False, seeds=1, until=0.9, tuned=False, tuning_trials=len(order), tunings=1,
        models={"transformer": PlannedModel("transformer", PRESETS["transformer"].config)},
        space=("lr=1e-3..1e-2:log",),
    )  # fmt: skip
    (trials,) = planned_trials(plan).values()
    needs = dict(zip((trial.path for trial in trials), order, strict=True))
    arrived = {}

    def run(races):
        best = float("inf")
        for trial in races[0].trials:
            need = needs[trial.path]
            arrived[trial.path] = need if need is not None and need <= best else None
            best = min(best, arrived[trial.path] or best)

    def directory(path):
        examples = arrived["/".join(path.parts[-2:])]
        report = SimpleNamespace(measures={"exact_match": 0.9 if examples else 0.4}, valid_loss=1.0, examples=examples)
        record = SimpleNamespace(status="target reached" if examples else "finished", train_seconds=1.0)
        return SimpleNamespace(metrics=lambda: [report], record=lambda: record)

    monkeypatch.setattr(tuning, "RunDirectory", directory)
    (chosen,) = [trial for trial in tuning.tune(plan, Path("out"), run).trials["transformer"] if trial.chosen]
    assert chosen.examples == 4000


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"epochs": 3}, "`epochs`: has no effect beside `until`"),
        ({"max_steps": 30}, "`max_steps`: has no effect beside `until`"),
        ({"budgets": (0.5, 1.0)}, "`budgets` has no effect beside `until`"), ({"margin": 5.0}, "`margin`"),
        ({"metric": "character_error_rate"}, "`until`: character_error_rate decides"),
        ({"until": None, "epochs": 1, "at_most": 500}, "`at_most`"),  # which goes with a target
        ({"space": ("warmup=0..0.4",)}, "`space` warmup: has no effect"),
    ],
)  # fmt: skip
def test_what_contradicts_a_target_is_refused_and_a_given_length_is_a_budget(settings, words):
    with pytest.raises(SettingError, match=words):
        make_plan(*prepare("dates", {"until": 0.9, "models": MODELS} | settings))
    trainings, _ = prepare("dates", {"epochs": 1, "items_per_epoch": 800})
    assert (trainings.options.until, trainings.recipe.target_exact_match) == (None, None)


def test_a_quick_comparison_asks_the_same_question_with_fewer_runs():
    quick, full = (prepare("dates", {"quick": is_quick})[0] for is_quick in (True, False))
    for name in ("until", "at_most", "models", "space"):
        assert getattr(quick.options, name) == getattr(full.options, name)
    assert quick.recipe == full.recipe
    assert (quick.options.seeds or 0) < (full.options.seeds or 0)


def test_the_plan_can_be_published_before_training(finished):
    _, record = finished
    lines = "\n".join(forecast("echo", **SETTINGS))
    assert f"SHA-256 {record.seal.sha256};" in lines
    assert "show a factor of 2 " in lines


def described(record, runs, *tests):
    """The record with the examples that these runs needed; the median, the fewest and the most."""

    def arrivals(examples):
        ranks = sorted(24_001 if one is None else one for one in examples)
        ends = (ranks[len(ranks) // 2], ranks[0], ranks[-1])
        return ModelArrivals(examples, *(None if value > 24_000 else value for value in ends))

    models = {name: arrivals(examples) for name, examples in runs.items()}
    return replace(record, gates=(), target=Target(0.9, 24_000, 200, 100, 1000, models, tests))


def first_screen(record):
    text = markdown_of(document(record), "en").replace("\u00a0", " ").replace("\\", "")
    return " ".join(text.partition("\n## ")[0].split())


def ratio(value, bound, p, word, low, high):
    return RatioTest("transformer", "rnn-attention", value, bound, p, p, word, low, high)


@pytest.mark.parametrize(
    ("test", "words"),
    [
        (ratio(2.96, "", 0.01, "worse", 2.6, 3.41), "3.0 [2.6, 3.4] times as many"),
        (ratio(1.1, "", 0.3, "not told apart", 0.9, 1.4), "1.1 [0.90, 1.4] times as many (which may be chance)"),
        (ratio(4.5, "more", 0.01, "worse", 4.2, None), "more than 4.5 [> 4.2]"),
        (ratio(4.5, "more", 0.1, "not told apart", 0.9, None), "> 4.5 [> 0.90] times as many (which may be chance)"),
    ],
)
def test_the_answer_says_what_the_numbers_carry(finished, test, words):
    runs = {"rnn-attention": (5200,) * 5, "transformer": (None,) * 5 if test.bound else (15_600,) * 5}
    text = first_screen(described(finished[1], runs, test))
    assert words in text
    assert "Until 90 % of unseen items are right" in text
    for forbidden in ("stuck", "where it trains", "mean run"):
        assert forbidden not in text
    some = {"rnn-attention": (5200, 5600, None, None, None), "transformer": (None,) * 5}
    shown = described(finished[1], some, ratio(1.0, "unknown", 1.0, "not told apart", 0.3, None))
    assert "in more than half of its runs" in first_screen(shown)


def test_numbers_have_three_digits_ratios_two():
    assert (round_count(5280), round_count(15_733)) == (5280, 15_700)
    assert times_text(RatioTest("a", "b", 1.62, "", 0.01, 0.01, "worse", 1.38, 1.91)) == "1.6 [1.4,\u00a01.9]"


def test_a_quick_answer_cannot_contradict_the_full_one():
    """Any three of the published first trials of each model: a rough answer, with the order of the full one."""
    record = read_record(PUBLISHED)
    firsts = {model.name: [trial.examples for trial in model.trials][::2] for model in record.models}
    assert not any(None in examples for examples in firsts.values())  # a first trial is never beaten
    medians = {name: arrivals.median for name, arrivals in record.target.models.items()}
    first, second = "transformer", "rnn-attention"
    for mine, theirs in product(combinations(firsts[first], 3), combinations(firsts[second], 3)):
        (test,) = compare_arrivals({first: mine, second: theirs}, record.target.cap, (first, second))
        assert test.word == "not told apart"  # three runs decide nothing
        assert (test.ratio > 1) == (medians[first] > medians[second])
        models = tuple(model for model in record.models if model.name in (first, second))
        quick = described(replace(record, models=models), {first: mine, second: theirs}, test)
        lead = verdict(quick).lead.say("en")
        assert lead.startswith("A rough answer. Until 90 % of unseen dates are right, the RNN with attention needs")
