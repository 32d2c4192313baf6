"""What a comparison can be asked for, besides the settings of its task and of the training. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from selfattn.errors import SettingError
from selfattn.runs.task import Budget
from selfattn.settings import check
from selfattn.training.config import MOST_THREADS, DeviceName
from selfattn.words.catalogue import LANGS, SOURCE

if TYPE_CHECKING:
    Lang = str
else:
    Lang = Literal[LANGS]

Backend = Literal["local", "dask", "ray"]
BudgetIn = Literal["steps", "examples"]
NOT_THE_RESULT = ("resume", "jobs", "backend", "address", "plan_only")  # settings that decide nothing of what comes out
SEEDS = 3  # of a comparison that is to say something; one is enough to try things out
MOST_SEEDS = 10_000


@dataclass(frozen=True, kw_only=True)
class CompareOptions:
    """Settings of every comparison, besides those of the task and of how models are trained.

    Attributes:
        models: which models, separated by commas; `all` for every one that `selfattn models` lists.
        seeds: how many times each is trained, with the seeds 0, 1, ...; 3, or 1 with --quick.
        quick: small trainings, to try things out.
        out: where report, results and runs are kept; must not hold anything yet.
        resume: go on with the comparison that --out holds; what is finished is not run again.
        lang: language in which the report opens, and of the summary in the terminal.
        test_items: unseen pairs that every model is tested on; of a file, at most its test part.
        set: a setting of the models as name=value, or of one of them as model:name=value; may be given several times.
        first_seed: the seeds are this one and those after it: fresh ones for what a pilot has suggested.
        test_draw: where pairs are generated without end, which draw of test pairs: 1 for others than those of a pilot,
            which had draw 0. Files have one test part.
        budgets: shares of the training, such as 0.125,0.25,0.5,1: each with all models and seeds, in a training of its
            own whose whole schedule it has; the report says for which of them which model is better.
        budget_in: what they are shares of: the steps, on the same pairs, or the different pairs, in as many steps.
        pilot: this comparison explores: its report says so, and its runs are never put together with others.
        match: give the models widths with which they have the same of it: parameters (outside embeddings), body
            (without any axis over the vocabulary: an output matrix of its own left out, too), or training FLOPs for
            each target token.
        budget: how much of it; where not given, the median of what the models have as they are.
        match_limit: models further apart than this share are refused.
        apart: compare models of different size all the same; the report says so.
        tune: try so many settings for each model first (learning rate, warm-up, dropout, label smoothing), the same
            for all, and take the best on validation; of several budgets with the largest, and so many rates with the
            smallest.
        metric: the metric that decides, by name; where not given, the first of the task.
        margin: the smallest difference between the two models asked about that is worth having, in percentage points of
            a share or points of another metric; fixed in the plan, and the verdict says on which side of it the
            difference lies.
        jobs: trainings side by side; where not given, one for each core, or for each GPU.
        backend: where they are done: processes of this machine, or the workers of a Dask or Ray cluster, which have to
            see --out under the same path.
        address: of the cluster, such as tcp://10.0.0.1:8786 for Dask or 10.0.0.1:6379 for Ray.
        threads: CPU threads of each training; default 1.
        device: where to compute; auto takes a GPU where there is one.
        plan_only: say what there is to train, about how long it takes and how much disk; train nothing.
    """

    repeated: ClassVar[tuple[str, ...]] = ("set",)
    groups: ClassVar[Mapping[str, Sequence[str]]] = {
        "Fairness": ("match", "budget", "match_limit", "apart", "tune"),
        "Budgets": ("budgets", "budget_in"),
        "Plan": ("metric", "margin", "first_seed", "test_draw", "pilot"),
        "Side by side": ("jobs", "backend", "address", "threads", "device"),
    }

    models: tuple[str, ...]
    seeds: int | None = None
    quick: bool = False
    out: Path
    resume: bool = False
    lang: Lang = SOURCE
    test_items: int | None = None
    set: tuple[str, ...] = ()
    first_seed: int = 0
    test_draw: int = 0
    budgets: tuple[float, ...] = (1.0,)
    budget_in: BudgetIn = "steps"
    pilot: bool = False
    metric: str | None = None
    margin: float | None = None
    match: Budget | None = None
    budget: float | None = None
    match_limit: float = 0.02
    apart: bool = False
    tune: int = 0
    jobs: int | None = None
    backend: Backend = "local"
    address: str | None = None
    threads: int | None = None
    device: DeviceName = "auto"
    plan_only: bool = False

    @property
    def seed_count(self) -> int:
        """How many seeds there are."""
        return self.seeds if self.seeds is not None else 1 if self.quick else SEEDS

    @property
    def thread_count(self) -> int:
        """How many threads each training has: models this small gain nothing from a second."""
        return self.threads or 1

    def __post_init__(self) -> None:
        check(self, "seeds test_items jobs threads", int, lambda x: x >= 1, "a whole number of at least 1")
        check(self, "tune first_seed test_draw", int, lambda x: x >= 0, "a whole number of at least 0")
        check(self, "seeds", int, lambda x: x <= MOST_SEEDS - self.first_seed, f"seeds below {MOST_SEEDS}")
        check(self, "threads", int, lambda x: x <= MOST_THREADS, f"at most {MOST_THREADS}")
        check(self, "match_limit", float, lambda x: 0 < x < 1, "a share between 0 and 1")
        if self.budget is not None and self.match is None:
            raise SettingError("`budget`: says how much of what? Give `match` parameters, body or flops as well")
        check(self, "budget", float, lambda x: x > 0, "a number above 0")
        check(self, "margin", float, lambda x: 0 < x < 100, "points above 0 and below 100")
        if self.address is not None and self.backend == "local":
            raise SettingError("`address`: of what? Give `backend` dask or ray as well")
        if self.backend == "dask" and self.address is None:
            raise SettingError("`backend` dask: give the `address` of its scheduler, such as tcp://10.0.0.1:8786")
        for share in self.budgets or (0.0,):
            if not 0 < share <= 1 or self.budgets.count(share) > 1:
                raise SettingError(f"`budgets` {share:g}: expected shares above 0 and up to 1, each once")
