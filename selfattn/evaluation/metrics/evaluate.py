"""A model's outputs held against the right ones: metrics overall, by tag, and on any part, as plain JSON values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from selfattn.codec import encode
from selfattn.data.pairs import Pair
from selfattn.evaluation.metrics.metric import Metric
from selfattn.evaluation.statistics.buckets import by_tag
from selfattn.evaluation.statistics.intervals import interval_method
from selfattn.evaluation.statistics.significance import estimate


def evaluate_outputs(outputs: Sequence[str], pairs: Sequence[Pair], metrics: Sequence[Metric]) -> dict[str, Any]:
    """Measure what one run wrote.

    Args:
        outputs: one for each pair.
        pairs: at least one.
        metrics: how outputs are scored.

    Returns:
        ``items``; ``metrics`` by name; their ``signatures``, where they have one; of those that are means over items
        the ``intervals`` (see ``interval``) and the figures ``by_format``, as `evaluate_part` gives them.

    Raises:
        ValueError: no pairs, or not as many outputs.

    Example:
        >>> from selfattn.evaluation.metrics.metric import make_metric
        >>> pairs = [Pair("A", "a", "letter"), Pair("B", "b", "letter")]
        >>> found = evaluate_outputs(["a", "-"], pairs, [make_metric("exact_match")])
        >>> found["metrics"], found["by_format"]["letter"]["items"]
        ({'exact_match': 0.5}, 2)
    """
    references = [pair.target for pair in pairs]
    found: dict[str, Any] = {
        "items": len(pairs),
        "metrics": {metric.name: metric.of(outputs, references) for metric in metrics},
    }
    whole = evaluate_part(outputs, pairs, metrics, range(len(pairs)))
    found["intervals"] = {name: [part["low"], part["high"]] for name, part in whole.items() if name != "items"}
    found["interval"] = encode(interval_method("items"))
    found["by_format"] = {group.name: evaluate_part(outputs, pairs, metrics, group.places) for group in by_tag(pairs)}
    if signatures := {metric.name: metric.signature for metric in metrics if metric.signature}:
        found["signatures"] = signatures
    return found


def evaluate_part(
    outputs: Sequence[str], pairs: Sequence[Pair], metrics: Sequence[Metric], places: Sequence[int]
) -> dict[str, Any]:
    """Measure what one run wrote for some of the pairs, as `evaluate_outputs`, which describes the arguments, for all.

    Returns:
        ``items``, and by the name of each metric that is a mean over items its ``mean``, ``low`` and ``high``.
    """
    some, right = [outputs[place] for place in places], [pairs[place].target for place in places]
    part: dict[str, Any] = {"items": len(places)}
    for metric in metrics:
        if metric.is_mean:
            found = estimate([metric.score(metric.counts(some, right))])
            part[metric.name] = {"mean": found.mean, "low": found.low, "high": found.high}
    return part
