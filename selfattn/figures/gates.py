"""What a sanity gate found."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Gate:
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
