"""Tuning of the models of a comparison: the space of settings, the trials, and the choice of the best.

Every model has the same number of trials. The settings of a model's trials come from one quasi-random sequence, and
each trial has another seed. The trial with the best validation score is chosen. Several tunings of a model divide its
sequence among them. The final runs of a tuning share the luck of its choice, so tunings are the independent units of
the statistics (docs/statistics.md, "Luck in tuning").
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

from selfattn.codec import encode, fingerprint
from selfattn.comparison.plan import ComparisonPlan, PlannedModel, Race, Training, trial_path
from selfattn.comparison.tested import ANSWERS, RESULT
from selfattn.comparison.trainings import DIVERGED, examples_until
from selfattn.errors import SettingError, UserError
from selfattn.experiments.tuning import Rank, draw_points, search
from selfattn.results.plan import Axis, parse_axis
from selfattn.results.record import TuningTrial
from selfattn.runs.directory import RunDirectory
from selfattn.settings import bounds_of
from selfattn.streams import seed_for
from selfattn.training.config import TrainingConfig

_FEWEST_TUNINGS = 5  # with fewer seeds than this, each seed has a tuning
_SHORT = {"batch": "batch_size"}
_NOT_TUNED = (
    "seed", "epochs", "max_steps", "items_per_epoch",  # how much is trained
    "validation_items", "validate_every", "patience", "target_exact_match",  # how it is judged
)  # fmt: skip
READ_IN_A_STEP = ("batch_size", "max_tokens", "accumulate")  # settings that decide how many steps a training has
TuningKey = tuple[float, str, int]  # budget, model, tuning


def default_space(recipe: TrainingConfig) -> tuple[str, ...]:
    """Return the default space: learning rate, batch size and warm-up around those of the recipe.

    Example:
        >>> default_space(TrainingConfig(lr=0.004, batch_size=64))
        ('lr=0.001..0.016:log', 'batch_size=8,16,32,64', 'warmup=0.05..0.4')
    """
    name = "max_tokens" if recipe.max_tokens else "batch_size"
    largest = recipe.max_tokens or recipe.batch_size
    sizes = sorted({max(1, largest // part) for part in (8, 4, 2, 1)})
    axes = [Axis("lr", low=recipe.lr / 4, high=4 * recipe.lr, log=True)]
    axes += [Axis(name, tuple(map(float, sizes)))] if len(sizes) > 1 else []
    axes += [Axis("warmup", low=0.05, high=0.4)] if recipe.warmup_steps is None else []
    return tuple(map(str, axes))


def default_tunings(seeds: int) -> int:
    """Return the default number of tunings.

    Up to five seeds have a tuning each. More seeds share the smallest number of tunings that is at least five and
    divides the number of seeds.

    Args:
        seeds: number of seeds.

    Example:
        >>> default_tunings(3), default_tunings(8), default_tunings(20)
        (3, 8, 5)
    """
    if seeds <= _FEWEST_TUNINGS:
        return seeds
    return next(count for count in range(_FEWEST_TUNINGS, seeds + 1) if seeds % count == 0)


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


def space_texts(plan: ComparisonPlan) -> dict[str, dict[str, str]]:
    """Return what tuning tries of each setting as text, by model."""
    axes_by_model = read_space(plan.space, list(plan.models))
    return {name: {axis.name: str(axis).partition("=")[2] for axis in axes} for name, axes in axes_by_model.items()}


def check_space(texts: Sequence[str], models: Mapping[str, PlannedModel], recipe: TrainingConfig) -> None:
    """Check that every model can be trained at all listed values and at the ends of all ranges.

    Args:
        texts: see :func:`read_space`.
        models: by name.
        recipe: of the training.

    Raises:
        SettingError: a model or a setting is unknown, or a value is not allowed.
    """
    for name, axes in read_space(texts, list(models)).items():
        for axis in axes:
            for value in axis.values or axis.ends:
                try:
                    replace(recipe, **models[name].at_point({axis.name: axis.typed(value)}).training)
                except UserError as error:
                    raise SettingError(f"`space` {axis}: {name}: {error}") from None


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
            for budget, variant in plan.variants.items():
                part = "" if budget == plan.main else f"-budget{budget!r}"
                path = trial_path(name, number, part)
                trial = Training(path, name, model, seed, budget, variant, steps, tested=False, point=point)
                arm = (budget, name, number // plan.tuning_trials)
                trials.setdefault(arm, []).append(trial)
    return trials


def choose(
    plan: ComparisonPlan, comparison: Path, run: Callable[[Sequence[Training | Race]], None] | None = None
) -> dict[str, tuple[TuningTrial, ...]]:
    """Choose the best settings of every tuning by the validation metric; ties go to the lower validation loss.

    A trial that diverged is worse than all others.

    Args:
        plan: of the comparison.
        comparison: its directory.
        run: runs the trials; default None: they are on disk already.

    Returns:
        The trials of each model as read from disk, the largest budget first; those that were chosen are marked.

    Raises:
        UserError: a trial is missing or broken.
    """
    planned = planned_trials(plan)
    results: dict[TuningKey, list[TuningTrial]] = {}

    def measure(tried: Mapping[TuningKey, Sequence[Training]]) -> dict[TuningKey, list[Rank]]:
        if run is not None:
            all_trials = chain.from_iterable(tried.values())
            in_order = sorted(all_trials, key=lambda trial: trial.seed)  # a worker keeps the data of the last seed
            run(in_order if plan.until is None else _races(tried))
        for arm, trials in tried.items():
            results[arm] = [_read(plan, comparison, arm, trial) for trial in trials]
        return {arm: [_rank(plan, result) for result in results[arm]] for arm in tried}

    _, best = search(planned, measure)
    chosen: dict[str, tuple[TuningTrial, ...]] = dict.fromkeys(plan.models, ())
    for arm in sorted(results, key=lambda arm: -arm[0]):
        name = arm[1]
        best_number = planned[arm].index(best[arm])
        chosen[name] += tuple(replace(result, chosen=k == best_number) for k, result in enumerate(results[arm]))
    return chosen


def _races(tried: Mapping[TuningKey, Sequence[Training]]) -> list[Race]:
    """Return a race for each tuning; models follow one another, for they share the data of its seeds."""
    races = []
    for (_, name, number), trials in sorted(tried.items(), key=lambda item: item[0][2]):
        races.append(Race(f"{name}-tuning{number}", tuple(trials)))
    return races


def _read(plan: ComparisonPlan, comparison: Path, arm: TuningKey, trial: Training) -> TuningTrial:
    """Read a trial from its directory: the best metric and the lowest loss of its validations."""
    directory = RunDirectory(comparison / trial.path)
    record = directory.record()
    valid = None
    loss = None
    if record.status != DIVERGED:
        best = max if plan.headline.better == "higher" else min
        reports = directory.metrics()
        valid = best(report.measures[plan.headline.metric] for report in reports)
        loss = min(report.valid_loss for report in reports)
    budget = None if arm[0] == plan.main else arm[0]
    return TuningTrial(
        trial.point,
        trial.seed,
        valid,
        record.train_seconds,
        loss=loss,
        budget=budget,
        tuning=arm[2],
        examples=examples_until(directory) if plan.until is not None else None,
    )


def _rank(plan: ComparisonPlan, trial: TuningTrial) -> Rank:
    """Return the trial's rank, lower is better: what it read until the target; the metric, then the loss."""
    if trial.valid is None:
        return math.inf, math.inf
    if trial.examples is not None:
        return -math.inf, trial.examples
    sign = -1 if plan.headline.better == "higher" else 1
    return sign * trial.valid, trial.loss or 0.0


def digest_of_trials(plan: ComparisonPlan, comparison: Path) -> str:
    """Return a SHA-256 over the choice and the record of every trial; a record holds the SHA-256 of its files.

    Files of a later test do not count.

    Raises:
        UserError: a trial is missing.
    """
    digests = {}
    for trial in chain.from_iterable(planned_trials(plan).values()):
        record = RunDirectory(comparison / trial.path).record()
        files = {name: digest for name, digest in record.files.items() if name not in (RESULT, ANSWERS)}
        digests[trial.label] = fingerprint(encode(replace(record, files=files)))
    return fingerprint({"trials": encode(plan.trials), "digests": digests})


def tune(plan: ComparisonPlan, comparison: Path, run: Callable[[Sequence[Training | Race]], None]) -> ComparisonPlan:
    """Run the trials of every tuning, and return the plan with their results and the choice."""
    return replace(plan, trials=choose(plan, comparison, run), tuned=True)
