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
from safetensors.torch import load_file, save_file
from small_runs import accept_changes

from selfattn.codec import encode
from selfattn.comparison import check as sealing
from selfattn.comparison import report as packed
from selfattn.comparison import tested
from selfattn.comparison.plan import read_plan
from selfattn.comparison.report import PACKED, pack, unpacked, write_comparison
from selfattn.comparison.verify import CARRIED, record_of, verify
from selfattn.experiments.plan import write_plan
from selfattn.report.write import RESULTS
from selfattn.results.record import read_record
from selfattn.runs.directory import WEIGHTS, RunDirectory
from selfattn.runs.ledger import LEDGER, begin_ledger, read_ledger, record_access, seal_step

Cli = Callable[..., Any]
REPORTS = Path(__file__).parents[2] / "docs" / "results" / "reports"


def differing(place: Path, items: int | None = None) -> list[str]:
    return [finding.name for finding in verify(place, items) if finding.differences]


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
    with unpacked(REPORTS / f"pronunciation-{PACKED}") as (folder, _):
        values = json.loads((folder / CARRIED).read_text())
        values.pop("checksum", None)
        for run in values["runs"]:
            for answer in run["answers"] if run["model"] == "transformer" else ():
                answer["output"] = answer["target"]
        sha256 = packed.pack({CARRIED: json.dumps(values).encode()}, tmp_path / PACKED)
        (folder / CARRIED).write_text(json.dumps(values))
        forged = replace(record_of(folder, sha256), carried=True)
    (tmp_path / RESULTS).write_text(json.dumps(encode(forged)))
    assert differing(tmp_path) == ["carried"]


# Cheats: what is caught, what is declared, and what cannot be seen


def test_a_plan_with_fewer_seeds_is_caught(copy: Path, tmp_path: Path) -> None:
    plan = read_plan(copy)
    write_plan(copy, replace(plan, seeds=1))
    checks = write_comparison(copy, tmp_path / "report")[0].plan
    assert (checks.seeds, checks.planned_seeds) == (1, 2)
    assert {departure.kind for departure in checks.departures} == {"plan", "missing"}


def test_weights_that_were_swapped_after_the_test_are_caught(copy: Path) -> None:
    run = copy / "runs" / "rnn-attention-seed5"
    save_file({name: -weights for name, weights in load_file(run / WEIGHTS).items()}, run / WEIGHTS)
    assert differing(copy, 2) == ["rnn-attention-seed5"]  # its checksum differs
    accept_changes(run)
    # Figures are of the outputs on disk.
    outputs, packed, plan = (finding for finding in verify(copy, 2) if finding.differences)
    assert (outputs.name, outputs.values, packed.name) == ("outputs of rnn-attention-seed5", 2, "outputs_sha256")
    assert plan.name == "plan"  # the ledger has another digest of this run
    assert "models.rnn-attention.metrics.character_error_rate" in differing(copy)


def test_a_packed_comparison_that_is_not_that_of_the_runs_beside_it_is_told(copy: Path) -> None:
    with unpacked(copy / PACKED) as (folder, _):
        paths = [path for path in folder.rglob("*") if path.is_file()]
        files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}
    first, second = (f"runs/rnn-{name}-seed5/{tested.ANSWERS}" for name in ("plain", "attention"))
    files[first], files[second] = files[second], files[first]
    sha256 = pack(files, copy / PACKED)
    assert differing(copy) == [PACKED]
    record = read_record(copy / RESULTS)
    (copy / RESULTS).write_text(json.dumps(encode(replace(record, outputs_sha256=sha256))))
    assert differing(copy) == ["outputs_sha256"]


def test_another_machine_is_declared(copy: Path, tmp_path: Path) -> None:
    run = RunDirectory(copy / "runs" / "rnn-plain-seed6")
    record = run.record()
    versions, machine = {**record.versions, "torch": "1.0"}, {**record.machine, "threads": 9}
    run.write_record(replace(record, versions=versions, machine=machine, commit="0123456789ab"))
    again, _ = write_comparison(copy, tmp_path / "report")
    assert [text.partition(":")[0] for text in again.plan.machines] == ["commit", "torch", "threads"]
    (gate,) = [gate for gate in again.gates if gate.name == "same machine"]
    assert (gate.passed, gate.note) == (False, True)


def test_a_plan_a_ledger_and_answers_forged_together_are_seen_in_the_weights_alone(copy: Path, tmp_path: Path) -> None:
    """Without the weights nothing tells: only a hash that was published before the training would."""
    plan, (*entries, costs) = read_plan(copy), read_ledger(copy)[1:]
    (copy / LEDGER).unlink()
    begin_ledger(copy, plan.seal, plan.command)
    for entry in entries:
        run = tested.Tested(copy / "runs" / entry.run)
        right = [replace(answer, output=answer.target) for answer in run.answered.answers]
        perfect = {"exact_match": 1.0, "character_error_rate": 0.0} if "attention" in entry.run else None
        if perfect is not None:
            tested.keep(run.path, replace(run.result, scores=perfect, gates=()), right)
            run = tested.Tested(run.path)
        record_access(run.path, entry.command, plan=plan.seal.sha256, answers=run.digest)
    seal_step(copy, costs.sealed, costs.command, plan=costs.plan, digest=costs.answers)
    record, _ = write_comparison(copy, copy)
    assert record.plan.departures == ()
    assert record.models[1].metrics["exact_match"].mean == 1
    assert differing(published(copy, tmp_path / "report")) == []
    assert [name for name in differing(copy) if name.startswith("outputs")] == [
        f"outputs of rnn-attention-seed{seed}{end}" for end in ("", "-budget0.25") for seed in (5, 6)
    ]


def test_the_better_of_two_comparisons_cannot_be_seen_but_a_replay_is(
    copy: Path, finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second comparison of the same plan in another directory departs from nothing."""
    record, _ = write_comparison(copy, tmp_path / "report")
    assert (record.plan.departures, record.plan.replays) == ((), "")
    plans = tmp_path / "published.json"
    seal = record.plan.seal
    for created, name in (("2020-01-01T00:00:00+00:00", "dates"), (seal.created, "")):  # before, and this one itself
        plans.write_text(json.dumps({"dates": {"sha256": seal.sha256, "created": created}}))
        monkeypatch.setattr(sealing, "PUBLISHED", plans)
        again, _ = write_comparison(copy, tmp_path / "report")
        assert again.plan.replays == name
