"""The embedded corpus for translation: phrases in any two languages of CLDR, without end and without a download."""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import count as count_up
from typing import get_args

from babel import Locale

from selfattn.data.dates.formats import find_locale
from selfattn.data.pairs import DrawnPairs, Pair, indices
from selfattn.data.phrases.kinds import Phrases
from selfattn.data.phrases.names import Which
from selfattn.data.phrases.text import Chance, Draft, aligned_pair, text_of
from selfattn.data.splits import EndlessSplits, Split
from selfattn.errors import UserError

LONGEST = 80
"""No text is longer than this."""

_SAMPLE = 20_000  # phrases that the vocabulary and the longest output are taken from
_TRIES = 64  # of a phrase of one kind, before another kind is tried


def part_of(target: str) -> Split:
    """Return the part that an open phrase belongs to by its target: about 80 % train, 10 % valid, 10 % test.

    Example:
        >>> part_of("3일 후")
        'train'
    """
    digest = hashlib.blake2b(f"selfattn cldr/{target}".encode(), digest_size=8).digest()
    hand = int.from_bytes(digest, "big") % 10
    return "test" if hand == 0 else "valid" if hand == 1 else "train"


@lru_cache(maxsize=4)
def _phrases(source: str, target: str, which: Which) -> Phrases:
    return Phrases((Locale.parse(source), Locale.parse(target)), which)


class CldrSource:
    """Phrases in one language and what CLDR says in another, as many as wanted, each found by its index.

    **What is drawn.** For every index independently: a kind of phrase, all kinds weighing the same, and a phrase of
    this kind. All words, patterns and plural forms are CLDR's (as Babel holds them), and so is all grammar that puts
    them together: lists, intervals, the joining of date and time, "per" patterns, the spacing of currencies, and the
    form of a locale's name. The kinds:

    ==============  ===========================================  ===============================
    kind            example                                      in Korean
    ==============  ===========================================  ===============================
    date            Wed, May 4, 2089                             2089년 5월 4일 (수)
    time            10:22 PM                                     PM 10:22
    date and time   February 3, 2024, 12:22 AM                   2024년 2월 3일 AM 12:22
    interval        December 1905 – February 1908                1905년 12월 ~ 1908년 2월
    span            in 3 days                                    3일 후
    duration        69 minutes, 52 seconds                       69분 52초
    unit            517 kilometers per hour                      시속 517킬로미터
    rate            3 cubic meters per minute                    분당 3세제곱미터
    currency        7,502 Mexican pesos                          7,502 멕시코 페소
    number          3,607.09                                     3,607.09
    percent         35.9%                                        35.9%
    names           Australia, Mexico, or Russia                 오스트레일리아, 멕시코 또는 러시아
    amounts         39 liters and $5.00                          39리터 및 US$5.00
    locale          German (South Africa)                        독일어 (남아프리카)
    ==============  ===========================================  ===============================

    A kind for which one of the languages has no data is left out; see `kinds`. Digits are Latin, and every space is
    the plain one: CLDR's no-break and thin spaces are not what people type. Being independent, draws repeat now and
    then.

    **One source text has one target text.** Forms that write the same source, but another target, are not both used:
    whole formats are left out where they always clash (a short unit written like the long one), single phrases where
    only these do (``May 3, 2024``, long and medium in English), and the same holds for names. There are no years of
    two digits, and no clock of twelve hours without its half of the day. So the source tells all of the target.

    **Parts.** The target text alone decides, by a hash that depends on nothing else (`part_of`): 80 % of the targets
    are for training, 10 % for validation, 10 % for the test. So no target is in two parts; and as a source has
    one target, no source is either. What cannot be made out from other phrases is for training only: one thing
    counted by a number whose plural form less than five of the numbers up to 100 share in one of the languages (the
    Arabic dual, which has no number in it; the English singular). A name is never a phrase of its own. It stands
    in lists and in names of locales, of which each part has its own; so every name can be learned in training.

    **Spans** are known from the patterns: year, month, day, weekday, hour, minute, second, period (the half of the
    day), number, unit (in a span of time with its direction), per, currency, percent, territory, language. What
    stands in two pieces on a side (시속 517킬로미터) has a span for each. A piece that tells two things has both: an
    hour of 24 is hour and period, the Arabic "two days" is number and unit.

    Args:
        source: CLDR locale of the source texts; default ``"en"``.
        target: CLDR locale of the target texts; default ``"ko"``.
        seed: of the draws (not of the parts); default 0.
        split: ``"train"`` (default), ``"valid"`` or ``"test"``.
        names: ``"common"`` (default): countries of the Group of Twenty, their languages and currencies, few enough
            for a small model to learn by heart in minutes; or ``"all"``, see `selfattn.data.phrases.names.codes`.

    Raises:
        UserError: an unknown locale, or another value of `names`.
        ValueError: another `split`.

    Attributes:
        kinds: the kinds of phrases, as they stand in `Pair.tag`.

    Example:
        >>> source = CldrSource("en", "ko")
        >>> for pair in source.pairs(3):
        ...     print(f"{pair.source} = {pair.target} ({pair.tag})")
        Sun, Nov 16 – Wed, Nov 26, 2081 = 2081년 11월 16일 (일) ~ 26일 (수) (interval)
        79% = 79% (percent)
        English (Brazil) and Japanese (China) = 영어 (브라질) 및 일본어 (중국) (locale)
        >>> source.pairs(1, start=2) == source.pairs(3)[2:]
        True
    """

    def __init__(
        self, source: str = "en", target: str = "ko", *, seed: int = 0, split: Split = "train", names: Which = "common"
    ) -> None:
        if split not in get_args(Split):
            raise ValueError(f"split must be 'train', 'valid' or 'test', not {split!r}")
        if names not in get_args(Which):
            raise UserError(f"no such set of names: {names!r}; choose common or all")
        self.source, self.target = str(find_locale(source)), str(find_locale(target))
        self.seed, self.split, self.names = seed, split, names
        self._draws = _phrases(self.source, self.target, names).kinds
        self.kinds = tuple(self._draws)

    def pairs(self, count: int, start: int = 0) -> list[Pair]:
        """Return the pairs with the indices from `start` to ``start + count - 1``.

        Args:
            count: how many.
            start: index of the first; default 0.

        Raises:
            ValueError: a negative number.
        """
        return list(self.drawn(count, start))

    def drawn(self, count: int, start: int = 0) -> DrawnPairs:
        """Return what `pairs` does, each pair made when it is asked for."""
        return DrawnPairs(self._pair, indices(count, start))

    def _pair(self, index: int) -> Pair:
        for kind, draft in self._drafts(index):
            target = draft.write(1)
            text = text_of(target)
            if self.split != ("train" if draft.closed else part_of(text)):
                continue
            pair = aligned_pair(draft.write(0), target, kind)
            if _proper(pair.source) and _proper(pair.target):
                return pair
        raise AssertionError  # pragma: no cover

    def _drafts(self, index: int) -> Iterator[tuple[str, Draft]]:
        kind = ""
        for attempt in count_up():
            name = f"{self.seed}/{self.split}/{index}/{attempt}"
            chance = Chance(int.from_bytes(hashlib.blake2b(name.encode(), digest_size=32).digest(), "big"))
            choice = chance.pick(self.kinds)
            if attempt % _TRIES == 0:
                kind = choice
            draft = self._draws[kind](chance)
            if draft:
                yield kind, draft


def _proper(text: str) -> bool:
    return 0 < len(text) <= LONGEST and unicodedata.is_normalized("NFC", text)


class EmbeddedPhrases(EndlessSplits):
    """Phrases of CLDR, without end: every epoch is new; no two parts share a source or a target.

    Args:
        source: locale of the sources.
        target: locale of the targets.
        seed: of the training pairs; validation and test are the same for every seed.
    """

    endless = "the embedded phrases are endless"

    def __init__(self, source: str, target: str, seed: int) -> None:
        CldrSource(source, target)  # which refuses what is no locale
        self.source, self.target = source, target
        settings = {"kind": "cldr", "source_language": source, "target_language": target}
        super().__init__(settings, f"cldr, {source} to {target}", seed)

    def sample(self) -> Sequence[Pair]:
        """Training pairs of seed 0."""
        return _sample(self.source, self.target)

    def draw(self, part: Split, seed: int, epoch: int, count: int) -> Sequence[Pair]:
        """The next pairs of the source; of validation and test the first different ones."""
        phrases = CldrSource(self.source, self.target, seed=seed, split=part)
        return phrases.drawn(count, start=epoch * count) if part == "train" else _different(phrases, count)


def _different(source: CldrSource, count: int) -> list[Pair]:
    """Draw until there are so many pairs with different sources: an item that comes twice would count twice."""
    found: dict[str, Pair] = {}
    start = 0
    while len(found) < count:
        for pair in source.pairs(count, start=start):
            found.setdefault(pair.source, pair)
        start += count
    return list(found.values())[:count]


@lru_cache(maxsize=8)
def _sample(source: str, target: str) -> list[Pair]:
    return CldrSource(source, target, seed=0, split="train").pairs(_SAMPLE)
