"""Which words outputs have right: by how often training shows them, and runs of words that tell two models apart.

Both analyses are those of compare-mt (Neubig et al. 2019), here over all runs of a model.
"""

import math
from collections import Counter
from collections.abc import Container, Hashable, Iterator, Mapping, Sequence
from itertools import chain

from selfattn.evaluation.metrics.exact import WordAccuracy
from selfattn.evaluation.statistics.buckets import range_name, score_groups
from selfattn.results.quality import Bucket, Ngram, NgramGroup, separated

# How often training shows a word: the usual groups of compare-mt. Both ends belong to the group.
FREQUENCIES: Sequence[tuple[int, int | None]] = (
    *((count, count) for count in range(5)),
    (5, 9),
    (10, 99),
    (100, 999),
    (1000, None),
)
_LONGEST = 4  # words of an n-gram
_SHOWN = 10  # n-grams of each side

Words = Sequence[Sequence[str]]
"""The words of each text."""


def score_words(
    outputs: Mapping[str, Sequence[Sequence[str]]],
    references: Sequence[str],
    training: Mapping[str, int],
    clusters: Sequence[Hashable] | None = None,
) -> tuple[Bucket, ...]:
    """Estimate each model's word accuracy, by how often training has the words; an item may be in several groups.

    Args:
        outputs: for each model the outputs of each of its runs, with spaces between words.
        references: one for each item, in the same form.
        training: how often the training's targets have each word; a word that is not there counts as never shown.
        clusters: see `buckets.score_groups`.

    Returns:
        For each of `FREQUENCIES` that has words of references the items of which reference or outputs have such words.

    Example:
        >>> outputs = {"a": [["the cow", "a cat"]]}
        >>> buckets = score_words(outputs, ["the cow", "a dog"], {"the": 7, "a": 7, "cow": 1, "dog": 1})
        >>> [(bucket.name, bucket.items, round(bucket.models["a"].mean, 2)) for bucket in buckets]
        [('1', 2, 0.67), ('5 to 9', 2, 1.0)]
    """
    known: set[str] = set()
    for text in chain(references, *chain.from_iterable(outputs.values())):
        known.update(text.split())
    buckets: list[Bucket] = []
    for low, high in FREQUENCIES:
        most = math.inf if high is None else high
        words = {word for word in known if low <= training.get(word, 0) <= most}
        right = _of_words(references, words)
        written = {name: [_of_words(run, words) for run in runs] for name, runs in outputs.items()}
        rows = zip(right, *chain.from_iterable(written.values()), strict=True)
        places = [place for place, row in enumerate(rows) if any(row)]
        if any(right):
            group = {range_name(low, high): places}
            metric = WordAccuracy()
            buckets += score_groups(group, written, right, metric, clusters=clusters)
    return tuple(buckets)


def _of_words(texts: Sequence[str], words: Container[str]) -> list[str]:
    """Return what texts have of some words."""
    return [" ".join(word for word in text.split() if word in words) for text in texts]


def ngram_differences(
    first: tuple[str, Sequence[Words]], second: tuple[str, Sequence[Words]], references: Words
) -> NgramGroup:
    """Find the runs of up to four words that one model gets right more often than another.

    An n-gram is right as often as output and reference of an item both have it. The order is compare-mt's: by
    ``(first + 1) / (first + second + 2)``, here of means over runs. Of equal ones, the more frequent stand first.

    Args:
        first: name of a model, and the words of each output of each of its runs.
        second: the same of another model.
        references: the words of each reference.

    Example:
        >>> group = ngram_differences(("a", [[["so", "it", "is"]]]), ("b", [[["it", "was"]]]), [["so", "it", "was"]])
        >>> [(ngram.text, ngram.first, ngram.second) for ngram in group.ngrams]
        [('so', 1.0, 0.0), ('so it', 1.0, 0.0), ('was', 0.0, 1.0), ('it was', 0.0, 1.0)]
    """
    expected = [Counter(_ngrams(words)) for words in references]
    total: Counter[tuple[str, ...]] = Counter()
    for counts in expected:
        total.update(counts)
    right = [[_matches(run, expected) for run in runs] for _, runs in (first, second)]
    ngrams = []
    for gram in set().union(*right[0], *right[1]):
        runs = [[run[gram] for run in each] for each in right]
        means = [sum(each) / len(each) for each in runs]
        if means[0] != means[1]:
            score = (means[0] + 1) / (means[0] + means[1] + 2)
            apart = separated(*runs)
            ngrams.append(Ngram(" ".join(gram), total[gram], means[0], means[1], score, apart))
    most = sorted(ngrams, key=lambda gram: (-gram.score, -gram.first, len(gram.text), gram.text))
    least = sorted(ngrams, key=lambda gram: (gram.score, -gram.second, len(gram.text), gram.text))
    chosen = [gram for gram in most[:_SHOWN] if gram.first > gram.second]
    chosen += [gram for gram in least[:_SHOWN] if gram.first < gram.second]
    return NgramGroup(first[0], second[0], tuple(chosen))


def _ngrams(words: Sequence[str]) -> Iterator[tuple[str, ...]]:
    for length in range(1, _LONGEST + 1):
        for start in range(len(words) - length + 1):
            yield tuple(words[start : start + length])


def _matches(run: Words, expected: Sequence[Counter[tuple[str, ...]]]) -> Counter[tuple[str, ...]]:
    """Count how often each n-gram is right in a run."""
    total: Counter[tuple[str, ...]] = Counter()
    for words, counts in zip(run, expected, strict=True):
        total.update(Counter(gram for gram in _ngrams(words) if gram in counts) & counts)
    return total
