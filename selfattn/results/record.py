"""The record of a comparison: exactly the fields of `results.json` (docs/results-json.md); how it is read.

An error of reading is one line that names the file and the field.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, combinations
from pathlib import Path
from typing import Annotated, Literal, Self

from annotated_types import Ge, Gt, MinLen

from selfattn.codec import Plain, decode, read_json, refuse_newer
from selfattn.data.pairs import Span
from selfattn.errors import UserError
from selfattn.results import quality
from selfattn.results.plan import Budgets, PlanCheck, Seal
from selfattn.results.subject import NO_SUBJECT, Subject

SCHEMA = 3
Kind = Literal["cross", "blocking", "gradient", "encoder", "decoder"]


@dataclass(frozen=True)
class AttentionMap(Plain):
    """The weights of one head: [t][s] for `cross`, [s][s] for `encoder`, [t][t] for `decoder`.

    Beside them, as layer 0 and head 0, what the output depends on, [t][s]: by `blocking` each source token (how far the
    step's distribution moves, as total variation), and by `gradient` times input (shares of a row).

    Row k of a `cross` or `decoder` map belongs to the step that predicts target token k. The columns of a `decoder` map
    are what the decoder has read: the beginning-of-sequence token, then the target without its last token. Weights of
    the delta rule may be negative or above 1.
    """

    kind: Kind
    layer: int
    head: int
    weights: tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class ModelAttention(Plain):
    """One model on one example: what it predicted and its maps; tokens stand in the order of the text."""

    prediction: str
    source_tokens: tuple[str, ...]
    target_tokens: tuple[str, ...]
    maps: tuple[AttentionMap, ...]


@dataclass(frozen=True)
class ShownAttention(Plain):
    """One model's attention on the test item at a place, counted from 0."""

    place: int
    model: ModelAttention


@dataclass(frozen=True)
class AttentionExample(Plain):
    """One example whose attention is shown, with its gold alignment where that is known by construction."""

    source: str
    target: str
    format: str = ""
    gold: tuple[Span, ...] = ()
    models: Mapping[str, ModelAttention] = field(default_factory=dict)


@dataclass(frozen=True)
class Attention(Plain):
    """All examples whose attention is shown."""

    examples: tuple[AttentionExample, ...] = ()


@dataclass(frozen=True)
class HeadAlignment(Plain):
    """How the attention of one head, or the mean of a layer's heads, agrees with gold spans or links.

    Attributes:
        layer: counted from 0.
        head: counted from 0; None for the mean of the layer's heads.
        gold_share: share of the attention on the gold source tokens, by the step that writes a token.
        aer: alignment error rate of each token's most attended source token; lower is better.
        shifted_gold_share: the same by the step that reads the token.
        shifted_aer: error rate by the step that reads the token.
        entropy: nats.
        entropy_share: of the largest possible.
        eos_share: attention on the source's end of sentence.
    """

    layer: int
    head: int | None = None
    gold_share: float | None = None
    aer: quality.Share | None = None
    shifted_gold_share: float | None = None
    shifted_aer: quality.Share | None = None
    entropy: float | None = None
    entropy_share: float | None = None
    eos_share: float | None = None


@dataclass(frozen=True)
class ModelAlignment(Plain):
    """A model's attention against gold, on the test items, of its run with the first seed.

    Attributes:
        heads: every head of every layer.
        means: the mean of the heads of each layer.
        best: the row among `heads` that was best on validation items in the step that writes a token: [layer, head].
        best_shifted: the same in the step that reads it.
        diagonal_aer: alignment error rate of links along the diagonal, which ask no model.
    """

    heads: tuple[HeadAlignment, ...]
    means: tuple[HeadAlignment, ...]
    best: tuple[int, int] | None = None
    diagonal_aer: quality.Share | None = None
    best_shifted: tuple[int, int] | None = None


@dataclass(frozen=True)
class Agreement(Plain):
    """How far attention agrees with what the output depends on, on test items, of the run with the first seed.

    Rank correlations over the source tokens (Kendall's tau-b, -1 to 1), mean over the tokens of an output, then items.

    Attributes:
        items: test items.
        blocking: attention, mean over heads and layers, with what changes when a source token is blocked.
        gradient: attention with gradient times input.
        between: the two with each other.
    """

    items: int
    blocking: quality.Estimate | None = None
    gradient: quality.Estimate | None = None
    between: quality.Estimate | None = None


@dataclass(frozen=True)
class HeadScore(Plain):
    """Score of a run without one head.

    Attributes:
        layer: name of the attention layer.
        head: counted from 0.
        score: without the head.
        difference: from the score of the unchanged run.
        p: of the paired test, two-sided, corrected for the number of heads (Holm 1979).
    """

    layer: str
    head: int
    score: float
    difference: float
    p: float


@dataclass(frozen=True)
class HeadScores(Plain):
    """Scores of a run without each of its heads.

    Attributes:
        metric: name of the metric.
        unit: of the score.
        signature: of the metric and its test; empty where nothing is left open.
        items: number of pairs.
        score: of the unchanged run.
        to: what stands in the place of a head: ``zero``, ``mean`` or ``uniform`` weights.
        heads: in the order of the model.
    """

    metric: str
    unit: quality.Unit
    signature: str
    items: int
    score: float
    to: str
    heads: tuple[HeadScore, ...]

    def changes(self) -> tuple[tuple[str, ...], tuple[str, ...], tuple[tuple[float, ...], ...]]:
        """Return the layers, the heads, and for each layer the share of the score by which it changes without each."""
        count = 1 + max(head.head for head in self.heads)
        rows = {head.layer: [0.0] * count for head in self.heads}
        for head in self.heads:
            share = abs(head.difference) / self.score if self.score else 0.0
            rows[head.layer][head.head] = min(1.0, share)
        return tuple(rows), tuple(map(str, range(count))), tuple(map(tuple, rows.values()))


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
    budget: quality.Share | None = None
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
    metrics: Mapping[str, quality.Estimate]
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
    curves: tuple[quality.Curve, ...] = ()
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
    counts: Mapping[str, Annotated[float, Gt(0)]] = field(default_factory=dict)
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
    headline: quality.Headline = field(default_factory=quality.Headline)
    interval: quality.IntervalMethod | None = None
    pairs: tuple[quality.PairTest, ...] = ()
    gates: tuple[Gate, ...] = ()
    matching: Matching = UNMATCHED
    buckets: tuple[quality.BucketGroup, ...] = ()
    attention: Attention = field(default_factory=Attention)
    differences: tuple[Difference, ...] = ()
    subject: Subject = NO_SUBJECT
    units: Mapping[str, quality.Unit] = field(default_factory=dict)
    signatures: Mapping[str, str] = field(default_factory=dict)
    outputs_sha256: str = ""
    demo: bool = False
    budgets: Budgets | None = None
    plan: PlanCheck | None = None
    margin: Annotated[float, Gt(0)] | None = None
    trained: bool = True
    carried: bool = False
    ngrams: tuple[quality.NgramGroup, ...] = ()
    tuning: Tuning | None = None
    target: quality.Target | None = None

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
    data = read_json(Path(path), advice="give the results.json of a comparison")
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
    refuse_newer(data, SCHEMA, file=file)
    if isinstance(data, dict) and data.get("schema", SCHEMA) != SCHEMA:
        problem = f"schema: found {data['schema']!r}, and this version reads {SCHEMA} only"
        raise UserError(f"{file}: {problem}; make it again: `selfattn report COMPARISON --out DIR`")
    record = decode(Record, data, file=file, advice=_ADVICE)
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
