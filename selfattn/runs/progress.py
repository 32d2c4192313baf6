"""Progress of a training on standard error: a live bar in a terminal, a line for each epoch everywhere."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from selfattn.evaluation.metrics.exact import EXACT_MATCH
from selfattn.models.protocol import Seq2Seq
from selfattn.training.observer import EpochReport, Observer, StepReport


class ProgressObserver(Observer):
    """Shows epoch, loss, tokens a second, time left, and the quality on the validation. A context manager.

    Args:
        name: of the model, in front of every line.
        console: where to; default standard error.
    """

    def __init__(self, name: str, console: Console | None = None) -> None:
        self.name = name
        self.console = Console(stderr=True, highlight=False) if console is None else console
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=16),
            TextColumn("loss {task.fields[loss]}  {task.fields[speed]} tokens/s"),
            TimeRemainingColumn(compact=True),
            console=self.console,
            transient=True,
            disable=not self.console.is_terminal,
        )
        self.epochs: int | None = None
        self.bar: TaskID | None = None

    def __enter__(self) -> Self:
        """Show the bar, where there is a terminal."""
        self.progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Take the bar away."""
        self.progress.stop()

    def started(self, epochs: int | None, steps: int) -> None:
        """Set the length of the bar."""
        self.epochs = epochs
        self.bar = self.progress.add_task(self.name, total=steps, loss="-", speed="-")

    def stepped(self, report: StepReport) -> None:
        """Move the bar on."""
        if self.bar is not None:
            self.progress.update(
                self.bar,
                completed=report.step,
                description=f"{self.name} {self._epoch(report.epoch)}",
                loss=f"{report.loss:.3f}",
                speed=f"{report.tokens_per_second:,.0f}",
            )

    def validated(self, report: EpochReport, model: Seq2Seq, is_best: bool) -> None:
        """Write a line for the validation."""
        self.console.print(
            f"{self.name} {self._epoch(report.epoch)}  loss {report.train_loss:.4f}  valid {report.valid_loss:.4f}  "
            f"{_figures(report.measures)}  {report.tokens_per_second:,.0f} tokens/s  padding {report.padding:.0%}",
            soft_wrap=True,
        )

    def _epoch(self, number: int) -> str:
        return f"epoch {number}" if self.epochs is None else f"{number}/{self.epochs}"


def _figures(measures: Mapping[str, float]) -> str:
    return "  ".join(
        f"exact {100 * value:.2f} %" if name == EXACT_MATCH else f"{name} {value:.2f}"
        for name, value in measures.items()
    )
