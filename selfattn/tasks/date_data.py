"""The pairs of the dates task in three parts: what is trained on, validated on, and tested on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from selfattn.data.dates import DateSource
from selfattn.data.deal import hold_out, laps
from selfattn.data.files import book_split, is_book_file, read_pairs
from selfattn.data.lines import file_sha256
from selfattn.data.pairs import Pair
from selfattn.errors import UserError
from selfattn.tasks.pair_data import PairData

_SAMPLE = 20_000  # embedded dates that the vocabulary and the longest output are taken from


class EmbeddedDates(PairData):
    """The endless source: every epoch is new; the days of the three parts differ.

    Args:
        locales: CLDR locales.
        seed: of the training pairs; validation and test are the same for every seed.
    """

    def __init__(self, locales: Sequence[str], seed: int) -> None:
        self.locales = tuple(locales)
        self._train = DateSource(locales, seed=seed, split="train")

    @property
    def settings(self) -> dict[str, Any]:
        """The locales."""
        return {"kind": "embedded", "locales": list(self.locales)}

    def sample(self) -> Sequence[Pair]:
        """Training pairs of seed 0."""
        return _sample(self.locales)

    def train(self, epoch: int, count: int | None) -> list[Pair]:
        """Pairs that no epoch before had by design; `count` must be given."""
        if count is None:
            raise UserError("the embedded dates are endless: give --items-per-epoch")
        return self._train.pairs(count, start=epoch * count)

    def validation(self, count: int) -> list[Pair]:
        """The first pairs of the part ``valid``."""
        return DateSource(self.locales, seed=0, split="valid").pairs(count)

    def test(self, count: int | None) -> list[Pair]:
        """The first pairs of the part ``test``; `count` must be given."""
        if count is None:
            raise UserError("the embedded dates are endless: say how many to test on")
        return DateSource(self.locales, seed=0, split="test").pairs(count)

    def known(self) -> Sequence[Pair] | None:
        """Nothing: the parts have different days."""
        return None


class FileDates(PairData):
    """Pairs from a file: a test part of a tenth, a validation taken from the rest, training on what remains.

    The book's file has its own split (seed 1984, the last tenth). Any other file is dealt by its sources, with a fixed
    seed, so that a source which stands in it several times is in one part only.

    Args:
        path: the file.
        seed: of the order in which an epoch that is not the whole file goes through it.
        validation_items: pairs taken from the training part for validation; a tenth of it at most.
    """

    def __init__(self, path: Path, seed: int, validation_items: int) -> None:
        pairs = read_pairs(path)
        self.path, self.seed, self.validation_items = path, seed, validation_items
        self.is_book = is_book_file(path)
        rest, self._test = book_split(pairs) if self.is_book else hold_out(pairs, _source)
        count = min(validation_items, len(rest) // 10)
        while not self.is_book and 0 < count < len(rest) and rest[-count].source == rest[-count - 1].source:
            count += 1  # a source stands on one side of the cut
        if not count or not self._test:
            raise UserError(f"{path}: {len(pairs)} pairs are too few for three parts; give 100 or more")
        self._train, self._validation = rest[:-count], rest[-count:]
        self._known = rest

    @property
    def settings(self) -> dict[str, Any]:
        """The file, by path and content, and how it was cut."""
        return {
            "kind": "file",
            "path": str(self.path.resolve()),
            "sha256": file_sha256(self.path),
            "split": "book" if self.is_book else "by source",
            "validation_items": self.validation_items,
        }

    def sample(self) -> Sequence[Pair]:
        """The training part."""
        return self._train

    def train(self, epoch: int, count: int | None) -> list[Pair]:
        """All of the training part, or the next `count` of an endless run through it in ever new order."""
        if count is None:
            return self._train
        return laps(self._train, count, start=epoch * count, seed=self.seed)

    def validation(self, count: int) -> list[Pair]:
        """Pairs taken from the training part."""
        return self._validation[:count]

    def test(self, count: int | None) -> list[Pair]:
        """The test part."""
        return self._test[:count]

    def known(self) -> Sequence[Pair] | None:
        """Training and validation together."""
        return self._known


def open_data(settings: Mapping[str, Any], *, where: str) -> PairData:
    """Open the data that a run was made with, for its test part.

    Args:
        settings: the run's.
        where: what to call the place in an error message.

    Raises:
        UserError: the settings are broken, or the file is no longer what it was.
    """
    match settings:
        case {"kind": "embedded", "locales": list(locales)}:
            return EmbeddedDates([str(name) for name in locales], seed=0)
        case {"kind": "file", "path": str(path), "sha256": str(digest), "validation_items": int(items)}:
            data = FileDates(Path(path), seed=0, validation_items=items)
            if file_sha256(Path(path)) != digest:
                raise UserError(
                    f"{path}: has changed since this run was trained, so its test part is no longer known; "
                    "give another file with --data"
                )
            return data
    raise UserError(f"{where}: data: not the settings of a dates run; restore the file or train again")


@lru_cache(maxsize=4)
def _sample(locales: tuple[str, ...]) -> Sequence[Pair]:
    return DateSource(locales, seed=0, split="train").pairs(_SAMPLE)


def _source(pair: Pair) -> str:
    return pair.source
