"""A model's outputs held against the right ones: metrics overall, by format, and on what training never showed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from selfattn.codec import encode
from selfattn.data.pairs import Pair
from selfattn.evaluation.metrics.exact import CharacterErrorRate, exact_matches
from selfattn.evaluation.statistics.buckets import by_tag
from selfattn.evaluation.statistics.intervals import bootstrap_share, interval_method
from selfattn.figures.quality import Estimate


@dataclass(frozen=True)
class Evaluation:
    """What a model did on test pairs.

    Attributes:
        pairs: what was asked.
        predictions: what it answered, in their order.
        right: whether each answer is exactly right.
        character_error_rate: edits a target character.
        seconds: of predicting all of them.
    """

    pairs: Sequence[Pair]
    predictions: Sequence[str]
    right: Sequence[bool]
    character_error_rate: float
    seconds: float

    def exact_match(self) -> Estimate:
        """Share of exactly right answers."""
        return bootstrap_share([self.right])

    def by_tag(self) -> dict[str, tuple[int, Estimate]]:
        """Items and share of right answers for each tag; empty where no pair has one."""
        return {group.name: (len(group.places), self.share(group.places)) for group in by_tag(self.pairs)}

    def share(self, places: Sequence[int]) -> Estimate:
        """Share of right answers among some of the pairs."""
        return bootstrap_share([[self.right[place] for place in places]])

    def to_json(self) -> dict[str, Any]:
        """Return items, metrics, intervals and figures by format as plain JSON values."""
        overall = self.exact_match()
        found: dict[str, Any] = {
            "items": len(self.pairs),
            "metrics": {"exact_match": overall.mean, "character_error_rate": self.character_error_rate},
            "intervals": {"exact_match": [overall.low, overall.high]},
            "interval": encode(interval_method("items")),
        }
        return found | {"by_format": {tag: format_json(items, share) for tag, (items, share) in self.by_tag().items()}}


def evaluate(predict: Callable[[list[str]], list[str]], pairs: Sequence[Pair]) -> Evaluation:
    """Ask for every source and compare with every target.

    Args:
        predict: answers a list of texts.
        pairs: at least one.

    Raises:
        ValueError: no pairs.

    Example:
        >>> found = evaluate(lambda texts: [text.lower() for text in texts], [Pair("A", "a"), Pair("B", "c")])
        >>> found.right, found.exact_match().mean
        ([True, False], 0.5)
    """
    if not pairs:
        raise ValueError("evaluate needs at least one pair")
    targets = [pair.target for pair in pairs]
    started = time.perf_counter()
    predictions = predict([pair.source for pair in pairs])
    seconds = time.perf_counter() - started
    return Evaluation(
        pairs, predictions, exact_matches(predictions, targets), CharacterErrorRate().of(predictions, targets), seconds
    )


def format_json(items: int, share: Estimate) -> dict[str, Any]:
    """Return the figures of one format as plain JSON values."""
    return {"items": items, "exact_match": {"mean": share.mean, "low": share.low, "high": share.high}}
