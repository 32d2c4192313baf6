"""Train one model on one task's data into a run directory."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from selfattn.console import say
from selfattn.data.batches import collate
from selfattn.errors import UserError
from selfattn.evaluation.metrics.exact import EXACT_MATCH
from selfattn.files import in_use, writing
from selfattn.models.build import count_parameters
from selfattn.models.protocol import Seq2Seq
from selfattn.registry import loaded_plugins
from selfattn.runs.directory import CHECKPOINT, METRICS, RECORD, RunConfig, RunDirectory, RunRecord, reopen
from selfattn.runs.environment import commit, machine, versions
from selfattn.runs.run import Run, build_model
from selfattn.runs.training_set import TrainingSet
from selfattn.tokenizers.protocol import Tokenizer
from selfattn.training.checkpoints.checkpoint import CheckpointFile
from selfattn.training.config import DeviceName
from selfattn.training.device import choose_device, default_threads, use_threads
from selfattn.training.distributed.processes import Processes
from selfattn.training.loop import train_model
from selfattn.training.observer import EpochReport, Observer, StepReport


def fit(
    config: RunConfig,
    data: TrainingSet,
    out: Path,
    *,
    command: str,
    label: str | None = None,
    resume: bool = False,
    save_every: int | None = None,
    device: DeviceName = "auto",
    threads: int | None = None,
    observers: Sequence[Observer] = (),
    notes: Sequence[str] | None = None,
    sharded: bool = False,
) -> Run:
    """Train a model and keep the run.

    The weights of the best validation are on disk as soon as there are any, so a run that is killed can be used, and
    everything else that is needed to go on is in ``last/``. A `KeyboardInterrupt` is raised again when everything is in
    place; of an observer, told of a step, it lets that step be saved.

    Started by ``torchrun`` as one of several processes, they train together (:mod:`parallel`), and
    the first of them writes; each returns the run with the same weights.

    Args:
        config: of the run.
        data: what to train on.
        out: the run directory, made here.
        command: what made the run, for its record.
        label: what to call it in the progress on standard error; default the model's name.
        resume: go on in a directory that an earlier call with the same settings left unfinished; the result is bit for
            bit that of never having stopped. Where there is nothing yet, begin.
        save_every: steps from one checkpoint to the next; default as often as takes at most 2 % of the time, see
            :class:`selfattn.training.checkpoints.checkpoint.CheckpointFile`. The result does not depend on it.
        device: ``auto`` takes a CUDA device if there is one.
        threads: on a CPU; default by the size of the model, see
            :func:`~selfattn.training.device.default_threads`.
        observers: told of what happens, besides the progress and the run directory.
        notes: lines to say, by the first process, when the training begins: what is wrong before that is said alone;
            default those of the training set.
        sharded: each of several processes keeps a part of the model (:mod:`sharding`), and the first
            the whole weights in the host's memory.

    Raises:
        UserError: the directory is taken, the run to be resumed is done or has other settings, the model cannot read
            texts that long, the device is not there, or the loss is no longer a number.
        KeyboardInterrupt: the user stopped the training.
    """
    tokenizer, config = data.tokenizer, replace(config, plugins=loaded_plugins())
    checkpoints = CheckpointFile(out / CHECKPOINT, save_every)
    model = build_model(config.model, tokenizer, config.training.seed)
    _probe(model, config, data)
    where = choose_device(device)
    if not sharded:
        model.to(where)
    processes = Processes.join(where)
    # Not where the data are, which may be another place on every host.
    settings = (config.preset, config.model, config.training, config.max_length, sharded)
    processes.check_same(repr((settings, data.longest, len(tokenizer), len(data.validation))))
    keeper = None
    with ExitStack() as stack:
        stack.enter_context(use_threads(threads or default_threads(count_parameters(model)[0])))
        if processes.is_main:
            stack.enter_context(in_use(out))
            keeper = _keeper(config, tokenizer, model, out, command, resume=resume)
            progress = _Progress(label or config.preset, data.notes if notes is None else notes)
            stack.enter_context(progress.bars)
            observers = [keeper, progress, *observers]
        try:
            outcome = train_model(
                model,
                partial(data.epoch, share=processes.share),
                data.validation,
                config.training,
                pad_id=tokenizer.pad_id,
                bos_id=tokenizer.bos_id,
                criterion=data.criterion,
                observers=observers,
                checkpoints=checkpoints,
                processes=processes,
                parts_on=where if sharded else None,
            )
        except BaseException as error:
            if keeper is not None:
                if isinstance(error, UserError) and keeper.is_untouched:
                    stack.close()  # Windows removes no file that is locked
                    shutil.rmtree(out)  # nothing has begun: the next try finds the place as this one found it
                else:
                    keeper.update(status="interrupted" if isinstance(error, KeyboardInterrupt) else "failed")
            raise
        if keeper is not None:
            with writing(out):
                keeper.directory.save_weights(model)
            keeper.update(status=outcome.status, train_seconds=outcome.seconds)
    if outcome.status == "interrupted":
        raise KeyboardInterrupt(f"{out} keeps the best weights so far; the same command with `resume` goes on")
    return Run(out, config, model, tokenizer)


def _keeper(
    config: RunConfig, tokenizer: Tokenizer, model: Seq2Seq, out: Path, command: str, *, resume: bool
) -> _Keeper:
    """Make the run directory, or open the one that is to be gone on in."""
    directory = reopen(out, config, tokenizer) if resume else None
    parameters, non_embedding = count_parameters(model)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    record = RunRecord(
        status="running",
        created=now,
        command=command,
        seed=config.training.seed,
        parameters=parameters,
        parameters_non_embedding=non_embedding,
        train_seconds=0.0,
        versions=versions(),
        machine=machine(),
        commit=commit(),
    )
    if directory is None:
        return _Keeper(RunDirectory.create(out, config, tokenizer, record), is_new=True)
    keeper = _Keeper(directory, is_new=False)
    with writing(out):
        if not (out / RECORD).exists():  # killed before it wrote it
            directory.write_record(record)
        if not (out / CHECKPOINT).exists():  # killed before there was anything to go on from: it begins anew
            (out / METRICS).unlink(missing_ok=True)
    keeper.update(status="running", resumed=(*directory.record().resumed, now))
    return keeper


class _Progress(Observer):
    """Shows epoch, loss, tokens a second, time left, and the quality on the validation, on standard error.

    Args:
        name: of the model, in front of every line.
        notes: lines to say when the training begins.
    """

    def __init__(self, name: str, notes: Sequence[str]) -> None:
        self.name, self.notes = name, notes
        self.console = Console(stderr=True, highlight=False)
        self.bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=16),
            TextColumn("loss {task.fields[loss]}  {task.fields[speed]} tokens/s"),
            TimeRemainingColumn(compact=True),
            console=self.console,
            transient=True,
            disable=not self.console.is_terminal or self.console.is_jupyter,
        )
        self.epochs: int | None = None
        self.bar: TaskID | None = None

    def started(self, epochs: int | None, steps: int) -> None:
        for line in self.notes:
            say(line)
        self.epochs = epochs
        self.bar = self.bars.add_task(self.name, total=steps, loss="-", speed="-")

    def stepped(self, report: StepReport) -> None:
        if self.bar is not None:
            self.bars.update(
                self.bar,
                completed=report.step,
                description=f"{self.name} {self._epoch(report.epoch)}",
                loss=f"{report.loss:.3f}",
                speed=f"{report.tokens_per_second:,.0f}",
            )

    def validated(self, report: EpochReport, model: Seq2Seq, is_best: bool) -> None:
        figures = "  ".join(
            f"exact {100 * value:.2f} %" if name == EXACT_MATCH else f"{name} {value:.2f}"
            for name, value in report.measures.items()
        )
        self.console.print(
            f"{self.name} {self._epoch(report.epoch)}  loss {report.train_loss:.4f}  valid {report.valid_loss:.4f}  "
            f"{figures}  {report.tokens_per_second:,.0f} tokens/s  padding {report.padding:.0%}",
            soft_wrap=True,
        )

    def _epoch(self, number: int) -> str:
        return f"epoch {number}" if self.epochs is None else f"{number}/{self.epochs}"


class _Keeper(Observer):
    """Writes down every validation, and the weights whenever they are the best so far."""

    def __init__(self, directory: RunDirectory, *, is_new: bool) -> None:
        self.directory, self.is_untouched = directory, is_new

    def started(self, epochs: int | None, steps: int) -> None:
        self.is_untouched = False

    def validated(self, report: EpochReport, model: Seq2Seq, is_best: bool) -> None:
        with writing(self.directory.path):
            self.directory.append(report)
            if is_best:
                self.directory.save_weights(model)
        self.update(train_seconds=report.seconds)

    def resumed(self, step: int, reports: tuple[EpochReport, ...], model: Seq2Seq) -> None:
        # What was written after the checkpoint will be written again.
        with writing(self.directory.path):
            self.directory.rewrite_metrics(reports)
            if reports:
                self.directory.save_weights(model)

    def update(self, **changes: Any) -> None:
        with writing(self.directory.path):
            self.directory.update(**changes)


def _probe(model: Seq2Seq, config: RunConfig, data: TrainingSet) -> None:
    """Let the model read the longest example, to learn now and not in the middle whether it can."""
    tokenizer = data.tokenizer
    batch = collate([data.longest], tokenizer.pad_id, tokenizer.bos_id, [0])
    what = "read the longest pair of these data"
    try:
        with torch.inference_mode():
            model(batch.source, batch.target_in, source_mask=batch.source_mask)
            # Outputs may become longer than the longest target; the first model that writes on and on would find out.
            what = f"write {config.max_length} tokens, the most that an output may have with these data"
            written = torch.full((1, config.max_length), tokenizer.bos_id)
            model(batch.source, written, source_mask=batch.source_mask)
    except ValueError as error:
        raise UserError(f"{config.preset}: cannot {what}: {error}") from None
