"""What a metric is, and how to make a metric by its name.

A metric counts for every item what its score is made of, and turns counts that were added up over any choice of items
into a score. So every statistic works on every metric. Letters: `s` seeds, `i` items, `k` counts an item.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, NamedTuple, TypeAlias, final, get_args

import numpy as np
import numpy.typing as npt

from selfattn.data.languages import read_language
from selfattn.data.pairs import Pair
from selfattn.registry import METRICS
from selfattn.results.quality import Better, Headline, Unit

Array = npt.NDArray[np.float64]
TestItems: TypeAlias = Sequence[Pair] | Sequence[str]
"""Test items, or their references alone."""


class ItemTest(NamedTuple):
    """Intervals of systems on the same items, and their test.

    Attributes:
        ends: of the 95 % interval of each system.
        p: of the paired test of two systems, two-sided; None for one system.
        signature: of the metric and of the test.
    """

    ends: Sequence[tuple[float | None, float | None]]
    p: float | None
    signature: str


class Metric(ABC):
    """How good outputs are, as a function of sums over items.

    Register a subclass with ``@register.metric(name)``. `make_metric` hands over the language of the targets as a code
    of ISO 639, with script and country where they were named (``ja``, ``zh_Hant``, ``pt_BR``); ``""`` where it is
    unknown.

    Attributes:
        name: as in a record.
        unit: ``"share"`` (0 to 1, shown in percent), ``"points"`` (0 to 100), ``"bits"`` or ``"number"`` (0 or more).
        better: whether ``"higher"`` or ``"lower"`` scores are better.
        lowest: the smallest possible score.
        signature: how it is computed, to be quoted with the score; empty where nothing is left open.
        is_mean: whether the score of many items is the mean of the scores of each, for which intervals and tests are
            known in closed form; those of other metrics are drawn.
        beside: names of metrics on which models are tested, too, where this one decides.
    """

    name: ClassVar[str]
    unit: ClassVar[Unit] = "share"
    better: ClassVar[Better] = "higher"
    lowest: ClassVar[float] = 0.0
    is_mean: ClassVar[bool] = False
    beside: ClassVar[tuple[str, ...]] = ()
    signature: str = ""

    def __init__(self, language: str = "") -> None:
        self.language = language

    @abstractmethod
    def counts(self, outputs: Sequence[str], references: Sequence[str]) -> Array:
        """Count for each item what the score is made of.

        Args:
            outputs: what a model wrote.
            references: the right ones, in the same order.

        Returns:
            ``[i k]``.
        """

    def count(self, outputs: Sequence[str], items: TestItems) -> Array:
        """Count for each item what the score is made of, ``[i k]``; the statistics call this.

        Here it hands the references to `counts`. A `PairMetric` sees sources and tags as well.

        Args:
            outputs: what a model wrote.
            items: the test items, or their references alone.
        """
        return self.counts(outputs, [item.target if isinstance(item, Pair) else item for item in items])

    def score(self, sums: Array) -> Array:
        """Turn counts that were added up over items, ``[.. k]``, into scores ``[..]``; here the :func:`ratio`."""
        return ratio(sums)

    def of(self, outputs: Sequence[str], items: TestItems) -> float:
        """Score all outputs together; at least one. For the arguments see `count`."""
        return float(self.score(self.count(outputs, items).sum(axis=0)))

    def count_runs(self, outputs: Mapping[str, Sequence[Sequence[str]]], items: TestItems) -> dict[str, Array]:
        """Count for each model what its runs wrote.

        Args:
            outputs: for each model the outputs of each of its runs.
            items: see `count`.

        Returns:
            For each model ``[s i k]``.
        """
        return {name: np.stack([self.count(run, items) for run in runs]) for name, runs in outputs.items()}

    def tested(self, counts: Sequence[Array]) -> ItemTest | None:
        """Test one or two systems as the metric's users do; default None: as `statistics.significance` does.

        Args:
            counts: of each system ``[i k]``, on the same items.
        """
        return None

    @property
    def headline(self) -> Headline:
        """What a record says of the metric where it decides."""
        return Headline(self.name, self.unit, self.signature, self.better)


class PairMetric(Metric):
    """A metric that sees the source and the tag of every item, such as a learned one, or a mean over tags."""

    @abstractmethod
    def count_pairs(self, outputs: Sequence[str], pairs: Sequence[Pair]) -> Array:
        """Count for each item what the score is made of.

        Args:
            outputs: what a model wrote.
            pairs: the test items, in the same order, with their sources, references (`target`) and tags.

        Returns:
            ``[i k]``.
        """

    @final
    def counts(self, outputs: Sequence[str], references: Sequence[str]) -> Array:
        """Count where nothing but the references is known: sources and tags are empty."""
        return self.count_pairs(outputs, [Pair("", reference) for reference in references])

    @final
    def count(self, outputs: Sequence[str], items: TestItems) -> Array:
        """Hand over the items as pairs."""
        return self.count_pairs(outputs, [item if isinstance(item, Pair) else Pair("", item) for item in items])


def _problem(metric: type[Metric]) -> str | None:
    for name, values in (("unit", get_args(Unit)), ("better", get_args(Better))):
        if getattr(metric, name) not in values:
            return f"{name} {getattr(metric, name)!r}: expected {' or '.join(values)}"
    return None


METRICS.expect(Metric, _problem)


def make_metric(name: str, language: str = "") -> Metric:
    """Return a metric by its name.

    Args:
        name: such as ``exact_match`` or ``bleu``.
        language: of the targets, a code or an English name, see `selfattn.data.languages.read_language`; default
            unknown.

    Raises:
        UserError: there is no such metric or no such language, or the metric is not for this language.

    Example:
        >>> make_metric("exact_match").of(["2008-11-13", "2008-11-14"], ["2008-11-13", "2008-11-13"])
        0.5
    """
    metric: Metric = METRICS[name](read_language(language).locale if language else "")
    return metric


def score_outputs(
    metrics: Iterable[str], outputs: Sequence[str], items: TestItems, language: str = ""
) -> dict[str, float]:
    """Score outputs by several metrics.

    Args:
        metrics: their names.
        outputs: what a model wrote.
        items: the test items, or their references alone, in the same order.
        language: of the references; default unknown.

    Example:
        >>> score_outputs(["exact_match", "character_error_rate"], ["ab", "abcd"], ["ab", "abce"])
        {'exact_match': 0.5, 'character_error_rate': 0.16666666666666666}
    """
    return {name: make_metric(name, language).of(outputs, items) for name in metrics}


def of_each(scores: Sequence[float]) -> Array:
    """Make the counts of a metric whose score is the mean of ``scores``: each beside a 1.

    Example:
        >>> of_each([True, False]).tolist()
        [[1.0, 1.0], [0.0, 1.0]]
    """
    return np.stack([np.asarray(scores, dtype=np.float64), np.ones(len(scores))], axis=-1)


def ratio(sums: Array) -> Array:
    """Divide the first of two counts by the second."""
    return np.asarray(sums[..., 0] / sums[..., 1])
