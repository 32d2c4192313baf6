"""Observers of `train`: what they are told, and that they can stop a training."""

from pathlib import Path
from typing import Any

import pytest
from documented import program
from small_runs import Train

import selfattn
from selfattn.errors import SettingError
from selfattn.runs.directory import RunDirectory
from selfattn.training.observer import EpochReport, Observer, StepReport, StopTraining


class Diary(Observer):
    """Notes its calls; stops at one of them."""

    def __init__(self, stop_at: str = "") -> None:
        self.calls: list[str] = []
        self.stop_at = stop_at

    def note(self, call: str) -> None:
        self.calls.append(call)
        if call == self.stop_at:
            raise StopTraining

    def started(self, epochs: int | None, steps: int) -> None:
        self.note("started")

    def stepped(self, report: StepReport) -> None:
        self.note(f"step {report.step}")

    def validated(self, report: EpochReport, model: Any, is_best: bool) -> None:
        self.note(f"validated {report.step}")

    def ended(self, status: str, reports: tuple[EpochReport, ...], model: Any) -> None:
        assert not model.training
        self.note(f"{status} {len(reports)}")


FULL = ["started", *[f"step {k}" for k in range(1, 6)], "validated 5", *[f"step {k}" for k in range(6, 11)]]


@pytest.mark.parametrize(
    ("stop_at", "calls", "status"),
    [
        ("", [*FULL, "validated 10", "finished 2"], "finished"),
        ("step 3", [*FULL[:4], "validated 3", "stopped by an observer 1"], "stopped by an observer"),
        ("validated 5", [*FULL[:7], "stopped by an observer 1"], "stopped by an observer"),
        ("started", [*FULL[:2], "validated 1", "stopped by an observer 1"], "stopped by an observer"),
        ("finished 2", [*FULL, "validated 10", "finished 2"], "finished"),
    ],
)
def test_an_observer_stops_a_training_and_the_run_says_so(
    train: Train, tmp_path: Path, stop_at: str, calls: list[str], status: str
) -> None:
    first = Diary(stop_at)
    second = Diary()
    run = train("rnn-plain", tmp_path / "run", observers=[first, second])
    assert first.calls == second.calls == calls
    assert RunDirectory(run.path).record().status == status
    assert len(selfattn.load(run.path).predict(["1 May 1999"])) == 1


def test_a_stopped_run_is_over(train: Train, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train("rnn-plain", tmp_path / "run", observers=[Diary("step 2")])
    again = Diary()
    train("rnn-plain", tmp_path / "run", observers=[again], resume=True)
    assert again.calls == []
    assert "this run is finished (stopped by an observer)" in capsys.readouterr().err


@pytest.mark.parametrize("observers", [None, Diary(), [print], [Diary]])
def test_what_is_no_observer_is_refused(train: Train, tmp_path: Path, observers: Any) -> None:
    with pytest.raises(SettingError, match=r"^`observers`: expected a list of selfattn.Observer objects, got "):
        train("rnn-plain", tmp_path / "run", observers=observers)


def test_the_observer_of_the_how_to(train: Train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page's program, with a small training."""

    def train_small(task: str, *, model: str, out: str, observers: list[Any]) -> selfattn.Run:
        return train(model, tmp_path / out, observers=observers)

    monkeypatch.setattr(selfattn, "train", train_small, raising=False)
    names: dict[str, Any] = {"__name__": "page"}
    exec(program("extend.md", "observer"), names)
    assert len(names["curve"].losses) == 10
