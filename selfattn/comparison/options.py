"""Options of a comparison, besides those of its task and of the training; and of one of outputs. Imports no torch."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge, Gt, Le, Lt

from selfattn.errors import SettingError
from selfattn.runs.task import Match
from selfattn.settings import MAX_NUMBER, Condition, Count, CountOrZero, check_bounds, excludes, needs
from selfattn.training.config import MOST_THREADS, DeviceName, TrainingSettings
from selfattn.words.messages import SOURCE, Lang

Backend = Literal["local", "dask", "ray"]
BudgetIn = Literal["steps", "examples"]
MOST_SEEDS = 10_000  # from it on seeds are those of the tuning
MOST_TRIALS = 4096


@dataclass(frozen=True, kw_only=True)
class CompareOptions:
    """Options of every comparison, besides those of its task and of the training.

    Attributes:
        models: Models to compare, separated by commas. `all`: every model that `selfattn models` lists.
        seeds: Trainings per model, one per seed. Default: 3, or the number that the task sets; 1 with --quick. With a
            target: 5, and 3 with --quick.
        quick: Train briefly, for a first try. With a target: the same question with fewer runs.
        until: Compare how many training examples models read until this share of validation items is right, such as
            0.9. Default: that of the task; otherwise models are compared after the same training.
        at_most: Most examples that a training reads until the target. A run that has not arrived needs more.
        out: Directory for report, results and runs. Must be new.
        resume: Continue the comparison in --out. Finished runs are not repeated.
        lang: Language of the report and of the printed summary.
        test_items: Number of test pairs, the same for every model. For files, at most their test part.
        set: Model setting as name=value, or model:name=value for one model. May be repeated.
        first_seed: First seed. Default: the task's, or 0. Use fresh seeds to confirm what a pilot suggested.
        test_draw: Number of the draw of generated test pairs. Use a new draw after a pilot.
        budgets: Shares of the full training to compare at, such as 0.25,0.5,1. Each is a separate training.
            Default: those of the task.
        budget_in: Quantity that budgets are shares of: training steps, or distinct examples.
        pilot: Mark the comparison as exploratory: it confirms nothing.
        match: Quantity that is made equal for all models, to their median: parameters (outside embeddings), body
            (outside the vocabulary), training FLOPs, or none: models keep their sizes.
        apart: Compare models of different sizes; the report says so.
        tune: Tune settings of the training for each model. On by default, except with --quick or --lr.
        space: What tuning tries of a setting: lr=1e-3..1e-2:log, batch=8,16,32, warmup=0..0.4; MODEL:lr=... for one
            model. Several may follow. Default: that of the task, without settings that are given.
        trials: Trainings that a tuning tries, each with settings and a seed of its own. Default: 4; 2 with a target.
        tunings: Independent tunings of each model; their final runs are compared as clusters. Default: one for each
            seed up to 5, more only as the number of seeds demands.
        tuning_seed: First seed of the trials; it also draws their settings. Default: 10,000.
        metric: Metric that decides, by name. Default: the first metric of the task.
        margin: Smallest difference that matters, in points. Written into the plan.
        jobs: Trainings to run in parallel. Default: one per core or GPU.
        backend: Where trainings run: local processes, or workers of a Dask or Ray cluster.
        address: Address of the cluster, such as ``tcp://10.0.0.1:8786`` (Dask) or 10.0.0.1:6379 (Ray).
        threads: CPU threads per training.
        device: Device to compute on. auto takes a GPU if there is one.
        plan_only: Print the planned trainings and their time, and stop.
    """

    repeated: ClassVar[tuple[str, ...]] = ("set", "space")
    groups: ClassVar[Mapping[str, Sequence[str]]] = {
        "Fairness": ("match", "apart"),
        "Tuning (on validation items)": ("tune", "space", "trials", "tunings", "tuning_seed"),
        "Target": ("until", "at_most"),
        "Budgets": ("budgets", "budget_in"),
        "Plan": ("metric", "margin", "first_seed", "test_draw", "pilot"),
        "Parallel training": ("jobs", "backend", "address", "threads", "device"),
    }

    conditions: ClassVar[tuple[Condition, ...]] = (
        needs("`tune`", lambda options: options.tune, "space", "trials", "tunings", "tuning_seed"),
        needs("`budgets`", lambda options: options.budgets != (1.0,), "budget_in"),
        needs("`until`", lambda options: options.until is not None, "at_most"),
        excludes(
            "`until`", lambda options: options.until is not None, "budgets", "budget_in", "tunings", "tuning_seed"
        ),
    )

    models: tuple[str, ...]
    seeds: Count | None = None
    quick: bool = False
    until: Annotated[float, Gt(0), Le(1)] | None = None
    at_most: Count = 20_000
    out: Path
    resume: bool = False
    lang: Lang = SOURCE
    test_items: Count | None = None
    set: tuple[str, ...] = ()
    first_seed: CountOrZero | None = None
    test_draw: CountOrZero = 0
    budgets: tuple[float, ...] = ()
    budget_in: BudgetIn = "steps"
    pilot: bool = False
    metric: str | None = None
    margin: Annotated[float, Gt(0), Lt(100)] | None = None
    match: Match | None = None
    apart: bool = False
    tune: bool | None = None
    space: tuple[str, ...] = ()
    trials: Annotated[int, Ge(1), Le(MOST_TRIALS)] | None = None
    tunings: Annotated[int, Ge(1), Le(MOST_SEEDS)] | None = None
    tuning_seed: CountOrZero = MOST_SEEDS
    jobs: Count | None = None
    backend: Backend = "local"
    address: str | None = None
    threads: Annotated[int, Ge(1), Le(MOST_THREADS)] = 1
    device: DeviceName = "auto"
    plan_only: bool = False

    def __post_init__(self) -> None:
        check_bounds(self)
        if (self.first_seed or 0) + (self.seeds or 0) > MOST_SEEDS:
            raise SettingError(f"`seeds` {self.seeds}: too many; seeds stay below {MOST_SEEDS}")
        check_cluster(self.backend, self.address)
        for share in self.budgets:
            if not 0 < share <= 1 or self.budgets.count(share) > 1:
                raise SettingError(f"`budgets` {share:g}: expected shares above 0 and up to 1, each once")


class CompareSettings(TrainingSettings, total=False):
    """Fields of :class:`CompareOptions` and of the training as keyword arguments."""

    models: str | Sequence[str]
    seeds: int | None
    quick: bool
    until: float | None
    at_most: int
    out: str | os.PathLike[str]
    resume: bool
    lang: Lang
    test_items: int | None
    set: str | Sequence[str]
    first_seed: int | None
    test_draw: int
    budgets: float | Sequence[float]
    budget_in: BudgetIn
    pilot: bool
    metric: str | None
    margin: float | None
    match: Match | None
    apart: bool
    tune: bool | None
    space: str | Sequence[str]
    trials: int | None
    tunings: int | None
    tuning_seed: int
    jobs: int | None
    backend: Backend
    address: str | None
    threads: int
    device: DeviceName
    plan_only: bool


def check_cluster(backend: Backend, address: str | None) -> None:
    """Check that a backend and an address fit together.

    Raises:
        SettingError: they do not.
    """
    if address is not None and backend == "local":
        raise SettingError("`address`: of what? Give `backend` dask or ray as well")
    if backend == "dask" and address is None:
        raise SettingError("`backend` dask: give the `address` of its scheduler, such as tcp://10.0.0.1:8786")


@dataclass(frozen=True, kw_only=True)
class OutputsOptions:
    """Options of a comparison of outputs: what is judged, and how.

    Attributes:
        reference: File of the right outputs, one a line. Every file may also be ``FILE:COLUMN`` of a TSV or CSV file,
            with the column's name or number.
        system: A system and its output files, one for each training: NAME=FILE,FILE,... Repeat for each system.
        metric: Metrics by name, separated by commas, such as bleu or exact_match. The first decides.
        out: Directory for report, results and all outputs.
        source: File of the inputs. Items with the same input count as repeats.
        language: Language of the references, a code or an English name, for metrics that cut texts into words.
        tags: File with the kind of each item, for scores by kind.
        train: File of the training's targets, to count how often training shows a word.
        margin: Smallest difference that matters, in points.
        encoding: Encoding of the files, such as latin-1 or cp949. Default: UTF-8, or what a byte order mark says.
        lang: Language of the report and of the printed summary.
    """

    repeated: ClassVar[tuple[str, ...]] = ("system",)

    reference: str
    system: tuple[str, ...]
    metric: tuple[str, ...]
    out: Path
    source: str | None = None
    language: str | None = None
    tags: str | None = None
    train: str | None = None
    margin: Annotated[float, Gt(0), Le(MAX_NUMBER)] | None = None
    encoding: str | None = None
    lang: Lang = SOURCE

    def __post_init__(self) -> None:
        check_bounds(self)


@dataclass(frozen=True, kw_only=True)
class ScoresOptions:
    """Options of a comparison of scores that others computed.

    Attributes:
        out: Directory for report, results and all scores.
        better: Which scores are better: higher, lower, or METRIC=lower for one of several. Default: as a registered
            metric says; higher where the table has no metrics.
        unit: Unit of the scores. Default: that of a registered metric; share for true and false, else number.
        leave_out: Leave out items on which not every run has a score. The report counts them.
        margin: Smallest difference that matters, in points of a share, else in the unit of the scores.
        plan: Table of a pilot. Print how many runs and items it takes to see the difference --detect, and stop.
        detect: Difference that is to be seen, in points of a share, else in the unit of the scores.
        lang: Language of the report and of the printed summary.
    """

    conditions: ClassVar[tuple[Condition, ...]] = (
        needs("`plan`", lambda options: options.plan is not None, "detect"),
        excludes("`plan`", lambda options: options.plan is not None, "out", "margin"),
    )

    out: Path = Path("compare/scores")
    better: tuple[str, ...] = ()
    unit: Literal["share", "points", "number"] | None = None
    leave_out: bool = False
    margin: Annotated[float, Gt(0), Le(MAX_NUMBER)] | None = None
    plan: Path | None = None
    detect: Annotated[float, Gt(0), Le(MAX_NUMBER)] | None = None
    lang: Lang = SOURCE

    def __post_init__(self) -> None:
        check_bounds(self)


def systems_of(texts: Sequence[str]) -> dict[str, list[str]]:
    """Read systems with their files as the command line has them.

    Raises:
        SettingError: no name or no file, or a name twice.

    Example:
        >>> systems_of(["A=a1.txt,a2.txt", "B=b1.txt"])
        {'A': ['a1.txt', 'a2.txt'], 'B': ['b1.txt']}
    """
    systems: dict[str, list[str]] = {}
    for text in texts:
        name, _, files = text.partition("=")
        paths = files.split(",")
        if not name or not all(paths):
            raise SettingError(f"`system` {text}: expected NAME=FILE,FILE,... with a file for each training")
        if name in systems:
            raise SettingError(f"`system` {name}: named twice; give all files of a system at once: {name}=FILE,FILE")
        systems[name] = paths
    return systems
