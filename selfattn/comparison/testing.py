"""Test a trained run, and keep what came of it in its directory: `test.jsonl` and `test.json`.

A comparison is made from these files alone, so one that was stopped goes on where it stopped, and a report can be made
again without a model.

===================== =====================================================================================
test.jsonl            one `Answer` for each test pair
test.json             the `TestResult`: scores, gates, cost, attention against gold, examples of attention, probes
===================== =====================================================================================

`test.json` is written last: a run that has it is done.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from selfattn import codec
from selfattn.codec import Plain
from selfattn.comparison.diagnostics import (
    align_with_gold,
    ask_gates,
    hold_against_dependence,
    measure_cost,
    show_attention,
)
from selfattn.comparison.planning.plan import Variant
from selfattn.data.pairs import Pair, Span
from selfattn.decoding.texts import Output
from selfattn.errors import UserError
from selfattn.files import sha256_of, writing
from selfattn.results.attention import Agreement, ModelAlignment, ShownAttention
from selfattn.results.cost import Cost
from selfattn.results.gates import Gate
from selfattn.results.quality import Curve, Headline, Point
from selfattn.runs.directory import RunConfig, RunDirectory, RunRecord
from selfattn.runs.run import Run
from selfattn.runs.task import Task
from selfattn.runs.training_set import TestSet
from selfattn.training.observer import EpochReport

_SCHEMA = 2
RESULT, ANSWERS = "test.json", "test.jsonl"
_ADVICE = "test the run again: remove test.json, and compare with `resume`"

_Range = tuple[int, int]


@dataclass(frozen=True)
class Answer(Plain):
    """A test pair and what a model made of it.

    Attributes:
        source: what was asked.
        target: what is right.
        tag: of the pair.
        spans: of the pair: field, range in the source, range in the target.
        output: what the model wrote.
        finished: whether it came to an end by itself.
    """

    source: str
    target: str
    tag: str
    spans: tuple[tuple[str, _Range, _Range], ...]
    output: str
    finished: bool

    @classmethod
    def to(cls, pair: Pair, output: Output) -> Answer:
        """Put a pair and what was written for it together."""
        spans = tuple((span.field, span.source, span.target) for span in pair.spans)
        return cls(pair.source, pair.target, pair.tag, spans, output.text, output.finished)

    @property
    def pair(self) -> Pair:
        """What was asked, and what is right."""
        return Pair(self.source, self.target, self.tag, tuple(Span(*span) for span in self.spans))


@dataclass(frozen=True)
class TestResult(Plain):
    """What a test of a run found besides its answers.

    Attributes:
        created: ISO 8601 date and time at which the test ended.
        headline: the metric that decides.
        scores: every metric of the task by name.
        decoding: how outputs were decoded: `beam`, `length_penalty`.
        seconds: of decoding the test pairs in batches, beside whatever else went on.
        gates: all that were asked of this run.
        cost: operations, memory, disk.
        alignment: attention against gold; None where there is no gold or no attention.
        attention: on some of the test pairs; empty where there is no attention.
        agreement: of attention with what the output depends on; of seed 0 alone, and None where there is no attention.
        probes: answers to further pairs, such as years that training never showed.
        words: how often training's targets have each word of the test's targets; empty where words do not matter.
        answers_sha256: of the file of the answers; None in a test of before there was one.
        failed: why the training ended without a model, which then answers nothing; empty where it did not.
        predict_ms: milliseconds for one input alone, in a test of before all runs were timed by turns.
    """

    __test__ = False  # is not a test

    schema: int
    created: str
    headline: Headline
    scores: Mapping[str, float]
    decoding: Mapping[str, int | float]
    seconds: float
    gates: tuple[Gate, ...]
    cost: Cost
    alignment: ModelAlignment | None = None
    attention: tuple[ShownAttention, ...] = ()
    probes: Mapping[str, tuple[Answer, ...]] = field(default_factory=dict)
    words: Mapping[str, int] = field(default_factory=dict)
    answers_sha256: str | None = None
    predict_ms: float | None = None
    agreement: Agreement | None = None
    failed: str = ""


class Tested:
    """A run on disk that has been tested.

    Args:
        path: its directory.
        name: what the model is called in a comparison; default its preset.

    Raises:
        UserError: there is no tested run, or what is known of it cannot be read.
    """

    def __init__(self, path: Path, name: str | None = None) -> None:
        self.path, self.directory = path, RunDirectory(path)
        self.config: RunConfig = self.directory.config()
        self.name = name or self.config.preset
        if not is_tested(path):
            raise UserError(f"{path}: a run that no comparison has tested; compare its model, or name another run")
        file = path / RESULT
        data = codec.read_json(file, advice=_ADVICE)
        codec.refuse_newer(data, _SCHEMA, file=file)
        found = data.get("schema") if isinstance(data, dict) else None
        if found != _SCHEMA:
            raise UserError(f"{file}: schema {found!r}, this version reads {_SCHEMA}; {_ADVICE}")
        self.result: TestResult = codec.decode(TestResult, data, file=file, advice=_ADVICE)

    @property
    def seed(self) -> int:
        """The seed that it was trained with."""
        return self.config.training.seed

    @property
    def failed(self) -> bool:
        """Whether the training diverged."""
        return bool(self.result.failed)

    @cached_property
    def record(self) -> RunRecord:
        """What ``run.json`` says."""
        return self.directory.record()

    @cached_property
    def metrics(self) -> list[EpochReport]:
        """What ``metrics.jsonl`` says: one report for each validation; none where the training failed before."""
        return [] if self.failed else self.directory.metrics()

    def curve(self, metric: str) -> Curve:
        """Return how it learned, with this metric on the validation items where it was measured."""
        per_token = self.result.cost.training_flops_per_token or 0.0
        points = (
            Point(
                report.epoch,
                report.step,
                report.tokens,
                report.seconds,
                per_token * report.tokens,
                report.train_loss,
                report.valid_loss,
                report.measures.get(metric),
            )
            for report in self.metrics
        )
        return Curve(self.seed, tuple(points))

    @cached_property
    def answers(self) -> tuple[Answer, ...]:
        """Every test pair with the model's output."""
        path, known = self.path / ANSWERS, self.result.answers_sha256
        answers = tuple(codec.read_jsonl(Answer, path, advice=_ADVICE))
        if known is not None and sha256_of(path) != known:
            raise UserError(f"{path}: was changed or damaged after it was written (its checksum differs); {_ADVICE}")
        return answers

    @property
    def pairs(self) -> list[Pair]:
        """The test pairs."""
        return [answer.pair for answer in self.answers]

    @property
    def outputs(self) -> list[str]:
        """What the model wrote, in the order of the pairs."""
        return [answer.output for answer in self.answers]


Runs = Mapping[Variant, Mapping[str, Sequence[Tested]]]  # of a comparison, by how much they were trained and by model


def is_tested(path: Path) -> bool:
    """Whether a run directory holds everything that a test leaves."""
    return (path / RESULT).is_file() and (path / ANSWERS).is_file()


def test_run(run: Run, task: Task, tests: TestSet, *, leading: bool, thorough: bool, share: float) -> Tested:
    """Test a run and keep the results in its directory.

    Args:
        run: trained on the task.
        task: says how to decode and score.
        tests: of the run's seed.
        leading: also hold attention against what the outputs depend on, which the report does for one run of a model.
        thorough: also measure cost, and whether a fresh model of its kind can learn at all.
        share: of the recipe's steps that it was trained for.
    """
    directory, decoding = RunDirectory(run.path), task.decoding
    started = time.perf_counter()
    outputs = _outputs(run, task, tests.pairs)
    seconds = time.perf_counter() - started
    result = TestResult(
        schema=_SCHEMA,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        headline=task.headline,
        scores=task.scores([output.text for output in outputs], [pair.target for pair in tests.pairs]),
        decoding={"beam": decoding.beam, "length_penalty": decoding.length_penalty},
        seconds=seconds,
        gates=ask_gates(run, task, tests, outputs, thorough=thorough, share=share),
        cost=measure_cost(run, tests, metrics=directory.metrics(), thorough=thorough),
        alignment=align_with_gold(run, tests),
        agreement=hold_against_dependence(run, tests, outputs) if leading else None,
        attention=show_attention(run, tests.pairs),
        probes={name: tuple(map(Answer.to, pairs, _outputs(run, task, pairs))) for name, pairs in tests.probes.items()},
        words=tests.seen.words,
    )
    return _kept(run.path, result, list(map(Answer.to, tests.pairs, outputs)))


def count_failed(path: Path, task: Task, tests: TestSet, reason: str) -> Tested:
    """Keep the results of a training that left no model: it answers nothing, and no gate is asked.

    Args:
        path: of the run's directory.
        task: says how to score.
        tests: of the run's seed.
        reason: why it left none.
    """
    nothing = Output("", -math.inf, -math.inf, finished=True)
    answers = [Answer.to(pair, nothing) for pair in tests.pairs]
    result = TestResult(
        schema=_SCHEMA,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        headline=task.headline,
        scores=task.scores([""] * len(answers), [pair.target for pair in tests.pairs]),
        decoding={"beam": task.decoding.beam, "length_penalty": task.decoding.length_penalty},
        seconds=0.0,
        gates=(),
        cost=Cost(),
        probes={name: tuple(Answer.to(pair, nothing) for pair in pairs) for name, pairs in tests.probes.items()},
        words=tests.seen.words,
        failed=reason,
    )
    return _kept(path, result, answers)


def _kept(path: Path, result: TestResult, answers: Sequence[Answer]) -> Tested:
    with writing(path):
        codec.write_jsonl(path / ANSWERS, answers)
        codec.write(path / RESULT, replace(result, answers_sha256=sha256_of(path / ANSWERS)), checksum=True)
    return Tested(path)


def _outputs(run: Run, task: Task, pairs: Sequence[Pair]) -> list[Output]:
    return [found[0] for found in run.decode([pair.source for pair in pairs], task.decoding)]
