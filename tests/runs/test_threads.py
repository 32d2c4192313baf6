"""How many threads a training has: one, what was asked for, what was recorded, or what timed steps show."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from small_runs import Cli, Train

from selfattn.data.batches import Batch, collate
from selfattn.data.examples import Example
from selfattn.models.build import build
from selfattn.models.presets import PRESETS
from selfattn.runs.directory import RunDirectory
from selfattn.training import threads as room
from selfattn.training.config import TrainingConfig
from selfattn.training.threads import faster_threads, threads

CONFIG = TrainingConfig(epochs=1, batch_size=2)


@pytest.fixture
def two() -> Iterator[None]:
    """PyTorch with two threads, as it begins where nobody says how many."""
    with threads(2):
        yield


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Let a step with one thread take so many times as long as with two."""

    def keep(times: float) -> None:
        now = [0.0]

        class Timed:
            @staticmethod
            def perf_counter() -> float:
                return now[0]

        def step(self: object, group: object, *_: object, **__: object) -> None:
            now[0] += times if torch.get_num_threads() == 1 else 1.0

        monkeypatch.setattr(room, "time", Timed)
        monkeypatch.setattr(room.Stepper, "step", step)

    return keep


def group() -> list[Batch]:
    return [collate([Example([5, 6, 2], [7, 2]), Example([6, 2], [5, 2])], 0, 1, [0, 1])]


@pytest.mark.parametrize(("times", "chosen"), [(0.7, 1), (1.29, 1), (1.31, 2), (1.9, 2)])
def test_more_threads_have_to_be_clearly_faster(clock: Callable[[float], None], times: float, chosen: int) -> None:
    clock(times)
    model = build(PRESETS["rnn-plain"].config, vocab_size=11, pad_id=0, seed=0)
    assert faster_threads(model, group(), CONFIG, most=2) == chosen
    assert torch.get_num_threads() == 1
    assert faster_threads(model, group(), CONFIG, most=1) == 1


def test_timing_changes_neither_the_model_nor_chance() -> None:
    model = build(PRESETS["transformer"].config, vocab_size=11, pad_id=0, seed=0).eval()
    before, chance = copy.deepcopy(model.state_dict()), torch.get_rng_state()
    faster_threads(model, group(), CONFIG, most=2)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert torch.equal(torch.get_rng_state(), chance)
    assert not model.training


@pytest.mark.usefixtures("two")
def test_the_record_says_how_many_and_a_training_that_goes_on_keeps_them(
    monkeypatch: pytest.MonkeyPatch, train: Train, tmp_path: Path
) -> None:
    asked: list[int] = []

    def measured(model: Any, group: Any, config: Any, *, most: int) -> int:
        asked.append(most)
        return most

    monkeypatch.setattr("selfattn.runs.fit.faster_threads", measured)

    def recorded(out: Path, **changes: object) -> object:
        train("rnn-plain", out, **changes)
        assert torch.get_num_threads() == 2
        return RunDirectory(out).record().machine["threads"]

    assert recorded(tmp_path / "environment") == 1  # OMP_NUM_THREADS=1 while testing
    assert recorded(tmp_path / "option", threads=2) == 2
    assert not asked
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert recorded(tmp_path / "measured") == 2
    assert asked == [2]
    seen: list[int] = []

    def stopping(self: object, report: object, *_: object) -> None:
        seen.append(torch.get_num_threads())

    monkeypatch.setattr("selfattn.runs.fit._Progress.validated", stopping)
    out = tmp_path / "gone-on"
    assert recorded(out, threads=1, save_every=1) == 1
    for name in ("last/checkpoint.safetensors",):
        (out / name).unlink()
    RunDirectory(out).update(status="interrupted")
    train("rnn-plain", out, resume=True)
    assert set(seen) == {1}
    assert asked == [2]


def test_a_number_of_threads_that_cannot_be_is_one_line(cli: Cli, tmp_path: Path) -> None:
    done = cli("train", "dates", "--quick", "--out", tmp_path / "run", "--threads", "0")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "threads" in done.err
