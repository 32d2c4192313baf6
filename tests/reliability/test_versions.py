"""Every released form of the files is kept and loads for ever; what a newer version wrote is refused in a line."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from selfattn.claims.record import read_record as read_claims
from selfattn.comparison import testing
from selfattn.comparison.again import report
from selfattn.comparison.planning.plan import read_plan
from selfattn.errors import UserError
from selfattn.results.reading import read_record
from selfattn.runs.directory import CHECKPOINT, RunDirectory
from selfattn.runs.run import load
from selfattn.tokenizers.load import load_tokenizer
from selfattn.training.checkpoints.checkpoint import CheckpointFile

FORMATS = Path(__file__).parents[1] / "fixtures" / "formats"
COMPARISONS = ("comparison-1", "comparison-2")  # of before files had checksums; with them
RUN = "runs/plain-seed0"


@pytest.mark.parametrize("name", COMPARISONS)
def test_a_comparison_is_read_and_reported_again(tmp_path: Path, name: str) -> None:
    kept = read_record(FORMATS / name / "results.json")
    again, files = report([FORMATS / name], tmp_path / "report")
    assert [model.name for model in again.models] == ["plain", "attention"]
    for old, new in zip(kept.models, again.models, strict=True):  # not intervals, whose statistics get better
        assert {name: new.metrics[name].mean for name in old.metrics} == {
            name: one.mean for name, one in old.metrics.items()
        }
        assert (new.parameters, new.curves) == (old.parameters, old.curves)
    assert [(one.first, one.second, one.difference) for one in again.pairs] == [
        (one.first, one.second, one.difference) for one in kept.pairs
    ]
    assert files.html.stat().st_size > 100_000


@pytest.mark.parametrize("model", ["plain", "attention"])
@pytest.mark.parametrize("name", COMPARISONS)
def test_a_run_answers_as_it_did(name: str, model: str) -> None:
    tested = testing.Tested(FORMATS / name / "runs" / f"{model}-seed0", model)
    assert load(tested.path).predict([pair.source for pair in tested.pairs]) == tested.outputs
    assert tested.metrics[-1].epoch == 1


def test_a_checkpoint_is_read() -> None:
    file = CheckpointFile(FORMATS / "comparison-2" / RUN / CHECKPOINT)
    assert file.parse(file.read() or b"").progress.step == 1


def newer_json(path: Path, key: str = "schema") -> None:
    """Make a file what a later version may write: another number, and fields that nobody knows here."""
    values = json.loads(path.read_text())
    values.pop("checksum", None)
    path.write_text(json.dumps(values | {key: 9, "colour": "red"}))


def newer_vocabulary(path: Path) -> None:
    newer_json(path, "version")


def newer_checkpoint(path: Path) -> None:
    with safe_open(path, "pt") as file:
        values = json.loads(file.metadata()["selfattn"])
    save_file(load_file(path), path, {"selfattn": json.dumps(values | {"version": 9, "colour": "red"})})


def read_checkpoint(path: Path) -> object:
    file = CheckpointFile(path)
    return file.parse(file.read() or b"")


@pytest.mark.parametrize(
    ("name", "make_newer", "read", "said"),
    [
        ("results.json", newer_json, read_record, "schema 9, this version reads 2"),
        ("comparison.json", newer_json, lambda path: read_plan(path.parent), "schema 9, this version reads 1"),
        (f"{RUN}/test.json", newer_json, lambda path: testing.Tested(path.parent), "schema 9, this version reads 2"),
        (f"{RUN}/config.json", newer_json, lambda path: RunDirectory(path.parent).config(), "schema 9, this version"),
        (f"{RUN}/tokenizer/char.json", newer_vocabulary, lambda path: load_tokenizer(path.parent), "version 9, this"),
        ("../tokenizer-subword/subword.json", newer_vocabulary, lambda path: load_tokenizer(path.parent), "version 9"),
        ("../claims.json", newer_json, read_claims, "schema 9, this version reads 1"),
        (f"{RUN}/{CHECKPOINT}", newer_checkpoint, read_checkpoint, "version 9, this version reads 1"),
    ],
)
def test_what_a_newer_version_wrote_is_refused(
    tmp_path: Path, name: str, make_newer: Callable[[Path], None], read: Callable[[Path], Any], said: str
) -> None:
    shutil.copytree(FORMATS, tmp_path / "formats")
    (tmp_path / "formats" / "claims.json").write_text("{}")
    path = (tmp_path / "formats" / "comparison-2" / name).resolve()
    make_newer(path)
    with pytest.raises(UserError) as caught:
        read(path)
    assert str(caught.value).startswith(f"{path}: {said}")
    assert str(caught.value).endswith(": a newer selfattn wrote it; update selfattn")
