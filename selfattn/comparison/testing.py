"""Test a trained run, and keep the results in its directory; a comparison is made from these files alone.

===================== =====================================================================================
test.jsonl            one :class:`Answer` for each test pair
test.json             :class:`TestResult`: scores, gates, cost, attention, probes; written last
===================== =====================================================================================
"""

from __future__ import annotations

import math
import re
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
    attention_agreement,
    check_gates,
    measure_cost,
    show_attention,
)
from selfattn.comparison.plan import Variant
from selfattn.data.pairs import Pair, Span
from selfattn.decoding.texts import Output
from selfattn.errors import UserError
from selfattn.files import sha256_of, writing
from selfattn.results.attention import Agreement, ModelAlignment, ShownAttention
from selfattn.results.quality import Curve, Headline, Point
from selfattn.results.record import Cost, Gate
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
    """A test pair and the output of a model.

    Attributes:
        source: of the pair.
        target: of the pair.
        tag: of the pair.
        spans: of the pair: field, range in the source, range in the target.
        output: of the model.
        finished: whether the model ended the output.
    """

    source: str
    target: str
    tag: str
    spans: tuple[tuple[str, _Range, _Range], ...]
    output: str
    finished: bool

    @classmethod
    def to(cls, pair: Pair, output: Output) -> Answer:
        """Make an answer of a pair and an output."""
        spans = tuple((span.field, span.source, span.target) for span in pair.spans)
        return cls(pair.source, pair.target, pair.tag, spans, output.text, output.finished)

    @property
    def pair(self) -> Pair:
        """The test pair."""
        return Pair(self.source, self.target, self.tag, tuple(Span(*span) for span in self.spans))


@dataclass(frozen=True)
class TestResult(Plain):
    """Results of a test besides its answers.

    Attributes:
        created: ISO 8601 date and time at which the test ended.
        headline: metric of the verdict.
        scores: every metric of the task by name.
        decoding: `beam` and `length_penalty`.
        seconds: of decoding the test pairs in batches.
        gates: of this run.
        cost: operations, memory, disk space.
        alignment: attention against gold; None without gold or attention.
        attention: on some test pairs; empty without attention.
        probes: answers to further pairs, such as years outside the training data.
        words: counts of the test targets' words in the training targets; empty where words do not matter.
        answers_sha256: of the file of the answers.
        agreement: of attention with input attributions; of the first seed alone, None without attention.
        failed: why the training diverged; empty where it did not.
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
    answers_sha256: str = ""
    agreement: Agreement | None = None
    failed: str = ""


@dataclass(frozen=True)
class Answered:
    """The outputs of a run, from which its quality is computed.

    Attributes:
        seed: of the training.
        failed: whether the training diverged.
        answers: every test pair with its output.
        probes: answers to further pairs.
        words: see :class:`TestResult`.
        scores: metrics that are known already; default none.
    """

    seed: int
    failed: bool
    answers: Sequence[Answer]
    probes: Mapping[str, Sequence[Answer]]
    words: Mapping[str, int]
    scores: Mapping[str, float] = field(default_factory=dict)

    @property
    def pairs(self) -> list[Pair]:
        """The test pairs."""
        return [answer.pair for answer in self.answers]

    @property
    def outputs(self) -> list[str]:
        """Outputs in the order of the pairs."""
        return [answer.output for answer in self.answers]


class Tested:
    """A tested run on disk.

    Args:
        path: its directory.
        name: of the model in the comparison; default its preset.

    Raises:
        UserError: there is no tested run, or it cannot be read.
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
        self.result: TestResult = codec.decode(TestResult, data, file=file, advice=_ADVICE)

    @property
    def seed(self) -> int:
        """Seed of the training."""
        return self.config.training.seed

    @property
    def home(self) -> Path:
        """Directory of its comparison."""
        return self.path.resolve().parent.parent

    @property
    def directory_name(self) -> str:
        """Name of the model in its comparison, from the name of its directory."""
        return re.sub(r"-seed[0-9]+.*$", "", self.path.name)

    @property
    def failed(self) -> bool:
        """Whether the training diverged."""
        return bool(self.result.failed)

    @cached_property
    def record(self) -> RunRecord:
        """Content of ``run.json``."""
        return self.directory.record()

    @cached_property
    def metrics(self) -> list[EpochReport]:
        """Content of ``metrics.jsonl``: a report for each validation; none for a failed training."""
        return [] if self.failed else self.directory.metrics()

    def curve(self, metric: str) -> Curve:
        """Return the learning curve, with this metric on the validation items where it was measured."""
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
        """Every test pair with its output."""
        path = self.path / ANSWERS
        answers = tuple(codec.read_jsonl(Answer, path, advice=_ADVICE))
        if sha256_of(path) != self.result.answers_sha256:
            raise UserError(f"{path}: was changed or damaged after it was written (its checksum differs); {_ADVICE}")
        return answers

    @property
    def answered(self) -> Answered:
        """Its outputs."""
        result = self.result
        return Answered(self.seed, self.failed, self.answers, result.probes, result.words, result.scores)

    @property
    def pairs(self) -> list[Pair]:
        """The test pairs."""
        return self.answered.pairs

    @property
    def outputs(self) -> list[str]:
        """Outputs in the order of the pairs."""
        return self.answered.outputs


Runs = Mapping[Variant, Mapping[str, Sequence[Tested]]]  # of a comparison, by variant and model


def is_tested(path: Path) -> bool:
    """Whether a run directory holds the results of a test."""
    return (path / RESULT).is_file() and (path / ANSWERS).is_file()


def test_run(run: Run, task: Task, tests: TestSet, *, leading: bool, thorough: bool, share: float) -> Tested:
    """Test a run and keep the results in its directory.

    Args:
        run: trained on the task.
        task: decodes and scores.
        tests: of the run's seed.
        leading: also compare attention with input attributions; the report shows one run of a model.
        thorough: also measure memory, and whether a fresh model can overfit a few examples.
        share: of the recipe's steps.
    """
    started = time.perf_counter()
    outputs = _outputs(run, task, tests.pairs)
    seconds = time.perf_counter() - started
    result = replace(
        _scored(task, tests, [output.text for output in outputs]),
        seconds=seconds,
        gates=check_gates(run, task, tests, outputs, thorough=thorough, share=share),
        cost=measure_cost(run, tests, metrics=RunDirectory(run.path).metrics(), thorough=thorough),
        alignment=align_with_gold(run, tests),
        agreement=attention_agreement(run, tests, outputs) if leading else None,
        attention=show_attention(run, tests.pairs),
        probes={name: tuple(map(Answer.to, pairs, _outputs(run, task, pairs))) for name, pairs in tests.probes.items()},
    )
    return _keep(run.path, result, list(map(Answer.to, tests.pairs, outputs)))


def count_failed(path: Path, task: Task, tests: TestSet, reason: str) -> Tested:
    """Keep the results of a diverged training: every answer is empty, and there are no gates.

    Args:
        path: of the run's directory.
        task: scores.
        tests: of the run's seed.
        reason: of the failure.
    """
    nothing = Output("", -math.inf, -math.inf, finished=True)
    answers = [Answer.to(pair, nothing) for pair in tests.pairs]
    probes = {name: tuple(Answer.to(pair, nothing) for pair in pairs) for name, pairs in tests.probes.items()}
    result = replace(_scored(task, tests, [""] * len(answers)), probes=probes, failed=reason)
    return _keep(path, result, answers)


def _scored(task: Task, tests: TestSet, texts: Sequence[str]) -> TestResult:
    return TestResult(
        schema=_SCHEMA,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        headline=task.headline,
        scores=task.scores(texts, [pair.target for pair in tests.pairs]),
        decoding={"beam": task.decoding.beam, "length_penalty": task.decoding.length_penalty},
        seconds=0.0,
        gates=(),
        cost=Cost(),
        words=tests.seen.words,
    )


def _keep(path: Path, result: TestResult, answers: Sequence[Answer]) -> Tested:
    with writing(path):
        codec.write_jsonl(path / ANSWERS, answers)
        codec.write(path / RESULT, replace(result, answers_sha256=sha256_of(path / ANSWERS)), checksum=True)
    return Tested(path)


def _outputs(run: Run, task: Task, pairs: Sequence[Pair]) -> list[Output]:
    return [best for best, *_ in run.decode([pair.source for pair in pairs], task.decoding)]
