"""Everything that a training carries from step to step, as one thing that can be kept and restored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from selfattn.training.checkpoints.checkpoint import Checkpoint
from selfattn.training.checkpoints.progress import Progress
from selfattn.training.distributed.parallel import Replica
from selfattn.training.observer import EpochReport
from selfattn.training.optim.averaging import Average
from selfattn.training.optim.weights import Weights, named_weights, put_into


class TrainingState:
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
        return Checkpoint(self.replica.gathered(tensors), self.progress, tuple(self.reports))

    def restore(self, kept: Checkpoint) -> None:
        """Take everything over but the model's weights and the global random state; see the two methods below.

        Raises:
            ValueError, KeyError, RuntimeError, TypeError: the checkpoint is that of another training.
        """
        self.progress, self.reports = kept.progress, list(kept.reports)
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
