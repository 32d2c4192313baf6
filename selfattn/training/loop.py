"""The training loop: steps, a validation now and then, the best weights kept, and a checkpoint to go on from.

The loop knows the protocol, not the task: where examples come from, how quality is measured and who watches are
handed in. It prints nothing, and writes nothing but the checkpoint where it is given a place for one; observers do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import torch

from selfattn.data.examples import Example
from selfattn.errors import UserError
from selfattn.models.protocol import Seq2Seq
from selfattn.streams import generator
from selfattn.training.checkpoints.checkpoint import Checkpoint, CheckpointFile
from selfattn.training.checkpoints.state import State
from selfattn.training.config import TrainingConfig
from selfattn.training.distributed.parallel import Processes
from selfattn.training.distributed.replica import Replica
from selfattn.training.epochs import Group, cut_epoch
from selfattn.training.observer import Criterion, EpochReport, Observer, Plan, StepReport
from selfattn.training.optim.averaging import NoAverage, make_average
from selfattn.training.optim.optimizer import make_optimizer
from selfattn.training.optim.weights import put_into
from selfattn.training.step import Stepper, check_finite
from selfattn.training.validation import validation_loss

EXACT_MATCH = "exact_match"  # the figure that target_exact_match speaks of

Status = Literal["finished", "target reached", "stopped early", "interrupted"]
_STATUSES: tuple[Status, ...] = get_args(Status)


@dataclass(frozen=True)
class Outcome:
    """How a training ended.

    Attributes:
        status: all steps done, ``target_exact_match`` reached before, ``patience`` lost before (``stopped early``), or
            stopped from the keyboard.
        reports: one for each validation.
        best: the report of the validation whose weights the model now has; None if there was none.
        seconds: of training: steps and the making of batches; neither the drawing of examples nor validation counts,
            unless the examples are a stream, which is drawn from while its batches are made.
    """

    status: Status
    reports: tuple[EpochReport, ...]
    best: EpochReport | None
    seconds: float


def train(
    model: Seq2Seq,
    examples: Callable[[int], Iterable[Example]],
    validation: Sequence[Example],
    config: TrainingConfig,
    *,
    pad_id: int,
    bos_id: int,
    measure: Criterion,
    observers: Sequence[Observer] = (),
    checkpoints: CheckpointFile | None = None,
    processes: Processes | None = None,
    parts_on: torch.device | None = None,
) -> Outcome:
    """Train a model in place; after it the model has its best weights and is in evaluation mode.

    A validation is made of the weights that ``config.average`` speaks of, and those are kept: with ``none`` the
    weights of the last step, with ``ema`` their exponential moving average, with ``last`` the mean of the weights at
    the last validations. The training itself always goes on from the weights of the last step.

    Best is the validation with the best criterion of the measure, and among equals the one with the lowest loss. The
    order of the data comes from the streams ``data/EPOCH`` of ``config.seed``, dropout from ``dropout/EPOCH``, the
    coins of scheduled sampling from ``forcing/EPOCH``: none depends on the model. The caller's global
    random state is left as it was.

    Where there is a checkpoint already the training goes on from it, and ends bit for bit as if it had never stopped.

    An interrupt from the keyboard ends the training early and is told in the outcome; it is not raised again.

    Args:
        model: trained on the device it is on.
        examples: gives the examples of an epoch, counted from 0; the same for the same epoch whenever it is asked. A
            sequence is shuffled as a whole; anything else that can be iterated over is read as a stream, and needs
            ``config.max_steps``.
        validation: unseen examples for the loss.
        config: see there.
        pad_id: padding token.
        bos_id: the token that every target begins with.
        measure: quality on the validation.
        observers: told of the plan, of every step and of every validation; in the first process only.
        checkpoints: where to keep what is needed to go on; default nowhere.
        processes: those that train together; default this one alone. The first validates and writes.
        parts_on: cut the model, which is in the host's memory, into a part for each process, on this device; see
            :class:`selfattn.training.distributed.sharding.Shard`. Default: every process has all of it.

    Raises:
        UserError: the loss is no longer a finite number; ``target_exact_match`` is set for a training that is judged
            by something else; the data are a stream and ``max_steps`` is not set; an epoch has no examples; the warm-up
            is longer than the training; the checkpoint is broken or of another training; or another process is gone.
    """
    target = config.target_exact_match
    if target is not None and measure.criterion != EXACT_MATCH:
        raise UserError(f"target_exact_match: this training is judged by {measure.criterion}; leave it out")
    processes = processes or Processes()
    observers = observers if processes.is_main else ()
    with processes.together():
        replica = _replica(model, processes, parts_on)
        device = replica.device
        loop = _Loop(replica, examples, validation, config, pad_id, bos_id, measure, observers, checkpoints)
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            try:
                status = loop.run()
            except KeyboardInterrupt:
                status = "interrupted"
        state = loop.state
        replica.finish(state.best_weights, agreed=status != "interrupted")
    model.eval()
    return Outcome(status, tuple(state.reports), loop.best, state.progress.seconds)


def _replica(model: Seq2Seq, processes: Processes, parts_on: torch.device | None) -> Replica:
    if parts_on is None:
        return Replica(model, processes)
    from selfattn.training.distributed.sharding import Shard  # whose imports take as long as half of PyTorch's

    return Shard(model, processes, parts_on)


class _Loop:
    """What goes on from epoch to epoch."""

    def __init__(
        self,
        replica: Replica,
        examples: Callable[[int], Iterable[Example]],
        validation: Sequence[Example],
        config: TrainingConfig,
        pad_id: int,
        bos_id: int,
        measure: Criterion,
        observers: Sequence[Observer],
        checkpoints: CheckpointFile | None,
    ) -> None:
        self.replica, self.examples, self.config, self.measure = replica, examples, config, measure
        self.validation = validation
        self.pad_id, self.bos_id = pad_id, bos_id
        self.observers, self.checkpoints, self.processes = observers, checkpoints, replica.processes
        model = replica.trained
        optimizer, coins = make_optimizer(model, config), generator(config.seed, "forcing/0")
        average = make_average(model, config) if replica.is_needed else NoAverage(model)
        self.state = State(replica, optimizer, average, coins)
        self.stepper = Stepper(replica, optimizer, config, coins)
        self.kept: Checkpoint | None = None
        self.epochs: int | None = None if config.max_steps else config.epochs

    @property
    def best(self) -> EpochReport | None:
        """The report of the best validation, the first of equals."""
        return max(self.state.reports, key=self._rank, default=None)

    def _rank(self, report: EpochReport) -> tuple[float, float]:
        return self.measure.value(report.measures), -report.valid_loss

    def run(self) -> Status:
        """Train until there is a reason to end."""
        self._resume()
        while (status := self._status()) is None:
            if self._is_over():
                self._validate()
            else:
                self._run_epoch()
        return status

    def _status(self) -> Status | None:
        """Why the training is at its end; None where it is not. The first process decides."""
        found = self._reason() if self.processes.is_main else None
        number = self.processes.decide(-1 if found is None else _STATUSES.index(found))
        return None if number < 0 else _STATUSES[number]

    def _reason(self) -> Status | None:
        config, progress, reports = self.config, self.state.progress, self.state.reports
        if self._is_over() and not progress.since_tokens:
            return "finished"
        if not reports:
            return None
        target = config.target_exact_match
        if target is not None and reports[-1].measures[EXACT_MATCH] >= target:
            return "target reached"
        best = max(range(len(reports)), key=lambda place: self._rank(reports[place]))
        if config.patience is not None and len(reports) - 1 - best >= config.patience:
            return "stopped early"
        return None

    def _is_over(self) -> bool:
        progress, most = self.state.progress, self.config.max_steps
        return progress.epoch >= self.config.epochs if most is None else progress.step >= most

    def _run_epoch(self) -> None:
        """Train to the end of an epoch, or to the step or validation that ends the training."""
        progress, every = self.state.progress, self.config.validate_every
        groups = self._begin_epoch(progress.epoch)
        while not self._is_over():
            with progress.timed():
                group = next(groups, None)
            if group is None:
                self._end_epoch()
                return
            self._step(group)
            if every and progress.step % every == 0:
                self._validate()
                if self._status() is not None:
                    return
            elif self._is_due():
                self._save()

    def _is_due(self) -> bool:
        """Whether this process has a part in a checkpoint now."""
        if self.checkpoints is None or not self.replica.is_needed:
            return False
        return self.replica.agree(self.checkpoints.is_due(self.state.progress.step))

    def _end_epoch(self) -> None:
        progress = self.state.progress
        if not progress.position:
            raise UserError(f"training: epoch {progress.epoch + 1} has no examples; give some")
        progress.epoch, progress.position = progress.epoch + 1, 0
        if not self.config.validate_every:
            self._validate()

    def _begin_epoch(self, epoch: int) -> Iterator[Group]:
        """Return what is left of an epoch, with the random streams where they belong."""
        progress = self.state.progress
        examples = self.examples(epoch)
        with progress.timed():
            order = generator(self.config.seed, f"data/{epoch}")
            groups, count = cut_epoch(examples, self.config, pad_id=self.pad_id, bos_id=self.bos_id, generator=order)
            for _ in range(progress.position):
                next(groups, None)
        if not progress.total_steps:
            progress.total_steps = self._total_steps(count)
            self.stepper.warmup_steps(progress.total_steps)  # said before anything begins
            self._announce()
        if progress.position == 0:
            self.stepper.begin_epoch(epoch)
        elif self.kept is not None:
            self.state.restore_chance(self.kept)
        self.kept = None
        self.replica.trained.train()
        return groups

    def _total_steps(self, steps_per_epoch: int | None) -> int:
        # Counted once: with a bound on tokens, later epochs may have a batch more or less; the schedule holds.
        if self.config.max_steps is not None:
            return self.config.max_steps
        if steps_per_epoch is None:
            raise UserError("max_steps: the data are a stream, whose length nobody knows; say how many steps to train")
        return steps_per_epoch * self.config.epochs

    def _announce(self) -> None:
        for observer in self.observers:
            observer.started(Plan(self.epochs, self.state.progress.total_steps))

    def _step(self, group: Group) -> None:
        progress = self.state.progress
        with progress.timed():
            loss, tokens, progress.lr = self.stepper.step(
                group, progress.step + 1, total_steps=progress.total_steps, epoch=progress.epoch
            )
            self.state.average.stepped()
        progress.stepped(loss, tokens, group)
        speed = progress.since_tokens / progress.since_seconds
        report = StepReport(progress.epoch + 1, progress.step, progress.total_steps, loss, progress.lr, speed)
        for observer in self.observers:
            observer.stepped(report)

    def _validate(self) -> None:
        """Validate the weights that are to be kept, in the first process, and put everything down."""
        state, progress = self.state, self.state.progress
        state.average.validating()
        with self.replica.shown(state.average):
            if self.processes.is_main:
                report = self._report()
                before = self.best
                is_best = before is None or self._rank(report) > self._rank(before)
                if is_best:
                    state.keep_best()
                state.reports.append(report)
                for observer in self.observers:
                    observer.validated(report, self.replica.whole, is_best)
        self.replica.trained.train()
        progress.validated()
        self._save()

    def _report(self) -> EpochReport:
        progress = self.state.progress
        model = self.replica.whole
        valid_loss = validation_loss(model, self.validation, self.config, pad_id=self.pad_id, bos_id=self.bos_id)
        epoch = progress.epoch - (progress.position == 0)  # of the last step
        check_finite("validation loss", valid_loss, progress.step, epoch, progress.lr)
        measures = self.measure.figures(model, valid_loss)
        return EpochReport(
            epoch=epoch + 1,
            step=progress.step,
            tokens=progress.tokens,
            seconds=progress.seconds,
            train_loss=progress.since_loss / progress.since_tokens,
            valid_loss=valid_loss,
            measures=dict(measures),
            tokens_per_second=progress.since_tokens / progress.since_seconds,
            lr=progress.lr,
            padding=progress.since_padding / progress.since_places,
        )

    def _save(self) -> None:
        if self.checkpoints is not None and self.replica.is_needed:
            checkpoint = self.state.checkpoint()
            if self.processes.is_main:
                self.checkpoints.write(checkpoint)

    def _resume(self) -> None:
        """Go on from the checkpoint, where there is one."""
        if self.checkpoints is None:
            return
        data = self.processes.hand_out_bytes(self.checkpoints.read() if self.processes.is_main else None)
        if data is None:
            return
        kept = self.checkpoints.parse(data)
        state = self.state
        try:
            state.restore(kept)
            if not self.processes.is_main:
                state.best_weights = None  # the first process's alone
            if state.best_weights is not None:
                put_into(self.replica.whole, state.best_weights)
            for observer in self.observers:
                observer.resumed(state.progress.step, tuple(state.reports), self.replica.whole)
            state.restore_weights(kept)
        except (ValueError, KeyError, RuntimeError, TypeError) as error:
            reason = " ".join(str(error).split())
            raise UserError(f"{self.checkpoints.path}: not of this training ({reason}); train again") from None
        self.kept = kept
        self._announce()
