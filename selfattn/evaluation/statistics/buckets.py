"""Test items in groups of like kind, and how good each model is on each group."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from selfattn.data.pairs import Pair
from selfattn.evaluation.metrics.exact import WordRecall
from selfattn.evaluation.metrics.metric import Metric
from selfattn.evaluation.statistics.significance import score_counts
from selfattn.results.quality import Bucket

# How often training shows a word: never, hardly, sometimes, often. Both ends belong to the bin.
FREQUENCIES: Sequence[tuple[int, int | None]] = ((0, 0), (1, 5), (6, 50), (51, None))


@dataclass(frozen=True)
class ItemGroup:
    """Some of the test items.

    Attributes:
        name: what they have in common.
        places: their places in the test set, ascending.
    """

    name: str
    places: tuple[int, ...]


def by_tag(pairs: Sequence[Pair]) -> list[ItemGroup]:
    """Group by tag (the format of a date, the kind of a phrase), in alphabetical order; pairs without one are left out.

    Example:
        >>> by_tag([Pair("a", "b", tag="x"), Pair("c", "d", tag="y"), Pair("e", "f", tag="x")])
        [ItemGroup(name='x', places=(0, 2)), ItemGroup(name='y', places=(1,))]
    """
    places: dict[str, list[int]] = {}
    for place, pair in enumerate(pairs):
        if pair.tag:
            places.setdefault(pair.tag, []).append(place)
    return [ItemGroup(tag, tuple(places[tag])) for tag in sorted(places)]


def by_length(
    texts: Sequence[str], *, groups: int = 4, words: Callable[[str], Sequence[str]] = list
) -> list[ItemGroup]:
    """Group by length, into buckets of about the same size.

    Texts of one length are in one bucket, so there may be fewer buckets than requested, and their sizes may differ.

    Args:
        texts: of the test items, as a rule their sources.
        groups: how many buckets to make at most, at least 1; default 4.
        words: what is counted; default characters. ``str.split`` counts what stands between spaces.

    Example:
        >>> [(bucket.name, bucket.places) for bucket in by_length(["a", "abc", "ab", "abcdef"], groups=2)]
        [('1 to 2', (0, 2)), ('3 to 6', (1, 3))]
    """
    if not texts:
        return []
    lengths = np.array([len(words(text)) for text in texts])
    ordered = np.sort(lengths)
    edges = sorted({int(ordered[len(ordered) * number // groups]) for number in range(1, groups)})
    numbers = np.searchsorted(np.array(edges), lengths, side="right")
    buckets = [np.flatnonzero(numbers == number) for number in np.unique(numbers)]
    return [
        ItemGroup(range_name(int(lengths[places].min()), int(lengths[places].max())), tuple(places.tolist()))
        for places in buckets
    ]


def by_training_frequency(references: Sequence[str], training: Mapping[str, int]) -> list[tuple[ItemGroup, WordRecall]]:
    """Group items by how often training has the words of their references; an item may be in several groups.

    Args:
        references: one for each item, at least one.
        training: how often the training's targets have each word.

    Returns:
        For each of `FREQUENCIES` the items that have such a word, and the metric that looks at those words only.

    Example:
        >>> groups = by_training_frequency(["the cow", "a dog"], {"the": 1, "a": 1, "dog": 1})
        >>> [(group.name, group.places) for group, recall in groups]
        [('0', (0,)), ('1 to 5', (0, 1))]
    """
    groups = []
    for low, high in FREQUENCIES:
        recall = WordRecall(training=training, seen=(low, high))
        if places := tuple(np.flatnonzero(recall.counts(references, references)[:, 1]).tolist()):
            groups.append((ItemGroup(range_name(low, high), places), recall))
    return groups


def score_groups(
    groups: Sequence[ItemGroup],
    outputs: Mapping[str, Sequence[Sequence[str]]],
    references: Sequence[str],
    metric: Metric,
    *,
    resamples: int = 500,
    clusters: Sequence[Hashable] | None = None,
) -> tuple[Bucket, ...]:
    """Estimate each model's score on each group, over seeds and the items of the group.

    Args:
        groups: with places among the test items.
        outputs: for each model the outputs of each of its runs.
        references: one for each test item.
        metric: any.
        resamples: how often to draw the items of a group again, where the score is no mean; default 500.
        clusters: a label for each test item, shared by those that repeat one another; default none do.

    Raises:
        ValueError: not as many outputs as references.

    Example:
        >>> from selfattn.evaluation.metrics.metric import make_metric
        >>> outputs = {"a": [["x", "-", "-"], ["x", "y", "-"]]}
        >>> (bucket,) = score_groups([ItemGroup("short", (0, 2))], outputs, ["x", "y", "z"], make_metric("exact_match"))
        >>> bucket.items, bucket.models["a"].mean
        (2, 0.5)
    """
    counts = metric.count_runs(outputs, references)
    buckets = []
    for group in groups:
        chosen = {model: values[:, list(group.places)] for model, values in counts.items()}
        labels = None if clusters is None else [clusters[place] for place in group.places]
        scores = score_counts(chosen, metric, resamples=resamples, clusters=labels)
        buckets.append(Bucket(group.name, len(group.places), scores.estimates()))
    return tuple(buckets)


def range_name(low: int, high: int | None) -> str:
    """Name a range of whole numbers, both ends included; None is no end.

    Example:
        >>> range_name(0, 0), range_name(1, 5), range_name(6, None)
        ('0', '1 to 5', '6 and more')
    """
    if high is None:
        return f"{low} and more"
    return str(low) if low == high else f"{low} to {high}"
