"""Two models over several tasks, such as languages: a row a task, and one verdict over all of them."""

from dataclasses import dataclass

from selfattn.codec import Plain
from selfattn.results.quality import Better, Estimate, Unit


@dataclass(frozen=True)
class TaskRow(Plain):
    """Two models on one task.

    Attributes:
        task: its name.
        first: mean score of the first model's runs.
        second: of the second's.
        difference: first minus second.
        low: lower end of the interval of the difference over runs and items of this task.
        high: upper end.
        p: of the difference, as the comparison has it.
    """

    task: str
    first: float
    second: float
    difference: float
    low: float
    high: float
    p: float


@dataclass(frozen=True)
class OverTasks(Plain):
    """Two models over several tasks.

    Attributes:
        first: name of a model.
        second: name of another.
        metric: that decides, the same for all tasks.
        kind: of the metric.
        better: of the metric.
        rows: one for each task.
        difference: mean over tasks of first minus second, with an interval over tasks: to the next task of this kind.
        p: two-sided, of Student's t over the tasks' differences.
        middle_first: interquartile mean of the first model's runs on all tasks, with an interval over runs.
        middle_second: of the second's.
        improvement: probability that a run of the first is better than one of the second on the same task, mean over
            tasks, with an interval over runs.
    """

    first: str
    second: str
    metric: str
    kind: Unit
    better: Better
    rows: tuple[TaskRow, ...]
    difference: Estimate
    p: float
    middle_first: Estimate
    middle_second: Estimate
    improvement: Estimate
