"""What the training loop tells those who watch it: a progress bar, a run directory, a test."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from selfattn.models.protocol import Seq2Seq


@dataclass(frozen=True)
class Plan:
    """What is going to happen: known when the first epoch's batches have been cut.

    Attributes:
        epochs: how many; None where only the number of steps is laid down.
        steps: of the whole training.
    """

    epochs: int | None
    steps: int


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
class EpochReport:
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

    def to_json(self) -> dict[str, Any]:
        """Return the flat JSON object of this report; a measure ``x`` becomes ``valid_x``.

        Example:
            >>> EpochReport(1, 2, 3, 4.0, 5.0, 6.0, 7.0, 8.0, {"exact_match": 0.5}).to_json()["valid_exact_match"]
            0.5
        """
        values = {name: value for name, value in vars(self).items() if name != "measures"}
        return values | {f"valid_{name}": value for name, value in self.measures.items()}


@dataclass(frozen=True)
class Criterion:
    """How quality on the validation is measured, and which of the figures says what is best.

    Attributes:
        figures: gives figures by name for a model and its validation loss (nats a token); called at every validation.
        criterion: the name of the figure that decides.
        higher_is_better: whether more of it is better; default True.

    Example:
        >>> import math
        >>> perplexity = Criterion(lambda model, loss: {"perplexity": math.exp(loss)}, "perplexity", False)
        >>> low, high = ({"perplexity": value} for value in (2.0, 3.0))
        >>> perplexity.value(low) > perplexity.value(high)
        True
    """

    figures: Callable[[Seq2Seq, float], Mapping[str, float]]
    criterion: str
    higher_is_better: bool = True

    def value(self, figures: Mapping[str, float]) -> float:
        """Return a number that is the higher the better."""
        return figures[self.criterion] if self.higher_is_better else -figures[self.criterion]


class Observer:
    """Watches a training; override what you want to see. With several processes, the first one is watched."""

    def started(self, plan: Plan) -> None:
        """Hear of the plan, before the first step."""

    def stepped(self, report: StepReport) -> None:
        """Hear of a step."""

    def validated(self, report: EpochReport, model: Seq2Seq, is_best: bool) -> None:
        """Hear of a validation; `model` has the weights that were validated, the best so far where `is_best`."""

    def resumed(self, step: int, reports: tuple[EpochReport, ...], model: Seq2Seq) -> None:
        """Hear, before `started`, that an earlier training goes on: its steps and validations so far.

        `model` has the best weights, where there was a validation.
        """
