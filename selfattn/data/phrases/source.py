"""The embedded corpus for translation: endless phrases in any two languages of CLDR, without a download."""

import hashlib
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from itertools import count as count_up
from random import Random

from selfattn.data.dates.patterns import find_locale
from selfattn.data.pairs import Pair
from selfattn.data.phrases.kinds import kinds_of
from selfattn.data.phrases.segments import aligned_pair, text_of
from selfattn.data.splits import EndlessSplits, Split

LONGEST = 80
"""Most characters of a text."""

_SAMPLE = 20_000  # phrases that the vocabulary and the longest output are taken from
_TRIES = 64  # draws of one kind before another kind is tried


def part_of(target: str) -> Split:
    """Return the part of a phrase by its target: about 80 % train, 10 % valid, 10 % test.

    Example:
        >>> part_of("3일 후")
        'train'
    """
    digest = hashlib.blake2b(f"selfattn cldr/{target}".encode(), digest_size=8).digest()
    hand = int.from_bytes(digest, "big") % 10
    return "test" if hand == 0 else "valid" if hand == 1 else "train"


class CldrSource:
    """Phrases in two languages from CLDR, endless, each drawn from its index.

    Every index draws a kind of phrase (all kinds equally likely) and a phrase of that kind. Babel writes the phrase in
    both languages. The kinds:

    ==============  ===========================================  ===============================
    kind            example                                      in Korean
    ==============  ===========================================  ===============================
    date            Wed, May 4, 2089                             2089년 5월 4일 (수)
    time            10:22 PM                                     PM 10:22
    date and time   February 3, 2024, 12:22 AM                   2024년 2월 3일 AM 12:22
    span            in 3 days                                    3일 후
    unit            517 kilometers per hour                      시속 517킬로미터
    price           7,502 Mexican pesos                          7,502 멕시코 페소
    list            Australia, Mexico, or Russia                 오스트레일리아, 멕시코 또는 러시아
    ==============  ===========================================  ===============================

    A kind that one of the languages has no data for is left out; see `kinds`. Digits are Latin and spaces are plain.
    Draws are independent, so phrases repeat now and then.

    **One source text has one target text.** Formats that write the same source text with different targets are not
    both used. Years have four digits, and a clock of twelve hours always tells the half of the day.

    **Parts.** A hash of the target text decides (`part_of`): 80 % of the targets are for training, 10 % for
    validation, 10 % for the test. No target and no source is in two parts. An amount whose plural form fewer than five
    of the numbers up to 100 share (the English singular, the Arabic dual) is for training only.

    **Spans** (`Pair.spans`) name year, month, day, weekday, hour, minute, second, period (half of the day), number,
    unit, currency, territory and language. A field in two pieces on one side (시속 517킬로미터) has a span for each.

    Args:
        source: CLDR locale of the source texts; default ``"en"``.
        target: CLDR locale of the target texts; default ``"ko"``.
        seed: of the draws (not of the parts); default 0.
        split: ``"train"`` (default), ``"valid"`` or ``"test"``.

    Raises:
        UserError: an unknown locale.

    Attributes:
        kinds: names of the kinds of phrases, as in `Pair.tag`.

    Example:
        >>> source = CldrSource("en", "ko")
        >>> for pair in source.pairs(3):
        ...     print(f"{pair.source} = {pair.target} ({pair.tag})")
        1 degree = 1도 (unit)
        February 2, 2010, 10:56 PM = 2010년 2월 2일 PM 10:56 (date and time)
        9,867 Saudi riyals = 9,867 사우디아라비아 리얄 (price)
        >>> source.pairs(1, start=2) == source.pairs(3)[2:]
        True
    """

    def __init__(self, source: str = "en", target: str = "ko", *, seed: int = 0, split: Split = "train") -> None:
        self.seed = seed
        self.split = split
        self._draws = kinds_of((find_locale(source), find_locale(target)))
        self.kinds = tuple(self._draws)

    def pairs(self, count: int, start: int = 0) -> list[Pair]:
        """Return the pairs with the indices from `start` (default 0) to ``start + count - 1``."""
        return [self._pair(index) for index in range(start, start + count)]

    def _pair(self, index: int) -> Pair:
        kind = ""
        for attempt in count_up():
            chance = Random(f"{self.seed}/{self.split}/{index}/{attempt}")
            choice = chance.choice(self.kinds)
            kind = kind if attempt % _TRIES else choice
            draft = self._draws[kind](chance)
            if draft is None:
                continue
            target = draft.write(1)
            if self.split == ("train" if draft.train_only else part_of(text_of(target))):
                pair = aligned_pair(draft.write(0), target, kind)
                texts = pair.source, pair.target
                if all(0 < len(text) <= LONGEST and unicodedata.is_normalized("NFC", text) for text in texts):
                    return pair
        raise AssertionError  # pragma: no cover


class EmbeddedPhrases(EndlessSplits):
    """Endless phrases of CLDR: every epoch is new, and no two parts share a source or a target.

    Args:
        source: locale of the sources.
        target: locale of the targets.
        seed: of the training pairs; validation and test are the same for every seed.

    Raises:
        UserError: an unknown locale.
    """

    def __init__(self, source: str, target: str, seed: int) -> None:
        CldrSource(source, target)  # raises for an unknown locale
        self.source = source
        self.target = target
        settings = {"kind": "cldr", "source_language": source, "target_language": target}
        super().__init__(settings, f"cldr, {source} to {target}", seed)

    def sample(self) -> Sequence[Pair]:
        """Return training pairs of seed 0."""
        return self._sample(self.source, self.target)

    @staticmethod
    @lru_cache(maxsize=8)
    def _sample(source: str, target: str) -> list[Pair]:
        return CldrSource(source, target, seed=0, split="train").pairs(_SAMPLE)

    def draw(self, part: Split, seed: int, epoch: int, count: int) -> Sequence[Pair]:
        """Return the next pairs of the source; for validation and test the first that differ in their sources."""
        phrases = CldrSource(self.source, self.target, seed=seed, split=part)
        if part == "train":
            return phrases.pairs(count, start=epoch * count)
        pairs: dict[str, Pair] = {}  # by source: a repeated test item would count twice
        indices = count_up()
        while len(pairs) < count:
            (pair,) = phrases.pairs(1, next(indices))
            pairs.setdefault(pair.source, pair)
        return list(pairs.values())
