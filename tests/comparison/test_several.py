"""A recipe that lists data sets: one comparison after the other, resumed where it stopped, then one verdict."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from small_runs import Cli

from selfattn.comparison.compare import compare_each, make_plan, own_settings
from selfattn.comparison.plan import ComparisonPlan, planned_trials
from selfattn.comparison.preparation import prepare
from selfattn.errors import SettingError, UserError

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
def recipe(tmp_path: Path) -> Path:
    """A recipe of three tiny data sets."""
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
def test_a_recipe_trains_a_comparison_for_each_data_set_and_resumes(cli: Cli, recipe: Path, tmp_path: Path) -> None:
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
    ],
)  # fmt: skip
def test_what_a_recipe_gets_wrong_is_said_before_anything_is_trained(
    cli: Cli, recipe: Path, tmp_path: Path, old: str, new: str, reason: str
) -> None:
    text = recipe.read_text()
    assert old in text
    recipe.write_text(text.replace(old, new))
    assert reason in cli("compare", "together", "--recipe", recipe, "--out", tmp_path / "out").refusal()
    assert not (tmp_path / "out").exists()


def test_a_recipe_and_finished_comparisons_exclude_each_other(cli: Cli, recipe: Path) -> None:
    assert "--recipe trains its own" in cli("compare", "together", "kor=x", "--recipe", recipe).refusal()
    assert "--out goes with --recipe" in cli("compare", "together", "kor=x", "--out", "y").refusal()
    with pytest.raises(SettingError, match="2 data sets: a verdict over tasks needs 3 or more"):
        compare_each("translation", {"kor": {}, "jpn": {}}, Path("nowhere"))


def test_options_of_the_command_line_replace_those_of_every_data_set(
    cli: Cli, recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed: dict[str, dict[str, Any]] = {}

    def compare_none(task: str, settings: dict[str, dict[str, Any]], out: Path, **_: object) -> None:
        passed.update(settings)
        raise UserError("nothing is trained here")

    monkeypatch.setattr("selfattn.comparison.compare.compare_each", compare_none)
    done = cli("compare", "together", "--recipe", recipe, "--out", tmp_path / "out", "--epochs", 3, "--batch-size", 4)
    assert {values["epochs"] for values in passed.values()} == {3}
    assert {values["batch_size"] for values in passed.values()} == {4}
    assert not any("max_steps" in values for values in passed.values())
    for name in NAMES:
        assert f"{recipe}: tasks.{name}: max-steps is left out: it has no effect beside --epochs" in done.err
    wrong = cli("compare", "together", "--recipe", recipe, "--epoch", 3).refusal()
    assert "Unknown option: --epoch. Did you mean --epochs?" in wrong
    typed = cli("compare", "together", "--recipe", recipe, "--lr", -1).refusal()
    assert typed.startswith("error: --lr: expected a number")
    assert "Unknown option: --epochs" in cli("compare", "together", "kor=x", "--epochs", 3).refusal()


def test_a_recipe_that_is_stopped_says_how_to_continue(
    cli: Cli, recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(task: str, settings: dict[str, Any], out: Path, **_: object) -> None:
        out.mkdir()
        raise KeyboardInterrupt

    monkeypatch.setattr("selfattn.comparison.compare.compare_each", interrupted)
    done = cli("compare", "together", "--recipe", recipe, "--out", tmp_path / "out")
    assert done.code == 130
    assert f"stopped; {tmp_path / 'out'} keeps the finished runs: repeat the command with --resume" in done.err


def test_an_error_names_the_table_of_the_data_set(cli: Cli, recipe: Path, tmp_path: Path) -> None:
    text = recipe.read_text()
    recipe.write_text(text.replace("[tasks.jpn]", "[tasks.jpn]\nlr = -1"))
    assert "tasks.jpn: --lr: expected a number" in cli("compare", "together", "--recipe", recipe).refusal()
    recipe.write_text(text.replace("jpn_train", "nothing"))
    assert "jpn: " in cli("compare", "together", "--recipe", recipe, "--out", tmp_path / "out").refusal()


def test_each_data_set_is_tuned_with_settings_of_its_own() -> None:
    def plan(**settings: Any) -> ComparisonPlan:
        return make_plan(
            *prepare("dates", {"models": ("rnn-attention",), "epochs": 1, "items_per_epoch": 64} | settings)
        )

    first, second = (plan(**own_settings(name, plan())) for name in ("kor", "jpn"))
    assert first.tuning_seed != second.tuning_seed
    points = [[trial.point for trials in planned_trials(each).values() for trial in trials] for each in (first, second)]
    assert not any(point in points[1] for point in points[0])
    assert own_settings("kor", plan(tune=False)) == {}
