"""Results of sanity gates, and published baselines."""

from __future__ import annotations

from dataclasses import dataclass

from selfattn.codec import Plain


@dataclass(frozen=True)
class Gate(Plain):
    """The result of a sanity gate.

    Attributes:
        name: of the gate.
        passed: whether it keeps to its limit.
        reason: the result in one sentence, with its figures.
        model: name of the model; empty for a gate on the data or on all models together.
        seed: of the run that was checked; None for a gate on no run.
        value: what was measured; None where that is not finite.
        limit: of the value.
        note: whether a failure is only noted: it sets no model aside and stops no verdict.
    """

    name: str
    passed: bool
    reason: str
    model: str = ""
    seed: int | None = None
    value: float | None = None
    limit: float | None = None
    note: bool = False


@dataclass(frozen=True)
class Baseline(Plain):
    """A published result on the same data: a model far below it may be broken.

    Attributes:
        metric: its name among the scores of a run.
        value: what is expected at least, or at most where lower is better.
        source: publication, figure and data.
        examples: training pairs that it takes, repetitions counted; a model trained on fewer is not checked. Default 0.
        distinct: how many of these have to be different; default 0.
    """

    metric: str
    value: float
    source: str
    examples: int = 0
    distinct: int = 0
