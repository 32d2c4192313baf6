"""Quality on parts of the test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from selfattn.codec import Plain
from selfattn.figures.quality import Better, Estimate, Unit


@dataclass(frozen=True)
class Bucket(Plain):
    """A part of the test items: how many there are, and each model's quality on them (of the group's metric)."""

    name: str
    items: int
    models: Mapping[str, Estimate] = field(default_factory=dict)


@dataclass(frozen=True)
class BucketGroup(Plain):
    """One way to divide the test items.

    Args:
        name: `format`, `length`, `field`, `years`, `unseen formats`, `few examples`, `rare words`, ...
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
