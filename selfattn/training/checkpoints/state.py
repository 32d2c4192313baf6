"""Everything that a training carries from step to step, as one thing that can be kept and restored."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from selfattn.data.batches import Batch, padding_of
from selfattn.training.checkpoints.checkpoint import Checkpoint
from selfattn.training.distributed.replica import Replica
from selfattn.training.observer import EpochReport
from selfattn.training.optim.averaging import Average
from selfattn.training.optim.weights import Weights, named_weights, put_into


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


class State:
    """The moving parts of a training.

    Args:
        replica: of the model being trained.
        optimizer: of its parameters.
        average: of its weights.
        coins: the generator of scheduled sampling, on the CPU.
    """

    def __init__(
        self, replica: Replica, optimizer: torch.optim.Optimizer, average: Average, coins: torch.Generator
    ) -> None:
        self.replica, self.optimizer, self.average, self.coins = replica, optimizer, average, coins
        self.progress = Progress()
        self.reports: list[EpochReport] = []
        self.best_weights: Weights | None = None

    def keep_best(self) -> None:
        """Keep the whole model's present weights as the best."""
        self.best_weights = self.replica.snapshot()

    def checkpoint(self) -> Checkpoint:
        """Put everything together, the states of the random streams included."""
        tensors: dict[str, Tensor] = {"rng/cpu": torch.get_rng_state(), "rng/coins": self.coins.get_state()}
        if self.replica.device.type == "cuda":
            tensors["rng/cuda"] = torch.cuda.get_rng_state(self.replica.device)
        tensors |= _under("model", named_weights(self.replica.trained))
        tensors |= _under("average", self.average.tensors())
        tensors |= _under("best", self.best_weights or {})
        for place, values in self.optimizer.state_dict()["state"].items():
            tensors |= _under(f"optimizer/{place}", values)
        reports = [dataclasses.asdict(report) for report in self.reports]
        return Checkpoint(
            self.replica.gathered(tensors), {"progress": dataclasses.asdict(self.progress), "reports": reports}
        )

    def restore(self, kept: Checkpoint) -> None:
        """Take everything over but the model's weights and the global random state; see the two methods below.

        Raises:
            ValueError, KeyError, RuntimeError, TypeError: the checkpoint is that of another training.
        """
        self.progress = Progress(**kept.values["progress"])
        self.reports = [EpochReport(**report) for report in kept.values["reports"]]
        self.best_weights = kept.part("best") or None
        part, own = self.replica.part, named_weights(self.replica.trained)
        averaged = kept.part("average").items()  # whose names end with those of the weights
        self.average.restore({key: part(tensor, own.get(key.rpartition("/")[2])) for key, tensor in averaged})
        self.coins.set_state(kept.tensors["rng/coins"])
        optimizer = self.optimizer.state_dict()
        parameters = [parameter for group in self.optimizer.param_groups for parameter in group["params"]]
        state: dict[int, dict[str, Any]] = {}
        for key, tensor in kept.part("optimizer").items():
            place, _, name = key.partition("/")
            state.setdefault(int(place), {})[name] = part(tensor, parameters[int(place)])
        self.optimizer.load_state_dict({"state": state, "param_groups": optimizer["param_groups"]})

    def restore_weights(self, kept: Checkpoint) -> None:
        """Take over the model's weights.

        Raises:
            ValueError: they are those of another model.
        """
        own = named_weights(self.replica.trained)
        weights = kept.part("model").items()
        put_into(self.replica.trained, {name: self.replica.part(tensor, own.get(name)) for name, tensor in weights})

    def restore_chance(self, kept: Checkpoint) -> None:
        """Take over the global random state, which decides dropout."""
        torch.set_rng_state(kept.tensors["rng/cpu"])
        if "rng/cuda" in kept.tensors:
            torch.cuda.set_rng_state(kept.tensors["rng/cuda"], self.replica.device)


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {f"{prefix}/{name}": tensor for name, tensor in tensors.items()}
