"""Place values on an axis: linear, logarithmic, or by "nines" where models come close to 100 %.

On a linear axis 99.0 and 99.9 % look the same, although one has ten times the errors of the other. The scale of nines
is logarithmic in the error rate 1 - p: 90, 99 and 99.9 % stand at equal distances. It begins at 90 %, and is used only
where all that is compared lies above.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from selfattn.results.quality import Unit

_NINES_FROM = 0.9
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class Scale:
    """An axis of quality, or of any numbers.

    Attributes:
        floor: smallest error rate of a scale of nines; None for other scales.
        top: value at the end of the axis.
        kind: unit of the values.
        low: value at the beginning of the axis; above 0 for a logarithmic one.
        powers: whether the axis is logarithmic.
        marks: values to mark with their labels; default round values.
    """

    floor: float | None = None
    top: float = 1.0
    kind: Unit | Literal["number"] = "share"
    low: float = 0.0
    powers: bool = False
    marks: tuple[tuple[float, str], ...] = ()

    def place(self, quality: float) -> float:
        """Return the place of a value, 0 (start) to 1 (end); error rates below the floor stand at the end.

        Example:
            >>> round(Scale(floor=0.0001).place(0.99), 6), Scale().place(0.25), Scale(None, 40, "points").place(30)
            (0.5, 0.25, 0.75)
            >>> Scale(None, 100, "number", 0.01, powers=True).place(1), Scale(None, 3, "number", -1).place(0)
            (0.5, 0.25)
        """
        if self.powers:
            share = math.log(max(quality, self.low) / self.low) / math.log(self.top / self.low)
            return min(1.0, share)
        if self.floor is None:
            return min(1.0, max(0.0, (quality - self.low) / (self.top - self.low)))
        error = max(1 - quality, self.floor)
        widest = 1 - self.low
        return min(1.0, max(0.0, math.log(error / widest) / math.log(self.floor / widest)))

    @property
    def ticks(self) -> tuple[tuple[float, str], ...]:
        """Return the values to mark with their labels.

        Example:
            >>> [mark for _, mark in Scale(None, 1e2, "number", 1e-6, powers=True).ticks]
            ['10⁻⁶', '0.0001', '0.01', '1', '100']
        """
        if self.marks:
            return self.marks
        if self.powers:
            first = round(math.log10(self.low))
            last = round(math.log10(self.top))
            step = max(1, math.ceil((last - first) / 5))
            return tuple((10.0**k, power_of_ten(10.0**k)) for k in range(first, last + 1, step))
        if self.floor is None:
            factor = 100 if self.kind == "share" else 1
            marks = even_ticks(factor * self.top, lowest=factor * self.low)
            return tuple((k / factor, f"{k:g}".replace("-", "−")) for k in marks)
        nines = [(0.9, "90"), (0.99, "99"), (0.999, "99.9"), (0.9999, "99.99"), (0.99999, "99.999")]
        between = [(p, text) for p, text in nines if p > self.low and self.place(p) < 0.88]
        return ((self.low, f"{100 * self.low:g}"), *between, (1.0, "100"))


def quality_scale(values: Iterable[float], items: int, kind: Unit = "share") -> Scale:
    """Return the axis for qualities: for shares that all lie above 90 % nines, else linear; for others to the highest.

    Args:
        values: to be drawn; without any the axis is that of all shares, or of points to 100.
        items: number of test items; half an item is the smallest error rate on a scale of nines. Fewer than 5: linear.
        kind: of the qualities.

    Example:
        >>> quality_scale([0.61, 0.999], 5000) == Scale(), quality_scale([0.97, 0.9998], 5000).floor
        (True, 0.0001)
        >>> quality_scale([27.3], 1000, "points").top
        30.0
    """
    drawn = list(values)
    if kind != "share":
        most = 100.0 if kind == "points" else math.inf
        return Scale(None, _round_up(max(drawn, default=0.0) or 100.0, most), kind)
    if items < 5 or min(drawn, default=0.0) <= _NINES_FROM:
        return Scale()
    return Scale(floor=min(0.5 / items, 0.01), low=_NINES_FROM)


def number_scale(values: Iterable[float], *, powers: bool = False) -> Scale:
    """Return the axis for any numbers: from 0 or below to the highest, or over powers of ten.

    Args:
        values: to be drawn, ends of intervals included; a logarithmic axis leaves out those not above 0.
        powers: whether the axis is logarithmic.

    Example:
        >>> number_scale([3e-5, 0.2], powers=True).low, number_scale([0.3, 27.2]).top, number_scale([-0.4, 1.2]).low
        (1e-05, 30.0, -0.4)
    """
    finite = [value for value in values if math.isfinite(value) and (value > 0 or not powers)] or [1.0]
    lowest = min(finite)
    highest = max(finite)
    if powers:
        first = math.floor(math.log10(lowest))
        last = math.ceil(math.log10(highest))
        return Scale(None, 10.0 ** max(last, first + 1), "number", 10.0**first, powers=True)
    return Scale(None, _round_up(highest, math.inf), "number", -_round_up(-lowest, math.inf) if lowest < 0 else 0.0)


def power_of_ten(value: float) -> str:
    """Return a number in three digits, with a power of ten where it is far from 1.

    Example:
        >>> power_of_ten(-0.1234), power_of_ten(2.2e-16), power_of_ten(1e-12)
        ('−0.123', '2.2·10⁻¹⁶', '10⁻¹²')
    """
    digits, _, exponent = f"{value:.3g}".partition("e")
    digits = "" if digits == "1" and exponent else digits + "·" * bool(exponent)
    text = digits + (f"10{str(int(exponent)).translate(_RAISED)}" if exponent else "")
    return text.replace("-", "−")


def even_ticks(highest: float, *, lowest: float = 0.0, count: int = 5) -> tuple[float, ...]:
    """Return round values from `lowest` to `highest`, in steps of 1, 2 or 5 times a power of ten.

    Args:
        highest: end of the axis.
        lowest: beginning of the axis, at most 0.
        count: approximate number of values.

    Example:
        >>> even_ticks(12), even_ticks(3000)
        ((0.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0), (0.0, 500.0, 1000.0, 1500.0, 2000.0, 2500.0, 3000.0))
    """
    if highest <= lowest:
        return (0.0,)
    rough = (highest - lowest) / count
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= 0.8 * rough)
    return tuple(k * step for k in range(math.ceil(lowest / step - 1e-9), math.floor(highest / step + 1e-9) + 1))


def _round_up(highest: float, most: float = 100.0) -> float:
    """Return the next higher of 1, 2, 3, 4, 5, 6, 8, 10 times a power of ten, at most `most`."""
    if highest <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(highest))
    return min(most, next(factor * power for factor in (1, 2, 3, 4, 5, 6, 8, 10) if factor * power >= highest))
