"""A long training and a long prediction take no more memory, open files or threads at their end than early on."""

import os
import re
import subprocess
import sys
from pathlib import Path
from statistics import median

import pytest

pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")

SMALL = ("--set", "encoder.hidden_dim=8", "--set", "decoder.hidden_dim=8")
MARGIN = 8 << 10  # KiB
SLOW, LONG = pytest.mark.slow, pytest.mark.reliability


def held(process):
    """What a process holds: memory of its own (KiB), open files, threads; None where it is at its end."""
    place = Path(f"/proc/{process}")
    try:
        (own,) = re.findall(r"^RssAnon:\s+(\d+)", (place / "status").read_text(), re.MULTILINE)
        return int(own), len(os.listdir(place / "fd")), len(os.listdir(place / "task"))
    except (OSError, ValueError):
        return None


def watched(*arguments, stdin=None, stdout=None):
    """Run `selfattn`, and look at it again and again."""
    command = [sys.executable, "-m", "selfattn.cli", *map(str, arguments)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, stdin=stdin, stdout=stdout, stderr=subprocess.PIPE, text=True, env=environment)
    seen = []
    while True:
        try:
            _, said = process.communicate(timeout=0.2)
            break
        except subprocess.TimeoutExpired:
            seen += [now for now in [held(process.pid)] if now]
    assert process.returncode == 0, said
    return seen


def assert_flat(seen):
    """Hold the last quarter against the second: until then everything is loaded and warm."""
    assert len(seen) >= 8, "it was over before it could be looked at"
    quarter = len(seen) // 4
    early, late = (list(zip(*looks, strict=True)) for looks in (seen[quarter : 2 * quarter], seen[3 * quarter : -1]))
    print(f"{len(seen)} looks; early {seen[2 * quarter - 1]}, late {seen[-2]}")
    assert max(late[0]) - max(early[0]) < MARGIN
    for before, after in zip(early[1:], late[1:], strict=True):
        assert median(after) <= median(before)


@pytest.mark.parametrize("steps", [pytest.param(2000, marks=SLOW), pytest.param(20_000, marks=LONG)])
def test_a_long_training_holds_no_more_at_its_end(tmp_path, steps):
    options = ("--max-steps", steps, "--validate-every", steps // 20, "--batch-size", 16, "--items-per-epoch", 1000)
    seen = watched("train", "dates", "--model", "rnn-attention", "--out", tmp_path / "run", *options, *SMALL)
    assert len((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()) == 20
    assert_flat(seen)


@pytest.mark.parametrize("lines", [pytest.param(40_000, marks=SLOW), pytest.param(100_000, marks=LONG)])
def test_a_long_prediction_holds_no_more_at_its_end(tmp_path, lines):
    run, given, written = tmp_path / "run", tmp_path / "in", tmp_path / "out"
    watched("train", "dates", "--model", "rnn-attention", "--out", run, "--max-steps", 5, *SMALL)
    given.write_text("".join(f"{day % 28 + 1} march {2000 + day % 50}\n" for day in range(lines)), encoding="utf-8")
    with given.open("rb") as stdin, written.open("wb") as stdout:
        seen = watched("predict", run, stdin=stdin, stdout=stdout)
    assert len(written.read_text(encoding="utf-8").splitlines()) == lines
    assert_flat(seen)
