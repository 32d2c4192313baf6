"""Where a share stands on an axis of quality: evenly, or by "nines" when models come close to 100 %.

Near the top an even axis hides what matters: 99.0 and 99.9 % are ten times apart in errors and one part in a hundred
apart on the axis. The scale of nines places a share p by log10 of its error rate 1 - p, so every equal step up has ten
times fewer errors: 0, 90, 99, 99.9 % stand at equal distances.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

_NINES_FROM = 0.98


@dataclass(frozen=True)
class Scale:
    """An axis from 0 to 100 %.

    Args:
        floor: the smallest error rate the test can show, half an item; None for an even axis.
    """

    floor: float | None = None

    def place(self, share: float) -> float:
        """Where a share between 0 and 1 stands, 0 (start) to 1 (end); errors below the floor stand at the end.

        Example:
            >>> round(Scale(floor=0.0001).place(0.99), 6), Scale().place(0.25)
            (0.5, 0.25)
        """
        if self.floor is None:
            return share
        error = max(1 - share, self.floor)
        return min(1.0, max(0.0, math.log10(error) / math.log10(self.floor)))

    @property
    def ticks(self) -> tuple[tuple[float, str], ...]:
        """Shares to mark with their labels, in percent."""
        if self.floor is None:
            return tuple((k / 100, str(k)) for k in (0, 20, 40, 60, 80, 100))
        nines = [(0.9, "90"), (0.99, "99"), (0.999, "99.9"), (0.9999, "99.99"), (0.99999, "99.999")]
        return ((0.0, "0"), *((p, text) for p, text in nines if self.place(p) < 0.88), (1.0, "100"))


def quality_scale(best: float | None, items: int) -> Scale:
    """The axis for a comparison: nines when the best model reaches 98 %, even otherwise.

    Args:
        best: highest share of all models; None when nothing was measured.
        items: number of test items, whose half sets the end of the axis.

    Example:
        >>> quality_scale(0.61, 5000), quality_scale(0.9998, 5000)
        (Scale(floor=None), Scale(floor=0.0001))
    """
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
