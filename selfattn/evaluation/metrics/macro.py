"""Means over the tags of the test items, such as languages or cases, each counting alike however many items it has."""

from collections.abc import Sequence
from typing import ClassVar, final

import numpy as np

from selfattn.data.pairs import Pair
from selfattn.errors import SettingError
from selfattn.evaluation.metrics.exact import ExactMatch, PhoneErrorRate, WordErrorRate
from selfattn.evaluation.metrics.metric import Array, Metric, PairMetric
from selfattn.registry import register


class Macro(PairMetric):
    """The mean over tags of another metric. A subclass names it, and has its `unit` and `better`.

    Its counts are those of the other metric, laid into the columns of the item's tag, so that sums over any choice of
    items give a score of each tag. A tag without items in such a choice does not count.

    Attributes:
        inner: the other metric.
    """

    inner: ClassVar[type[Metric]]

    def __init__(self, language: str = "") -> None:
        super().__init__(language)
        self._metric = self.inner(language)
        self._width = self._metric.counts(["a"], ["a"]).shape[-1]
        self.signature = self._metric.signature

    def count_pairs(self, outputs: Sequence[str], pairs: Sequence[Pair]) -> Array:
        """Lay the counts of the other metric into the columns of each item's tag, ``[i t*k]``.

        Raises:
            SettingError: no item has a tag.
        """
        tags = sorted({pair.tag for pair in pairs})
        if tags == [""]:
            raise SettingError(f"`metric` {self.name}: a mean over tags, but no pair has one; give `tag`, their column")
        places = {tag: place for place, tag in enumerate(tags)}
        columns = [places[pair.tag] for pair in pairs]
        counts = np.zeros((len(pairs), len(tags), self._width))
        counts[np.arange(len(pairs)), columns] = self._metric.count(outputs, pairs)
        return counts.reshape(len(pairs), -1)

    def score(self, sums: Array) -> Array:
        """Return the mean over those tags that have items."""
        by_tag = sums.reshape(*sums.shape[:-1], -1, self._width)
        has_items = np.asarray(by_tag.any(axis=-1))
        scores = self._metric.score(np.where(has_items[..., None], by_tag, 1.0))
        return np.asarray((scores * has_items).sum(axis=-1) / has_items.sum(axis=-1))


@final
@register.metric("macro_exact_match")
class MacroExactMatch(Macro):
    """The mean over tags of the share of right outputs.

    Example:
        >>> pairs = [Pair("a", "1", tag="x"), Pair("b", "1", tag="x"), Pair("c", "1", tag="y")]
        >>> MacroExactMatch().of(["1", "2", "2"], pairs)
        0.25
    """

    inner = ExactMatch


@final
@register.metric("macro_word_error_rate")
class MacroWordErrorRate(Macro):
    """The mean over tags, such as languages, of the share of outputs that are not the reference."""

    inner = WordErrorRate
    better = "lower"
    beside = ("macro_phone_error_rate",)


@final
@register.metric("macro_phone_error_rate")
class MacroPhoneErrorRate(Macro):
    """The mean over tags, such as languages, of the phone error rate."""

    inner = PhoneErrorRate
    better = "lower"
