"""Threads and precision of a training: one and float32, what was asked for or recorded, or what timed steps show."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from small_runs import Cli, Train
from torch import Tensor

from selfattn.data.batches import Batch, collate
from selfattn.data.examples import Example
from selfattn.models.build import build
from selfattn.models.presets import PRESETS
from selfattn.runs.directory import RunDirectory
from selfattn.training import precision
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
    """Let a step with one thread, and one in float32, take so many times as long as with two and in bfloat16."""

    def keep(times: float) -> None:
        now = [0.0]

        class Timed:
            @staticmethod
            def perf_counter() -> float:
                return now[0]

        def step(self: Any, group: object, *_: object, **__: object) -> None:
            now[0] += times if torch.get_num_threads() == 1 and self.config.precision == "float32" else 1.0

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


@pytest.mark.parametrize(("times", "chosen"), [(0.7, "float32"), (1.29, "float32"), (1.31, "bfloat16")])
def test_bfloat16_has_to_be_clearly_faster(
    monkeypatch: pytest.MonkeyPatch, clock: Callable[[float], None], times: float, chosen: str
) -> None:
    """And where products in it are not, no step is timed; nor are those of an RNN, which needs its 32 bits."""
    clock(times)
    for name, is_made_for_it, expected in (
        ("transformer", True, chosen),
        ("transformer", False, "float32"),
        ("rnn-plain", True, "float32"),
        ("bahdanau-gru", True, "float32"),
    ):
        model = build(PRESETS[name].config, vocab_size=11, pad_id=0, seed=0)
        monkeypatch.setattr(precision, "multiplies_in_bfloat16", lambda made=is_made_for_it: made)
        assert precision.faster_precision(model, group(), CONFIG) == expected


@pytest.mark.parametrize("times", [1.2, 1.4])
def test_a_processor_multiplies_in_bfloat16_where_products_are_clearly_faster(
    monkeypatch: pytest.MonkeyPatch, times: float
) -> None:
    """The least of some times counts: one that was disturbed says nothing."""
    now, chance = [0.0], iter([9.0, *[0.0] * 9] * 2)

    def product(one: Tensor, _: Tensor) -> None:
        now[0] += next(chance) + (times if one.dtype == torch.float32 else 1.0)

    monkeypatch.setattr(precision, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    monkeypatch.setattr(precision.torch, "mm", product)
    assert precision.multiplies_in_bfloat16.__wrapped__() == (times > 1.3)


def test_the_settings_say_in_what_a_run_was_trained_and_going_on_keeps_it(
    monkeypatch: pytest.MonkeyPatch, train: Train, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[str] = []

    def measured(model: Any, group: Any, config: TrainingConfig) -> str:
        asked.append(config.precision)
        return "bfloat16"

    monkeypatch.setattr("selfattn.runs.fit.faster_precision", measured)

    def recorded(name: str, **changes: object) -> object:
        train("rnn-plain", tmp_path / name, **changes)
        return RunDirectory(tmp_path / name).config().training.precision

    assert recorded("given", precision="float32") == "float32"
    assert not asked
    assert "bfloat16" not in capsys.readouterr().err
    assert recorded("measured") == "bfloat16"
    assert asked == ["float32"]
    assert "--precision float32 overrules" in capsys.readouterr().err
    (tmp_path / "measured" / "last" / "checkpoint.safetensors").unlink()
    RunDirectory(tmp_path / "measured").update(status="interrupted")
    assert recorded("measured", resume=True) == "bfloat16"
    assert asked == ["float32"]


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
