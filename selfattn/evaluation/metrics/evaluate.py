"""Score a run's outputs: metrics overall, by tag, and on any part, as plain JSON values."""

from collections.abc import Sequence
from typing import Any

from selfattn.codec import encode
from selfattn.data.pairs import Pair
from selfattn.evaluation.metrics.metric import Metric
from selfattn.evaluation.statistics.buckets import by_tag
from selfattn.evaluation.statistics.significance import estimate
from selfattn.evaluation.statistics.variances import LEVEL
from selfattn.results.quality import IntervalMethod


def evaluate_outputs(outputs: Sequence[str], pairs: Sequence[Pair], metrics: Sequence[Metric]) -> dict[str, Any]:
    """Score what a run wrote.

    Args:
        outputs: one for each pair.
        pairs: at least one.
        metrics: how outputs are scored.

    Returns:
        ``items``; ``metrics`` by name; their ``signatures``, where they have one; for those that are means over items
        the ``intervals`` (see ``interval``) and the figures ``by_format``, as `evaluate_part` gives them.

    Raises:
        ValueError: no pairs, or not as many outputs.

    Example:
        >>> from selfattn.evaluation.metrics.metric import make_metric
        >>> pairs = [Pair("A", "a", "letter"), Pair("B", "b", "letter")]
        >>> scores = evaluate_outputs(["a", "-"], pairs, [make_metric("exact_match")])
        >>> scores["metrics"], scores["by_format"]["letter"]["items"]
        ({'exact_match': 0.5}, 2)
    """
    references = [pair.target for pair in pairs]
    overall = {metric.name: metric.of(outputs, references) for metric in metrics}
    means = evaluate_part(outputs, pairs, metrics, range(len(pairs)))
    scores: dict[str, Any] = {
        "items": means.pop("items"),
        "metrics": overall,
        "intervals": {name: [part["low"], part["high"]] for name, part in means.items()},
        "interval": encode(IntervalMethod(LEVEL, "closed form", "items")),
        "by_format": {group.name: evaluate_part(outputs, pairs, metrics, group.places) for group in by_tag(pairs)},
    }
    if signatures := {metric.name: metric.signature for metric in metrics if metric.signature}:
        scores["signatures"] = signatures
    return scores


def evaluate_part(
    outputs: Sequence[str], pairs: Sequence[Pair], metrics: Sequence[Metric], places: Sequence[int]
) -> dict[str, Any]:
    """Score what a run wrote for some of the pairs; `evaluate_outputs` describes the other arguments.

    Returns:
        ``items``, and by the name of each metric that is a mean over items its ``mean``, ``low`` and ``high``.
    """
    chosen, references = [outputs[place] for place in places], [pairs[place].target for place in places]
    part: dict[str, Any] = {"items": len(places)}
    for metric in metrics:
        if metric.is_mean:
            score = estimate([metric.score(metric.counts(chosen, references))])
            part[metric.name] = {"mean": score.mean, "low": score.low, "high": score.high}
    return part
