"""Metrics of a task: which ones are measured, and which one decides. Imports no torch before a metric is made."""

import copy
from collections.abc import Sequence

from selfattn.data.pairs import Pair
from selfattn.errors import SettingError
from selfattn.evaluation.metrics.metric import make_metric, score_outputs
from selfattn.results.quality import Headline
from selfattn.runs.task import TaskData


def decided_by(task: TaskData, metric: str) -> TaskData:
    """Return the task with another deciding metric.

    Raises:
        UserError: the metric is unknown, or is not one of a language model's.
    """
    make_metric(metric, task.language)
    if not task.takes_pairs and metric not in task.metrics:
        raise SettingError(f"`metric` {metric}: a language model is measured by {' or '.join(task.metrics)}")
    changed = copy.copy(task)
    changed.chosen_metric = metric
    return changed


def metric_names(task: TaskData) -> tuple[str, ...]:
    """Return the names of the metrics of a test, the deciding one first."""
    return _chosen_first(task, (*task.further_metrics, *task.metrics))


def validation_names(task: TaskData) -> tuple[str, ...]:
    """Return the names of the metrics of a validation, the deciding one first."""
    return _chosen_first(task, task.metrics[: task.validated])


def _chosen_first(task: TaskData, names: Sequence[str]) -> tuple[str, ...]:
    chosen = () if task.chosen_metric is None else (task.chosen_metric,)
    return tuple(dict.fromkeys([*chosen, *names]))


def headline(task: TaskData) -> Headline:
    """Return the metric of the verdict."""
    return make_metric(metric_names(task)[0], task.language).headline


def scores(task: TaskData, outputs: Sequence[str], pairs: Sequence[Pair]) -> dict[str, float]:
    """Score outputs with every metric of the task."""
    return score_outputs(metric_names(task), outputs, pairs, task.language)
