"""Further test sets of a comparison, and groups of test items by their tags; the first test set decides."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from selfattn.comparison.tested import Answered
from selfattn.data.pairs import Pair
from selfattn.evaluation.metrics.metric import Metric, make_metric
from selfattn.evaluation.statistics.buckets import by_tag, score_groups
from selfattn.evaluation.statistics.significance import RunScores, by_tuning, score_counts
from selfattn.evaluation.statistics.variances import ALPHA
from selfattn.results.quality import Bucket, BucketGroup, Comparison

TOGETHER = "all intervals of this table hold together (Bonferroni)"
FURTHER = "a further test set, beside the one that decides; all intervals of this table hold together (Bonferroni)"
ALL = "all items"

Tunings = Mapping[str, Sequence[Hashable]]


@dataclass(frozen=True)
class Analysis:
    """How groups of test items are scored.

    Attributes:
        metric: that decides.
        language: of the targets.
        compare: estimates and tests the models.
        tunings: see `significance.by_tuning`; None where runs are the units.
        repeats: key that dependent test items share.
    """

    metric: Metric
    language: str
    compare: Callable[[RunScores], Comparison]
    tunings: Tunings | None
    repeats: Callable[[Pair], Hashable]

    def tags(self, pairs: Sequence[Pair], outputs: Mapping[str, list[list[str]]], metric: Metric) -> tuple[Bucket, ...]:
        """Score the items of each tag; intervals are as wide as it takes for all to hold together."""
        groups = by_tag(pairs)
        return score_groups(
            groups,
            outputs,
            pairs,
            metric,
            clusters=[self.repeats(pair) for pair in pairs],
            tunings=self.tunings,
            alpha=ALPHA / max(1, len(groups)),
        )

    def further(self, name: str, runs: Mapping[str, Sequence[Answered]]) -> list[BucketGroup]:
        """Score a further test set: all of it with tests of pairs of models, and its tags; a table for each metric.

        Args:
            name: of the set.
            runs: of each model, with answers to the set.
        """
        pairs = next(iter(runs.values()))[0].pairs
        outputs = {model: [run.outputs for run in of_model] for model, of_model in runs.items()}
        groups = []
        for metric in (self.metric, *(make_metric(other, self.language) for other in self.metric.beside)):
            scores = score_counts(
                metric.count_runs(outputs, pairs), metric, clusters=[self.repeats(pair) for pair in pairs]
            )
            compared = self.compare(scores if self.tunings is None else by_tuning(scores, self.tunings))
            complete = Bucket(ALL, len(pairs), compared.estimates, compared.pairs)
            tags = self.tags(pairs, outputs, metric)
            table = partial(BucketGroup, metric=metric.name, kind=metric.unit, better=metric.better)
            groups.append(table(name, (complete, *tags), note=FURTHER))
        return groups
