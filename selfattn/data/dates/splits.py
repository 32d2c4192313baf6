"""Dates in three parts: generated, endless, with probes; or from files."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from selfattn.data.dates.probes import unseen_formats, unseen_years, withheld_years
from selfattn.data.dates.source import DateSource, calendar_notes
from selfattn.data.pairs import Pair
from selfattn.data.readers.pairs import PairFiles
from selfattn.data.splits import EndlessSplits, FiniteSplits, Split, split_pairs

_SAMPLE = 20_000  # dates for the vocabulary and the longest output
_PROBES = 500  # dates of each probe


class EmbeddedDates(EndlessSplits):
    """Endless generated dates: every epoch is new, and no two parts share a day.

    Args:
        locales: CLDR locales.
        seed: of the training pairs; validation and test are the same for every seed.
        withheld: years that are in no part; default none.
    """

    def __init__(self, locales: Sequence[str], seed: int, withheld: Sequence[int] = ()) -> None:
        DateSource(locales, without=withheld)  # raises for an unknown locale, or where no year is left
        self.locales = tuple(locales)
        self.withheld = tuple(withheld)
        settings: dict[str, Any] = {"kind": "embedded", "locales": [*locales]}
        if withheld:
            settings["withheld_years"] = [*withheld]
        super().__init__(settings, f"embedded dates, {','.join(locales)}", seed)
        self.notes = calendar_notes(locales)

    def sample(self) -> Sequence[Pair]:
        """Return training pairs of seed 0."""
        return self._sample(self.locales, self.withheld)

    @staticmethod
    @lru_cache(maxsize=4)
    def _sample(locales: tuple[str, ...], withheld: tuple[int, ...]) -> Sequence[Pair]:
        return DateSource(locales, seed=0, split="train", without=withheld).pairs(_SAMPLE)

    def draw(self, part: Split, seed: int, epoch: int, count: int) -> Sequence[Pair]:
        """Return the next pairs of the source."""
        return DateSource(self.locales, seed=seed, split=part, without=self.withheld).pairs(count, start=epoch * count)

    def probes(self) -> Mapping[str, Sequence[Pair]]:
        """Return dates of years, and in formats, that are not in the training data."""
        probes = {
            "unseen years": unseen_years(self.locales, _PROBES),
            "withheld years": withheld_years(self.locales, self.withheld, _PROBES),
            "unseen formats": unseen_formats(self.locales, _PROBES),
        }
        return {name: pairs for name, pairs in probes.items() if pairs}


def file_dates(files: PairFiles, seed: int, validation_items: int) -> FiniteSplits:
    """Read pairs from files, and split them by source; the book's file has its own split (seed 1984, the last tenth).

    Args:
        files: of pairs.
        seed: see `FiniteSplits`.
        validation_items: see `split_pairs`.

    Raises:
        UserError: the files cannot be read, or have too few pairs.
    """
    split = {"split": "book" if files.is_book else "by source", "validation_items": validation_items}
    name = " ".join(map(str, files.paths))
    settings = {"kind": "file"} | files.settings | split
    return split_pairs(files.read(), seed, validation_items, settings, name, book=files.is_book)
