"""A report is computed again from its weights, or from the archive of its outputs; a change of any field is seen."""

import io
import json
import lzma
import shutil
import tarfile
import tracemalloc
from contextlib import suppress
from dataclasses import MISSING, fields, replace
from functools import reduce
from operator import getitem
from pathlib import Path

import pytest
from forging import differing, edit

from selfattn.codec import decode, encode
from selfattn.comparison import check as sealing
from selfattn.comparison import report as packed
from selfattn.comparison.outputs import compare_outputs
from selfattn.comparison.report import PACKED, unpack
from selfattn.comparison.verify import CARRIED, compare_records, record_of, verify
from selfattn.errors import UserError
from selfattn.report.write import RESULTS
from selfattn.results.record import Record, read_record

REPORTS = Path(__file__).parents[2] / "docs" / "results" / "reports"


@pytest.fixture
def out(finished, tmp_path):
    """A report with its archive, without the runs."""
    for name in (RESULTS, PACKED):
        shutil.copy(finished / name, tmp_path)
    return tmp_path


def test_a_comparison_is_decoded_again_and_every_figure_agrees(finished, cli):
    lines = cli("verify", finished).success().out.splitlines()
    for name in (
        "outputs of rnn-attention-seed6-budget0.25",
        "models.rnn-plain.metrics.exact_match",
        "budgets.cells.0.25",
    ):
        assert f"agrees   {name}" in lines
    assert lines[-1].endswith("all agree")


def test_a_published_report_is_scored_again_from_its_archive(out, cli):
    names = {finding.name for finding in verify(out)}
    assert {"pairs.rnn-plain rnn-attention exact_match", "models.rnn-plain.curves", "models.rnn-plain.cost"} <= names
    for name in (RESULTS, PACKED):
        (out / name).rename(out / name.replace("results", "dates").replace("packed", "dates-packed"))
    assert differing(out / "dates.json") == []
    edit(out / "dates.json", lambda values: values["pairs"][0].update(p=0.04))
    done = cli("verify", out / "dates.json")
    assert (done.code, done.out.splitlines()[-1].endswith("not equal: 1 figure")) == (1, True)


def test_what_cannot_be_verified_is_bad_input(finished, out, cli):
    packed = out / PACKED
    packed.write_bytes(lzma.compress(lzma.decompress(packed.read_bytes()) + bytes(512)))
    assert differing(out) == [PACKED]
    for data in (b"\xfd7zXZ", packed.read_bytes()[:-400], lzma.compress(b"[]")):
        packed.write_bytes(data)
        assert "is not packed by selfattn" in cli("verify", out).refusal()
    packed.unlink()
    assert "no such file" in cli("verify", out).refusal()
    assert cli("verify", out / "nowhere").code == 2
    assert cli("verify", finished, "--items", 0).code == 2


@pytest.mark.parametrize(
    "name", ["../outside", "/tmp/outside", "plan.json/inside", "a/../../outside", "link", "a" * 300]
)
def test_nothing_is_unpacked_but_files_inside_of_the_folder(name, tmp_path):
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as tar:
        for member in (tarfile.TarInfo("plan.json"), tarfile.TarInfo(name)):
            member.type = tarfile.SYMTYPE if member.name == "link" else tarfile.REGTYPE
            tar.addfile(member)
    (tmp_path / PACKED).write_bytes(lzma.compress(content.getvalue()))
    with pytest.raises(UserError, match="is not packed by selfattn"), unpack(tmp_path / PACKED):
        pass


def test_no_more_is_unpacked_than_any_of_ours_holds(out, monkeypatch):
    monkeypatch.setattr(packed, "_LARGEST", 1 << 20)
    (out / PACKED).write_bytes(lzma.compress(bytes(96 << 20), preset=0))
    tracemalloc.start()
    with pytest.raises(UserError, match="larger than any of ours"):
        differing(out)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 80 << 20  # reading a record takes 64 MiB


PUBLISHED = [*REPORTS.glob("*.json"), *REPORTS.glob("*/results.json")]


@pytest.mark.parametrize("path", PUBLISHED, ids=lambda path: path.name)
def test_published_reports_are_listed_with_their_plans_and_what_is_packed(path):
    record, name = read_record(path), path.stem
    seal = record.seal
    with unpack(path.with_name(f"{name}-{PACKED}")) as (_, sha256):
        assert record.outputs_sha256 == sha256
    plan = {"sha256": seal.sha256, "created": seal.created} | ({"packed": sha256} if record.carried else {})
    assert json.loads(sealing.PUBLISHED.read_text())[name] == plan


MADE_AGAIN = [pytest.param(path, marks=[] if path.stem == "pronunciation" else pytest.mark.slow) for path in PUBLISHED]


@pytest.mark.parametrize("path", MADE_AGAIN, ids=lambda path: path.name)
def test_published_reports_are_made_again(path):
    assert differing(path) == []


def test_who_changes_what_was_carried_over_is_seen(tmp_path):
    """Outputs are made right, figures computed anew by the project's own code, and the hash written."""

    def with_right_outputs(values):
        values["frame"]["units"] = {}  # of metrics that take long
        for run in values["runs"]:
            for answer in run["answers"] if run["model"] == "transformer" else ():
                answer["output"] = answer["target"]

    with unpack(REPORTS / f"pronunciation-{PACKED}") as (folder, _):
        edit(folder / CARRIED, with_right_outputs)
        sha256 = packed.pack({CARRIED: (folder / CARRIED).read_bytes()}, tmp_path / PACKED)
        again = record_of(folder, sha256)
    assert findings(replace(again, carried=True), again) == ["carried"]


# Each field of a record, changed one at a time

GONE = object()
RIGHT = [f"a {number} b" for number in range(30)]


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
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


def places_of(values, place=()):
    """Yield the place of every plain value and of every list."""
    if not isinstance(values, dict):
        yield place
    if isinstance(values, dict | list):
        for key in values if isinstance(values, dict) else range(len(values)):
            yield from places_of(values[key], (*place, key))


def changes(value):
    """Return other values of the same type; of a list, a shorter one and another order; null for what is empty."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int | float):
        return [type(value)(value / 2 if value > 1 else 1 - value / 2)]
    if isinstance(value, list):
        return [value[:-1], *([value[::-1]] if value[::-1] != value else [])] if value else [["x"], None]
    return ["x"] if value is None else [f"{value}x", *([None] if value == "" else [])]


def bare(value, *kept):
    """Return a dataclass with these fields and those that it must have."""
    needed = {one.name for one in fields(value) if one.default is MISSING and one.default_factory is MISSING}
    return type(value)(**{name: getattr(value, name) for name in needed.union(kept)})


def part_at(record, place):
    """Return a record with little beside the field at a place; and the place there."""
    top, *inner = place
    models = record.models if top == "models" else (bare(record.models[0]),)
    if top == "models" and inner:
        number, name, *_ = inner
        models, place = (bare(models[number], name),), (top, 0, *inner[1:])
    return replace(bare(record, top), models=models), place


def unseen(results, part=""):
    """Return the fields of a record, or of a part of it, whose change nobody sees."""
    values = json.loads(results.read_text())
    values.pop("checksum", None)
    with unpack(results.with_name(PACKED)) as (folder, sha256):
        again = record_of(folder, sha256)
    honest = decode(Record, values, file=results, advice="")
    assert findings(honest, again) == []
    places = {}  # one for each field: places of lists and numbers of their items do not count
    for place in places_of(values):
        if place[0] == part or not part:
            places.setdefault(tuple("*" if isinstance(key, int) else key for key in place), place)
    assert len(places) > 10
    missed = []
    for full in places.values():
        value = reduce(getitem, full, values)
        small, (*path, last) = part_at(honest, full)
        expected, _ = part_at(again, full)
        is_said = isinstance(last, str) and value is not None  # nothing, named or left out, is the same
        for forged in (*changes(value), *([GONE] if is_said else [])):
            forgery = encode(small)
            inner = reduce(getitem, path, forgery)
            assert inner[last] == value
            inner[last] = forged
            if forged is GONE:
                del inner[last]
            with suppress(UserError):  # which is seen, too
                record = decode(Record, forgery, file=results, advice="")
                if record != small and not findings(record, expected):
                    missed.append(f"{'.'.join(map(str, full))} {forged!r}")
    return missed


def findings(record, again):
    return [finding.name for finding in compare_records(record, again) if finding.differences]


def test_every_field_of_a_comparison_and_of_judged_outputs_is_made_again(tuned, finished, judged):
    assert unseen(tuned / RESULTS) == []
    assert unseen(finished / RESULTS, "budgets") == []
    assert unseen(judged / "out" / RESULTS) == []


# What such a record leaves empty cannot be filled.
FILLED = [
    {"tunings": [0, 1, 2]}, {"parameters": 1000}, {"timing": {"train_seconds": {"mean": 1.0, "runs": [1.0]}}},
    {"gates": [{"name": "endings", "passed": False, "reason": "forged", "model": "b"}]}, {"task": "dates"},
    {"command": "selfattn compare outputs --margin abc"}, {"command": "'"},
]  # fmt: skip


@pytest.mark.parametrize("change", FILLED, ids=lambda change: str(*change))
def test_a_record_of_judged_outputs_takes_nothing_more(change, judged, tmp_path, cli):
    """And a command that is none is a difference, not a traceback."""
    out = shutil.copytree(judged / "out", tmp_path / "out")
    of_model = {"tunings", "parameters", "timing"} & change.keys()
    edit(out / RESULTS, lambda values: (values["models"][0] if of_model else values).update(change))
    done = cli("verify", out)
    assert done.code == 1, done.err
    assert "DIFFERS" in done.out


def test_files_of_outputs_are_read_again_where_they_are(judged):
    assert differing(judged / "out") == []
    changes = {"b2.txt": "".join(f"{text}\n" for text in ["wrong", *RIGHT[1:]]), "train.txt": "a 1 b\n"}
    before = {name: (judged / name).read_text() for name in (*changes, "a1.txt")}
    for name, text in changes.items():
        (judged / name).write_text(text)
    (judged / "a1.txt").unlink()  # no file, nothing to compare
    lines = [finding.line for finding in verify(judged / "out") if finding.differences]
    for name, text in before.items():
        (judged / name).write_text(text)
    assert lines[0] == f"DIFFERS  lines of {judged / 'b2.txt'}: not as packed: 5 lines"
    assert [line.partition(":")[0] for line in lines[1:]] == [f"DIFFERS  words of {judged / 'train.txt'}"]
