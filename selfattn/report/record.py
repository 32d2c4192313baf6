"""The record of a comparison as frozen dataclasses: exactly the fields of `results.json` (docs/results-json.md).

The types here are the schema: `selfattn.report.reading` walks them to check a JSON object. `None` and empty tuples or
mappings stand for what was not measured. Shapes are written with `s` source tokens and `t` target tokens.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from selfattn.data.pairs import Span

SCHEMA = 2

Kind = Literal["share", "points"]  # 0 to 1, shown in percent; 0 to 100, shown as they are
Word = Literal["better", "worse", "no difference seen", "too few seeds to tell"]


@dataclass(frozen=True)
class Estimate:
    """A measured quality with its interval.

    Args:
        mean: mean over runs.
        low: lower end of the interval; None when no interval was computed.
        high: upper end of the interval; None when no interval was computed.
        runs: one value a seed, in the order of the model's `seeds`.
    """

    mean: float
    low: float | None = None
    high: float | None = None
    runs: tuple[float, ...] = ()


@dataclass(frozen=True)
class Measure:
    """A measured cost: the mean over runs and the runs themselves."""

    mean: float
    runs: tuple[float, ...] = ()


@dataclass(frozen=True)
class Timing:
    """What a model costs in time: seconds, target tokens a second, milliseconds; None for what was not measured.

    Args:
        train_seconds: wall seconds of one training run.
        tokens_per_second: real target tokens trained on in a second.
        predict_ms: milliseconds for one input alone (median).
        predict_batch_ms: milliseconds an input when the whole test set is decoded in batches.
    """

    train_seconds: Measure | None = None
    tokens_per_second: Measure | None = None
    predict_ms: Measure | None = None
    predict_batch_ms: Measure | None = None


@dataclass(frozen=True)
class DecodingCost:
    """Time to decode, by length: one row of the table of decoding costs.

    Args:
        method: such as `greedy` or `beam 5`.
        batch: inputs decoded together.
        length: tokens written for each input.
        first_ms: milliseconds until the first token, the encoder's work included.
        token_ms: milliseconds for each further token.
    """

    method: str
    batch: int
    length: int
    first_ms: float
    token_ms: float


@dataclass(frozen=True)
class Cost:
    """What a model costs besides time, measured on its first run; None for what was not measured.

    Args:
        training_flops: floating-point operations of one training run, a multiplication and an addition counted as two.
        training_flops_per_token: the same for each real target token.
        decoding_flops_per_token: of greedy decoding.
        peak_share: training FLOP a second as a share of the machine's measured peak.
        training_bytes: largest memory of one training step, beyond weights and optimizer state.
        weights_bytes: size of the weights on disk.
        run_bytes: size of the whole run on disk.
        decoding: times by method, batch and length.
    """

    training_flops: float | None = None
    training_flops_per_token: float | None = None
    decoding_flops_per_token: float | None = None
    peak_share: float | None = None
    training_bytes: int | None = None
    weights_bytes: int | None = None
    run_bytes: int | None = None
    decoding: tuple[DecodingCost, ...] = ()


@dataclass(frozen=True)
class Point:
    """One validation during training; losses are nats a token, `tokens` are target tokens seen so far.

    Args:
        flops: floating-point operations of training so far.
        valid: the headline metric on the validation items.
    """

    epoch: float
    step: int
    tokens: int | None = None
    seconds: float | None = None
    flops: float | None = None
    train_loss: float | None = None
    valid_loss: float | None = None
    valid: float | None = None


@dataclass(frozen=True)
class Curve:
    """The learning curve of one run."""

    seed: int
    points: tuple[Point, ...] = ()


@dataclass(frozen=True)
class TuningTrial:
    """One trial of the search for settings: what was tried, and the headline metric on validation items."""

    settings: Mapping[str, object]
    valid: float
    seconds: float | None = None
    chosen: bool = False


@dataclass(frozen=True)
class HeadAlignment:
    """How the attention of one head, or the mean of a layer's heads, lies against gold spans or links.

    Args:
        layer: counted from 0.
        head: counted from 0; None for the mean of the layer's heads.
        gold_share: share of the attention on the gold source tokens, by the step that writes a token.
        aer: alignment error rate of each token's most attended source token; lower is better.
        shifted_gold_share: the same by the step that reads the token.
        shifted_aer: likewise.
        entropy: nats.
        entropy_share: of the largest possible.
        eos_share: attention on the source's end of sentence.
    """

    layer: int
    head: int | None = None
    gold_share: float | None = None
    aer: float | None = None
    shifted_gold_share: float | None = None
    shifted_aer: float | None = None
    entropy: float | None = None
    entropy_share: float | None = None
    eos_share: float | None = None


@dataclass(frozen=True)
class ModelAlignment:
    """A model's attention against gold, on the test items, of its run with the first seed.

    Args:
        heads: every head of every layer.
        means: the mean of the heads of each layer.
        best: the row among `heads` that was best on validation items: [layer, head].
        diagonal_aer: alignment error rate of links along the diagonal, which ask no model.
    """

    heads: tuple[HeadAlignment, ...]
    means: tuple[HeadAlignment, ...]
    best: tuple[int, int] | None = None
    diagonal_aer: float | None = None


@dataclass(frozen=True)
class Model:
    """One model of the comparison with everything measured about it.

    Args:
        attention: whether decoder states ask the encoder states (a model without it has no maps to show).
        not_measured: why a figure is missing, by its name (for example `predict_ms`).
    """

    name: str
    attention: bool
    parameters: int
    seeds: tuple[int, ...]
    metrics: Mapping[str, Estimate]
    summary: str = ""
    source: str = ""
    parameters_non_embedding: int | None = None
    timing: Timing = Timing()
    cost: Cost = Cost()
    alignment: ModelAlignment | None = None
    tuning: tuple[TuningTrial, ...] = ()
    curves: tuple[Curve, ...] = ()
    config: Mapping[str, object] = field(default_factory=dict)
    run_dirs: tuple[str, ...] = ()
    not_measured: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class AttentionMap:
    """The weights of one head: [t][s] for `cross`, [s][s] for `encoder`, [t][t] for `decoder`.

    Row k of a `cross` or `decoder` map belongs to the step that predicts target token k. The columns of a `decoder` map
    are what the decoder has read: the beginning-of-sequence token, then the target without its last token.
    """

    kind: Literal["cross", "encoder", "decoder"]
    layer: int
    head: int
    weights: tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class ModelAttention:
    """One model on one example: what it predicted and its maps; tokens stand in the order of the text."""

    prediction: str
    source_tokens: tuple[str, ...]
    target_tokens: tuple[str, ...]
    maps: tuple[AttentionMap, ...]


@dataclass(frozen=True)
class AttentionExample:
    """One example whose attention is shown, with its gold alignment where that is known by construction."""

    source: str
    target: str
    format: str = ""
    gold: tuple[Span, ...] = ()
    models: Mapping[str, ModelAttention] = field(default_factory=dict)


@dataclass(frozen=True)
class Attention:
    """All examples whose attention is shown."""

    examples: tuple[AttentionExample, ...] = ()


@dataclass(frozen=True)
class Difference:
    """A test item on which the models do not all say the same."""

    source: str
    target: str
    format: str = ""
    predictions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Headline:
    """The metric that the verdict is about.

    Args:
        metric: its name among the metrics of every model, such as `exact_match` or `bleu`.
        kind: `share` (0 to 1, shown in percent) or `points` (0 to 100, shown as they are).
        signature: how it was computed, such as sacreBLEU's signature; empty where nothing is left open.
    """

    metric: str = "exact_match"
    kind: Kind = "share"
    signature: str = ""


@dataclass(frozen=True)
class PairTest:
    """Two models set against each other on one metric.

    Args:
        first: name of a model.
        second: name of another.
        metric: what is compared.
        difference: first minus second.
        low: lower end of the 95 % interval of the difference.
        high: upper end.
        p: of the test, before the correction.
        p_holm: corrected for all pairs of this metric.
        word: what may be said of the first.
    """

    first: str
    second: str
    metric: str
    difference: float
    low: float
    high: float
    p: float
    p_holm: float
    word: Word


@dataclass(frozen=True)
class GateResult:
    """What a sanity gate found.

    Args:
        name: of the gate.
        passed: whether it keeps to its limit.
        reason: the finding in one sentence, with its figures.
        model: whose it is; empty where it is about the data or about all models together.
        seed: of the run that was looked at; None where it is about no run.
        value: what was measured; None where that is not finite.
        limit: what it was held against.
    """

    name: str
    passed: bool
    reason: str
    model: str = ""
    seed: int | None = None
    value: float | None = None
    limit: float | None = None


@dataclass(frozen=True)
class Bucket:
    """A part of the test items: how many there are, and each model's quality on them (of the group's metric)."""

    name: str
    items: int
    models: Mapping[str, Estimate] = field(default_factory=dict)


@dataclass(frozen=True)
class BucketGroup:
    """One way to divide the test items.

    Args:
        name: `format`, `length`, `field`, `years`, `unseen formats`, `few examples`, `rare words`, ...
        buckets: in the order to show them.
        metric: what is measured, by default the share that is exactly right.
        kind: see `Headline`.
        note: how items come into these buckets, in one sentence.
    """

    name: str
    buckets: tuple[Bucket, ...]
    metric: str = "exact_match"
    kind: Kind = "share"
    note: str = ""


@dataclass(frozen=True)
class Matching:
    """What the models were sized for.

    Args:
        budget: what is equal: `parameters`, `flops` or `seconds`; `none` where nothing was solved for.
        target: the budget itself; None where nothing was solved for.
        counts: what each model has of it.
        limit: how far apart models may be and be called matched, as a share of the smallest.
        allowed_apart: whether the user asked for a comparison in spite of a larger distance.
    """

    budget: Literal["parameters", "flops", "seconds", "none"] = "none"
    target: float | None = None
    counts: Mapping[str, float] = field(default_factory=dict)
    limit: float = 0.02
    allowed_apart: bool = False


UNMATCHED = Matching()


@dataclass(frozen=True)
class Interval:
    """What the intervals of a record are: level (0.95), name of the method ("Wilson score"), what they are about."""

    level: float
    method: str
    over: Literal["items", "seeds and items"]


@dataclass(frozen=True)
class Record:
    """A whole comparison; the report is a pure function of it.

    Args:
        created: ISO 8601 date and time with offset, at which the comparison ended.
        command: the command line that makes the same again.
        settings: what all models share, flat name to value.
        test_items: number of unseen items each model was tested on.
        pairs: every two models, each pair once, for the headline metric and perhaps others.
        gates: all that were asked; the verdict is "not comparable" where one did not pass.
    """

    schema: int
    task: str
    created: str
    command: str
    environment: Mapping[str, str | int | float | None]
    settings: Mapping[str, object]
    test_items: int
    models: tuple[Model, ...]
    headline: Headline = Headline()
    interval: Interval | None = None
    pairs: tuple[PairTest, ...] = ()
    gates: tuple[GateResult, ...] = ()
    matching: Matching = UNMATCHED
    buckets: tuple[BucketGroup, ...] = ()
    attention: Attention = Attention()
    differences: tuple[Difference, ...] = ()
