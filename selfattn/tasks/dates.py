"""The dates task: write a date in ISO form."""

import runpy
import sys
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from selfattn.data.pairs import Pair
from selfattn.data.readers.lines import checked_encoding
from selfattn.data.readers.pairs import PairFiles
from selfattn.data.readers.rows import chosen_columns
from selfattn.data.splits import Splits, book_split
from selfattn.errors import SettingError
from selfattn.results.subject import Baseline, Subject
from selfattn.runs.task import NO_FILES, RECIPE, HeldOut, TaskData
from selfattn.settings import Condition, check_options, excludes, needs
from selfattn.tasks import baselines
from selfattn.training.config import TrainingConfig

LOCALES = ("en_US",)
# The comparison, by the pilot in docs/log.md, whose seeds are others. Each model has a range of the same width, a
# factor of three, around its best rate in the pilot; models that the pilot did not try have the first one.
UNTIL = 0.9
AT_MOST = 24_000
SPACE = (
    "lr=2e-3..6e-3:log",
    "rnn-attention:lr=6e-3..1.8e-2:log",
    "rnn-peeky:lr=5e-3..1.5e-2:log",
    "transformer:lr=9e-4..2.7e-3:log",
    "transformer-rope:lr=8e-4..2.4e-3:log",
)
FIRST_SEED = 500
TEST_ITEMS = 1000


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
    models = ("rnn-attention", "transformer", "transformer-rope", "rnn-peeky")
    match = None
    suggested = "evaluate"
    tag_name = "format"
    options: DateOptions

    def splits(self, seed: int, validation_items: int = 1000) -> Splits:
        """Read the files, or return the generated dates."""
        from selfattn.data.dates.source import EmbeddedDates, file_dates

        if not self.options.data:
            return EmbeddedDates(self.options.locales, seed, self.options.withheld())
        files = PairFiles(self.options.data, chosen_columns(self.options.columns), self.options.encoding)
        return file_dates(files, seed, validation_items)

    def recipe(self, quick: bool) -> TrainingConfig:
        """Return the recipe. An epoch of a file is the full training part."""
        if quick:
            return replace(RECIPE, epochs=3, items_per_epoch=16_000, validation_items=200)
        return replace(RECIPE, epochs=10, items_per_epoch=None) if self.options.data else RECIPE

    def usual_comparison(self) -> dict[str, Any]:
        """Return the default models, target and space of the tuning; the latter comes from a pilot."""
        usual = super().usual_comparison()
        if not self.options.data:
            usual |= {"until": UNTIL, "at_most": AT_MOST, "space": SPACE, "first_seed": FIRST_SEED}
            usual["test_items"] = TEST_ITEMS
        return usual

    def test_items(self, quick: bool) -> int | None:
        """Return 1,000 or 5,000 dates; None (the full test part) for files."""
        if self.options.data:
            return None
        return 1000 if quick else 5000

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

    def held_out(self, files: PairFiles = NO_FILES) -> HeldOut:
        """Return the pairs to test a run on; of the book's file, its test part."""
        held = super().held_out(files)
        if held.known is None and files.is_book:
            return replace(held, pairs=book_split(held.pairs)[1])
        return held


if __name__ == "__main__":  # `python -m tasks.dates` is `selfattn train dates`
    sys.argv[1:1] = ["train", Dates.name]
    runpy.run_module("selfattn.cli", run_name="__main__")
