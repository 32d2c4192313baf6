"""Comparisons on several tasks have one verdict over all; a recipe that lists data sets makes them one by one."""

import json
import random
from dataclasses import replace
from functools import cache
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

from selfattn.codec import write
from selfattn.comparison.plan import planned_trials
from selfattn.comparison.preparation import make_plan, prepare
from selfattn.comparison.together import compare_each, over_tasks, own_settings, read_together, remarks, together_lines
from selfattn.errors import UserError
from selfattn.evaluation.significance import RunScores, mean_difference, score_runs
from selfattn.results.plan import Departure, PlanCheck, Seal
from selfattn.results.record import Attention, Gate, read_record

PUBLISHED = Path(__file__).parents[2] / "docs/results/reports/phrases.json"


@cache
def published():
    return read_record(PUBLISHED)


@pytest.fixture(autouse=True)
def _few_draws(monkeypatch):
    monkeypatch.setattr("selfattn.evaluation.significance.RESAMPLES", 100)


def task_record(number, shares):
    """The record of two models on a task, of which nothing but scores and tests is looked at."""
    record = published()
    names = [model.name for model in record.models[:2]]
    chance = np.random.default_rng(number)
    scores = {name: (chance.random((3, 200)) < share) * 1.0 for name, share in zip(names, shares, strict=True)}
    metric = record.headline.metric
    compared = RunScores.comparison(replace(score_runs(scores), metric=metric))
    models = [replace(model, metrics={metric: compared.estimates[model.name]}) for model in record.models[:2]]
    bare = replace(record, gates=(), attention=Attention(), buckets=(), differences=(), budgets=None, plan=None)
    return replace(bare, models=tuple(models), pairs=compared.pairs, outputs_sha256=f"{number:064x}")


SHARES = {"kor": (0.7, 0.6), "jpn": (0.9, 0.85), "fre": (0.8, 0.6), "hun": (0.95, 0.9)}


@cache
def records():
    """The record of each task; do not change what it returns."""
    return {name: task_record(number, shares) for number, (name, shares) in enumerate(SHARES.items())}


def test_a_verdict_is_over_tasks():
    (verdict,) = over_tasks(records())
    differences = [row.difference for row in verdict.rows]
    assert verdict.difference.mean == pytest.approx(np.mean(differences))
    half = 3.182 * np.std(differences, ddof=1) / 2  # Student's t with 3 degrees of freedom, 4 tasks
    assert verdict.difference.mean - verdict.difference.low == pytest.approx(half, rel=1e-3)
    assert verdict.improvement.mean > 0.9
    assert verdict.middle_first.mean > verdict.middle_second.mean
    for lang, unit, mean in (("en", "points", "mean over tasks"), ("ko", "%p", "과제 평균")):
        head, _, *rows = [line.split(" | ") for line in together_lines(verdict, lang) if line.startswith("| ")]
        assert head[3].endswith(f", {unit}")
        assert [("%" in row[1], "%" in row[3]) for row in rows[:-1]] == [(True, False)] * 5
        assert [row[0] for row in rows[:4]] == [f"| {name}" for name in SHARES]
        assert any(mean in line for line in together_lines(verdict, lang))


def test_only_comparisons_that_belong_together_are_put_together(cli, tmp_path):
    places = {name: tmp_path / f"{name}.json" for name in SHARES}
    for name, record in records().items():
        write(places[name], record)
    other = tmp_path / "other.json"
    write(other, replace(records()["kor"], models=records()["kor"].models[:1], pairs=()))
    (verdict,) = over_tasks(read_together(places))
    assert verdict.metric == "exact_match"
    done = cli("compare", "together", *(f"{name}={path}" for name, path in places.items()), "--json")
    assert json.loads(done.out)["verdicts"][0]["p"] == pytest.approx(verdict.p)
    two = [np.array([0.5, 0.5])] * 2
    for refused, problem in (
        (lambda: mean_difference(two, two), "2 tasks: a verdict over tasks needs 3 or more"),
        (lambda: read_together({"kor": places["jpn"], "again": places["jpn"]}), "jpn.json: is the comparison of kor a"),
        (lambda: read_together(places | {"other": other}), "other models than"),
        (lambda: compare_each("translation", {"kor": {}, "jpn": {}}, Path("nowhere")), "2 data sets: a verdict over t"),
    ):
        with pytest.raises(UserError, match=problem):
            refused()
    for words, problem in (
        ((places["kor"],), "give each comparison as NAME=DIRECTORY"),
        (("kor=x", "--recipe", other), "--recipe trains its own"),
        (("kor=x", "--out", "y"), "--out goes with --recipe"),
    ):
        assert problem in cli("compare", "together", *words).refusal()


def test_what_speaks_against_a_comparison_stands_below_the_verdict():
    kor, jpn, fre, hun = records().values()
    sealed = PlanCheck(Seal("0" * 64, "2026-01-01T00:00:00+00:00"))
    departed = replace(sealed, departures=(Departure("again", ("a-seed0",)),))
    failed = Gate("overlap", passed=False, reason="3 test items are training items")
    pilot, gated = replace(jpn, plan=replace(sealed, pilot=True)), replace(hun, plan=sealed, gates=(failed,))
    fre, fin = replace(fre, plan=departed), replace(hun, plan=sealed)
    lines = list(remarks({"kor": kor, "jpn": pilot, "fre": fre, "hun": gated, "fin": fin}))
    assert [line.partition(":")[0] for line in lines[:-1]] == ["- kor", "- jpn", "- fre", "- hun"]
    for line, reason in zip(lines, ("no plan", "a pilot", "a-seed0", "3 test items", "nothing seals"), strict=True):
        assert reason in line


# A recipe: one comparison after the other, resumed where it stopped

NAMES = ("kor", "jpn", "fre")
COMMON = """
task = "translation"
source = "und"
target = "und"
tokenizer = "characters"
models = ["rnn-plain", "rnn-attention"]
set = ["encoder.hidden_dim=8", "decoder.hidden_dim=8"]
seeds = 2
tune = false
max-steps = 2
batch-size = 8
beam = 1
jobs = 1
metric = "exact_match"
"""


@pytest.fixture
def recipe(tmp_path):
    lines = [COMMON]
    for number, name in enumerate(NAMES):
        chance = random.Random(number)
        for part, rows in (("train", 40), ("valid", 8), ("test", 8)):
            texts = ["".join(chance.choices("abcd", k=5)) + f"{part[0]}{row}" for row in range(rows)]
            (tmp_path / f"{name}_{part}.tsv").write_text("\n".join(f"{text}\t{text[::-1]}" for text in texts))
        files = {"data": "train", "valid": "valid", "test": "test"}
        lines.append(f"[tasks.{name}]")
        lines += [f"{option} = {json.dumps(str(tmp_path / f'{name}_{part}.tsv'))}" for option, part in files.items()]
    path = tmp_path / "recipe.toml"
    path.write_text("\n".join(lines))
    return path


@pytest.mark.slow
def test_a_recipe_trains_a_comparison_for_each_data_set_and_resumes(cli, recipe, tmp_path):
    out = tmp_path / "out"
    text = recipe.read_text()
    # The last data set cannot be read: nothing is trained before that is known.
    recipe.write_text(text.replace("fre_train", "nothing"))
    assert "nothing.tsv" in cli("compare", "together", "--recipe", recipe, "--out", out).refusal()
    assert not out.exists()
    recipe.write_text(text)
    done = cli("compare", "together", "--recipe", recipe, "--out", out)
    rows = [line.split(" | ")[0] for line in done.out.splitlines() if line.startswith("| ")]
    assert rows[2:5] == [f"| {name}" for name in NAMES]
    assert all((out / name / "report.html").is_file() for name in NAMES)
    command = json.loads((out / "jpn/plan.json").read_text())["command"]
    assert "jpn_train.tsv" in command
    assert "--max-steps 2" in command
    # A run that is missing is trained again, and no other.
    lost = out / "fre/runs/rnn-plain-seed1"
    kept = (out / "kor/runs/rnn-plain-seed1/test.jsonl").stat().st_mtime_ns
    for path in sorted(lost.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    assert "out: holds something already" in cli("compare", "together", "--recipe", recipe, "--out", out).refusal()
    again = cli("compare", "together", "--recipe", recipe, "--out", out, "--resume")
    remark = "- fre: Not as planned: trained or tested again (rnn-plain-seed1).\n"
    assert remark in again.out
    assert again.out.replace(remark, "") == done.out
    assert (out / "kor/runs/rnn-plain-seed1/test.jsonl").stat().st_mtime_ns == kept


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ('task = "translation"', "", 'lacks the task that models are compared on; write task = "translation"'),
        ('task = "translation"', 'task = "translatoin"', "task 'translatoin' is not known; did you mean translation?"),
        ("[tasks.kor]", "[tasks]\nx = 1\n[tasks.kor]", "expected a table [tasks.NAME] for each data set"),
        ("[tasks.kor]", "[tasks.kor]\nepoch = 3", "epoch"),
        ("[tasks.kor]", "[tasks.kor]\nspace = [[1]]", "tasks.kor: space: expected a text, a number"),
        ("[tasks.kor]", "[tasks.kor]\nout = 'x'", "kor: --out is not for one of several data sets; leave it out there"),
        ("[tasks.kor]", "[tasks.kor]\nplan-only = true", "kor: --plan-only is not for one of several data sets"),
        ("[tasks.jpn]", "[tasks.jpn]\nmodels = ['rnn-plain']", "jpn: one model has no differences; compare two"),
        ("[tasks.jpn]", "[tasks.jpn]\nmodels = 'rnn-plain,rnn-peeky'", "compares rnn-plain, rnn-peeky, other models"),
        ("[tasks.jpn]", "[tasks.jpn]\nmetric = 'chrf'", "jpn: is decided by chrf, kor by exact_match"),
        ("[tasks.jpn]", "[tasks.jpn]\nlr = -1", "tasks.jpn: --lr: expected a number"),
        ("jpn_train", "nothing", "jpn: "),
    ],
)  # fmt: skip
def test_what_a_recipe_gets_wrong_is_said_before_anything_is_trained(cli, recipe, tmp_path, old, new, reason):
    text = recipe.read_text()
    assert old in text
    recipe.write_text(text.replace(old, new))
    assert reason in cli("compare", "together", "--recipe", recipe, "--out", tmp_path / "out").refusal()
    assert not (tmp_path / "out").exists()


def test_options_of_the_command_line_replace_those_of_every_data_set(cli, recipe, tmp_path, monkeypatch):
    compare_none = Mock(side_effect=UserError("nothing is trained here"))
    monkeypatch.setattr("selfattn.comparison.together.compare_each", compare_none)
    out = tmp_path / "out"
    done = cli("compare", "together", "--recipe", recipe, "--out", out, "--epochs", 3, "--batch-size", 4)
    passed = compare_none.call_args.args[1].values()
    assert {(values["epochs"], values["batch_size"], "max_steps" in values) for values in passed} == {(3, 4, False)}
    for name in NAMES:
        assert f"{recipe}: tasks.{name}: max-steps is left out: it has no effect beside --epochs" in done.err
    for words, problem in (
        (("--recipe", recipe, "--epoch", 3), "Unknown option: --epoch. Did you mean --epochs?"),
        (("--recipe", recipe, "--lr", -1), "error: --lr: expected a number"),
        (("kor=x", "--epochs", 3), "Unknown option: --epochs"),
    ):
        assert problem in cli("compare", "together", *words).refusal()
    compare_none.side_effect = KeyboardInterrupt
    out.mkdir()
    stopped = cli("compare", "together", "--recipe", recipe, "--out", out)
    assert stopped.code == 130
    assert f"stopped; {out} keeps the finished runs: repeat the command with --resume" in stopped.err


def test_each_data_set_is_tuned_with_settings_of_its_own():
    def plan(**settings):
        usual = {"models": ("rnn-attention",), "epochs": 1, "items_per_epoch": 64}
        return make_plan(*prepare("dates", usual | settings))

    first, second = (plan(**own_settings(name, plan())) for name in ("kor", "jpn"))
    assert first.tuning_seed != second.tuning_seed
    points = [[trial.point for trials in planned_trials(each).values() for trial in trials] for each in (first, second)]
    assert not any(point in points[1] for point in points[0])
    assert own_settings("kor", plan(tune=False)) == {}
