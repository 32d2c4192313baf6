"""Test a trained run, and keep what came of it in its directory: `test.jsonl` and `test.json`.

A comparison is made from these files alone, so one that was stopped goes on where it stopped, and a report can be made
again without a model.

===================== =====================================================================================
test.jsonl            one object for each test pair: source, target, tag, spans, what the model wrote
test.json             gates, cost, attention against gold, examples of attention, answers to probes
===================== =====================================================================================

`test.json` is written last: a run that has it is done.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from selfattn.codec import encode
from selfattn.data.pairs import Pair, Span
from selfattn.errors import UserError
from selfattn.evaluation.cost.latency import median_ms
from selfattn.files import read_json, write_atomically, write_json, writing
from selfattn.runs.diagnostics import Examination
from selfattn.runs.directory import RunConfig, RunDirectory, RunRecord
from selfattn.runs.run import Run
from selfattn.runs.task import Task
from selfattn.runs.training_set import TestSet
from selfattn.training.observer import EpochReport

SCHEMA = 1
FIGURES, ANSWERS = "test.json", "test.jsonl"
_TIMED = 50  # inputs that are timed one by one
_ADVICE = "test the run again: remove test.json, and compare with --resume"
_Kinds = Mapping[str, type | tuple[type, ...]]
_NUMBER = (int, float)
_OF_FIGURES: _Kinds = {"created": str, "decoding": dict, "headline": dict, "scores": dict, "seconds": _NUMBER,
                       "predict_ms": _NUMBER, "gates": list, "attention": list, "cost": dict, "probes": dict,
                       "words": dict, "alignment": (dict, type(None))}  # fmt: skip


@dataclass(frozen=True)
class Answer:
    """A test pair and what a model made of it.

    Attributes:
        pair: what was asked, and what is right.
        output: what the model wrote.
        finished: whether it came to an end by itself.
    """

    pair: Pair
    output: str
    finished: bool


class Tested:
    """A run on disk that has been tested.

    Args:
        path: its directory.
        name: what the model is called in a comparison; default its preset.

    Raises:
        UserError: there is no tested run.
    """

    def __init__(self, path: Path, name: str | None = None) -> None:
        self.path, self.directory = path, RunDirectory(path)
        self.config: RunConfig = self.directory.config()
        self.name = name or self.config.preset
        if not is_tested(path):
            raise UserError(f"{path}: a run that no comparison has tested; compare its model, or name another run")
        self.figures: dict[str, Any] = read_json(path / FIGURES, _ADVICE)
        if self.figures.get("schema") != SCHEMA:
            found = self.figures.get("schema")
            raise UserError(f"{path / FIGURES}: schema {found!r}, this version reads {SCHEMA}; {_ADVICE}")
        _check(self.figures, _OF_FIGURES, f"{path / FIGURES}", _ADVICE)

    @property
    def seed(self) -> int:
        """The seed that it was trained with."""
        return self.config.training.seed

    @cached_property
    def record(self) -> RunRecord:
        """What ``run.json`` says."""
        return self.directory.record()

    @cached_property
    def metrics(self) -> list[EpochReport]:
        """What ``metrics.jsonl`` says: one report for each validation."""
        return self.directory.metrics()

    @cached_property
    def answers(self) -> tuple[Answer, ...]:
        """Every test pair with the model's output."""
        path = self.path / ANSWERS
        try:
            lines = path.read_bytes().removesuffix(b"\n").split(b"\n")
            return tuple(_to_answer(json.loads(line)) for line in lines)
        except OSError as error:
            raise UserError(f"{path}: cannot be read ({error.strerror}); {_ADVICE}") from None
        except (ValueError, KeyError, TypeError):
            raise UserError(f"{path}: a line is not a tested pair; {_ADVICE}") from None

    @property
    def pairs(self) -> list[Pair]:
        """The test pairs."""
        return [answer.pair for answer in self.answers]

    @property
    def outputs(self) -> list[str]:
        """What the model wrote, in the order of the pairs."""
        return [answer.output for answer in self.answers]


def _check(data: Mapping[str, Any], kinds: _Kinds, where: str, advice: str) -> None:
    """Make sure that everything is there that a report is made from."""
    for name, kind in kinds.items():
        if name not in data:
            raise UserError(f"{where}: {name} is missing; {advice}")
        if not isinstance(data[name], kind):
            raise UserError(f"{where}: {name} is of the wrong type; {advice}")


def is_tested(path: Path) -> bool:
    """Whether a run directory holds everything that a test leaves."""
    return (path / FIGURES).is_file() and (path / ANSWERS).is_file()


def test_run(run: Run, task: Task, tests: TestSet, *, thorough: bool) -> Tested:
    """Test a run and keep the results in its directory.

    Args:
        run: trained on the task.
        task: says how to decode and score.
        tests: of the run's seed.
        thorough: also measure cost, and whether a fresh model of its kind can learn at all.
    """
    pairs, decoding = tests.pairs, task.decoding
    started = datetime.now(UTC)
    outputs = [found[0] for found in run.decode([pair.source for pair in pairs], decoding)]
    seconds = (datetime.now(UTC) - started).total_seconds()
    examination = Examination(run, task, tests)
    answers = [Answer(pair, output.text, output.finished) for pair, output in zip(pairs, outputs, strict=True)]
    figures = {
        "schema": SCHEMA,
        "decoding": {"beam": decoding.beam, "length_penalty": decoding.length_penalty},
        "headline": asdict(task.headline),
        "scores": task.scores([answer.output for answer in answers], [pair.target for pair in pairs]),
        "seconds": seconds,
        "predict_ms": median_ms(run.predict, [pair.source for pair in pairs[:_TIMED]]),
        "gates": [encode(gate) for gate in examination.gates(answers, thorough=thorough)],
        "alignment": examination.alignment(),
        "attention": examination.attention(),
        "cost": examination.cost(thorough=thorough),
        "probes": {name: _probe(run, task, asked) for name, asked in tests.probes.items()},
        "words": dict(tests.seen.words),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    text = "".join(json.dumps(_to_json(answer), ensure_ascii=False) + "\n" for answer in answers)
    with writing(run.path):
        write_atomically(run.path / ANSWERS, lambda path: path.write_text(text, encoding="utf-8", newline="\n"))
        write_json(run.path / FIGURES, figures)
    return Tested(run.path)


def _probe(run: Run, task: Task, pairs: Sequence[Pair]) -> dict[str, Any]:
    outputs = [found[0].text for found in run.decode([pair.source for pair in pairs], task.decoding)]
    right = [output == pair.target for output, pair in zip(outputs, pairs, strict=True)]
    return {"items": len(pairs), "right": [int(one) for one in right]}


def _to_json(answer: Answer) -> dict[str, Any]:
    pair = answer.pair
    spans = [[span.field, list(span.source), list(span.target)] for span in pair.spans]
    given = {"source": pair.source, "target": pair.target, "tag": pair.tag, "spans": spans}
    return given | {"output": answer.output, "finished": answer.finished}


def _to_answer(data: Mapping[str, Any]) -> Answer:
    spans = tuple(Span(field, (a, b), (c, d)) for field, (a, b), (c, d) in data["spans"])
    pair = Pair(data["source"], data["target"], data["tag"], spans)
    return Answer(pair, str(data["output"]), bool(data["finished"]))
