"""What a training reports, and observers that watch it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from selfattn.codec import Plain, decode, encode
from selfattn.errors import UserError
from selfattn.models.protocol import Seq2Seq
from selfattn.processes import is_main_process


@dataclass(frozen=True)
class StepReport:
    """One step of the optimizer.

    Attributes:
        epoch: counted from 1.
        step: counted from 1, over all epochs.
        total_steps: of the training.
        loss: training objective of the step's batches, nats per token.
        lr: learning rate.
        tokens_per_second: target tokens, without padding, since the last validation.
        examples: training examples read so far.
    """

    epoch: int
    step: int
    total_steps: int
    loss: float
    lr: float
    tokens_per_second: float
    examples: int = 0


@dataclass(frozen=True)
class CurveReport(Plain):
    """A point of the learning curve between validations: a line of ``curve.jsonl``.

    Attributes:
        epoch: of the last step, counted from 1.
        step: steps so far.
        tokens: target tokens trained on so far, without padding.
        seconds: of training so far.
        value: the deciding measure on a part of the validation data.
    """

    epoch: int
    step: int
    tokens: int
    seconds: float
    value: float


@dataclass(frozen=True)
class EpochReport(Plain):
    """One validation and the training since the last one: a line of ``metrics.jsonl``.

    Attributes:
        epoch: of the last step, counted from 1.
        step: steps so far.
        tokens: target tokens trained on so far, without padding.
        seconds: of training so far, without validations and without drawing examples.
        train_loss: mean training objective since the last validation, nats per token, with label smoothing and R-Drop.
        valid_loss: nats per token, without either.
        measures: quality on the validation data by name, such as ``exact_match``.
        padding: share of padding in the batches, source and target, since the last validation.
        tokens_per_second: target tokens per second since the last validation.
        lr: learning rate of the last step.
        examples: training examples read so far; 0 in older files.
    """

    epoch: int
    step: int
    tokens: int
    seconds: float
    train_loss: float
    valid_loss: float
    tokens_per_second: float
    lr: float
    measures: Mapping[str, float] = field(default_factory=dict)
    padding: float = 0.0
    examples: int = 0

    def to_line(self) -> dict[str, Any]:
        """Return the flat JSON object of ``metrics.jsonl``; a measure ``x`` becomes ``valid_x``.

        Example:
            >>> report = EpochReport(1, 2, 3, 4.0, 5.0, 6.0, 7.0, 8.0, {"bleu": 0.5})
            >>> report.to_line()["valid_bleu"], EpochReport.from_line(report.to_line(), "a.jsonl:1", "") == report
            (0.5, True)
        """
        values = encode(self)
        measures = values.pop("measures")
        return dict(values) | {f"valid_{name}": value for name, value in measures.items()}

    @classmethod
    def from_line(cls, line: Mapping[str, Any], where: str, advice: str) -> EpochReport:
        """Read the output of :meth:`to_line`.

        Args:
            line: plain JSON values.
            where: name of the place for error messages.
            advice: what the user should do about an error.

        Raises:
            UserError: a field is missing or of another type.
        """
        measures = {name.removeprefix("valid_"): line[name] for name in line if _is_measure(name)}
        fields = {name: value for name, value in line.items() if not _is_measure(name)}
        return decode(cls, fields | {"measures": measures}, file=where, advice=advice)


def _is_measure(name: str) -> bool:
    return name.startswith("valid_") and name != "valid_loss"


class StopTraining(Exception):  # noqa: N818  # no error, as StopIteration is none
    """Raised by a method of an observer to stop the training.

    The step is finished, the model is validated unless it just was, and the run keeps the best weights. Its status is
    ``stopped by an observer``.
    """


class Observer:
    """Base class of what watches a training; override the methods you need. Only the first process is watched.

    ``selfattn.train(..., observers=[...])`` takes observers. Each method may raise :class:`StopTraining`; from any
    method but ``stepped``, ``validated`` and ``validation_ended`` it takes effect after the next step.

    Example:
        >>> class StopAtLoss(Observer):
        ...     def __init__(self, loss):
        ...         self.loss = loss
        ...     def stepped(self, report):
        ...         if report.loss < self.loss:
        ...             raise StopTraining
        >>> report = StepReport(epoch=1, step=7, total_steps=50, loss=0.4, lr=0.003, tokens_per_second=9000.0)
        >>> StopAtLoss(0.1).stepped(report)
        >>> StopAtLoss(0.5).stepped(report)
        Traceback (most recent call last):
        selfattn.training.observer.StopTraining
    """

    def started(self, epochs: int | None, steps: int) -> None:
        """Called before the first step, when the batches of the first epoch are known.

        Args:
            epochs: of the training; None where only the number of steps is set.
            steps: of the training.
        """

    def stepped(self, report: StepReport) -> None:
        """Called after a step."""

    def validated(self, report: EpochReport, model: Seq2Seq, is_best: bool) -> None:
        """Called after a validation; `model` has the validated weights, the best so far where `is_best`."""

    def validation_ended(self, report: EpochReport, model: Seq2Seq) -> None:
        """Called after `validated`, when `model` has the weights of the last step again, without any average."""

    def measured(self, report: CurveReport) -> None:
        """Called after a point of the learning curve between validations."""

    def resumed(self, step: int, reports: tuple[EpochReport, ...], model: Seq2Seq) -> None:
        """Called before `started` where a training is resumed, with its steps and validations so far.

        `model` has the best weights where there was a validation.
        """

    def ended(self, status: str, reports: tuple[EpochReport, ...], model: Seq2Seq) -> None:
        """Called once at the end of the training; not after an error.

        Args:
            status: ``finished``, ``target reached``, ``stopped early``, ``stopped by an observer``, or ``interrupted``.
            reports: of all validations.
            model: with the best weights, in evaluation mode.
        """

    def requests_stop(self) -> bool:
        """Say whether the user interrupts the training; asked at every step of a validation. Default False."""
        return False


class StopAtStep(Observer):
    """Stops a training at the end of a step, of the training or of decoding, when everything can be saved.

    Of several processes the first one stops all; the others only ignore the request.
    """

    def __init__(self) -> None:
        self.is_requested = False
        self.has_started = not is_main_process()

    def request(self) -> None:
        """Request the stop.

        Raises:
            KeyboardInterrupt: there has been no step yet that could be saved.
        """
        self.is_requested = True
        if not self.has_started:
            raise KeyboardInterrupt
        if is_main_process():
            with suppress(OSError):  # not `print`, which may be what was interrupted
                os.write(2, b"stopping after this step, which is saved; once more stops at once\n")

    def started(self, epochs: int | None, steps: int) -> None:
        """Note that there are steps to be saved."""
        self.has_started = True

    def stepped(self, report: StepReport) -> None:
        """Stop here if requested.

        Raises:
            KeyboardInterrupt: the stop was requested.
        """
        if self.is_requested:
            raise KeyboardInterrupt

    def requests_stop(self) -> bool:
        """Say whether the stop was requested."""
        return self.is_requested


class TensorBoardObserver(Observer):
    """Writes loss, learning rate and speed of the steps, and all measures of the validations, for TensorBoard.

    When a training is resumed, TensorBoard drops what came after the checkpoint.

    Args:
        folder: of the event files, such as ``RUN/tensorboard``; made when the training begins.
        every: steps between two points of a curve; default 10. All validations are written.

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
        self.folder = folder
        self.every = every

    def stepped(self, report: StepReport) -> None:
        """Write a point of the curves of the steps, every few steps."""
        if report.step % self.every == 0:
            names = ("loss", "lr", "tokens_per_second")
            self._add(report.step, {f"train/{name}": getattr(report, name) for name in names})

    def validated(self, report: EpochReport, model: Seq2Seq, is_best: bool) -> None:
        """Write the measures of a validation."""
        measures = {f"valid/{name}": value for name, value in report.measures.items()}
        self._add(report.step, measures | {"valid/loss": report.valid_loss})

    def resumed(self, step: int, reports: tuple[EpochReport, ...], model: Seq2Seq) -> None:
        """Make TensorBoard drop what came after the checkpoint."""
        self._writer = self._make(str(self.folder), purge_step=step + 1)

    def ended(self, status: str, reports: tuple[EpochReport, ...], model: Seq2Seq) -> None:
        """Close the file of the curves."""
        if self._writer is not None:
            self._writer.close()

    def _add(self, step: int, values: dict[str, float]) -> None:
        self._writer = self._writer or self._make(str(self.folder))
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)
