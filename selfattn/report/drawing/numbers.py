"""Format numbers with as many digits as their interval supports.

A quality is a `share` (0 to 1, shown in percent), `points` (0 to 100, such as BLEU), `bits` or a `number`. Values are
rounded half to even. A share below 1 is never shown as 100 %, and one above 0 never as 0 %. The ends of an interval are
rounded outward, so that the interval shown always covers the computed one.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal

from selfattn.results.quality import BudgetDifference, Estimate, LogOdds, PairTest, Unit
from selfattn.results.record import MeanOverRuns

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

    Ends below 0 and above 100, which Student's t can give, are shown as 0 and 100.

    Example:
        >>> interval_text(Estimate(0.03, -0.012, 0.072)).replace("\u00a0", " ")
        '[0, 8]'
    """
    if estimate is None or estimate.low is None or estimate.high is None:
        return f"[{NONE}]"
    low, high = _ends(estimate.low, estimate.high, kind)
    if kind in ("share", "points"):
        high = min(high, Decimal(100).quantize(high))
    return f"[{max(low, Decimal(0).quantize(low))},{_NBSP}{high}]"


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
    mean = _exact(test.difference, kind).quantize(_step(digits(test.low, test.high, kind)), ROUND_HALF_EVEN)
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
    mean, low, high = (
        f"<{_NBSP}0.001" if ratio < 1e-3 else f">{_NBSP}1,000,000" if ratio > 1e6 else f"{float(f'{ratio:.2g}'):,.7g}"
        for ratio in odds.ratio
    )
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
    shown = _shown(value, _UNMEASURED_DIGITS[kind] if places is None else places, kind)
    return f"{shown}{_NBSP}%" if kind == "share" else shown


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
        return f"{number.quantize(Decimal(1), ROUND_HALF_EVEN):,f}"
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


def flatten(config: Mapping[str, object], prefix: str = "") -> dict[str, str]:
    """Return nested settings as one level of dotted names with their values as text.

    Example:
        >>> flatten({"encoder": {"layers": 2}, "tied": True, "dropout": None})
        {'encoder.layers': '2', 'tied': 'yes', 'dropout': 'none'}
    """
    flat: dict[str, str] = {}
    for name, value in config.items():
        if isinstance(value, Mapping) and value:
            flat |= flatten(value, f"{prefix}{name}.")
        else:
            flat[prefix + name] = setting_text(value)
    return flat


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
    shown = exact.quantize(_step(places), ROUND_HALF_EVEN, _WIDE)
    if shown == 100 and exact < 100:
        shown = exact.quantize(_step(places), ROUND_FLOOR, _WIDE)
    elif shown == 0 and exact > 0:
        shown = exact.quantize(_step(places), ROUND_CEILING, _WIDE)
    return str(shown)


def _signed(value: Decimal) -> str:
    if value == 0:
        return str(abs(value))
    return f"+{value}" if value > 0 else f"−{-value}"


def _step(places: int) -> Decimal:
    return Decimal(1).scaleb(-places)
