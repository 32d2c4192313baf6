"""Two processes that train together do what one does alone; on one host, and on two that are network namespaces."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import parallel_program as program
import pytest
import torch
from training_parts import free_port
from two_hosts import ADDRESSES, HOSTS, hosts

from selfattn.runs.directory import RunDirectory
from selfattn.training.distributed import Processes

if TYPE_CHECKING:
    from multiprocessing.context import ForkServerContext

__all__ = ["hosts"]
pytestmark = pytest.mark.usefixtures("one_thread")
PROGRAM = Path(__file__).parents[1] / "fixtures" / "parallel_program.py"
TIMES = ("seconds", "tokens_per_second")


def environment(**changes: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE", "LOCAL_RANK")}
    return kept | {"OMP_NUM_THREADS": "1"} | changes


def results(folder: Path) -> list[dict[str, Any]]:
    found = [json.loads((folder / f"rank{rank}.json").read_text()) for rank in range(2)]
    assert [one["count"] for one in found] == [2, 2]
    assert found[0]["weights"] == found[1]["weights"]  # bit for bit
    return found


def check_curve(found: dict[str, Any], folder: Path) -> None:
    """The curve of two processes is that of one, up to the order in which float32 numbers are added."""
    program.fit_small(folder / "alone", program.CURVE, model=program.CURVE_MODEL)
    alone = [report.to_line() for report in RunDirectory(folder / "alone").metrics()]
    assert [line["step"] for line in found["curve"]] == [line["step"] for line in alone] == [3, 6, 9]
    for one, two in zip(alone, found["curve"], strict=True):
        for name in one:
            if name not in TIMES:
                assert two[name] == pytest.approx(one[name], rel=1e-3), name


def check_validations(first: dict[str, Any], second: dict[str, Any]) -> None:
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
def test_two_processes_do_what_one_does(processes: ForkServerContext, tmp_path: Path) -> None:
    port = free_port()
    both = [processes.Process(target=program.as_one_of_two, args=(rank, port, tmp_path)) for rank in range(2)]
    for process in both:
        process.start()
    for process in both:
        process.join(300)
    said = "".join((tmp_path / f"said{rank}").read_text() for rank in range(2))
    assert [process.exitcode for process in both] == [0, 0], said
    assert "Warning" not in said
    first, second = results(tmp_path)
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


def test_one_process_decides_and_adds_up_alone() -> None:
    alone = Processes()
    assert (alone.sum(0.5), alone.decide("stop")) == (0.5, "stop")
    alone.check_same("settings")


@pytest.mark.slow
def test_two_hosts_do_what_one_does(hosts: None, tmp_path: Path) -> None:
    processes = []
    for rank, (name, end) in enumerate(zip(HOSTS, ("cable-a", "cable-b"), strict=True)):
        command = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", "1"]
        command += ["--node-rank", str(rank), "--master-addr", ADDRESSES[0], "--master-port", "29513"]
        processes.append(
            subprocess.Popen(
                ["ip", "netns", "exec", name, *command, str(PROGRAM), "curve", str(tmp_path)],
                env=environment(GLOO_SOCKET_IFNAME=end),
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    errors = [process.communicate(timeout=300)[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], "\n".join(errors)
    check_curve(results(tmp_path)[0], tmp_path)
