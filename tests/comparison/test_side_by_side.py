"""Trainings side by side: the same bits however many go on at once; a process that dies or is stopped loses nothing."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack

import pytest

from selfattn.comparison import trainings
from selfattn.comparison.compare import compare
from selfattn.errors import UserError
from selfattn.experiments.progress import Logs
from selfattn.runs.directory import CHECKPOINT, RunDirectory

MODELS = ("rnn-plain", "rnn-attention")
LABELS = ("rnn-plain-seed0", "rnn-attention-seed0")
SETTINGS = {
    "models": MODELS, "quick": True, "test_items": 8, "set": ("encoder.hidden_dim=8", "decoder.hidden_dim=8"),
    "apart": True, "epochs": 2, "items_per_epoch": 800, "batch_size": 8, "validation_items": 5,
}  # fmt: skip
OPTIONS = (
    "compare dates --models rnn-plain,rnn-attention --quick --test-items 8 --set encoder.hidden_dim=8 --set "
    "decoder.hidden_dim=8 --apart --epochs 2 --items-per-epoch 800 --batch-size 8 --validation-items 5 --out"
)
LIMIT = 300  # seconds, on a machine that has other things to do


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        yield


def weights(out):
    return {label: (out / "runs" / label / "model.safetensors").read_bytes() for label in LABELS}


@pytest.fixture(scope="module")
def one_after_the_other(tmp_path_factory):
    """The weights of a comparison whose trainings were done in this process, with one thread."""
    out = tmp_path_factory.mktemp("alone") / "out"
    compare("dates", out=out, jobs=1, **SETTINGS)
    return weights(out)


@pytest.fixture
def started():
    """Start a comparison into a directory."""
    with ExitStack() as stack:

        def start(out, *options):
            command = [sys.executable, "-m", "selfattn.cli", *OPTIONS.split(), str(out), *map(str, options)]
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            stack.callback(process.communicate)
            stack.callback(process.kill)
            return process

        yield start


def frozen(out, process, behind="run.json"):
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


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["local", "ray"])
def test_a_worker_is_killed_and_its_training_goes_on(started, one_after_the_other, tmp_path, backend):
    if backend == "ray":
        pytest.importorskip("ray")
    out = tmp_path / "out"
    process = started(out, "--backend", backend, "--jobs", 2)
    label, progress = frozen(out, process)
    assert progress.pid != process.pid
    os.kill(progress.pid, signal.SIGKILL)
    _, printed = process.communicate(timeout=LIMIT)
    assert process.returncode == 0, printed
    assert backend == "ray" or f"{label}: stopped when a process died (SIGKILL(-9)" in printed
    assert "Traceback" not in printed or backend == "ray"
    assert weights(out) == one_after_the_other
    for label in LABELS:
        assert f"{label} 2/2" in Logs(out).log(label).read_text()


@pytest.mark.slow
@pytest.mark.parametrize("asked", [signal.SIGINT, signal.SIGTERM])
def test_stopped_politely_and_gone_on_with(started, one_after_the_other, tmp_path, asked):
    out = tmp_path / "out"
    process = started(out, "--jobs", 2)
    label, found = frozen(out, process)
    process.send_signal(asked)
    while not Logs(out).stop.exists() and process.poll() is None:
        time.sleep(0.02)
    os.kill(found.pid, signal.SIGCONT)
    _, said = process.communicate(timeout=LIMIT)
    assert process.returncode == 130, said
    assert "repeat the command with --resume" in said
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
def test_a_worker_of_a_dask_cluster_is_killed(started, one_after_the_other, tmp_path):
    pytest.importorskip("distributed")
    (tmp_path / "cluster.py").write_text(DASK)
    out = tmp_path / "out"
    with subprocess.Popen(
        [sys.executable, tmp_path / "cluster.py"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as cluster:
        address = cluster.stdout.readline().strip()
        process = started(out, "--backend", "dask", "--address", address)
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
    assert RunDirectory(out / "runs" / label).record().resumed, "not gone on with from the checkpoint"
    assert weights(out) == one_after_the_other


@pytest.mark.usefixtures("no_page")
def test_one_training_fails_and_the_others_are_done(tmp_path, monkeypatch):
    out, log, own = tmp_path / "out", Logs(tmp_path / "out").log(LABELS[0]), trainings.fit
    settings = {**SETTINGS, "epochs": 1, "items_per_epoch": 64}

    def fit(config, data, path, **given):
        if path.name == LABELS[0]:
            raise UserError("no space")
        return own(config, data, path, **given)

    with monkeypatch.context() as patch:
        patch.setattr(trainings, "fit", fit)
        with pytest.raises(UserError) as raised:
            compare("dates", out=out, jobs=1, **settings)
    assert str(raised.value) == f"1 of 2 trainings failed: {LABELS[0]}: no space (log: {log})"
    assert "failed: no space" in log.read_text()
    assert (out / "runs" / LABELS[1] / "test.json").is_file()
    record, _ = compare("dates", out=out, jobs=1, resume=True, **settings)
    assert [model.name for model in record.models] == list(MODELS)
