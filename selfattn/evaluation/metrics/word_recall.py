"""Which words of the references the outputs have: all of them, or those that training shows so and so often."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import final

import numpy as np

from selfattn.evaluation.metrics.metric import Array, Metric
from selfattn.registry import register

Words = Callable[[str], Sequence[str]]


@final
@register.metric("word recall")
class WordRecall(Metric):
    r"""Share of the references' words that the outputs have.

    .. math:: \frac{\sum_i \sum_{w \in B} \min(h_i(w), r_i(w))}{\sum_i \sum_{w \in B} r_i(w)}

    with :math:`h_i(w)` and :math:`r_i(w)` how often word w stands in the output and the reference of item i, and B the
    words that are looked at: BLEU's clipped counts, divided by the reference. Where a word stands does not matter.

    Args:
        language: is not looked at.
        wanted: says of a word whether it is looked at; default all are.

    Example:
        >>> WordRecall().of(["the cat", "a dog"], ["the cow", "a dog"])
        0.75
    """

    name = "word recall"

    def __init__(self, language: str = "", *, wanted: Callable[[str], bool] | None = None) -> None:
        super().__init__(language)
        self.wanted = wanted

    def counts(self, outputs: Sequence[str], references: Sequence[str]) -> Array:
        """Count the words that both have, and those of the reference."""
        rows = []
        for output, reference in zip(outputs, references, strict=True):
            right = Counter(word for word in words_of(reference) if self.wanted is None or self.wanted(word))
            rows.append(((Counter(words_of(output)) & right).total(), right.total()))
        return np.array(rows, dtype=np.float64)


def seen_in_training(training: Mapping[str, int], low: int, high: int | None) -> Callable[[str], bool]:
    """Return what says of a word whether training has it so often.

    Args:
        training: how often the training's targets have each word.
        low: at least so often.
        high: at most so often; None for any number.

    Example:
        >>> rare = seen_in_training({"dog": 3, "a": 900}, 1, 5)
        >>> rare("dog"), rare("a"), rare("cow")
        (True, False, False)
    """
    return lambda word: low <= training.get(word, 0) and (high is None or training.get(word, 0) <= high)


def words_of(text: str) -> list[str]:
    """Cut a text into words: runs of letters, digits and underscores, in lower case.

    Example:
        >>> words_of("Ein U-Bahn-Schild, 2 Männer")
        ['ein', 'u', 'bahn', 'schild', '2', 'männer']
    """
    return re.findall(r"\w+", text.lower())
