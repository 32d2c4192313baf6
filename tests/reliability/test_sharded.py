"""Two processes, of which each keeps a part of the model, do what one process does with all of it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import sharded_program as program
import torch

from selfattn.errors import UserError
from selfattn.runs.directory import RunDirectory
from selfattn.runs.run import load
from selfattn.runs.train import TrainOptions
from selfattn.training.distributed import sharding
from selfattn.training.distributed.processes import Processes

pytestmark = [
    pytest.mark.usefixtures("one_thread"),
    pytest.mark.skipif(torch.__version__ < sharding._TORCH, reason="training in parts asks for a newer torch"),
]
PROGRAM = Path(__file__).parents[1] / "fixtures" / "sharded_program.py"


def start(part: str, folder: Path) -> list[tuple[int, str]]:
    """Run the program as two processes that nobody watches over; what each left with and said."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    common = os.environ | {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    started = [
        subprocess.Popen(
            [sys.executable, str(PROGRAM), part, str(folder)],
            env=common | {"RANK": str(rank), "OMP_NUM_THREADS": "1"},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    said = [one.communicate(timeout=300)[1] for one in started]
    return [(one.returncode, text) for one, text in zip(started, said, strict=True)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("sharded")
    for code, said in start("all", place):
        assert code == 0, said
        assert "Warning" not in said
    return place


@pytest.fixture(scope="module")
def found(folder: Path) -> list[dict[str, Any]]:
    return [json.loads((folder / f"rank{rank}.json").read_text()) for rank in range(2)]


@pytest.fixture(scope="module")
def alone() -> dict[str, Any]:
    return program.trained(Processes(), None)


@pytest.mark.parametrize("name", list(program.steady_models()))
def test_parts_learn_what_one_process_learns(name: str, found: list[dict[str, Any]], alone: dict[str, Any]) -> None:
    first, second = (one["trained"][name] for one in found)
    expected = alone[name]
    assert first["losses"] == pytest.approx(expected["losses"], rel=1e-9)  # in float64
    assert first["weights"] == second["weights"]  # bit for bit
    assert list(first["weights"]) == list(expected["weights"])
    for key, weights in expected["weights"].items():
        torch.testing.assert_close(torch.tensor(first["weights"][key]), torch.tensor(weights), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", list(program.steady_models()))
def test_each_process_holds_half(name: str, found: list[dict[str, Any]]) -> None:
    first, second = (one["sizes"][name] for one in found)
    whole = first["whole"]
    for what in ("weights", "gradients", "first moments", "second moments"):
        held = [first[what], second[what]]
        # Rows are not cut: an odd number of them gives one process a row more, and the other a row of padding.
        assert sum(held) == whole if "moments" in what else sum(held) >= whole
        assert max(held) < 0.6 * whole, what
    assert [first["kept"], second["kept"]] == [whole, 0]  # what is validated and written, in the first alone


def test_a_training_goes_on_to_the_bit(found: list[dict[str, Any]]) -> None:
    assert found[0]["resumed"] is True


def check_curve(found: list[dict[str, Any]], expected: list[dict[str, Any]]) -> None:
    """Two learning curves in float32, up to the order in which numbers are added."""
    assert [line["step"] for line in found] == [line["step"] for line in expected] == [3, 6, 9]
    for one, two in zip(expected, found, strict=True):
        for name in one.keys() - {"seconds", "tokens_per_second"}:
            assert two[name] == pytest.approx(one[name], rel=1e-3), name


def test_one_process_goes_on_from_a_checkpoint_of_two(folder: Path, found: list[dict[str, Any]]) -> None:
    program.fit_small(folder / "half", program.CURVE, model=program.CURVE_MODEL, resume=True)
    check_curve([one.to_line() for one in RunDirectory(folder / "half").metrics()], found[0]["curve"])


def test_the_run_is_one_like_any_other(folder: Path, found: list[dict[str, Any]], tmp_path: Path) -> None:
    program.fit_small(tmp_path / "alone", program.CURVE, model=program.CURVE_MODEL)
    check_curve(found[0]["curve"], [one.to_line() for one in RunDirectory(tmp_path / "alone").metrics()])
    run, whole = load(folder / "curve"), load(tmp_path / "alone")
    assert run.predict(["abc", "i"]) == whole.predict(["abc", "i"])
    assert [w.shape for w in run.model.parameters()] == [w.shape for w in whole.model.parameters()]


def test_one_process_has_nothing_to_share_out(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="sharded: one process has nothing to share out; start several"):
        program.fit_small(tmp_path / "run", program.CURVE, sharded=True)
    assert not (tmp_path / "run").exists()
    with pytest.raises(UserError, match="`sharded`: one process has nothing to share out; start several"):
        TrainOptions(out=tmp_path / "run", sharded=True)


def test_processes_that_were_started_differently_say_so(tmp_path: Path) -> None:
    for code, said in start("differs", tmp_path):
        assert code == 2
        assert said == "error: torchrun: the processes differ in settings or data; start all of them with the same\n"
    assert not (tmp_path / "run").exists()


def test_a_process_that_lost_the_other_says_so_in_one_line(tmp_path: Path) -> None:
    (killed, _), (code, said) = start("killed", tmp_path)
    assert (killed, code) == (-9, 2)
    assert said.startswith("error: torch.distributed: another process is gone (")
    assert said.endswith("see what it said, and start all with --resume\n")
    assert said.count("\n") == 1
