"""What a sanity gate found, and what a model is expected to reach."""

from __future__ import annotations

from dataclasses import dataclass

from selfattn.codec import Plain


@dataclass(frozen=True)
class Gate(Plain):
    """What a sanity gate found.

    Args:
        name: of the gate.
        passed: whether it keeps to its limit.
        reason: the finding in one sentence, with its figures.
        model: whose it is; empty where it is about the data or about all models together.
        seed: of the run that was looked at; None where it is about no run.
        value: what was measured; None where that is not finite.
        limit: what it was held against.
    """

    name: str
    passed: bool
    reason: str
    model: str = ""
    seed: int | None = None
    value: float | None = None
    limit: float | None = None


@dataclass(frozen=True)
class Baseline(Plain):
    """What others reached on the same data: a model far below it is broken, not merely worse.

    Args:
        metric: its name among the scores of a run.
        value: what is expected at least, or at most where lower is better.
        source: who reached what, on what.
        examples: training pairs that it takes, repetitions counted; who was trained on fewer is not asked. Default 0.
        distinct: how many of these have to be different; default 0.
    """

    metric: str
    value: float
    source: str
    examples: int = 0
    distinct: int = 0
