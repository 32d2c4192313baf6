"""No damage to a file of a run or a comparison passes: it is named, or nothing that is read is any different."""

import random
import shlex
import shutil
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from small_runs import Cli, accept_changes

from selfattn.codec import encode
from selfattn.comparison import tested as on_disk
from selfattn.comparison.costs import read_costs
from selfattn.comparison.packed import PACKED, unpacked
from selfattn.comparison.plan import read_plan
from selfattn.errors import UserError
from selfattn.experiments.plan import write_plan
from selfattn.files import append_line
from selfattn.results.reading import read_record
from selfattn.runs.directory import CHECKPOINT, RunDirectory
from selfattn.runs.ledger import LEDGER, read_ledger
from selfattn.runs.load import load
from selfattn.training.checkpoint import CheckpointFile

RUN = "runs/plain-seed0"
TEXTS = ["4 March 2031", "12/05/1999"]
REPORTS = ("report.html", "report.md", "results.json")  # made of the others, and read by no command
EMPTY = (".lock", ".ledger.jsonl.lock")


def all_that_is_read(comparison: Path) -> list[Any]:
    """What the program reads of a comparison, in a form that can be compared."""
    run = load(comparison / RUN)
    tested, checkpoints = on_disk.Tested(comparison / RUN, "plain"), CheckpointFile(comparison / RUN / CHECKPOINT)
    kept = checkpoints.parse(checkpoints.read() or b"")
    weights = {name: tensor.tolist() for name, tensor in run.model.state_dict().items()}
    of_test = [encode(one) for one in (tested.result, tested.record, tested.metrics, tested.answered.answers)]
    checkpoint = [encode(kept.progress), {name: tensor.tolist() for name, tensor in kept.tensors.items()}]
    entries = encode(read_ledger(comparison))
    if not any(entry["run"] == tested.path.name for entry in entries):
        raise UserError(f"{LEDGER}: a run that was not written down")  # as a report says it
    plan = [encode(read_plan(comparison)), encode(read_costs(comparison)), entries]
    with unpacked(comparison / PACKED) as (_, packed):
        return [*plan, encode(run.config), weights, run.predict(TEXTS), of_test, checkpoint, packed]


def damaged(content: bytes, chance: random.Random) -> bytes:
    """Flip a bit, or cut the end off."""
    place = chance.randrange(len(content))
    if chance.random() < 0.2:
        return content[:place]
    return content[:place] + bytes([content[place] ^ (1 << chance.randrange(8))]) + content[place + 1 :]


@pytest.mark.parametrize("count", [30, pytest.param(1000, marks=pytest.mark.reliability)])
def test_damage_is_named_or_harmless(whole: Path, copy: Path, count: int) -> None:
    before = all_that_is_read(whole)
    files = [file for file in copy.rglob("*") if file.is_file() and file.name not in (*REPORTS, *EMPTY)]
    assert {"plan.json", "costs.json", "config.json", "model.safetensors", "run.json", "test.jsonl"} < {
        file.name for file in files
    }
    chance, found = random.Random(0), {"named": 0, "harmless": 0}
    for number in range(count):
        file = files[number % len(files)]
        content = file.read_bytes()
        file.write_bytes(damaged(content, chance))
        case = f"case {number}, {file.relative_to(copy)}"
        try:
            assert all_that_is_read(copy) == before, f"{case}: silently wrong"
            found["harmless"] += 1
        except UserError as error:
            text = str(error)
            assert file.name in text, f"{case}: is not named: {text}"
            assert "\n" not in text
            found["named"] += 1
        file.write_bytes(content)
    print(f"{count} damages: {found}")
    assert found["named"] > 0.8 * count  # what is harmless lies between the values of a JSON file


def test_weights_that_are_not_finite_are_refused_with_a_right_checksum_too(copy: Path) -> None:
    path = copy / RUN / "model.safetensors"
    weights = load_file(path)
    name = next(iter(weights))
    save_file(weights | {name: torch.full_like(weights[name], torch.nan)}, path)
    accept_changes(copy / RUN)
    with pytest.raises(UserError, match=r"model.safetensors: .* are not finite; "):
        load(copy / RUN)


def test_killed_between_record_and_file_the_file_before_is_taken(whole: Path, copy: Path) -> None:
    directory, weights = RunDirectory(copy / RUN), copy / RUN / "model.safetensors"
    before = weights.read_bytes()
    other = load(whole / RUN).model
    with torch.no_grad():
        next(other.parameters()).add_(1.0)
    directory.save_weights(other)
    assert weights.read_bytes() != before
    assert load(copy / RUN)
    weights.write_bytes(before)  # as if it had been killed before it moved the new one into place
    assert load(copy / RUN)


@pytest.mark.parametrize("kept", ["the plan", "the plan and the runs"])
def test_killed_before_the_ledger_was_written_it_is_written_later(cli: Cli, whole: Path, copy: Path, kept: str) -> None:
    ledger, plan = copy / LEDGER, read_plan(copy)
    plan = write_plan(copy, replace(plan, command=plan.command.replace(str(whole), str(copy))))
    lines = ledger.read_text().splitlines(keepends=True)
    assert len(lines) == 3  # the plan, the run, the measured times
    if kept == "the plan":  # which stands in the first line of the ledger, too
        ledger.unlink()
        shutil.rmtree(copy / "runs")
    else:
        ledger.write_text(lines[0])
    done = cli(*shlex.split(plan.command)[1:], "--resume")
    assert done.code == 0, done.err
    check = read_record(copy / "results.json").plan
    assert check is not None
    assert (check.departures, [entry.run for entry in read_ledger(copy)]) == ((), ["", "plain-seed0", ""])


@pytest.mark.skipif(sys.platform == "win32", reason="limits of POSIX")
def test_no_half_line_is_added_where_the_disk_is_full(tmp_path: Path) -> None:
    import resource

    path, limits = tmp_path / "ledger.jsonl", resource.getrlimit(resource.RLIMIT_FSIZE)
    append_line(path, "a line\n")
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (10, limits[1]))
        with pytest.raises(OSError, match=r"No space left on device.*ledger\.jsonl"):
            append_line(path, "another line\n")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert path.read_text() == "a line\n"
