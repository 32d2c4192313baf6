"""What others reached in translation: published, by the checksum of the test, or stated by the user."""

from __future__ import annotations

import math

from selfattn.errors import SettingError
from selfattn.results.gates import Floor

_PASSES = 40 * 28_000  # pairs of Multi30k that a training has to see before it is held against others' on test2016
_ENGLISH_GERMAN = Floor(
    "bleu_lowercased_tokenised",
    36.0,
    "Wu et al. 2021, Transformer-Tiny: 41.0 on test2016 with at most 8,000 updates on lowercased, tokenised text",
    examples=_PASSES,
)
_GERMAN_ENGLISH = "Trevett, pytorch-seq2seq: {} on test2016 of Multi30k, lowercased and tokenised by spaCy"
# By the SHA-256 of the test pairs; a test counts as these authors' whatever its files are called.
PUBLISHED: dict[str, dict[str, Floor]] = {
    "8e62472e2e143ec73a97b7b84b5b125eb768005386a08ac87134850f43cc837b": {"transformer": _ENGLISH_GERMAN},
    "3f997f6b718ac5f97bb4f95cd2f8fdf3ba385aa6fc012405961b192496ccb4b4": {
        "rnn with attention": Floor(
            "bleu_lowercased_tokenised",
            28.3,
            _GERMAN_ENGLISH.format("28.3 by a GRU with additive attention"),
            examples=_PASSES,
        ),
        "transformer": Floor(
            "bleu_lowercased_tokenised", 36.5, _GERMAN_ENGLISH.format("36.5 by a Transformer of 9 M"), examples=_PASSES
        ),
    },
}


def stated_floor(text: str | None, source: str | None, language: str) -> Floor | None:
    """Read what is given as ``floor`` and ``floor_source`` of a comparison.

    Args:
        text: ``metric=value``; None for no floor.
        source: who reached what, on what.
        language: of the targets, which decides which metrics there are.

    Returns:
        None where no floor is stated.

    Raises:
        SettingError: there is no such metric, the value is out of its range, or one of the two is missing.

    Example:
        >>> stated_floor("bleu=38", "Smith 2026: 41.2", "de").value
        38.0
    """
    if text is None:
        if source is not None:
            raise SettingError("`floor_source`: says where which figure is from? Give `floor` metric=value as well")
        return None
    from selfattn.evaluation.metrics.exact import EXACT_MATCH
    from selfattn.evaluation.metrics.metric import make_metric
    from selfattn.evaluation.metrics.translation import translation_metrics

    metrics = (make_metric(name, language) for name in (EXACT_MATCH, *translation_metrics(language)))
    highest = {one.name: 1.0 if one.unit == "share" else 100.0 for one in metrics if one.better == "higher"}
    name, equals, number = text.partition("=")
    if not equals or name not in highest:
        raise SettingError(f"`floor` {text}: expected metric=value, the metric one of {', '.join(sorted(highest))}")
    try:
        value = float(number)
    except ValueError:
        value = math.nan
    if not 0 < value <= highest[name]:
        raise SettingError(f"`floor` {text}: expected a number above 0 and at most {highest[name]:g}, got {number}")
    if source is None or not source.strip():
        raise SettingError("`floor`: needs `floor_source`: who reached what, on what")
    return Floor(name, value, " ".join(source.split()))
