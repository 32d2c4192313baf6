"""Curves of a training for TensorBoard, while it goes on. Needs the extra ``tensorboard``."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

from selfattn.errors import UserError
from selfattn.models.protocol import Seq2Seq
from selfattn.training.observer import EpochReport, Observer, StepReport


class TensorBoardObserver(Observer):
    """Writes the loss, the learning rate and the speed of the steps, and every figure of the validations.

    A context manager: its file is whole when it ends. Where a training is resumed, TensorBoard forgets what came after
    the checkpoint, which will be written again.

    Args:
        folder: where the event files go, such as ``RUN/tensorboard``; made when the training begins.
        every: steps from one point of a curve to the next; default 10. Validations are all written.

    Raises:
        UserError: TensorBoard is not installed.
    """

    def __init__(self, folder: Path, *, every: int = 10) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise UserError("TensorBoard is not installed: pip install 'selfattn[tensorboard]'") from None
        self._make: Any = SummaryWriter
        self._writer: Any = None
        self.folder, self.every = folder, every

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def __exit__(self, *error: object) -> None:
        """Write what is still to be written, and close the file."""
        if self._writer is not None:
            self._writer.close()

    def stepped(self, report: StepReport) -> None:
        """Write a point of the curves of the steps, now and then."""
        if report.step % self.every == 0:
            self._add(
                report.step,
                {"train/loss": report.loss, "train/lr": report.lr, "train/tokens_per_second": report.tokens_per_second},
            )

    def validated(self, report: EpochReport, model: Seq2Seq, is_best: bool) -> None:
        """Write the figures of a validation."""
        figures = {f"valid/{name}": value for name, value in report.measures.items()}
        self._add(report.step, figures | {"valid/loss": report.valid_loss})

    def resumed(self, step: int, reports: tuple[EpochReport, ...], model: Seq2Seq) -> None:
        """Let TensorBoard forget what came after the step of the checkpoint."""
        self._open(step + 1)

    def _open(self, purge_step: int | None = None) -> Any:
        if self._writer is None:
            self._writer = self._make(str(self.folder), purge_step=purge_step)
        return self._writer

    def _add(self, step: int, figures: dict[str, float]) -> None:
        writer = self._open()
        for name, value in figures.items():
            writer.add_scalar(name, value, step)
