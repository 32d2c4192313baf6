"""The pairs of the dates task in three parts: the endless source, or a file of pairs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from selfattn.data.dates.source import DateSource, unseen_formats, unseen_years, withheld_years
from selfattn.data.pairs import Pair
from selfattn.data.readers.lines import file_sha256
from selfattn.data.readers.records import is_book_file, read_pairs
from selfattn.data.splits import EndlessSplits, FiniteSplits, Split
from selfattn.errors import UserError

_SAMPLE = 20_000  # dates for the vocabulary and the longest output
_PROBES = 500  # dates of each probe


class EmbeddedDates(EndlessSplits):
    """Endless generated dates: every epoch is new, and no two parts share a day.

    Args:
        locales: CLDR locales.
        seed: of the training pairs; validation and test are the same for every seed.
        withheld: years that are in no part; default none.
    """

    endless = "the embedded dates are endless"

    def __init__(self, locales: Sequence[str], seed: int, withheld: Sequence[int] = ()) -> None:
        DateSource(locales, without=withheld)  # raises for an unknown locale, or where no year is left
        self.locales, self.withheld = tuple(locales), tuple(withheld)
        settings: dict[str, Any] = {"kind": "embedded", "locales": [*locales]}
        if withheld:
            settings["withheld_years"] = [*withheld]
        less = f", {len(withheld)} years withheld" if withheld else ""
        super().__init__(settings, f"embedded dates, {','.join(locales)}{less}", seed)

    def sample(self) -> Sequence[Pair]:
        """Return training pairs of seed 0."""
        return _sample(self.locales, self.withheld)

    def draw(self, part: Split, seed: int, epoch: int, count: int) -> Sequence[Pair]:
        """Return the next pairs of the source."""
        return DateSource(self.locales, seed=seed, split=part, without=self.withheld).drawn(count, start=epoch * count)

    def probes(self) -> Mapping[str, Sequence[Pair]]:
        """Return dates of years, and in formats, that are not in the training data."""
        probes: dict[str, Sequence[Pair]] = {"unseen years": unseen_years(self.locales, _PROBES)}
        if self.withheld:
            probes["withheld years"] = withheld_years(self.locales, self.withheld, _PROBES)
        try:
            return probes | {"unseen formats": unseen_formats(self.locales, _PROBES)}
        except UserError:  # CLDR has no further formats for these locales
            return probes


def file_dates(
    files: Sequence[Path], columns: tuple[str, str] | None, seed: int, validation_items: int
) -> FiniteSplits:
    """Read pairs from files, and split them by source; the book's file has its own split (seed 1984, the last tenth).

    Args:
        files: two parallel files or one file of pairs.
        columns: of source and target in one file; None for the default columns.
        seed: see `FiniteSplits`.
        validation_items: see `FiniteSplits`.

    Raises:
        UserError: the files cannot be read, or have too few pairs.
    """
    is_book, pairs = is_book_file(*files), read_pairs(*files, columns=columns)
    paths = [os.path.realpath(file) for file in files]
    settings: dict[str, Any] = {
        "kind": "file",
        "path": paths[0],
        "sha256": file_sha256(files[0]),
        "split": "book" if is_book else "by source",
        "validation_items": validation_items,
    }
    if len(files) == 2:
        settings |= {"target_path": paths[1], "target_sha256": file_sha256(files[1])}
    if columns is not None:
        settings["columns"] = list(columns)
    return FiniteSplits(pairs, seed, validation_items, settings=settings, name=" ".join(paths), book=is_book)


@lru_cache(maxsize=4)
def _sample(locales: tuple[str, ...], withheld: tuple[int, ...]) -> Sequence[Pair]:
    return DateSource(locales, seed=0, split="train", without=withheld).pairs(_SAMPLE)
