"""Statistics over budgets against references and figures by hand: crossings, trends, convergence, design."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pytest

from selfattn.codec import decode, encode
from selfattn.evaluation.metrics.exact import CharacterErrorRate, ExactMatch
from selfattn.evaluation.statistics.convergence import converged, errors_of
from selfattn.evaluation.statistics.crossings import budget_differences, locate, simultaneous_level
from selfattn.evaluation.statistics.design import expected_best, most_failing, seeds_needed, smallest_detectable
from selfattn.evaluation.statistics.p_values import f_tail, t_tail
from selfattn.evaluation.statistics.significance import compare_scores
from selfattn.evaluation.statistics.trends import budget_for, fit_trend
from selfattn.results.budgets import BudgetDifference, Crossing, Trend

CLEAR = {
    "-": (-3.0, -4.0, -2.0),
    "m": (-1.0, -2.0, 0.5),
    "0": (0.0, -1.0, 1.0),
    "p": (1.0, -0.5, 2.0),
    "+": (3.0, 2.0, 4.0),
}


def differences(signs: str) -> list[BudgetDifference]:
    """At budgets 1, 2, 4, ...: clearly below 0, below it, on it, above it, clearly above."""
    return [BudgetDifference(2.0**k, *CLEAR[sign]) for k, sign in enumerate(signs)]


def right(draws: npt.NDArray[np.float64], share: float) -> npt.NDArray[np.float64]:
    """What exact match counts: ``[s i 2]``."""
    return np.stack([draws < share, np.ones_like(draws)], axis=-1)


# Crossings


@pytest.mark.parametrize(
    ("signs", "found"),
    [
        ("-+", Crossing("located", (1.0, 2.0), 1)),
        ("-mp+", Crossing("located", (1.0, 8.0), 1)),
        ("--m0++", Crossing("located", (2.0, 16.0), 1)),
        ("+0-", Crossing("located", (1.0, 4.0), 1)),
        ("+0-+", Crossing("located", (4.0, 8.0), 2)),  # two, of which this is the nearest
        ("mp", Crossing("not located")),  # means that cross are no crossing
        ("-p", Crossing("not located")),
        ("m+", Crossing("not located")),
        ("mpmpm", Crossing("not located")),
        ("--", Crossing("none seen")),
        ("-mm", Crossing("none seen")),
        ("+p0", Crossing("none seen")),
        ("000", Crossing("none seen")),
    ],
)
def test_a_crossing_is_claimed_of_clear_signs_alone(signs: str, found: Crossing) -> None:
    assert locate(differences(signs)) == found
    assert locate(differences(signs)[::-1]) == found
    turned = [BudgetDifference(one.budget, -one.difference, -one.high, -one.low) for one in differences(signs)]
    assert locate(turned) == found


def test_an_interval_that_touches_zero_is_not_clear() -> None:
    found = [BudgetDifference(1, -1.0, -2.0, 0.0), BudgetDifference(2, 1.0, 0.0, 2.0)]
    assert locate(found).kind == "not located"


@pytest.mark.parametrize(
    ("found", "fault"),
    [
        ([BudgetDifference(1, 0.0, 0.0, 0.0)], "two budgets"),
        ([BudgetDifference(1, 0.0, 0.0, 0.0)] * 2, "different"),
        ([BudgetDifference(0, 0.0, 0.0, 0.0), BudgetDifference(1, 0.0, 0.0, 0.0)], "above 0"),
        ([BudgetDifference(1, 5.0, 0.0, 1.0), BudgetDifference(2, 0.0, 0.0, 0.0)], "not within"),
        ([BudgetDifference(1, math.nan, 0.0, 1.0), BudgetDifference(2, 0.0, 0.0, 0.0)], "not within"),
    ],
)
def test_what_is_no_row_of_budgets_is_refused(found: list[BudgetDifference], fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        locate(found)


def test_simultaneous_intervals_share_the_risk() -> None:
    assert simultaneous_level(1, 0.95) == pytest.approx(0.95)
    assert simultaneous_level(5, 0.95) == pytest.approx(0.99)
    for cells, level in ((0, 0.95), (2, 1.0), (2, 0.0)):
        with pytest.raises(ValueError, match="level"):
            simultaneous_level(cells, level)


def test_differences_are_those_of_a_comparison_at_a_stricter_level() -> None:
    draws = np.random.default_rng(0).random((2, 2, 5, 500))
    shares = {1.0: (0.7, 0.8), 4.0: (0.9, 0.85)}
    counts = {
        budget: {name: right(draws[k, n], share) for n, (name, share) in enumerate(zip("ab", both, strict=True))}
        for k, (budget, both) in enumerate(shares.items())
    }
    found = budget_differences(counts, ExactMatch(), ("b", "a"), level=0.9)
    for one, (budget, models) in zip(found, counts.items(), strict=True):
        scores = {name: values[..., 0] for name, values in models.items()}
        usual = compare_scores(scores).between("b", "a")
        assert (one.budget, one.difference) == (budget, usual.difference)
        assert (one.low, one.high) == pytest.approx((usual.low, usual.high))  # 90 % of two is 95 % of each
        wider = compare_scores(scores, level=0.99).between("b", "a")
        assert wider.low < one.low
        assert one.high < wider.high
        assert wider.p == usual.p


# Convergence


def test_errors_are_what_is_missing_to_the_best_score() -> None:
    scores = np.array([0.25, 0.5])
    assert errors_of(scores, "share", "higher").tolist() == [0.75, 0.5]
    assert errors_of(scores, "points", "higher").tolist() == [99.75, 99.5]
    assert errors_of(scores, "share", "lower").tolist() == [0.25, 0.5]


def test_the_bound_of_a_reduction_is_fiellers() -> None:
    """Where nothing but the seeds varies: the larger root of a quadratic equation, with Welch's degrees at the root."""
    first, second = np.array([10.0, 12.0, 14.0, 16.0]), np.array([9.0, 11.0, 13.0, 14.0])
    counts = [np.repeat(np.stack([one, np.full(4, 100.0)], axis=-1)[:, None], 4000, axis=1) for one in (first, second)]
    found = converged(*counts, CharacterErrorRate(), resamples=50)
    assert found.reduction == pytest.approx(1 - second.mean() / first.mean())
    v, w = first.var(ddof=1) / 4, second.var(ddof=1) / 4
    assert found.high is not None
    left = 1 - found.high
    t = (second.mean() - left * first.mean()) / math.sqrt(left**2 * v + w)
    df = (left**2 * v + w) ** 2 / ((left**2 * v) ** 2 / 3 + w**2 / 3)
    assert t_tail(t, df) / 2 == pytest.approx(0.05, abs=1e-9)


def test_a_missing_difference_is_no_convergence() -> None:
    draws = np.random.default_rng(1).random((2, 3, 100))
    few = converged(right(draws[0], 0.9), right(draws[1], 0.9), ExactMatch())
    assert not few.converged
    assert compare_scores({"a": draws[0] < 0.9, "b": draws[1] < 0.9}).between("a", "b").word == "no difference seen"
    many = np.random.default_rng(1).random((2, 3, 20_000))
    assert converged(right(many[0], 0.5), right(many[1], 0.5), ExactMatch()).converged
    assert not converged(right(many[0], 0.5), right(many[1], 0.57), ExactMatch()).converged


@pytest.mark.parametrize("seeds", [1, 2])
def test_few_seeds_show_no_convergence(seeds: int) -> None:
    draws = np.random.default_rng(2).random((2, seeds, 20_000))
    found = converged(right(draws[0], 0.5), right(draws[1], 0.5), ExactMatch())
    assert (found.converged, found.high) == (False, None)


def test_without_errors_there_is_nothing_to_take_away() -> None:
    draws = np.zeros((3, 50))
    found = converged(right(draws, 1), right(draws, 1), ExactMatch())
    assert (found.converged, found.reduction, found.high) == (False, None, None)


# Trends


def power_law(
    budgets: npt.ArrayLike, away: Mapping[int, float], seeds: int = 4
) -> dict[float, npt.NDArray[np.float64]]:
    """Errors 0.5 / sqrt(budget), one budget's off the line by a factor, and runs around it: the same on every item."""
    spread = np.linspace(-0.05, 0.05, seeds)
    errors = {float(b): 0.5 / b**0.5 * away.get(k, 1.0) * (1 + spread) for k, b in enumerate(np.asarray(budgets))}
    return {b: np.repeat(np.stack([e, np.ones(seeds)], axis=-1)[:, None], 50, axis=1) for b, e in errors.items()}


def test_a_line_is_that_of_least_squares_and_fits_as_scipy_says() -> None:
    stats = pytest.importorskip("scipy.stats", reason="SciPy is the reference here, and no dependency")
    counts = power_law([1, 2, 4, 8, 16], {2: 1.03})
    found = fit_trend(counts, CharacterErrorRate(), resamples=50)
    x = np.log(list(counts))
    means = np.array([one[:, 0, 0].mean() for one in counts.values()])
    line = stats.linregress(x, np.log(means))
    assert (found.word, found.slope) == ("line", pytest.approx(line.slope))
    assert found.height - found.slope * found.centre == pytest.approx(line.intercept)
    apart = 4 * ((np.log(means) - line.intercept - line.slope * x) ** 2).sum()
    pure = 5 * (np.linspace(-0.05, 0.05, 4) ** 2).sum()
    assert found.fit_p == pytest.approx(stats.f.sf(apart / 3 / (pure / 15), 3, 15))
    away = x - x.mean()
    parts = (1 / 5 + away * away[-1] / (away**2).sum()) ** 2  # of each budget in the line's end
    seeds = stats.t.ppf(0.975, 3 * parts.sum() ** 2 / (parts**2).sum()) ** 2 * pure / 15
    assert found.band == pytest.approx((seeds / 20, 0, seeds / (4 * (away**2).sum())), abs=1e-12)


@pytest.mark.parametrize(
    ("budgets", "away", "seeds", "word"),
    [
        ([1, 2, 4, 8, 16], {}, 4, "line"),
        ([1, 2, 4, 8], {}, 4, "too few budgets"),
        ([1, 2, 4, 8, 16], {}, 3, "line"),
        ([1, 2, 4, 8, 16], {}, 2, "too few seeds"),
        ([1, 2, 4, 8, 16], {4: 1.3}, 4, "lack of fit"),
        ([1, 2, 4, 8, 16], {4: 0.0}, 4, "no errors"),
    ],
)
def test_a_line_is_drawn_of_enough_that_fits(budgets: list[int], away: dict[int, float], seeds: int, word: str) -> None:
    found = fit_trend(power_law(budgets, away, seeds), CharacterErrorRate(), resamples=50)
    assert found.word == word
    if word != "line":
        with pytest.raises(ValueError, match=word):
            budget_for(0.1, found)


def test_items_that_all_runs_miss_together_are_no_lack_of_fit() -> None:
    """200 items at each budget, the same for its runs: means are away from the line by the luck of the items alone."""
    generator = np.random.default_rng(0)
    counts = {}
    for budget in (1.0, 2.0, 4.0, 8.0, 16.0):
        missed = generator.random(400) < 0.3 / budget**0.5
        runs = missed ^ (generator.random((5, 400)) < 0.002)
        counts[budget] = np.stack([~runs, np.ones_like(runs)], axis=-1)
    assert fit_trend(counts, ExactMatch()).word == "line"


def test_the_interval_of_a_budget_is_where_the_band_holds_the_error() -> None:
    trend = fit_trend(power_law([1, 2, 4, 8, 16], {2: 1.03}), CharacterErrorRate(), resamples=50)
    found = budget_for(0.2, trend)
    assert found.budget is not None
    assert found.low is not None
    assert found.high is not None
    for budget, sign in ((found.low, -1), (found.high, 1)):
        d = math.log(budget) - trend.centre
        half = math.sqrt(trend.band[0] + trend.band[1] * d + trend.band[2] * d**2)
        assert trend.height + trend.slope * d + sign * half == pytest.approx(math.log(0.2), abs=1e-9)
    assert trend.height + trend.slope * (math.log(found.budget) - trend.centre) == pytest.approx(math.log(0.2))


LINE = Trend("line", (1.0, 16.0), 0.5, math.log(4), math.log(0.2), -0.5, (0.01, 0.0, 0.001))


@pytest.mark.parametrize(
    ("error", "budget", "low", "high"),
    [
        (0.05, None, 16.0, None),  # never reached: above the largest
        (0.1, 16.0, 12.9, None),  # perhaps reached: 16 * exp(-0.1 / 0.5), and a little
        (0.2, 4.0, 3.3, 4.9),
        (0.4, 1.0, None, 1.24),
        (0.8, None, None, 1.0),  # always reached
    ],
)
def test_what_no_budget_reaches_is_censored(
    error: float, budget: float | None, low: float | None, high: float | None
) -> None:
    found = budget_for(error, LINE)
    assert found.budget == (None if budget is None else pytest.approx(budget))
    assert found.low == (None if low is None else pytest.approx(low, abs=0.1))
    assert found.high == (None if high is None else pytest.approx(high, abs=0.1))


def test_a_line_that_may_be_flat_needs_any_budget() -> None:
    flat = Trend("line", (1.0, 16.0), 0.5, math.log(4), math.log(0.2), -0.01, (0.01, 0.0, 0.01))
    found = budget_for(0.2, flat)
    assert (found.low, found.high) == (None, None)


@pytest.mark.parametrize(
    ("f", "between", "within"), [(0.0, 3, 20), (0.5, 3, 20), (2.5, 1, 7), (9.0, 4, 11.5), (80.0, 2, 4)]
)
def test_the_tail_of_f_is_scipys(f: float, between: float, within: float) -> None:
    stats = pytest.importorskip("scipy.stats", reason="SciPy is the reference here, and no dependency")
    assert f_tail(f, between, within) == pytest.approx(stats.f.sf(f, between, within), rel=1e-9)


# Designs


@pytest.mark.parametrize("seeds", [3, 5, 10])
def test_the_smallest_difference_is_found_with_its_power(seeds: int) -> None:
    """Where nothing but the seeds varies it is Student's t, whose power SciPy knows."""
    stats = pytest.importorskip("scipy.stats", reason="SciPy is the reference here, and no dependency")
    runs = np.linspace(-1.0, 1.0, seeds)
    error = math.sqrt(2 * runs.var(ddof=1) / seeds)
    t = stats.t.ppf(0.975, 2 * seeds - 2)
    found = smallest_detectable(runs, runs, t * error)
    assert stats.nct.sf(t, 2 * seeds - 2, found / error) == pytest.approx(0.8, abs=0.02)


def test_of_more_items_than_one_the_variance_is_what_seeds_do_not_explain() -> None:
    runs = np.array([0.0, 1.0, 2.0, 3.0, 4.0])
    t, z = 2.306004, 1.959964
    found = smallest_detectable(runs, runs, math.sqrt(t**2 * 1.0 + z**2 * 0.25))
    assert found == pytest.approx(math.sqrt(t**2 + z**2 / 4) + math.sqrt(0.888890**2 + 0.841621**2 / 4), rel=1e-5)


def test_seeds_do_what_is_asked_of_them_and_one_less_does_not() -> None:
    runs = np.array([0.0, 1.0, 2.0])
    half = 2.776 * math.sqrt(2 / 3)
    for difference in (3.0, 1.0, 0.3):
        seeds = seeds_needed(difference, runs, runs, half)
        assert seeds is not None
        assert smallest_detectable(runs, runs, half, seeds=seeds) <= difference
        assert seeds == 3 or smallest_detectable(runs, runs, half, seeds=seeds - 1) > difference


def test_no_seeds_make_up_for_items() -> None:
    runs = np.array([0.0, 0.001, 0.002])
    assert seeds_needed(0.1, runs, runs, 0.5) is None


def test_few_runs_say_nothing_of_a_design() -> None:
    with pytest.raises(ValueError, match="two runs"):
        smallest_detectable([1.0], [1.0, 2.0], 1.0)
    with pytest.raises(ValueError, match="above 0"):
        seeds_needed(0.0, [1.0, 2.0], [1.0, 2.0], 1.0)


@pytest.mark.parametrize("seeds", [1, 3, 10])
def test_good_runs_leave_room_for_failures(seeds: int) -> None:
    assert (1 - most_failing(seeds)) ** seeds == pytest.approx(0.05)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_the_expected_best_is_the_mean_over_all_draws(n: int) -> None:
    values = [3.0, 1.0, 4.0, 1.0, 5.0]
    draws = list(itertools.product(values, repeat=n))
    assert expected_best(values, n) == pytest.approx(np.mean([max(draw) for draw in draws]))
    assert expected_best(values, n, "lower") == pytest.approx(np.mean([min(draw) for draw in draws]))


def test_no_trial_has_no_best() -> None:
    for values, n in (([], 1), ([1.0], 0), ([math.nan], 1)):
        with pytest.raises(ValueError, match="at least one trial"):
            expected_best(values, n)


@pytest.mark.parametrize("found", [LINE, budget_for(0.05, LINE), budget_for(0.2, LINE), locate(differences("-mp+"))])
def test_figures_travel_as_json(found: object) -> None:
    assert decode(type(found), encode(found), file="here", advice="") == found
