"""Options beside each other: without effect, refused with the reason; or with the effect that they have together."""

import dataclasses
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from small_runs import Cli

from selfattn.cli import decoding as commands
from selfattn.comparison.compare import compare
from selfattn.comparison.options import CompareOptions
from selfattn.errors import UserError
from selfattn.runs.load import load
from selfattn.runs.predictor import export_place
from selfattn.runs.run import Run
from selfattn.runs.train import TrainOptions, train
from selfattn.settings import check_conditions, excludes, needs
from selfattn.tasks.dates import DateOptions
from selfattn.tasks.lm import TextOptions
from selfattn.tasks.translation import TranslationOptions, TranslationTests
from selfattn.training.config import TrainingConfig

KINDS = (TrainOptions, TrainingConfig, CompareOptions, DateOptions, TextOptions, TranslationOptions, TranslationTests)


@pytest.mark.parametrize("kind", KINDS)
def test_conditions_name_options(kind: Any) -> None:
    names = {field.name for field in dataclasses.fields(kind)}
    assert kind.conditions
    for condition in kind.conditions:
        assert names >= set(condition.names)


def test_conditions_of_a_command_name_its_options() -> None:
    assert {name for condition in commands._ALIGN for name in condition.names} <= set(commands.align.__annotations__)


def test_a_condition_holds_or_names_the_option() -> None:
    conditions = [needs("`a`", lambda given: given.a, "b"), excludes("`c`", lambda given: given.c, "d", "e")]
    check_conditions(["b", "e"], SimpleNamespace(a=1, c=0), conditions)
    check_conditions([], SimpleNamespace(a=0, c=1), conditions)
    for name, reason in (("b", "goes with `a`: give that as well"), ("e", "has no effect beside `c`: leave one")):
        with pytest.raises(UserError, match=f"^`{name}` {reason}"):
            check_conditions([name], SimpleNamespace(a=0, c=1), conditions)


WITHOUT_EFFECT: list[tuple[dict[str, Any], str]] = [
    ({"ema_decay": 0.9}, "`ema_decay` goes with `average` ema"),
    ({"average": "last", "ema_decay": 0.9}, "`ema_decay` goes with `average` ema"),
    ({"average_last": 3}, "`average_last` goes with `average` last"),
    ({"epochs": 3, "max_steps": 9}, "`epochs` has no effect beside `max_steps`"),
    ({"warmup": 0.2, "warmup_steps": 9}, "`warmup` has no effect beside `warmup_steps`"),
]


@pytest.mark.parametrize(("settings", "message"), WITHOUT_EFFECT)
def test_settings_of_a_training_without_an_effect(tmp_path: Path, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        train("dates", out=tmp_path / "run", quick=True, **settings)
    with pytest.raises(UserError, match=message):
        compare("dates", out=tmp_path / "out", quick=True, items_per_epoch=800, **settings)
    assert not list(tmp_path.iterdir())


SMALL = ("--items-per-epoch", "32", "--validation-items", "8", "--batch-size", "16")


def test_a_run_is_started_from_with_its_options(cli: Cli, runs: dict[str, Run], tmp_path: Path) -> None:
    start = runs["rnn-plain"].path
    further = ("--config", start, "--init-from", start, "--seed", "5")
    done = cli("train", "dates", *further, "--out", tmp_path / "same")
    assert done.code == 0, done.err
    assert load(tmp_path / "same").config.model == runs["rnn-plain"].config.model
    other = cli("train", "dates", *further, "--model", "transformer", "--out", tmp_path / "other")
    assert other.code == 2
    assert "--model transformer: the model is that of --init-from (rnn-plain); leave it out" in other.err
    size = cli("train", "dates", *further, "--set", "decoder.dropout=0.25", "--out", tmp_path / "size")
    assert size.code == 2
    assert "=0.25: the model is that of --init-from" in size.err


def test_an_average_of_more_validations_than_there_are(cli: Cli, tmp_path: Path) -> None:
    command = ("train", "dates", *SMALL, "--model", "rnn-plain", "--average", "last")
    done = cli(*command, "--epochs", 8, "--average-last", 3, "--out", tmp_path / "refused")
    assert done.code == 2
    assert (
        "--average-last 3: the training has 8 validations, of which at most a quarter are averaged; give 2" in done.err
    )


def test_exports_of_runs_from_the_hub_lie_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert export_place(Path("runs/a"), "onnx") == Path("runs/a-onnx")
    monkeypatch.setattr("huggingface_hub.constants.HF_ASSETS_CACHE", str(tmp_path / "assets"))
    repository = tmp_path / "hub" / "models--somebody--dates"
    (repository / "blobs").mkdir(parents=True)
    (repository / "snapshots" / "0a1b").mkdir(parents=True)
    place = export_place(repository / "snapshots" / "0a1b", "ctranslate2")
    assert place.name == "models--somebody--dates-0a1b-ctranslate2"
    assert repository.parent not in place.parents


def test_what_is_in_the_way_of_an_export(cli: Cli, runs: dict[str, Run]) -> None:
    pytest.importorskip("onnxruntime")
    path = runs["rnn-plain"].path
    place = path.with_name("rnn-plain-onnx")
    place.mkdir()
    (place / "note").write_text("mine")
    done = cli("predict", path, "--engine", "onnx", stdin="1/2/03\n")
    assert (done.code, done.err) == (
        2,
        f"error: {place}: is in the way of the export for onnx, and is none; move it away\n",
    )
    (place / "note").unlink()
    place.rmdir()
