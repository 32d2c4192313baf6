"""A report on outputs that were made elsewhere follows from its command and its files."""

import json
from pathlib import Path
from typing import Any

import pytest

from selfattn.comparison.outputs import compare_outputs
from selfattn.comparison.verify import verify
from selfattn.report.write import RESULTS

RIGHT = [f"a {number} b" for number in range(30)]


@pytest.fixture
def judged(tmp_path: Path) -> Path:
    (tmp_path / "ref.txt").write_text("".join(f"{text}\n" for text in RIGHT))
    for place, name in enumerate(("a1", "a2", "a3", "b1", "b2", "b3"), 2):
        lines = [text if number % place else f"{text} x" for number, text in enumerate(RIGHT)]
        (tmp_path / f"{name}.txt").write_text("".join(f"{line}\n" for line in lines))
    systems = {name: [str(tmp_path / f"{name}{number}.txt") for number in (1, 2, 3)] for name in ("a", "b")}
    compare_outputs(str(tmp_path / "ref.txt"), systems, metric="exact_match", out=tmp_path / "out", margin=2.0)
    return tmp_path


def differing(folder: Path) -> list[str]:
    return [finding.line for finding in verify(folder / "out") if finding.differences]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda record: record.update(margin=40.0), "margin"),
        (lambda record: record["headline"].update(better="lower"), "headline"),
        (lambda record: record["settings"].update(source="other.txt"), "source"),
        (lambda record: record["models"][0].update(run_dirs=["x", "y", "z"]), "run_dirs"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_record_of_outputs_is_that_of_its_command(judged: Path, change: Any, reason: str) -> None:
    assert differing(judged) == []
    results = judged / "out" / RESULTS
    values = json.loads(results.read_text())
    values.pop("checksum", None)
    change(values)
    results.write_text(json.dumps(values))
    assert any(reason in line for line in differing(judged))


def test_files_of_outputs_are_read_again_where_they_are(judged: Path) -> None:
    (judged / "b2.txt").write_text("".join(f"{text}\n" for text in ["wrong", *RIGHT[1:]]))
    (judged / "a1.txt").unlink()  # no file, nothing to compare
    (line,) = differing(judged)
    assert line == f"DIFFERS  lines of {judged / 'b2.txt'}: not as packed: 5 lines"
