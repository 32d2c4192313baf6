"""Test items in groups of like kind, and how good each model is on each group.

Every item is in one group of a division at most. Letters: `s` seeds, `i` test items, `k` counts an item, `n` corpora.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from selfattn.data.pairs import Pair
from selfattn.evaluation.metrics.evaluate import places_by_tag
from selfattn.evaluation.statistics.comparison import Estimate
from selfattn.evaluation.statistics.resampling import Array
from selfattn.evaluation.statistics.significance import compare_corpus, estimate

Words = Callable[[str], Sequence[str]]


@dataclass(frozen=True)
class Bucket:
    """Some of the test items.

    Attributes:
        name: what they have in common.
        places: where they stand in the test set, ascending.
    """

    name: str
    places: tuple[int, ...]


@dataclass(frozen=True)
class BucketEstimates:
    """How good models are on a bucket.

    Attributes:
        name: of the bucket.
        items: how many test items it has.
        estimates: of each model.
    """

    name: str
    items: int
    estimates: Mapping[str, Estimate]


def by_tag(pairs: Sequence[Pair]) -> list[Bucket]:
    """Divide by tag (the format of a date, the kind of a phrase); pairs without a tag are left out.

    Example:
        >>> by_tag([Pair("a", "b", tag="x"), Pair("c", "d", tag="y"), Pair("e", "f", tag="x")])
        [Bucket(name='x', places=(0, 2)), Bucket(name='y', places=(1,))]
    """
    return [Bucket(tag, tuple(places)) for tag, places in places_by_tag(pairs).items()]


def by_length(
    texts: Sequence[str], *, edges: Sequence[int] | None = None, groups: int = 4, words: Words = list
) -> list[Bucket]:
    """Divide by length.

    Args:
        texts: of the test items, as a rule their sources.
        edges: the first length of each bucket but the first, ascending; default those that give buckets of about the
            same size. Texts of one length are in one bucket, so there may be fewer, and their sizes may differ.
        groups: how many buckets to make without ``edges``; default 4.
        words: what is counted; default characters. ``str.split`` counts what stands between spaces.

    Raises:
        ValueError: edges that do not ascend, or fewer than one group.

    Example:
        >>> [(bucket.name, bucket.places) for bucket in by_length(["a", "abc", "ab", "abcdef"], edges=[2, 4])]
        [('1', (0,)), ('2 to 3', (1, 2)), ('6', (3,))]
    """
    if not texts:
        return []
    lengths = np.array([len(words(text)) for text in texts], dtype=np.int64)
    if edges is None:
        if groups < 1:
            raise ValueError(f"groups must be at least 1, got {groups}")
        ordered = np.sort(lengths)
        edges = sorted({int(ordered[len(ordered) * number // groups]) for number in range(1, groups)})
    elif any(low >= high for low, high in pairwise(edges)):
        raise ValueError(f"edges must ascend, got {list(edges)}")
    numbers = np.searchsorted(np.array(edges, dtype=np.int64), lengths, side="right")
    places = [np.flatnonzero(numbers == number) for number in range(len(edges) + 1)]
    return [
        Bucket(range_name(int(lengths[some].min()), int(lengths[some].max())), tuple(some.tolist()))
        for some in places
        if some.size
    ]


def score_buckets(buckets: Sequence[Bucket], scores: Mapping[str, npt.ArrayLike]) -> list[BucketEstimates]:
    """Estimate each model's score on each bucket, over seeds and the items of the bucket.

    Args:
        buckets: with places in the test set.
        scores: for each model ``[s i]``, see `selfattn.evaluation.statistics.significance.estimate`.

    Example:
        >>> found = score_buckets([Bucket("short", (0, 2))], {"a": [[1, 0, 0], [1, 1, 0]]})
        >>> found[0].items, found[0].estimates["a"].mean
        (2, 0.5)
    """
    arrays = {model: np.asarray(values, dtype=np.float64) for model, values in scores.items()}
    return [
        BucketEstimates(
            bucket.name,
            len(bucket.places),
            {model: estimate(values[:, list(bucket.places)]) for model, values in arrays.items()},
        )
        for bucket in buckets
    ]


def score_buckets_corpus(
    buckets: Sequence[Bucket], statistics: Mapping[str, Array], score: Callable[[Array], Array], *, resamples: int = 500
) -> list[BucketEstimates]:
    """Do what `score_buckets` does for a score that is no average over items, such as BLEU.

    Args:
        buckets: with places in the test set.
        statistics: for each model ``[s i k]``, see `selfattn.evaluation.statistics.significance.compare_corpus`.
        score: from sums ``[n k]`` to scores ``[n]``.
        resamples: how often to draw the items of a bucket again; default 500.

    Example:
        >>> counts = np.array([[[1.0, 2.0], [3.0, 4.0], [0.0, 4.0]]])
        >>> found = score_buckets_corpus([Bucket("x", (0, 2))], {"a": counts}, lambda sums: sums[:, 0] / sums[:, 1])
        >>> round(found[0].estimates["a"].mean, 3)
        0.167
    """
    return [
        BucketEstimates(
            bucket.name,
            len(bucket.places),
            compare_corpus(
                {model: counts[:, list(bucket.places)] for model, counts in statistics.items()},
                score,
                resamples=resamples,
            ).estimates,
        )
        for bucket in buckets
    ]


def range_name(low: int, high: int | None) -> str:
    """Name a range of whole numbers, both ends in it; None is no end.

    Example:
        >>> range_name(0, 0), range_name(1, 5), range_name(6, None)
        ('0', '1 to 5', '6 and more')
    """
    if high is None:
        return f"{low} and more"
    return str(low) if low == high else f"{low} to {high}"
