"""Format numbers with as many digits as their interval supports, and place values on an axis.

A quality is a `share` (0 to 1, shown in percent), `points` (0 to 100, such as BLEU), `bits` or a `number`. Values are
rounded half to even. A share below 1 is never shown as 100 %, and one above 0 never as 0 %. The ends of an interval are
rounded outward, so that the interval shown always covers the computed one.

On a linear axis 99.0 and 99.9 % look the same, although one has ten times the errors of the other. The scale of nines
is logarithmic in the error rate 1 - p: 90, 99 and 99.9 % stand at equal distances. It begins at 90 %, and is used only
where all that is compared lies above.
"""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from typing import Literal

from selfattn.codec import flat
from selfattn.results.quality import BudgetDifference, Estimate, LogOdds, PairTest, Unit
from selfattn.results.record import MeanOverRuns

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
        limit = 100.0 if kind == "points" else math.inf
        return Scale(None, _round_up(max(drawn, default=0.0) or 100.0, limit), kind)
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


def _round_up(highest: float, limit: float = 100.0) -> float:
    """Return the next higher of 1, 2, 3, 4, 5, 6, 8, 10 times a power of ten, at most `limit`."""
    if highest <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(highest))
    return min(limit, next(factor * power for factor in (1, 2, 3, 4, 5, 6, 8, 10) if factor * power >= highest))


NONE = "–"
_NBSP = "\u00a0"
_WIDE = Context(prec=700)  # digits of the largest number, before and behind the point
_FACTOR = {"share": 100, "points": 1, "bits": 1, "number": 1}
_UNMEASURED_DIGITS = {"share": 2, "points": 1, "bits": 3, "number": 2}  # decimals of a quality that has no interval


def digits(low: float | None, high: float | None, kind: Unit = "share") -> int:
    """Return how many decimals to show: half the interval gets one significant digit, two if it begins with 1 to 3.

    Args:
        low: lower end of the interval; None when there is none.
        high: upper end.
        kind: of the quality.

    Returns:
        Number of decimals, 0 to 3; where there is no interval or it is empty, 2 for a share or a
        number, 1 for points, 3 for bits.

    Example:
        >>> digits(0.598, 0.625), digits(0.9991, 0.9999), digits(26.1, 27.5, "points")
        (1, 2, 1)
    """
    if low is None or high is None or high <= low:
        return _UNMEASURED_DIGITS[kind]
    half = (_exact(high, kind) - _exact(low, kind)) / 2
    count = -half.adjusted() + (1 if half.scaleb(-half.adjusted()) < Decimal("3.55") else 0)
    return max(0, min(3, count))


def mean_text(estimate: Estimate | None, kind: Unit = "share") -> str:
    """Return the mean without a percent sign; "–" where there is none.

    Example:
        >>> mean_text(Estimate(0.61234, 0.598, 0.625)), mean_text(Estimate(0.99996, 0.999, 1.0))
        ('61.2', '99.99')
        >>> mean_text(Estimate(27.31, 26.2, 28.4), "points")
        '27.3'
    """
    if estimate is None:
        return NONE
    return _shown(estimate.mean, digits(estimate.low, estimate.high, kind), kind)


def interval_text(estimate: Estimate | None, kind: Unit = "share") -> str:
    """Return the interval, ends rounded outward: "[99.91, 100.00]"; "[–]" where none was computed.

    Ends below 0 and above 100, which Student's t can give, are shown as 0 and 100; a plain number may be below 0.

    Example:
        >>> interval_text(Estimate(0.03, -0.012, 0.072)).replace("\u00a0", " ")
        '[0, 8]'
    """
    if estimate is None or estimate.low is None or estimate.high is None:
        return f"[{NONE}]"
    low, high = _ends(estimate.low, estimate.high, kind)
    if kind in ("share", "points"):
        high = min(high, Decimal(100).quantize(high))
        low = max(low, Decimal(0).quantize(low))
    return f"[{low},{_NBSP}{high}]"


def score_text(estimate: Estimate | None, kind: Unit = "share") -> str:
    """Return the mean with its percent sign: "99.96 %"; "–" where there is none."""
    return mean_text(estimate, kind) + (f"{_NBSP}%" if estimate and kind == "share" else "")


def estimate_text(estimate: Estimate | None, kind: Unit = "share") -> str:
    """Return mean and interval: "99.96 % [99.91, 100.00]"."""
    return NONE if estimate is None else f"{score_text(estimate, kind)}{_NBSP}{interval_text(estimate, kind)}"


def difference_text(test: PairTest | BudgetDifference, kind: Unit = "share") -> str:
    """Return a difference with its interval, signed: "+0.87 [+0.50, +1.24]", in percentage points or points.

    Example:
        >>> test = PairTest("a", "b", "bleu", -1.24, -2.61, 0.2, 0.06, 0.12, "not told apart")
        >>> print(difference_text(test, "points").replace("\u00a0", " "))
        −1.2 [−2.7, +0.2]
    """
    low, high = _ends(test.low, test.high, kind)
    mean = _exact(test.difference, kind).quantize(_step(digits(test.low, test.high, kind)), ROUND_HALF_EVEN, _WIDE)
    return f"{_signed(mean)}{_NBSP}[{_signed(low)},{_NBSP}{_signed(high)}]"


def gap_text(test: PairTest | BudgetDifference, kind: Unit = "share") -> str:
    """Return the size of a difference, whichever model is ahead: "48 [44, 52]", "0.02 [−0.07, 0.11]"."""
    if test.difference < 0:
        test = replace(test, difference=-test.difference, low=-test.high, high=-test.low)
    return difference_text(test, kind).replace("+", "")


def ratio_text(odds: LogOdds) -> str:
    """Return an odds ratio with its interval, to two digits: how many times as high the odds of a right answer are.

    Example:
        >>> print(ratio_text(LogOdds(1.1, -0.1, 5.2)).replace("\u00a0", " "))
        3 [0.9, 180]
        >>> print(ratio_text(LogOdds(9.0, -9.0, 27.0)).replace("\u00a0", " "))
        8,100 [< 0.001, > 1,000,000]
    """

    def text(ratio: float) -> str:
        if ratio < 1e-3:
            return f"<{_NBSP}0.001"
        if ratio > 1e6:
            return f">{_NBSP}1,000,000"
        return f"{float(f'{ratio:.2g}'):,.7g}"

    mean, low, high = map(text, odds.ratio)
    return f"{mean}{_NBSP}[{low},{_NBSP}{high}]"


def p_text(p: float) -> str:
    """Return a probability with its relation: "= 0.71", "< 0.001".

    Example:
        >>> [p_text(p).replace("\u00a0", " ") for p in (0.7134, 0.0423, 0.00002)]
        ['= 0.71', '= 0.042', '< 0.001']
    """
    if p < 0.001:
        return f"<{_NBSP}0.001"
    places = 2 if p >= 0.1 else 3
    return f"={_NBSP}{Decimal(str(p)).quantize(_step(places), ROUND_HALF_EVEN, _WIDE)}"


def bare_p_text(p: float) -> str:
    """Return a probability for a column of them: "0.71", "< 0.001"."""
    return p_text(p).removeprefix(f"={_NBSP}")


def value_text(value: float, kind: Unit = "share", places: int | None = None) -> str:
    """Return a quality without an interval, such as a point of a curve; a share with its percent sign."""
    text = _shown(value, _UNMEASURED_DIGITS[kind] if places is None else places, kind)
    return f"{text}{_NBSP}%" if kind == "share" else text


def share_text(share: float | None, places: int = 1) -> str:
    """Return a share as a percentage; "–" where there is none."""
    return NONE if share is None else value_text(share, "share", places)


def amount(value: float) -> str:
    """Return a time, rate or ratio: two significant digits below 10, whole numbers with commas above.

    Example:
        >>> amount(0.0514), amount(2.14), amount(66.4), amount(12345.6)
        ('0.051', '2.1', '66', '12,346')
    """
    number = Decimal(str(value))
    if number == 0 or abs(number) >= 10:
        return f"{number.quantize(Decimal(1), ROUND_HALF_EVEN, _WIDE):,f}"
    return f"{number.quantize(Decimal(1).scaleb(number.adjusted() - 1), ROUND_HALF_EVEN):f}"


def measure_text(measure: MeanOverRuns | None) -> str:
    """Return a mean with the range of its runs: "41 (39–44)"; "–" where nothing was measured."""
    if measure is None:
        return NONE
    text = amount(measure.mean)
    if len(set(measure.runs)) > 1:
        text += f"{_NBSP}({amount(min(measure.runs))}–{amount(max(measure.runs))})"
    return text


def compact(count: float | None, unit: str = "") -> str:
    """Return a count in three significant digits: 248312 is "248 k", 1523000 is "1.52 M".

    Example:
        >>> compact(248312, "B").replace("\u00a0", " "), compact(None)
        ('248 kB', '–')
    """
    if count is None:
        return NONE
    for size, prefix in ((10**15, "P"), (10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k")):
        if count >= size:
            value = Decimal(str(count)) / size
            places = max(0, 2 - value.adjusted())
            return f"{value.quantize(_step(places), ROUND_HALF_EVEN, _WIDE)}{_NBSP}{prefix}{unit}"
    return f"{count:g}{_NBSP}{unit}" if unit else f"{count:g}"


def myriads(count: float) -> str:
    """Return a count as Korean counts, in three significant digits: 2300000 is "230만", 120000000 is "1.2억".

    Example:
        >>> myriads(2_300_000), myriads(123_456_789), myriads(9000)
        ('230만', '1.23억', '9,000')
    """
    for size, name in ((10**8, "억"), (10**4, "만")):
        if count >= size:
            return f"{float(f'{count / size:.3g}'):,g}{name}"
    return f"{count:,g}"


def flatten(config: Mapping[str, object]) -> dict[str, str]:
    """Return nested settings as one level of dotted names with their values as text.

    Example:
        >>> flatten({"encoder": {"layers": 2}, "tied": True, "dropout": None})
        {'encoder.layers': '2', 'tied': 'yes', 'dropout': 'none'}
    """
    return {name: setting_text(value) for name, value in flat(config)}


def setting_text(value: object) -> str:
    """Return a value as text: booleans as yes and no, lists with commas."""
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    if isinstance(value, (list, tuple)):
        return ", ".join(setting_text(item) for item in value) or "none"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _exact(value: float, kind: Unit) -> Decimal:
    return Decimal(str(value)) * _FACTOR[kind]


def _ends(low: float, high: float, kind: Unit) -> tuple[Decimal, Decimal]:
    step = _step(digits(low, high, kind))
    return _exact(low, kind).quantize(step, ROUND_FLOOR, _WIDE), _exact(high, kind).quantize(step, ROUND_CEILING, _WIDE)


def _shown(value: float, places: int, kind: Unit) -> str:
    exact = _exact(value, kind)
    rounded = exact.quantize(_step(places), ROUND_HALF_EVEN, _WIDE)
    if rounded == 100 and exact < 100:
        rounded = exact.quantize(_step(places), ROUND_FLOOR, _WIDE)
    elif rounded == 0 and exact > 0:
        rounded = exact.quantize(_step(places), ROUND_CEILING, _WIDE)
    return str(rounded)


def _signed(value: Decimal) -> str:
    if value == 0:
        return str(abs(value))
    return f"+{value}" if value > 0 else f"−{value.copy_abs()}"


def _step(places: int) -> Decimal:
    return Decimal(1).scaleb(-places)
