"""Claims on scores and on the weighted sum: their rules on figures that pass, fail and stand on the border."""

from __future__ import annotations

from fractions import Fraction
from math import log

import pytest
import torch

from selfattn.claims.attention.by_hand import by_autograd, by_hand
from selfattn.claims.attention.scores import SOFTMAX, WIDTHS, Scores, slope
from selfattn.claims.attention.weighted_sum import BACKWARD, FORWARD, WeightedSum
from selfattn.claims.claim import Arm, Found
from selfattn.claims.rules import judge
from selfattn.claims.sequences import lookups
from selfattn.results.claims import Trial


def saturation(unscaled: float, scaled: float, wobble: float = 0.01) -> Found:
    """Derivatives that fall with these powers of the width, but for a wobble from seed to seed."""
    powers = {"unscaled": unscaled, "scaled": scaled}
    return Found(
        Trial(arm, seed, None, {f"gradient@{w}": w ** (power + wobble * (seed - 2)) for w in WIDTHS}, 1.0)
        for arm, power in powers.items()
        for seed in range(5)
    )


@pytest.mark.parametrize(
    ("unscaled", "scaled", "verdict"),
    [
        (-0.4, 0.0, "holds"),
        (-0.4, -0.07, "holds"),
        (-0.4, -0.1, "not shown"),  # the border: half of the interval is beyond
        (-0.4, -0.3, "does not hold"),
        (0.0, 0.0, "not shown"),
        (0.4, 0.0, "does not hold"),
    ],
)
def test_the_rule_of_the_scores(unscaled: float, scaled: float, verdict: str) -> None:
    assert judge(Scores().contrasts(saturation(unscaled, scaled))).verdict == verdict


def test_a_slope_is_that_of_the_power() -> None:
    assert slope(tuple(3 * width**-0.5 for width in WIDTHS)) == pytest.approx(-0.5)


def test_scores_measure_what_saturates() -> None:
    found = {arm: Scores().measure(Arm(arm), seed=100, rate=None, quick=True) for arm in SOFTMAX}
    assert found["unscaled"]["entropy@2048"] < 0.1 < 0.8 < found["scaled"]["entropy@2048"] <= 1


def test_lookups_have_the_value_of_each_name_in_the_order_of_names() -> None:
    batch = lookups(5, 6, torch.Generator().manual_seed(3), names=12, values=8)
    for source, target in zip(batch.source.tolist(), batch.target_out.tolist(), strict=True):
        assert target[:-1] == [value for _, value in sorted(zip(source[::2], source[1::2], strict=True))]


def test_scores_train_at_a_tiny_size() -> None:
    arm = next(arm for arm in Scores().arms(True) if arm.name == "location")
    found = Scores().measure(arm, seed=100, rate=1e-2, quick=False, steps=2)
    assert set(found) == {"valid", "exact", "milliseconds"}


def test_the_worked_example_is_right_on_paper() -> None:
    """Every number of the page as a fraction, done by hand."""
    claim = WeightedSum()
    found = claim.measure(claim.arms(False)[0], seed=0, rate=None, quick=False)
    by_paper = {
        "weights": [["1/6", "2/6", "3/6"], ["1/4", "2/4", "1/4"]],
        "output": [["8", "10"], ["6", "9"]],
        "d_weights": [["12", "0", "12"], ["0", "12", "12"]],
        "d_value": [["1/6", "1/4"], ["1/3", "1/2"], ["1/2", "1/4"]],
        "d_scores": [["2/3", "-8/3", "2"], ["-9/4", "3/2", "3/4"]],
        "d_query": [["-8/3", "2"], ["3/2", "3/4"]],
    }
    for name, rows in by_paper.items():
        for i, row in enumerate(rows):
            for j, value in enumerate(row):
                assert found[f"{name}.{i}.{j}"] == pytest.approx(float(Fraction(value)), abs=1e-12), (name, i, j)
    assert found["d_key.2.0"] == pytest.approx(2.75 * log(2))
    assert found["d_key.2.1"] == pytest.approx(2 * log(3))


def test_by_hand_is_autograd() -> None:
    claim = WeightedSum()
    trials = [
        Trial(arm.name, 0, None, claim.measure(arm, seed=0, rate=None, quick=True), 1.0) for arm in claim.arms(True)
    ]
    assert judge(claim.contrasts(Found(trials))).verdict == "holds"


def test_a_step_that_differs_is_found() -> None:
    figures = {f"error.{step}": 1e-16 for step in (*FORWARD, *BACKWARD)} | {"error.d_scores": 1.0000001e-12}
    found = Found([Trial("worked", 0, None, figures, 1.0)])
    forward, backward = WeightedSum().contrasts(found)
    assert forward.met
    assert not backward.met
    assert judge([forward, backward]).verdict == "does not hold"


def test_the_softmax_rule_matters() -> None:
    """The same without the mean of the gradients is another gradient: the comparison can fail."""
    draws = torch.Generator().manual_seed(0)
    given = [torch.randn(3, 3, generator=draws, dtype=torch.float64) for _ in range(4)]
    own, other = by_hand(*given), by_autograd(*given)
    wrong = own["weights"] * own["d_weights"]
    assert (own["d_scores"] - other["d_scores"]).abs().max() < 1e-12 < (wrong - other["d_scores"]).abs().max()
