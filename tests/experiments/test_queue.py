"""The queue and its display, with trials that only write a file."""

import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass
from io import StringIO

import cloudpickle
import pytest
import torch
from rich.console import Console
from third_party import FILES, isolated_registries

from selfattn.codec import write
from selfattn.errors import UserError
from selfattn.experiments import progress, queue
from selfattn.experiments.progress import Display, Logs, Progress
from selfattn.experiments.queue import Runner, Workers, run_all, take_gpu
from selfattn.models.families import get_preset
from selfattn.processes import choose_device
from selfattn.registry import load_plugin

LIMIT = 60  # seconds


@dataclass(frozen=True)
class Number:
    """A trial that writes its number; a negative one fails."""

    number: int

    @property
    def label(self):
        return f"number-seed{self.number}"


class Writer(Runner[Number]):
    def __init__(self, out, jobs=1):
        out.mkdir(exist_ok=True)
        self.workers = Workers(out, jobs)

    def is_done(self, trial):
        return (self.workers.out / trial.label).exists()

    def run(self, trial, reporter):
        if trial.number < 0:
            raise UserError("below 0")
        (self.workers.out / trial.label).write_text("notes" if reporter.is_first else "")


NUMBERS = [Number(k) for k in range(3)]


def test_trials_that_are_left_run_and_failures_are_returned(tmp_path):
    runner = Writer(tmp_path)
    (tmp_path / NUMBERS[1].label).write_text("before")
    assert run_all(runner, [*NUMBERS, Number(-1)]) == {"number-seed-1": "below 0"}
    assert [(tmp_path / trial.label).read_text() for trial in NUMBERS] == ["notes", "before", ""]
    assert "failed: below 0" in Logs(tmp_path).log("number-seed-1").read_text()
    assert run_all(runner, NUMBERS) == {}


def pool(monkeypatch, breaks, begun=()):
    """A pool of workers that breaks some times; before that it has begun the trials of these labels."""
    calls = []

    def send_out(runner, trials, *_):
        calls.append([trial.label for trial in trials])
        for trial in trials:
            if len(calls) > breaks:
                (runner.workers.out / trial.label).touch()
            elif trial.label in begun:
                write(Logs(runner.workers.out).file(trial.label), Progress(7))
        return "SIGKILL(-9)" if len(calls) <= breaks else ""

    monkeypatch.setattr(queue, "_send_out", send_out)
    return calls


def test_a_worker_that_is_killed_is_replaced_and_a_trial_that_kills_its_process_fails(tmp_path, monkeypatch, capsys):
    labels = [trial.label for trial in NUMBERS]
    calls = pool(monkeypatch, breaks=2)  # before their first trial
    assert run_all(Writer(tmp_path / "early", jobs=2), NUMBERS) == {}
    assert calls == [labels] * 3
    pool(monkeypatch, breaks=99)
    with pytest.raises(UserError, match=r"`jobs`: cannot be sent out \(SIGKILL\(-9\)\)"):
        run_all(Writer(tmp_path / "never", jobs=2), NUMBERS)
    calls = pool(monkeypatch, breaks=3, begun=labels[:1])
    assert run_all(Writer(tmp_path / "begun", jobs=2), NUMBERS) == {}
    assert calls == [labels, labels, labels[1:], labels[1:], labels[:1]]  # the trial is tried alone
    assert f"{labels[0]}: stopped when a process died (SIGKILL(-9))" in capsys.readouterr().err


def test_a_worker_that_leaves_nothing_does_not_see_the_directory(tmp_path, monkeypatch):
    monkeypatch.setattr(queue, "_send_out", lambda *_: "")
    reasons = run_all(Writer(tmp_path, jobs=2), NUMBERS)
    assert set(reasons.values()) == {f"left nothing in {tmp_path}; all workers have to see this directory"}


@dataclass(frozen=True)
class WithModel(Number):
    """A trial that holds a model's configuration."""

    config: object = None


def test_a_trial_with_parts_of_a_plugin_is_read_where_no_plugin_is_loaded_yet(tmp_path, logs, monkeypatch):
    sent = []
    monkeypatch.setattr(queue, "Parallel", lambda **_: lambda calls: sent.append(cloudpickle.dumps(calls)))
    with isolated_registries():
        load_plugin(str(FILES / "convolutional_family.py"))
        trial = WithModel(7, get_preset("convolutional").config)
        assert queue._send_out(Writer(tmp_path), [trial], "threading", 2, "") == ""
    with isolated_registries():  # as in a new process
        ((function, arguments, named),) = cloudpickle.loads(sent[0])
        function(*arguments, **named)
    assert (tmp_path / "number-seed7").exists()


def test_a_worker_without_its_parent_begins_no_trial(tmp_path, logs):
    """The program may be killed while its workers still start."""
    parcel, trial = queue.pack(Writer(tmp_path)), NUMBERS[0]
    for parent, begins in ((os.getpid(), False), (os.getppid(), True)):
        queue._run_in_worker(parcel, trial.label, cloudpickle.dumps(trial), str(tmp_path), "", parent)
        assert (tmp_path / trial.label).exists() == begins


def test_a_request_to_stop_ends_the_queue(tmp_path, monkeypatch):
    def stop(self, trial, reporter):
        Logs(tmp_path).stop.touch()
        (tmp_path / trial.label).touch()

    monkeypatch.setattr(Writer, "run", stop)
    with pytest.raises(KeyboardInterrupt):
        run_all(Writer(tmp_path), NUMBERS)
    assert [(tmp_path / trial.label).exists() for trial in NUMBERS] == [True, False, False]


BLOCKED = """
import signal
from pathlib import Path
from joblib import Parallel, delayed, parallel_config
from selfattn.experiments.queue import _stopping, stop_workers

def blocked():
    return signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ())

with _stopping(Path("stop"), print), parallel_config(backend="loky"):
    print(Parallel(n_jobs=2, batch_size=1)([delayed(blocked)() for _ in range(2)]), blocked())
stop_workers()
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="needs masks of signals")
def test_workers_do_not_get_the_signal_of_a_terminal():
    done = subprocess.run([sys.executable, "-c", BLOCKED], capture_output=True, text=True, check=True)
    assert done.stdout == "[True, True] True\n"


def test_every_worker_computes_on_its_gpu(tmp_path, monkeypatch):
    now = [0]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: now[0])
    monkeypatch.setattr(torch.cuda, "set_device", lambda number: now.__setitem__(0, number))
    monkeypatch.delenv("LOCAL_RANK", raising=False)

    def begin(current=0):
        stack, now[0] = ExitStack(), current
        take_gpu(tmp_path, stack)
        return choose_device("auto").index, stack

    workers = [begin() for _ in range(3)]
    assert [number for number, _ in workers] == [0, 1, 2]
    assert begin(1)[0] == 1, "all are taken: it shares its last one"
    workers[1][1].close()
    assert begin(2)[0] == 1, "the free one"
    for _, stack in workers:
        stack.close()


LABELS = ("rnn-plain-seed0", "rnn-attention-seed0")


def wait_for(words, said):
    until = time.monotonic() + LIMIT
    while words not in said.getvalue() and time.monotonic() < until:
        time.sleep(0.02)
    assert words in said.getvalue()


@pytest.fixture
def logs(tmp_path):
    (tmp_path / "logs").mkdir()
    return Logs(tmp_path)


def test_the_bar_of_a_terminal(logs):
    said = StringIO()
    with Display(logs, LABELS, Console(file=said, force_terminal=True, width=100, highlight=False)):
        write(logs.file(LABELS[0]), Progress(7, step=30, steps=40))
        wait_for("0 of 2 done", said)
        logs.log(LABELS[0]).write_text(f"a note\n{LABELS[0]} 1/2  loss 2\n{LABELS[0]} 2/2  loss 1\n")
        wait_for("a note", said)
        write(logs.file(LABELS[0]), Progress(7, state="done"))
        wait_for(f"{LABELS[0]} 2/2  loss 1", said)
        wait_for("1 of 2 done, about", said)
    assert f"{LABELS[0]} 1/2" not in said.getvalue()  # stays in the log


def test_lines_where_there_is_no_terminal(logs, monkeypatch):
    monkeypatch.setattr(progress, "EVERY", 0.0)
    said = StringIO()
    with Display(logs, (*LABELS, "a-seed1"), Console(file=said, highlight=False)):
        wait_for("trials: 0 of 3 done\n", said)
        write(logs.file(LABELS[0]), Progress(7, step=300, steps=4000))
        wait_for(f"; {LABELS[0]} step 300 of 4,000\n", said)
        logs.log(LABELS[1]).write_text(f"{LABELS[1]} 1/2  loss 2\n{LABELS[1]}: failed: no space\nTraceback\n  more\n")
        write(logs.file(LABELS[1]), Progress(7, state="failed", reason="no space"))
        wait_for("1 of 3 done", said)
    korean = StringIO()
    with Display(logs, LABELS, Console(file=korean, highlight=False), "ko"):
        wait_for("진행: 2개 중 1개 끝남", korean)
        wait_for(f"; {LABELS[0]} 4,000스텝 중 300", korean)
    assert f"{LABELS[1]}: failed: no space\n{LABELS[1]} 1/2  loss 2\n" in said.getvalue()
    assert "Traceback" not in said.getvalue()  # stays in the log
