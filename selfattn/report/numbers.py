"""Numbers as text: as many digits as the interval supports, never a rounder figure than the truth.

Percentages are rounded half to even from the exact decimal value; a mean below 1 is never shown as 100 %, one above 0
never as 0 %. The ends of an interval are rounded outward, so that what is shown always covers what was computed.
"""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal

from selfattn.report.record import Estimate, Measure

NONE = "–"
_NBSP = "\u00a0"
_UNMEASURED_DIGITS = 2  # decimals of a percentage that has no interval


def percent_digits(estimate: Estimate) -> int:
    """Decimals a percentage deserves: its half interval has one significant digit, or two when it begins with 1 to 3.

    Args:
        estimate: a share between 0 and 1.

    Returns:
        Number of decimals of the percentage, 0 to 3; 2 when there is no interval or it is empty.

    Example:
        >>> percent_digits(Estimate(0.612, 0.598, 0.625)), percent_digits(Estimate(0.9996, 0.9991, 0.9999))
        (1, 2)
    """
    if estimate.low is None or estimate.high is None or estimate.high <= estimate.low:
        return _UNMEASURED_DIGITS
    half = (Decimal(str(estimate.high)) - Decimal(str(estimate.low))) * 50
    digits = -half.adjusted() + (1 if half.scaleb(-half.adjusted()) < Decimal("3.55") else 0)
    return max(0, min(3, digits))


def percent_number(estimate: Estimate | None) -> str:
    """The mean in percent without its sign; "–" when there is none.

    Example:
        >>> percent_number(Estimate(0.61234, 0.598, 0.625)), percent_number(Estimate(0.99996, 0.999, 1.0))
        ('61.2', '99.99')
    """
    if estimate is None:
        return NONE
    return _percent(estimate.mean, percent_digits(estimate))


def share_percent(share: float, digits: int = 1) -> str:
    """A bare share (one without an interval, such as a point of a curve) in percent, with its sign."""
    return f"{_percent(share, digits)}{_NBSP}%"


def interval_text(estimate: Estimate | None) -> str:
    """The interval in percent, ends rounded outward: "[99.91, 100.00]"; "[–]" when none was computed."""
    if estimate is None or estimate.low is None or estimate.high is None:
        return f"[{NONE}]"
    step = _step(percent_digits(estimate))
    low = (Decimal(str(estimate.low)) * 100).quantize(step, ROUND_FLOOR)
    high = (Decimal(str(estimate.high)) * 100).quantize(step, ROUND_CEILING)
    return f"[{low},{_NBSP}{high}]"


def percent_text(estimate: Estimate | None) -> str:
    """Mean, sign and interval, which never stand apart: "99.96 % [99.91, 100.00]"."""
    if estimate is None:
        return NONE
    return f"{percent_number(estimate)}{_NBSP}%{_NBSP}{interval_text(estimate)}"


def amount(value: float) -> str:
    """A time, a rate or a ratio: two significant digits below 10, whole numbers from there, thousands parted.

    Example:
        >>> amount(0.0514), amount(2.14), amount(66.4), amount(12345.6)
        ('0.051', '2.1', '66', '12,346')
    """
    number = Decimal(str(value))
    if number == 0 or abs(number) >= 10:
        return f"{number.quantize(Decimal(1), ROUND_HALF_EVEN):,f}"
    return f"{number.quantize(Decimal(1).scaleb(number.adjusted() - 1), ROUND_HALF_EVEN):f}"


def measure_text(measure: Measure | None) -> str:
    """The mean of a measure, with the range of its runs when there are several: "41 (39–44)"; "–" when not measured."""
    if measure is None:
        return NONE
    text = amount(measure.mean)
    if len(measure.runs) > 1:
        text += f"{_NBSP}({amount(min(measure.runs))}–{amount(max(measure.runs))})"
    return text


def compact(count: int) -> str:
    """A large count in three significant digits: 248312 is "248 k", 1523000 is "1.52 M", 950 is "950"."""
    for size, unit in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if count >= size:
            value = Decimal(count) / size
            digits = max(0, 2 - value.adjusted())
            return f"{value.quantize(_step(digits), ROUND_HALF_EVEN)}{_NBSP}{unit}"
    return str(count)


def _percent(share: float, digits: int) -> str:
    exact = Decimal(str(share)) * 100
    shown = exact.quantize(_step(digits), ROUND_HALF_EVEN)
    if shown == 100 and exact < 100:
        shown = exact.quantize(_step(digits), ROUND_FLOOR)
    elif shown == 0 and exact > 0:
        shown = exact.quantize(_step(digits), ROUND_CEILING)
    return str(shown)


def _step(digits: int) -> Decimal:
    return Decimal(1).scaleb(-digits)
