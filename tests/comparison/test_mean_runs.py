"""The words of a comparison are about mean runs: from the outputs to what a reader sees, in three renderings."""

import importlib
import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from selfattn.comparison.measured import measure
from selfattn.comparison.run_table import RunTable
from selfattn.comparison.tested import Answer, Answered
from selfattn.report.render.html import html_of
from selfattn.report.render.markdown import markdown_of
from selfattn.report.render.terminal import print_summary
from selfattn.report.verdict.verdict import badges, limits, standing, verdict
from selfattn.report.write import document
from selfattn.results.record import Record


@pytest.fixture(scope="module")
def wired() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(Path(__file__).resolve().parents[2])
        yield importlib.import_module("benchmarks.wired")


def simulated(wired: Any, world: str, seeds: int = 5, seed: int = 0) -> Record:
    record: Record = wired.simulated(*wired.WORLDS[world], seeds, np.random.default_rng(seed))
    return record


def said(record: Record, lang: str = "en") -> str:
    sentences = [verdict(record).lead, *limits(record), *(badge.text for badge in badges(record))]
    return " ".join(sentence.say(lang) for sentence in sentences).replace("\u00a0", " ")


def test_few_good_runs_show_which_model_is_better_where_it_trains_and_no_more(wired: Any) -> None:
    record = simulated(wired, "99 %; 80 %")
    (test,) = record.pairs
    assert (test.word, test.trains is not None and test.trains.low > 0 > test.low) == ("better where it trains", True)
    text = said(record)
    assert text.startswith("Yes, where it trains. ")
    assert "If none of 5 runs is stuck, up to 52 % of trainings may be (97.5 %)" in text
    assert "0 of 10 runs stuck; up to 52 % of a model's trainings may be" in text
    assert standing(record, record.models[1]).say("en") == "worse where it trains"
    assert said(record, "ko").startswith("네, 학습에 성공한 실행만 보면 그렇습니다. ")
    former = replace(record, analysis=1)
    assert "stuck" not in said(measure(former, wired.DATA, outputs_of(record)))


def outputs_of(record: Record) -> RunTable[Answered]:
    """Outputs with the scores of a record."""
    rows = []
    for model in record.models:
        for seed, score in enumerate(model.metrics["exact_match"].runs):
            right = round(300 * score)
            answers = [Answer(f"{k}", f"{k}", "", (), f"{k}" if k < right else "", True) for k in range(300)]
            rows.append((1.0, model.name, Answered(seed, False, answers, {}, {})))
    return RunTable.gather(rows)


def test_eight_runs_decide_where_no_failure_rate_undoes_the_lead(wired: Any) -> None:
    record = simulated(wired, "99 %; 54 %", seeds=8)
    assert said(record).startswith("Yes. ")
    turned = replace(record, models=record.models[::-1], pairs=tuple(test.turned() for test in record.pairs))
    assert said(turned).startswith("No. ")


def test_the_bound_is_printed_in_html_markdown_and_the_terminal(wired: Any) -> None:
    record = simulated(wired, "99 %; 80 %")
    file = io.StringIO()
    print_summary(record, Console(file=file, width=80))
    page = document(record)
    for text in (html_of(page), markdown_of(page), file.getvalue()):
        plain = " ".join(text.replace("\u00a0", " ").split())
        assert "up to 52 % of trainings may be" in plain
        assert "0 of 5" in plain
    assert "학습 성공 시" in html_of(page, "ko")


@pytest.mark.parametrize("seeds", [1, 2, 5])
def test_equal_outputs_are_identical_whatever_the_seeds(wired: Any, seeds: int) -> None:
    record = simulated(wired, "95 %; 95 %", seeds)
    runs = outputs_of(record).main["a"]
    both = RunTable.gather([(1.0, name, run) for name, order in (("a", 1), ("b", -1)) for run in runs[::order]])
    again = measure(record, wired.DATA, both)
    assert [test.word for test in again.pairs] == ["identical outputs"]
    assert said(again).startswith("Identical outputs. ")
    assert said(again, "ko").startswith("출력이 똑같습니다. ")


def test_wrong_words_are_rare_from_outputs_to_the_first_sentence(wired: Any) -> None:
    for world, wrong in (("97 %, 1 in 10 stuck; 95 %", ("better",)), ("95 %; 95 %", ("better", "worse"))):
        counts = wired.words(*wired.WORLDS[world], 5, repeats=30, seed=(1,))
        assert sum(counts[word] for word in wrong) == 0
    trains = ("better where it trains", "worse where it trains")
    assert sum(counts[word] for word in trains) <= 4  # of 30 comparisons of equal models, at most 5 % in the long run
