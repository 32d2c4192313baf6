"""What a task says of a comparison on its data: the question, and what others have published."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from selfattn.codec import Plain


@dataclass(frozen=True)
class Baseline(Plain):
    """A published result on the same data: a model far below it may be broken.

    Attributes:
        metric: its name among the scores of a run.
        value: what is expected at least, or at most where lower is better.
        source: publication, figure and data.
        examples: training pairs that it takes, repetitions counted; a model trained on fewer is not checked. Default 0.
        distinct: how many of these have to be different; default 0.
    """

    metric: str
    value: float
    source: str
    examples: int = 0
    distinct: int = 0


@dataclass(frozen=True)
class Subject(Plain):
    """The question of a comparison, as its task states it.

    Attributes:
        pair: names of the two models that the question is about, in its order; None where it is about all.
        words: by language, the task's own texts by message key, which override the report's: the question
            (`question.pair.same`, `question.pair`, `question.pair.any`, `question.many`, `question.one`), what its
            items are called (`items`), and names of its metrics, buckets and gates (`metric.NAME`, `bucket.NAME`,
            `gate.NAME`).
    """

    pair: tuple[str, str] | None = None
    words: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def pair_among(self, names: Sequence[str]) -> tuple[str, str] | None:
        """Return the two of these models that a comparison is about: the pair of the question, or the only two."""
        if self.pair and set(self.pair) <= set(names):
            return self.pair
        return (names[0], names[1]) if len(names) == 2 else None


NO_SUBJECT = Subject()
