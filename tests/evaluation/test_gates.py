"""Gates on outputs, on the data and on what a fresh model can learn: by hand, at their limits, on planted faults.

Gates on a model itself: tests/properties/test_gates.py.
"""

import random

import pytest

from selfattn.data.dates.source import DateSource
from selfattn.data.pairs import Pair
from selfattn.evaluation.gates import baseline_gate, output_gates, overlap_gates, repetition_rate
from selfattn.results.subject import Baseline
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
def test_faulty_outputs_are_caught_and_wrong_ones_pass(outputs, finished, failed):
    for learned in (False, True):  # what is the result of a weak model is only noted
        gates = output_gates(outputs, TARGETS, [finished] * len(outputs), learned=learned)
        assert [gate.name for gate in gates if not gate.passed] == failed
        assert [gate.note for gate in gates if not gate.passed] == [not learned] * len(failed)


def test_repetition_by_hand():
    """Five letters have two 4-grams; in ``aaaaa`` the second repeats the first."""
    assert [repetition_rate(texts) for texts in (["abcde"], ["aaaaa"], ["aaaaa", "abcde"])] == [0, 0.5, 0.25]
    assert repetition_rate(["aaa", ""]) == repetition_rate([]) == 0  # no 4-gram at all
    songs = ["la la la la la la"] * 3  # targets that repeat allow outputs to repeat
    for targets in (songs, ["do re mi fa so la"] * 3):
        assert output_gates(songs, targets, [True] * 3)[1].passed == (targets is songs)


def test_a_model_far_below_the_published_fails():
    gates = [baseline_gate(DATES["transformer"], v, examples=135_000, distinct=45_000) for v in (0.2, 0.96)]
    assert [gate and gate.passed for gate in gates] == [False, True]
    for words in ("exact_match 0.2 after 135,000 training pairs, at least 0.95 expected (Saito 2018", "135,000 pairs"):
        assert words in gates[0].reason
    low, high = (baseline_gate(Baseline("ter", 40.0, "Smith"), value, better="lower") for value in (39.0, 41.0))
    assert (low.passed, high.passed, high.reason) == (True, False, "ter 41, at most 40 expected (Smith)")


def overlap(train, test):
    return overlap_gates(train, test)[0]


def test_overlap_counts_test_pairs_by_hand():
    train = [Pair("May 1", "05-01"), Pair("JUNE 2", "06-02"), Pair("June 2", "x"), Pair("Straße", "s")]
    test = [Pair("May 1", "05-01"), Pair("may-1", "0501"), Pair("june 2", "y"), Pair("STRASSE", "z"), Pair("new", "s")]
    gate = overlap(iter(train), test)
    assert (gate.name, gate.passed, gate.value, gate.limit) == ("overlap", False, 3 / 5, 0.01)
    assert gate.reason == (
        "of 5 test sources 1 are in the training data word for word, 3 when case is ignored; "
        "of the pairs 2 when case and punctuation are ignored; of the targets 2"
    )
    stops = [Pair(f"It rains {number}.", "Es regnet.") for number in range(9)]
    assert overlap(stops, [Pair("it rains 3", "es regnet!")]).value == 1
    assert overlap(stops, [Pair("it rains 3", "es schneit")]).value == 0  # another pair


def test_test_sources_with_another_last_character_are_seen():
    """And dates, which all resemble one another, are no more like training than validation is."""
    texts = ["".join(random.Random(seed).choices("abcdefgh ", k=30)) for seed in range(300)]
    pairs = [Pair(text, text) for text in texts]
    train, test, validation = pairs[:200], pairs[200:250], pairs[250:]
    changed = [Pair(f"{pair.source[:-1]}!", pair.target[::-1]) for pair in test]
    for more, shares in (([], (True, 0.0)), (changed, (False, 1.0))):
        _, gate, *_ = overlap_gates([*more, *train], test, validation)
        assert (gate.name, gate.passed, gate.value, gate.limit) == ("similar texts", *shares, 0.2)
    assert overlap_gates([*changed, *train], test)[0].value == 0
    splits = Dates().splits(0)
    gates = overlap_gates(splits.train(0, 5000), splits.test(200), splits.validation(200))
    assert all(gate.passed for gate in gates)
    assert gates[1].value > 0.4
    assert overlap_gates(test, [Pair("short", "x")], validation)[1].value == 0


def test_a_validation_set_that_is_the_test_is_a_fault_and_a_few_common_pairs_are_noted():
    pairs = [Pair(f"{number} apples", f"{number} Aepfel") for number in range(200)]
    test = pairs[:100]

    def gate(validation):
        return overlap_gates([], test, validation)[3]

    own = gate(pairs[100:])
    assert (own.name, own.passed, own.value) == ("validation = test", True, 0)
    same = gate([Pair(pair.source.upper(), f"{pair.target}!") for pair in test])
    assert (same.passed, same.note, same.value) == (False, False, 1)
    part = gate(test[:10])  # a tenth of the test, but all of the validation
    assert (part.passed, part.note, part.value) == (False, False, 1)
    few = gate([*pairs[100:], *test[:2]])
    assert (few.passed, few.note, few.value) == (False, True, 0.02)


def test_targets_alone_that_training_has_too_are_compared_with_those_of_validation():
    test = [Pair(f"asked {number}", f"answer {number}") for number in range(100)]
    validation = [Pair(f"other {number}", f"reply {number}") for number in range(100)]
    leaked = [Pair(f"said {number}", f"answer {number}") for number in range(50)]
    for train, passed, value in (([], True, 0), (leaked[:20], True, 0.2), (leaked[:21], False, 0.21)):
        gate = overlap_gates(train, test, validation)[2]
        assert (gate.name, gate.passed, gate.value) == ("known targets", passed, value)
    common = [Pair(f"so {number}", f"reply {number}") for number in range(40)]
    assert overlap_gates([*leaked, *common], test, validation)[2].passed  # few answers, which validation has too


def test_a_value_at_the_limit_passes():
    numbers = [str(number) for number in range(100)]
    pairs = [Pair(number, number) for number in numbers]

    def gate(name, outputs, finished=()):
        gates = output_gates(outputs, numbers[: len(outputs)], finished or [True] * len(outputs), learned=True)
        return next(gate for gate in gates if gate.name == name)

    for reached, missed in (
        (gate("endings", numbers[:20], [True] * 19 + [False]), gate("endings", numbers[:19], [True] * 18 + [False])),
        (gate("variety", ["a"] * 10), gate("variety", ["a"] * 11)),
        (overlap(pairs[:1], pairs), overlap(pairs[:2], pairs)),
        (baseline_gate(Baseline("bleu", 38.0, "x"), 38.0), baseline_gate(Baseline("bleu", 38.0, "x"), 37.9)),
    ):
        assert (reached.passed, missed.passed) == (True, False), missed.name
        assert reached.value == reached.limit
    for others, passed in ((8, True), (7, False)):  # 0.857 / 9 is less than 0.1, 0.857 / 8 is more
        outputs, targets = ["0" * 10] + ["abcdefg"] * others, ["abcdefg"] * (others + 1)
        assert output_gates(outputs, targets, [True] * len(outputs))[1].passed == passed
