"""How test sets are scored: all items, groups of them, and further test sets; the first test set decides."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

from selfattn.comparison.tested import Answered
from selfattn.data.pairs import Pair
from selfattn.evaluation.metrics.metric import Metric, make_metric
from selfattn.evaluation.statistics.buckets import by_tag, score_groups
from selfattn.evaluation.statistics.mean_run import compare_mean_runs
from selfattn.evaluation.statistics.significance import RunScores, Tunings, score_counts
from selfattn.evaluation.statistics.variances import ALPHA
from selfattn.results.pair_tests import Comparison
from selfattn.results.parts import Bucket, BucketGroup
from selfattn.runs.task import TaskData

TOGETHER = "all intervals of this table hold together (Bonferroni)"
FURTHER = "a further test set, beside the one that decides; all intervals of this table hold together (Bonferroni)"
ALL = "all items"

RunOutputs = Mapping[str, Sequence[Sequence[str]]]
"""For each model the outputs of each of its runs."""


def outputs_by_model(models: Mapping[str, Sequence[Answered]]) -> dict[str, list[list[str]]]:
    """Return the outputs of the runs of each model."""
    return {name: [run.outputs for run in runs] for name, runs in models.items()}


@dataclass(frozen=True)
class Analysis:
    """How outputs are scored.

    Attributes:
        metric: that decides.
        task: has the language of the targets, and says which test items depend on one another.
        tunings: see `significance.by_tuning`; None where runs are the units.
        version: of the analysis; see `Record.analysis`.
    """

    metric: Metric
    task: TaskData
    tunings: Tunings | None
    version: int

    def metrics_beside(self) -> list[Metric]:
        """Return the metrics beside the one that decides: two scores that agree are worth more than one."""
        return [make_metric(name, self.task.language) for name in self.metric.beside]

    def labels(self, pairs: Sequence[Pair]) -> list[Hashable]:
        """Return a label for each test item, shared by those that depend on one another."""
        return [self.task.repeats(pair) for pair in pairs]

    def scores(self, outputs: RunOutputs, pairs: Sequence[Pair], metric: Metric) -> RunScores:
        """Score every run on test items."""
        counts = metric.count_runs(outputs, pairs)
        return score_counts(counts, metric, clusters=self.labels(pairs), tunings=self.tunings)

    def compare(self, scores: RunScores, primary: tuple[str, str] | None = None, alpha: float = ALPHA) -> Comparison:
        """Estimate the models, and test all pairs; see `RunScores.comparison`."""
        if self.version > 1:
            return compare_mean_runs(scores, primary, alpha)
        return scores.comparison(primary, alpha)

    def groups(
        self, groups: Mapping[str, Sequence[int]], outputs: RunOutputs, pairs: Sequence[Pair], alpha: float = ALPHA
    ) -> tuple[Bucket, ...]:
        """Score groups of test items, given by their places, in the metric that decides."""
        labels = self.labels(pairs)
        return score_groups(groups, outputs, pairs, self.metric, clusters=labels, tunings=self.tunings, alpha=alpha)

    def table(self, name: str, buckets: tuple[Bucket, ...], note: str = "") -> BucketGroup:
        """Return scores in the metric that decides as a table."""
        return BucketGroup(name, buckets, self.metric.name, self.metric.unit, note, self.metric.better)

    def tags(self, outputs: RunOutputs, pairs: Sequence[Pair]) -> tuple[Bucket, ...]:
        """Score the items of each tag; intervals are as wide as it takes for all to hold together."""
        groups = by_tag(pairs)
        return self.groups(groups, outputs, pairs, ALPHA / max(1, len(groups)))

    def further(self, name: str, runs: Mapping[str, Sequence[Answered]]) -> list[BucketGroup]:
        """Score a further test set: all of it with tests of pairs of models, and its tags; a table for each metric.

        Args:
            name: of the set.
            runs: of each model, with answers to the set.
        """
        pairs = next(iter(runs.values()))[0].pairs
        outputs = outputs_by_model(runs)
        tables = []
        for metric in (self.metric, *self.metrics_beside()):
            analysis = replace(self, metric=metric)
            compared = self.compare(self.scores(outputs, pairs, metric))
            complete = Bucket(ALL, len(pairs), compared.estimates, compared.pairs)
            tables.append(analysis.table(name, (complete, *analysis.tags(outputs, pairs)), FURTHER))
        return tables
