"""The verdict says what the figures say, and nothing else."""

from __future__ import annotations

import dataclasses
import runpy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from selfattn.report.drawing.numbers import estimate_text
from selfattn.report.sections.statistics import pair_table
from selfattn.report.verdict.comparability import badges, obstacles
from selfattn.report.verdict.ranking import PairOutcome, interval_outcome, quality, ranked, relation
from selfattn.report.verdict.verdict import limits, question, standing, verdict
from selfattn.results.cost import MeanOverRuns
from selfattn.results.gates import Gate
from selfattn.results.pairs import PairTest
from selfattn.results.quality import Estimate, IntervalMethod
from selfattn.results.reading import record_from_dict
from selfattn.results.record import NO_SUBJECT, Record

RECORDS = runpy.run_path(str(Path(__file__).parents[1] / "fixtures" / "report_rich.py"))


def with_quality(record: Record, **estimates: Estimate | None) -> Record:
    """The record with other figures for some models (dashes in names as underscores)."""
    models = []
    for model in record.models:
        key = model.name.replace("-", "_")
        if key in estimates:
            estimate = estimates[key]
            model = dataclasses.replace(model, metrics={"exact_match": estimate} if estimate else {})
        models.append(model)
    return dataclasses.replace(record, models=tuple(models))


def only(record: Record, *names: str) -> Record:
    pairs = tuple(test for test in record.pairs if {test.first, test.second} <= set(names))
    return dataclasses.replace(
        record, models=tuple(model for model in record.models if model.name in names), pairs=pairs
    )


def sentences(record: Record) -> list[str]:
    found = verdict(record)
    return [sentence.say("en") for sentence in (found.lead, *found.others, *limits(record))]


def read(name: str) -> Record:
    return record_from_dict(RECORDS[name]())


@pytest.fixture
def dates() -> Record:
    """One seed, no tests of pairs: intervals decide."""
    return read("dates")


@pytest.fixture
def rich() -> Record:
    return read("rich")


def with_pair(record: Record, **changes: Any) -> Record:
    """The record with another test of the two models with attention, said of the Transformer."""
    pairs = []
    for test in record.pairs:
        if {test.first, test.second} == {"transformer", "rnn-attention"}:
            test = test if test.first == "transformer" else test.turned()
            test = dataclasses.replace(test, **changes)
        pairs.append(test)
    return dataclasses.replace(record, pairs=tuple(pairs))


# what decides


@pytest.mark.parametrize(
    ("first", "second", "outcome"),
    [
        ((0.9, 0.85, 0.95), (0.7, 0.6, 0.8), PairOutcome.BETTER),
        ((0.7, 0.6, 0.8), (0.9, 0.85, 0.95), PairOutcome.WORSE),
        ((0.9, 0.8, 0.95), (0.7, 0.6, 0.8), PairOutcome.SAME),  # they touch
        ((0.9, 0.8, 0.95), (0.85, 0.7, 0.9), PairOutcome.SAME),
        ((0.9, None, None), (0.1, 0.0, 0.2), PairOutcome.UNKNOWN),
    ],
)
def test_intervals_decide_where_there_is_no_test(first: Any, second: Any, outcome: PairOutcome) -> None:
    assert interval_outcome(Estimate(*first), Estimate(*second)) is outcome


def test_nothing_measured_nothing_known() -> None:
    assert interval_outcome(None, Estimate(0.5, 0.4, 0.6)) is PairOutcome.UNKNOWN
    assert interval_outcome(Estimate(0.5, 0.4, 0.6), None) is PairOutcome.UNKNOWN


shares = st.lists(st.floats(0, 1), min_size=3, max_size=3).map(sorted).map(lambda s: Estimate(s[1], s[0], s[2]))


@given(shares, shares)
def test_outcomes_mirror_each_other(first: Estimate, second: Estimate) -> None:
    mirror = {
        PairOutcome.BETTER: PairOutcome.WORSE,
        PairOutcome.WORSE: PairOutcome.BETTER,
        PairOutcome.SAME: PairOutcome.SAME,
    }
    assert interval_outcome(second, first) is mirror[interval_outcome(first, second)]
    assert interval_outcome(first, first) is PairOutcome.SAME


def test_tests_decide_before_intervals_whichever_model_they_name_first(rich: Record) -> None:
    apart = with_pair(rich, word="better", p_holm=0.01)
    transformer, rnn = ranked(apart)[:2]
    assert relation(apart, transformer, rnn).outcome is PairOutcome.BETTER
    assert relation(apart, rnn, transformer).outcome is PairOutcome.WORSE
    found = relation(apart, rnn, transformer).test
    assert found is not None
    assert (found.first, found.second) == ("rnn-attention", "transformer")
    assert found.turned().turned() == found


def test_a_pair_without_a_test_is_not_judged(rich: Record) -> None:
    bare = dataclasses.replace(rich, pairs=tuple(t for t in rich.pairs if "transformer" not in (t.first, t.second)))
    assert sentences(bare)[0].startswith("Too little to tell")


# the words


def test_the_question_is_about_the_pair_and_its_size(dates: Record) -> None:
    assert question(dates).say("en") == (
        "Does a Transformer convert dates better than an RNN with attention of the same size?"
    )
    assert "same size" not in question(read("twice_the_parameters")).say("en")
    assert "rnn-plain" in question(only(dates, "rnn-plain", "rnn-peeky")).say("en")
    assert "3 models" in question(only(dates, "rnn-plain", "rnn-peeky", "transformer")).say("en")
    assert question(only(dates, "transformer")).say("en") == "How well does transformer convert dates?"
    assert "translate better" in question(read("translation")).say("en")
    assert "“spelling”" in question(dataclasses.replace(dates, task="spelling", subject=NO_SUBJECT)).say("en")


def test_no_difference_is_said_with_both_intervals_and_the_test(rich: Record) -> None:
    first, second, *_ = sentences(rich)
    assert first.startswith("No difference seen")
    for name in ("transformer", "rnn-attention"):
        model = next(model for model in rich.models if model.name == name)
        assert f"{name} {estimate_text(quality(rich, model))}" in first
    given = "after 480,000 training pairs each, settings tuned."
    assert first.endswith(f"exact match on 5,000 unseen dates, {given}")
    plain = second.replace("\u00a0", " ")
    assert plain.startswith("transformer minus rnn-attention: +0.02 [−0.07, +0.11] percentage points, p = 0.71")
    assert plain.endswith("after Holm's correction for 6 pairs.")


def test_better_is_said_with_the_test() -> None:
    record = read("better")
    assert sentences(record)[0].startswith("Yes, transformer is better: 99.96")
    assert "+1.8" in sentences(record)[1]
    assert [standing(record, model).say("en") for model in ranked(record)][:2] == ["highest mean", "worse"]


def test_worse_is_said_with_the_test(rich: Record) -> None:
    assert sentences(with_pair(rich, word="worse", p_holm=0.01))[0].startswith("No, rnn-attention is better")


def test_one_seed_is_too_few_whatever_the_items_say() -> None:
    record = read("one_seed")
    said = sentences(record)
    assert said[0].startswith("Too few seeds to tell: transformer")
    assert any(sentence.startswith("Too few seeds to tell rnn-attention from") for sentence in said)
    assert verdict(record).others[-1].say("en").startswith("One seed (0)")
    assert {standing(record, model).say("en") for model in ranked(record)[1:]} == {"too few seeds to tell"}
    assert ("note", "one seed") in [(badge.kind, badge.text.say("en")) for badge in badges(record)]


def test_points_are_said_as_points() -> None:
    said = [sentence.replace("\u00a0", " ") for sentence in sentences(read("translation"))]
    assert said[0] == (
        "Yes, transformer is better: 27.3 [26.1, 28.4] against 24.6 [23.4, 25.8] for rnn-attention, "
        "BLEU on 1,000 unseen texts, after 5.29 M target tokens each, settings tuned."
    )
    assert said[1] == "transformer minus rnn-attention: +2.7 [+1.3, +4.1] points, p = 0.004."


@given(
    st.sampled_from(["better", "worse", "no difference seen", "too few seeds to tell"]),
    st.floats(-1, 1),
    st.floats(0, 1),
)
def test_the_first_words_are_those_of_the_test(word: Any, difference: float, p: float) -> None:
    record = read_once()
    test = PairTest("transformer", "rnn-attention", "exact_match", difference, difference, difference, p, p, word)
    found = verdict(dataclasses.replace(record, pairs=(test,))).lead.key
    assert (
        found
        == {
            "better": "verdict.better",
            "worse": "verdict.worse",
            "no difference seen": "verdict.same",
            "too few seeds to tell": "verdict.few",
        }[word]
    )


def read_once(cache: list[Record] = []) -> Record:  # noqa: B006 (made once, on purpose)
    if not cache:
        cache.append(read("rich"))
    return cache[0]


# what leaves nothing to say


def test_a_gate_that_failed_stops_the_verdict() -> None:
    record = read("gate_failed")
    found = verdict(record)
    assert found.stopped
    said = sentences(record)
    assert said[0] == (
        "Not comparable: transformer did not pass the sanity gate “causal”: "
        "before position 1 logits move by 2.31 when the tokens from it on change."
    )
    [obstacle] = obstacles(record)
    assert obstacle.say("ko").endswith("점검 “인과 마스크” 항목을 통과하지 못했습니다: 측정값 2.31, 기준 0.")
    assert "no comparison can rest: transformer 99.96" in said[1].replace("\u00a0", " ")
    assert not any(word in " ".join(said) for word in ("better", "worse", "No difference"))
    assert {standing(record, model).say("en") for model in ranked(record)[1:]} == {"not comparable"}
    assert ("bad", "32 of 33 sanity gates passed") in [(b.kind, b.text.say("en")) for b in badges(record)]


def test_overlap_of_the_data_stops_the_verdict_for_all() -> None:
    said = sentences(read("overlapping"))
    assert said[0] == (
        "Not comparable: the sanity gate “overlap” was not passed: "
        "500 of 5,000 test inputs are among 40,000 training inputs."
    )


def test_every_obstacle_is_counted_and_a_gate_is_said_once_a_model(rich: Record) -> None:
    gates = tuple(dataclasses.replace(gate, passed=False) for gate in rich.gates)
    seeds = tuple(dataclasses.replace(gate, seed=1) for gate in gates)
    stopped = dataclasses.replace(rich, gates=gates + seeds)
    counted = [gate for gate in gates if gate.model in ("", "transformer", "rnn-attention")]
    counted = [gate for gate in counted if gate.name != "published baseline"]  # a note, no obstacle
    assert 4 < len(counted) < len(gates)
    assert len(obstacles(stopped)) == len(counted)
    assert f"{len(counted) - 4} more reasons stand below." in sentences(stopped)


def test_a_model_that_the_verdict_is_not_about_is_set_aside(rich: Record) -> None:
    """Its gate is said in words, nothing is compared with it, and the others are compared as if it were not there."""
    asked = [gate for gate in rich.gates if gate.name != "published baseline"]  # which sets nobody aside
    gates = tuple(dataclasses.replace(gate, passed=gate.model != "rnn-plain") for gate in asked)
    record = dataclasses.replace(rich, gates=gates)
    found, whole = verdict(record), verdict(rich)
    assert (found.stopped, found.lead) == (False, whole.lead)
    failed = [gate for gate in gates if not gate.passed]
    assert failed
    assert len(found.aside) == min(len(failed), 5)
    assert found.aside[0].say("en").startswith("Set aside, not comparable: rnn-plain did not pass the sanity gate")
    assert "비교할 수 없어" in found.aside[0].say("ko")
    plain = next(model for model in record.models if model.name == "rnn-plain")
    assert standing(record, plain).say("en") == "not comparable"
    assert "rnn-plain" not in " ".join(sentence.say("en") for sentence in found.others)
    words = {(line.cells[0], line.cells[1]): line.cells[-1] for line in pair_table(record, "exact_match").rows}
    assert all((word.say("en") == "not comparable") == ("rnn-plain" in pair) for pair, word in words.items())


def test_of_many_models_those_that_pass_are_compared(rich: Record) -> None:
    models = tuple(dataclasses.replace(model, name=f"m{k}") for k, model in enumerate(rich.models))
    gate = Gate("variety", False, "all the same", model="m0")
    record = dataclasses.replace(rich, models=models, pairs=(), gates=(gate,))
    found = verdict(record)
    assert not found.stopped
    assert "m0 " not in found.lead.say("en")
    alone = tuple(dataclasses.replace(gate, model=model.name) for model in models[1:])
    assert verdict(dataclasses.replace(record, gates=alone)).stopped


def test_twice_the_parameters_is_a_warning_where_nothing_was_to_be_equal() -> None:
    record = read("twice_the_parameters")
    assert not verdict(record).stopped
    assert ("warn", "parameters outside embeddings differ by up to 99 %") in [
        (badge.kind, badge.text.say("en")) for badge in badges(record)
    ]


def test_twice_the_parameters_stops_the_verdict_where_they_were_to_be_equal() -> None:
    record = read("matched_apart")
    assert sentences(record)[0] == (
        "Not comparable: the models were to have equal parameters outside embeddings, but lie 99 % apart (limit 2.0 %)."
    )
    asked = dataclasses.replace(record, matching=dataclasses.replace(record.matching, allowed_apart=True))
    assert not verdict(asked).stopped
    assert badges(asked)[1].text.say("en").endswith("differ by up to 99 %, as asked for")
    assert badges(asked)[1].kind == "warn"


def test_a_gate_about_the_size_is_not_said_twice() -> None:
    record = read("matched_apart")
    gate = Gate("matched budgets", False, "transformer has twice as many", value=0.99, limit=0.02)
    both = dataclasses.replace(record, gates=(*record.gates, gate))
    assert len(obstacles(both)) == 1
    unasked = dataclasses.replace(both, matching=dataclasses.replace(record.matching, budget="none"))
    assert verdict(unasked).stopped
    assert badges(unasked)[1].kind == "bad"


@pytest.mark.parametrize("budget", ["flops", "seconds"])
def test_other_budgets_are_held_to_their_own_counts(rich: Record, budget: Any) -> None:
    counts = {"transformer": 1.0, "rnn-attention": 1.5}
    record = dataclasses.replace(rich, matching=dataclasses.replace(rich.matching, budget=budget, counts=counts))
    assert verdict(record).stopped
    assert "lie 50 % apart" in sentences(record)[0]


NO, YES, LESS = "no difference seen", "better", "worse"


@pytest.mark.parametrize(
    ("word", "low", "high", "said"),
    [
        (YES, 0.012, 0.03, "Yes, transformer is better by more than the margin of 1 percentage points: "),
        (YES, 0.008, 0.03, "Yes, transformer is better, but perhaps by less than the margin of 1 percentage points: "),
        (YES, 0.001, 0.01, "Equivalent within the margin of 1 percentage points: "),  # better, by what is not worth it
        (LESS, -0.03, -0.012, "No, rnn-attention is better by more than the margin of 1 percentage points: "),
        (LESS, -0.03, -0.01, "No, rnn-attention is better, but perhaps by less than the margin of 1 percentage points"),
        (NO, -0.01, 0.009, "Equivalent within the margin of 1 percentage points: "),
        (NO, -0.011, 0.009, "It cannot be told which is better, nor whether they are equivalent within the margin of"),
        ("too few seeds to tell", -0.001, 0.001, "Too few seeds to tell: "),  # whatever the items say
    ],
)
def test_a_margin_says_on_which_side_of_it_the_difference_lies(
    rich: Record, word: Any, low: float, high: float, said: str
) -> None:
    p = 0.2 if word == NO else 0.01
    tested = with_pair(rich, word=word, p=p, p_holm=p, difference=(low + high) / 2, low=low, high=high, primary=True)
    assert "margin" not in sentences(tested)[0]
    assert sentences(dataclasses.replace(tested, margin=1.0))[0].startswith(said)
    points = dataclasses.replace(tested.headline, kind="points")
    other = dataclasses.replace(tested, margin=0.01, headline=points)  # points are shown as they are
    assert sentences(other)[0].startswith(said.replace("of 1 percentage", "of 0.01"))
    korean = verdict(dataclasses.replace(tested, margin=1.0)).lead.say("ko")
    assert ("기준 차이 1 퍼센트포인트" in korean) == (word != "too few seeds to tell")


def test_the_word_beside_a_margin_is_the_same_from_both_sides(rich: Record) -> None:
    for low, high, word in ((0.02, 0.03, YES), (-0.03, -0.001, LESS), (-0.005, 0.02, NO)):
        test = PairTest("a", "b", "exact_match", (low + high) / 2, low, high, 0.01, 0.01, word)  # type: ignore[arg-type]
        for margin in (0.004, 0.01, 0.025, 0.05):
            assert test.beside(margin) == test.turned().beside(margin)


def test_badges_tell_how_far_the_verdict_can_be_believed(rich: Record, dates: Record) -> None:
    assert [(badge.kind, badge.text.say("en")) for badge in badges(rich)] == [
        ("ok", "33 of 33 sanity gates passed"),
        ("ok", "parameters outside embeddings matched within 0.73 %"),
        ("ok", "3 seeds"),
        ("ok", "tuned equally: 6 trials for each model"),
    ]
    assert [badge.text.say("en") for badge in badges(dates)] == [
        "no sanity gates asked",
        "parameters outside embeddings matched within 0.73 %",
        "one seed",
        "settings given, not tuned",
    ]
    fewer = dataclasses.replace(rich.models[0], tuning=rich.models[0].tuning[:2])
    uneven = dataclasses.replace(rich, models=(fewer, *rich.models[1:]), settings={"quick": True})
    assert [(badge.kind, badge.text.say("en")) for badge in badges(uneven)][-2:] == [
        ("warn", "tuned unequally: 2 to 6 trials a model"),
        ("warn", "quick run: less training, fewer test items"),
    ]


# records without tests


@pytest.mark.parametrize(
    ("transformer", "rnn", "beginning"),
    [
        (Estimate(0.99, 0.98, 0.995), Estimate(0.9, 0.89, 0.91), "In this one run, yes:"),
        (Estimate(0.9, 0.89, 0.91), Estimate(0.99, 0.98, 0.995), "In this one run, no:"),
        (Estimate(0.9), Estimate(0.99, 0.98, 0.995), "Too little to tell"),
        (None, Estimate(0.99, 0.98, 0.995), "Nothing can be said: exact match on 5,000 unseen dates was not measured"),
    ],
)
def test_one_seed_decides_for_one_run_only(
    dates: Record, transformer: Estimate | None, rnn: Estimate, beginning: str
) -> None:
    said = sentences(with_quality(dates, transformer=transformer, rnn_attention=rnn))
    assert said[0].startswith(beginning)
    (seed,) = [sentence for sentence in said if sentence.startswith("One seed (0)")]
    assert seed.endswith("Nothing is said about the spread over seeds.")


@pytest.mark.parametrize(
    ("over", "beginning"),
    [("items", "With these seeds, yes:"), ("seeds and items", "Yes, transformer is better:")],
)
def test_only_intervals_over_seeds_speak_beyond_the_seeds(over: Any, beginning: str) -> None:
    record = dataclasses.replace(read("three_seeds"), interval=IntervalMethod(0.95, "bootstrap", over))
    record = with_quality(record, transformer=Estimate(0.99, 0.98, 0.995), rnn_attention=Estimate(0.9, 0.89, 0.91))
    said = sentences(record)
    assert said[0].startswith(beginning)
    (seeds,) = [sentence for sentence in said if sentence.startswith("3 seeds for each model")]
    assert ("not about the spread over seeds" in seeds) == (over == "items")


def test_a_field_without_the_pair_names_the_best_or_the_equals(dates: Record) -> None:
    three = only(dates, "rnn-plain", "rnn-peeky", "transformer")
    assert sentences(three)[0].startswith("In this one run transformer 99.98")
    equal = with_quality(three, rnn_peeky=Estimate(0.9996, 0.9985, 0.9999))
    assert sentences(equal)[0].startswith("No difference seen at the top: transformer")
    assert "rnn-plain" not in sentences(equal)[0]
    bare = with_quality(three, rnn_plain=Estimate(0.34))
    assert sentences(bare)[0].startswith("Too little to tell")
    nothing = with_quality(three, rnn_plain=None, rnn_peeky=None, transformer=None)
    assert sentences(nothing)[0].startswith("Nothing can be said")


def test_a_field_with_tests_says_who_is_best_and_by_what_test(rich: Record) -> None:
    three = only(rich, "rnn-plain", "rnn-peeky", "transformer")
    assert sentences(three)[0].startswith("transformer 99.96")
    assert sentences(three)[1].startswith("transformer minus rnn-peeky: +35.7")
    few = dataclasses.replace(
        three, pairs=tuple(dataclasses.replace(test, word="too few seeds to tell") for test in three.pairs)
    )
    assert sentences(few)[0].startswith("Too few seeds to tell which is best: transformer")


def test_many_equals_are_not_all_listed() -> None:
    data = RECORDS["many_models"](24)
    for model in data["models"]:
        model["metrics"]["exact_match"] = {"mean": 0.9, "low": 0.88, "high": 0.92}
    assert sentences(record_from_dict(data))[0].count("transformer-") == 5
    assert "… (+19)" in sentences(record_from_dict(data))[0]


def test_one_model_is_compared_with_nothing(dates: Record) -> None:
    said = sentences(only(dates, "transformer"))
    assert said[0].endswith("there is nothing to compare it with.")
    assert len(said) == 2  # no time ratio, no baseline


def with_seconds(record: Record, **runs: tuple[float, ...]) -> Record:
    """The record with other training seconds for some models (dashes in names as underscores)."""
    models = []
    for model in record.models:
        if own := runs.get(model.name.replace("-", "_")):
            seconds = MeanOverRuns(sum(own) / len(own), own)
            model = dataclasses.replace(model, timing=dataclasses.replace(model.timing, train_seconds=seconds))
        models.append(model)
    return dataclasses.replace(record, models=tuple(models))


def test_the_ratio_of_times_is_that_of_the_figures(dates: Record) -> None:
    record = with_seconds(dates, transformer=(40.0, 44.0), rnn_attention=(20.0, 22.0))
    (sentence,) = [one for one in sentences(record) if "as long" in one]
    assert sentence.startswith("Training took 42")
    assert "2.0 times as long" in sentence
    alone = dataclasses.replace(record, settings={**record.settings, "training_time": "undisturbed"})
    (sentence,) = [one for one in sentences(alone) if "as long" in one]
    assert sentence.startswith("Undisturbed, training takes 42")


@pytest.mark.parametrize(
    "runs",
    [
        ((40.0,), (20.0,)),  # nobody knows how far runs are apart
        ((34.0, 34.0, 176.0), (30.0, 31.0, 32.0)),  # one on a busy machine
        ((20.0, 22.0), (20.0, 22.0)),
    ],
)
def test_nothing_is_said_of_times_further_apart_within_a_model_than_between_models(
    dates: Record, runs: tuple[tuple[float, ...], tuple[float, ...]]
) -> None:
    first, second = runs
    assert not any("as long" in one for one in sentences(with_seconds(dates, transformer=first, rnn_attention=second)))


@pytest.mark.parametrize(
    ("plain", "peeky", "words"),
    [
        (Estimate(0.3, 0.2, 0.4), Estimate(0.6, 0.5, 0.7), "Without attention, models do worse than"),
        (Estimate(0.9996, 0.9985, 0.9999), Estimate(0.9996, 0.9985, 0.9999), "No difference seen between"),
        (Estimate(0.3, 0.2, 0.4), Estimate(0.9996, 0.9985, 0.9999), "Models without attention:"),
        (Estimate(0.3), Estimate(0.3), "which cannot be judged"),
    ],
)
def test_what_attention_is_worth(dates: Record, plain: Estimate, peeky: Estimate, words: str) -> None:
    said = sentences(with_quality(dates, rnn_plain=plain, rnn_peeky=peeky))
    assert any(words in sentence for sentence in said)
    tied = peeky.mean > 0.99  # which is explained where it is said
    assert any("short enough for a vector of fixed length" in sentence for sentence in said) == tied


def test_ranking_puts_the_unmeasured_last(dates: Record) -> None:
    record = with_quality(dates, transformer=None)
    assert [model.name for model in ranked(record)] == ["rnn-attention", "rnn-peeky", "rnn-plain", "transformer"]
    words = [standing(record, model).say("en") for model in ranked(record)]
    assert words == ["highest mean", "worse", "worse", "not measured"]


# metrics that are better where they are lower


def lower(record: Record) -> Record:
    return dataclasses.replace(record, headline=dataclasses.replace(record.headline, better="lower"), pairs=())


def test_of_a_metric_that_is_better_where_it_is_lower_the_lowest_stands_first(rich: Record) -> None:
    record = lower(rich)
    assert [model.name for model in ranked(record)] == [model.name for model in ranked(rich)][::-1]
    worst = ranked(record)[-1]
    assert standing(record, ranked(record)[0]).say("en") == "lowest mean"
    assert standing(record, worst).say("en") == "worse"
    assert sentences(lower(only(rich, "rnn-plain", "rnn-peeky")))[0].startswith("Yes, rnn-plain is better: 34.2")


@given(shares, shares)
def test_lower_turns_better_and_worse_around(first: Estimate, second: Estimate) -> None:
    assert interval_outcome(first, second, "lower") is interval_outcome(second, first)
