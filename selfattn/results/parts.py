"""Quality on parts of the test: buckets of items, and runs of words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from selfattn.codec import Plain
from selfattn.results.pair_tests import PairTest
from selfattn.results.quality import Better, Estimate, Share, Unit


@dataclass(frozen=True)
class Bucket(Plain):
    """A part of the test items.

    Attributes:
        name: of the part.
        items: how many there are.
        models: each model's quality on them, of the group's metric.
        pairs: tests of pairs of models on them, of a further test set; empty for other parts.
    """

    name: str
    items: int
    models: Mapping[str, Estimate] = field(default_factory=dict)
    pairs: tuple[PairTest, ...] = ()


@dataclass(frozen=True)
class BucketGroup(Plain):
    """One way to divide the test items.

    Attributes:
        name: `format`, `length`, `field`, `unseen formats`, `rare words`, ...
        buckets: in the order to show them.
        metric: what is measured, by default the share that is exactly right.
        kind: see `Headline`.
        note: how items come into these buckets, in one sentence.
        better: see `Headline`.
    """

    name: str
    buckets: tuple[Bucket, ...]
    metric: str = "exact_match"
    kind: Unit = "share"
    note: str = ""
    better: Better = "higher"


@dataclass(frozen=True)
class Ngram(Plain):
    """A run of words that two models get right unequally often.

    Attributes:
        text: its words, with a space between.
        reference: how often the references have it.
        first: how often the first model has it where the reference has it, mean over runs.
        second: the same of the second.
        score: ``(first + 1) / (first + second + 2)``.
        separated: whether every run of one has it more often than every run of the other.
    """

    text: str
    reference: int
    first: float
    second: float
    score: Share
    separated: bool


@dataclass(frozen=True)
class NgramGroup(Plain):
    """The runs of words that tell two models apart most: those the first gets right more often, then the others."""

    first: str
    second: str
    ngrams: tuple[Ngram, ...]
