"""A program changes each field of a record, one at a time, and `verify` sees it."""

import copy as copies
import json
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from small_runs import Cli, accept_changes

from selfattn.codec import decode, encode
from selfattn.comparison.outputs import compare_outputs
from selfattn.comparison.plan import read_plan
from selfattn.comparison.report import PACKED, pack, unpacked, write_comparison
from selfattn.comparison.tested import ANSWERS
from selfattn.comparison.trainings import DIVERGED
from selfattn.comparison.verify import compare_records, record_of, verify
from selfattn.errors import UserError
from selfattn.report.write import RESULTS
from selfattn.results.record import Record, read_record
from selfattn.runs.directory import RECORD
from selfattn.runs.ledger import read_ledger

RIGHT = [f"a {number} b" for number in range(30)]


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("judged")
    (folder / "train.txt").write_text("a 1 b\na 2 b\n")
    systems = {
        name: [[text if number % place else f"{text} x" for number, text in enumerate(RIGHT)] for place in places]
        for name, places in (("a", (2, 3, 4)), ("b", (5, 6, 7)))
    }
    tags = ["even" if number % 2 == 0 else "odd" for number in range(30)]
    train = folder / "train.txt"
    compare_outputs(RIGHT, systems, metric="exact_match", out=folder / "out", margin=2.0, tags=tags, train=train)
    return folder / "out"


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
    for place in fields.values():
        *path, last = place
        inner = values
        for key in path:
            inner = inner[key]
        before = inner[last]
        for forged in changes(before):
            inner[last] = forged
            with suppress(UserError):  # which is seen, too
                if not findings(decode(Record, values, file=results, advice=""), again):
                    missed.append(f"{'.'.join(map(str, place))} {forged!r}")
        inner[last] = before
    return missed


def findings(record: Record, again: Record) -> list[str]:
    return [finding.name for finding in compare_records(record, again) if finding.differences]


def test_every_field_of_a_comparison_is_made_again(tuned: Path, finished: Path) -> None:
    assert unseen(tuned / RESULTS) == []
    assert unseen(finished / RESULTS, "budgets") == []


def test_every_field_of_judged_outputs_is_made_again(judged: Path) -> None:
    assert unseen(judged / RESULTS) == []


def test_fields_that_a_comparison_of_outputs_has_no_use_for_are_seen(judged: Path, tmp_path: Path) -> None:
    """What such a record leaves empty cannot be filled: tunings, gates, sizes, times."""
    with unpacked(judged / PACKED) as (folder, sha256):
        again = record_of(folder, sha256)
    values = encode(read_record(judged / RESULTS))
    gate = {"name": "endings", "passed": False, "reason": "forged", "model": "b"}
    for change in (
        lambda record: record["models"][0].update(tunings=[0, 1, 2]),
        lambda record: record["models"][0].update(parameters=1000),
        lambda record: record["models"][0].update(timing={"train_seconds": {"mean": 1.0, "runs": [1.0]}}),
        lambda record: record.update(gates=[gate]),
        lambda record: record.update(task="dates"),
        lambda record: record.update(created="2020-01-01T00:00:00+00:00"),
    ):
        forged = copies.deepcopy(values)
        change(forged)
        (tmp_path / RESULTS).write_text(json.dumps(forged))
        assert findings(read_record(tmp_path / RESULTS), again)


def test_the_training_text_is_counted_again(judged: Path) -> None:
    train = judged.parent / "train.txt"
    before = train.read_bytes()
    train.write_text("a 1 b\n")
    assert [finding.name for finding in verify(judged) if finding.differences] == [f"words of {train}"]
    train.write_bytes(before)


@pytest.mark.parametrize("forged", [{"command": "selfattn compare outputs --margin abc"}, {"command": "'"}])
def test_a_forged_command_is_a_difference_and_no_traceback(judged: Path, tmp_path: Path, forged: Any, cli: Cli) -> None:
    out = shutil.copytree(judged, tmp_path / "out")
    values = json.loads((out / RESULTS).read_text())
    values.pop("checksum", None)
    values["models"][0]["run_dirs"] = values["models"][0]["run_dirs"][:1]
    (out / RESULTS).write_text(json.dumps(values | forged))
    done = cli("verify", out)
    assert done.code == 1, done.err
    assert {line.split(":")[0] for line in done.out.splitlines() if line.startswith("DIFFERS")} == {
        "DIFFERS  command",
        "DIFFERS  models.a.run_dirs",
    }


def test_outputs_of_each_run_stand_in_its_line_of_the_ledger(copy: Path, tmp_path: Path) -> None:
    """Whoever makes the answers of a run right, and accepts that in `run.json` and in the packed file, is seen."""
    assert all(len(entry.outputs) == 64 for entry in read_ledger(copy) if entry.run)
    run = copy / "runs" / "rnn-attention-seed5"
    lines = [json.loads(line) for line in (run / ANSWERS).read_text().splitlines()]
    (run / ANSWERS).write_text("".join(json.dumps(line | {"output": line["target"]}) + "\n" for line in lines))
    accept_changes(run)
    (departure,) = {each.kind: each for each in write_comparison(copy, tmp_path / "a")[0].plan.departures}.values()
    assert (departure.kind, departure.what) == ("unrecorded", (run.name,))
    with unpacked(copy / PACKED) as (folder, _):  # the record stays without a word about it
        (folder / "runs" / run.name / ANSWERS).write_bytes((run / ANSWERS).read_bytes())
        accept_changes(folder / "runs" / run.name)
        files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    report = tmp_path / "report"
    report.mkdir()
    values = json.loads((copy / RESULTS).read_text())
    values.pop("checksum", None)
    (report / RESULTS).write_text(json.dumps(values | {"outputs_sha256": pack(files, report / PACKED)}))
    assert "plan" in [finding.name for finding in verify(report) if finding.differences]


@pytest.mark.parametrize("trial", [True, False])
def test_a_training_that_took_its_last_step_did_not_diverge(trial: bool, tuned_copy: Path, tmp_path: Path) -> None:
    """Whoever calls a good trial diverged, so that other settings are chosen, is seen, whatever was sealed then."""
    plan = read_plan(tuned_copy)
    run = tuned_copy / ("tuning/rnn-plain-trial0" if trial else "runs/rnn-plain-seed5")
    if trial:
        values = json.loads((run / RECORD).read_text()) | {"status": DIVERGED}
        values.pop("checksum", None)
        (run / RECORD).write_text(json.dumps(values))
    else:
        values = json.loads((run / "test.json").read_text()) | {"failed": "forged"}
        values.pop("checksum", None)
        (run / "test.json").write_text(json.dumps(values))
        accept_changes(run)
    departures = write_comparison(tuned_copy, tmp_path / "report")[0].plan.departures
    named = {departure.kind: departure.what for departure in departures}
    assert run.name in named["tuning" if trial else "test"]
    assert plan.tuned
