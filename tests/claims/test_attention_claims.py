"""Claims on attention: each rule on figures that should and should not pass, and that stand on the borderline."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from selfattn.claims.attention.labelling import LONGEST, SYMBOLS, Labeller, permuted_difference
from selfattn.claims.attention.linked_phrases import gold
from selfattn.claims.attention.order import POSITIONS
from selfattn.claims.claim import Claim, Found
from selfattn.claims.rules import judge
from selfattn.claims.sequences import vocabulary
from selfattn.data.pairs import Pair, Span
from selfattn.models.transformer_config import TransformerConfig
from selfattn.registry import CLAIMS
from selfattn.results.claims import Trial

SPREAD = (-0.01, 0.005, 0.0, 0.01, -0.005)  # over seeds, another for each arm, so that differences vary too
Figures = Mapping[str, Mapping[str, float]]


def found(figures: Figures, spread: float = 1.0) -> Found:
    """Five trials of each arm around given means; `spread` 1 gives a standard deviation of 0.8 % of each."""
    return Found(
        Trial(
            arm,
            seed,
            1e-2,
            {key: mean * (1 + spread * SPREAD[(seed * (k + 1)) % 5]) for key, mean in means.items()},
            1.0,
        )
        for k, (arm, means) in enumerate(figures.items())
        for seed in range(5)
    )


def order(lead: float = 0.5, loss: float = 0.0, *, same: float = 1e-15, moved: float = 0.3) -> Figures:
    kinds = ("sinusoidal", "learned", "rotary", "alibi", "t5")
    figures = {"none-order": {"right@20": 0.2, "moved": same}, "none-set": {"right@20": 0.9, "moved": same}}
    figures |= {f"{kind}-order": {"right@20": 0.2 + lead, "moved": moved} for kind in kinds}
    return figures | {f"{kind}-set": {"right@20": 0.9 - loss, "moved": moved} for kind in kinds}


def key_value_heads(
    loss: float = 0.01, speed: float = 2.0, *, cache: float = 8.0, size: float = 0.001, full: float = 0.99
) -> Figures:
    figures = {f"kv-{kv}": {"exact": full - (kv < 4) * loss, "size": 85000 * (1 + (kv < 4) * size)} for kv in (4, 2, 1)}
    places = (64, 256, 1000)
    times = {f"speed-up@{n}": speed for n in places} | {f"cache@{n}": cache for n in places}
    return figures | {"decoding": times}


def parallelism(
    short: float = 1.5,
    long: float = 0.4,
    growth: float = 1.8,
    *,
    per_symbol: float = 5.0,
    own: float = 0.0,
    power: float = 2.0,
) -> Figures:
    """Times of the LSTM over those of attention; the power of attention's memory."""
    ways = ("rnn", "rnn-unfused", "attention", "attention-unfused")
    figures = {f"{way}-ms@{n}": 10.0 for way in ways for n in (16, 32, 64, 128, 256, 512, 1024)}
    figures |= {f"{way}-ms@16": 10.0 * short for way in ways[:2]} | {"rnn-ms@1024": 10.0 * growth * long}
    figures |= {"attention-ms@1024": 10.0 * growth}
    for n in (16, 32, 64):
        figures |= {f"{way}-steps@{n}": 3.0 + per_symbol * n for way in ways[:2]}
        figures |= {f"{way}-steps@{n}": 12.0 + own * n for way in ways[2:]}
    for n in (512, 1024):
        figures |= {f"rnn-bytes@{n}": 100.0 * n, f"attention-unfused-bytes@{n}": float(n) ** power}
    return {"layers": figures}


def alignment(error: float = 0.2, *, location: float = 0.2, heads: float = 0.2, level: float = 0.45) -> Figures:
    floors = {"untrained": 0.7, "diagonal": level}
    own = dict.fromkeys(("dot", "scaled_dot", "general", "additive", "concat"), error)
    own |= {"location": location, "heads": heads, "shuffled-rnn": 0.7, "shuffled-heads": 0.7}
    return {arm: {"error": one, "writes": one, "reads": 0.6, **floors} for arm, one in own.items()}


# Claim, figures, spread over seeds, verdict: passes, fails, and on both sides of a bound that the mean alone passes.
CASES: list[tuple[str, Figures, float, str]] = [
    ("order", order(), 1.0, "holds"),
    ("order", order(same=1e-9), 1.0, "does not hold"),
    ("order", order(moved=1e-4), 1.0, "does not hold"),
    ("order", order(lead=0.06), 1.0, "not shown"),  # 400 sequences and five seeds cannot tell 6 points from 5
    ("order", order(lead=0.12), 1.0, "holds"),
    ("order", order(lead=0.0), 1.0, "does not hold"),
    ("order", order(loss=0.01), 1.0, "holds"),
    ("order", order(loss=0.045), 1.0, "not shown"),
    ("order", order(loss=0.15), 1.0, "does not hold"),
    ("key-value-heads", key_value_heads(), 0.0, "holds"),
    ("key-value-heads", key_value_heads(loss=-0.2, full=0.7), 0.0, "holds"),  # better is not worse
    ("key-value-heads", key_value_heads(loss=0.045), 0.0, "not shown"),
    ("key-value-heads", key_value_heads(loss=0.2), 0.0, "does not hold"),
    ("key-value-heads", key_value_heads(size=0.01), 0.0, "does not hold"),
    ("key-value-heads", key_value_heads(cache=7.9), 0.0, "does not hold"),
    ("key-value-heads", key_value_heads(speed=0.9), 0.0, "does not hold"),
    ("alignment", alignment(), 1.0, "holds"),
    ("alignment", alignment(location=0.6), 1.0, "conditional"),
    ("alignment", alignment(location=0.6, heads=0.6), 1.0, "conditional"),
    ("alignment", alignment(0.6, location=0.6), 1.0, "conditional"),
    ("alignment", alignment(0.6, location=0.6, heads=0.6), 1.0, "does not hold"),
    ("alignment", alignment(0.39, location=0.39, heads=0.39), 1.0, "not shown"),  # 6 points are not surely above 5
    ("alignment", alignment(0.2, level=0.2), 1.0, "does not hold"),
    ("parallelism", parallelism(), 0.0, "holds"),
    ("parallelism", parallelism(short=0.8), 0.0, "does not hold"),
    ("parallelism", parallelism(short=1.0), 0.0, "not shown"),
    ("parallelism", parallelism(long=1.2), 0.0, "does not hold"),  # the curves do not cross
    ("parallelism", parallelism(growth=1.3), 0.0, "does not hold"),
    ("parallelism", parallelism(per_symbol=0.0), 0.0, "does not hold"),
    ("parallelism", parallelism(own=0.1), 0.0, "does not hold"),
    ("parallelism", parallelism(power=1.75), 0.0, "does not hold"),
    ("parallelism", parallelism(power=1.85), 0.0, "holds"),
]


def claim(name: str) -> Claim:
    made: Callable[[], Claim] = CLAIMS[name]
    return made()


@pytest.mark.parametrize(("name", "figures", "spread", "verdict"), CASES)
def test_a_rule_gives_its_verdict(name: str, figures: Figures, spread: float, verdict: str) -> None:
    one, seen = claim(name), found(figures, spread)
    judged = judge(one.contrasts(seen), one.conditions(seen))
    assert judged.verdict == verdict, judged.contrasts


TINY = {"alignment": {"steps": 1, "pairs": 20}, "order": {"steps": 1, "items": 5}, "key-value-heads": {"steps": 1}}


@pytest.mark.parametrize("name", TINY)
def test_every_arm_is_measured_by_a_function_of_its_arguments(name: str) -> None:
    one = claim(name)
    arms = one.arms(quick=False)
    tiny = {"seed": 3, "rate": 1e-3, "quick": False, **TINY[name]}
    figures = {arm.name: one.measure(arm, **tiny) for arm in arms}  # type: ignore[arg-type]
    assert all(math.isfinite(value) for found in figures.values() for value in found.values())
    assert all("valid" in figures[arm.name] for arm in arms if arm.rates)
    assert one.measure(arms[0], **tiny) == figures[arms[0].name]  # type: ignore[arg-type]
    has_all_words(one, Found(Trial(arm, seed, 1e-3, made, 0.1) for arm, made in figures.items() for seed in range(2)))


def has_all_words(one: Claim, seen: Found) -> None:
    assert one.blocks(seen)
    keys = {"sentence", "explanation", "varied", "held", "rule", *(f"arm.{arm}" for arm in seen.arms)}
    keys |= {f"contrast.{rule.name}" for rule in one.contrasts(seen)}
    for key, rules in one.conditions(seen).items():
        keys |= {f"condition.{key}", *(f"contrast.{rule.name}" for rule in rules)}
    assert all(one.says(key) for key in keys), [key for key in keys if not one.says(key)]


@pytest.mark.parametrize("position", ["none", *POSITIONS])
def test_without_positions_an_encoder_is_equivariant_and_with_any_it_is_not(position: str) -> None:
    config = TransformerConfig(dim=16, num_heads=2, position=position, max_length=LONGEST)
    moved = permuted_difference(Labeller(config, vocabulary(SYMBOLS), 5).double(), 5)
    assert moved < 1e-12 if position == "none" else moved > 1e-2


def test_a_faster_cache_has_to_be_faster_over_the_seeds() -> None:
    one, speeds = claim("key-value-heads"), (1.4, 0.9, 1.3, 0.95, 1.1)
    trials = found(key_value_heads(), 0.0).trials
    times = [trial for trial in trials if trial.arm == "decoding"]
    changed = [replace(t, figures={**t.figures, "speed-up@1000": s}) for t, s in zip(times, speeds, strict=True)]
    seen = Found([trial for trial in trials if trial.arm != "decoding"] + changed)
    assert judge(one.contrasts(seen)).verdict == "not shown"


def test_chains_are_counted_and_times_taken() -> None:
    one = claim("parallelism")
    (arm,) = one.arms(quick=True)
    figures = one.measure(arm, seed=3, rate=None, quick=True, tokens=64)  # type: ignore[call-arg]
    assert all(figures[f"attention-steps@{n}"] == figures["attention-steps@16"] for n in (32, 64))
    first, second, third = (figures[f"rnn-unfused-steps@{n}"] for n in (16, 32, 64))
    of_a_symbol = (second - first) / 16
    assert of_a_symbol >= 5  # sum, gate, product, sum and tanh at least
    assert third - second == 32 * of_a_symbol
    assert figures["attention-unfused-bytes@64"] > 2 * figures["attention-unfused-bytes@32"]
    seen = found(parallelism(), 0.0)
    has_all_words(one, seen)


def test_one_pair_of_equal_times_does_not_show_who_is_faster() -> None:
    trials = found(parallelism(), 0.0).trials
    times = (15.0, 9.0, 14.0, 9.5, 11.0)
    seen = Found(replace(t, figures={**t.figures, "rnn-ms@16": ms}) for t, ms in zip(trials, times, strict=True))
    assert judge(claim("parallelism").contrasts(seen)).verdict == "not shown"


def test_the_condition_that_is_met_first_is_named() -> None:
    one = claim("alignment")
    for figures, condition in (
        (alignment(location=0.6), "content"),
        (alignment(location=0.6, heads=0.6), "rnn"),
        (alignment(0.6, location=0.6), "heads"),
    ):
        seen = found(figures)
        assert judge(one.contrasts(seen), one.conditions(seen)).condition == condition


def test_gold_links_words_of_one_field() -> None:
    spans = (Span("month", (0, 3), (6, 8)), Span("year", (7, 11), (0, 5)), Span("currency", (12, 17), (9, 10)))
    links = gold(Pair("May 4, 1988 a b c", "1988년 5월 x", "", spans)).links
    assert links.sure == {(0, 1), (2, 0)}
    assert links.possible - links.sure == {(3, 2), (4, 2), (5, 2)}
