"""Tuning of the models of a comparison: what is tried of which setting, the trials, and the choice among them.

Every model has the same number of trials. Their settings come from one quasi-random sequence a model, each trial has a
seed of its own, and the best validation score is chosen. Several tunings divide the sequence among them; the final runs
of a tuning share its luck, so that tunings are the independent units (docs/statistics.md, "Luck in tuning").
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from selfattn.codec import encode, fingerprint
from selfattn.comparison.plan import Plan, PlannedModel, Training
from selfattn.comparison.trainings import DIVERGED
from selfattn.errors import SettingError, UserError
from selfattn.experiments.tuning import Rank, draw_points, search
from selfattn.files import reading, sha256_of
from selfattn.results.record import TuningTrial
from selfattn.results.space import Axis, parse_axis
from selfattn.runs.directory import RECORD, RunDirectory
from selfattn.settings import bounds_of
from selfattn.streams import seed_for
from selfattn.training.config import TrainingConfig

_FEWEST_TUNINGS = 5  # that are enough, where there are more seeds
_SHORT = {"batch": "batch_size"}
_NOT_TUNED = (
    "seed", "epochs", "max_steps", "items_per_epoch",  # how much is trained
    "validation_items", "validate_every", "patience", "target_exact_match",  # how it is judged
)  # fmt: skip
TUNING = "tuning"  # folder of the trials, and their step in the ledger
READ_IN_A_STEP = ("batch_size", "max_tokens", "accumulate")  # settings that decide how many steps a training has
Arm = tuple[float, str, int]  # budget, model, tuning


def default_space(recipe: TrainingConfig) -> tuple[str, ...]:
    """Return what is tried where nothing is said: learning rate, batch size and warm-up around those of the recipe.

    Example:
        >>> default_space(TrainingConfig(lr=0.004, batch_size=64))
        ('lr=0.001..0.016:log', 'batch_size=8,16,32,64', 'warmup=0.05..0.4')
    """
    name = "max_tokens" if recipe.max_tokens else "batch_size"
    most = recipe.max_tokens or recipe.batch_size
    sizes = sorted({max(1, most // part) for part in (8, 4, 2, 1)})
    axes = [Axis("lr", low=recipe.lr / 4, high=4 * recipe.lr, log=True)]
    axes += [Axis(name, tuple(map(float, sizes)))] if len(sizes) > 1 else []
    axes += [Axis("warmup", low=0.05, high=0.4)] if recipe.warmup_steps is None else []
    return tuple(map(str, axes))


def default_tunings(seeds: Sequence[int]) -> int:
    """Return the number of tunings for so many seeds: one for each, or the fewest from five on that divide them.

    Args:
        seeds: their number; several where interim analyses are planned, which take a tuning for each seed.

    Example:
        >>> default_tunings([3]), default_tunings([8]), default_tunings([20]), default_tunings([3, 5, 8])
        (3, 8, 5, 8)
    """
    most = max(seeds)
    if len(seeds) > 1 or most <= _FEWEST_TUNINGS:
        return most
    return next(count for count in range(_FEWEST_TUNINGS, most + 1) if most % count == 0)


def check_tunings(tunings: int, seeds: Sequence[int]) -> None:
    """Check that each tuning has as many final runs as any other, at every planned analysis.

    Raises:
        SettingError: it has not.
    """
    if tunings != max(seeds) and any(count % tunings for count in seeds):
        counts = ",".join(map(str, seeds))
        raise SettingError(f"`tunings` {tunings}: `seeds` {counts} cannot be divided among them evenly; give another")


def read_space(texts: Sequence[str], models: Sequence[str]) -> dict[str, tuple[Axis, ...]]:
    """Read a space: the axes of each model.

    Args:
        texts: such as ``lr=1e-3..1e-2:log``, or ``transformer:lr=1e-4..1e-2:log`` in place of the common range.
        models: their names.

    Raises:
        SettingError: an unknown model, another form, a setting that stands there twice, or one that is not tuned.

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
        place = of_model[owner] if colon else common
        if axis.name in place:
            raise SettingError(f"`space` {text}: {axis.name} stands there twice; leave one of them out")
        place[axis.name] = axis
    return {name: tuple((common | axes).values()) for name, axes in of_model.items()}


def check_space(texts: Sequence[str], models: Mapping[str, PlannedModel], recipe: TrainingConfig) -> None:
    """Check that every model can be trained at all listed values and at the ends of all ranges.

    Args:
        texts: see :func:`read_space`.
        models: by name.
        recipe: of the training.

    Raises:
        SettingError: an unknown model or setting, or a value that is not allowed.
    """
    for name, axes in read_space(texts, list(models)).items():
        for axis in axes:
            for value in axis.values or axis.ends:
                try:
                    replace(recipe, **models[name].at_point({axis.name: axis.typed(value)}).training)
                except UserError as error:
                    raise SettingError(f"`space` {axis}: {name}: {error}") from None


@dataclass(frozen=True)
class Trial:
    """A planned trial.

    Attributes:
        point: its settings.
        training: that tries them.
    """

    point: Mapping[str, float]
    training: Training


def planned_trials(plan: Plan) -> dict[Arm, list[Trial]]:
    """Return the trials of every tuning, which follow from the plan alone; nothing without tuning."""
    trials: dict[Arm, list[Trial]] = {}
    for name, axes in read_space(plan.space, list(plan.models)).items():
        count = plan.tunings * plan.tuning_trials
        points = draw_points(axes, count, seed_for(plan.tuning_seed, f"tuning/{name}")) if count else []
        for number, point in enumerate(points):
            model = plan.models[name].at_point(point)
            steps = plan.steps_with(model.training)
            seed = plan.tuning_seed + number
            for budget, variant in plan.variants.items():
                part = "" if budget == plan.main else f"-budget{budget!r}"
                path = f"{TUNING}/{name}{part}-trial{number}"
                training = Training(path, name, model, seed, budget, variant, steps, tested=False)
                arm = (budget, name, number // plan.tuning_trials)
                trials.setdefault(arm, []).append(Trial(point, training))
    return trials


def choose(
    plan: Plan, comparison: Path, run: Callable[[Sequence[Training]], None] | None = None
) -> dict[str, tuple[TuningTrial, ...]]:
    """Choose the best settings of every tuning by the validation metric, equal ones by the lowest validation loss.

    A trial that diverged is worse than all others.

    Args:
        plan: of the comparison.
        comparison: its directory.
        run: runs the trials; default they are done.

    Returns:
        The trials of each model as they are on disk, the largest budget first.

    Raises:
        UserError: a trial is missing or broken.
    """
    planned = planned_trials(plan)
    results: dict[Arm, list[TuningTrial]] = {}

    def measure(tried: Mapping[Arm, Sequence[Trial]]) -> dict[Arm, list[Rank]]:
        if run is not None:
            trainings: list[Training] = []
            for trials in tried.values():
                trainings += [trial.training for trial in trials]
            run(sorted(trainings, key=lambda job: job.seed))  # a worker keeps the data of a seed for the next model
        for arm, trials in tried.items():
            results[arm] = [_read(plan, comparison, arm, trial) for trial in trials]
        return {arm: [_rank(plan, result) for result in results[arm]] for arm in tried}

    _, best = search(planned, measure)
    chosen: dict[str, tuple[TuningTrial, ...]] = dict.fromkeys(plan.models, ())
    for arm in sorted(results, key=lambda arm: -arm[0]):
        place = planned[arm].index(best[arm])
        chosen[arm[1]] += tuple(replace(result, chosen=k == place) for k, result in enumerate(results[arm]))
    return chosen


def _read(plan: Plan, comparison: Path, arm: Arm, trial: Trial) -> TuningTrial:
    """Read a trial from its directory: the best metric and the lowest loss."""
    directory = RunDirectory(comparison / trial.training.path)
    record = directory.record()
    valid = None
    loss = None
    if record.status != DIVERGED:
        best = max if plan.headline.better == "higher" else min
        reports = directory.metrics()
        valid = best(report.measures[plan.headline.metric] for report in reports)
        loss = min(report.valid_loss for report in reports)
    budget = None if arm[0] == plan.main else arm[0]
    seed = trial.training.seed
    return TuningTrial(trial.point, seed, valid, record.train_seconds, loss=loss, budget=budget, tuning=arm[2])


def _rank(plan: Plan, trial: TuningTrial) -> Rank:
    if trial.valid is None:
        return math.inf, math.inf
    sign = -1 if plan.headline.better == "higher" else 1
    return sign * trial.valid, trial.loss or 0.0


def digest_of_trials(plan: Plan, comparison: Path) -> str:
    """Return the SHA-256 of the choice, and of the record of every trial, which has those of all its files.

    Raises:
        UserError: a trial is missing.
    """
    digests = {}
    for trials in planned_trials(plan).values():
        for trial in trials:
            path = comparison / trial.training.path / RECORD
            with reading(path, "restore it, or compare again"):
                digests[trial.training.label] = sha256_of(path)
    return fingerprint({"trials": encode(plan.trials), "digests": digests})


def tune(plan: Plan, comparison: Path, run: Callable[[Sequence[Training]], None]) -> Plan:
    """Run the trials of every tuning, and return the plan with their results and the choice."""
    return replace(plan, trials=choose(plan, comparison, run), tuned=True)
