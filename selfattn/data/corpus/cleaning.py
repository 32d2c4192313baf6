"""Cleaning of pairs, and the counts of what was left out.

Each text is cleaned by :func:`selfattn.data.text.clean_text`, as every input of a model is. Pairs that are broken, not
UTF-8, empty or too long are left out; once all pairs are known (`corpus`), so are unlikely lengths, repeated pairs and
pairs shared with the held-out parts.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from selfattn.data.readers.rows import BadRecord, RawPair, is_encodable
from selfattn.data.text import clean_text
from selfattn.errors import UserError

_SHORT = 10.0  # characters added to both lengths before they are compared: ratios of short texts vary by chance


@dataclass(frozen=True)
class CleaningOptions:
    """What to clean. No limit applies to valid and test, so that scores are those of the complete files.

    Attributes:
        max_characters: longest text of either side in a training pair; default 1,000; None for no limit.
        max_ratio: how many times longer or shorter than expected the target of a training pair may be; default 3;
            None for no limit. See `is_unlikely`.
        duplicates: leave out repeated training pairs; default True.
        overlap: leave out training pairs whose source or target stands in valid or test; default True.
    """

    max_characters: int | None = 1000
    max_ratio: float | None = 3.0
    duplicates: bool = True
    overlap: bool = True


class Tally:
    """Counts of what cleaning did to one part, with the first place of each step.

    Args:
        part: ``"train"``, ``"valid"`` or ``"test"``.
        label: start of the places, such as the file's name.

    Attributes:
        read: lines or records read.
        dropped: number of lines left out by each step; a line counts for the first step only.

    Example:
        >>> tally = Tally("train", "a.tsv")
        >>> tally.read = 2
        >>> tally.drop("broken", BadRecord(2, "1 column(s), not 2"), "1 column(s), not 2")
        >>> print("\\n".join(tally.lines(1)))
        train: 2 read, 1 kept, 1 left out
          left out, broken: 1 (first a.tsv:2 1 column(s), not 2)
    """

    def __init__(self, part: str, label: str) -> None:
        self.part = part
        self.label = label
        self.read = 0
        self.dropped: Counter[str] = Counter()
        self._first: dict[str, str] = {}

    def drop(self, step: str, row: RawPair | BadRecord, detail: str = "") -> None:
        """Count the lines of a row that a step leaves out."""
        self.dropped[step] += row.lines if isinstance(row, BadRecord) else 1
        self._first.setdefault(step, f"{row.file or self.label}:{row.line} {detail}".rstrip())

    def lines(self, pairs: int, moved: Mapping[str, int] | None = None) -> list[str]:
        """Return the counts as text.

        Args:
            pairs: number of pairs in the part now.
            moved: pairs that were held out of this part, by part; default none.
        """
        parts = "".join(f", {count:,} moved to {name}" for name, count in (moved or {}).items())
        counts = f"{self.part}: {self.read:,} read, {pairs:,} kept, {self.dropped.total():,} left out{parts}"
        return [counts, *(f"  left out, {step}" for step in self.steps())]

    def refuse_empty(self, pairs: int, about: Sequence[str] = ()) -> None:
        """Raise where no pair is left.

        Args:
            pairs: number of pairs in the part now.
            about: how its files are understood; see `PairSource`.

        Raises:
            UserError: with the counts and the first places.
        """
        if not pairs:
            steps = "; ".join(self.steps()) or "there was none"
            understood = "".join(f"; {line}" for line in about)
            raise UserError(f"{self.label}: no pair is left for {self.part} after cleaning ({steps}){understood}")

    def steps(self) -> list[str]:
        """Return how many lines each step left out, with the first place."""
        return [f"{step}: {count:,} (first {self._first[step]})" for step, count in self.dropped.items()]


def clean_rows(
    rows: Iterable[RawPair | BadRecord], options: CleaningOptions, tally: Tally, *, limited: bool
) -> Iterator[RawPair]:
    """Clean pairs one by one, and count in the tally what is left out.

    Args:
        rows: as read.
        options: what to clean.
        tally: of the part.
        limited: whether `max_characters` applies, as it does for training pairs.

    Returns:
        The pairs that are kept, clean, in order.
    """
    for row in rows:
        if isinstance(row, BadRecord):
            tally.read += row.lines
            tally.drop("broken", row, row.reason)
            continue
        tally.read += 1
        if not is_encodable(row.source, row.target):
            tally.drop("invalid UTF-8", row)
            continue
        source = clean_text(row.source)
        target = clean_text(row.target)
        tag = clean_text(row.tag) if row.tag else ""
        longest = max(len(source), len(target))
        if not source or not target:
            tally.drop("empty", row)
        elif limited and options.max_characters and longest > options.max_characters:
            tally.drop("too long", row, f"{longest:,} characters")
        else:
            yield RawPair(row.line, source, target, row.file, tag)


def is_unlikely(pair: RawPair, expected: float, limit: float) -> bool:
    """Tell whether a target is more than `limit` times longer, or shorter, than its source lets expect.

    10 characters are added to both lengths first, so that "Hi." may become "안녕하세요.".

    Args:
        pair: a clean pair.
        expected: characters of target for one of source, such as the median of a corpus.
        limit: at least 1.

    Example:
        >>> [is_unlikely(RawPair(1, 30 * "a", n * "b"), expected=0.5, limit=4) for n in (5, 91)]
        [False, True]
    """
    expected_target = expected * len(pair.source) + _SHORT
    actual = len(pair.target) + _SHORT
    return actual > limit * expected_target or expected_target > limit * actual
