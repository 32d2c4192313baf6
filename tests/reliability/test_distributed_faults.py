"""A process, or a host, of a training on several dies: the others say so and end, and the same command goes on."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import training_parts as parts
from two_hosts import ADDRESSES, HOSTS, hosts

from selfattn.training.config import TrainingConfig

__all__ = ["hosts"]
pytestmark = [
    pytest.mark.usefixtures("one_thread"),
    pytest.mark.reliability,
    pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc"),
]
PROGRAM = Path(__file__).parents[1] / "fixtures" / "training_parts.py"
SETTINGS = json.dumps(asdict(TrainingConfig(epochs=60, batch_size=4, lr=0.01)))
TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
LIMIT = 60.0  # seconds in which everybody knows, also on a machine that has other things to do


@contextmanager
def started(
    out: Path, *before: str, launch: list[str] | None = None, **settings: str
) -> Iterator[subprocess.Popen[str]]:
    """Train in a process of its own, or in two that torchrun starts."""
    kept = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE", "LOCAL_RANK")}
    command = [*before, sys.executable, *(launch or []), str(PROGRAM), str(out), SETTINGS, "20"]
    environment = kept | {"OMP_NUM_THREADS": "1"} | settings
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_for_step(process: subprocess.Popen[str], step: int) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if int(line) >= step:
            return
    raise AssertionError(process.communicate(timeout=LIMIT)[1])


def said_within_limit(process: subprocess.Popen[str], since: float) -> str:
    """Wait for the end of a process; what it said, which is why."""
    _, said = process.communicate(timeout=LIMIT)
    print(f"ended with {process.returncode} after {time.monotonic() - since:.1f} s")
    assert process.returncode != 0
    return said


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What two processes come to that nothing happens to."""
    out = tmp_path_factory.mktemp("whole") / "run"
    with started(out, launch=TORCHRUN) as process:
        _, said = process.communicate(timeout=5 * LIMIT)
    assert process.returncode == 0, said
    return parts.outcome(out)


def process_of(rank: int, torchrun: int) -> int:
    """The number of the process that torchrun calls by this rank."""
    children = Path(f"/proc/{torchrun}/task/{torchrun}/children").read_text().split()
    wanted = f"RANK={rank}".encode()
    return next(int(one) for one in children if wanted in Path(f"/proc/{one}/environ").read_bytes().split(b"\0"))


@pytest.mark.parametrize("victim", [0, 1])
def test_a_process_of_torchrun_is_killed(tmp_path: Path, whole: dict[str, Any], victim: int) -> None:
    with started(tmp_path / "run", launch=TORCHRUN) as process:
        wait_for_step(process, 60)
        os.kill(process_of(victim, process.pid), 9)
        since = time.monotonic()
        assert "Signal 9 (SIGKILL)" in said_within_limit(process, since)
    with started(tmp_path / "run", launch=TORCHRUN) as process:
        assert process.stdout is not None
        assert int(process.stdout.readline()) > 20, "not gone on with from a checkpoint"
        _, said = process.communicate(timeout=5 * LIMIT)
    assert process.returncode == 0, said
    assert parts.outcome(tmp_path / "run") == whole


def on_both(stack: ExitStack, out: Path) -> list[subprocess.Popen[str]]:
    """Start one process on each host."""
    meeting = {"WORLD_SIZE": "2", "MASTER_ADDR": ADDRESSES[0], "MASTER_PORT": "29513"}
    return [
        stack.enter_context(
            started(out, "ip", "netns", "exec", host, RANK=str(rank), GLOO_SOCKET_IFNAME=end, **meeting)
        )
        for rank, (host, end) in enumerate(zip(HOSTS, ("cable-a", "cable-b"), strict=True))
    ]


@pytest.mark.parametrize("fault", ["host a dies", "host b dies", "the cable is pulled"])
def test_a_host_dies(hosts: None, tmp_path: Path, whole: dict[str, Any], fault: str) -> None:
    for host in HOSTS:  # how often TCP sends again before it gives up: 15 times as a rule, which takes 15 minutes
        settings = ["ip", "netns", "exec", host, "sysctl", "-qw", "net.ipv4.tcp_retries2=3"]
        subprocess.run(settings, check=True)
    cable = ["ip", "-n", HOSTS[1], "link", "set", "cable-b"]
    with ExitStack() as stack:
        both = on_both(stack, tmp_path / "run")
        wait_for_step(both[0], 60)
        since = time.monotonic()
        if fault == "the cable is pulled":
            subprocess.run([*cable, "down"], check=True)
            left = both
        else:
            both[fault == "host b dies"].kill()
            left = [both[fault == "host a dies"]]
        for process in left:
            assert "torch.distributed: another process is gone (" in said_within_limit(process, since)
    subprocess.run([*cable, "up"], check=True)
    with ExitStack() as stack:
        both = on_both(stack, tmp_path / "run")
        for process in both:
            _, said = process.communicate(timeout=5 * LIMIT)
            assert process.returncode == 0, said
    assert parts.outcome(tmp_path / "run") == whole
