"""The verdict says what the figures say, and nothing else."""

from __future__ import annotations

import dataclasses
import runpy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from selfattn.report.numbers import percent_text
from selfattn.report.reading import record_from_dict
from selfattn.report.record import Estimate, Interval, Record
from selfattn.report.verdict import (
    Outcome,
    badges,
    interval_outcome,
    interval_outcomes,
    question,
    ranked,
    standing,
    verdict,
)

RECORDS = runpy.run_path(str(Path(__file__).parents[1] / "fixtures" / "report_records.py"))


def with_exact_match(record: Record, **estimates: Estimate | None) -> Record:
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
    return dataclasses.replace(record, models=tuple(model for model in record.models if model.name in names))


def sentences(record: Record) -> list[str]:
    return [sentence.say("en") for sentence in verdict(record, interval_outcomes(record))]


@pytest.fixture
def dates() -> Record:
    return record_from_dict(RECORDS["dates"]())


@pytest.mark.parametrize(
    ("first", "second", "outcome"),
    [
        ((0.9, 0.85, 0.95), (0.7, 0.6, 0.8), Outcome.BETTER),
        ((0.7, 0.6, 0.8), (0.9, 0.85, 0.95), Outcome.WORSE),
        ((0.9, 0.8, 0.95), (0.7, 0.6, 0.8), Outcome.SAME),  # they touch
        ((0.9, 0.8, 0.95), (0.85, 0.7, 0.9), Outcome.SAME),
        ((0.9, None, None), (0.1, 0.0, 0.2), Outcome.UNKNOWN),
    ],
)
def test_intervals_decide(first: Any, second: Any, outcome: Outcome) -> None:
    assert interval_outcome(Estimate(*first), Estimate(*second)) is outcome


def test_nothing_measured_nothing_known() -> None:
    assert interval_outcome(None, Estimate(0.5, 0.4, 0.6)) is Outcome.UNKNOWN
    assert interval_outcome(Estimate(0.5, 0.4, 0.6), None) is Outcome.UNKNOWN


shares = st.lists(st.floats(0, 1), min_size=3, max_size=3).map(sorted).map(lambda s: Estimate(s[1], s[0], s[2]))


@given(shares, shares)
def test_outcomes_mirror_each_other(first: Estimate, second: Estimate) -> None:
    mirror = {Outcome.BETTER: Outcome.WORSE, Outcome.WORSE: Outcome.BETTER, Outcome.SAME: Outcome.SAME}
    assert interval_outcome(second, first) is mirror[interval_outcome(first, second)]
    assert interval_outcome(first, first) is Outcome.SAME


def test_the_question_is_about_the_pair_and_its_size(dates: Record) -> None:
    assert question(dates).say("en") == (
        "Does a Transformer convert dates better than an RNN with attention of the same size?"
    )
    grown = tuple(
        dataclasses.replace(model, parameters=3 * model.parameters, parameters_non_embedding=None)
        if model.name == "transformer"
        else model
        for model in dates.models
    )
    assert "same size" not in question(dataclasses.replace(dates, models=grown)).say("en")
    assert "rnn-plain" in question(only(dates, "rnn-plain", "rnn-peeky")).say("en")
    assert "3 models" in question(only(dates, "rnn-plain", "rnn-peeky", "transformer")).say("en")
    assert question(only(dates, "transformer")).say("en") == "How well does transformer convert dates?"
    assert "“spelling”" in question(dataclasses.replace(dates, task="spelling")).say("en")


def test_no_difference_is_said_with_both_intervals(dates: Record) -> None:
    first = sentences(dates)[0]
    assert first.startswith("No difference seen")
    for name in ("transformer", "rnn-attention"):
        model = next(model for model in dates.models if model.name == name)
        assert f"{name} {percent_text(model.exact_match)}" in first
    assert "5,000 unseen dates" in first


@pytest.mark.parametrize(
    ("transformer", "rnn", "beginning"),
    [
        (Estimate(0.99, 0.98, 0.995), Estimate(0.9, 0.89, 0.91), "In this one run, yes:"),
        (Estimate(0.9, 0.89, 0.91), Estimate(0.99, 0.98, 0.995), "In this one run, no:"),
        (Estimate(0.9), Estimate(0.99, 0.98, 0.995), "Too little to tell"),
        (None, Estimate(0.99, 0.98, 0.995), "Nothing can be said: exact match was not measured for transformer."),
    ],
)
def test_one_seed_decides_for_one_run_only(
    dates: Record, transformer: Estimate | None, rnn: Estimate, beginning: str
) -> None:
    said = sentences(with_exact_match(dates, transformer=transformer, rnn_attention=rnn))
    assert said[0].startswith(beginning)
    assert said[-1].startswith("One seed (0)")
    assert said[-1].endswith("Nothing is said about the spread over seeds.")


@pytest.mark.parametrize(
    ("over", "beginning"),
    [("items", "With these seeds, yes:"), ("seeds and items", "Yes, transformer is better:")],
)
def test_only_intervals_over_seeds_speak_beyond_the_seeds(over: Any, beginning: str) -> None:
    record = record_from_dict(RECORDS["three_seeds"]())
    record = dataclasses.replace(record, interval=Interval(0.95, "bootstrap", over))
    record = with_exact_match(record, transformer=Estimate(0.99, 0.98, 0.995), rnn_attention=Estimate(0.9, 0.89, 0.91))
    said = sentences(record)
    assert said[0].startswith(beginning)
    assert said[-1].startswith("3 seeds for each model")
    assert ("not about the spread over seeds" in said[-1]) == (over == "items")


def test_a_field_without_the_pair_names_the_best_or_the_equals(dates: Record) -> None:
    three = only(dates, "rnn-plain", "rnn-peeky", "transformer")
    assert sentences(three)[0].startswith("In this one run transformer 99.98")
    equal = with_exact_match(three, rnn_peeky=Estimate(0.9996, 0.9985, 0.9999))
    assert sentences(equal)[0].startswith("No difference seen at the top: transformer")
    assert "rnn-plain" not in sentences(equal)[0]
    bare = with_exact_match(three, rnn_plain=Estimate(0.34))
    assert sentences(bare)[0].startswith("Too little to tell")
    nothing = with_exact_match(three, rnn_plain=None, rnn_peeky=None, transformer=None)
    assert sentences(nothing)[0].startswith("Nothing can be said")


def test_one_model_is_compared_with_nothing(dates: Record) -> None:
    said = sentences(only(dates, "transformer"))
    assert said[0].endswith("there is nothing to compare it with.")
    assert len(said) == 2  # no time ratio, no baseline


def test_the_ratio_of_times_is_that_of_the_figures(dates: Record) -> None:
    seconds = {model.name: model.timing.train_seconds for model in dates.models}
    a, b = seconds["transformer"], seconds["rnn-attention"]
    assert a is not None
    assert b is not None
    assert f"{a.mean / b.mean:.1f} times as long" in sentences(dates)[1]


@pytest.mark.parametrize(
    ("plain", "peeky", "words"),
    [
        (Estimate(0.3, 0.2, 0.4), Estimate(0.6, 0.5, 0.7), "Without attention the RNN does worse than"),
        (Estimate(0.9996, 0.9985, 0.9999), Estimate(0.9996, 0.9985, 0.9999), "No difference seen between"),
        (Estimate(0.3, 0.2, 0.4), Estimate(0.9996, 0.9985, 0.9999), "RNNs without attention:"),
        (Estimate(0.3), Estimate(0.3), "which cannot be judged"),
    ],
)
def test_what_attention_is_worth(dates: Record, plain: Estimate, peeky: Estimate, words: str) -> None:
    assert any(words in sentence for sentence in sentences(with_exact_match(dates, rnn_plain=plain, rnn_peeky=peeky)))


def test_other_statistics_can_decide(dates: Record) -> None:
    outcomes = dict.fromkeys(interval_outcomes(dates), Outcome.BETTER)
    assert verdict(dates, outcomes)[0].key == "verdict.better.one"


def test_ranking_puts_the_unmeasured_last(dates: Record) -> None:
    record = with_exact_match(dates, transformer=None)
    assert [model.name for model in ranked(record)] == ["rnn-attention", "rnn-peeky", "rnn-plain", "transformer"]
    outcomes = interval_outcomes(record)
    words = [standing(model, ranked(record)[0], outcomes).say("en") for model in ranked(record)]
    assert words == ["highest mean", "worse", "worse", "not measured"]


def test_badges_warn_of_what_weakens_the_verdict(dates: Record) -> None:
    assert [badge.kind for badge in badges(dates)] == ["ok", "note", "note"]
    doubled = dataclasses.replace(
        dates.models[0], parameters=2 * dates.models[1].parameters, parameters_non_embedding=None
    )
    record = dataclasses.replace(dates, models=(doubled, *dates.models[1:]), settings={"quick": True})
    said = [(badge.kind, badge.text.say("en")) for badge in badges(record)]
    assert said[0][0] == "warn"
    assert "differ by up to 101 %" in said[0][1]
    assert said[-1] == ("warn", "quick run: less training, fewer test items")
    assert badges(record_from_dict(RECORDS["three_seeds"]()))[1].text.say("en") == "3 seeds"
