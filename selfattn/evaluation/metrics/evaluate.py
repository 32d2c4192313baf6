"""Score a run's outputs: metrics overall, by tag, and on any part, as plain JSON values."""

from collections.abc import Sequence
from typing import Any

from selfattn.data.pairs import Pair
from selfattn.evaluation.metrics.metric import Array, ItemTest, Metric
from selfattn.evaluation.statistics.buckets import by_tag
from selfattn.evaluation.statistics.significance import estimate, score_counts
from selfattn.evaluation.statistics.variances import LEVEL


def evaluate_outputs(
    outputs: Sequence[str], pairs: Sequence[Pair], metrics: Sequence[Metric], against: Sequence[str] | None = None
) -> dict[str, Any]:
    """Score what a run wrote, and test the difference from another run.

    Args:
        outputs: one for each pair.
        pairs: at least one.
        metrics: how outputs are scored.
        against: outputs of the other run; default none.

    Returns:
        ``items``; by the name of each metric ``metrics``, ``intervals`` (see ``interval``) and ``signatures``, where it
        has one; ``by_format``, figures as of `evaluate_part`. With another run also ``against``: its ``metrics`` and
        ``intervals``, ``p`` of each metric, and how many outputs are ``equal``; where all are, each p is 1.

    Example:
        >>> from selfattn.evaluation.metrics.metric import make_metric
        >>> pairs = [Pair("A", "a", "letter"), Pair("B", "b", "letter")]
        >>> scores = evaluate_outputs(["a", "-"], pairs, [make_metric("exact_match")], against=["-", "-"])
        >>> scores["metrics"], scores["by_format"]["letter"]["items"], scores["against"]["p"]
        ({'exact_match': 0.5}, 2, {'exact_match': 1.0})
    """
    systems = [outputs] if against is None else [outputs, against]
    results: list[dict[str, Any]] = [{"metrics": {}, "intervals": {}} for _ in systems]
    signatures = {}
    p_values = {}
    for metric in metrics:
        counts = [metric.count(texts, pairs) for texts in systems]
        tested = metric.tested(counts) or _tested(metric, counts)
        for result, rows, ends in zip(results, counts, tested.ends, strict=True):
            result["metrics"][metric.name] = float(metric.score(rows.sum(axis=0)))
            result["intervals"][metric.name] = list(ends)
        p_values[metric.name] = tested.p
        if tested.signature:
            signatures[metric.name] = tested.signature
    scores = {"items": len(pairs)} | results[0] | {"interval": {"level": LEVEL, "over": "items"}}
    scores["by_format"] = {tag: evaluate_part(outputs, pairs, metrics, places) for tag, places in by_tag(pairs).items()}
    scores |= {"signatures": signatures} if signatures else {}
    if against is None:
        return scores
    equal = sum(first == second for first, second in zip(outputs, against, strict=True))
    return scores | {"against": results[1] | {"p": p_values, "equal": equal}}


def _tested(metric: Metric, counts: Sequence[Array]) -> ItemTest:
    """Test one or two systems: shares exactly, other scores by Student's t."""
    comparison = score_counts({str(number): rows[None] for number, rows in enumerate(counts)}, metric).comparison()
    ends = [(estimate.low, estimate.high) for estimate in comparison.estimates.values()]
    return ItemTest(ends, next((pair.p for pair in comparison.pairs), None), metric.signature)


def evaluate_part(
    outputs: Sequence[str], pairs: Sequence[Pair], metrics: Sequence[Metric], places: Sequence[int]
) -> dict[str, Any]:
    """Score what a run wrote for some of the pairs; `evaluate_outputs` describes the other arguments.

    Returns:
        ``items``, and by the name of each metric that is a mean over items its ``mean``, ``low`` and ``high``.
    """
    chosen = [outputs[place] for place in places]
    items = [pairs[place] for place in places]
    part: dict[str, Any] = {"items": len(places)}
    for metric in metrics:
        if metric.is_mean:
            score = estimate([metric.score(metric.count(chosen, items))])
            part[metric.name] = {"mean": score.mean, "low": score.low, "high": score.high}
    return part
