"""The training loop: steps, a validation now and then, the best weights kept, and a checkpoint to go on from.

The loop knows the protocol, not the task: where examples come from, how quality is measured and who watches are
handed in. It prints nothing, and writes nothing but the checkpoint where it is given a place for one; observers do.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from selfattn.data.batches import Batch, batch_places, collate, stream_batches
from selfattn.data.examples import Example
from selfattn.errors import UserError
from selfattn.models.protocol import Seq2Seq
from selfattn.streams import generator
from selfattn.training.checkpoints.checkpoint import Checkpoint, CheckpointFile
from selfattn.training.checkpoints.state import TrainingState
from selfattn.training.config import TrainingConfig
from selfattn.training.distributed.parallel import Replica
from selfattn.training.distributed.processes import Processes
from selfattn.training.distributed.share import SharedExamples, shared_stream
from selfattn.training.observer import EpochReport, Observer, StepReport
from selfattn.training.optim.averaging import Average, make_average
from selfattn.training.optim.optimizer import make_optimizer
from selfattn.training.optim.weights import put_into
from selfattn.training.step import Stepper, check_finite
from selfattn.training.validation import Criterion, validation_loss

Group = list[Batch]
"""Batches whose gradients make one step."""
Status = Literal["finished", "target reached", "stopped early", "interrupted"]


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


def train_model(
    model: Seq2Seq,
    examples: Callable[[int], Iterable[Example]],
    validation: Sequence[Example],
    config: TrainingConfig,
    *,
    pad_id: int,
    bos_id: int,
    criterion: Criterion,
    observers: Sequence[Observer] = (),
    checkpoints: CheckpointFile | None = None,
    processes: Processes | None = None,
    parts_on: torch.device | None = None,
) -> Outcome:
    """Train a model in place; after it the model has its best weights and is in evaluation mode.

    A validation is made of the weights that ``config.average`` speaks of, and those are kept: with ``none`` the
    weights of the last step, with ``ema`` their exponential moving average, with ``last`` the mean of the weights at
    the last validations. The training itself always goes on from the weights of the last step.

    Best is the validation with the best figure of the criterion, and among equals the one with the lowest loss. The
    order of the data comes from the streams ``data/EPOCH`` of ``config.seed``, dropout from ``dropout/EPOCH``, the
    coins of scheduled sampling from ``forcing/EPOCH``: none depends on the model. The caller's global
    random state is left as it was.

    Where there is a checkpoint already the training goes on from it, and ends bit for bit as if it had never stopped.

    A `KeyboardInterrupt` ends the training early, as the outcome says; it is not raised again. Raised by an
    observer that is told of a step, it is heeded by all processes, when that step is saved.

    Args:
        model: trained on the device it is on.
        examples: gives the examples of an epoch, counted from 0; the same for the same epoch whenever it is asked. A
            sequence is shuffled as a whole; anything else that can be iterated over is read as a stream, and needs
            ``config.max_steps``. With several processes it gives each its ``processes.share``.
        validation: unseen examples for the loss.
        config: see there.
        pad_id: padding token.
        bos_id: the token that every target begins with.
        criterion: quality on the validation, and which weights are best.
        observers: see the beginning, every step and every validation; in the first process only.
        checkpoints: where to keep what is needed to go on; default nowhere.
        processes: those that train together; default this one alone. All validate, the first writes.
        parts_on: cut the model, which is in the host's memory, into a part for each process, on this device; see
            :class:`selfattn.training.distributed.sharding.Shard`. Default: every process has all of it.

    Raises:
        UserError: the loss is no longer a finite number; a target such as ``target_exact_match`` is set for a training
            with another criterion; the data are a stream and ``max_steps`` is not set; an epoch has no examples; the
            warm-up is longer than the training; the checkpoint is broken or of another training; or another process is
            gone.
    """
    for name in _targets(config):
        if name != criterion.name:
            raise UserError(
                f"target_{name}: the best weights of this training are chosen by {criterion.name}; leave it out"
            )
    processes = processes or Processes()
    observers = observers if processes.is_main else ()
    with processes.together():
        replica = _replica(model, processes, parts_on)
        device = replica.device
        loop = _Loop(replica, examples, validation, config, pad_id, bos_id, criterion, observers, checkpoints)
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            try:
                status = loop.run()
            except KeyboardInterrupt:
                status = "interrupted"
        state = loop.state
        replica.finish(state.best_weights, agreed=status != "interrupted")
    model.eval()
    return Outcome(status, tuple(state.reports), loop.best, state.progress.seconds)


def _targets(config: TrainingConfig) -> dict[str, float]:
    """The figures at which a training may stop, by name: those of the settings ``target_NAME``."""
    found = {name: value for name, value in vars(config).items() if name.startswith("target_") and value is not None}
    return {name.removeprefix("target_"): value for name, value in found.items()}


def _replica(model: Seq2Seq, processes: Processes, parts_on: torch.device | None) -> Replica:
    if parts_on is None:
        return Replica(model, processes)
    from selfattn.training.distributed.sharding import Shard  # whose imports take as long as half of PyTorch's

    return Shard(model, processes, parts_on)


@dataclass
class _Loop:
    """What goes on from validation to validation."""

    replica: Replica
    examples: Callable[[int], Iterable[Example]]
    validation: Sequence[Example]
    config: TrainingConfig
    pad_id: int
    bos_id: int
    criterion: Criterion
    observers: Sequence[Observer]
    checkpoints: CheckpointFile | None
    restored: Checkpoint | None = None
    groups: Iterator[Group] | None = None  # what is left of the epoch
    is_asked_to_stop: bool = False

    def __post_init__(self) -> None:
        self.processes, model = self.replica.processes, self.replica.trained
        optimizer, coins = make_optimizer(model, self.config), generator(self.config.seed, "forcing/0")
        average = make_average(model, self.config) if self.replica.is_needed else Average(model)
        self.state = TrainingState(self.replica, optimizer, average, coins)
        self.stepper = Stepper(self.replica, optimizer, self.config, coins)

    @property
    def best(self) -> EpochReport | None:
        """The report of the best validation, the first of equals."""
        return max(self.state.reports, key=self._rank, default=None)

    def _rank(self, report: EpochReport) -> tuple[float, float]:
        return self.criterion.value(report.measures), -report.valid_loss

    def run(self) -> Status:
        """Train until there is a reason to end."""
        self._resume()
        while (status := self.processes.decide(self._reason())) is None:  # the first process decides
            self._train_to_validation()
            if self.state.progress.since_tokens:
                self._validate()
        return status

    def _reason(self) -> Status | None:
        """Why the training is at its end; None where it is not."""
        config, progress, reports = self.config, self.state.progress, self.state.reports
        if self._is_over() and not progress.since_tokens:
            return "finished"
        if not reports:
            return None
        target = _targets(config).get(self.criterion.name)
        if target is not None and reports[-1].measures[self.criterion.name] >= target:
            return "target reached"
        best = max(range(len(reports)), key=lambda place: self._rank(reports[place]))
        if config.patience is not None and len(reports) - 1 - best >= config.patience:
            return "stopped early"
        return None

    def _is_over(self) -> bool:
        progress, most = self.state.progress, self.config.max_steps
        return progress.epoch >= self.config.epochs if most is None else progress.step >= most

    def _train_to_validation(self) -> None:
        """Take steps until a validation is due or the training is over."""
        progress = self.state.progress
        while not (self._is_over() or self._is_validation_due()):
            groups = self.groups = self.groups or self._begin_epoch()
            with progress.timed():
                group = next(groups, None)
            if group is not None:
                self._step(group)
                self._save_where_due()
            else:
                if not progress.position:
                    raise UserError(f"training: epoch {progress.epoch + 1} has no examples; give some")
                progress.epoch, progress.position, self.groups = progress.epoch + 1, 0, None
                if not self.config.validate_every:
                    return

    def _is_validation_due(self) -> bool:
        progress, every = self.state.progress, self.config.validate_every
        return bool(every and progress.since_tokens and progress.step % every == 0)

    def _save_where_due(self) -> None:
        due = self.checkpoints is not None and self.checkpoints.is_due(self.state.progress.step)
        due = due and not self._is_validation_due()  # which has a checkpoint behind it
        is_asked_to_stop, due = self.processes.decide((self.is_asked_to_stop, due))
        if is_asked_to_stop or due:
            self._save()
        if is_asked_to_stop:
            raise KeyboardInterrupt

    def _begin_epoch(self) -> Iterator[Group]:
        """Return what is left of an epoch, with the random streams where they belong."""
        progress, config = self.state.progress, self.config
        examples = self.examples(progress.epoch)
        with progress.timed():
            order = generator(config.seed, f"data/{progress.epoch}")
            special = {"pad_id": self.pad_id, "bos_id": self.bos_id}
            groups, count = cut_epoch(examples, config, **special, generator=order, processes=self.processes)
            for _ in range(progress.position):
                next(groups, None)
        if not progress.total_steps:
            progress.total_steps = self._total_steps(count)
            self.stepper.warmup_steps(progress.total_steps)  # said before anything begins
            self._announce()
        if progress.position == 0:
            self.stepper.begin_epoch(progress.epoch)
        elif self.restored is not None:
            self.state.restore_chance(self.restored)
        self.restored = None
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
            observer.started(None if self.config.max_steps else self.config.epochs, self.state.progress.total_steps)

    def _step(self, group: Group) -> None:
        progress = self.state.progress
        with progress.timed():
            loss, tokens, progress.lr = self.stepper.step(
                group, progress.step + 1, total_steps=progress.total_steps, epoch=progress.epoch
            )
            self.state.average.stepped()
        progress.stepped(loss, tokens, group)
        report = StepReport(
            progress.epoch + 1, progress.step, progress.total_steps, loss, progress.lr, progress.tokens_per_second
        )
        for observer in self.observers:
            try:
                observer.stepped(report)
            except KeyboardInterrupt:
                self.is_asked_to_stop = True

    def _validate(self) -> None:
        """Validate the weights that are to be kept, each process a share, and put everything down in the first."""
        state, progress, model = self.state, self.state.progress, self.replica.whole
        state.average.validating()
        with self.replica.shown(state.average):
            epoch = progress.epoch - (progress.position == 0)  # of the last step
            special = {"pad_id": self.pad_id, "bos_id": self.bos_id}
            loss = validation_loss(model, self.validation, self.config, **special, processes=self.processes)
            check_finite("validation loss", loss, progress.step, epoch, progress.lr, self.config.precision)
            figures = self.criterion.figures(model, loss, self.processes)
            if self.processes.is_main:
                report = progress.report(epoch, loss, figures)
                before = self.best
                is_best = before is None or self._rank(report) > self._rank(before)
                if is_best:
                    state.best_weights = self.replica.snapshot()
                state.reports.append(report)
                for observer in self.observers:
                    observer.validated(report, model, is_best)
        self.replica.trained.train()
        progress.validated()
        self._save()

    def _save(self) -> None:
        if self.checkpoints is not None and self.replica.is_needed:
            checkpoint, progress = self.state.checkpoint(), self.state.progress
            if self.processes.is_main:
                for name, tensor in checkpoint.part("model").items():  # the last one that can be gone on from stays
                    size, precision = float(tensor.abs().sum()), self.config.precision
                    check_finite(f"size of {name}", size, progress.step, progress.epoch, progress.lr, precision)
                self.checkpoints.write(checkpoint)

    def _resume(self) -> None:
        """Go on from the checkpoint, where there is one."""
        if self.checkpoints is None:
            return
        data = self.processes.decide(self.checkpoints.read() if self.processes.is_main else None)
        if data is None:
            return
        restored, state = self.checkpoints.parse(data), self.state
        try:
            state.restore(restored)
            if not self.processes.is_main:
                state.best_weights = None  # the first process's alone
            if state.best_weights is not None:
                put_into(self.replica.whole, state.best_weights)
            for observer in self.observers:
                observer.resumed(state.progress.step, tuple(state.reports), self.replica.whole)
            state.restore_weights(restored)
        except (ValueError, KeyError, RuntimeError, TypeError) as error:
            reason = " ".join(str(error).split())
            raise UserError(f"{self.checkpoints.path}: not of this training ({reason}); train again") from None
        self.restored = restored
        self._announce()


def cut_epoch(
    examples: Iterable[Example],
    config: TrainingConfig,
    *,
    pad_id: int,
    bos_id: int,
    generator: torch.Generator,
    processes: Processes | None = None,
) -> tuple[Iterator[Group], int | None]:
    """Cut an epoch into the groups of batches that make its steps.

    A sequence is dealt out as a whole, as by :func:`selfattn.data.batches.batches`. Anything else is read as it comes
    by :func:`selfattn.data.batches.stream_batches`: it may be larger than memory, or have no end.

    Args:
        examples: of the epoch; of several processes each gives its share, and all get the same groups.
        config: gives ``batch_size``, ``max_tokens`` and ``accumulate``.
        pad_id: padding token.
        bos_id: the token that every target begins with.
        generator: of the order.
        processes: those that go through the epoch together; default this one alone.

    Returns:
        The groups in their order, and how many; None where nobody knows. The last group may be smaller.

    Example:
        >>> examples = [Example([4, 2], [5, 2])] * 7
        >>> config = TrainingConfig(batch_size=2, accumulate=3)
        >>> chance = torch.Generator().manual_seed(0)
        >>> groups, count = cut_epoch(examples, config, pad_id=0, bos_id=1, generator=chance)
        >>> count, [len(group) for group in groups]
        (2, [3, 1])
    """
    processes, rows, tokens = processes or Processes(), config.batch_size, config.max_tokens
    if not isinstance(examples, Sequence):
        stream = stream_batches(
            shared_stream(examples, processes),
            batch_size=rows,
            max_tokens=tokens,
            pad_id=pad_id,
            bos_id=bos_id,
            generator=generator,
        )
        return _grouped(stream, config.accumulate), None
    shared = SharedExamples(examples, processes)
    places = batch_places(shared.lengths(), batch_size=rows, max_tokens=tokens, generator=generator)
    fetched = zip(shared.fetched(places), places, strict=True)
    made = (collate(group, pad_id, bos_id, own_places) for group, own_places in fetched)
    return _grouped(made, config.accumulate), -(-len(places) // config.accumulate)


def _grouped(stream: Iterator[Batch], size: int) -> Iterator[Group]:
    while group := list(itertools.islice(stream, size)):
        yield group
