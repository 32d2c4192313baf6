"""The record of a comparison: exactly the fields of `results.json` (docs/results-json.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from annotated_types import Ge, Gt, MinLen

from selfattn.codec import Plain
from selfattn.results.attention import Agreement, Attention, ModelAlignment
from selfattn.results.cost import Cost, Timing
from selfattn.results.gates import Gate
from selfattn.results.pairs import PairTest
from selfattn.results.protocol import Budgets, Protocol
from selfattn.results.quality import BucketGroup, Curve, Estimate, Headline, IntervalMethod, Share, Unit

SCHEMA = 2


@dataclass(frozen=True)
class TuningTrial(Plain):
    """One trial of the search for settings: what was tried, and the headline metric on validation items.

    Args:
        loss: the lowest on validation items, nats a token; None in a record of before it was kept.
        budget: with which it was made, a share of the training; None for the largest.
    """

    settings: Mapping[str, object]
    valid: float
    seconds: float | None = None
    chosen: bool = False
    loss: float | None = None
    budget: Share | None = None


@dataclass(frozen=True)
class Model(Plain):
    """One model of the comparison with everything measured about it.

    Args:
        attention: whether decoder states ask the encoder states (a model without it has no maps to show).
        parameters_body: those without any axis over the vocabulary, neither embeddings nor an untied output matrix.
        failed: the seeds whose training diverged: these runs count as answering nothing.
        not_measured: why a figure is missing, by its name (for example `predict_ms`).
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
    tuning: tuple[TuningTrial, ...] = ()
    curves: tuple[Curve, ...] = ()
    config: Mapping[str, object] = field(default_factory=dict)
    run_dirs: tuple[str, ...] = ()
    not_measured: Mapping[str, str] = field(default_factory=dict)
    failed: tuple[int, ...] = ()


@dataclass(frozen=True)
class Difference(Plain):
    """A test item on which the models do not all say the same."""

    source: str
    target: str
    format: str = ""
    predictions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Matching(Plain):
    """What the models were sized for.

    Args:
        budget: what is equal: `parameters` (outside embeddings), `body` (those without any axis over the vocabulary),
            or `flops`; `none` where nothing was solved for.
        target: the budget itself; None where nothing was solved for.
        counts: what each model has of it.
        limit: how far apart models may be and be called matched, as a share of the smallest.
        allowed_apart: whether the user asked for a comparison in spite of a larger distance.
    """

    budget: Literal["parameters", "body", "flops", "none"] = "none"
    target: float | None = None
    counts: Mapping[str, float] = field(default_factory=dict)
    limit: float = 0.02
    allowed_apart: bool = False


UNMATCHED = Matching()
BODIES_APART = 1.0  # matched by all parameters outside embeddings, bodies still have to be within a factor of two


@dataclass(frozen=True)
class Subject(Plain):
    """What a comparison asks, as its task says it.

    Args:
        pair: names of the two models that the question is about, in its order; None where it is about all.
        words: by language, the task's own texts by message key, which override the report's: the question
            (`question.pair.same`, `question.pair`, `question.pair.any`, `question.many`, `question.one`), what its
            items are called (`items`), and names of its metrics, buckets and gates (`metric.NAME`, `bucket.NAME`,
            `gate.NAME`).
    """

    pair: tuple[str, str] | None = None
    words: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


NO_SUBJECT = Subject()


@dataclass(frozen=True)
class Record(Plain):
    """A whole comparison; the report is a pure function of it.

    Args:
        created: ISO 8601 date and time with offset, at which the comparison ended.
        command: the command line that makes the same again.
        settings: what all models share, flat name to value.
        test_items: number of unseen items each model was tested on.
        pairs: every two models, each pair once, for the headline metric and perhaps others.
        gates: all that were asked; the verdict is "not comparable" where one did not pass.
        subject: what is asked, in the words of the task.
        units: how metrics beside the headline are shown, by name; one that is not listed is shown as it is.
        budgets: what complete trainings of several budgets reach; None where there is one.
        margin: the smallest difference worth having, in points (percentage points of a share); None where not stated.
        protocol: how far all was done as planned; None where there was no plan before training.
        demo: whether the page on which the models answer, `demo.html`, lies beside the report.
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
    demo: bool = False
    budgets: Budgets | None = None
    protocol: Protocol | None = None
    margin: Annotated[float, Gt(0)] | None = None

    @property
    def times(self) -> str:
        """Of what kind times are: `undisturbed`, taken by turns and alone, or those of the wall `clock`."""
        return "undisturbed" if "training_time" in self.settings else "clock"
