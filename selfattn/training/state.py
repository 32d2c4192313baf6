"""Everything that a training carries from step to step, as one thing that can be kept and restored."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from selfattn.models.protocol import Seq2Seq
from selfattn.training.averaging import Average
from selfattn.training.checkpoint import Checkpoint
from selfattn.training.observer import EpochReport
from selfattn.training.weights import Weights, copy_of, named_weights, put_into


@dataclass
class Progress:
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

    def stepped(self, loss: float, tokens: int) -> None:
        """Count a step with this mean loss over so many tokens."""
        self.step += 1
        self.position += 1
        self.tokens += tokens
        self.since_tokens += tokens
        self.since_loss += loss * tokens

    def validated(self) -> None:
        """Begin to count anew what is counted from one validation to the next."""
        self.since_loss, self.since_tokens, self.since_seconds = 0.0, 0, 0.0


class State:
    """The moving parts of a training.

    Args:
        model: being trained.
        optimizer: of its parameters.
        average: of its weights.
        coins: the generator of scheduled sampling, on the CPU.
    """

    def __init__(
        self, model: Seq2Seq, optimizer: torch.optim.Optimizer, average: Average, coins: torch.Generator
    ) -> None:
        self.model, self.optimizer, self.average, self.coins = model, optimizer, average, coins
        self.progress = Progress()
        self.reports: list[EpochReport] = []
        self.best_weights: Weights | None = None

    def keep_best(self) -> None:
        """Keep the model's present weights as the best."""
        self.best_weights = copy_of(named_weights(self.model))

    def checkpoint(self) -> Checkpoint:
        """Put everything together, the states of the random streams included."""
        tensors: dict[str, Tensor] = {"rng/cpu": torch.get_rng_state(), "rng/coins": self.coins.get_state()}
        device = next(self.model.parameters()).device
        if device.type == "cuda":
            tensors["rng/cuda"] = torch.cuda.get_rng_state(device)
        tensors |= _under("model", named_weights(self.model))
        tensors |= _under("average", self.average.tensors())
        tensors |= _under("best", self.best_weights or {})
        for place, values in self.optimizer.state_dict()["state"].items():
            tensors |= _under(f"optimizer/{place}", values)
        reports = [dataclasses.asdict(report) for report in self.reports]
        return Checkpoint(tensors, {"progress": dataclasses.asdict(self.progress), "reports": reports})

    def restore(self, kept: Checkpoint) -> None:
        """Take everything over but the model's weights and the global random state; see the two methods below.

        Raises:
            ValueError, KeyError, RuntimeError, TypeError: the checkpoint is that of another training.
        """
        self.progress = Progress(**kept.values["progress"])
        self.reports = [EpochReport(**report) for report in kept.values["reports"]]
        self.best_weights = kept.part("best") or None
        self.average.restore(kept.part("average"))
        self.coins.set_state(kept.tensors["rng/coins"])
        optimizer = self.optimizer.state_dict()
        state: dict[int, dict[str, Any]] = {}
        for key, tensor in kept.part("optimizer").items():
            place, _, name = key.partition("/")
            state.setdefault(int(place), {})[name] = tensor
        self.optimizer.load_state_dict({"state": state, "param_groups": optimizer["param_groups"]})

    def restore_weights(self, kept: Checkpoint) -> None:
        """Take over the model's weights.

        Raises:
            ValueError: they are those of another model.
        """
        put_into(self.model, kept.part("model"))

    def restore_chance(self, kept: Checkpoint) -> None:
        """Take over the global random state, which decides dropout."""
        torch.set_rng_state(kept.tensors["rng/cpu"])
        if "rng/cuda" in kept.tensors:
            torch.cuda.set_rng_state(kept.tensors["rng/cuda"], next(self.model.parameters()).device)


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {f"{prefix}/{name}": tensor for name, tensor in tensors.items()}
