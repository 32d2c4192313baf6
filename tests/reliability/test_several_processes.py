"""Processes that train together do what one does alone, and when one of them, or its host, dies, the others say so.

A host is a network namespace; the same command goes on where it was killed.
"""

import json
import os
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path

import parallel_program as program
import pytest
import torch
import training_parts as parts
from two_hosts import ADDRESSES, HOSTS, hosts

from selfattn.distributed import Processes
from selfattn.runs.directory import RunDirectory
from selfattn.training.config import TrainingConfig

__all__ = ["hosts"]
FIXTURES = Path(__file__).parents[1] / "fixtures"
TIMES = ("seconds", "tokens_per_second")
LIMIT = 60.0  # seconds in which everybody knows, also on a machine that has other things to do
ENDS = dict(zip(HOSTS, ("cable-a", "cable-b"), strict=True))


@contextmanager
def started(*command, before=(), **settings):
    """Start Python in a process of its own, perhaps on one of the hosts."""
    kept = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE", "LOCAL_RANK")}
    words, pipes = [*before, sys.executable, *command], dict.fromkeys(("stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen(words, env=kept | {"OMP_NUM_THREADS": "1"} | settings, text=True, **pipes) as process:
        try:
            yield process
        finally:
            process.kill()


def end_well(*processes):
    said = [process.communicate(timeout=5 * LIMIT)[1] for process in processes]
    assert [process.returncode for process in processes] == [0] * len(processes), "\n".join(said)


def check_curve(found, folder):
    """The curve of two processes is that of one, up to the order in which float32 numbers are added."""
    program.fit_small(folder / "alone", program.CURVE, model=program.CURVE_MODEL)
    alone = [report.to_line() for report in RunDirectory(folder / "alone").metrics()]
    assert [line["step"] for line in found["curve"]] == [line["step"] for line in alone] == [3, 6, 9]
    for one, two in zip(alone, found["curve"], strict=True):
        for name in one:
            if name not in TIMES:
                assert two[name] == pytest.approx(one[name], rel=1e-3), name


def check_validations(first, second):
    """Each process validates half of the batches, and the sum is that of one process."""
    found = program.validated(Processes())
    assert found["computed"] == [6, 4]
    assert [one["validated"]["computed"] for one in (first, second)] == [[3, 2], [3, 2]]
    for one in (first, second):
        assert one["validated"]["loss"] == found["loss"]  # to the bit
        assert one["validated"]["outputs"] == found["outputs"]
    status, validations, weights = program.stopped(Processes())
    assert (status, validations) == ("stopped early", 4)
    assert first["stopped"] == second["stopped"]
    assert first["stopped"][:2] == [status, validations]
    for one, two in zip(weights, first["stopped"][2], strict=True):
        torch.testing.assert_close(torch.tensor(two), torch.tensor(one), rtol=1e-6, atol=1e-7)  # in float64


@pytest.mark.slow
def test_two_processes_do_what_one_does(processes, tmp_path):
    port = parts.free_port()
    both = [processes.Process(target=program.as_one_of_two, args=(rank, port, tmp_path)) for rank in range(2)]
    for process in both:
        process.start()
    for process in both:
        process.join(300)
    said = "".join((tmp_path / f"said{rank}").read_text() for rank in range(2))
    assert [process.exitcode for process in both] == [0, 0], said
    assert "Warning" not in said
    first, second = [json.loads((tmp_path / f"rank{rank}.json").read_text()) for rank in range(2)]
    assert first["count"] == second["count"] == 2
    assert first["weights"] == second["weights"]  # bit for bit
    check_curve(first, tmp_path)
    check_validations(first, second)
    alone = program.losses_of_presets(Processes())
    for name, expected in alone.items():  # in float64
        assert first["presets"][name] == pytest.approx(expected, rel=1e-6), name
        assert second["presets"][name] == first["presets"][name][-1:], name  # it hears nothing and has the weights
    assert first["resumed"] is True
    assert sorted(path.name for path in (tmp_path / "curve").iterdir()) == [
        ".lock", "config.json", "last", "metrics.jsonl", "model.safetensors", "run.json", "tokenizer",
    ]  # fmt: skip
    # Each said what it had to say once.
    assert [said.count(progress) for progress in ("transformer 2/2", "no-dropout 3/3")] == [2, 1]


def test_one_process_decides_and_adds_up_alone():
    alone = Processes()
    assert (alone.sum(0.5), alone.decide("stop")) == (0.5, "stop")
    alone.check_same("settings")


dying = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")
TWO = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]


def fit(out):
    """The program that trains, with a checkpoint every 20 steps."""
    settings = json.dumps(asdict(TrainingConfig(epochs=60, batch_size=4, lr=0.01)))
    return [str(FIXTURES / "training_parts.py"), str(out), settings, "20"]


def wait_for_step(process, step):
    for line in process.stdout:
        if int(line) >= step:
            return
    raise AssertionError(process.communicate(timeout=LIMIT)[1])


def said_within_limit(process):
    """Wait for the end of a process; what it said, which is why."""
    _, said = process.communicate(timeout=LIMIT)
    assert process.returncode != 0
    return said


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """What two processes come to that nothing happens to."""
    out = tmp_path_factory.mktemp("whole") / "run"
    with started(*TWO, *fit(out)) as process:
        end_well(process)
    return parts.outcome(out)


def process_of(rank, torchrun):
    """The number of the process that torchrun calls by this rank."""
    children = Path(f"/proc/{torchrun}/task/{torchrun}/children").read_text().split()
    wanted = f"RANK={rank}".encode()
    return next(int(one) for one in children if wanted in Path(f"/proc/{one}/environ").read_bytes().split(b"\0"))


@dying
@pytest.mark.reliability
@pytest.mark.parametrize("victim", [0, 1])
def test_a_process_of_torchrun_is_killed(tmp_path, whole, victim):
    command = [*TWO, *fit(tmp_path / "run")]
    with started(*command) as process:
        wait_for_step(process, 60)
        os.kill(process_of(victim, process.pid), 9)
        assert "Signal 9 (SIGKILL)" in said_within_limit(process)
    with started(*command) as process:
        assert int(process.stdout.readline()) > 20, "not gone on with from a checkpoint"
        end_well(process)
    assert parts.outcome(tmp_path / "run") == whole


def on_both(stack, out):
    """Start one process on each host."""
    meeting = {"WORLD_SIZE": "2", "MASTER_ADDR": ADDRESSES[0], "MASTER_PORT": "29513"}
    for rank, (host, end) in enumerate(ENDS.items()):
        settings = meeting | {"RANK": str(rank), "GLOO_SOCKET_IFNAME": end}
        yield stack.enter_context(started(*fit(out), before=("ip", "netns", "exec", host), **settings))


@dying
@pytest.mark.reliability
@pytest.mark.parametrize("fault", ["host a dies", "host b dies", "the cable is pulled"])
def test_a_host_dies(hosts, tmp_path, whole, fault):
    for host in HOSTS:  # how often TCP sends again before it gives up: 15 times as a rule, which takes 15 minutes
        settings = ["ip", "netns", "exec", host, "sysctl", "-qw", "net.ipv4.tcp_retries2=3"]
        subprocess.run(settings, check=True)
    cable = ["ip", "-n", HOSTS[1], "link", "set", ENDS[HOSTS[1]]]
    with ExitStack() as stack:
        left = both = list(on_both(stack, tmp_path / "run"))
        wait_for_step(both[0], 60)
        if fault == "the cable is pulled":
            subprocess.run([*cable, "down"], check=True)
        else:
            both[fault == "host b dies"].kill()
            left = [both[fault == "host a dies"]]
        for process in left:
            assert "torch.distributed: another process is gone (" in said_within_limit(process)
    subprocess.run([*cable, "up"], check=True)
    with ExitStack() as stack:
        end_well(*on_both(stack, tmp_path / "run"))
    assert parts.outcome(tmp_path / "run") == whole
