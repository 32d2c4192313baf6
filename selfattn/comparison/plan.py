"""The plan of a comparison: models, seeds, budgets, test set, and the trials of its tuning. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, product
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Ge, Gt, Le, MinLen

from selfattn.codec import Plain, short
from selfattn.comparison.options import MOST_SEEDS, BudgetIn
from selfattn.errors import SettingError
from selfattn.experiments import plan as experiments
from selfattn.experiments.plan import draw_points
from selfattn.models.config import ModelConfig, override, probabilities
from selfattn.registry import is_name
from selfattn.results.plan import Axis, parse_axis
from selfattn.results.quality import Headline
from selfattn.results.record import UNMATCHED, Matching, TuningTrial
from selfattn.results.subject import Baseline
from selfattn.settings import bounds_of
from selfattn.streams import seed_for
from selfattn.training.config import TrainingConfig

TUNING = "tuning"  # folder of the trials, and their step in the ledger
_SHORT = {"batch": "batch_size"}
_NOT_TUNED = (
    "seed", "epochs", "max_steps", "items_per_epoch",  # how much is trained
    "validation_items", "validate_every", "patience", "target_exact_match",  # how it is judged
)  # fmt: skip
READ_IN_A_STEP = ("batch_size", "max_tokens", "accumulate")  # settings that decide how many steps a training has
TuningKey = tuple[float, str, int]  # budget, model, tuning


@dataclass(frozen=True)
class PlannedModel(Plain):
    """One model of a comparison.

    Attributes:
        preset: preset that it is based on.
        config: its configuration.
        training: settings of its training that tuning tries or chose.
    """

    preset: str
    config: ModelConfig
    training: Mapping[str, Any] = field(default_factory=dict)

    def at_point(self, point: Mapping[str, float]) -> PlannedModel:
        """Return the model with tuned settings: of its training, and probabilities of the model such as dropout.

        Args:
            point: values by name; ``dropout`` stands for that of all parts of the model.

        Raises:
            UserError: there is no such setting, it is part of the architecture, or its value is not allowed.
        """
        dropouts = probabilities(self.config)
        training: dict[str, Any] = {}
        settings: dict[str, Any] = {}
        for name, value in point.items():
            if name in TrainingConfig.__dataclass_fields__:
                training[name] = value
                continue
            paths = [path for path in dropouts if path == name or (path.endswith(f".{name}") and name == "dropout")]
            if not paths:
                numbers = ", ".join(dropouts) or "none"
                raise SettingError(f"no number of the training, and no probability of this model; it has {numbers}")
            settings |= dict.fromkeys(paths, value)
        return replace(self, config=override(self.config, settings, ""), training=training)


@dataclass(frozen=True)
class TrainingAmount:
    """How much a run is trained.

    Attributes:
        pairs: number of different pairs; default all.
        share: of the recipe's steps, with a full schedule over them; default all.
    """

    pairs: int | None = None
    share: float = 1.0

    def applied_to(self, recipe: TrainingConfig, steps: int) -> TrainingConfig:
        """Return the recipe for this share of all steps.

        Example:
            >>> TrainingAmount(share=0.25).applied_to(TrainingConfig(warmup_steps=100), 2000).max_steps
            500
        """
        if self.share == 1:
            return recipe
        warmup = None if recipe.warmup_steps is None else round(self.share * recipe.warmup_steps)
        return replace(recipe, max_steps=max(1, round(self.share * steps)), warmup_steps=warmup)


@dataclass(frozen=True)
class Training:
    """One training of a comparison.

    Attributes:
        path: of the run's directory, relative to the comparison.
        name: of the model.
        model: to train.
        seed: of every random stream.
        budget: of the plan.
        amount: how much it is trained at this budget.
        steps: of the full recipe, where a share of them is trained.
        tested: whether it is tested afterwards.
        leading: whether its test includes what one run of a model answers for all.
        point: settings that it tries, by name, if it is a trial of the tuning; else empty.
    """

    path: str
    name: str
    model: PlannedModel
    seed: int
    budget: float
    amount: TrainingAmount
    steps: int = 0
    tested: bool = True
    leading: bool = False
    point: Mapping[str, float] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """Name of the run, such as ``transformer-seed0``."""
        return Path(self.path).name

    def training_from(self, recipe: TrainingConfig) -> TrainingConfig:
        """Return the configuration of the training: the recipe with its seed, tuned settings and length."""
        return self.amount.applied_to(replace(recipe, seed=self.seed, **self.model.training), self.steps)


@dataclass(frozen=True)
class Race:
    """The trials of one tuning towards a target, trained one after the other.

    A trial that has read more than the best one before it cannot be the best any more, and stops. So the choice is that
    of trials which all go on to the end.

    Attributes:
        label: name of the race.
        trials: in their order.
    """

    label: str
    trials: tuple[Training, ...]


@dataclass(frozen=True, kw_only=True)
class ComparisonPlan(experiments.Plan):
    """A comparison, besides what every plan has.

    Attributes:
        task: its name.
        quick: whether trainings are short.
        seeds: number of seeds.
        models: by name, in their order.
        first_seed: first seed.
        test_draw: draw of the test pairs.
        budgets: shares of the training.
        budget_in: what they are shares of.
        steps: of the full training; 0 where not needed.
        examples: different pairs of the full training; 0 where not needed.
        pilot: whether it explores.
        primary: the two models that it is about; None where it is about all.
        margin: smallest difference worth having, in points.
        headline: metric of the verdict.
        matching: what the models were sized for.
        space: what tuning tries of which setting, as text; see :func:`read_space`.
        tuning_seed: first seed of the trials of the tuning.
        tuning_trials: number of trials of each tuning; 0 without tuning.
        tunings: number of tunings of each model; run k has the choice of tuning k modulo this number.
        read_in_a_step: settings of the recipe that decide how much a step reads, where they are tuned.
        trials: of the tuning, by model, the largest budget first.
        until: share of validation items that have to be right, where models are compared by the examples that they
            read until then; None where all are trained equally long.
        baseline: published baseline that the user stated.
        tuned: whether tuning is done.
        threads: of each training; the bits of its weights may depend on it.
        test_set: name of the test set that decides, where there are several; else empty.
    """

    gone = ("analysis", "looks", "bounds", "ended")

    task: str
    quick: bool
    seeds: Annotated[int, Ge(1), Le(MOST_SEEDS)]
    models: Annotated[Mapping[str, PlannedModel], MinLen(1)]
    first_seed: Annotated[int, Ge(0)] = 0
    test_draw: Annotated[int, Ge(0)] = 0
    budgets: Annotated[tuple[Annotated[float, Gt(0), Le(1)], ...], MinLen(1)] = (1.0,)
    budget_in: BudgetIn = "steps"
    steps: int = 0
    examples: int = 0
    pilot: bool = False
    primary: tuple[str, str] | None = None
    margin: Annotated[float, Gt(0)] | None = None
    headline: Headline = field(default_factory=Headline)
    matching: Matching = UNMATCHED
    space: tuple[str, ...] = ()
    tuning_seed: Annotated[int, Ge(0)] = MOST_SEEDS
    tuning_trials: Annotated[int, Ge(0)] = 0
    tunings: Annotated[int, Ge(1)] = 1
    read_in_a_step: Mapping[str, int] = field(default_factory=dict)
    trials: Mapping[str, tuple[TuningTrial, ...]] = field(default_factory=dict)
    until: float | None = None
    baseline: Baseline | None = None
    tuned: bool = True
    threads: Annotated[int, Ge(1)] = 1
    test_set: str = ""

    def __post_init__(self) -> None:
        for name in self.models:
            if not is_name(name):  # a directory has this name
                raise SettingError(f"name of a model: at most 100 letters, digits, - and _, found {short(name)}")

    @property
    def amounts(self) -> dict[float, TrainingAmount]:
        """What is trained for each budget, the largest first."""
        shares = sorted(self.budgets, reverse=True)
        if self.budget_in == "steps":
            return {share: TrainingAmount(share=share) for share in shares}
        return {share: TrainingAmount(None if share == 1 else max(1, round(share * self.examples))) for share in shares}

    @property
    def main(self) -> float:
        """The largest budget; the figures of the report are about this one."""
        return max(self.budgets)

    def _best_trials(self) -> list[Training]:
        """Return the chosen trial of each tuning as a run to be tested; none before the tuning."""
        runs = []
        amount = self.amounts[self.main]
        for number, name in product(range(self.tunings), self.models):
            for trial in self.tried(name, self.main, number):
                if trial.chosen:
                    path = trial_path(name, trial.seed - self.tuning_seed)
                    model = self.models[name].at_point(dict[str, Any](trial.settings))
                    runs.append(Training(path, name, model, trial.seed, self.main, amount, leading=number == 0))
        return runs

    def tuning_of(self, seed: int) -> int:
        """Return the number of the tuning whose choice the runs with a seed have."""
        if self.until is not None:
            return (seed - self.tuning_seed) // self.tuning_trials
        return (seed - self.first_seed) % self.tunings

    def tried(self, name: str, budget: float, tuning: int) -> list[TuningTrial]:
        """Return the results of the trials of a tuning; none before it."""
        place = (None if budget == self.main else budget, tuning)
        return [trial for trial in self.trials.get(name, ()) if (trial.budget, trial.tuning) == place]

    def chosen(self, name: str, budget: float, seed: int) -> Mapping[str, Any]:
        """Return the settings that tuning chose for a run; empty without tuning."""
        trials = self.tried(name, budget, self.tuning_of(seed))
        return next((trial.settings for trial in trials if trial.chosen), {})

    def steps_with(self, training: Mapping[str, Any]) -> int:
        """Return the steps of the full training with tuned settings: more where a step reads less."""
        steps: float = self.steps
        for name, usual in self.read_in_a_step.items():
            steps *= usual / training.get(name, usual)
        return round(steps)

    def runs(self) -> list[Training]:
        """List every run, seed after seed.

        With a target, these are the best trials of the tunings: nothing is trained again.
        """
        if self.until is not None:
            return self._best_trials()
        runs: list[Training] = []
        seeds = range(self.first_seed, self.first_seed + self.seeds)
        for seed, (budget, amount), name in product(seeds, self.amounts.items(), self.models):
            path = run_name(name, seed, amount)
            model = self.models[name].at_point(self.chosen(name, budget, seed))
            steps = self.steps_with(model.training)
            is_leading = (seed, budget) == (self.first_seed, self.main)
            runs.append(Training(path, name, model, seed, budget, amount, steps, leading=is_leading))
        return runs


def read_plan(out: Path) -> ComparisonPlan:
    """Read the plan of a comparison.

    Raises:
        UserError: there is none, it is broken, or a plugin is missing that it needs.
    """
    return experiments.read_plan(ComparisonPlan, out)


def trial_path(name: str, number: int, part: str = "") -> str:
    """Return the directory of a trial of the tuning, relative to the comparison.

    Args:
        name: of the model.
        number: of the trial.
        part: of the name, for a smaller budget.

    Example:
        >>> trial_path("transformer", 3)
        'tuning/transformer-trial3'
    """
    return f"{TUNING}/{name}{part}-trial{number}"


def run_name(name: str, seed: int, amount: TrainingAmount) -> str:
    """Return the directory of a run, relative to the comparison.

    Example:
        >>> run_name("transformer", 0, TrainingAmount()), run_name("transformer", 0, TrainingAmount(300))
        ('runs/transformer-seed0', 'runs/transformer-seed0-first300')
        >>> run_name("transformer", 1, TrainingAmount(share=0.25))
        'runs/transformer-seed1-budget0.25'
    """
    first = "" if amount.pairs is None else f"-first{amount.pairs}"
    return f"runs/{name}-seed{seed}{first}" + ("" if amount.share == 1 else f"-budget{amount.share!r}")


def tuned_settings(texts: Sequence[str], models: Sequence[str]) -> set[str]:
    """Return the names of all settings in a space.

    Args:
        texts: see :func:`read_space`.
        models: see there.

    Example:
        >>> sorted(tuned_settings(["a:batch=8,16", "lr=1e-3,1e-2"], ["a", "b"]))
        ['batch_size', 'lr']
    """
    axes = chain.from_iterable(read_space(texts, models).values())
    return {axis.name for axis in axes}


def read_space(texts: Sequence[str], models: Sequence[str]) -> dict[str, tuple[Axis, ...]]:
    """Read a space: the axes of each model.

    Args:
        texts: such as ``lr=1e-3..1e-2:log`` for all models, or ``transformer:lr=1e-4..1e-2:log`` for one of them.
        models: names of the models.

    Raises:
        SettingError: a model is unknown, a text has another form, or a setting stands twice or is not for tuning.

    Example:
        >>> {name: [str(axis) for axis in axes] for name, axes in read_space(["batch=8,16"], ["a"]).items()}
        {'a': ['batch_size=8,16']}
    """
    common: dict[str, Axis] = {}
    of_model: dict[str, dict[str, Axis]] = {name: {} for name in models}
    kinds = bounds_of(TrainingConfig)
    for text in texts:
        name, equals, rest = text.partition("=")
        owner, colon, setting = name.strip().rpartition(":")
        if colon and owner not in models:
            raise SettingError(f"`space` {text}: {owner!r} is not a model of this comparison: {', '.join(models)}")
        axis = parse_axis(f"{_SHORT.get(setting, setting)}{equals}{rest}")
        if axis.name in _NOT_TUNED:
            raise SettingError(f"`space` {text}: decides how much is trained, or how it is judged; it is not tuned")
        if axis.name in kinds:
            axis = replace(axis, whole=kinds[axis.name].kind is int)
        if axis.whole and any(value != round(value) for value in axis.ends):
            raise SettingError(f"`space` {text}: expected whole numbers")
        axes_by_name = of_model[owner] if colon else common
        if axis.name in axes_by_name:
            raise SettingError(f"`space` {text}: {axis.name} stands there twice; leave one of them out")
        axes_by_name[axis.name] = axis
    return {name: tuple((common | axes).values()) for name, axes in of_model.items()}


def planned_trials(plan: ComparisonPlan) -> dict[TuningKey, list[Training]]:
    """Return the trials of every tuning, as the plan determines them; no trials without tuning."""
    trials: dict[TuningKey, list[Training]] = {}
    for name, axes in read_space(plan.space, list(plan.models)).items():
        count = plan.tunings * plan.tuning_trials
        points: Sequence[Mapping[str, float]] = [{}] * count
        if axes and count:
            points = draw_points(axes, count, seed_for(plan.tuning_seed, f"tuning/{name}"))
        for number, point in enumerate(points):
            model = plan.models[name].at_point(point)
            steps = plan.steps_with(model.training)
            seed = plan.tuning_seed + number
            for budget, amount in plan.amounts.items():
                part = "" if budget == plan.main else f"-budget{budget!r}"
                path = trial_path(name, number, part)
                trial = Training(path, name, model, seed, budget, amount, steps, tested=False, point=point)
                arm = (budget, name, number // plan.tuning_trials)
                trials.setdefault(arm, []).append(trial)
    return trials
