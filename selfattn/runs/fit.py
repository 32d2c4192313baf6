"""Train one model on one task's data into a run directory, from the start or resumed."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from selfattn import registry
from selfattn.console import EVERY, has_terminal
from selfattn.data.batches import collate, lengths_of
from selfattn.data.pairs import Example
from selfattn.decoding.common import evaluating
from selfattn.distributed import Processes
from selfattn.errors import UserError, as_options, number_of, say
from selfattn.evaluation.metrics import EXACT_MATCH
from selfattn.files import in_use, writing
from selfattn.models.build import count_parameters
from selfattn.models.config import ModelConfig
from selfattn.models.protocol import Seq2Seq
from selfattn.processes import choose_device, default_threads, use_threads
from selfattn.runs.directory import CHECKPOINT, CURVE, METRICS, UNFINISHED, RunDirectory, check_place
from selfattn.runs.load import build_model, kept_name, kept_steps, load
from selfattn.runs.record import RunConfig, RunRecord, commit, machine, used_plugins, versions
from selfattn.runs.run import Run
from selfattn.runs.training_set import TrainingSet
from selfattn.streams import training_lock
from selfattn.training.checkpoint import CheckpointFile
from selfattn.training.loop import train_model
from selfattn.training.observer import CurveReport, EpochReport, Observer, StepReport
from selfattn.training.weights import freeze

_PAUSE = 1.0  # seconds between two writings of validations


def fit(
    config: RunConfig,
    data: TrainingSet,
    out: Path,
    *,
    command: str,
    label: str | None = None,
    resume: bool = False,
    save_every: int | None = None,
    device: str = "auto",
    threads: int | None = None,
    observers: Sequence[Observer] = (),
    notes: Sequence[str] | None = None,
    start: Run | None = None,
    curve_points: int = 0,
    prepare: Callable[[Seq2Seq], Sequence[str]] | None = None,
    keep: int = 0,
) -> Run:
    """Train a model and keep the run.

    From the first validation on, the best weights are on disk, so a killed run can be used. Everything that is needed
    to resume is in ``last/``. A `KeyboardInterrupt` is raised again after everything is saved. If an observer raises it
    after a step, the checkpoint includes that step.

    Processes that ``torchrun`` started train together (:mod:`selfattn.distributed`). Only the first process
    writes. Each returns the run with the same weights.

    Args:
        config: of the run; ``fit`` fills in its plugins.
        data: what to train on.
        out: the run directory, which ``fit`` creates.
        command: the command line that the run's record keeps.
        label: of the progress on standard error; default the model's name.
        resume: resume the unfinished run in ``out``; the result is bit for bit that of never having stopped. A
            finished run is returned as it is, or lengthened to more epochs or steps. If there is no run, a new one
            begins.
        save_every: steps between two checkpoints; default see
            :class:`selfattn.training.checkpoint.CheckpointFile`. The result does not depend on it.
        device: see :func:`selfattn.processes.choose_device`.
        threads: on a CPU; default by the size of the model, see
            :func:`~selfattn.processes.default_threads`.
        observers: further observers of the training.
        notes: lines that the first process prints when the training begins; default those of the training set.
        start: a run of the same model and tokenizer, whose weights the training starts from; default random weights.
        curve_points: see :func:`selfattn.training.loop.train_model`; default 0.
        keep: number of last validations whose weights stay in the run, see :mod:`selfattn.runs.load`; default none.
        prepare: changes the first weights, and returns lines to print when the training begins; default nothing.

    Returns:
        The run, with its best weights.

    Raises:
        UserError: the directory is taken, the run to be resumed has other settings, the model cannot read texts that
            long, the device is not there, the call is inside ``torch.autocast``, or the training diverged.
        KeyboardInterrupt: the user stopped the training.
    """
    tokenizer = data.tokenizer
    training = config.training
    config = replace(config, plugins=used_plugins(config.task, data.metrics, config.model))
    checkpoints = CheckpointFile(out / CHECKPOINT, save_every)
    torch_device = choose_device(device)
    if torch.is_autocast_enabled(torch_device.type):
        raise UserError("torch.autocast is on around the training; leave its block, and set `precision`")
    with ExitStack() as stack:
        stack.enter_context(training_lock(str(out)))
        # What the program around has set would leave the training without gradients.
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.enable_grad())
        with use_threads(1):  # several give orthogonal matrices other last bits
            model = build_model(config.model, tokenizer, training.seed)
        if start is not None:
            model.load_state_dict(start.model.state_dict())
        prepared = [*(() if prepare is None else prepare(model)), *freeze(model, config.freeze or ())]
        _probe(model, config, data)
        model.to(torch_device)
        processes = Processes.join(torch_device)
        # config.data is left out: paths of the data may differ between hosts.
        settings = (config.preset, config.model, training, config.max_length)
        processes.check_same(repr((settings, data.longest, len(tokenizer), len(data.validation))))
        parameters = count_parameters(model)
        stack.enter_context(use_threads(threads or default_threads(parameters[0])))
        keeper = None
        existing = [folder for folder in (out, *out.parents) if folder.exists()]
        if processes.is_main:
            check_place(out, resume=resume)
            stack.enter_context(in_use(out))
            directory = RunDirectory.reopen(out, config, tokenizer, command) if resume else None
            is_new = directory is None
            if directory is None:
                record = RunRecord(
                    status="running",
                    created=_now(),
                    command=command,
                    seed=training.seed,
                    parameters=parameters[0],
                    parameters_non_embedding=parameters[1],
                    train_seconds=0.0,
                    versions=versions(),
                    machine=machine(),
                    commit=commit(),
                )
                directory = RunDirectory.create(out, config, tokenizer, record, resume=resume)
            keeper = _Keeper(directory, is_new=is_new, keep=keep)
        status = processes.decide(keeper.directory.record().status if keeper else "")
        if status not in UNFINISHED:
            if processes.is_main:
                advice = "a larger `patience` lengthens it" if status == "stopped early" else "nothing is left to do"
                say(as_options(f"{out}: this run is finished ({status}); {advice}"))
            return load(out, device=device)
        if keeper is not None:
            if not keeper.is_untouched:
                keeper.resume()
            progress = _TrainingDisplay(label or config.preset, [*(data.notes if notes is None else notes), *prepared])
            stack.enter_context(progress.bars)
            observers = [keeper, progress, *observers]
        try:
            outcome = train_model(
                model,
                lambda epoch: within_limits(data.epoch(epoch), config.model),
                data.validation,
                training,
                data.criterion,
                observers=observers,
                checkpoints=checkpoints,
                processes=processes,
                curve_points=curve_points,
            )
        except BaseException as error:
            if keeper is not None:
                if isinstance(error, UserError) and keeper.is_untouched:
                    stack.close()  # Windows removes no locked file
                    keeper.directory.discard()  # refused before the training began: leave no trace
                    for folder in (out, *out.parents):
                        if folder not in existing:
                            with suppress(OSError):
                                folder.rmdir()
                else:
                    status = "interrupted" if isinstance(error, KeyboardInterrupt) else "failed"
                    keeper.write(None, status=status)
            raise
        if keeper is not None:
            keeper.write(model, status=outcome.status, train_seconds=outcome.seconds)
    model.requires_grad_(True)
    if outcome.status == "interrupted":
        raise KeyboardInterrupt(f"{out} keeps the best weights so far; the same command with `resume` goes on")
    return Run(out, config, model, tokenizer)


def within_limits(examples: Iterable[Example], model: ModelConfig) -> Iterable[Example]:
    """Return the examples after a check that the model has positions for them; a stream is checked as it is read."""
    if not any(vars(model.limits()).values()):
        return examples

    def checked(source: int, target: int) -> None:
        try:
            model.limits().check(source, target)
        except ValueError as error:
            raise UserError(f"training data: {error}; leave such pairs out, or give a model with more") from None

    def stream() -> Iterator[Example]:
        for example in examples:
            checked(len(example.source), len(example.target))
            yield example

    if not isinstance(examples, Sequence):
        return stream()
    for source, target in np.unique(lengths_of(examples), axis=0).tolist():
        checked(source, target)
    return examples


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


class _TrainingDisplay(Observer):
    """Shows epoch, loss, tokens per second, remaining time, and the measures of validations.

    The command line shows a bar on its terminal. Elsewhere a line is printed every 30 seconds between validations.

    Args:
        name: of the model, at the beginning of every line.
        notes: lines to print when the training begins.
    """

    def __init__(self, name: str, notes: Sequence[str]) -> None:
        self.name = name
        self.notes = notes
        self.resumption: list[str] = []  # told behind the notes, when the training starts
        self.console = Console(stderr=True, highlight=False)
        self.bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=16),
            TimeRemainingColumn(compact=True),
            console=self.console,
            transient=True,
            disable=not has_terminal(),
        )
        self.last_line = time.monotonic()
        self.epochs: int | None = None
        self.bar: TaskID | None = None

    def started(self, epochs: int | None, steps: int) -> None:
        for line in (*self.notes, *self.resumption):
            say(line)
        self.epochs = epochs
        self.last_line = time.monotonic()
        self.bar = self.bars.add_task(self.name, total=steps)

    def resumed(self, step: int, reports: tuple[EpochReport, ...], model: Seq2Seq) -> None:
        self.resumption = [f"{self.name}: resumed from step {step:,}, after {number_of(len(reports), 'validation')}"]

    def stepped(self, report: StepReport) -> None:
        figures = f"{self.name} {self._epoch(report.epoch)}  loss {report.loss:.3f}  "
        figures += f"{report.tokens_per_second:,.0f} tokens/s"
        if self.bar is not None:
            self.bars.update(self.bar, completed=report.step, description=figures)
        if self.bars.disable and time.monotonic() - self.last_line >= EVERY:
            self.last_line = time.monotonic()
            say(f"{figures}  step {report.step:,} of {report.total_steps:,}")

    def validated(self, report: EpochReport, model: Seq2Seq, is_best: bool) -> None:
        measures = "  ".join(_measure_text(name, value) for name, value in report.measures.items())
        self.last_line = time.monotonic()
        say(
            f"{self.name} {self._epoch(report.epoch)}  loss {report.train_loss:.4f}  valid {report.valid_loss:.4f}  "
            f"{measures}  {report.tokens_per_second:,.0f} tokens/s  padding {report.padding:.0%}"
        )

    def ended(self, status: str, reports: tuple[EpochReport, ...], model: Seq2Seq) -> None:
        if status in ("stopped early", "target reached", "stopped by an observer"):
            say(f"{self.name}: {status} at step {reports[-1].step:,}" if reports else f"{self.name}: {status}")

    def _epoch(self, number: int) -> str:
        return f"epoch {number}" if self.epochs is None else f"{number}/{self.epochs}"


def _measure_text(name: str, value: float) -> str:
    """Return a measure of a validation with its name; shares in percent.

    Example:
        >>> _measure_text("exact_match", 0.25), _measure_text("word_error_rate", 0.75), _measure_text("bleu", 9.5)
        ('exact 25.00 %', 'word_error_rate 75.00 %', 'bleu 9.50')
    """
    label = "exact" if name == EXACT_MATCH else name
    is_share = name in registry.METRICS and registry.METRICS[name].unit == "share"
    return f"{label} {100 * value:.2f} %" if is_share else f"{label} {value:.2f}"


class _Keeper(Observer):
    """Writes validations into the run directory, and the weights that are the best so far.

    Looks follow one another so quickly that writing each would take a fifth of the time, so there is a pause between
    two writings. What is on disk belongs together: the validations up to one, and the best weights up to it.

    Args:
        directory: of the run.
        is_new: whether the directory was just created, and may be removed if the training cannot begin.
        keep: number of last validations whose weights stay, too: those of the last step, not their average, so that
            any average can be made of them later. 0: none, and files that are there stay.
    """

    def __init__(self, directory: RunDirectory, *, is_new: bool, keep: int) -> None:
        self.directory = directory
        self.is_untouched = is_new
        self.keep = keep
        self.reports: list[EpochReport] = []
        self.is_best_unsaved = False
        self.next_write = 0.0  # on the monotonic clock, in seconds

    def resume(self) -> None:
        """Note in the record that the run is resumed."""
        with writing(path := self.directory.path):
            if not (path / CHECKPOINT).exists():  # killed before the first checkpoint: the training begins anew
                (path / METRICS).unlink(missing_ok=True)
                (path / CURVE).unlink(missing_ok=True)
                self.directory.remove(map(kept_name, kept_steps(self.directory)))
        self.directory.update(status="running", resumed=(*self.directory.record().resumed, _now()))

    def started(self, epochs: int | None, steps: int) -> None:
        self.is_untouched = False

    def validated(self, report: EpochReport, model: Seq2Seq, is_best: bool) -> None:
        self.reports.append(report)
        self.is_best_unsaved |= is_best
        if time.monotonic() >= self.next_write and is_best == self.is_best_unsaved:
            self.write(model if is_best else None, train_seconds=report.seconds)

    def write(self, best: Seq2Seq | None, **changes: Any) -> None:
        """Write the validations, and change fields of ``run.json``.

        Args:
            best: the model with its best weights, to be written, too; None: those on disk stay.
            changes: new values of fields.
        """
        if best is not None:
            self.directory.save_weights(best)
            self.is_best_unsaved = False
        if self.reports and not self.is_best_unsaved:
            self.directory.write_metrics(self.reports)
        self.directory.update(**changes)
        self.next_write = time.monotonic() + _PAUSE

    def validation_ended(self, report: EpochReport, model: Seq2Seq) -> None:
        if self.keep:
            self.directory.save_weights(model, kept_name(report.step))
            self.directory.remove(map(kept_name, kept_steps(self.directory)[: -self.keep]))

    def measured(self, report: CurveReport) -> None:
        self.directory.write_curve([*self.directory.curve(), report])

    def resumed(self, step: int, reports: tuple[EpochReport, ...], model: Seq2Seq) -> None:
        # Drop what was written after the checkpoint: the resumed training writes it again.
        self.directory.remove(kept_name(later) for later in kept_steps(self.directory) if later > step)
        if curve := self.directory.curve():
            self.directory.write_curve([point for point in curve if point.step <= step])
        self.reports = list(reports)
        self.directory.write_metrics(reports)
        if reports:
            self.directory.save_weights(model)


def _probe(model: Seq2Seq, config: RunConfig, data: TrainingSet) -> None:
    """Run the model on the longest example and the longest output, so that a failure shows before the training."""
    tokenizer = data.tokenizer
    batch = collate([data.longest], tokenizer.pad_id, tokenizer.bos_id, [0])
    demand = "read the longest pair of these data"
    try:
        config.model.limits().check(len(data.longest.source), len(data.longest.target))
        with evaluating(model), torch.inference_mode():
            model(batch.source, batch.target_in, source_mask=batch.source_mask)
            demand = f"write {config.max_length} tokens, the most that an output may have with these data"
            config.model.limits().check(len(data.longest.source), config.max_length)
            output = torch.full((1, config.max_length), tokenizer.bos_id)
            model(batch.source, output, source_mask=batch.source_mask)
    except (ValueError, IndexError) as error:
        raise UserError(f"{config.preset}: cannot {demand}: {error}") from None
