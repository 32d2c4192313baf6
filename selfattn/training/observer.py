"""What a training loop reports of its steps and validations, and the base of those who watch it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from selfattn.codec import Plain, decode, encode
from selfattn.models.protocol import Seq2Seq


@dataclass(frozen=True)
class StepReport:
    """One step of the optimizer.

    Attributes:
        epoch: counted from 1.
        step: counted from 1, over all epochs.
        total_steps: of the whole training.
        loss: of its batches, nats a token, as it is minimised.
        lr: learning rate used.
        tokens_per_second: real target tokens, since the last validation.
    """

    epoch: int
    step: int
    total_steps: int
    loss: float
    lr: float
    tokens_per_second: float


@dataclass(frozen=True)
class EpochReport(Plain):
    """One validation and the training since the last: a line of ``metrics.jsonl``. By default, an epoch each.

    Attributes:
        epoch: of the last step, counted from 1.
        step: steps so far.
        tokens: real target tokens trained on so far.
        seconds: of training so far; neither the drawing of examples nor validation counts.
        train_loss: mean since the last validation, nats a token, as it was minimised: with label smoothing and the
            divergence of R-Drop where there are some.
        valid_loss: nats a token, without either.
        measures: quality on the validation by name, such as ``exact_match``.
        padding: share of the batches' places, source and target, that hold no token, since the last validation.
        tokens_per_second: real target tokens a second since the last validation.
        lr: of the last step.
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

    def to_line(self) -> dict[str, Any]:
        """Return the flat JSON object that ``metrics.jsonl`` keeps; a measure ``x`` becomes ``valid_x``.

        Example:
            >>> report = EpochReport(1, 2, 3, 4.0, 5.0, 6.0, 7.0, 8.0, {"bleu": 0.5})
            >>> report.to_line()["valid_bleu"], EpochReport.from_line(report.to_line(), "a.jsonl:1", "") == report
            (0.5, True)
        """
        values = encode(self)
        measures = values.pop("measures")
        return dict(values) | {f"valid_{name}": value for name, value in measures.items()}

    @classmethod
    def from_line(cls, line: object, where: str, advice: str) -> EpochReport:
        """Make the report of what :meth:`to_line` gave.

        Args:
            line: plain JSON values.
            where: what to call the place in an error message.
            advice: what to do where something is wrong.

        Raises:
            UserError: it is no such object, or a field is missing or of another type.
        """
        if not isinstance(line, dict):
            return decode(cls, line, file=where, advice=advice)
        own = {name: value for name, value in line.items() if name in cls.__dataclass_fields__}
        others = {name: value for name, value in line.items() if name not in own}
        measures = {name.removeprefix("valid_"): others.pop(name) for name in list(others) if name.startswith("valid_")}
        return decode(cls, own | {"measures": measures} | others, file=where, advice=advice)


class Observer:
    """Watches a training; override what you want to see. With several processes, the first one is watched."""

    def started(self, epochs: int | None, steps: int) -> None:
        """Called before the first step, when the first epoch's batches have been cut.

        Args:
            epochs: of the whole training; None where only the number of steps is laid down.
            steps: of the whole training.
        """

    def stepped(self, report: StepReport) -> None:
        """Called after a step."""

    def validated(self, report: EpochReport, model: Seq2Seq, is_best: bool) -> None:
        """Called after a validation; `model` has the weights that were validated, the best so far where `is_best`."""

    def resumed(self, step: int, reports: tuple[EpochReport, ...], model: Seq2Seq) -> None:
        """Called before `started` where an earlier training goes on, with its steps and validations so far.

        `model` has the best weights, where there was a validation.
        """
