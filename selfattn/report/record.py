"""The record of a comparison as frozen dataclasses: exactly the fields of `results.json` (docs/results-json.md).

The types here are the schema: `selfattn.report.reading` walks them to check a JSON object. `None` and empty tuples or
mappings stand for what was not measured. Shapes are written with `s` source tokens and `t` target tokens.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from selfattn.data.pairs import Span

SCHEMA = 1


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
class FormatScore:
    """Quality on the test items of one format: how many there are, and the share that is exactly right."""

    items: int
    exact_match: Estimate


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
class Point:
    """One validation during training; losses are nats a token, `tokens` are target tokens seen so far."""

    epoch: float
    step: int
    tokens: int | None = None
    seconds: float | None = None
    train_loss: float | None = None
    valid_loss: float | None = None
    valid_exact_match: float | None = None


@dataclass(frozen=True)
class Curve:
    """The learning curve of one run."""

    seed: int
    points: tuple[Point, ...] = ()


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
    by_format: Mapping[str, FormatScore] = field(default_factory=dict)
    timing: Timing = Timing()
    curves: tuple[Curve, ...] = ()
    config: Mapping[str, object] = field(default_factory=dict)
    run_dirs: tuple[str, ...] = ()
    not_measured: Mapping[str, str] = field(default_factory=dict)

    @property
    def exact_match(self) -> Estimate | None:
        """Share of test items whose whole output is right; None when it was not measured."""
        return self.metrics.get("exact_match")


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
    """

    schema: int
    task: str
    created: str
    command: str
    environment: Mapping[str, str | int | float | None]
    settings: Mapping[str, object]
    test_items: int
    models: tuple[Model, ...]
    interval: Interval | None = None
    attention: Attention = Attention()
    differences: tuple[Difference, ...] = ()
