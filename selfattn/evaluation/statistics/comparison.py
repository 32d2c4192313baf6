"""What a comparison of models found: estimates, differences, and the words that they carry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from selfattn.evaluation.statistics.intervals import LEVEL, METHOD
from selfattn.evaluation.statistics.spread import ALPHA

MIN_SEEDS = 3

Over = Literal["items", "seeds and items"]
METHODS: dict[Over, str] = {
    "items": METHOD,
    "seeds and items": "hierarchical bootstrap over seeds and items in closed form, with Student's t for the few seeds "
    "(shares: in the form of the Wilson score)",
}

Word = Literal["better", "worse", "no difference seen", "too few seeds to tell"]
_TURNED: dict[Word, Word] = {"better": "worse", "worse": "better"}


@dataclass(frozen=True)
class Estimate:
    """A model's score with its 95 % interval.

    Attributes:
        mean: over runs.
        low: lower end.
        high: upper end.
        runs: the score of each run.
        items: how many test items there are.
        over: what varies in the interval; with one run, only the items.
    """

    mean: float
    low: float
    high: float
    runs: tuple[float, ...]
    items: int
    over: Over


@dataclass(frozen=True)
class PairResult:
    """How one model stands to another.

    Attributes:
        first: name of the one model.
        second: name of the other.
        difference: score of the first less score of the second.
        low: lower end of its 95 % interval.
        high: upper end.
        p: two-sided, of this pair alone.
        p_items: what p would be if these very runs were all there are; with one run each, p itself.
        p_holm: corrected for the number of pairs compared.
        over: what varies in interval and p; if one of the two has one run, only the items.
        word: what may be said of the first; the rule is that of `word_for`.
    """

    first: str
    second: str
    difference: float
    low: float
    high: float
    p: float
    p_items: float
    p_holm: float
    over: Over
    word: Word

    def turned(self) -> PairResult:
        """Return the same, said of the second model."""
        return replace(
            self,
            first=self.second,
            second=self.first,
            difference=-self.difference,
            low=-self.high,
            high=-self.low,
            word=_TURNED.get(self.word, self.word),
        )


@dataclass(frozen=True)
class Comparison:
    """All models with their scores, and every pair of them once, in the order in which the models were given."""

    estimates: Mapping[str, Estimate]
    pairs: tuple[PairResult, ...]

    def between(self, first: str, second: str) -> PairResult:
        """Return how the first stands to the second.

        Raises:
            KeyError: there is no such pair.
        """
        for pair in self.pairs:
            if (pair.first, pair.second) == (first, second):
                return pair
            if (pair.second, pair.first) == (first, second):
                return pair.turned()
        raise KeyError(f"no pair of {first!r} and {second!r}")

    def to_json(self) -> dict[str, Any]:
        """Return all figures as plain JSON values."""
        return {
            "interval": {"level": LEVEL, "methods": dict(METHODS)},
            "estimates": {name: asdict(one) | {"runs": list(one.runs)} for name, one in self.estimates.items()},
            "pairs": [asdict(pair) for pair in self.pairs],
        }


def word_for(low: float, high: float, p_holm: float, *, seeds: int, apart: bool) -> Word:
    """Say in words what the figures of a difference carry; the first rule that holds decides.

    1. Fewer than three seeds: "too few seeds to tell", whatever the items say.
    2. The corrected p is below 0.05 and the interval leaves out 0: "better" or "worse".
    3. The runs are apart: "too few seeds to tell". They are not called alike only because there are few of them.
    4. Otherwise "no difference seen", which is no proof of equality: the interval says what may have been missed.

    Args:
        low: lower end of the difference's interval.
        high: upper end.
        p_holm: the corrected p.
        seeds: of the model that has fewer.
        apart: whether every run of one model is above every run of the other, and that by more than the luck of the
            items (``p_items`` below 0.05).

    Example:
        >>> word_for(0.01, 0.03, 0.002, seeds=3, apart=True)
        'better'
        >>> word_for(0.01, 0.03, 0.002, seeds=1, apart=True)
        'too few seeds to tell'
        >>> word_for(-0.01, 0.03, 0.4, seeds=5, apart=False)
        'no difference seen'
    """
    if seeds < MIN_SEEDS:
        return "too few seeds to tell"
    if p_holm < ALPHA and (low > 0 or high < 0):
        return "better" if low > 0 else "worse"
    return "too few seeds to tell" if apart else "no difference seen"
