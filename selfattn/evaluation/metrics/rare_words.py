"""Words by how often the training has them: which of the rare ones the outputs have."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from selfattn.evaluation.statistics.buckets import BucketEstimates, Words, range_name
from selfattn.evaluation.statistics.resampling import Array
from selfattn.evaluation.statistics.significance import compare_corpus

Bins = Sequence[tuple[int, int | None]]

# How often the training has a word: never, hardly, now and then, often. Both ends belong to the bin.
FREQUENCIES: Bins = ((0, 0), (1, 5), (6, 50), (51, None))


def score_rare_words(
    outputs: Mapping[str, Sequence[Sequence[str]]],
    references: Sequence[str],
    training: Mapping[str, int],
    *,
    bins: Bins = FREQUENCIES,
    words: Words | None = None,
) -> list[BucketEstimates]:
    r"""Estimate the share of the references' words that the outputs have, by how often the training has the word.

    .. math:: \frac{\sum_i \sum_{w \in B} \min(h_i(w), r_i(w))}{\sum_i \sum_{w \in B} r_i(w)}

    with :math:`h_i(w)` and :math:`r_i(w)` how often word w stands in the output and the reference of item i, and B the
    words of a bin: BLEU's clipped counts, divided by the reference. Where a word stands does not matter.

    Args:
        outputs: for each model the outputs of each of its runs.
        references: one for each item.
        training: how often the training's targets have each word, from `count_words`.
        bins: least and largest count of each bucket; default `FREQUENCIES`.
        words: cuts a text into words; default `words_of`.

    Returns:
        For each bin that occurs in the references its estimates, from 0 to 1; ``items`` are the sentences that have
        such a word.

    Raises:
        ValueError: not as many outputs as references.

    Example:
        >>> found = score_rare_words({"a": [["the cat", "a dog"]]}, ["the cow", "a dog"], count_words(["the a dog"]))
        >>> [(bucket.name, bucket.items, bucket.estimates["a"].mean) for bucket in found]
        [('0', 1, 0.0), ('1 to 5', 2, 1.0)]
    """
    cut = words_of if words is None else words
    found = []
    for bounds in bins:
        rights = [_within(Counter(cut(text)), training, bounds) for text in references]
        places = [place for place, right in enumerate(rights) if right]
        if not places:
            continue

        def count(run: Sequence[str], rights: list[Counter[str]] = rights, places: list[int] = places) -> Array:
            if len(run) != len(rights):
                raise ValueError(f"expected {len(rights)} outputs, one for each reference, got {len(run)}")
            hits = [(Counter(cut(run[place])) & rights[place]).total() for place in places]
            return np.array([hits, [rights[place].total() for place in places]], dtype=np.float64).T

        statistics = {model: np.stack([count(run) for run in runs]) for model, runs in outputs.items()}
        estimates = compare_corpus(statistics, _ratio).estimates
        found.append(BucketEstimates(range_name(*bounds), len(places), estimates))
    return found


def words_of(text: str) -> list[str]:
    """Cut a text into words: runs of letters, digits and underscores, in lower case.

    Example:
        >>> words_of("Ein U-Bahn-Schild, 2 Männer")
        ['ein', 'u', 'bahn', 'schild', '2', 'männer']
    """
    return re.findall(r"\w+", text.lower())


def count_words(texts: Iterable[str], *, words: Words | None = None) -> Counter[str]:
    """Count the words of a training's sources or targets.

    Args:
        texts: may be endless work, is read once.
        words: cuts a text into words; default `words_of`.

    Example:
        >>> count_words(["a dog", "A cat"])["a"]
        2
    """
    cut = words_of if words is None else words
    counts = Counter[str]()
    for text in texts:
        counts.update(cut(text))
    return counts


def _within(words: Counter[str], training: Mapping[str, int], bounds: tuple[int, int | None]) -> Counter[str]:
    low, high = bounds
    return Counter(
        {w: n for w, n in words.items() if low <= (seen := training.get(w, 0)) and (high is None or seen <= high)}
    )


def _ratio(sums: Array) -> Array:
    found: Array = sums[:, 0] / sums[:, 1]
    return found
