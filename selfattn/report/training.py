"""Learning seen from the reader's side: what quality was bought with, and when a level was first reached."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from selfattn.report.numbers import amount
from selfattn.report.record import Model, Point, Record
from selfattn.report.words import Message, message

LEVELS = (0.5, 0.9, 0.99, 0.999)


@dataclass(frozen=True)
class Spending:
    """Something that training spends, by which quality can be drawn."""

    name: str
    of: Callable[[Point], float | None]


_SPENDINGS = (
    Spending("epoch", lambda point: point.epoch),
    Spending("step", lambda point: point.step),
    Spending("tokens", lambda point: point.tokens),
    Spending("seconds", lambda point: point.seconds),
)


def spendings(record: Record) -> tuple[Spending, ...]:
    """Those by which at least one validation of the record can be drawn."""
    points = [
        point
        for model in record.models
        for curve in model.curves
        for point in curve.points
        if point.valid_exact_match is not None
    ]
    return tuple(one for one in _SPENDINGS if any(one.of(point) is not None for point in points))


def reached(model: Model, level: float) -> Message | None:
    """When the model's validation exact match first came to `level`; None when it never did.

    Args:
        model: with its curves.
        level: a share between 0 and 1.

    Returns:
        The epoch (a range over seeds) with the seconds of training up to there, where they are known for every seed.
    """
    firsts = [
        point
        for curve in model.curves
        if (point := next((p for p in curve.points if (p.valid_exact_match or 0.0) >= level), None))
    ]
    if not firsts:
        return None
    epoch = _range([point.epoch for point in firsts], "{:g}".format)
    if len(firsts) < len(model.curves):
        return message("reached.some", epoch=epoch, count=len(firsts), total=len(model.curves))
    seconds = [point.seconds for point in firsts if point.seconds is not None]
    if len(seconds) < len(firsts):
        return message("reached.at", epoch=epoch)
    return message("reached.at.seconds", epoch=epoch, seconds=_range(seconds, amount))


def _range(values: list[float], show: Callable[[float], str]) -> str:
    low, high = show(min(values)), show(max(values))
    return low if low == high else f"{low}–{high}"
