"""Curves for TensorBoard, and the line that says what to install where it is not there."""

import sys
from pathlib import Path
from unittest.mock import Mock, call

import pytest

from selfattn.errors import UserError
from selfattn.training.observer import EpochReport, StepReport, TensorBoardObserver

REPORT = EpochReport(1, 20, 3, 4.0, 5.0, 6.0, 7.0, 8.0, {"bleu": 0.5})


@pytest.fixture
def writer(monkeypatch: pytest.MonkeyPatch) -> Mock:
    """TensorBoard's class of writers."""
    module = Mock()
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", module)
    return module.SummaryWriter  # type: ignore[no-any-return]  # a mock


def watch(observer: TensorBoardObserver) -> None:
    with observer:
        for step in range(1, 21):
            observer.stepped(StepReport(1, step, 20, step / 2, 0.1, 9.0))
        observer.validated(REPORT, None, True)  # type: ignore[arg-type]  # the model is not read


def test_points_of_steps_and_validations(tmp_path: Path, writer: Mock) -> None:
    watch(TensorBoardObserver(tmp_path / "curves"))
    writer.assert_called_once_with(str(tmp_path / "curves"))
    values = [(step, {"loss": step / 2, "lr": 0.1, "tokens_per_second": 9.0}) for step in (10, 20)]
    steps = [call(f"train/{name}", value, step) for step, curves in values for name, value in curves.items()]
    validations = [call("valid/bleu", 0.5, 20), call("valid/loss", 6.0, 20)]
    assert writer.return_value.add_scalar.call_args_list == steps + validations
    writer.return_value.close.assert_called_once_with()


def test_a_resumed_training_takes_back_what_comes_again(tmp_path: Path, writer: Mock) -> None:
    observer = TensorBoardObserver(tmp_path)
    observer.resumed(7, (REPORT,), None)  # type: ignore[arg-type]  # the model is not read
    watch(observer)
    writer.assert_called_once_with(str(tmp_path), purge_step=8)


def test_where_it_is_not_installed_it_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(UserError, match=r"^TensorBoard is not installed: pip install 'selfattn\[tensorboard\]'$"):
        TensorBoardObserver(tmp_path)
