"""The record of a comparison: exactly the fields of `results.json` (docs/results-json.md); reading and verifying it.

An error of reading is one line that names the file and the field.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, combinations
from pathlib import Path
from typing import Annotated, Literal, Self

from annotated_types import Ge, Gt, MinLen

from selfattn import codec
from selfattn.codec import Plain
from selfattn.errors import UserError
from selfattn.results.attention import Agreement, Attention, HeadScores, ModelAlignment
from selfattn.results.plan import Budgets, PlanCheck, Seal
from selfattn.results.quality import (
    BucketGroup,
    Curve,
    Estimate,
    Headline,
    IntervalMethod,
    NgramGroup,
    PairTest,
    Share,
    Target,
    Unit,
)


@dataclass(frozen=True)
class Baseline(Plain):
    """A published result on the same data: a model far below it may be broken.

    Attributes:
        metric: its name among the scores of a run.
        value: what is expected at least, or at most where lower is better.
        source: publication, figure and data.
        examples: training pairs that it takes, repetitions counted; a model trained on fewer is not checked. Default 0.
        distinct: how many of these have to be different; default 0.
    """

    metric: str
    value: float
    source: str
    examples: int = 0
    distinct: int = 0


@dataclass(frozen=True)
class Subject(Plain):
    """The question of a comparison, as its task states it.

    Attributes:
        pair: names of the two models that the question is about, in its order; None where it is about all.
        words: by language, the task's own texts by message key, which override the report's: the question
            (`question.pair.same`, `question.pair`, `question.pair.any`, `question.many`, `question.one`), what its
            items are called (`items`), and names of its metrics, buckets and gates (`metric.NAME`, `bucket.NAME`,
            `gate.NAME`).
    """

    pair: tuple[str, str] | None = None
    words: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


NO_SUBJECT = Subject()


SCHEMA = 3


@dataclass(frozen=True)
class Gate(Plain):
    """The result of a sanity gate.

    Attributes:
        name: of the gate.
        passed: whether it keeps to its limit.
        reason: the result in one sentence, with its figures.
        model: name of the model; empty for a gate on the data or on all models together.
        seed: of the run that was checked; None for a gate on no run.
        value: what was measured; None where that is not finite.
        limit: of the value.
        note: whether a failure is only noted: it sets no model aside and stops no verdict.
    """

    name: str
    passed: bool
    reason: str
    model: str = ""
    seed: int | None = None
    value: float | None = None
    limit: float | None = None
    note: bool = False

    @classmethod
    def at_least(cls, name: str, value: float, limit: float, reason: str, *, note: bool = False) -> Self:
        """Make a gate that values from the limit on pass."""
        return cls(name, value >= limit, reason, value=value, limit=limit, note=note)

    @classmethod
    def at_most(cls, name: str, value: float, limit: float, reason: str, *, note: bool = False) -> Self:
        """Make a gate that values up to the limit pass."""
        return cls(name, value <= limit, reason, value=value, limit=limit, note=note)


@dataclass(frozen=True)
class MeanOverRuns(Plain):
    """A measured cost: the mean over runs and the runs themselves."""

    mean: float
    runs: tuple[float, ...] = ()


@dataclass(frozen=True)
class Timing(Plain):
    """Times of a model; None for what was not measured.

    Attributes:
        train_seconds: of one training run: steps times the median step, timed by turns after the trainings, as if it
            had been alone.
        tokens_per_second: real target tokens trained on in a second.
        predict_ms: milliseconds for one input alone (median).
        predict_batch_ms: milliseconds an input when the whole test set is decoded in batches.
    """

    train_seconds: MeanOverRuns | None = None
    tokens_per_second: MeanOverRuns | None = None
    predict_ms: MeanOverRuns | None = None
    predict_batch_ms: MeanOverRuns | None = None


@dataclass(frozen=True)
class Cost(Plain):
    """Cost of a model besides time, measured on its first run; None for what was not measured.

    Attributes:
        training_flops: floating-point operations of one training run, a multiplication and an addition counted as two.
        training_flops_per_token: the same for each real target token.
        decoding_flops_per_token: of greedy decoding.
        training_bytes: largest memory of one training step, beyond weights and optimizer state.
        weights_bytes: size of the weights on disk.
        run_bytes: size of the whole run on disk.
    """

    training_flops: float | None = None
    training_flops_per_token: float | None = None
    decoding_flops_per_token: float | None = None
    training_bytes: int | None = None
    weights_bytes: int | None = None
    run_bytes: int | None = None


@dataclass(frozen=True)
class TuningTrial(Plain):
    """One tuning trial: a training with some settings and one tuning seed.

    Attributes:
        settings: what was tried, by name.
        seed: of the training, which no confirming run has.
        valid: headline metric on validation items; None where the training diverged.
        seconds: of training.
        chosen: whether the model was trained with these settings; true of all trials that have them.
        loss: lowest on validation items, nats a token; None if unknown.
        budget: share of the training; None for the largest.
        tuning: number of the tuning that it belongs to, from 0.
        examples: read until it reached the target of the comparison; None where it did not, or there is no target.
    """

    settings: Mapping[str, object]
    seed: int
    valid: float | None = None
    seconds: float | None = None
    chosen: bool = False
    loss: float | None = None
    budget: Share | None = None
    tuning: Annotated[int, Ge(0)] = 0
    examples: int | None = None


@dataclass(frozen=True)
class Tuning(Plain):
    """How the models were tuned.

    Attributes:
        trials: of each tuning.
        tunings: independent ones of each model; with several, they are the units of the statistics.
        seed: first seed of the trials; it also draws their settings.
        space: what was tried of each setting, by model.
    """

    trials: Annotated[int, Ge(1)]
    tunings: Annotated[int, Ge(1)]
    seed: int
    space: Mapping[str, Mapping[str, str]]

    @property
    def is_common(self) -> bool:
        """Whether all models had the same space."""
        return len({tuple(sorted(axes.items())) for axes in self.space.values()}) <= 1


@dataclass(frozen=True)
class Model(Plain):
    """One model of the comparison with everything measured about it.

    Attributes:
        attention: whether the decoder attends to encoder states (a model without attention has no maps).
        parameters_body: parameters without a vocabulary axis: neither embeddings nor an untied output matrix.
        trials: of its tuning: every setting with every tuning seed; empty where settings were given.
        failed: seeds whose training failed: it diverged, or learned nothing, so that its outputs fit their own items no
            better than others. They count in every mean; a training that diverged scores zero.
        tunings: for each run the number of its tuning, where tunings are the units of the statistics; else empty.
        cut_off: test outputs of all runs that were cut off at the longest length allowed; None where not counted.
        preset: that it is based on; empty where not told.
        changes: settings in which it is not as its preset, by dotted name; widths are left out where models were sized.
    """

    name: Annotated[str, MinLen(1)]
    attention: bool
    parameters: Annotated[int, Ge(0)]
    seeds: Annotated[tuple[int, ...], MinLen(1)]
    metrics: Mapping[str, Estimate]
    summary: str = ""
    source: str = ""
    parameters_non_embedding: int | None = None
    parameters_body: int | None = None
    timing: Timing = field(default_factory=Timing)
    cost: Cost = field(default_factory=Cost)
    alignment: ModelAlignment | None = None
    agreement: Agreement | None = None
    heads: HeadScores | None = None
    trials: tuple[TuningTrial, ...] = ()
    curves: tuple[Curve, ...] = ()
    config: Mapping[str, object] = field(default_factory=dict)
    run_dirs: tuple[str, ...] = ()
    failed: tuple[int, ...] = ()
    tunings: tuple[int, ...] = ()
    cut_off: int | None = None
    preset: str = ""
    changes: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_changed(self) -> bool:
        """Whether it is another model than its name says: of another preset, or with other settings."""
        return bool(self.changes) or self.preset not in ("", self.name)


@dataclass(frozen=True)
class Difference(Plain):
    """A test item on which the models' outputs differ."""

    source: str
    target: str
    format: str = ""
    predictions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Matching(Plain):
    """The quantity that the models were matched in.

    Attributes:
        budget: what is equal: `parameters` (outside embeddings), `body` (those without any axis over the vocabulary),
            or `flops`; `none` if they were not matched.
        target: value of the budget; None if they were not matched.
        counts: value for each model.
        limit: largest difference of matched models, as a share of the smallest.
        allowed_apart: whether the user allowed a larger difference.
    """

    budget: Literal["parameters", "body", "flops", "none"] = "none"
    target: float | None = None
    counts: Mapping[str, float] = field(default_factory=dict)
    limit: float = 0.02
    allowed_apart: bool = False


UNMATCHED = Matching()
BODIES_APART = 1.0  # matched by all parameters outside embeddings, bodies still have to be within a factor of two


@dataclass(frozen=True)
class Record(Plain):
    """A whole comparison; the report is a pure function of it.

    Attributes:
        created: ISO 8601 date and time with offset, at which the comparison ended.
        command: command line that repeats the comparison.
        settings: what all models share, flat name to value.
        test_items: number of unseen items each model was tested on.
        pairs: every two models, each pair once, for the headline metric and perhaps others.
        gates: results of all gates.
        subject: what is asked, in the words of the task.
        units: how metrics beside the headline are shown, by name; one that is not listed is shown as it is.
        signatures: how metrics beside the headline were computed, by name.
        budgets: results at several budgets; None with a single budget.
        margin: smallest difference worth having, in points (percentage points of a share); None if not stated.
        tuning: how the models were tuned; None without tuning.
        plan: departures from the plan, the ledger, and what is known of plans of runs that were put together.
        outputs_sha256: of the archive of all outputs beside the report, uncompressed; empty without it.
        demo: whether the page on which the models answer, `demo.html`, lies beside the report.
        trained: whether selfattn trained the models. False where files of outputs were judged: then nothing is known of
            sizes (`parameters` is 0), training and plan, and the seeds are the numbers of a model's files.
        target: what models read until they reached a target; None where all were trained equally long.
        carried: whether its runs are gone, so that curves, costs, attention, gates of models and the check of the plan
            are carried over from an older record; its figures are computed anew from the outputs.
        ngrams: for pairs of models whose outputs were judged, the runs of words that tell them apart.
    """

    schema: int
    task: str
    created: str
    command: str
    environment: Mapping[str, str | int | float | None]
    settings: Mapping[str, object]
    test_items: Annotated[int, Ge(1)]
    models: Annotated[tuple[Model, ...], MinLen(1)]
    headline: Headline = field(default_factory=Headline)
    interval: IntervalMethod | None = None
    pairs: tuple[PairTest, ...] = ()
    gates: tuple[Gate, ...] = ()
    matching: Matching = UNMATCHED
    buckets: tuple[BucketGroup, ...] = ()
    attention: Attention = field(default_factory=Attention)
    differences: tuple[Difference, ...] = ()
    subject: Subject = NO_SUBJECT
    units: Mapping[str, Unit] = field(default_factory=dict)
    signatures: Mapping[str, str] = field(default_factory=dict)
    outputs_sha256: str = ""
    demo: bool = False
    budgets: Budgets | None = None
    plan: PlanCheck | None = None
    margin: Annotated[float, Gt(0)] | None = None
    trained: bool = True
    carried: bool = False
    ngrams: tuple[NgramGroup, ...] = ()
    tuning: Tuning | None = None
    target: Target | None = None

    @property
    def seal(self) -> Seal | None:
        """The plan that was sealed before the first training; None without."""
        return self.plan.seal if self.plan else None

    @property
    def seeds(self) -> list[int]:
        """Seeds of all models, each once, rising."""
        return sorted(set(chain.from_iterable(model.seeds for model in self.models)))


_ADVICE = "the fields are listed in docs/results-json.md"


def read_record(path: str | Path) -> Record:
    """Read a `results.json`.

    Args:
        path: the file.

    Returns:
        The checked record.

    Raises:
        UserError: the file is missing, is not JSON, or a field is missing, unknown or of another type; a model has no
            score, two models have no test, or a name is used twice or belongs to nobody.
    """
    data = codec.read_json(Path(path), advice="give the results.json of a comparison")
    return record_from_dict(data, str(path))


def record_from_dict(data: object, file: str = "results.json") -> Record:
    """Check a JSON object against the schema; `selfattn.codec.encode` is the inverse.

    Args:
        data: what `json.load` gives.
        file: the name to use in messages.

    Returns:
        The record.

    Raises:
        UserError: naming the file and the field.

    Example:
        >>> record_from_dict({"schema": 3})
        Traceback (most recent call last):
        ...
        selfattn.errors.UserError: results.json: task: is missing; the fields are listed in docs/results-json.md
    """
    codec.refuse_newer(data, SCHEMA, file=file)
    if isinstance(data, dict) and data.get("schema", SCHEMA) != SCHEMA:
        problem = f"schema: found {data['schema']!r}, and this version reads {SCHEMA} only"
        raise UserError(f"{file}: {problem}; make it again: `selfattn report COMPARISON --out DIR`")
    record = codec.decode(Record, data, file=file, advice=_ADVICE)
    for where, problem in _contradictions(record):
        raise UserError(f"{file}: {where}: {problem}; {_ADVICE}")
    return record


def _contradictions(record: Record) -> Iterator[tuple[str, str]]:
    """Yield where fields that each have their type contradict each other, and how."""
    names = [model.name for model in record.models]
    metric = record.headline.metric
    if len(set(names)) < len(names):
        yield "models", "a name stands twice"
    for k, model in enumerate(record.models):
        if metric not in model.metrics:
            yield f"models[{k}].metrics", f"{metric} is missing, which the verdict is about"
    tested = [{test.first, test.second} for test in record.pairs if test.metric == metric]
    if record.target is not None:
        tested = [{test.first, test.second} for test in record.target.pairs]
        if set(record.target.models) != set(names):
            yield "target.models", f"expected {', '.join(names)}"
    for first, second in combinations(names, 2):
        if {first, second} not in tested:
            yield "pairs", f"a test of {first} and {second} in {metric} is missing"
    named = [("gates", gate.model) for gate in record.gates if gate.model]
    for test in record.pairs:
        named += [("pairs", test.first), ("pairs", test.second)]
    for where, name in named:
        if name not in names:
            yield where, f"{name!r} is not the name of a model of this record"


@dataclass(frozen=True)
class Recomputation:
    """A figure of a record, or the outputs of a run, beside what was computed again.

    Attributes:
        name: path in the record, or name of the run.
        differences: what differs; empty where all values agree.
        values: number of values that were compared.
    """

    name: str
    differences: tuple[str, ...]
    values: int

    @property
    def line(self) -> str:
        """The finding as a line."""
        if not self.differences:
            return f"agrees   {self.name}"
        more = f" and {len(self.differences) - 1} more" if len(self.differences) > 1 else ""
        return f"DIFFERS  {self.name}: {self.differences[0]}{more}"
