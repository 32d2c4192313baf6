"""The training loop: steps, validations, best weights, and checkpoints to resume from.

The loop knows the protocol of models and no task: examples, criterion and observers are arguments. It prints nothing
and writes nothing but the checkpoint.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

import torch

from selfattn.data.batches import Batch, batch_places, batches, collate, stream_batches
from selfattn.data.pairs import Example
from selfattn.distributed import Processes
from selfattn.errors import UserError
from selfattn.models.protocol import Seq2Seq
from selfattn.processes import Stopped, give_back_memory, poll, polling
from selfattn.streams import generator, training_lock
from selfattn.tokenizers.protocol import BOS, PAD
from selfattn.training.checkpoint import CheckpointFile, TrainingState
from selfattn.training.config import TrainingConfig
from selfattn.training.loss import batch_loss, token_loss
from selfattn.training.observer import CurveReport, EpochReport, Observer, StepReport, StopTraining
from selfattn.training.step import Stepper, StepTaken, check_finite, make_optimizer, take_steps
from selfattn.training.weights import Average, Replica, make_average, named_weights, put_into

Group = list[Batch]
"""Batches whose gradients make one step."""
Status = Literal["finished", "target reached", "stopped early", "stopped by an observer", "interrupted"]


@dataclass(frozen=True)
class Outcome:
    """Result of a training.

    Attributes:
        status: all steps done, ``target_exact_match`` reached, ``patience`` exhausted (``stopped early``), stopped
            by an observer, or from the keyboard.
        reports: of the validations.
        best: report of the validation whose weights the model now has; None if there was none.
        seconds: of steps and batching, without validations; drawing examples counts only where they are a stream.
    """

    status: Status
    reports: tuple[EpochReport, ...]
    best: EpochReport | None
    seconds: float


LOSS = "loss"
"""Name of the deciding measure for the lowest validation loss."""
_LOOKED_AT = 100  # examples that a look reads in a batch
Counts = TypeVar("Counts", bound=tuple[Any, ...])


@dataclass(frozen=True)
class Criterion:
    """How quality is measured at a validation, and which measure decides.

    Attributes:
        measure: returns measures by name, given a model, its validation loss (nats per token) and the processes that
            validate together; called at every validation, by all of them.
        name: of the measure that decides; `LOSS` for the loss, where no measure has this name.
        higher_is_better: default True.
        part: returns the deciding measure on a part of the validation data, for points of the learning curve between
            validations; None where there is none.
        look: returns the loss and the deciding measure without writing outputs, such as :func:`first_look`; None where
            every validation writes them. They are written only where a look reaches the target.

    Example:
        >>> import math
        >>> perplexity = Criterion(lambda model, loss, processes: {"perplexity": math.exp(loss)}, "perplexity", False)
        >>> def report(loss: float) -> EpochReport:
        ...     return EpochReport(1, 2, 3, 4.0, 5.0, loss, 7.0, 8.0, perplexity.measure(None, loss, None))
        >>> perplexity.value(report(0.5)) > perplexity.value(report(0.9))
        True
    """

    measure: Callable[[Seq2Seq, float, Processes], Mapping[str, float]]
    name: str
    higher_is_better: bool = True
    part: Callable[[Seq2Seq, Processes], float] | None = None
    look: Callable[[Seq2Seq, Processes], tuple[float, float]] | None = None

    def value(self, report: EpochReport) -> float:
        """Return a number that is higher for better validations."""
        is_loss = self.name == LOSS and LOSS not in report.measures
        value = report.valid_loss if is_loss else report.measures[self.name]
        return value if self.higher_is_better else -value

    def by_loss(self) -> "Criterion":
        """Return a criterion with the same measures, where the lowest loss decides."""
        return replace(self, name=LOSS, higher_is_better=False, part=None, look=None)


def train_model(
    model: Seq2Seq,
    examples: Callable[[int], Iterable[Example]],
    validation: Sequence[Example],
    config: TrainingConfig,
    criterion: Criterion,
    *,
    observers: Sequence[Observer] = (),
    checkpoints: CheckpointFile | None = None,
    processes: Processes | None = None,
    curve_points: int = 0,
) -> Outcome:
    """Train a model in place; afterwards the model has its best weights and is in evaluation mode.

    ``config.average`` says which weights are validated and kept: those of the last step, their exponential moving
    average, or the mean over the last validations. Training always continues from the weights of the last step.

    The best validation has the best criterion; ties go to the lower loss. The random streams ``data/EPOCH``,
    ``dropout/EPOCH`` and ``forcing/EPOCH`` of ``config.seed`` decide the order of the data, dropout and scheduled
    sampling; none depends on the model. The caller's global random state does not change. A process trains one model
    at a time: a second thread waits.

    If there is a checkpoint, the training resumes from it, and ends bit for bit as if it had never stopped.

    A `KeyboardInterrupt` ends the training early and is not raised again. If an observer raises it after a step, all
    processes stop after that step is saved. If an observer requests a stop during a validation, the validation ends at
    the next step of decoding. The checkpoint then holds the state before the validation, which the resumed training
    repeats.

    Args:
        model: on the device to train on.
        examples: returns the examples of an epoch, counted from 0; always the same for the same epoch. A sequence is
            shuffled; any other iterable is read as a stream and needs ``config.max_steps``. All processes read all of
            them.
        validation: unseen examples for the loss.
        config: of the training.
        criterion: measures quality and says which weights are best.
        observers: watch the training, in the first process alone.
        checkpoints: where to keep checkpoints; default nowhere.
        processes: that train together; default this one alone. All validate, the first writes.
        curve_points: number of equal parts of the training. At the end of each, ``criterion.part`` is measured for a
            learning curve, which has no influence on the training. Default 0: validations alone.

    Raises:
        UserError: the loss is not finite; ``target_exact_match`` is set and the criterion is another; the data are a
            stream and ``max_steps`` is not set; an epoch has no examples; the warm-up is longer than the training; the
            checkpoint is broken or of another training; or another process is gone.
    """
    if config.target_exact_match is not None and not hasattr(config, f"target_{criterion.name}"):
        raise UserError(f"`target_exact_match`: {criterion.name} chooses the best weights here; leave it out")
    processes = processes or Processes()
    observers = observers if processes.is_main else ()
    with training_lock("training"), processes.together():
        replica = Replica(model, processes)
        loop = _Loop(replica, examples, validation, config, criterion, observers, checkpoints, curve_points)
        try:
            loop.resume()
            while (status := processes.decide(loop.reason())) is None:  # the first process decides
                loop.train_to_validation()
                if loop.state.progress.since_tokens:
                    loop.validate()
            if criterion.look is not None:
                loop.save()
        except KeyboardInterrupt:
            status = "interrupted"
        state = loop.state
        if state.best_weights is not None:
            put_into(model, state.best_weights)
        if status != "interrupted":  # all processes got here; the best weights are those of the first
            processes.broadcast(named_weights(model).values())
    model.eval()
    for observer in observers:
        with suppress(StopTraining):
            observer.ended(status, tuple(state.reports), model)
    return Outcome(status, tuple(state.reports), loop.best, state.progress.seconds)


@dataclass
class _Loop:
    """The training from validation to validation.

    There are two ways to stop. `KeyboardInterrupt` asks for an interruption, from which the training can resume.
    `StopTraining` asks for its end. Observers watch in the first process alone, so each request travels from there.
    """

    replica: Replica
    examples: Callable[[int], Iterable[Example]]
    validation: Sequence[Example]
    config: TrainingConfig
    criterion: Criterion
    observers: Sequence[Observer]
    checkpoints: CheckpointFile | None
    curve_points: int = 0
    steps: Iterator[StepTaken] | None = None  # the rest of the epoch
    is_stop_requested: bool = False  # KeyboardInterrupt in the first process
    is_end_requested: bool = False  # StopTraining in the first process, which tells the others

    def __post_init__(self) -> None:
        self.processes = self.replica.processes
        model = self.replica.model
        optimizer = make_optimizer(model, self.config)
        coins = generator(self.config.seed, "forcing/0")
        average = make_average(model, self.config) if self.processes.is_main else Average(model)
        self.stepper = Stepper(self.replica, optimizer, self.config, coins)
        self.state = TrainingState(self.replica, optimizer, average, coins, self.stepper.chance)

    @property
    def best(self) -> EpochReport | None:
        """Report of the best validation, the first of equals."""
        return max(self.state.reports, key=self._rank, default=None)

    def _rank(self, report: EpochReport) -> tuple[float, float]:
        return self.criterion.value(report), -report.valid_loss

    def reason(self) -> Status | None:
        """Return why the training stops here; None if it goes on."""
        config = self.config
        progress = self.state.progress
        reports = self.state.reports
        if self._is_over() and not progress.since_tokens:
            return "finished"
        if not reports:
            return None
        target = config.target_exact_match
        best = max(reports, key=self._rank)
        if target is not None and reports[-1].measures[self.criterion.name] >= target:
            return "target reached"
        if config.patience is not None and len(reports) - 1 - reports.index(best) >= config.patience:
            return "stopped early"
        return "stopped by an observer" if self.is_end_requested else None

    def _is_over(self) -> bool:
        progress = self.state.progress
        max_steps = self.config.max_steps
        return progress.epoch >= self.config.epochs if max_steps is None else progress.step >= max_steps

    def train_to_validation(self) -> None:
        """Take steps until a validation is due or the training is over."""
        progress = self.state.progress
        if progress.since_tokens and not progress.position and not self.config.validate_every:
            return  # resumed at the end of an epoch whose validation was interrupted
        while not (self._is_over() or self._is_validation_due()):
            if self.steps is None:
                self.steps = self._begin_epoch()
            with progress.timed():
                taken = next(self.steps, None)
            if taken is not None:
                self._report(taken)
                self._measure_where_due()
                self._save_where_due()
                if self.is_end_requested:
                    return
            else:  # the epoch is over
                if not progress.position:
                    raise UserError(f"training: epoch {progress.epoch + 1} has no examples; give some")
                progress.epoch = progress.epoch + 1
                progress.position = 0
                self.steps = None
                if not self.config.validate_every:
                    return

    def _is_validation_due(self) -> bool:
        progress = self.state.progress
        every = self.config.validate_every
        return bool(every and progress.since_tokens and progress.step % every == 0)

    def _save_where_due(self) -> None:
        due = self.checkpoints is not None and self.checkpoints.is_due(self.state.progress.step)
        due = due and not self._is_validation_due()  # a validation ends with a checkpoint
        requests = (self.is_stop_requested, self.is_end_requested, due)
        is_stopping, self.is_end_requested, due = self.processes.decide(requests)  # those of the first process
        if is_stopping or due:
            self.save()
        if is_stopping:
            raise KeyboardInterrupt

    def _begin_epoch(self) -> Iterator[StepTaken]:
        """Return the steps that are left of the epoch: all of them, or after a resume those after the checkpoint."""
        progress = self.state.progress
        config = self.config
        examples = self.examples(progress.epoch)
        with progress.timed():
            order = generator(config.seed, f"data/{progress.epoch}")
            groups, count = cut_epoch(examples, config, order)
            for _ in range(progress.position):  # steps of the epoch that the checkpoint has taken
                next(groups, None)
        if not progress.total_steps:
            progress.total_steps, progress.validations = self._planned(count)
            self.stepper.warmup_steps(progress.total_steps)  # raises an error for a long warm-up before the start
            self._announce()
        self.state.average.plan(progress.validations)
        if progress.position == 0:  # else the checkpoint has restored the random streams
            self.stepper.begin_epoch(progress.epoch)
        self.replica.model.train()
        average = self.state.average
        first = progress.step + 1
        return take_steps(self.stepper, groups, total_steps=progress.total_steps, first=first, average=average)

    def _planned(self, steps_per_epoch: int | None) -> tuple[int, int]:
        """Return the number of steps and of validations of the training.

        Args:
            steps_per_epoch: number of steps of the first epoch; None for a stream. With a bound on tokens, later epochs
                may have a batch more or less, but the schedule stays.
        """
        config = self.config
        steps = self.config.max_steps
        if steps is None:
            if steps_per_epoch is None:
                raise UserError("`max_steps`: the data are a stream of unknown length; give the number of steps")
            steps = steps_per_epoch * config.epochs
        return steps, -(-steps // (config.validate_every or steps_per_epoch or steps))

    def _announce(self) -> None:
        epochs = None if self.config.max_steps else self.config.epochs
        steps = self.state.progress.total_steps
        self._tell(lambda observer: observer.started(epochs, steps))

    def _tell(self, call: Callable[[Observer], None]) -> None:
        """Call a method of each observer, which may end the training."""
        for observer in self.observers:
            try:
                call(observer)
            except StopTraining:
                self.is_end_requested = True

    def _report(self, taken: StepTaken) -> None:
        """Count a step, and report it to the observers."""
        progress = self.state.progress
        progress.lr = taken.lr
        progress.stepped(taken.loss, taken.tokens, taken.group)
        report = StepReport(
            progress.epoch + 1,
            progress.step,
            progress.total_steps,
            taken.loss,
            taken.lr,
            progress.tokens_per_second,
            progress.examples,
        )
        for observer in self.observers:
            try:
                observer.stepped(report)
            except StopTraining:
                self.is_end_requested = True
            except KeyboardInterrupt:
                self.is_stop_requested = True

    def _measure_where_due(self) -> None:
        """Measure a point of the learning curve at the end of each equal part of the training but the last."""
        progress = self.state.progress
        done = progress.step * self.curve_points // progress.total_steps
        before = (progress.step - 1) * self.curve_points // progress.total_steps
        is_last = progress.step >= progress.total_steps
        if self.criterion.part is None or done == before or is_last or self._is_validation_due():
            return
        with self.replica.shown(self.state.average):
            value = self.criterion.part(self.replica.model, self.processes)
        self.replica.model.train()
        report = CurveReport(progress.epoch + 1, progress.step, progress.tokens, progress.seconds, value)
        self._tell(lambda observer: observer.measured(report))

    def validate(self) -> None:
        """Validate the averaged weights, each process a share of the data; the first process keeps the report."""
        state = self.state
        progress = self.state.progress
        model = self.replica.model
        report: EpochReport | None = None
        state.average.validating()
        with self.replica.shown(state.average):
            measured = self._measured()
            if self.processes.is_main and measured is not None:
                # The epoch of the last step: at the end of an epoch, progress.epoch is the next one.
                epoch = progress.epoch - (progress.position == 0)
                report = progress.report(epoch, *measured)
                before = self.best
                is_best = before is None or self._rank(report) > self._rank(before)
                if is_best:
                    state.best_weights = {name: x.to("cpu", copy=True) for name, x in named_weights(model).items()}
                state.reports.append(report)
                self._tell(lambda observer: observer.validated(report, model, is_best))
        self.replica.model.train()
        if measured is None:  # save the state before the validation, which the resumed training repeats
            state.average.validation_stopped()
            self.save()
            raise KeyboardInterrupt
        if report is not None:
            self._tell(lambda observer: observer.validation_ended(report, model))
        progress.validated()
        if self.criterion.look is None:
            self.save()
        else:  # looks are too many for a checkpoint each
            self._save_where_due()

    def _measured(self) -> tuple[float, Mapping[str, float]] | None:
        """Return the validation loss and the measures of the criterion; None if an observer requests a stop."""
        progress = self.state.progress
        model = self.replica.model

        def check(loss: float) -> None:
            check_finite("validation loss", loss, progress.step, progress.lr, self.config.precision)

        with suppress(Stopped), polling(lambda: any(observer.requests_stop() for observer in self.observers)):
            return validation_of(model, self.validation, self.config, self.criterion, self.processes, check)
        return None

    def save(self) -> None:
        """Write a checkpoint, where there is a place for it."""
        if self.checkpoints is not None and self.processes.is_main:
            checkpoint = self.state.checkpoint()
            progress = self.state.progress
            for name, tensor in checkpoint.part("model").items():  # weights with NaN must not replace usable ones
                size = float(tensor.abs().sum())
                check_finite(f"size of {name}", size, progress.step, progress.lr, self.config.precision)
            self.checkpoints.write(checkpoint)

    def resume(self) -> None:
        """Resume from the checkpoint, where there is one."""
        if self.checkpoints is None:
            return
        data = self.processes.decide(self.checkpoints.read() if self.processes.is_main else None)
        if data is None:
            return
        restored = self.checkpoints.parse(data)
        state = self.state
        try:
            state.restore(restored)
            if not self.processes.is_main:
                state.best_weights = None  # only the first process keeps them
            if state.best_weights is not None:  # observers meet the model with its best weights
                put_into(self.replica.model, state.best_weights)
            reports = tuple(state.reports)
            self._tell(lambda observer: observer.resumed(state.progress.step, reports, self.replica.model))
            put_into(self.replica.model, restored.part("model"))
        except (ValueError, KeyError, RuntimeError, TypeError) as error:
            reason = " ".join(str(error).split())
            raise UserError(f"{self.checkpoints.path}: not of this training ({reason}); train again") from None
        if state.progress.total_steps:  # 0 for a longer training, which the next epoch plans and announces
            self._announce()


def cut_epoch(
    examples: Iterable[Example], config: TrainingConfig, generator: torch.Generator
) -> tuple[Iterator[Group], int | None]:
    """Cut an epoch into groups of batches; each group is a step.

    A sequence is cut as :func:`selfattn.data.batches.batches` does; any other iterable is read as a stream by
    :func:`selfattn.data.batches.stream_batches`.

    Args:
        examples: of the epoch.
        config: gives ``batch_size``, ``max_tokens`` and ``accumulate``.
        generator: of the order.

    Returns:
        The groups in their order, and their number; None for a stream. The last group may be smaller.

    Example:
        >>> examples = [Example([4, 2], [5, 2])] * 7
        >>> config = TrainingConfig(batch_size=2, accumulate=3)
        >>> chance = torch.Generator().manual_seed(0)
        >>> groups, count = cut_epoch(examples, config, chance)
        >>> count, [len(group) for group in groups]
        (2, [3, 1])
    """
    sizes: dict[str, Any] = {"batch_size": config.batch_size, "max_tokens": config.max_tokens}
    if not isinstance(examples, Sequence):
        return _grouped(stream_batches(examples, **sizes, generator=generator), config.accumulate), None
    places = batch_places(examples, **sizes, generator=generator)
    cut = (collate([examples[place] for place in group], PAD, BOS, group) for group in places)
    return _grouped(cut, config.accumulate), -(-len(places) // config.accumulate)


def _grouped(stream: Iterator[Batch], size: int) -> Iterator[Group]:
    while group := list(itertools.islice(stream, size)):
        yield group


def validation_of(
    model: Seq2Seq,
    examples: Sequence[Example],
    config: TrainingConfig,
    criterion: Criterion,
    processes: Processes,
    check: Callable[[float], None] | None = None,
) -> tuple[float, Mapping[str, float]]:
    """Return the loss and the measures of a validation; the look's alone where it misses the target.

    Args:
        model: on its device.
        examples: unseen examples for the loss.
        config: of the training.
        criterion: measures quality.
        processes: that validate together.
        check: called with the loss, before outputs are written; default nothing.
    """
    if criterion.look is None:
        loss, share = validation_loss(model, examples, config, processes), math.inf
    else:
        loss, share = criterion.look(model, processes)
    if check is not None:
        check(loss)
    if share < (config.target_exact_match or 0.0):
        return loss, {criterion.name: share}
    give_back_memory()  # of steps and losses, before outputs are written
    return loss, criterion.measure(model, loss, processes)


@torch.no_grad()
def validation_loss(
    model: Seq2Seq, examples: Sequence[Example], config: TrainingConfig, processes: Processes | None = None
) -> float:
    """Return the mean loss on unseen examples, nats per token, without label smoothing; sets evaluation mode.

    Several processes share out the batches and add up in the order of the batches: the sum is, to the bit, that of a
    single process with the same weights and threads.

    Args:
        model: on its device.
        examples: at least one.
        config: gives ``batch_size``, ``max_tokens`` and ``precision``.
        processes: that share out the batches; default this one alone.

    Raises:
        Stopped: a stop was requested, see :mod:`selfattn.processes`.
    """

    def loss_of(batch: Batch) -> tuple[float, int]:
        count = int(batch.target_mask.sum())
        return batch_loss(model, batch).item() * count, count

    losses = _over_batches(loss_of, model, examples, config, config.batch_size, processes or Processes())
    total = 0.0
    for loss, _ in losses:  # not `sum`, which rounds in another way
        total += loss
    return total / sum(count for _, count in losses)


@torch.no_grad()
def first_look(
    model: Seq2Seq, examples: Sequence[Example], config: TrainingConfig, processes: Processes
) -> tuple[float, float]:
    """Return the loss, and the share of examples of which the model puts every token first.

    A greedy output is right exactly if each of its tokens comes first, given the right ones before it. So one pass
    over the right targets says which outputs would be right, without writing them. It may differ by rounding, and
    where another sequence of tokens stands for the same text.

    Args:
        model: on its device; sets evaluation mode.
        examples: at least one.
        config: gives ``max_tokens`` and ``precision``.
        processes: that share out the batches.

    Raises:
        Stopped: a stop was requested, see :mod:`selfattn.processes`.
    """

    def counts_of(batch: Batch) -> tuple[float, int, int]:
        logits = model(batch.source, batch.target_in, source_mask=batch.source_mask)  # [b t v]
        tokens = int(batch.target_mask.sum())
        loss = token_loss(logits, batch.target_out, batch.target_mask).item()
        is_right = (logits.argmax(dim=-1) == batch.target_out) | ~batch.target_mask  # [b t]
        return loss * tokens, tokens, int(is_right.all(dim=1).sum())

    counts = _over_batches(counts_of, model, examples, config, _LOOKED_AT, processes)
    losses, tokens, right = zip(*counts, strict=True)
    return sum(losses) / sum(tokens), sum(right) / len(examples)


def _over_batches(
    measure: Callable[[Batch], Counts],
    model: Seq2Seq,
    examples: Sequence[Example],
    config: TrainingConfig,
    batch_size: int,
    processes: Processes,
) -> list[Counts]:
    """Return what is measured of each batch, in the order of the batches; processes share them out."""
    model.eval()
    device = model.device
    by_length = sorted(examples, key=lambda example: len(example.source))
    cut = batches(by_length, batch_size=batch_size, max_tokens=config.max_tokens)
    counts: list[Counts] = []
    with processes.stopping_together():
        for batch in processes.share_of(cut):
            poll()
            with torch.autocast(device.type, torch.bfloat16, enabled=config.precision == "bfloat16"):
                counts.append(measure(batch.to(device)))
    return processes.gather_items(counts)
