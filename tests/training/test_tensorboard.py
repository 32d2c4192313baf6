"""Curves for TensorBoard, and the line that says what to install where it is not there."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from selfattn.errors import UserError
from selfattn.training.observer import EpochReport, StepReport, TensorBoardObserver

REPORT = EpochReport(1, 20, 3, 4.0, 5.0, 6.0, 7.0, 8.0, {"bleu": 0.5})


class FakeWriter:
    made: list[FakeWriter] = []  # noqa: RUF012

    def __init__(self, folder: str, purge_step: int | None = None) -> None:
        self.folder, self.purge_step = folder, purge_step
        self.points: list[tuple[str, float, int]] = []
        self.closed = False
        FakeWriter.made.append(self)

    def add_scalar(self, name: str, value: float, step: int) -> None:
        self.points.append((name, value, step))

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> list[FakeWriter]:
    module: Any = ModuleType("torch.utils.tensorboard")
    module.SummaryWriter = FakeWriter
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", module)
    FakeWriter.made.clear()
    return FakeWriter.made


def watch(observer: TensorBoardObserver) -> None:
    with observer:
        for step in range(1, 21):
            observer.stepped(StepReport(1, step, 20, step / 2, 0.1, 9.0))
        observer.validated(REPORT, None, True)  # type: ignore[arg-type]  # the model is not read


def test_points_of_steps_and_validations(tmp_path: Path, fake: list[FakeWriter]) -> None:
    watch(TensorBoardObserver(tmp_path / "curves"))
    (writer,) = fake
    assert (writer.folder, writer.purge_step, writer.closed) == (str(tmp_path / "curves"), None, True)
    steps = [(f"train/{name}", value, step) for step in (10, 20) for name, value in
             (("loss", step / 2), ("lr", 0.1), ("tokens_per_second", 9.0))]  # fmt: skip
    assert writer.points == [*steps, ("valid/bleu", 0.5, 20), ("valid/loss", 6.0, 20)]


def test_a_resumed_training_takes_back_what_comes_again(tmp_path: Path, fake: list[FakeWriter]) -> None:
    observer = TensorBoardObserver(tmp_path)
    observer.resumed(7, (REPORT,), None)  # type: ignore[arg-type]  # the model is not read
    watch(observer)
    assert [writer.purge_step for writer in fake] == [8]


def test_where_it_is_not_installed_it_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(UserError, match=r"^TensorBoard is not installed: pip install 'selfattn\[tensorboard\]'$"):
        TensorBoardObserver(tmp_path)
