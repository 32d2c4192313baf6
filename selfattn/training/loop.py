"""The training loop: epochs of batches, validated after each, the best weights kept.

The loop knows the protocol, not the task: where examples come from, how quality is measured and who watches are
handed in. It prints nothing and writes nothing; observers do.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from selfattn.data.batches import Batch, Example, batches
from selfattn.errors import UserError
from selfattn.models.protocol import Seq2Seq
from selfattn.streams import generator, seed_for
from selfattn.training.config import TrainingConfig
from selfattn.training.forcing import forcing_probability, sampled_logits
from selfattn.training.loss import token_loss
from selfattn.training.observer import EpochReport, Measure, Observer, Plan, StepReport
from selfattn.training.optimizer import make_optimizer
from selfattn.training.schedule import lr_factor

EXACT_MATCH = "exact_match"  # the figure that target_exact_match speaks of

Status = Literal["finished", "target reached", "interrupted"]


@dataclass(frozen=True)
class Outcome:
    """How a training ended.

    Attributes:
        status: all epochs done, ``target_exact_match`` reached before, or stopped from the keyboard.
        reports: one for each epoch that was validated.
        best: the report of the epoch whose weights the model now has; None if none was validated.
        seconds: of training: steps and the making of batches; neither the drawing of examples nor validation counts.
    """

    status: Status
    reports: tuple[EpochReport, ...]
    best: EpochReport | None
    seconds: float


def train(
    model: Seq2Seq,
    examples: Callable[[int], Sequence[Example]],
    validation: Sequence[Example],
    config: TrainingConfig,
    *,
    pad_id: int,
    bos_id: int,
    measure: Measure,
    observers: Sequence[Observer] = (),
) -> Outcome:
    """Train a model in place; after it the model has its best weights and is in evaluation mode.

    Best is the epoch with the best criterion of the measure on the validation, and among equals the lowest loss. The
    order of the data comes from the streams ``data/EPOCH`` of ``config.seed``, dropout from ``dropout/EPOCH``, the
    coins of scheduled sampling from ``forcing/EPOCH``: none depends on the model. The caller's global
    random state is left as it was.

    An interrupt from the keyboard ends the training early and is told in the outcome; it is not raised again.

    Args:
        model: trained on the device it is on.
        examples: gives the examples of an epoch, counted from 0.
        validation: unseen examples for the loss.
        config: see there.
        pad_id: padding token.
        bos_id: the token that every target begins with.
        measure: quality on the validation.
        observers: told of the plan, of every step and of every epoch.

    Raises:
        UserError: the loss is no longer a finite number, or ``target_exact_match`` is set for a training that is judged
            by something else.
    """
    target = config.target_exact_match
    if target is not None and measure.criterion != EXACT_MATCH:
        raise UserError(f"target_exact_match: this training is judged by {measure.criterion}; leave it out")
    device = next(model.parameters()).device
    loop = _Loop(model, config, device, pad_id, bos_id, observers)
    reports: list[EpochReport] = []
    best: EpochReport | None = None
    best_weights: dict[str, Tensor] | None = None
    status: Status = "finished"

    def rank(report: EpochReport) -> tuple[float, float]:
        return measure.value(report.measures), -report.valid_loss

    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        try:
            for epoch in range(config.epochs):
                train_loss = loop.run_epoch(epoch, examples(epoch))
                valid_loss = loop.validate(validation)
                report = loop.report(epoch, train_loss, valid_loss, measure.figures(model, valid_loss))
                reports.append(report)
                is_best = best is None or rank(report) > rank(best)
                if is_best:
                    best = report
                    best_weights = {name: weight.detach().clone() for name, weight in model.state_dict().items()}
                for observer in observers:
                    observer.validated(report, model, is_best)
                if target is not None and report.measures[EXACT_MATCH] >= target and epoch + 1 < config.epochs:
                    status = "target reached"
                    break
        except KeyboardInterrupt:
            status = "interrupted"
    if best_weights is not None:
        model.load_state_dict(best_weights)
    model.eval()
    return Outcome(status, tuple(reports), best, loop.seconds)


class _Loop:
    """What goes on from epoch to epoch: the optimizer, the counts and the clock."""

    def __init__(
        self,
        model: Seq2Seq,
        config: TrainingConfig,
        device: torch.device,
        pad_id: int,
        bos_id: int,
        observers: Sequence[Observer],
    ) -> None:
        self.model, self.config, self.device, self.observers = model, config, device, observers
        self.pad_id, self.bos_id = pad_id, bos_id
        self.optimizer = make_optimizer(model, config)
        self.autocast = torch.autocast(device.type, torch.bfloat16, enabled=config.precision == "bfloat16")
        self.step = self.tokens = self.total_steps = 0
        self.seconds = 0.0
        self.lr = 0.0
        self.coins = generator(config.seed, "forcing/0")
        self.epoch_tokens, self.epoch_seconds = 0, 0.0

    def run_epoch(self, epoch: int, examples: Sequence[Example]) -> float:
        """Train on the examples once; return the mean loss a token."""
        torch.manual_seed(seed_for(self.config.seed, f"dropout/{epoch}"))
        order = generator(self.config.seed, f"data/{epoch}")
        self.coins = generator(self.config.seed, f"forcing/{epoch}")
        self.model.train()
        started, before = time.perf_counter(), self.seconds
        self.epoch_tokens, summed = 0, 0.0
        todo = self._batches(examples, order)
        if not self.total_steps:
            # Counted once: with a bound on tokens, later epochs may have a batch more or less; the schedule holds.
            self.total_steps = len(todo) * self.config.epochs
            for observer in self.observers:
                observer.started(Plan(self.config.epochs, self.total_steps))
        try:
            for batch in todo:
                loss = self._train_on(batch.to(self.device), epoch)
                count = int(batch.target_mask.sum())
                self.step += 1
                self.tokens += count
                self.epoch_tokens += count
                summed += loss * count
                self.epoch_seconds = time.perf_counter() - started
                report = StepReport(
                    epoch + 1, self.step, self.total_steps, loss, self.lr, self.epoch_tokens / self.epoch_seconds
                )
                for observer in self.observers:
                    observer.stepped(report)
        finally:
            self.seconds = before + time.perf_counter() - started
        return summed / self.epoch_tokens

    def _batches(self, examples: Sequence[Example], order: torch.Generator) -> list[Batch]:
        return list(
            batches(
                examples,
                batch_size=self.config.batch_size,
                max_tokens=self.config.max_tokens,
                pad_id=self.pad_id,
                bos_id=self.bos_id,
                generator=order,
            )
        )

    def _train_on(self, batch: Batch, epoch: int) -> float:
        config = self.config
        self.lr = config.lr * lr_factor(
            config.schedule,
            self.step + 1,
            total_steps=self.total_steps,
            warmup_steps=round(config.warmup * self.total_steps),
        )
        for group in self.optimizer.param_groups:
            group["lr"] = self.lr
        with self.autocast:
            logits = self._logits(batch)
        loss = token_loss(logits, batch.target_out, batch.target_mask, label_smoothing=config.label_smoothing)
        value = loss.item()
        self._check_finite("loss", value, epoch)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        if config.clip_norm:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), config.clip_norm)
        self.optimizer.step()
        return value

    def _logits(self, batch: Batch) -> Tensor:
        config = self.config
        probability = forcing_probability(
            config.teacher_forcing, config.teacher_forcing_end, self.step + 1, total_steps=self.total_steps
        )
        if probability == 1.0:  # what sampled_logits would give, at once
            logits: Tensor = self.model(batch.source, batch.target_in, source_mask=batch.source_mask)
            return logits
        return sampled_logits(
            self.model,
            batch.source,
            batch.target_in,
            source_mask=batch.source_mask,
            teacher_forcing=probability,
            generator=self.coins,
        )

    def _check_finite(self, name: str, value: float, epoch: int) -> None:
        if not math.isfinite(value):
            raise UserError(
                f"training: the {name} became {value} at step {self.step + 1} (epoch {epoch + 1}); "
                f"lower the learning rate (now {self.lr:g}) or train in float32"
            )

    @torch.no_grad()
    def validate(self, examples: Sequence[Example]) -> float:
        """Return the mean loss a token on unseen examples, without label smoothing."""
        self.model.eval()
        summed, tokens = 0.0, 0
        for batch in batches(
            sorted(examples, key=lambda example: len(example.source)),
            batch_size=self.config.batch_size,
            max_tokens=self.config.max_tokens,
            pad_id=self.pad_id,
            bos_id=self.bos_id,
            generator=None,
        ):
            on_device, count = batch.to(self.device), int(batch.target_mask.sum())
            with self.autocast:
                logits = self.model(on_device.source, on_device.target_in, source_mask=on_device.source_mask)
            summed += token_loss(logits, on_device.target_out, on_device.target_mask).item() * count
            tokens += count
        return summed / tokens

    def report(self, epoch: int, train_loss: float, valid_loss: float, measures: Mapping[str, float]) -> EpochReport:
        """Put together what is known after an epoch."""
        self._check_finite("validation loss", valid_loss, epoch)
        return EpochReport(
            epoch=epoch + 1,
            step=self.step,
            tokens=self.tokens,
            seconds=self.seconds,
            train_loss=train_loss,
            valid_loss=valid_loss,
            measures=dict(measures),
            tokens_per_second=self.epoch_tokens / self.epoch_seconds,
            lr=self.lr,
        )
