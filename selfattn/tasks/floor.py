"""What others reached on the same data, as the user states it."""

from __future__ import annotations

import math

from selfattn.errors import UserError
from selfattn.evaluation.metrics.metric import make_metric
from selfattn.evaluation.metrics.translation import translation_metrics
from selfattn.figures.gates import Floor


def stated_floor(text: str | None, source: str | None, target_language: str) -> Floor | None:
    """Read ``--floor`` and ``--floor-source`` of a comparison of translations.

    Args:
        text: ``metric=value``; None for no floor.
        source: who reached what, on what.
        target_language: decides which metrics there are.

    Returns:
        None where no floor is stated.

    Raises:
        UserError: there is no such metric, the value is out of its range, or one of the two is missing.

    Example:
        >>> stated_floor("bleu=38", "Smith 2026: 41.2", "de")
        Floor(metric='bleu', value=38.0, source='Smith 2026: 41.2')
    """
    if text is None:
        if source is not None:
            raise UserError("--floor-source: says where which figure is from? Give --floor metric=value as well")
        return None
    highest = {"exact_match": 1.0} | {
        name: 100.0
        for name in translation_metrics(target_language)
        if make_metric(name, target_language).better == "higher"
    }
    name, equals, number = text.partition("=")
    if not equals or name not in highest:
        raise UserError(f"--floor {text}: expected metric=value, the metric one of {', '.join(sorted(highest))}")
    try:
        value = float(number)
    except ValueError:
        value = math.nan
    if not 0 < value <= highest[name]:
        raise UserError(f"--floor {text}: expected a number above 0 and at most {highest[name]:g}, got {number}")
    if source is None or not source.strip():
        raise UserError("--floor: needs --floor-source: who reached what, on what")
    return Floor(name, value, " ".join(source.split()))
