"""What a published report says of its models, settings and task follows from its plan and its archive."""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from selfattn.codec import decode
from selfattn.comparison import seal as sealing
from selfattn.comparison.archive import ARCHIVE, read_archive
from selfattn.comparison.derived import underived
from selfattn.comparison.outputs import compare_outputs
from selfattn.comparison.verify import RESULTS, verify
from selfattn.results.reading import read_record
from selfattn.results.record import Record

REPORTS = Path(__file__).parents[2] / "docs/results/reports"


@cache
def archived(name: str) -> Any:
    return read_archive(REPORTS / f"{name}-outputs.jsonl.gz")


def edited(name: str, change: Callable[[Any], object]) -> Record:
    values = json.loads((REPORTS / f"{name}.json").read_text())
    values.pop("checksum", None)
    change(values)
    return decode(Record, values, file=name, advice="")


def all_models(**values: object) -> Callable[[Any], object]:
    return lambda record: [model.update(values) for model in record["models"]]


def settings(**values: object) -> Callable[[Any], object]:
    return lambda record: record["settings"].update(values)


def entries(**values: object) -> Callable[[Any], object]:
    return lambda record: [entry.update(values) for entry in record["plan"]["entries"]]


@pytest.mark.parametrize("path", sorted(REPORTS.glob("*.json")), ids=lambda path: path.stem)
def test_published_reports_follow_from_their_plans(path: Path) -> None:
    assert list(underived(read_record(path), *archived(path.stem))) == []


CHEATS = {
    "failed runs": all_models(failed=[0]),
    "changes": all_models(changes={}),
    "preset": all_models(preset="rnn-plain"),
    "parameters_body": all_models(parameters_body=1),
    "parameters_non_embedding": all_models(parameters_non_embedding=1),
    "training of": lambda record: record["models"][0]["config"].update(training={"lr": 9.0}),
    "settings.parts": settings(parts={"train": {"pairs": 100}}),
    "settings.max_steps": settings(max_steps=5),
    "settings.test_draw": settings(test_draw=3),
    "settings.training_time": settings(training_time="on the slowest machine"),
    "settings.pretrained": settings(pretrained="none"),
    "subject": lambda record: record["subject"]["words"]["en"].update({"metric.word_error_rate": "accuracy"}),
    "units": lambda record: record["units"].pop("ter"),
    "entries: of another plan": entries(plan="0" * 64),
    "command": lambda record: record.update(command=record["command"] + " --patience 2"),
    "tested twice": lambda record: record["plan"]["entries"].append(record["plan"]["entries"][0]),
    "trained": lambda record: record.update(trained=False),
}


@pytest.mark.parametrize("reason", CHEATS)
def test_what_is_said_otherwise_is_named(reason: str) -> None:
    problems = list(underived(edited("pronunciation", CHEATS[reason]), *archived("pronunciation")))
    assert problems
    assert all(reason in problem for problem in problems)


def test_a_tuned_setting_is_no_common_one() -> None:
    problems = list(underived(edited("dates", settings(lr=0.5)), *archived("dates")))
    assert problems == ["settings.lr: 0.5 in the record, the plan tunes it"]


def test_budgets_are_those_of_the_plan(finished: Path) -> None:
    record = read_record(finished / RESULTS)
    data, outputs = read_archive(finished / ARCHIVE)
    assert record.budgets
    assert list(underived(record, data, outputs)) == []
    turned = replace(record.budgets, pair=("transformer", "rnn-plain"), unit="examples")
    problems = list(underived(replace(record, budgets=turned), data, outputs))
    assert [problem.partition(":")[0] for problem in problems] == ["budgets.unit", "budgets.pair"]


def test_a_replay_says_whose_plan_it_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = edited("pronunciation", lambda record: None)
    assert record.plan
    assert record.plan.seal
    known = {"first": {"sha256": record.plan.seal.sha256, "created": "2020-01-01T00:00:00+00:00"}}
    (tmp_path / "published.json").write_text(json.dumps(known))
    monkeypatch.setattr(sealing, "PUBLISHED", tmp_path / "published.json")
    assert list(underived(record, *archived("pronunciation"))) == [
        "replays: nothing in the record, it has the plan of first"
    ]


# outputs that were made elsewhere

RIGHT = [f"a {number} b" for number in range(30)]


@pytest.fixture
def judged(tmp_path: Path) -> Path:
    (tmp_path / "ref.txt").write_text("".join(f"{text}\n" for text in RIGHT))
    for place, name in enumerate(("a1", "a2", "a3", "b1", "b2", "b3"), 2):
        lines = [text if number % place else f"{text} x" for number, text in enumerate(RIGHT)]
        (tmp_path / f"{name}.txt").write_text("".join(f"{line}\n" for line in lines))
    systems = {name: [str(tmp_path / f"{name}{number}.txt") for number in (1, 2, 3)] for name in ("a", "b")}
    compare_outputs(str(tmp_path / "ref.txt"), systems, metric="exact_match", out=tmp_path / "out", margin=2.0)
    return tmp_path


def differing(folder: Path) -> list[str]:
    return [finding.line for finding in verify(folder / "out") if finding.differences]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda record: record.update(margin=40.0), "margin"),
        (lambda record: record.update(analysis=1), "analysis"),
        (lambda record: record["headline"].update(better="lower"), "headline"),
        (lambda record: record["settings"].update(source="other.txt"), "source"),
        (lambda record: record["models"][0].update(run_dirs=["x", "y", "z"]), "system"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_record_of_outputs_is_that_of_its_command(judged: Path, change: Any, reason: str) -> None:
    assert differing(judged) == []
    results = judged / "out" / RESULTS
    values = json.loads(results.read_text())
    values.pop("checksum", None)
    change(values)
    results.write_text(json.dumps(values))
    assert any(reason in line for line in differing(judged))


def test_files_of_outputs_are_read_again_where_they_are(judged: Path) -> None:
    (judged / "b2.txt").write_text("".join(f"{text}\n" for text in ["wrong", *RIGHT[1:]]))
    (judged / "a1.txt").unlink()  # no file, nothing to compare
    (line,) = differing(judged)
    assert line == f"DIFFERS  lines of {judged / 'b2.txt'}: not as in the archive: 5 lines"
