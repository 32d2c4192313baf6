"""Where a quality stands on an axis: evenly, or by "nines" when models come close to 100 %.

Near the top an even axis hides what matters: 99.0 and 99.9 % are ten times apart in errors and one part in a hundred
apart on the axis. The scale of nines places a share p by log10 of its error rate 1 - p, so every equal step up has ten
times fewer errors: 0, 90, 99, 99.9 % stand at equal distances.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from selfattn.figures.quality import Unit

_NINES_FROM = 0.98


@dataclass(frozen=True)
class Scale:
    """An axis of quality that begins at 0.

    Args:
        floor: the smallest error rate the test can show, half an item; None for an even axis.
        top: the quality at the end of the axis.
        kind: what stands on it.
    """

    floor: float | None = None
    top: float = 1.0
    kind: Unit = "share"

    def place(self, quality: float) -> float:
        """Where a quality stands, 0 (start) to 1 (end); errors below the floor stand at the end.

        Example:
            >>> round(Scale(floor=0.0001).place(0.99), 6), Scale().place(0.25), Scale(None, 40, "points").place(30)
            (0.5, 0.25, 0.75)
        """
        if self.floor is None:
            return min(1.0, max(0.0, quality / self.top))
        error = max(1 - quality, self.floor)
        return min(1.0, max(0.0, math.log10(error) / math.log10(self.floor)))

    @property
    def ticks(self) -> tuple[tuple[float, str], ...]:
        """Qualities to mark with their labels."""
        if self.floor is None:
            factor = 100 if self.kind == "share" else 1
            return tuple((k / factor, f"{k:g}") for k in even_ticks(factor * self.top))
        nines = [(0.9, "90"), (0.99, "99"), (0.999, "99.9"), (0.9999, "99.99"), (0.99999, "99.999")]
        return ((0.0, "0"), *((p, text) for p, text in nines if self.place(p) < 0.88), (1.0, "100"))


def quality_scale(best: float | None, items: int, kind: Unit = "share") -> Scale:
    """The axis for a comparison: for shares nines when the best model reaches 98 %; for points up to the best.

    Args:
        best: highest quality of all models, for points with its interval; None when nothing was measured.
        items: number of test items, whose half sets the end of the axis of nines.
        kind: share or points.

    Example:
        >>> quality_scale(0.61, 5000), quality_scale(0.9998, 5000).floor, quality_scale(27.3, 1000, "points").top
        (Scale(floor=None, top=1.0, kind='share'), 0.0001, 30.0)
    """
    if kind == "points":
        return Scale(None, _round_up(best or 100.0), kind)
    if best is None or best < _NINES_FROM or items < 5:
        return Scale()
    return Scale(floor=0.5 / items)


def even_ticks(highest: float, *, whole: bool = False, count: int = 5) -> tuple[float, ...]:
    """Round values from 0 to at most `highest`, in steps of 1, 2 or 5 times a power of ten.

    Args:
        highest: end of the axis.
        whole: whether there are no steps smaller than 1.
        count: about how many values.

    Example:
        >>> even_ticks(12), even_ticks(3000)
        ((0.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0), (0.0, 500.0, 1000.0, 1500.0, 2000.0, 2500.0, 3000.0))
    """
    if highest <= 0:
        return (0.0,)
    rough = highest / count
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= 0.8 * rough)
    step = max(step, 1.0) if whole else step
    return tuple(k * step for k in range(math.floor(highest / step + 1e-9) + 1))


def _round_up(highest: float) -> float:
    """The next of 1, 2, 3, 4, 5, 6, 8, 10 times a power of ten, at most 100."""
    if highest <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(highest))
    return min(100.0, next(factor * power for factor in (1, 2, 3, 4, 5, 6, 8, 10) if factor * power >= highest))
