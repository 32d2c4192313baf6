"""How far a training is, and what it counts from one validation to the next."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from selfattn.codec import Plain
from selfattn.data.batches import Batch, padding_of
from selfattn.training.observer import EpochReport


@dataclass
class Progress(Plain):
    """How far a training is.

    Attributes:
        epoch: the one it is in, counted from 0.
        position: steps done in this epoch.
        step: steps done.
        total_steps: over which the schedule falls; 0 while it is not known.
        tokens: real target tokens trained on.
        seconds: of training.
        lr: of the last step.
        since_loss: sum over the tokens since the last validation, nats.
        since_tokens: how many they are.
        since_seconds: of training since the last validation.
        since_places: of tokens in the batches since then, source and target, padding included.
        since_padding: how many of these places are padding.
    """

    epoch: int = 0
    position: int = 0
    step: int = 0
    total_steps: int = 0
    tokens: int = 0
    seconds: float = 0.0
    lr: float = 0.0
    since_loss: float = 0.0
    since_tokens: int = 0
    since_seconds: float = 0.0
    since_places: int = 0
    since_padding: int = 0

    @property
    def tokens_per_second(self) -> float:
        """Real target tokens a second since the last validation."""
        return self.since_tokens / self.since_seconds

    def report(self, epoch: int, valid_loss: float, measures: Mapping[str, float]) -> EpochReport:
        """Report a validation and the training since the last.

        Args:
            epoch: of the last step, counted from 0.
            valid_loss: nats a token.
            measures: quality on the validation by name.
        """
        return EpochReport(
            epoch=epoch + 1,
            step=self.step,
            tokens=self.tokens,
            seconds=self.seconds,
            train_loss=self.since_loss / self.since_tokens,
            valid_loss=valid_loss,
            measures=dict(measures),
            tokens_per_second=self.tokens_per_second,
            lr=self.lr,
            padding=self.since_padding / self.since_places,
        )

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Count the time inside as time of training."""
        started = time.perf_counter()
        try:
            yield
        finally:
            elapsed = time.perf_counter() - started
            self.seconds += elapsed
            self.since_seconds += elapsed

    def stepped(self, loss: float, tokens: int, batches: Sequence[Batch]) -> None:
        """Count a step with this mean loss over so many tokens."""
        for batch in batches:
            padding, places = padding_of(batch)
            self.since_padding += padding
            self.since_places += places
        self.step += 1
        self.position += 1
        self.tokens += tokens
        self.since_tokens += tokens
        self.since_loss += loss * tokens

    def validated(self) -> None:
        """Begin to count anew what is counted from one validation to the next."""
        self.since_loss, self.since_tokens, self.since_seconds = 0.0, 0, 0.0
        self.since_places, self.since_padding = 0, 0
