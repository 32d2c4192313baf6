"""Rules of the claims on learning: figures that meet them, that contradict them, and that stand on the border."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from selfattn.claims.claim import Claim, Found
from selfattn.claims.learning.depth import residual
from selfattn.claims.rules import judge
from selfattn.registry import CLAIMS
from selfattn.results.claims import Trial

torch = pytest.importorskip("torch")

JITTER = (0.004, -0.004, 0.002, -0.002, 0.0)  # five seeds that agree but for less than half a point
Figures = dict[str, dict[str, float]]


def future_mask(**changes: float) -> Figures:
    at = {f"{kind}@{place}": 0.5 for kind in ("forced", "free") for place in range(1, 13)}
    return {
        "mask-on": {"forced": 0.83, "free": 0.83, "leaks": 0.0, "loss": 0.9, **at},
        "mask-off": {"forced": 0.99, "free": 0.1, "leaks": 1.0, "loss": 0.0, **at} | changes,
    }


def averaging(**changes: float) -> Figures:
    left = {"neither": -6.0, "forward": -0.2, "skip": -0.1, "both": -0.1} | changes
    beyond = left.pop("beyond", 0.0)
    return {arm: {"beyond": beyond, **{f"left@{layer}": left[arm] for layer in range(9)}} for arm in left}


def depth(**changes: float) -> Figures:
    right = {"skip-1": 0.97, "skip-6": 0.97, "none-1": 0.95, "none-6": 0.2}
    right |= {key.replace("_", "-"): value for key, value in changes.items()}
    return {arm: {"right": share, "apart": 0.5, "gradient@1": 0.3, "gradient@6": 0.3} for arm, share in right.items()}


def distance(**changes: float) -> Figures:
    slopes = {"attention": 0.0, "lstm": -2.0, "lstm-open": -1.0}
    slopes |= {key.replace("_", "-"): value for key, value in changes.items() if key != "recall"}
    recall = {"recall@512": changes.get("recall", 0.995)}
    return {arm: {"slope": slope, "gradient@1": -1.0, "gradient@512": -2.0, **recall} for arm, slope in slopes.items()}


def exposure(**changes: float) -> Figures:
    forced = {"forced@0": 0.55, "forced@1": 0.52, "forced@2": 0.49, "forced@4": 0.42}
    written = {"greedy": 0.42, "sampled": 0.34, "beam": 0.42}
    return {
        "teacher-forcing": forced | written | {k: v for k, v in changes.items() if not k.startswith("sampling_")},
        "scheduled-sampling": forced | written | {"greedy": changes.get("sampling_greedy", 0.46)},
        "free-running": forced | written,
    }


def found_of(figures: Figures) -> Found:
    """Five seeds a little apart; arms are not moved together, so that differences vary as well."""
    trials = [
        Trial(arm, seed, None, {name: value + _apart(name, value, seed, number) for name, value in named.items()}, 1.0)
        for number, (arm, named) in enumerate(figures.items())
        for seed in range(5)
    ]
    return Found(trials)


def _apart(name: str, value: float, seed: int, number: int) -> float:
    return 0.0 if name in ("leaks", "beyond") or value in (0.0, 1.0) else JITTER[(seed + number) % 5]


CASES: list[tuple[str, Callable[..., Figures], dict[str, float], str]] = [
    ("future-mask", future_mask, {}, "holds"),
    ("future-mask", future_mask, {"free": 0.83}, "does not hold"),
    ("future-mask", future_mask, {"forced": 0.83}, "does not hold"),
    ("future-mask", future_mask, {"forced": 0.88}, "not shown"),  # exactly the margin
    ("future-mask", future_mask, {"leaks": 0.0}, "does not hold"),  # the gate missed it
    ("averaging", averaging, {}, "holds"),
    ("averaging", averaging, {"forward": -6.0}, "conditional"),
    ("averaging", averaging, {"forward": -1.0}, "conditional"),  # the remedy is on the border
    ("averaging", averaging, {"neither": -0.1}, "does not hold"),
    ("averaging", averaging, {"neither": -2.0}, "not shown"),
    ("averaging", averaging, {"beyond": 1e-3}, "does not hold"),
    ("depth", depth, {}, "holds"),
    ("depth", depth, {"none_6": 0.95}, "does not hold"),
    ("depth", depth, {"none_6": 0.90}, "not shown"),  # the interaction is exactly the margin
    ("depth", depth, {"none_1": 0.2}, "does not hold"),  # missed at any depth: no matter of depth
    ("distance", distance, {}, "holds"),
    ("distance", distance, {"lstm_open": 0.2}, "conditional"),
    ("distance", distance, {"lstm_open": -0.1}, "conditional"),
    ("distance", distance, {"lstm": 0.2}, "does not hold"),
    ("distance", distance, {"attention": 0.1}, "not shown"),
    ("distance", distance, {"attention": -0.5}, "does not hold"),
    ("distance", distance, {"recall": 0.95}, "not shown"),
    ("distance", distance, {"recall": 0.8}, "does not hold"),
    ("exposure", exposure, {}, "holds"),
    ("exposure", exposure, {"greedy": 0.54, "sampling_greedy": 0.55}, "does not hold"),  # no gap
    ("exposure", exposure, {"greedy": 0.50}, "does not hold"),  # scheduled sampling is behind
    ("exposure", exposure, {"sampling_greedy": 0.42}, "not shown"),
    ("exposure", exposure, {"forced@1": 0.56, "forced@2": 0.57, "forced@4": 0.58}, "does not hold"),
]
CASES = [case for case in CASES if case[0] in CLAIMS.names()]


@pytest.mark.parametrize(("name", "figures", "changes", "verdict"), CASES)
def test_a_rule_says_what_the_figures_say(
    name: str, figures: Callable[..., Figures], changes: Mapping[str, float], verdict: str
) -> None:
    claim: Claim = CLAIMS[name]()
    found = found_of(figures(**changes))
    assert judge(claim.contrasts(found), claim.conditions(found)).verdict == verdict


TINY: dict[str, dict[str, Any]] = {"depth": {"dim": 8}, "distance": {"distances": (2, 8)}, "averaging": {"dim": 8}}


@pytest.mark.parametrize("name", sorted({case[0] for case in CASES}))
def test_every_arm_is_measured_the_same_way_twice(name: str) -> None:
    claim: Claim = CLAIMS[name]()
    arms = claim.arms(True)
    small = {"steps": 2, "rows": 3, "tested": 8, "texts": 2, "stacks": 2, "tokens": 5} | TINY.get(name, {})
    for arm in (arms[0], arms[-1]):
        made = replace(arm, settings={**arm.settings, **{k: v for k, v in small.items() if k in arm.settings}})
        rate = arm.rates[0] if arm.rates else None
        first, second = (claim.measure(made, seed=100, rate=rate, quick=True) for _ in range(2))
        assert first == second
        assert all(map(math.isfinite, first.values()))
        assert ("valid" in first) == bool(arm.rates)


@pytest.mark.parametrize(("name", "figures"), list({case[0]: case[1] for case in CASES}.items()))
def test_what_a_claim_says_is_said_in_both_languages(name: str, figures: Callable[..., Figures]) -> None:
    claim: Claim = CLAIMS[name]()
    found = found_of(figures())
    keys = ["sentence", "explanation", "varied", "held", "rule"]
    keys += [f"arm.{arm.name}" for quick in (True, False) for arm in claim.arms(quick)]
    keys += [f"contrast.{one.name}" for one in claim.contrasts(found)]
    keys += [f"condition.{key}" for key in claim.conditions(found)]
    assert claim.blocks(found)
    for key in keys:
        assert claim.say(key).texts.keys() >= {"en", "ko"}
        assert claim.say(key).say("en") != claim.say(key).say("ko")


def test_residual_of_two_vectors_by_hand() -> None:
    # the mean of (3, 4) and (3, -4) is (3, 0): 4 and 4 are left of 5 and 5
    assert residual(torch.tensor([[[3.0, 4.0], [3.0, -4.0]]])).item() == pytest.approx(0.8)
