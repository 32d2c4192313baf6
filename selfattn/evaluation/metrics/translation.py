"""How good translations are: the scores that papers give, each with its signature, and tests between systems."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from selfattn.evaluation.metrics.corpus import (
    CorpusMetric,
    bleu_metric,
    chrf_metric,
    language_of,
    lowercased_bleu_metric,
    ter_metric,
)
from selfattn.evaluation.metrics.exact import exact_matches
from selfattn.evaluation.statistics.comparison import Comparison
from selfattn.evaluation.statistics.resampling import Array
from selfattn.evaluation.statistics.significance import compare_corpus

# Text of these languages is not cut by Moses, so there is no tradition of such a score.
_NOT_MOSES = ("zh", "ja", "ko", "th", "lo", "km", "my")


@dataclass(frozen=True)
class SignedScore:
    """A score with what must be known to compare it.

    Attributes:
        value: from 0 to 100 (TER: and above).
        signature: sacreBLEU's.
    """

    value: float
    signature: str


@dataclass(frozen=True)
class TranslationScores:
    """What translations of a test set are worth.

    Attributes:
        items: how many sentences.
        bleu: cased, on plain text, as sacreBLEU has it.
        chrf: chrF2; higher is better.
        ter: translation edit rate; lower is better.
        exact_match: share of translations that are the reference, character by character, from 0 to 1.
        bleu_lowercased_tokenised: the BLEU of older papers (`lowercased_bleu_metric`); None where Moses has no rules.
    """

    items: int
    bleu: SignedScore
    chrf: SignedScore
    ter: SignedScore
    exact_match: float
    bleu_lowercased_tokenised: SignedScore | None

    def metrics(self) -> dict[str, float]:
        """Return the figures by name.

        Example:
            >>> sorted(translation_scores(["Ein Hund."], ["Ein Hund."], target_language="de").metrics())
            ['bleu', 'bleu_lowercased_tokenised', 'chrf', 'exact_match', 'ter']
        """
        return {"exact_match": self.exact_match} | {name: score.value for name, score in self._signed().items()}

    def signatures(self) -> dict[str, str]:
        """Return the signatures by the name of the score."""
        return {name: score.signature for name, score in self._signed().items()}

    def to_json(self) -> dict[str, Any]:
        """Return all of it as plain JSON values."""
        return {"items": self.items, "metrics": self.metrics(), "signatures": self.signatures()}

    def _signed(self) -> dict[str, SignedScore]:
        found = {"bleu": self.bleu, "chrf": self.chrf, "ter": self.ter}
        if self.bleu_lowercased_tokenised is not None:
            found["bleu_lowercased_tokenised"] = self.bleu_lowercased_tokenised
        return found


def translation_scores(
    hypotheses: Sequence[str], references: Sequence[str], *, target_language: str
) -> TranslationScores:
    """Score translations against one reference each.

    Args:
        hypotheses: plain text, as a reader would see it.
        references: likewise, in the same order.
        target_language: ISO 639 code, with or without a country; it decides how BLEU cuts the text.

    Raises:
        ValueError: no hypotheses, or not as many references.

    Example:
        >>> scores = translation_scores(["Ein Hund rennt."], ["Ein Hund rennt!"], target_language="de")
        >>> round(scores.bleu.value, 1), scores.exact_match
        (59.5, 0.0)
        >>> scores.bleu.signature.partition("|version")[0]
        'nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp'
    """
    found = {
        name: SignedScore(metric.score(hypotheses, references), metric.signature)
        for name, metric in translation_metrics(target_language).items()
    }
    return TranslationScores(
        items=len(hypotheses),
        bleu=found["bleu"],
        chrf=found["chrf"],
        ter=found["ter"],
        exact_match=sum(exact_matches(hypotheses, references)) / len(hypotheses),
        bleu_lowercased_tokenised=found.get("bleu_lowercased_tokenised"),
    )


def translation_metrics(target_language: str) -> dict[str, CorpusMetric]:
    """Return the metrics for translations into a language, by name.

    Args:
        target_language: ISO 639 code, with or without a country.

    Example:
        >>> list(translation_metrics("ko"))
        ['bleu', 'chrf', 'ter']
    """
    metrics = [bleu_metric(target_language), chrf_metric(), ter_metric()]
    if language_of(target_language) not in _NOT_MOSES:
        metrics.append(lowercased_bleu_metric(target_language))
    return {metric.name: metric for metric in metrics}


def compare_translations(
    hypotheses: Mapping[str, Sequence[Sequence[str]]], references: Sequence[str], metric: CorpusMetric
) -> Comparison:
    """Compare models by a score of the whole corpus, over seeds and sentences together.

    See `compare_corpus`. Where lower is better (TER), the scores compared are less
    than 0, so that "better" means what it says.

    Args:
        hypotheses: for each model the translations of each of its runs.
        references: one for each sentence.
        metric: such as ``bleu_metric("de")``.

    Raises:
        ValueError: no model, no run, or not as many translations as references.

    Example:
        >>> right = [f"the dog number {number} runs" for number in range(50)]
        >>> wrong = [text.replace("runs", "ran") for text in right]
        >>> found = compare_translations({"a": [right] * 3, "b": [wrong] * 3}, right, bleu_metric("en"))
        >>> found.between("a", "b").word
        'better'
    """
    sign = 1.0 if metric.higher_is_better else -1.0

    def score(sums: Array) -> Array:
        return sign * metric.from_sums(sums)

    statistics = {
        name: np.stack([metric.statistics(run, references) for run in runs]) for name, runs in hypotheses.items()
    }
    return compare_corpus(statistics, score)


def paired_sacrebleu(
    first: Sequence[str],
    second: Sequence[str],
    references: Sequence[str],
    metric: CorpusMetric,
    *,
    test: Literal["randomisation", "bootstrap"] = "randomisation",
    samples: int | None = None,
) -> float:
    """Test two systems, one run each, as sacreBLEU does: a check from outside on `compare_translations`.

    Approximate randomisation (Riezler and Maxwell 2005) or the paired bootstrap (Koehn 2004), two-sided, with the seed
    that the environment variable SACREBLEU_SEED names, 12345 where it names none. Both know nothing of seeds of
    training. On one run each, randomisation and `compare_translations` give nearly the same p. The bootstrap of
    sacreBLEU gives about half of it or less: it takes the drawn differences without their sign before it subtracts
    their mean, and so finds too much.

    Args:
        first: translations of the one system.
        second: translations of the other.
        references: one for each sentence.
        metric: such as ``bleu_metric("de")``.
        test: default ``"randomisation"``.
        samples: default sacreBLEU's, 10,000 for randomisation and 1,000 for the bootstrap.

    Returns:
        p. It is never below 1 / (samples + 1). For equal translations it is small by the definition of the tests
        (differences larger than 0 are counted, and there are none): do not ask about those.

    Raises:
        ValueError: no references, or not as many translations.
    """
    from sacrebleu.significance import PairedTest, Result

    if not references or not len(first) == len(second) == len(references):
        raise ValueError(f"expected {len(references)} translations of each, got {len(first)} and {len(second)}")
    systems = [("first", metric.prepare(first)), ("second", metric.prepare(second))]
    paired = PairedTest(
        systems,
        {metric.name: metric.sacrebleu},
        [metric.prepare(references)],
        test_type="bs" if test == "bootstrap" else "ar",
        n_samples=samples or 0,
    )
    _, columns = paired()
    (p,) = [result.p_value for column in columns.values() for result in column if isinstance(result, Result)][1:]
    if p is None:
        raise AssertionError("sacreBLEU gave no p for the second system")
    return p
