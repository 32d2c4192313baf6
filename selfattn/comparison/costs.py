"""What models take in time, measured by turns and alone when all trainings are done, so that no neighbour counts.

A training among others takes as long as they let it, and so does decoding. Steps times the median step are the seconds
that a training would take undisturbed; the wall clock stands in the record of every run.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path

import torch
from torch import Tensor

from selfattn import codec
from selfattn.codec import Plain
from selfattn.comparison.diagnostics import batch_shape
from selfattn.comparison.planning.plan import Plan
from selfattn.comparison.planning.tuning import trials_by_budget
from selfattn.comparison.running.jobs import Job, Jobs, jobs_of
from selfattn.comparison.running.side_by_side import reached
from selfattn.comparison.testing import Tested
from selfattn.console import say
from selfattn.data.batches import Batch, collate
from selfattn.data.examples import Example
from selfattn.decoding.beam import beam_search
from selfattn.errors import UserError
from selfattn.evaluation.cost.decoding import NO_END, decoding_times, greedy_to_length, synchronise
from selfattn.evaluation.cost.flops import BatchShape, machine_peak
from selfattn.files import writing
from selfattn.models.build import build, count_parameters
from selfattn.models.config import ModelConfig
from selfattn.models.protocol import Seq2Seq
from selfattn.results.cost import DecodingCost
from selfattn.runs.run import Run, load
from selfattn.runs.training_set import TrainingSet
from selfattn.streams import generator
from selfattn.training.config import DeviceName, TrainingConfig
from selfattn.training.device import choose_device
from selfattn.training.distributed.parallel import Replica
from selfattn.training.distributed.processes import Processes
from selfattn.training.loop import cut_epoch
from selfattn.training.optimizer import make_optimizer
from selfattn.training.step import Stepper
from selfattn.training.weights import make_average

COSTS = "costs.json"
_ADVICE = "remove it, and compare with `resume`: times are taken again"
_WARM_UP = 2  # turns that do not count
_STEPS, _ALONE, _BATCHES, _LOOKS = 7, 50, 3, 3  # turns: steps, inputs one by one, inputs in batches, each length
_INPUTS = 256  # that are decoded in batches
_LENGTHS, _SIZES = (8, 32), (1, 64)  # target tokens and rows that decoding is timed with
_BEAM = 5
_COPIES = 5  # of the weights on disk: the best; to go on from, those of the last step, the best, two of the optimizer
_ANSWER = 400  # bytes that a test item takes
_SCHEDULE = 1000  # steps of a training whose middle one is timed


@dataclass(frozen=True)
class RunTimes(Plain):
    """What a run takes alone on the machine: medians.

    Attributes:
        step_seconds: of a step of its training.
        predict_ms: milliseconds for one input alone, greedily.
        predict_batch_ms: milliseconds an input in batches, decoded as in the test.
        peak_share: training FLOP a second as a share of the machine's peak; None where it was not asked for.
        decoding: by method, batch and length; empty where it was not asked for.
    """

    step_seconds: float
    predict_ms: float
    predict_batch_ms: float
    peak_share: float | None = None
    decoding: tuple[DecodingCost, ...] = ()


@dataclass(frozen=True)
class Costs(Plain):
    """What the runs of a comparison take, by the names of their directories."""

    runs: Mapping[str, RunTimes]


def measure_costs(jobs: Jobs, plan: Plan) -> None:
    """Time training and decoding of all runs, unless that is done; seed after seed, the models of each by turns.

    Args:
        jobs: of the comparison, all done.
        plan: has the models.

    Raises:
        UserError: what was found cannot be written.
    """
    path = jobs.options.out / COSTS
    if path.exists():
        return
    say("trainings are done; steps and decoding are timed by turns, alone")
    found: dict[str, RunTimes] = {}
    for seed in plan.seed_numbers:
        asked = [job for job in jobs_of(plan) if (job.seed, job.variant) == (seed, plan.main)]
        asked = [job for job in asked if not Tested(jobs.options.out / job.path).failed]
        found |= _times_of(jobs, asked) if asked else {}
    with writing(path):
        codec.write(path, Costs(found), checksum=True)


def read_costs(comparison: Path) -> Mapping[str, RunTimes]:
    """Return the times of runs by the names of their directories; nothing where they were not taken.

    Raises:
        UserError: the file is broken.
    """
    path = comparison / COSTS
    return codec.read(Costs, path, advice=_ADVICE).runs if path.exists() else {}


def span(seconds: float) -> str:
    """A time in one unit.

    Example:
        >>> span(30), span(600), span(9000)
        ('30 seconds', '10 minutes', '2.5 hours')
    """
    unit, size = ("seconds", 1) if seconds < 120 else ("minutes", 60) if seconds < 7200 else ("hours", 3600)
    return f"{seconds / size:.0f} {unit}" if size < 3600 else f"{seconds / size:.1f} {unit}"


@dataclass(frozen=True)
class Forecast:
    """What a comparison is going to take.

    Attributes:
        steps: of each training of a model, those of tuning among them.
        step_seconds: of each model, alone.
        jobs: trainings side by side.
        disk: bytes, once all is done: weights, what is needed to go on, and answers.
    """

    steps: tuple[int, ...]
    step_seconds: Mapping[str, float]
    jobs: int
    disk: int

    @property
    def hours(self) -> float:
        """Of training, where neighbours do not slow each other down."""
        return sum(self.steps) * sum(self.step_seconds.values()) / self.jobs / 3600

    def lines(self) -> list[str]:
        """Say it in words."""
        ends = " to ".join(f"{steps:,}" for steps in dict.fromkeys((min(self.steps), max(self.steps))))
        found = [
            f"{name}: {len(self.steps)} trainings of {ends} steps, {1000 * seconds:.1f} ms a step"
            for name, seconds in self.step_seconds.items()
        ]
        all_runs, time = len(self.steps) * len(found), span(3600 * self.hours)
        total = f"{all_runs} trainings, {self.jobs} side by side: about {time}"
        return [
            *found,
            f"{total}; validation, tests and report come on top",
            f"about {self.disk / 1e6:,.0f} MB of disk",
        ]


def steps_of(data: TrainingSet, recipe: TrainingConfig) -> int:
    """Return how many steps a training has.

    Raises:
        UserError: the data are a stream, and ``max_steps`` does not say how many steps there are.
    """
    if recipe.max_steps:
        return recipe.max_steps
    ids, order = data.tokenizer, generator(recipe.seed, "data/0")
    _, count = cut_epoch(data.epoch(0), recipe, pad_id=ids.pad_id, bos_id=ids.bos_id, generator=order)
    if count is None:
        raise UserError("max_steps: the data are a stream, whose length nobody knows; say how many steps to train")
    return count * recipe.epochs


def forecast_of(jobs: Jobs, plan: Plan) -> Forecast:
    """Say what a plan is going to take, from a few timed steps of each model.

    Args:
        jobs: of the comparison.
        plan: nothing of it needs to be done.

    Raises:
        UserError: the data are a stream, and ``max_steps`` does not say how many steps there are.
    """
    data, recipe, options = jobs.training_set(0), jobs.recipe, jobs.options
    models = {name: planned.model for name, planned in plan.models.items()}
    whole = steps_of(data, recipe)
    runs = [variant.applied_to(recipe, whole).max_steps or whole for _, _, variant in plan.runs()[:: len(models)]]
    tried = {} if plan.tuned else trials_by_budget(options.tune, plan.budgets)
    for budget, count in tried.items():
        runs += [plan.variants[budget].applied_to(recipe, whole).max_steps or whole] * count
    size = len(data.tokenizer)
    shape = batch_shape(data.validation, recipe)
    seconds = step_seconds(models, vocab_size=size, shape=shape, training=recipe, device=options.device)
    trainings = len(runs)
    with torch.device("meta"):
        weights = sum(count_parameters(build(one, vocab_size=size, pad_id=0, seed=0))[0] for one in models.values())
    items = options.test_items or jobs.task.test_items(options.quick) or 0
    with reached(options, trainings * len(models)) as (_, side_by_side):
        disk = trainings * (_COPIES * 4 * weights + _ANSWER * items * len(models))
        return Forecast(tuple(runs), seconds, side_by_side, disk)


def by_turns(asked: Mapping[str, Callable[[int], object]], turns: int) -> dict[str, list[float]]:
    """Do all that is asked once in every turn, so that a busy moment of the machine meets all.

    Args:
        asked: by name; each is given the number of the turn, and returns when its work on a GPU is done.
        turns: how many count; some before do not.

    Returns:
        The seconds of each in every turn.
    """
    taken: dict[str, list[float]] = {name: [] for name in asked}
    for turn in range(-_WARM_UP, turns):
        for name, do in asked.items():
            started = time.perf_counter()
            do(turn)
            taken[name].append(time.perf_counter() - started)
    return {name: own[_WARM_UP:] for name, own in taken.items()}


def step_seconds(
    models: Mapping[str, ModelConfig],
    *,
    vocab_size: int,
    shape: BatchShape,
    training: TrainingConfig,
    device: DeviceName = "auto",
) -> dict[str, float]:
    """Time a training step of each model, by turns: all that the training does in it, halfway through its schedule.

    Args:
        models: by name.
        vocab_size: number of tokens.
        shape: of a batch.
        training: how they are trained.
        device: where; default a GPU where there is one.

    Returns:
        Seconds, the median of some steps.
    """
    where = choose_device(device)
    with torch.random.fork_rng(devices=[where] if where.type == "cuda" else []):
        steps = {name: _step(config, vocab_size, shape, training, where) for name, config in models.items()}
        return {name: statistics.median(own) for name, own in by_turns(steps, _STEPS).items()}


def _step(
    config: ModelConfig, vocab_size: int, shape: BatchShape, training: TrainingConfig, device: torch.device
) -> Callable[[int], None]:
    model = build(config, vocab_size=vocab_size, pad_id=0, seed=0).to(device).train()
    training = replace(training, lr=1e-6)  # on random tokens no rate is a good one, and all take as long
    optimizer, average = make_optimizer(model, training), make_average(model, training)
    stepper = Stepper(Replica(model, Processes()), optimizer, training, generator(0, "forcing/0"))
    group = [_batch(shape, vocab_size)] * training.accumulate
    steps = max(_SCHEDULE, 2 * (training.warmup_steps or 0))

    def step(_: int) -> None:
        stepper.step(group, steps // 2, total_steps=steps, epoch=0)
        average.stepped()
        synchronise(device)

    return step


def _batch(shape: BatchShape, vocab_size: int) -> Batch:
    draw = torch.Generator().manual_seed(0)
    sources, targets = (
        torch.randint(1, vocab_size, (shape.batch, length), generator=draw).tolist()
        for length in (shape.source, shape.target)
    )
    return collate(list(map(Example, sources, targets)), 0, 1, range(shape.batch))


def _times_of(jobs: Jobs, asked: Sequence[Job]) -> dict[str, RunTimes]:
    """Time the runs of one seed."""
    out, data = jobs.options.out, jobs.training_set(0)
    shape = batch_shape(data.validation, jobs.recipe)
    models = {job.label: job.model.model for job in asked}
    steps = step_seconds(
        models, vocab_size=len(data.tokenizer), shape=shape, training=jobs.recipe, device=jobs.options.device
    )
    runs = {job.label: load(out / job.path) for job in asked}
    tested = {job.label: Tested(out / job.path) for job in asked}
    texts = [pair.source for pair in tested[asked[0].label].pairs][:_INPUTS]

    def one(run: Run, turn: int) -> None:
        run.predict([texts[turn % len(texts)]])

    def many(run: Run, turn: int) -> None:
        run.decode(texts, jobs.task.decoding)

    alone = by_turns({name: partial(one, run) for name, run in runs.items()}, min(_ALONE, len(texts)))
    batches = by_turns({name: partial(many, run) for name, run in runs.items()}, _BATCHES)
    found = {
        name: RunTimes(
            steps[name],
            1000 * statistics.median(alone[name]),
            1000 * statistics.median(batches[name]) / len(texts),
        )
        for name in runs
    }
    thorough = {job.label: runs[job.label].model for job in asked if job.leading and not jobs.options.quick}
    if thorough:
        peak = machine_peak(device=choose_device(jobs.options.device).type)
        decoding = _decoding(thorough, len(data.tokenizer), shape.source)
        for name in thorough:
            seconds = steps[name] * tested[name].metrics[-1].step
            share = (tested[name].result.cost.training_flops or 0.0) / seconds / peak
            found[name] = replace(found[name], peak_share=share, decoding=tuple(decoding[name]))
    return found


def _decoding(models: Mapping[str, Seq2Seq], vocab_size: int, source_length: int) -> dict[str, list[DecodingCost]]:
    """Time decoding by method, batch and length, the models by turns."""
    found: dict[str, list[DecodingCost]] = {name: [] for name in models}
    methods = {"greedy": greedy_to_length, f"beam {_BEAM}": _beam_to_length}
    for method, batch in product(methods, _SIZES):
        times = partial(
            decoding_times,
            vocab_size=vocab_size,
            source_length=source_length,
            target_lengths=_LENGTHS,
            batch=batch,
            decode=methods[method],
            method=method,
            repeats=1,
        )
        looks = [{name: times(model) for name, model in models.items()} for _ in range(_LOOKS)]
        for name, own in found.items():
            for same in zip(*(look[name] for look in looks), strict=True):
                first = statistics.median(one.first_ms for one in same)
                own.append(replace(same[0], first_ms=first, token_ms=statistics.median(one.token_ms for one in same)))
    return found


def _beam_to_length(model: Seq2Seq, source: Tensor, source_mask: Tensor, length: int) -> object:
    return beam_search(model, source, source_mask, bos_id=1, eos_id=NO_END, max_length=length, beam_size=_BEAM)
