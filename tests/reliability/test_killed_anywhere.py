"""Killed with SIGKILL at any moment and gone on with, or begun twice at once, work ends as if nothing had happened.

Half of the moments are any time, the others those at which a file is put into place: a checkpoint, metrics, weights, a
record, a report. A server that has loaded the program forks every process that is to be killed, so that moments fall on
the work and not on imports; a checkpoint is written after every step.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from functools import partial
from operator import itemgetter

import pytest
import training_parts as parts
from small_runs import words

from selfattn.comparison.compare import compare
from selfattn.errors import UserError
from selfattn.files import ASIDE, HALF_WRITTEN, LOCK, in_use
from selfattn.runs.directory import RunDirectory
from selfattn.training.config import TrainingConfig

LIMIT = 300.0
# The two digests are of files that say when; the outputs in them are compared one by one.
_OF_TIME = (
    "command", "commit", "created", "run_bytes", "seconds", "timing", "when", "previous", "answers", "outputs_sha256",
)  # fmt: skip


def killed(processes, after, *arguments):
    """Work in a process of its own, killed after some seconds; say whether it was, and how long it took."""
    process = processes.Process(target=arguments[0], args=arguments[1:])
    process.start()
    begun = time.monotonic()
    process.join(LIMIT if after is None else after)
    lasted = time.monotonic() - begun
    process.kill()
    process.join(LIMIT)
    assert process.exitcode in (0, -signal.SIGKILL)
    return process.exitcode != 0, lasted


def kill_and_go_on(processes, count, work, of, folder):
    """Kill a piece of work at so many moments, each time at one, and hold what comes of it against the whole."""
    assert not killed(processes, None, parts.die_at_write, 0, work, folder / "whole")[0]
    whole, writes = of(folder / "whole"), int((folder / "whole.writes").read_text())
    _, lasts = killed(processes, None, work, folder / "again")  # the first one found nothing in the disk's cache
    assert of(folder / "again") == whole
    seed = random.SystemRandom().randrange(2**32)
    print(f"moments of the kills: random.Random({seed})")  # shown when the test fails
    chance, died, number = random.Random(seed), 0, 0
    while died < count:
        number += 1
        out = folder / str(number)
        if died % 2 == 0:
            moment = f"at write {(place := chance.randint(1, writes))} of {writes}"
            was_killed, _ = killed(processes, None, parts.die_at_write, place, work, out)
        else:
            moment = f"after {(seconds := chance.uniform(0, lasts)):.3f} s of {lasts:.3f} s"
            was_killed, _ = killed(processes, seconds, work, out)
        died += was_killed
        if was_killed:
            assert not killed(processes, None, work, out)[0], moment
        assert of(out) == whole, f"killed {moment}"
        assert not list(folder.rglob(HALF_WRITTEN))
    print(f"{died} of {died} kills in work of {lasts:.2f} s and {writes} files: the same")


def report_of(out):
    """Everything that a comparison came to, but for when and how fast."""
    record = _without_times(json.loads((out / "results.json").read_text()))
    record["plan"]["entries"].sort(key=itemgetter("run"))  # of two at once, either may be the first
    return what_came(out) | {"record": record}


def _without_times(value):
    if isinstance(value, dict):
        return {name: _without_times(item) for name, item in value.items() if name not in _OF_TIME}
    return [_without_times(item) for item in value] if isinstance(value, list) else value


def what_came(out):
    """What a run or a comparison has come to: weights, metrics, answers."""
    runs = [path.parent for path in sorted(out.rglob("config.json"))]
    answers = [path.read_bytes() for path in sorted(out.rglob("test.jsonl"))]
    return {"runs": [parts.outcome(run) for run in runs], "answers": answers}


SLOW, LONG = pytest.mark.slow, pytest.mark.reliability
WORK = {
    "training": (parts.train_to_the_end, parts.outcome),
    "lengthening": (parts.lengthen_to_the_end, parts.outcome),
    "export": (parts.export_to_the_end, parts.files_of),
    "tokenizer train": (parts.train_a_tokenizer, parts.files_of),
    "comparison": (partial(parts.compare_to_the_end, jobs=1), report_of),
    "comparison, two at once": (partial(parts.compare_to_the_end, jobs=2), report_of),
}


@pytest.mark.parametrize(("name", "count"), [
    ("lengthening", 1), ("export", 1), ("tokenizer train", 1), pytest.param("training", 4, marks=SLOW),
    *(pytest.param(name, 24, marks=LONG) for name in ("training", "lengthening", "export", "tokenizer train")),
    pytest.param("comparison", 10, marks=LONG), pytest.param("comparison, two at once", 8, marks=LONG),
])  # fmt: skip
def test_work_that_is_killed_ends_well(processes, tmp_path, name, count):
    kill_and_go_on(processes, count, *WORK[name], tmp_path)


CONFIG = TrainingConfig(epochs=3, batch_size=4, lr=0.01)
HOLD = "from selfattn.files import in_use, Path; import sys\nwith in_use(Path(sys.argv[1])): print(flush=True), input()"
BUSY = "another process is at work here; wait for it"


def test_a_second_process_is_told_and_disturbs_nothing(tmp_path, monkeypatch):
    run, config = tmp_path / "run", parts.fit_small(tmp_path / "run", CONFIG).config
    monkeypatch.setattr("selfattn.files._PATIENCE", 0.1)
    command = [sys.executable, "-c", HOLD, str(run)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        half = run / f".metrics.jsonl.1{ASIDE}"
        half.touch()  # as the other one writes it
        with pytest.raises(UserError, match=f"run: {BUSY}"):
            parts.fit_small(run, CONFIG, resume=True)
        assert half.exists()
        assert process.poll() is None
        assert RunDirectory(run).config() == config  # whoever reads need not wait
        process.kill()
    with in_use(run):  # it holds nothing any more
        assert not half.exists()
    with in_use(tmp_path / "out"), pytest.raises(UserError, match=f"out: {BUSY}"):
        compare("dates", out=tmp_path / "out", models=("plain=rnn-plain",), quick=True)
    assert [path.name for path in (tmp_path / "out").iterdir()] == [LOCK]


def test_a_comparison_that_was_killed_as_it_wrote_is_resumed(small_comparison, tmp_path, whole):
    """Before it had a plan, and at the end."""
    out = tmp_path / "new"
    out.mkdir()
    (out / f".plan.json.7{ASIDE}").touch()
    small_comparison(out, resume=True)
    for place in (out, out / "logs", out / "runs" / "plain-seed0"):
        (place / f".report.html.7{ASIDE}").touch()
    small_comparison(out, resume=True)
    assert not list(out.rglob(".*.tmp"))
    assert what_came(out) == what_came(whole)


SIZES = "--epochs 6 --items-per-epoch 640 --batch-size 16 --validation-items 5"
SIZES += " --set encoder.hidden_dim=8 --set decoder.hidden_dim=8 --device cpu --out OUT"
TRAIN = f"train dates --model rnn-plain {SIZES}"
COMPARE = f"compare dates --models plain=rnn-plain --quick --test-items 4 --jobs 1 {SIZES}"


def begin(command, out):
    begun = [sys.executable, "-m", "selfattn.cli", *words(command, OUT=out)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.Popen(begun, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment)


def ended(process):
    """Wait for the end, which is a good one or one line."""
    _, said = process.communicate(timeout=LIMIT)
    assert process.returncode in (0, 2), said
    assert "Traceback" not in said
    assert process.returncode == 0 or said.splitlines()[-1].startswith("error: "), said
    return process.returncode


@pytest.mark.reliability
@pytest.mark.parametrize(("first", "second"), [
    (TRAIN, f"{TRAIN} --resume"), (TRAIN, TRAIN), (f"{TRAIN} --resume", f"{TRAIN} --resume"), (TRAIN, COMPARE),
    (COMPARE, COMPARE), (COMPARE, f"{COMPARE} --resume"), (f"{COMPARE} --resume", f"{COMPARE} --resume"),
])  # fmt: skip
def test_of_two_that_begin_at_once_one_does_it(tmp_path, first, second):
    out = tmp_path / "out"
    with begin(first, out) as one, begin(second, out) as other:
        codes = [ended(one), ended(other)]
    assert 0 in codes
    assert not list(out.rglob(".*.tmp"))
    assert ended(begin(first if codes[0] == 0 else second, tmp_path / "alone")) == 0
    assert what_came(out) == what_came(tmp_path / "alone")
