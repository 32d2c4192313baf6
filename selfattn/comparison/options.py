"""What every comparison can be told, besides its task. Imports no torch."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from selfattn.errors import SettingError
from selfattn.runs.task import Budget

Lang = Literal["en", "ko"]

SEEDS = 3  # of a comparison that is to say something; one is enough to try things out


@dataclass(frozen=True, kw_only=True)
class CompareOptions:
    """Settings of every comparison, besides those of the task and of how models are trained.

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
        metric: the metric that decides, by name; where not given, the first of the task.
    """

    repeated: ClassVar[tuple[str, ...]] = ("set",)
    groups: ClassVar[Mapping[str, Sequence[str]]] = {"Fairness": ("match", "budget", "match_limit", "apart", "tune")}

    models: tuple[str, ...]
    seeds: int | None = None
    quick: bool = False
    out: Path
    resume: bool = False
    lang: Lang = "en"
    test_items: int | None = None
    set: tuple[str, ...] = ()
    few: tuple[int, ...] = ()
    metric: str | None = None
    match: Budget | None = None
    budget: float | None = None
    match_limit: float = 0.02
    apart: bool = False
    tune: int = 0

    @property
    def seed_count(self) -> int:
        """How many seeds there are."""
        return self.seeds if self.seeds is not None else 1 if self.quick else SEEDS

    def __post_init__(self) -> None:
        for name in ("seeds", "test_items"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise SettingError(f"`{name}`: expected a whole number of at least 1, got {value}")
        if self.tune < 0:
            raise SettingError(f"`tune`: expected a whole number of at least 0, got {self.tune}")
        if self.budget is not None and self.match is None:
            raise SettingError("`budget`: says how much of what? Give `match` parameters, flops or seconds as well")
        if self.budget is not None and not (self.budget > 0 and math.isfinite(self.budget)):
            raise SettingError(f"`budget`: expected a number above 0, got {self.budget}")
        if not 0 < self.match_limit < 1:
            raise SettingError(f"`match_limit`: expected a share between 0 and 1, got {self.match_limit}")
        for few in self.few:
            if few < 1:
                raise SettingError(f"`few` {few}: expected whole numbers of at least 1, separated by commas")
