"""Time training and decoding, by turns and alone after all trainings, so that background load affects all models alike.

A training beside others takes as long as they let it. Its time in the report is the median step times the steps; the
wall clock stands in each run's record.
"""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import repeat
from pathlib import Path
from typing import Annotated

import torch
from annotated_types import Gt

from selfattn.codec import Plain, read, write
from selfattn.comparison.plan import ComparisonPlan
from selfattn.comparison.tested import RunOnDisk, read_runs
from selfattn.comparison.testing import batch_shape
from selfattn.comparison.trainings import TrainingRunner
from selfattn.data.batches import Batch, collate
from selfattn.data.pairs import Example
from selfattn.errors import UserError, say
from selfattn.evaluation.cost import BatchShape, synchronise
from selfattn.files import sha256_of, writing
from selfattn.models.build import build
from selfattn.models.config import ModelConfig
from selfattn.processes import choose_device
from selfattn.runs.evaluate import answer
from selfattn.runs.ledger import read_ledger, seal_step
from selfattn.runs.load import load
from selfattn.runs.training_set import TrainingSet
from selfattn.streams import generator
from selfattn.training.config import TrainingConfig
from selfattn.training.loop import cut_epoch
from selfattn.training.step import Stepper, make_optimizer, take_steps
from selfattn.training.weights import Replica, make_average
from selfattn.words.messages import message

COSTS = "costs.json"
_ADVICE = "remove it, and compare with `resume`: times are taken again"
_WARM_UP = 2  # turns that do not count
# Turns of what is timed.
_STEPS = 7
_SINGLE = 50  # single inputs
_BATCHES = 3  # inputs in batches
_INPUTS = 256  # decoded in batches
_SCHEDULE = 1000  # steps of a training whose middle one is timed
_Time = Annotated[float, Gt(0)]


@dataclass(frozen=True)
class ModelTimes(Plain):
    """Times of a model alone on the machine: medians.

    Attributes:
        step_seconds: of a training step.
        predict_ms: milliseconds for a single input, greedily.
        predict_batch_ms: milliseconds an input in batches, decoded as in the test.
        steps: seconds of a training step of runs that read more or less in one, by :func:`step_key`.
    """

    step_seconds: _Time
    predict_ms: _Time
    predict_batch_ms: _Time
    steps: Mapping[str, _Time] = field(default_factory=dict)


@dataclass(frozen=True)
class Costs(Plain):
    """Times of the models of a comparison, by name."""

    models: Mapping[str, ModelTimes]


def measure_costs(runner: TrainingRunner, plan: ComparisonPlan) -> None:
    """Time training and decoding of all models by turns, unless that is done: of each the first run that is sound.

    The times are sealed in the ledger.

    Args:
        runner: of the comparison, all done.
        plan: of the comparison.

    Raises:
        UserError: the times cannot be written.
    """
    out = runner.options.out
    path = out / COSTS
    is_new = not path.exists()
    if is_new:
        say(message("progress.costs").say(runner.options.lang))
        runs = read_runs(out, plan)
        sound = [name for name, of_model in runs.main.items() if not all(run.failed for run in of_model)]
        firsts = {name: runs.finished(name) for name in sound}
        trained = [run for run in runs.all() if not run.failed]
        with writing(path):
            write(path, Costs(_times(runner, firsts, trained) if firsts else {}), checksum=True)
    if is_new or not any(entry.sealed == COSTS for entry in read_ledger(out)):
        seal_step(out, COSTS, plan.command, plan=plan.seal.sha256, digest=digest_of_costs(out))


def digest_of_costs(comparison: Path) -> str:
    """Return the SHA-256 of the times; empty where they were not taken."""
    path = comparison / COSTS
    return sha256_of(path) if path.exists() else ""


def read_costs(comparison: Path) -> Mapping[str, ModelTimes]:
    """Return the times of models by name; empty where they were not taken.

    Raises:
        UserError: the file is broken.
    """
    path = comparison / COSTS
    return read(Costs, path, advice=_ADVICE).models if path.exists() else {}


def steps_of(data: TrainingSet, recipe: TrainingConfig) -> int:
    """Return the number of steps of a training.

    Raises:
        UserError: the data are a stream, and there is no ``max_steps``.
    """
    if recipe.max_steps:
        return recipe.max_steps
    _, count = cut_epoch(data.epoch(0), recipe, generator(recipe.seed, "data/0"))
    if count is None:
        raise UserError("`max_steps`: the data are a stream of unknown length; say how many steps to train")
    return count * recipe.epochs


def by_turns(actions: Mapping[str, Callable[[int], object]], turns: int) -> dict[str, float]:
    """Time actions by turns, so that a busy moment of the machine affects all.

    Args:
        actions: by name; each gets the number of the turn, and returns when its work on a GPU is done.
        turns: that count; a warm-up comes before.

    Returns:
        The median seconds of each action.
    """
    taken: dict[str, list[float]] = {name: [] for name in actions}
    for turn in range(-_WARM_UP, turns):
        for name, act in actions.items():
            started = time.perf_counter()
            act(turn)
            taken[name].append(time.perf_counter() - started)
    return {name: statistics.median(seconds[_WARM_UP:]) for name, seconds in taken.items()}


def step_key(name: str, training: TrainingConfig) -> str:
    """Name a model with how much its steps read, such as ``transformer, batch_size 8``."""
    read = {"batch_size": training.batch_size, "max_tokens": training.max_tokens, "accumulate": training.accumulate}
    usual = TrainingConfig()
    parts = [f"{key} {value}" for key, value in read.items() if key == "batch_size" or value != getattr(usual, key)]
    return ", ".join([name, *parts])


def step_seconds(models: Mapping[str, tuple[ModelConfig, TrainingConfig]], runner: TrainingRunner) -> dict[str, float]:
    """Time a training step of each model, by turns, at the middle of its schedule.

    Args:
        models: with their trainings, by any name.
        runner: has the data and the device.

    Returns:
        Seconds, the median of some steps.
    """
    data = runner.data(runner.first_seed)[0]
    size = len(data.tokenizer)
    place = choose_device(runner.options.device)
    steps = {
        name: _step(config, size, batch_shape(data.validation, training), training, place)
        for name, (config, training) in models.items()
    }
    return by_turns(steps, _STEPS)


def _step(
    config: ModelConfig, vocab_size: int, shape: BatchShape, training: TrainingConfig, device: torch.device
) -> Callable[[int], None]:
    model = build(config, vocab_size=vocab_size, pad_id=0, seed=0).to(device).train()
    training = replace(training, lr=1e-6)  # any rate takes as long; a high one diverges on random tokens
    optimizer = make_optimizer(model, training)
    average = make_average(model, training)
    stepper = Stepper(Replica(model), optimizer, training, generator(0, "forcing/0"))
    group = [_batch(shape, vocab_size)] * training.accumulate
    steps = max(_SCHEDULE, 2 * (training.warmup_steps or 0))
    taken = take_steps(stepper, repeat(group), total_steps=steps, first=steps // 2, average=average)

    def step(_: int) -> None:
        next(taken)
        synchronise(device)

    return step


def _batch(shape: BatchShape, vocab_size: int) -> Batch:
    draw = torch.Generator().manual_seed(0)
    sources, targets = (
        torch.randint(1, vocab_size, (shape.batch, length), generator=draw).tolist()
        for length in (shape.source, shape.target)
    )
    return collate(list(map(Example, sources, targets)), 0, 1, range(shape.batch))


def _times(runner: TrainingRunner, tested: Mapping[str, RunOnDisk], runs: Sequence[RunOnDisk]) -> dict[str, ModelTimes]:
    """Time a run of each model, and steps of all that read as much in one as some run does."""
    timed = {step_key(run.name, run.config.training): (run.config.model, run.config.training) for run in runs}
    seconds = step_seconds(timed, runner)
    of_model: dict[str, dict[str, float]] = {}
    for run in runs:
        key = step_key(run.name, run.config.training)
        of_model.setdefault(run.name, {})[key] = seconds[key]
    loaded = {name: load(run.path) for name, run in tested.items()}
    pairs = next(iter(tested.values())).outputs.pairs[:_INPUTS]
    single = {name: (lambda turn, run=run: answer(run, [pairs[turn % len(pairs)]])) for name, run in loaded.items()}
    batch = {name: (lambda _, run=run: answer(run, pairs, runner.task.decoding)) for name, run in loaded.items()}
    alone = by_turns(single, min(_SINGLE, len(pairs)))
    together = by_turns(batch, _BATCHES)
    times = {}
    for name, run in tested.items():
        step = seconds[step_key(name, run.config.training)]
        times[name] = ModelTimes(step, 1000 * alone[name], 1000 * together[name] / len(pairs), of_model[name])
    return times
