"""Tested runs on disk, and the runs of a comparison in one table; a comparison is made from these files alone.

===================== =====================================================================================
test.jsonl            one :class:`Prediction` for each test pair
test.json             :class:`RunSummary`: scores, gates, cost, attention, probes; written last
===================== =====================================================================================
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Generic, TypeVar

from selfattn.codec import Plain, read, read_jsonl, write, write_jsonl
from selfattn.comparison.plan import ComparisonPlan
from selfattn.data.pairs import Pair, Span
from selfattn.decoding.options import Output
from selfattn.errors import SettingError, UserError, number_of
from selfattn.files import sha256_of, writing
from selfattn.results.quality import Curve, Headline, Point
from selfattn.results.record import Agreement, Cost, Gate, HeadScores, ModelAlignment, ShownAttention
from selfattn.runs.directory import METRICS, RECORD, RunDirectory
from selfattn.runs.record import RunConfig, RunRecord
from selfattn.training.observer import EpochReport

SCHEMA = 2
RESULT = "test.json"
ANSWERS = "test.jsonl"
DIVERGED = "diverged"  # status of a trial of the tuning
BEATEN = "stopped by an observer"  # status of a trial that read more than the best of its tuning
ENDED: tuple[str, ...] = ("finished", "target reached", "stopped early", BEATEN)  # of a training that did not diverge
_ADVICE = "test the run again: remove test.json, and compare with `resume`"
_OF_A_REPORT = ("epoch", "step", "tokens", "seconds", "train_loss", "valid_loss")  # that a point of a curve has too
_Range = tuple[int, int]


R = TypeVar("R", bound="RunOutputs | RunOnDisk")
S = TypeVar("S", bound="RunOutputs | RunOnDisk")
T = TypeVar("T")


def by_model(models: Mapping[str, Sequence[R]], make: Callable[[R], T]) -> dict[str, list[T]]:
    """Return by model what a function makes of each of its runs."""
    return {name: list(map(make, runs)) for name, runs in models.items()}


class RunTable(Generic[R]):
    """The runs of a comparison, by budget and model, seed after seed.

    Args:
        runs: by budget and model. The largest budget is the main one: its runs decide.

    Example:
        >>> from types import SimpleNamespace
        >>> runs = [SimpleNamespace(seed=0, failed=True), SimpleNamespace(seed=1, failed=False)]
        >>> table = RunTable({1.0: {"transformer": runs}})
        >>> table.finished("transformer").seed, len(table.all()), table.budgets
        (1, 2, (1.0,))
    """

    def __init__(self, runs: Mapping[float, Mapping[str, Sequence[R]]]) -> None:
        self._runs = runs

    @classmethod
    def gather(cls, rows: Iterable[tuple[float, str, R]]) -> RunTable[R]:
        """Make a table of runs with their budget and model, in their order."""
        runs: dict[float, dict[str, list[R]]] = {}
        for budget, model, run in rows:
            runs.setdefault(budget, {}).setdefault(model, []).append(run)
        return cls(runs)

    def map(self, make: Callable[[R], S]) -> RunTable[S]:
        """Return a table with what a function makes of each run."""
        return RunTable.gather((budget, model, make(run)) for budget, model, run in self.rows())

    @property
    def budgets(self) -> tuple[float, ...]:
        """The budgets, in their order."""
        return tuple(self._runs)

    @property
    def main(self) -> Mapping[str, Sequence[R]]:
        """Runs of the largest budget by model; the figures of the report are about these."""
        return self.at(max(self._runs))

    @property
    def first(self) -> R:
        """The first run of the first model at the largest budget."""
        return next(iter(self.main.values()))[0]

    def at(self, budget: float) -> Mapping[str, Sequence[R]]:
        """Return the runs of a budget by model."""
        return self._runs[budget]

    def finished(self, model: str) -> R:
        """Return the first run of a model at the largest budget whose training did not diverge."""
        return next(run for run in self.main[model] if not run.failed)

    def rows(self) -> Iterator[tuple[float, str, R]]:
        """Yield every run with its budget and model."""
        for budget, models in self._runs.items():
            for model, runs in models.items():
                yield from ((budget, model, run) for run in runs)

    def all(self) -> list[R]:
        """Return every run."""
        return [run for _, _, run in self.rows()]


@dataclass(frozen=True)
class Prediction(Plain):
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
    def to(cls, pair: Pair, output: Output) -> Prediction:
        """Make a prediction of a pair and an output."""
        spans = tuple((span.field, span.source, span.target) for span in pair.spans)
        return cls(pair.source, pair.target, pair.tag, spans, output.text, output.finished)

    @property
    def pair(self) -> Pair:
        """The test pair."""
        return Pair(self.source, self.target, self.tag, tuple(Span(*span) for span in self.spans))


@dataclass(frozen=True)
class RunSummary(Plain):
    """Results of a test besides its answers.

    Attributes:
        created: ISO 8601 date and time at which the test ended.
        headline: metric of the verdict.
        scores: every metric of the task by name.
        decoding: `beam` and `length_penalty`.
        gates: of this run.
        cost: operations, memory, disk space.
        alignment: attention against gold; None without gold or attention.
        attention: on some test pairs; empty without attention.
        probes: answers to further pairs, such as years outside the training data.
        words: counts of the test targets' words in the training targets; empty where words do not matter.
        agreement: of attention with input attributions; of the first seed alone, None without attention.
        heads: scores on validation items without each attention head; of the first seed alone.
        failed: why the training diverged; empty where it did not.
    """

    schema: int
    created: str
    headline: Headline
    scores: Mapping[str, float]
    decoding: Mapping[str, int | float]
    gates: tuple[Gate, ...]
    cost: Cost
    alignment: ModelAlignment | None = None
    attention: tuple[ShownAttention, ...] = ()
    probes: Mapping[str, tuple[Prediction, ...]] = field(default_factory=dict)
    words: Mapping[str, int] = field(default_factory=dict)
    agreement: Agreement | None = None
    heads: HeadScores | None = None
    failed: str = ""


@dataclass(frozen=True)
class RunOutputs(Plain):
    """The outputs of a run, from which its quality is computed.

    Attributes:
        seed: of the training.
        failed: whether the training diverged.
        answers: every test pair with its output.
        probes: answers to further pairs.
        words: see :class:`RunSummary`.
        scores: metrics that are known already; default none.
    """

    seed: int
    failed: bool
    answers: Sequence[Prediction]
    probes: Mapping[str, Sequence[Prediction]] = field(default_factory=dict)
    words: Mapping[str, int] = field(default_factory=dict)
    scores: Mapping[str, float] = field(default_factory=dict)

    @property
    def pairs(self) -> list[Pair]:
        """The test pairs."""
        return [answer.pair for answer in self.answers]

    @property
    def texts(self) -> list[str]:
        """Outputs in the order of the pairs."""
        return [answer.output for answer in self.answers]


class RunOnDisk:
    """A tested run on disk.

    Args:
        path: its directory.
        name: of the model in the comparison; default its preset.

    Raises:
        UserError: it cannot be read.
    """

    def __init__(self, path: Path, name: str | None = None) -> None:
        self.path = path
        self.directory = RunDirectory(path)
        self.config: RunConfig = self.directory.config()
        self.name = name or self.config.preset
        self.directory.check(RESULT)
        self.result: RunSummary = read(RunSummary, path / RESULT, advice=_ADVICE, newest=SCHEMA)

    @property
    def seed(self) -> int:
        """Seed of the training."""
        return self.config.training.seed

    @property
    def failed(self) -> bool:
        """Whether the training diverged."""
        return bool(self.result.failed)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of ``run.json``, which has those of all files of the run: the one digest of all that was tested."""
        return sha256_of(self.path / RECORD)

    @property
    def digests(self) -> dict[str, str]:
        """What the ledger has of a test: the digest, and that of the outputs alone."""
        return {"answers": self.digest, "outputs": sha256_of(self.path / ANSWERS)}

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
        points = []
        for report in self.metrics:
            same = {name: getattr(report, name) for name in _OF_A_REPORT}
            flops = per_token * report.tokens
            valid = report.measures.get(metric)
            points.append(Point(**same, flops=flops, valid=valid, examples=report.examples or None))
        validated = {report.step for report in self.metrics}
        for part in [] if self.failed else self.directory.curve():
            if part.step in validated:  # at the end of an epoch
                continue
            flops = per_token * part.tokens
            points.append(Point(part.epoch, part.step, part.tokens, part.seconds, flops, valid=part.value))
        points.sort(key=lambda point: point.step)
        return Curve(self.seed, tuple(points))

    @cached_property
    def outputs(self) -> RunOutputs:
        """Its outputs.

        Raises:
            UserError: the file of the answers is broken.
        """
        result = self.result
        self.directory.check(ANSWERS)
        answers = read_jsonl(Prediction, self.path / ANSWERS, advice=_ADVICE)
        for item in result.attention:
            if item.place >= len(answers):
                count = f"{ANSWERS} has {number_of(len(answers), 'pair')}"
                raise UserError(f"{self.path / RESULT}: shows attention on pair {item.place + 1}, {count}; {_ADVICE}")
        return RunOutputs(self.seed, self.failed, answers, result.probes, result.words, result.scores)


def keep(path: Path, result: RunSummary, answers: Sequence[Prediction]) -> None:
    """Write the results of a test into the directory of its run."""
    directory = RunDirectory(path)
    with writing(path):
        write_jsonl(path / ANSWERS, answers)
        write(path / RESULT, result, checksum=True)
    files = {name: (sha256_of(path / name),) for name in (ANSWERS, RESULT)}
    directory.update(files={**directory.record().files, **files})


def came_to_its_end(directory: RunDirectory) -> bool:
    """Whether a training took its last step, with losses that are finite: then it cannot have diverged."""
    if not (directory.path / METRICS).is_file():
        return False
    training = directory.config().training
    reports = directory.metrics()
    losses = chain.from_iterable((report.train_loss, report.valid_loss) for report in reports)
    if not reports or not all(map(math.isfinite, losses)):
        return False
    last = reports[-1]
    if training.max_steps:
        return last.step >= training.max_steps
    return last.epoch >= training.epochs and bool(not training.validate_every or last.step % training.validate_every)


def is_tested(path: Path) -> bool:
    """Whether a run directory holds the results of a test; its record lists them when they are complete."""
    if not ((path / RESULT).is_file() and (path / ANSWERS).is_file()):
        return False
    return RESULT in RunDirectory(path).record().files


def read_runs(comparison: Path, plan: ComparisonPlan) -> RunTable[RunOnDisk]:
    """Read all runs of a comparison.

    Raises:
        SettingError: a run is not tested.
        UserError: a run is broken.
    """
    for run in plan.runs():
        path = comparison / run.path
        if not is_tested(path):
            raise SettingError(f"{path}: not tested yet, or gone; finish the comparison: {plan.command} `resume`")
    return RunTable.gather((run.budget, run.name, RunOnDisk(comparison / run.path, run.name)) for run in plan.runs())
