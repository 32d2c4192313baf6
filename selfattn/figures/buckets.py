"""Quality on parts of the test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from selfattn.figures.quality import Estimate, Kind


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
