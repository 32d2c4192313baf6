"""A report is computed again from its weights, or from the archive of its outputs; and what cheats can be seen."""

import json
import lzma
import shutil
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from forging import differing, edit

from selfattn.codec import encode
from selfattn.comparison import check as sealing
from selfattn.comparison import report as packed
from selfattn.comparison.packed import CARRIED, record_of
from selfattn.comparison.report import PACKED, unpacked
from selfattn.comparison.verify import verify
from selfattn.report.write import RESULTS
from selfattn.results.record import read_record

Cli = Callable[..., Any]
REPORTS = Path(__file__).parents[2] / "docs" / "results" / "reports"


def published(copy: Path, out: Path) -> Path:
    """A report with its archive, without the runs."""
    out.mkdir()
    for name in (RESULTS, PACKED):
        shutil.copy(copy / name, out)
    return out


def test_a_comparison_is_decoded_again_and_every_figure_agrees(finished: Path, cli: Cli) -> None:
    done = cli("verify", finished)
    assert done.code == 0, done.out
    lines = done.out.splitlines()
    assert "agrees   outputs of rnn-attention-seed6-budget0.25" in lines
    assert "agrees   models.rnn-plain.metrics.exact_match" in lines
    assert "agrees   budgets.cells.0.25" in lines
    assert lines[-1].endswith("all agree")


def test_a_published_report_is_scored_again_from_its_archive(finished: Path, tmp_path: Path, cli: Cli) -> None:
    out = published(finished, tmp_path / "report")
    assert differing(out) == []
    names = {finding.name for finding in verify(out)}
    assert "pairs.rnn-plain rnn-attention exact_match" in names
    assert {f"models.rnn-plain.{name}" for name in ("curves", "cost")} <= names
    for name in (RESULTS, PACKED):
        (out / name).rename(out / name.replace("results", "dates").replace("packed", "dates-packed"))
    assert differing(out / "dates.json") == []
    values = json.loads((out / "dates.json").read_text())
    values["models"][0]["metrics"]["character_error_rate"]["runs"][1] += 0.01
    values["budgets"]["cells"][0]["difference"]["high"] += 0.01
    values["pairs"][0]["p"] = 0.04
    (out / "dates.json").write_text(json.dumps(values))
    assert sorted(differing(out / "dates.json")) == [
        "budgets.cells.0.25",
        "models.rnn-plain.metrics.character_error_rate",
        "pairs.rnn-plain rnn-attention exact_match",
    ]
    done = cli("verify", out / "dates.json")
    assert (done.code, done.out.splitlines()[-1].endswith("not equal: 3 figures")) == (1, True)


def test_what_cannot_be_verified_is_bad_input(finished: Path, tmp_path: Path, cli: Cli, monkeypatch: Any) -> None:
    out = published(finished, tmp_path / "report")
    content = lzma.decompress((out / PACKED).read_bytes())
    (out / PACKED).write_bytes(lzma.compress(content + bytes(512)))
    assert differing(out) == [PACKED]
    for data, words in (
        (b"\xfd7zXZ", "is not packed by selfattn"),
        ((out / PACKED).read_bytes()[:-400], "is not packed by selfattn"),
        (lzma.compress(b"[]"), "is not packed by selfattn"),
        (None, "no such file"),
    ):
        (out / PACKED).write_bytes(data) if data is not None else (out / PACKED).unlink()
        done = cli("verify", out)
        assert (done.code, words in done.err, done.err.count("\n")) == (2, True, 1), done.err
    assert cli("verify", tmp_path / "nowhere").code == 2
    assert cli("verify", finished, "--items", 0).code == 2


def test_no_more_is_unpacked_than_any_of_ours_holds(finished: Path, tmp_path: Path, monkeypatch: Any) -> None:
    out = published(finished, tmp_path / "report")
    monkeypatch.setattr(packed, "_LARGEST", 1 << 20)
    (out / PACKED).write_bytes(lzma.compress(bytes(96 << 20), preset=0))
    tracemalloc.start()
    assert differing(out) == [PACKED]
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 80 << 20  # reading a record takes 64 MiB


PUBLISHED = [*REPORTS.glob("*.json"), *REPORTS.glob("*/results.json")]


@pytest.mark.parametrize("path", PUBLISHED, ids=lambda path: path.name)
def test_published_reports_are_listed_with_their_plans_and_what_is_packed(path: Path) -> None:
    record, name = read_record(path), path.stem
    seal = record.seal
    assert seal is not None
    with unpacked(path.with_name(f"{name}-{PACKED}")) as (_, sha256):
        assert record.outputs_sha256 == sha256
    plan = {"sha256": seal.sha256, "created": seal.created} | ({"packed": sha256} if record.carried else {})
    assert json.loads(sealing.PUBLISHED.read_text())[name] == plan


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=[] if path.stem == "pronunciation" else pytest.mark.slow) for path in PUBLISHED],
    ids=lambda path: path.name,
)
def test_published_reports_are_made_again(path: Path) -> None:
    assert differing(path) == []


def test_who_changes_what_was_carried_over_is_seen(tmp_path: Path) -> None:
    """Outputs are made right, figures computed anew by the project's own code, and the hash written."""

    def with_right_outputs(values: Any) -> None:
        for run in values["runs"]:
            for answer in run["answers"] if run["model"] == "transformer" else ():
                answer["output"] = answer["target"]

    with unpacked(REPORTS / f"pronunciation-{PACKED}") as (folder, _):
        edit(folder / CARRIED, with_right_outputs)
        sha256 = packed.pack({CARRIED: (folder / CARRIED).read_bytes()}, tmp_path / PACKED)
        forged = replace(record_of(folder, sha256), carried=True)
    (tmp_path / RESULTS).write_text(json.dumps(encode(forged)))
    assert differing(tmp_path) == ["carried"]
