"""The question of the built-in tasks, their published baselines, and baselines that a user states."""

import math
from pathlib import Path

from selfattn.errors import SettingError
from selfattn.results.subject import Baseline, Subject

# Three passes through nine tenths of the book's 50,000 pairs. Nobody has published a Transformer on these pairs.
_BOOK = Baseline(
    "exact_match",
    0.95,
    "Saito 2018, section 8.2: 0.999 by an RNN with attention after 135,000 pairs, 3 passes through the book's dates",
    examples=135_000,
    distinct=45_000,
)
DATES: dict[str, Baseline] = {"rnn with attention": _BOOK, "transformer": _BOOK}

_METRIC = "bleu_lowercased_tokenised"
_PASSES = 40 * 28_000  # pairs of Multi30k before a run is compared with these
_TREVETT = "Trevett, pytorch-seq2seq: {} on test2016 of Multi30k, lowercased and tokenised by spaCy"
_WU = "Wu et al. 2021, Transformer-Tiny: 41.0 on test2016 with at most 8,000 updates on lowercased, tokenised text"
# By the SHA-256 of the test pairs, so that the names of the files do not matter.
TRANSLATION: dict[str, dict[str, Baseline]] = {
    "8e62472e2e143ec73a97b7b84b5b125eb768005386a08ac87134850f43cc837b": {
        "transformer": Baseline(_METRIC, 36.0, _WU, examples=_PASSES)
    },
    "3f997f6b718ac5f97bb4f95cd2f8fdf3ba385aa6fc012405961b192496ccb4b4": {
        "rnn with attention": Baseline(
            _METRIC, 28.3, _TREVETT.format("28.3 by a GRU with additive attention"), examples=_PASSES
        ),
        "transformer": Baseline(_METRIC, 36.5, _TREVETT.format("36.5 by a Transformer of 9 M"), examples=_PASSES),
    },
}


def subject_of(task: str) -> Subject:
    """Return the question of a built-in task, Transformer or RNN with attention, with the task's words."""
    from selfattn.words.messages import read_words

    words = read_words(Path(__file__).parent / "words", task)
    return Subject(("transformer", "rnn-attention"), words)


def stated_baseline(text: str | None, source: str | None, language: str) -> Baseline | None:
    """Read the options ``baseline`` and ``baseline_source`` of a comparison.

    Args:
        text: ``metric=value``; None for no baseline.
        source: who reached what, on what.
        language: of the targets; decides which metrics there are.

    Returns:
        The baseline, or None without `text`.

    Raises:
        SettingError: an unknown metric, a value out of its range, or one of the two options is missing.

    Example:
        >>> stated_baseline("bleu=38", "Smith 2026: 41.2", "de").value
        38.0
    """
    if text is None and source is None:
        return None
    if text is None or source is None or not source.strip():
        raise SettingError("`baseline` metric=value and `baseline_source`, who reached it on what, go together")
    from selfattn.evaluation.metrics import EXACT_MATCH, make_metric
    from selfattn.evaluation.translation_metrics import translation_metrics

    metrics = [make_metric(name, language) for name in (EXACT_MATCH, *translation_metrics(language))]
    highest = {metric.name: 1.0 if metric.unit == "share" else 100.0 for metric in metrics if metric.better == "higher"}
    name, _, number = text.partition("=")
    try:
        value = float(number)
    except ValueError:
        value = math.nan
    if not 0 < value <= highest.get(name, 0.0):
        allowed = ", ".join(f"{metric} (at most {limit:g})" for metric, limit in sorted(highest.items()))
        raise SettingError(f"`baseline` {text}: expected metric=value, a value above 0 of one of {allowed}")
    return Baseline(name, value, " ".join(source.split()))
