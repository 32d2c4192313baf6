"""Comparisons on several tasks have one verdict over all, with an interval to further tasks."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from small_runs import Cli

from selfattn.codec import write
from selfattn.comparison.together import over_tasks, read_together, remarks, together_lines
from selfattn.errors import UserError
from selfattn.evaluation.significance import RunScores, mean_difference, score_runs
from selfattn.results.plan import Departure, PlanCheck, Seal
from selfattn.results.record import Attention, Gate, Record, read_record

PUBLISHED = Path(__file__).parents[2] / "docs/results/reports/phrases.json"


def task_record(number: int, shares: tuple[float, float]) -> Record:
    """The record of two models on a task, of which nothing but scores and tests is looked at."""
    record = read_record(PUBLISHED)
    names = [model.name for model in record.models[:2]]
    chance = np.random.default_rng(number)
    scores = {name: (chance.random((3, 200)) < share) * 1.0 for name, share in zip(names, shares, strict=True)}
    compared = RunScores.comparison(replace(score_runs(scores), metric=record.headline.metric))
    models = [
        replace(model, metrics={record.headline.metric: compared.estimates[model.name]}) for model in record.models[:2]
    ]
    bare = replace(record, gates=(), attention=Attention(), buckets=(), differences=(), budgets=None, plan=None)
    return replace(bare, models=tuple(models), pairs=compared.pairs, outputs_sha256=f"{number:064x}")


SHARES = {"kor": (0.7, 0.6), "jpn": (0.9, 0.85), "fre": (0.8, 0.6), "hun": (0.95, 0.9)}


def records() -> dict[str, Record]:
    return {name: task_record(number, shares) for number, (name, shares) in enumerate(SHARES.items())}


def test_a_verdict_is_over_tasks() -> None:
    (verdict,) = over_tasks(records())
    differences = [row.difference for row in verdict.rows]
    assert verdict.difference.mean == pytest.approx(np.mean(differences))
    assert verdict.difference.low is not None
    half = 3.182 * np.std(differences, ddof=1) / 2  # Student's t with 3 degrees of freedom, 4 tasks
    assert verdict.difference.mean - verdict.difference.low == pytest.approx(half, rel=1e-3)
    assert verdict.improvement.mean > 0.9
    assert verdict.middle_first.mean > verdict.middle_second.mean
    lines = list(together_lines(verdict))
    assert [line.split(" | ")[0] for line in lines if line.startswith("| ")][2:6] == [f"| {name}" for name in SHARES]
    assert any("mean over tasks" in line for line in lines)
    assert any("과제 평균" in line for line in together_lines(verdict, "ko"))


def test_a_difference_of_percentages_is_in_points() -> None:
    (verdict,) = over_tasks(records())
    for lang, unit in (("en", "points"), ("ko", "%p")):
        rows = [line.split(" | ") for line in together_lines(verdict, lang) if line.startswith("| ")]
        assert rows[0][3].endswith(f", {unit}")
        assert [("%" in row[1], "%" in row[3]) for row in rows[2:-1]] == [(True, False)] * 5


def test_only_comparisons_that_belong_together_are_put_together(cli: Cli, tmp_path: Path) -> None:
    places = {}
    for name, record in records().items():
        places[name] = tmp_path / f"{name}.json"
        write(places[name], record)
    (verdict,) = over_tasks(read_together(places))
    assert verdict.metric == "exact_match"
    done = cli("compare", "together", *(f"{name}={path}" for name, path in places.items()), "--json")
    assert json.loads(done.out)["verdicts"][0]["p"] == pytest.approx(verdict.p)
    two = [np.array([0.5, 0.5])] * 2
    with pytest.raises(UserError, match="2 tasks: a verdict over tasks needs 3 or more"):
        mean_difference(two, two)
    with pytest.raises(UserError, match=r"jpn.json: is the comparison of kor again"):
        read_together({"kor": places["jpn"], "again": places["jpn"]})
    record = records()["kor"]
    write(tmp_path / "other.json", replace(record, models=record.models[:1], pairs=()))
    with pytest.raises(UserError, match="other models than"):
        read_together(places | {"other": tmp_path / "other.json"})
    assert "give each comparison as NAME=DIRECTORY" in cli("compare", "together", places["kor"]).refusal()


def test_what_speaks_against_a_comparison_stands_below_the_verdict() -> None:
    kor, jpn, fre, hun = records().values()
    sealed = PlanCheck(Seal("0" * 64, "2026-01-01T00:00:00+00:00"))
    departed = replace(sealed, departures=(Departure("again", ("a-seed0",)),))
    failed = Gate("overlap", passed=False, reason="3 test items are training items")
    lines = list(
        remarks(
            {
                "kor": kor,
                "jpn": replace(jpn, plan=replace(sealed, pilot=True)),
                "fre": replace(fre, plan=departed),
                "hun": replace(hun, plan=sealed, gates=(failed,)),
                "fin": replace(hun, plan=sealed),
            }
        )
    )
    assert [line.partition(":")[0] for line in lines[:-1]] == ["- kor", "- jpn", "- fre", "- hun"]
    for line, reason in zip(lines, ("no plan", "a pilot", "a-seed0", "3 test items", "nothing seals"), strict=True):
        assert reason in line
