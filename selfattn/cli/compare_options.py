"""The settings of `selfattn compare` and `selfattn report` as frozen dataclasses. Imports no torch."""

# No `from __future__ import annotations`: what a dataclass inherits has to be known by value, not by name.

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Group, Parameter

from selfattn.cli.given_options import GivenFiles
from selfattn.cli.settings import AS_THE_RECIPE, DEFAULT_LOCALES, MaybeWhole, Names, Training, Whole
from selfattn.errors import UserError

Budget = Literal["parameters", "flops", "seconds"]
Lang = Literal["en", "ko"]

SEEDS = 3  # of a comparison that is to say something; one is enough to try things out
_FAIRNESS = Group("Fairness", sort_key=8)
Match = Annotated[Budget | None, Parameter(group=_FAIRNESS)]
_Number = Annotated[float | None, Parameter(group=_FAIRNESS)]
_Share = Annotated[float, Parameter(group=_FAIRNESS)]
_Flag = Annotated[bool, Parameter(group=_FAIRNESS, negative="")]
_Count = Annotated[Whole, Parameter(group=_FAIRNESS)]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class CompareOptions:
    """Settings of every comparison.

    Attributes:
        models: which models, separated by commas; `all` for every one that `selfattn models` lists.
        seeds: how many times each is trained, with the seeds 0, 1, ...; 3, or 1 with --quick.
        quick: small trainings, to try things out.
        out: where report, results and runs are kept; must not hold anything yet.
        resume: go on with the comparison that --out holds; what is finished is not run again.
        lang: language in which the report opens.
        test_items: unseen pairs that every model is tested on; of a file, at most its test part.
        set: a setting of the models as name=value, or of one of them as model:name=value; may be given several times.
        few: train also on so few pairs, with the first seed, and report it: numbers separated by commas.
        match: give the models widths with which they have the same of it: parameters (outside embeddings), training
            FLOPs for each target token, or wall seconds of a training step, measured here.
        budget: how much of it; where not given, the median of what the models have as they are.
        match_limit: models further apart than this share are refused.
        apart: compare models of different size all the same; the report says so.
        tune: try so many settings for each model first (learning rate, warm-up, dropout, label smoothing), the same
            for all, and take the best on validation.
        training: how they are trained.
    """

    models: Names
    seeds: MaybeWhole = None
    quick: bool = False
    out: Path
    resume: Annotated[bool, Parameter(negative="")] = False
    lang: Lang = "en"
    test_items: MaybeWhole = None
    set: tuple[str, ...] = ()
    few: Names = ()
    match: Match = None
    budget: _Number = None
    match_limit: _Share = 0.02
    apart: _Flag = False
    tune: _Count = 0
    training: Training = AS_THE_RECIPE

    @property
    def seed_count(self) -> int:
        """How many seeds there are."""
        return self.seeds if self.seeds is not None else 1 if self.quick else SEEDS

    @property
    def few_counts(self) -> tuple[int, ...]:
        """The numbers of ``few``.

        Raises:
            UserError: one is not a whole number of at least 1.
        """
        for text in self.few:
            if not text.isascii() or not text.isdigit() or int(text) < 1:
                raise UserError(f"--few {text}: expected whole numbers of at least 1, separated by commas")
        return tuple(int(text) for text in self.few)

    def check(self) -> None:
        """Find out whether the numbers can be meant, before any work is done.

        Raises:
            UserError: one is out of its range, or two settings do not go together.
        """
        for flag, value in (("--seeds", self.seeds), ("--test-items", self.test_items)):
            if value is not None and value < 1:
                raise UserError(f"{flag}: expected a whole number of at least 1, got {value}")
        if self.tune < 0:
            raise UserError(f"--tune: expected a whole number of at least 0, got {self.tune}")
        if self.budget is not None and self.match is None:
            raise UserError("--budget: says how much of what? Give --match parameters, flops or seconds as well")
        if self.budget is not None and not (self.budget > 0 and math.isfinite(self.budget)):
            raise UserError(f"--budget: expected a number above 0, got {self.budget}")
        if not 0 < self.match_limit < 1:
            raise UserError(f"--match-limit: expected a share between 0 and 1, got {self.match_limit}")
        assert len(self.few_counts) == len(self.few)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class CompareDates(CompareOptions):
    """Settings of ``selfattn compare dates``.

    Attributes:
        locales: CLDR locales of the embedded dates, separated by commas.
        data: take pairs from two parallel files instead, or from one (TSV, CSV, JSON lines or the book's), plain or
            .gz.
        columns: names of the source's and the target's column, or their numbers from 1, separated by a comma.
    """

    models: Names = ("rnn-plain", "rnn-peeky", "rnn-attention", "transformer")
    out: Path = Path("compare/dates")
    locales: Names = DEFAULT_LOCALES
    data: GivenFiles = ()
    columns: Names = ()


COMPARE_DATES = CompareDates()


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ReportOptions:
    """Settings of ``selfattn report``.

    Attributes:
        out: where the report is written.
        lang: language in which it opens.
    """

    out: Path
    lang: Lang = "en"
