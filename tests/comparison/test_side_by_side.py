"""Trainings side by side: the same bits however many go on at once; a process that dies or is stopped loses nothing."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

from selfattn.codec import write
from selfattn.comparison.compare import compare
from selfattn.comparison.planning.options import CompareOptions
from selfattn.comparison.running import jobs, live
from selfattn.comparison.running.progress import Logs, Progress, View
from selfattn.errors import UserError
from selfattn.runs.directory import CHECKPOINT, RunConfig, RunDirectory
from selfattn.runs.run import Run
from selfattn.runs.training_set import TrainingSet
from selfattn.training.device import choose_device

MODELS = ("rnn-plain", "rnn-attention")
LABELS = ("rnn-plain-seed0", "rnn-attention-seed0")
SETTINGS: dict[str, Any] = {
    "models": MODELS,
    "quick": True,
    "test_items": 8,
    "set": ("encoder.hidden_dim=8", "decoder.hidden_dim=8"),
    "apart": True,
    "epochs": 2,
    "items_per_epoch": 1600,
    "batch_size": 8,
    "validation_items": 5,
}
OPTIONS = (
    "--models rnn-plain,rnn-attention --quick --test-items 8 --set encoder.hidden_dim=8 --set decoder.hidden_dim=8 "
    "--apart --epochs 2 --items-per-epoch 1600 --batch-size 8 --validation-items 5"
)
LIMIT = 300  # seconds, on a machine that has other things to do


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """As many threads here as in the programs that are started."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        yield


def weights(out: Path) -> dict[str, bytes]:
    return {label: (out / "runs" / label / "model.safetensors").read_bytes() for label in LABELS}


@pytest.fixture(scope="module")
def one_after_the_other(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The weights of a comparison whose trainings were done in this process, with one thread."""
    out = tmp_path_factory.mktemp("alone") / "out"
    compare("dates", out=out, jobs=1, **SETTINGS)
    return weights(out)


def hear_interrupts() -> None:
    """Undo that a shell makes what it runs in the background deaf to SIGINT: the tests may run there."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.fixture
def started() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start the command line in a process of its own."""
    processes = []

    def start(*arguments: object) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "selfattn.cli", *map(str, arguments)]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=hear_interrupts
        )
        processes.append(process)
        return process

    yield start
    for process in processes:
        if process.poll() is None:
            process.kill()
            process.communicate()


def frozen(out: Path, process: subprocess.Popen[str], behind: str = "run.json") -> tuple[str, Progress]:
    """Wait until a training has made a step and a file, and stop it (SIGSTOP) before its last step."""
    until = time.monotonic() + LIMIT
    while time.monotonic() < until and process.poll() is None:
        for label in LABELS:
            found, run = Logs(out).read(label), out / "runs" / label
            if found and found.state == "running" and found.step and (run / behind).exists():
                os.kill(found.pid, signal.SIGSTOP)
                if RunDirectory(run).record().status == "running":
                    return label, found
                os.kill(found.pid, signal.SIGCONT)
        time.sleep(0.02)
    process.kill()
    raise AssertionError(process.communicate())


def test_the_same_bits_however_many_go_on_at_once(one_after_the_other: dict[str, bytes], tmp_path: Path) -> None:
    compare("dates", out=tmp_path / "out", jobs=2, **SETTINGS)
    assert not [child for child in multiprocessing.active_children() if "Loky" in child.name]  # nobody to wait for
    assert weights(tmp_path / "out") == one_after_the_other
    record = json.loads((tmp_path / "out" / "runs" / LABELS[0] / "run.json").read_text())
    assert record["machine"]["threads"] == 1
    command = json.loads((tmp_path / "out" / "comparison.json").read_text())["command"]
    assert "--jobs" not in command  # what comes out does not depend on it
    for label in LABELS:
        assert f"{label} 2/2" in Logs(tmp_path / "out").log(label).read_text()


def test_a_worker_is_killed_and_its_training_goes_on(
    started: Callable[..., subprocess.Popen[str]], one_after_the_other: dict[str, bytes], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    process = started("compare", "dates", *OPTIONS.split(), "--jobs", 2, "--out", out)
    label, found = frozen(out, process)
    assert found.pid != process.pid
    os.kill(found.pid, signal.SIGKILL)
    _, said = process.communicate(timeout=LIMIT)
    assert process.returncode == 0, said
    assert f"{label}: stopped when a process died (SIGKILL(-9)" in said
    assert "Traceback" not in said
    assert weights(out) == one_after_the_other


@pytest.mark.parametrize("asked", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_stopped_politely_and_gone_on_with(
    started: Callable[..., subprocess.Popen[str]], one_after_the_other: dict[str, bytes], tmp_path: Path, asked: int
) -> None:
    out = tmp_path / "out"
    process = started("compare", "dates", *OPTIONS.split(), "--jobs", 2, "--out", out)
    label, found = frozen(out, process)
    process.send_signal(asked)
    while not Logs(out).stop.exists() and process.poll() is None:
        time.sleep(0.02)
    os.kill(found.pid, signal.SIGCONT)
    _, said = process.communicate(timeout=LIMIT)
    assert process.returncode == 130, said
    assert "--resume goes on" in said
    assert "Traceback" not in said
    status = json.loads((out / "runs" / label / "run.json").read_text())["status"]
    assert status in ("interrupted", "finished")
    assert not (out / "results.json").exists()
    compare("dates", out=out, jobs=1, resume=True, **SETTINGS)
    assert weights(out) == one_after_the_other


DASK = """
from distributed import LocalCluster
if __name__ == "__main__":
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        print(cluster.scheduler_address, flush=True)
        input()
"""


@pytest.mark.reliability
def test_a_worker_of_a_dask_cluster_is_killed(
    started: Callable[..., subprocess.Popen[str]], one_after_the_other: dict[str, bytes], tmp_path: Path
) -> None:
    pytest.importorskip("distributed")
    (tmp_path / "cluster.py").write_text(DASK)
    out = tmp_path / "out"
    with subprocess.Popen(
        [sys.executable, tmp_path / "cluster.py"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as cluster:
        assert cluster.stdout is not None
        address = cluster.stdout.readline().strip()
        process = started("compare", "dates", *OPTIONS.split(), "--backend", "dask", "--address", address, "--out", out)
        label, found = frozen(out, process, behind=CHECKPOINT)
        os.kill(found.pid, signal.SIGKILL)
        again = found
        while process.poll() is None and (again.pid == found.pid or not again.step):
            again = Logs(out).read(label) or again
            time.sleep(0.02)
        _, said = process.communicate(timeout=LIMIT)
        cluster.communicate("\n", timeout=LIMIT)
    assert process.returncode == 0, said
    assert again.pid != found.pid
    assert again.first >= 200, "not gone on with from the checkpoint"
    assert weights(out) == one_after_the_other


@pytest.mark.slow
def test_ray_does_the_same(
    started: Callable[..., subprocess.Popen[str]], one_after_the_other: dict[str, bytes], tmp_path: Path
) -> None:
    pytest.importorskip("ray")
    process = started("compare", "dates", *OPTIONS.split(), "--backend", "ray", "--jobs", 2, "--out", tmp_path / "out")
    _, found = frozen(tmp_path / "out", process)
    os.kill(found.pid, signal.SIGKILL)
    _, said = process.communicate(timeout=LIMIT)
    assert process.returncode == 0, said
    assert weights(tmp_path / "out") == one_after_the_other


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"jobs": 0}, "`jobs`: expected a whole number of at least 1"),
        ({"threads": 10**9}, "`threads`: expected at most 1024"),
        ({"address": "tcp://here:1"}, "`address`: of what"),
        ({"backend": "dask"}, "`backend` dask: give the `address`"),
    ],
)
def test_what_cannot_be_meant_is_refused(tmp_path: Path, settings: dict[str, Any], reason: str) -> None:
    with pytest.raises(UserError, match=reason):
        CompareOptions(models=MODELS, out=tmp_path, **settings)


def test_the_threads_of_a_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert CompareOptions(models=MODELS, out=tmp_path).thread_count == 1
    assert CompareOptions(models=MODELS, out=tmp_path, threads=2).thread_count == 2


def test_every_worker_computes_on_a_gpu_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from selfattn.comparison.running.side_by_side import _take_gpu

    now = [0]  # of the worker that is looked at
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: now[0])
    monkeypatch.setattr(torch.cuda, "set_device", lambda number: now.__setitem__(0, number))
    monkeypatch.delenv("LOCAL_RANK", raising=False)

    def begin(current: int = 0) -> tuple[int, ExitStack]:
        stack, now[0] = ExitStack(), current
        _take_gpu(tmp_path, stack)
        return choose_device("auto").index, stack

    workers = [begin() for _ in range(3)]
    assert [number for number, _ in workers] == [0, 1, 2]
    assert begin(1)[0] == 1, "all are taken: it shares its last one"
    workers[1][1].close()
    assert begin(2)[0] == 1, "the one that is free"
    for _, stack in workers:
        stack.close()
    assert begin(2)[0] == 2, "its last one again"


def test_one_training_fails_and_the_others_are_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out, log = tmp_path / "out", Logs(tmp_path / "out").log(LABELS[0])
    settings: dict[str, Any] = {**SETTINGS, "epochs": 1, "items_per_epoch": 64}
    own = jobs.fit

    def fit(config: RunConfig, data: TrainingSet, path: Path, **given: Any) -> Run:
        if path.name == LABELS[0]:
            raise UserError("no room")
        return own(config, data, path, **given)

    with monkeypatch.context() as patch:
        patch.setattr(jobs, "fit", fit)
        with pytest.raises(UserError) as raised:
            compare("dates", out=out, jobs=1, **settings)
    assert str(raised.value) == f"1 of 2 trainings failed: {LABELS[0]}: no room (log: {log})"
    assert "failed: no room" in log.read_text()
    assert (out / "runs" / LABELS[1] / "test.json").is_file()
    record, _ = compare("dates", out=out, jobs=1, resume=True, **settings)
    assert [model.name for model in record.models] == list(MODELS)


def wait_for(words: str, said: StringIO) -> None:
    until = time.monotonic() + LIMIT
    while words not in said.getvalue() and time.monotonic() < until:
        time.sleep(0.02)
    assert words in said.getvalue()


def begun(out: Path) -> Logs:
    """Where trainings write that have not begun."""
    logs = Logs(out)
    logs.path.mkdir(parents=True)
    return logs


def test_the_live_table_of_a_terminal(tmp_path: Path) -> None:
    logs, said = begun(tmp_path), StringIO()
    console = Console(file=said, force_terminal=True, width=100, highlight=False)
    with View(logs, dict.fromkeys(LABELS, 1.0), 1, console):
        write(logs.file(LABELS[0]), Progress(7, step=30, steps=40, seconds=3.0, loss=1.5, speed=1234.0))
        wait_for("loss 1.500  1,234 tokens/s", said)
        assert "all trainings" in said.getvalue()
        assert "0 of 2 done, about 5 s left" in said.getvalue()
        write(logs.file(LABELS[0]), Progress(7, step=40, steps=40, seconds=4.0, loss=0.5, speed=1234.0))
        wait_for("loss 0.500  testing", said)
        logs.log(LABELS[0]).write_text(f"a note\n{LABELS[0]} 1/2  loss 2\n{LABELS[0]} 2/2  loss 1\n")
        wait_for("a note", said)
        before = len(said.getvalue())
        write(logs.file(LABELS[0]), Progress(7, state="done", step=40, steps=40, seconds=4.0))
        wait_for(f"{LABELS[0]} 2/2  loss 1", said)
        wait_for("1 of 2 done, about 4 s left", said)
    assert f"{LABELS[0]} 1/2" not in said.getvalue()  # for the log
    assert "testing" not in said.getvalue()[before:].rpartition("1 of 2 done")[2]  # the row of what is done is gone


def test_bars_are_live_in_a_terminal_and_not_in_a_notebook(tmp_path: Path) -> None:
    for jupyter in (False, True):
        console = Console(file=StringIO(), force_terminal=True, force_jupyter=jupyter)
        view = View(Logs(tmp_path), dict.fromkeys(LABELS, 1.0), 1, console)
        assert view.is_live is not jupyter
        assert view.bars.disable is jupyter


def test_plain_lines_where_there_is_no_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "_SAID", 0.0)
    logs, said = begun(tmp_path), StringIO()
    with View(logs, dict.fromkeys(LABELS, 1.0), 2, Console(file=said, highlight=False)):
        write(logs.file(LABELS[1]), Progress(7, step=10, steps=40, seconds=100.0))
        wait_for(f"trainings: 0 of 2 done, about 6 min left; {LABELS[1]} 25%\n", said)
        logs.log(LABELS[1]).write_text(f"{LABELS[1]} 1/2  loss 2\n{LABELS[1]}: failed: no room\nTraceback\n  more\n")
        write(logs.file(LABELS[1]), Progress(7, state="failed", reason="no room"))
        wait_for("1 of 2 done", said)
    assert f"{LABELS[1]}: failed: no room\n{LABELS[1]} 1/2  loss 2\n" in said.getvalue()
    assert "Traceback" not in said.getvalue()  # for the log


def test_a_small_budget_takes_its_share_of_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "_SAID", 0.0)
    logs, said = begun(tmp_path), StringIO()
    left = {"a-seed0-budget0.25": 0.25, "a-seed0": 1.0, "a-seed1-budget0.25": 0.25}
    with View(logs, left, 1, Console(file=said, highlight=False)):
        write(logs.file("a-seed0-budget0.25"), Progress(7, state="done", step=10, steps=10, seconds=20.0))
        wait_for("1 of 3 done, about 2 min left", said)  # 80 seconds and 20
