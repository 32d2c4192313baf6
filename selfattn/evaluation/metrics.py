"""What a metric is, and how to make a metric by its name.

A metric counts for every item what its score is made of, and turns counts that were added up over any choice of items
into a score. So every statistic works on every metric. Letters: `s` seeds, `i` items, `k` counts an item.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, NamedTuple, TypeAlias, final, get_args
from unicodedata import is_normalized

import numpy as np
import numpy.typing as npt

from selfattn.data.languages import read_language
from selfattn.data.pairs import Pair, compose
from selfattn.errors import SettingError, UserError, number_of
from selfattn.registry import METRICS, register
from selfattn.results.quality import Better, Headline, Unit

if TYPE_CHECKING:
    from selfattn.decoding.scoring import TargetScore


Array = npt.NDArray[np.float64]
TestItems: TypeAlias = Sequence[Pair] | Sequence[str]
"""Test items, or their references alone."""


class ItemTest(NamedTuple):
    """Intervals of systems on the same items, and their test.

    Attributes:
        ends: of the 95 % interval of each system.
        p: of the paired test of two systems, two-sided; None for one system.
        signature: of the metric and of the test.
    """

    ends: Sequence[tuple[float | None, float | None]]
    p: float | None
    signature: str


class Metric(ABC):
    """How good outputs are, as a function of sums over items.

    Register a subclass with ``@register.metric(name)``. `make_metric` hands over the language of the targets as a code
    of ISO 639, with script and country where they were named (``ja``, ``zh_Hant``, ``pt_BR``); ``""`` where it is
    unknown.

    Attributes:
        name: as in a record.
        unit: ``"share"`` (0 to 1, shown in percent), ``"points"`` (0 to 100), ``"bits"`` or ``"number"`` (0 or more).
        better: whether ``"higher"`` or ``"lower"`` scores are better.
        lowest: the smallest possible score.
        signature: how it is computed, to be quoted with the score; empty where nothing is left open.
        is_mean: whether the score of many items is the mean of the scores of each, for which intervals and tests are
            known in closed form; those of other metrics are drawn.
        beside: names of metrics on which models are tested, too, where this one decides.
    """

    name: ClassVar[str]
    unit: ClassVar[Unit] = "share"
    better: ClassVar[Better] = "higher"
    lowest: ClassVar[float] = 0.0
    is_mean: ClassVar[bool] = False
    beside: ClassVar[tuple[str, ...]] = ()
    signature: str = ""

    def __init__(self, language: str = "") -> None:
        self.language = language

    @abstractmethod
    def counts(self, outputs: Sequence[str], references: Sequence[str]) -> Array:
        """Count for each item what the score is made of.

        Args:
            outputs: what a model wrote.
            references: the right ones, in the same order.

        Returns:
            ``[i k]``.
        """

    def count(self, outputs: Sequence[str], items: TestItems) -> Array:
        """Count for each item what the score is made of, ``[i k]``; the statistics call this.

        Here it hands the references to `counts`. A `PairMetric` sees sources and tags as well.

        Args:
            outputs: what a model wrote.
            items: the test items, or their references alone.
        """
        return self.counts(outputs, [item.target if isinstance(item, Pair) else item for item in items])

    def score(self, sums: Array) -> Array:
        """Turn counts that were added up over items, ``[.. k]``, into scores ``[..]``; here the :func:`ratio`."""
        return ratio(sums)

    def of(self, outputs: Sequence[str], items: TestItems) -> float:
        """Score all outputs together; at least one. For the arguments see `count`."""
        return float(self.score(self.count(outputs, items).sum(axis=0)))

    def count_runs(self, outputs: Mapping[str, Sequence[Sequence[str]]], items: TestItems) -> dict[str, Array]:
        """Count for each model what its runs wrote.

        Args:
            outputs: for each model the outputs of each of its runs.
            items: see `count`.

        Returns:
            For each model ``[s i k]``.
        """
        return {name: np.stack([self.count(run, items) for run in runs]) for name, runs in outputs.items()}

    def tested(self, counts: Sequence[Array]) -> ItemTest | None:
        """Test one or two systems as the metric's users do; default None: as `statistics.significance` does.

        Args:
            counts: of each system ``[i k]``, on the same items.
        """
        return None

    @property
    def headline(self) -> Headline:
        """What a record says of the metric where it decides."""
        return Headline(self.name, self.unit, self.signature, self.better)


class PairMetric(Metric):
    """A metric that sees the source and the tag of every item, such as a learned one, or a mean over tags."""

    @abstractmethod
    def count_pairs(self, outputs: Sequence[str], pairs: Sequence[Pair]) -> Array:
        """Count for each item what the score is made of.

        Args:
            outputs: what a model wrote.
            pairs: the test items, in the same order, with their sources, references (`target`) and tags.

        Returns:
            ``[i k]``.
        """

    @final
    def counts(self, outputs: Sequence[str], references: Sequence[str]) -> Array:
        """Count where nothing but the references is known: sources and tags are empty."""
        return self.count_pairs(outputs, [Pair("", reference) for reference in references])

    @final
    def count(self, outputs: Sequence[str], items: TestItems) -> Array:
        """Hand over the items as pairs."""
        return self.count_pairs(outputs, [item if isinstance(item, Pair) else Pair("", item) for item in items])


def _problem(metric: type[Metric]) -> str | None:
    for name, values in (("unit", get_args(Unit)), ("better", get_args(Better))):
        if getattr(metric, name) not in values:
            return f"{name} {getattr(metric, name)!r}: expected {' or '.join(values)}"
    return None


METRICS.expect(Metric, _problem)


def make_metric(name: str, language: str = "") -> Metric:
    """Return a metric by its name.

    Args:
        name: such as ``exact_match`` or ``bleu``.
        language: of the targets, a code or an English name, see `selfattn.data.languages.read_language`; default
            unknown.

    Raises:
        UserError: there is no such metric or no such language, or the metric is not for this language.

    Example:
        >>> make_metric("exact_match").of(["2008-11-13", "2008-11-14"], ["2008-11-13", "2008-11-13"])
        0.5
    """
    metric: Metric = METRICS[name](read_language(language).locale if language else "")
    return metric


def score_outputs(
    metrics: Iterable[str], outputs: Sequence[str], items: TestItems, language: str = ""
) -> dict[str, float]:
    """Score outputs by several metrics.

    Args:
        metrics: their names.
        outputs: what a model wrote.
        items: the test items, or their references alone, in the same order.
        language: of the references; default unknown.

    Example:
        >>> score_outputs(["exact_match", "character_error_rate"], ["ab", "abcd"], ["ab", "abce"])
        {'exact_match': 0.5, 'character_error_rate': 0.16666666666666666}
    """
    return {name: make_metric(name, language).of(outputs, items) for name in metrics}


def of_each(scores: Sequence[float]) -> Array:
    """Make the counts of a metric whose score is the mean of ``scores``: each beside a 1.

    Example:
        >>> of_each([True, False]).tolist()
        [[1.0, 1.0], [0.0, 1.0]]
    """
    return np.stack([np.asarray(scores, dtype=np.float64), np.ones(len(scores))], axis=-1)


def ratio(sums: Array) -> Array:
    """Divide the first of two counts by the second."""
    return np.asarray(sums[..., 0] / sums[..., 1])


class _OfTexts(Metric):
    """A metric that compares each output with its reference, both in form NFC."""

    @abstractmethod
    def compare(self, output: str, reference: str) -> tuple[float, float]:
        """Return the two counts of an item."""

    def counts(self, outputs: Sequence[str], references: Sequence[str]) -> Array:
        """Compare each output with its reference."""
        pairs = zip(map(compose, outputs), map(compose, references), strict=True)
        return np.array([self.compare(*pair) for pair in pairs], dtype=np.float64).reshape(-1, 2)


EXACT_MATCH = "exact_match"


@final
@register.metric("exact_match")
class ExactMatch(_OfTexts):
    """Share of outputs that equal the reference, character by character.

    Example:
        >>> ExactMatch().of(["2008-11-13", "2008-11-14"], ["2008-11-13", "2008-11-13"])
        0.5
        >>> ExactMatch().of(["cafe\\N{COMBINING ACUTE ACCENT}"], ["caf\\N{LATIN SMALL LETTER E WITH ACUTE}"])
        1.0
    """

    is_mean = True

    def compare(self, output: str, reference: str) -> tuple[float, float]:
        """Count right outputs, and outputs."""
        return output == reference, 1


@final
@register.metric("character_error_rate")
class CharacterErrorRate(_OfTexts):
    """Character edits (insert, delete, replace) that turn outputs into references, divided by the references' length.

    Can be above 1 where outputs are much too long.

    Example:
        >>> CharacterErrorRate().of(["2008-11-13", "208-11-1"], ["2008-11-13", "2008-11-13"])
        0.1
    """

    better = "lower"

    def compare(self, output: str, reference: str) -> tuple[float, float]:
        """Count edits, and characters of the reference."""
        return edit_distance(output, reference), len(reference)


@final
@register.metric("word recall")
class WordRecall(_OfTexts):
    r"""Share of the references' words that the outputs have.

    .. math:: \frac{\sum_i \sum_w \min(h_i(w), r_i(w))}{\sum_i \sum_w r_i(w)}

    with :math:`h_i(w)` and :math:`r_i(w)` how often word w occurs in the output and the reference of item i: BLEU's
    clipped counts, divided by the reference. Word order does not matter.

    Example:
        >>> WordRecall().of(["the cat", "a dog"], ["the cow", "a dog"])
        0.75
    """

    def compare(self, output: str, reference: str) -> tuple[float, float]:
        """Count the words that both have, and those of the reference."""
        right = Counter(words_of(reference))
        return (Counter(words_of(output)) & right).total(), right.total()


@final
@register.metric("word accuracy")
class WordAccuracy(_OfTexts):
    r"""How many words of outputs and references are the same: the F-measure of precision and recall.

    .. math:: \frac{2 \sum_i \sum_w \min(h_i(w), r_i(w))}{\sum_i \sum_w h_i(w) + r_i(w)}

    with :math:`h_i(w)` and :math:`r_i(w)` how often word w occurs in the output and the reference of item i. Words are
    what stands between spaces; their order does not matter.

    Example:
        >>> round(WordAccuracy().of(["the cat", "a dog barks"], ["the cow", "a dog"]), 3)
        0.667
    """

    def compare(self, output: str, reference: str) -> tuple[float, float]:
        """Count twice the words that both have, and the words of both."""
        written = Counter(output.split())
        right = Counter(reference.split())
        return 2 * (written & right).total(), written.total() + right.total()

    def score(self, sums: Array) -> Array:
        """Return the F-measure, 0 where there is no word."""
        return np.asarray(sums[..., 0] / np.maximum(sums[..., 1], 1))


@final
@register.metric("word_error_rate")
class WordErrorRate(_OfTexts):
    """Share of outputs that are not the reference, as shared tasks on pronunciation count: an item is a word.

    Speech recognition calls the edits of words by this name; those of all parts between spaces are `PhoneErrorRate`.

    Example:
        >>> WordErrorRate().of(["k æ t", "d ɑ ɡ"], ["k æ t", "d ɔ ɡ"])
        0.5
    """

    better = "lower"
    is_mean = True
    beside = ("phone_error_rate",)

    def compare(self, output: str, reference: str) -> tuple[float, float]:
        """Count wrong outputs, and outputs."""
        return output != reference, 1


@final
@register.metric("phone_error_rate")
class PhoneErrorRate(_OfTexts):
    """Edits (insert, delete, replace) of what stands between spaces, such as phones, divided by the references' number.

    Can be above 1 where outputs are much too long.

    Example:
        >>> round(PhoneErrorRate().of(["k æ t", "d ɑ ɡ"], ["k æ t", "d ɔ ɡ"]), 3)
        0.167
    """

    better = "lower"

    def compare(self, output: str, reference: str) -> tuple[float, float]:
        """Count edits, and phones of the reference."""
        right = reference.split()
        return edit_distance(output.split(), right), len(right)


class Macro(PairMetric):
    """The mean over tags, such as languages or cases, of another metric. A subclass names it, and has its `better`.

    Its counts are those of the other metric, laid into the columns of the item's tag, so that sums over any choice of
    items give a score of each tag. A tag without items in such a choice does not count.

    Attributes:
        inner: the other metric.
    """

    inner: ClassVar[type[Metric]]

    def __init__(self, language: str = "") -> None:
        super().__init__(language)
        self._metric = self.inner(language)
        self._width = self._metric.counts(["a"], ["a"]).shape[-1]
        self.signature = self._metric.signature

    def count_pairs(self, outputs: Sequence[str], pairs: Sequence[Pair]) -> Array:
        """Lay the counts of the other metric into the columns of each item's tag, ``[i t*k]``.

        Raises:
            SettingError: no item has a tag.
        """
        tags = sorted({pair.tag for pair in pairs})
        if tags == [""]:
            raise SettingError(f"`metric` {self.name}: a mean over tags, but no pair has one; give `tag`, their column")
        places = {tag: place for place, tag in enumerate(tags)}
        columns = [places[pair.tag] for pair in pairs]
        counts = np.zeros((len(pairs), len(tags), self._width))
        counts[np.arange(len(pairs)), columns] = self._metric.count(outputs, pairs)
        return counts.reshape(len(pairs), -1)

    def score(self, sums: Array) -> Array:
        """Return the mean over those tags that have items."""
        by_tag = sums.reshape(*sums.shape[:-1], -1, self._width)
        has_items = np.asarray(by_tag.any(axis=-1))
        scores = self._metric.score(np.where(has_items[..., None], by_tag, 1.0))
        return np.asarray((scores * has_items).sum(axis=-1) / has_items.sum(axis=-1))


@final
@register.metric("macro_exact_match")
class MacroExactMatch(Macro):
    """The mean over tags of the share of right outputs.

    Example:
        >>> pairs = [Pair("a", "1", tag="x"), Pair("b", "1", tag="x"), Pair("c", "1", tag="y")]
        >>> MacroExactMatch().of(["1", "2", "2"], pairs)
        0.25
    """

    inner = ExactMatch


@final
@register.metric("macro_word_error_rate")
class MacroWordErrorRate(Macro):
    """The mean over tags, such as languages, of the share of outputs that are not the reference."""

    inner = WordErrorRate
    better = "lower"
    beside = ("macro_phone_error_rate",)


@final
@register.metric("macro_phone_error_rate")
class MacroPhoneErrorRate(Macro):
    """The mean over tags, such as languages, of the phone error rate."""

    inner = PhoneErrorRate
    better = "lower"


def decomposed_note(label: str, texts: Iterable[str]) -> str | None:
    """Say that texts are not in form NFC, as file names of macOS and some tools write them; None where all are.

    Args:
        label: of the texts, for the note.
        texts: outputs or references.

    Example:
        >>> decomposed_note("a.txt", ["cafe\\N{COMBINING ACUTE ACCENT}", "tea"])
        'a.txt: 1 text is not in Unicode form NFC; shares and character metrics compose it, BLEU and TER do not'
        >>> decomposed_note("a.txt", ["tea"]) is None
        True
    """
    count = sum(not is_normalized("NFC", text) for text in texts)
    if not count:
        return None
    are, them = ("is", "it") if count == 1 else ("are", "them")
    reason = f"{number_of(count, 'text')} {are} not in Unicode form NFC"
    return f"{label}: {reason}; shares and character metrics compose {them}, BLEU and TER do not"


def words_of(text: str) -> list[str]:
    """Cut a text into words: runs of letters, digits and underscores, in lower case.

    Example:
        >>> words_of("Ein U-Bahn-Schild, 2 Männer")
        ['ein', 'u', 'bahn', 'schild', '2', 'männer']
    """
    return re.findall(r"\w+", text.lower())


def edit_distance(first: Sequence[str], second: Sequence[str]) -> int:
    """Count the fewest insertions, deletions and replacements between two texts, or lists of words (Levenshtein 1966).

    Example:
        >>> edit_distance("kitten", "sitting")
        3
    """
    if first == second:
        return 0
    # Row k of the table: distances between first[:k] and every prefix of second.
    row = list(range(len(second) + 1))
    for k, character in enumerate(first, 1):
        diagonal = row[0]
        row[0] = k
        for j, other in enumerate(second, 1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (character != other))
    return row[-1]


BITS_PER_CHARACTER = "bits_per_character"
PERPLEXITY = "perplexity"
_ROUNDING = 1e-4  # relative; a text that is read beside others has slightly different nats


def write_counts(score: TargetScore) -> str:
    """Write how probable a text is.

    Example:
        >>> from selfattn.decoding.scoring import TargetScore
        >>> write_counts(TargetScore(-31.25, 14))
        '31.250000 14'
    """
    return f"{-score.log_probability:.6f} {score.tokens}"


def read_counts(output: str) -> tuple[float, int]:
    """Read the nats and the tokens of a text.

    Raises:
        UserError: it is another output than that of a language model.
    """
    nats, _, tokens = output.partition(" ")
    try:
        return float(nats), int(tokens)
    except ValueError:
        reason = "is for language models, whose outputs are counts of texts"
        raise UserError(f"{BITS_PER_CHARACTER}, {PERPLEXITY}: {reason}; choose another metric") from None


def counts_agree(first: str, second: str) -> bool:
    """Whether two counts are equal, but for rounding."""
    nats, tokens = read_counts(first)
    nats_again, tokens_again = read_counts(second)
    return tokens == tokens_again and math.isclose(nats, nats_again, rel_tol=_ROUNDING, abs_tol=_ROUNDING)


@final
@register.metric(BITS_PER_CHARACTER)
class BitsPerCharacter(Metric):
    """All bits of texts, those of their ends too, divided by their characters; it compares models with other tokens.

    Example:
        >>> BitsPerCharacter().of([f"{8 * math.log(2)} 5"], ["abcd"])
        2.0
    """

    unit = "bits"
    better = "lower"
    signature = "ends counted"

    def counts(self, outputs: Sequence[str], references: Sequence[str]) -> Array:
        """Count bits and characters."""
        bits = [read_counts(output)[0] / math.log(2) for output in outputs]
        return np.array([bits, list(map(len, references))], dtype=np.float64).T


@final
@register.metric(PERPLEXITY)
class Perplexity(Metric):
    """``exp`` of the nats a token, ends included: as if the model chose among this many equally probable tokens.

    Example:
        >>> round(Perplexity().of([f"{5 * math.log(7)} 5"], ["abcd"]), 6)
        7.0
    """

    unit = "number"
    better = "lower"
    signature = "ends counted"

    def counts(self, outputs: Sequence[str], references: Sequence[str]) -> Array:
        """Count nats and tokens."""
        return np.array([read_counts(output) for output in outputs], dtype=np.float64)

    def score(self, sums: Array) -> Array:
        """Turn added counts ``[.. 2]`` into perplexities."""
        return np.exp(super().score(sums))
