"""Dates in three parts: generated, endless, with probes; or from files."""

import os
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from selfattn.data.dates.probes import unseen_formats, unseen_years, withheld_years
from selfattn.data.dates.source import DateSource, calendar_notes
from selfattn.data.pairs import Pair
from selfattn.data.readers.containers import file_sha256
from selfattn.data.readers.pairs import is_book_file, read_pairs
from selfattn.data.readers.records import Columns
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


def file_dates(
    files: Sequence[Path], columns: Columns, seed: int, validation_items: int, encoding: str | None = None
) -> FiniteSplits:
    """Read pairs from files, and split them by source; the book's file has its own split (seed 1984, the last tenth).

    Args:
        files: see `selfattn.data.readers.pairs.file_records`.
        columns: of source and target in one file; None for the default columns.
        seed: see `FiniteSplits`.
        validation_items: see `split_pairs`.
        encoding: of the files; see `selfattn.data.readers.pairs.file_records`.

    Raises:
        UserError: the files cannot be read, or have too few pairs.
    """
    is_book = is_book_file(*files, encoding=encoding)
    pairs = read_pairs(*files, columns=columns, encoding=encoding)
    paths = [os.path.realpath(file) for file in files]
    settings: dict[str, Any] = {
        "kind": "file",
        "path": paths[0],
        "sha256": file_sha256(files[0]),
        "split": "book" if is_book else "by source",
        "validation_items": validation_items,
    }
    if len(files) > 1:
        settings |= {"target_path": paths[1], "target_sha256": file_sha256(files[1])}
    if len(files) > 2:
        settings["further_files"] = [{"path": path, "sha256": file_sha256(Path(path))} for path in paths[2:]]
    if encoding is not None:
        settings["encoding"] = encoding
    if columns is not None:
        settings["columns"] = list(columns)
    return split_pairs(pairs, seed, validation_items, settings, " ".join(paths), book=is_book)
