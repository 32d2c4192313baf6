"""A program changes each field of a record, one at a time, and `verify` sees it."""

import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from forging import differing, edit
from small_runs import Cli

from selfattn.codec import decode
from selfattn.comparison.outputs import compare_outputs
from selfattn.comparison.packed import record_of
from selfattn.comparison.report import PACKED, unpacked
from selfattn.comparison.verify import compare_records, verify
from selfattn.errors import UserError
from selfattn.report.write import RESULTS
from selfattn.results.record import Record, read_record

GONE = object()
RIGHT = [f"a {number} b" for number in range(30)]


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two systems with three files each, beside the report `out`."""
    folder = tmp_path_factory.mktemp("judged")
    (folder / "ref.txt").write_text("".join(f"{text}\n" for text in RIGHT))
    (folder / "train.txt").write_text("a 1 b\na 2 b\n")
    for place, name in enumerate(("a1", "a2", "a3", "b1", "b2", "b3"), 2):
        lines = [text if number % place else f"{text} x" for number, text in enumerate(RIGHT)]
        (folder / f"{name}.txt").write_text("".join(f"{line}\n" for line in lines))
    systems = {name: [str(folder / f"{name}{number}.txt") for number in (1, 2, 3)] for name in "ab"}
    tags = ["even" if number % 2 == 0 else "odd" for number in range(30)]
    more = {"margin": 2.0, "tags": tags, "train": folder / "train.txt", "out": folder / "out"}
    compare_outputs(str(folder / "ref.txt"), systems, metric="exact_match", **more)
    return folder


def places_of(values: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the place of every plain value and of every list."""
    if isinstance(values, dict):
        for key, value in values.items():
            yield from places_of(value, (*place, key))
        return
    yield place
    if isinstance(values, list):
        for number, value in enumerate(values):
            yield from places_of(value, (*place, number))


def value_at(values: Any, place: Sequence[Any]) -> Any:
    for key in place:
        values = values[key]
    return values


def changes(value: Any) -> list[Any]:
    """Return other values of the same type; of a list, a shorter one and another order; null for what is empty."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int | float):
        return [type(value)(value / 2 if value > 1 else 1 - value / 2)]
    if isinstance(value, list):
        return [value[:-1], *([value[::-1]] if value[::-1] != value else [])] if value else [["x"], None]
    return ["x"] if value is None else [f"{value}x", *([None] if value == "" else [])]


def unseen(results: Path, part: str = "") -> list[str]:
    """Return the fields of a record, or of a part of it, whose change nobody sees."""
    values = json.loads(results.read_text())
    values.pop("checksum", None)
    with unpacked(results.with_name(PACKED)) as (folder, sha256):
        again = record_of(folder, sha256)
    assert findings(read_record(results), again) == []
    fields = {}  # one place for each: places of lists and numbers of their items do not count
    for place in places_of(values):
        if place[0] == part or not part:
            fields.setdefault(tuple("*" if isinstance(key, int) else key for key in place), place)
    assert len(fields) > 10
    missed = []
    text = json.dumps(values)
    honest = decode(Record, values, file=results, advice="")
    for place in fields.values():
        *path, last = place
        value = value_at(values, place)
        is_said = isinstance(last, str) and value is not None  # nothing, named or left out, is the same
        for forged in (*changes(value), *([GONE] if is_said else [])):
            forgery = json.loads(text)
            inner = value_at(forgery, path)
            inner[last] = forged
            if forged is GONE:
                del inner[last]
            with suppress(UserError):  # which is seen, too
                record = decode(Record, forgery, file=results, advice="")
                if record != honest and not findings(record, again):
                    missed.append(f"{'.'.join(map(str, place))} {forged!r}")
    return missed


def findings(record: Record, again: Record) -> list[str]:
    return [finding.name for finding in compare_records(record, again) if finding.differences]


def test_every_field_of_a_comparison_is_made_again(tuned: Path, finished: Path) -> None:
    assert unseen(tuned / RESULTS) == []
    assert unseen(finished / RESULTS, "budgets") == []


def test_every_field_of_judged_outputs_is_made_again(judged: Path) -> None:
    assert unseen(judged / "out" / RESULTS) == []


# What such a record leaves empty cannot be filled.
FILLED: dict[str, dict[str, Any]] = {
    "tunings": {"models": {"tunings": [0, 1, 2]}},
    "parameters": {"models": {"parameters": 1000}},
    "timing": {"models": {"timing": {"train_seconds": {"mean": 1.0, "runs": [1.0]}}}},
    "gates": {"gates": [{"name": "endings", "passed": False, "reason": "forged", "model": "b"}]},
    "task": {"task": "dates"},
    "command": {"command": "selfattn compare outputs --margin abc"},
    "quote": {"command": "'"},
}


@pytest.mark.parametrize("name", FILLED)
def test_a_record_of_judged_outputs_takes_nothing_more(name: str, judged: Path, tmp_path: Path, cli: Cli) -> None:
    """And a command that is none is a difference, not a traceback."""
    out = shutil.copytree(judged / "out", tmp_path / "out")
    change = FILLED[name]

    def fill(values: Any) -> None:
        values.update({key: value for key, value in change.items() if key != "models"})
        values["models"][0].update(change.get("models", {}))

    edit(out / RESULTS, fill)
    done = cli("verify", out)
    assert done.code == 1, done.err
    assert "DIFFERS" in done.out


def test_files_of_outputs_are_read_again_where_they_are(judged: Path, tmp_path: Path) -> None:
    assert differing(judged / "out") == []
    changes = {"b2.txt": "".join(f"{text}\n" for text in ["wrong", *RIGHT[1:]]), "train.txt": "a 1 b\n"}
    before = {name: (judged / name).read_text() for name in changes}
    for name, text in changes.items():
        (judged / name).write_text(text)
    (judged / "a1.txt").rename(tmp_path / "a1.txt")  # no file, nothing to compare
    lines = [finding.line for finding in verify(judged / "out") if finding.differences]
    for name, text in before.items():
        (judged / name).write_text(text)
    (tmp_path / "a1.txt").rename(judged / "a1.txt")
    assert lines[0] == f"DIFFERS  lines of {judged / 'b2.txt'}: not as packed: 5 lines"
    assert [line.partition(":")[0] for line in lines[1:]] == [f"DIFFERS  words of {judged / 'train.txt'}"]
