"""The dates task: write a date in ISO form."""

import copy
import os
import runpy
import sys
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

from selfattn.data.pairs import Pair
from selfattn.data.readers.containers import file_sha256
from selfattn.data.readers.lines import checked_encoding
from selfattn.data.readers.pairs import is_book_file
from selfattn.data.readers.records import Columns, chosen_columns
from selfattn.data.splits import Splits, book_split
from selfattn.errors import SettingError, UserError
from selfattn.results.subject import Baseline, Subject
from selfattn.runs.task import RECIPE, HeldOut, TaskData, check_same_reading
from selfattn.settings import Condition, check_options, excludes, needs
from selfattn.tasks import baselines
from selfattn.training.config import TrainingConfig

LOCALES = ("en_US",)
# The comparison, by the pilot in docs/log.md, whose seeds are others.
DATES = 8000
SPACE = ("lr=1.2e-3..1.2e-2:log", "batch_size=8,16", "warmup=0.1..0.4")
SEEDS = 5
FIRST_SEED = 400
TEST_ITEMS = 2000


@dataclass(frozen=True, kw_only=True)
class DateOptions:
    """Where dates come from.

    Attributes:
        locales: CLDR locales of the generated dates, separated by commas.
        withhold_years: Years to withhold from training and test, such as ``1943,2050-2059``; reported separately.
        data: Files of pairs (TSV, CSV, JSON lines), or source and target files in turn. Replaces the generated dates.
        columns: Source and target column, by name or number, separated by a comma.
        encoding: Encoding of the files, such as latin-1 or cp949. Default: UTF-8, or what a byte order mark says.
    """

    groups: ClassVar[Mapping[str, Sequence[str]]] = {"Data": ("withhold_years", "columns", "encoding")}
    conditions: ClassVar[tuple[Condition, ...]] = (
        needs("`data`", lambda options: options.data, "columns", "encoding"),
        excludes("`data`", lambda options: options.data, "locales", "withhold_years"),
    )

    locales: tuple[str, ...] = LOCALES
    withhold_years: tuple[str, ...] = ()
    data: tuple[Path, ...] = ()
    columns: tuple[str, ...] = ()
    encoding: str | None = None

    def __post_init__(self) -> None:
        check_options(self)
        checked_encoding(self.encoding)
        self.withheld()

    def withheld(self) -> tuple[int, ...]:
        """Return the withheld years in order.

        Example:
            >>> DateOptions(withhold_years=("2050-2052", "1943")).withheld()
            (1943, 2050, 2051, 2052)
        """
        chosen: set[int] = set()
        for text in self.withhold_years:
            first, dash, last = text.partition("-")
            last = last if dash else first
            years = range(int(first), int(last) + 1) if first.isdecimal() and last.isdecimal() else range(0)
            if not years or years[0] < 1900 or years[-1] > 2099:
                raise SettingError(f"`withhold_years`: {text!r} is no year of 1900 to 2099, or span as 2050-2059")
            chosen.update(years)
        return tuple(sorted(chosen))


class Dates(TaskData):
    """Write dates in ISO form."""

    name = "dates"
    Options = DateOptions
    train_help = """Train one model to write dates in ISO form.

    Dates from 1900 to 2099 are generated from CLDR; training and test share no calendar day. Two-digit years 69-99
    mean 19xx, 00-68 mean 20xx.
    """
    compare_help = "Compare models on dates: train each, test on unseen dates, write the report."
    models = ("rnn-attention", "rnn-peeky", "transformer")
    match = None
    suggested = "evaluate"
    tag_name = "format"
    options: DateOptions

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any], where: str) -> Self:
        """Return the task of a run, with the checksums of its files."""
        match settings:
            case {"kind": "embedded", "locales": list(locales)}:
                withheld = settings.get("withheld_years", ())
                return cls(locales=tuple(map(str, locales)), withhold_years=tuple(map(str, withheld)))
            case {"kind": "file", "path": str(path), "sha256": str(digest)}:
                further = settings.get("further_files") or []
                others = [settings.get("target_path"), *(file["path"] for file in further)]
                files = (Path(path), *(Path(file) for file in others if file))
                columns = tuple(settings.get("columns") or ())
                task = cls(data=files, columns=columns, encoding=settings.get("encoding"))
                task._digests = (digest, settings.get("target_sha256"), *(file["sha256"] for file in further))
                return task
        raise UserError(f"{where}: data: not the settings of a dates run; restore the file or train again")

    _digests: tuple[Any, ...] = ()

    def splits(self, seed: int, validation_items: int = 1000) -> Splits:
        """Read the files, or return the generated dates."""
        from selfattn.data.dates.splits import EmbeddedDates, file_dates

        if not self.options.data:
            return EmbeddedDates(self.options.locales, seed, self.options.withheld())
        columns = chosen_columns(self.options.columns)
        encoding = checked_encoding(self.options.encoding)
        return file_dates(self.options.data, columns, seed, validation_items, encoding)

    def recipe(self, quick: bool) -> TrainingConfig:
        """Return the recipe. An epoch of a file is the full training part."""
        if quick:
            return replace(RECIPE, epochs=3, items_per_epoch=16_000, validation_items=200)
        return replace(RECIPE, epochs=10, items_per_epoch=None) if self.options.data else RECIPE

    def usual_comparison(self) -> dict[str, Any]:
        """Return the default models, number of dates, space of the tuning and seeds; the latter come from a pilot."""
        if self.options.data:
            return super().usual_comparison()
        usual = {
            "epochs": 1,
            "items_per_epoch": DATES,
            "space": SPACE,
            "seeds": SEEDS,
            "first_seed": FIRST_SEED,
            "test_items": TEST_ITEMS,
        }
        return super().usual_comparison() | usual

    def test_items(self, quick: bool) -> int | None:
        """Return 1,000 or 5,000 dates; None (the full test part) for files."""
        return None if self.options.data else 1000 if quick else 5000

    @classmethod
    def subject(cls) -> Subject:
        """Return the question: Transformer or RNN with attention?"""
        return baselines.subject_of(cls.name)

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of the metrics. Exact match decides."""
        return "exact_match", "character_error_rate"

    def repeats(self, pair: Pair) -> Hashable:
        """Return the target: two texts of one day are no independent evidence."""
        return pair.target

    def published(self, settings: Mapping[str, Any]) -> Mapping[str, Baseline]:
        """Return the baselines, which hold for English dates with all years."""
        if settings.get("withheld_years"):
            return {}
        is_english = settings.get("locales") == list(LOCALES) or settings.get("split") == "book"
        return baselines.DATES if is_english else {}

    def held_out(self, data: Sequence[Path] = (), columns: Columns = None, encoding: str | None = None) -> HeldOut:
        """Return the pairs to test a run on; for its training file and the book's file, the test part."""
        paths = [Path(os.path.realpath(path)) for path in data] or list(self.options.data)
        digests = [digest for digest in self._digests if digest]
        if paths == list(self.options.data) or [file_sha256(path) for path in paths] == digests:
            for file, known in zip(paths, digests, strict=False):
                if file_sha256(file) != known:
                    raise SettingError(f"{file}: has changed since this run was trained; give another with `data`")
            trained = chosen_columns(self.options.columns)
            check_same_reading(columns, trained, encoding, checked_encoding(self.options.encoding))
            task = copy.copy(self)
            task.options = replace(self.options, data=tuple(paths))
            return TaskData.held_out(task)
        held = super().held_out(data, columns, encoding)
        return replace(held, pairs=book_split(held.pairs)[1]) if is_book_file(*data, encoding=encoding) else held


if __name__ == "__main__":  # `python -m tasks.dates` is `selfattn train dates`
    sys.argv[1:1] = ["train", Dates.name]
    runpy.run_module("selfattn.cli", run_name="__main__")
