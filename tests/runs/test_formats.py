"""Files of version 0.1.0 load, answer and resume; what a newer version wrote is refused in one line."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from selfattn import load
from selfattn.cli.options import read_config
from selfattn.errors import UserError
from selfattn.runs.directory import CHECKPOINT, RunDirectory
from selfattn.runs.evaluate import evaluate_run
from selfattn.runs.train import train
from selfattn.tokenizers.load import load_tokenizer
from selfattn.training.checkpoint import CheckpointFile

FORMATS = Path(__file__).parents[1] / "fixtures/formats"
SIZES = ("encoder.dim=8", "decoder.dim=8", "encoder.ffn_dim=16", "decoder.ffn_dim=16", "encoder.dropout=0.2")
TRAINING = {"items_per_epoch": 200, "epochs": 3, "validation_items": 20, "batch_size": 32, "validate_every": 5}


def test_a_run_on_dates_loads_and_answers() -> None:
    run = load(FORMATS / "run-dates", device="cpu")
    assert (run.config.preset, run.config.training.average, run.config.plugins) == ("transformer", "ema", {})
    assert {parameter.device.type for parameter in run.model.parameters()} == {"cpu"}
    assert len(run.predict(["November 13, 2008", "11/13/08"])) == 2
    record = RunDirectory(FORMATS / "run-dates").record()
    assert (record.status, record.parameters, record.machine["cores"], record.resumed) == ("interrupted", 3086, 2, ())


def test_a_language_model_loads_and_continues() -> None:
    run = load(FORMATS / "run-lm")
    assert run.predict(["line 1"])[0].startswith("line 1")
    assert RunDirectory(run.path).record().commit is None


def test_an_interrupted_run_resumes_from_its_checkpoint(tmp_path: Path) -> None:
    out = Path(shutil.copytree(FORMATS / "run-dates", tmp_path / "run"))
    settings: dict[str, Any] = {"device": "cpu", "average": "ema", "set": SIZES, "resume": True}
    train("dates", model="transformer", out=out, **settings, **TRAINING)
    directory = RunDirectory(out)
    assert directory.record().status == "finished"
    reports = directory.metrics()
    assert [report.step for report in reports] == [5, 10, 15, 20, 21]
    assert [report.valid_loss for report in reports[2:]] == pytest.approx([3.6385, 3.5926, 3.5892], abs=2e-3)


def newer_json(path: Path, key: str = "schema") -> None:
    """Make a file what a later version may write: another number, and an unknown field."""
    values = json.loads(path.read_text())
    values.pop("checksum", None)
    path.write_text(json.dumps(values | {key: 9, "colour": "red"}))


def newer_vocabulary(path: Path) -> None:
    newer_json(path, "version")


def newer_checkpoint(path: Path) -> None:
    with safe_open(path, "pt") as file:
        metadata = file.metadata()
    values = json.dumps(json.loads(metadata["selfattn"]) | {"version": 9, "colour": "red"})
    tensors = load_file(path)
    from selfattn.training.checkpoint import digest_of

    save_file(tensors, path, {"selfattn": values, "selfattn.sha256": digest_of(values, tensors)})


def read_checkpoint(path: Path) -> object:
    file = CheckpointFile(path)
    return file.parse(file.read() or b"")


@pytest.mark.parametrize(
    ("name", "make_newer", "read", "message"),
    [
        ("run-dates/config.json", newer_json, lambda path: RunDirectory(path.parent).config(), "schema 9, this"),
        ("tokenizer-char/char.json", newer_vocabulary, lambda path: load_tokenizer(path.parent), "version 9, this"),
        ("tokenizer-subword/subword.json", newer_vocabulary, lambda path: load_tokenizer(path.parent), "version 9"),
        (f"run-dates/{CHECKPOINT}", newer_checkpoint, read_checkpoint, "version 9, this version reads 1"),
    ],
)
def test_what_a_newer_version_wrote_is_refused(
    tmp_path: Path, name: str, make_newer: Callable[[Path], None], read: Callable[[Path], Any], message: str
) -> None:
    path = Path(shutil.copytree(FORMATS, tmp_path / "formats")) / name
    make_newer(path)
    with pytest.raises(UserError) as caught:
        read(path)
    assert str(caught.value).startswith(f"{path}: {message}")
    assert str(caught.value).endswith(": a newer selfattn wrote it; update selfattn")


@pytest.fixture
def old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with runs of version 0.1.0 on files, and these files."""
    folder = Path(shutil.copytree(FORMATS, tmp_path / "formats"))
    monkeypatch.chdir(folder / "data")
    return folder


OLD_CORPUS: dict[str, Any] = {
    "source": "en",
    "target": "de",
    "data": "train.tsv",
    "valid": "valid.tsv",
    "test": ("iid=iid.tsv", "gen=gen.tsv"),
    "keep_duplicates": True,
    "max_ratio": 4.0,
    "tokenizer": "characters",
    "max_steps": 4,
    "validate_every": 2,
}
OLD_FILES: dict[str, Any] = {"data": "days.tsv", "columns": ("2", "3"), "max_steps": 2}
SMALL: dict[str, Any] = {
    "model": "rnn-plain",
    "batch_size": 8,
    "validation_items": 5,
    "set": ("encoder.hidden_dim=4", "decoder.hidden_dim=4"),
}


def test_runs_on_files_are_tested_on_their_own_test_part(old: Path) -> None:
    corpus = evaluate_run(load(old / "run-corpus"))
    assert (corpus["items"], corpus["data"], corpus["cut_off"]) == (6, "iid.tsv, test part", 6)
    assert corpus["metrics"]["character_error_rate"] == pytest.approx(2.25)
    with pytest.raises(UserError, match=r"days.tsv: no such file"):  # where it was trained on
        evaluate_run(load(old / "run-files"))
    dates = evaluate_run(load(old / "run-files"), Path("days.tsv"))  # the same content
    assert (dates["items"], dates["unseen"]["items"]) == (12, 12)
    with pytest.raises(UserError, match=r"`columns` 1,2: the run was trained on this file with 2,3"):
        evaluate_run(load(old / "run-files"), Path("days.tsv"), columns=("1", "2"))


@pytest.mark.parametrize(
    ("name", "task", "settings", "change", "reason"),
    [
        ("run-corpus", "translation", OLD_CORPUS, {}, ""),
        ("run-corpus", "translation", OLD_CORPUS, {"max_ratio": 5.0}, "begun with `max_ratio` = 4.0"),
        ("run-files", "dates", OLD_FILES, {}, ""),
        ("run-files", "dates", OLD_FILES, {"data": "train.tsv", "columns": ("1", "2")}, "begun with "),
    ],
)
def test_runs_on_files_resume_with_the_same_settings_alone(
    old: Path, name: str, task: str, settings: dict[str, Any], change: dict[str, Any], reason: str
) -> None:
    again = settings | SMALL | change
    if reason:
        with pytest.raises(UserError, match=reason):
            train(task, out=old / name, resume=True, **again)
    else:
        assert train(task, out=old / name, resume=True, **again).config == load(old / name).config


def test_an_old_run_has_no_options_for_another_training(old: Path) -> None:
    with pytest.raises(UserError, match=r"kept no options; its command was: selfattn train dates --model rnn-plain"):
        read_config(old / "run-files", ["train", "dates"])
