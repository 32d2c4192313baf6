"""Gates on outputs, on the data and on what a fresh model can learn: by hand, at their limits, on planted faults."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from selfattn.data.dates.source import DateSource
from selfattn.data.examples import Example
from selfattn.data.pairs import Pair
from selfattn.data.readers.records import read_pairs
from selfattn.data.splits import book_split
from selfattn.evaluation.gates import overfitting as module
from selfattn.evaluation.gates.output_gates import (
    baseline_gate,
    endings,
    output_gates,
    overlap_gates,
    repetition,
    repetition_rate,
    variety,
)
from selfattn.evaluation.gates.overfitting import overfitting
from selfattn.results.record import Baseline, Gate
from selfattn.tasks.baselines import DATES
from selfattn.tasks.dates import Dates

TARGETS = [pair.target for pair in DateSource(split="test").pairs(101)]


@pytest.mark.parametrize(
    ("outputs", "finished", "failed"),
    [
        (TARGETS, True, []),
        (TARGETS[1:] + TARGETS[:1], True, []),  # a poor model is no broken one: wrong dates, but dates, and different
        (["2008-11-13"] * 101, True, ["variety"]),
        ([""] * 101, True, ["variety"]),
        (["08-08-08-08-08-08-08"] * 101, True, ["repetition", "variety"]),
        ([target + target[-2:] * 30 for target in TARGETS], True, ["repetition"]),
        (TARGETS, False, ["endings"]),
    ],
)
def test_faulty_outputs_are_caught_and_wrong_ones_pass(outputs: list[str], finished: bool, failed: list[str]) -> None:
    gates = output_gates(outputs, TARGETS, [finished] * len(outputs))
    assert [gate.name for gate in gates if not gate.passed] == failed


def test_repetition_by_hand() -> None:
    """Five letters have two 4-grams; in ``aaaaa`` the second repeats the first."""
    assert [repetition_rate(texts) for texts in (["abcde"], ["aaaaa"], ["aaaaa", "abcde"])] == [0, 0.5, 0.25]
    assert repetition_rate(["aaa", ""]) == repetition_rate([]) == 0  # no 4-gram at all
    assert repetition_rate([[7, 8, 7, 8, 7]], n=2) == 0.5
    songs = ["la la la la la la"] * 3  # targets that repeat allow outputs to repeat
    assert repetition(songs, songs).passed
    assert not repetition(songs, ["do re mi fa so la"] * 3).passed


def test_gates_need_outputs_with_targets() -> None:
    for gate in (repetition, variety):
        with pytest.raises(ValueError, match="at least one; got 0 and 0"):
            gate([], [])
        with pytest.raises(ValueError, match="got 2 and 1"):
            gate(["a", "b"], ["a"])
    with pytest.raises(ValueError, match="at least one output"):
        endings([])
    with pytest.raises(ValueError, match="at least one test pair"):
        overlap_gates([], [])


# Published baselines


def test_a_model_far_below_the_published_fails() -> None:
    gates = [baseline_gate(DATES["transformer"], v, examples=135_000, distinct=45_000) for v in (0.2, 0.96)]
    assert [gate and gate.passed for gate in gates] == [False, True]
    assert gates[0] is not None
    for words in ("exact_match 0.2 after 135,000 training pairs, at least 0.95 expected (Saito 2018", "135,000 pairs"):
        assert words in gates[0].reason
    low, high = (baseline_gate(Baseline("ter", 40.0, "Smith"), value, better="lower") for value in (39.0, 41.0))
    assert low is not None
    assert high is not None
    assert (low.passed, high.passed, high.reason) == (True, False, "ter 41, at most 40 expected (Smith)")


@pytest.mark.parametrize(
    ("examples", "distinct", "is_checked"),
    [(135_000, 45_000, True), (480_000, 480_000, True), (134_999, 45_000, False), (4_000_000, 44_999, False)],
)
def test_a_model_trained_on_less_than_the_published_is_not_checked(
    examples: int, distinct: int, is_checked: bool
) -> None:
    gate = baseline_gate(DATES["transformer"], 0.0, examples=examples, distinct=distinct)
    assert (gate is not None) == is_checked
    assert baseline_gate(Baseline("bleu", 38.0, "x", examples=1), 0.0) is None
    assert baseline_gate(Baseline("bleu", 38.0, "x", distinct=1), 0.0) is None


# Overlap of training and test


def overlap(train: Iterable[Pair], test: Sequence[Pair]) -> Gate:
    return overlap_gates(train, test)[0]


def told(*, items: str, exact: str, casefolded: str, pairs: str, targets: str) -> str:
    return (
        f"of {items} test sources {exact} are in the training data word for word, {casefolded} when case is ignored; "
        f"of the pairs {pairs} when case and punctuation are ignored; of the targets {targets}"
    )


def test_overlap_counts_test_pairs_by_hand() -> None:
    train = [Pair("May 1", "05-01"), Pair("JUNE 2", "06-02"), Pair("June 2", "x"), Pair("Straße", "s")]
    test = [Pair("May 1", "05-01"), Pair("may-1", "0501"), Pair("june 2", "y"), Pair("STRASSE", "z"), Pair("new", "s")]
    gate = overlap(iter(train), test)
    assert (gate.name, gate.passed, gate.value, gate.limit) == ("overlap", False, 3 / 5, 0.01)
    assert gate.reason == told(items="5", exact="1", casefolded="3", pairs="2", targets="2")
    stops = [Pair(f"It rains {number}.", "Es regnet.") for number in range(9)]
    assert overlap(stops, [Pair("it rains 3", "es regnet!")]).value == 1
    assert overlap(stops, [Pair("it rains 3", "es schneit")]).value == 0  # another pair


def test_the_overlap_of_dates(shared_data: Callable[[str], Path]) -> None:
    """The book's own split: 1,405 test rows word for word in training, 2,438 when case is ignored."""
    gate = overlap(iter(DateSource().pairs(2000)), DateSource(split="test").pairs(500))
    assert gate.reason == told(items="500", exact="0", casefolded="0", pairs="0", targets="0")
    assert gate.passed
    gate = overlap(*book_split(read_pairs(shared_data("dates/date.txt"))))
    assert gate.reason.startswith("of 5,000 test sources 1,405 are in the training data word for word, 2,438 when case")
    assert gate.reason.endswith("of the targets 4,641")
    assert not gate.passed


def test_test_sources_with_another_last_character_are_seen() -> None:
    """And dates, which all resemble one another, are no more like training than validation is."""
    texts = ["".join(random.Random(seed).choices("abcdefgh ", k=30)) for seed in range(300)]
    pairs = [Pair(text, text) for text in texts]
    train, test, validation = pairs[:200], pairs[200:250], pairs[250:]
    changed = [Pair(f"{pair.source[:-1]}!", pair.target[::-1]) for pair in test]
    for more, shares in (([], (True, 0.0)), (changed, (False, 1.0))):
        _, gate = overlap_gates([*more, *train], test, validation)
        assert (gate.name, gate.passed, gate.value, gate.limit) == ("similar texts", *shares, 0.2)
    assert overlap_gates([*changed, *train], test)[0].value == 0
    splits = Dates().splits(0)
    gates = overlap_gates(splits.train(0, 5000), splits.test(200), splits.validation(200))
    assert all(gate.passed for gate in gates)
    assert gates[1].value is not None
    assert gates[1].value > 0.4
    assert overlap_gates(test, [Pair("short", "x")], validation)[1].value == 0


def test_a_value_at_the_limit_passes() -> None:
    numbers = [str(number) for number in range(100)]
    pairs = [Pair(number, number) for number in numbers]
    known = 1 - 1 / 7  # of the seven 4-grams of ten like characters all but the first are known
    for reached, missed in (
        (endings([True] * 19 + [False]), endings([True] * 18 + [False])),
        (variety(["a"] * 10, numbers[:10], learned=True), variety(["a"] * 11, numbers[:11])),
        (repetition(["0" * 10], ["2008-11-13"], above=known), repetition(["0" * 10], ["2008-11-13"], above=0.857)),
        (overlap(pairs[:1], pairs), overlap(pairs[:2], pairs)),
        (baseline_gate(Baseline("bleu", 38.0, "x"), 38.0), baseline_gate(Baseline("bleu", 38.0, "x"), 37.9)),
    ):
        assert reached is not None
        assert missed is not None
        assert (reached.passed, missed.passed) == (True, False), missed.name
        assert reached.value == reached.limit
    for others, passed in ((8, True), (7, False)):  # 0.857 / 9 is less than 0.1, 0.857 / 8 is more
        assert repetition(["0" * 10] + ["abcdefg"] * others, ["abcdefg"] * (others + 1)).passed == passed


# What a fresh model can learn


class Clock:
    """A model with one weight, and what the gate does with it, step by step."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, losses: Sequence[float], known: Sequence[int]) -> None:
        self.weight = nn.Parameter(torch.zeros((), dtype=torch.float64))
        self.losses, self.known = losses, iter(known)
        self.step, self.now = 0, 1000.0
        self.looks: list[int] = []
        self.rates: list[list[float]] = []
        self.gradients: list[float] = []
        self.batches: list[Any] = []
        self.dropped: list[float] = []
        monkeypatch.setattr(module, "batch_loss", self.loss)
        monkeypatch.setattr(module, "greedy", self.greedy)
        monkeypatch.setattr(module, "make_optimizer", self.optimizer)
        monkeypatch.setattr(module.time, "perf_counter", lambda: self.now)

    def train(self) -> Clock:
        return self

    def parameters(self) -> Iterator[nn.Parameter]:
        return iter([self.weight])

    def loss(self, _: object, batch: Any) -> Tensor:
        assert torch.is_grad_enabled()
        self.batches.append(batch)
        self.dropped.append(torch.rand(()).item())
        loss = self.losses[min(self.step, len(self.losses) - 1)]
        self.step, self.now = self.step + 1, self.now + 1.0
        return 5.0 * (self.weight - self.weight.detach()) + loss

    def optimizer(self, _: object, config: Any) -> Any:
        self.config = config
        groups = [{"lr": math.nan}, {"lr": math.nan}]

        def step() -> None:
            self.rates.append([group["lr"] for group in groups])
            assert self.weight.grad is not None
            self.gradients.append(self.weight.grad.item())

        def zero_grad(set_to_none: bool = False) -> None:
            assert set_to_none
            self.weight.grad = None

        return SimpleNamespace(param_groups=groups, step=step, zero_grad=zero_grad)

    def greedy(self, _: object, source: Tensor, mask: Tensor, *, bos_id: int, eos_id: int, max_length: int) -> Any:
        self.looks.append(self.step)
        assert (bos_id, eos_id, max_length) == (1, 2, 3)
        right = next(self.known)
        return [
            SimpleNamespace(finished=place != right + 1, ids=[7, 7] if place < right or place == right + 1 else [8])
            for place in range(len(source))
        ]


EXAMPLES = [Example([source, 2], [7, 7, 2]) for source in range(3, 13)]


def gate_of(clock: Clock, examples: Sequence[Example] = EXAMPLES, **settings: Any) -> Any:
    return overfitting(lambda: clock, examples, pad_id=0, bos_id=1, eos_id=2, **settings)  # type: ignore[arg-type]


def test_it_looks_every_twenty_steps_once_the_loss_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """And ends where all is known."""
    clock = Clock(monkeypatch, [0.5] * 39 + [0.1] * 20 + [0.09], [3, 9, 10])
    gate = gate_of(clock)
    assert clock.looks == [60, 80, 100]
    assert (gate.name, gate.passed, gate.value, gate.limit) == ("overfitting", True, 1.0, 0.98)
    assert gate.reason == (
        "a fresh model writes 10 of 10 pairs after 100 steps in 100 seconds, at a loss of 0.09 nats a token"
    )


def test_the_rate_rises_for_twenty_steps_and_gradients_are_clipped(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch, [9.0], [0])
    gate_of(clock, lr=0.4, steps=25)
    expected = [0.4 * min(1.0, step / 20) for step in range(1, 26)]
    assert [rates[0] for rates in clock.rates] == [rates[1] for rates in clock.rates] == pytest.approx(expected)
    assert (clock.config.lr, clock.config.weight_decay) == (0.4, 0.0)
    assert clock.gradients == pytest.approx([1.0] * 25, abs=1e-5)  # 5 before


@pytest.mark.parametrize(
    ("settings", "losses", "steps"),
    [
        ({"steps": 7}, [9.0], 7),
        ({}, [9.0], 1500),  # however long they take: the clock of this test moves a second a step
        ({}, [9.0, 9.0, math.nan], 3),
        ({}, [math.inf], 1),
    ],
)
def test_it_ends_with_the_steps_or_a_loss_that_is_no_number(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any], losses: list[float], steps: int
) -> None:
    clock = Clock(monkeypatch, losses, [4])
    gate = gate_of(clock, **settings)
    assert (clock.step, clock.looks, gate.passed, gate.value) == (steps, [steps], False, 0.4)
    assert f"writes 4 of 10 pairs after {steps} steps in {steps} seconds, at a loss of " in gate.reason


def test_a_seed_decides_what_is_dropped_and_the_rate_is_three_thousandths(monkeypatch: pytest.MonkeyPatch) -> None:
    dropped = []
    for number, seed in enumerate(({}, {"seed": 0}, {"seed": 1})):
        torch.manual_seed(number)
        before, clock = torch.get_rng_state(), Clock(monkeypatch, [9.0], [0])
        gate_of(clock, steps=20, **seed)
        assert torch.equal(torch.get_rng_state(), before)
        assert clock.rates[-1] == [0.003, 0.003]
        dropped.append(clock.dropped)
    assert dropped[0] == dropped[1] != dropped[2]


@pytest.mark.parametrize(("known", "limit", "passed"), [(9, 0.9, True), (9, 0.91, False), (0, 0.0, True)])
def test_the_share_is_held_against_the_limit(
    monkeypatch: pytest.MonkeyPatch, known: int, limit: float, passed: bool
) -> None:
    gate = gate_of(Clock(monkeypatch, [9.0], [known]), steps=1, limit=limit)
    assert (gate.passed, gate.value, gate.limit) == (passed, known / 10, limit)


def test_the_first_64_sources_are_learnt_each_once(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch, [9.0], [0])
    many = [Example([3 + place // 2, 2], [7 + place % 2, 7, 2]) for place in range(200)]
    gate = gate_of(clock, many, steps=1)
    assert "0 of 64 pairs" in gate.reason
    assert clock.batches[0].source[:, 0].tolist() == [*range(3, 67)]
    assert clock.batches[0].target_out.tolist() == [[7, 7, 2]] * 64  # the first target of each
    assert clock.batches[0].target_in.tolist() == [[1, 7, 7]] * 64
    with pytest.raises(ValueError, match="at least one example"):
        gate_of(clock, [])
