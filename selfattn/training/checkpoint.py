"""Checkpoints: store a training at any step and resume it later as if it had never stopped.

One safetensors file holds everything: tensors by name, and plain values as JSON in the file's metadata. A single file
can be replaced atomically, so a process that is killed while it writes leaves the previous checkpoint.
"""

import hashlib
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from selfattn.codec import Plain, decode, encode, parse, refuse_newer
from selfattn.data.batches import Batch, padding_of
from selfattn.errors import UserError
from selfattn.files import read_bytes, write_atomically, writing
from selfattn.streams import GlobalStream
from selfattn.training.observer import EpochReport
from selfattn.training.weights import Average, Replica, Weights, named_weights

VERSION = 1
_SHARE = 0.02  # of the time may be spent on checkpoints by default
_AT_LEAST = 30.0  # seconds between two of them by default
_KEY = "selfattn"
_CHECKSUM = "selfattn.sha256"
_GENERATORS = ("rng/cpu", "rng/cuda")  # of dropout, by the place of their states
_ADVICE = "restore it or train again"


@dataclass
class TrainingProgress(Plain):
    """Progress of a training.

    Attributes:
        epoch: current epoch, counted from 0.
        position: steps done in this epoch.
        step: steps done.
        total_steps: steps over which the schedule falls; 0 while unknown.
        validations: planned validations; 0 while unknown.
        tokens: target tokens trained on, without padding.
        seconds: of training.
        lr: of the last step.
        since_loss: sum over the tokens since the last validation, nats.
        since_tokens: number of these tokens.
        since_seconds: of training since the last validation.
        since_places: positions of the batches since then, source and target, padding included.
        since_padding: padding among these positions.
        examples: training examples read.
    """

    epoch: int = 0
    position: int = 0
    step: int = 0
    total_steps: int = 0
    validations: int = 0
    tokens: int = 0
    seconds: float = 0.0
    lr: float = 0.0
    since_loss: float = 0.0
    since_tokens: int = 0
    since_seconds: float = 0.0
    since_places: int = 0
    since_padding: int = 0
    examples: int = 0

    @property
    def tokens_per_second(self) -> float:
        """Target tokens per second since the last validation."""
        return self.since_tokens / self.since_seconds

    def report(self, epoch: int, valid_loss: float, measures: Mapping[str, float]) -> EpochReport:
        """Report a validation and the training since the last one.

        Args:
            epoch: of the last step, counted from 0.
            valid_loss: nats per token.
            measures: quality on the validation data by name.
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
            examples=self.examples,
        )

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Count the time inside a ``with`` block as time of training."""
        started = time.perf_counter()
        yield
        elapsed = time.perf_counter() - started
        self.seconds += elapsed
        self.since_seconds += elapsed

    def stepped(self, loss: float, tokens: int, batches: Sequence[Batch]) -> None:
        """Count a step with this mean loss over this number of tokens."""
        for batch in batches:
            padding, places = padding_of(batch)
            self.since_padding += padding
            self.since_places += places
            self.examples += len(batch.indices)
        self.step += 1
        self.position += 1
        self.tokens += tokens
        self.since_tokens += tokens
        self.since_loss += loss * tokens

    def validated(self) -> None:
        """Reset what is counted from one validation to the next."""
        self.since_loss = 0.0
        self.since_tokens = 0
        self.since_seconds = 0.0
        self.since_places = 0
        self.since_padding = 0


@dataclass(frozen=True)
class Checkpoint:
    """Content of a checkpoint.

    Attributes:
        tensors: by names such as ``model/encoder.embed.weight``.
        progress: of the training.
        reports: of its validations.
    """

    tensors: Mapping[str, Tensor]
    progress: TrainingProgress
    reports: tuple[EpochReport, ...]

    def part(self, name: str) -> dict[str, Tensor]:
        """Return the tensors under ``name/``, by the rest of their names."""
        start = f"{name}/"
        return {key.removeprefix(start): tensor for key, tensor in self.tensors.items() if key.startswith(start)}


@dataclass(frozen=True)
class _Metadata(Plain):
    version: int
    progress: TrainingProgress
    reports: tuple[EpochReport, ...]


class CheckpointFile:
    """Path of the checkpoint, and how often it is written.

    Args:
        path: of the file; its directory is made when it is needed.
        every: steps between two checkpoints; there is one after each validation in any case. Default: at most 2 % of
            the time is spent on them, and at least 30 seconds pass between two.

    Raises:
        UserError: ``every`` is below 1.

    Example:
        >>> file = CheckpointFile(Path("checkpoint.safetensors"), every=50)
        >>> [step for step in range(1, 120) if file.is_due(step)]
        [50, 100]
    """

    def __init__(self, path: Path, every: int | None = None) -> None:
        if every is not None and every < 1:
            raise UserError(f"`save_every`: expected a whole number of at least 1, got {every}")
        self.path = path
        self.every = every
        self._cost = 0.0
        self._written = time.monotonic()

    def is_due(self, step: int) -> bool:
        """Say whether to write a checkpoint after this step."""
        if self.every is not None:
            return step % self.every == 0
        return time.monotonic() - self._written >= max(_AT_LEAST, self._cost / _SHARE)

    def write(self, checkpoint: Checkpoint) -> None:
        """Replace the checkpoint.

        Raises:
            UserError: the file cannot be written.
        """
        started = time.monotonic()
        plain = json.dumps(encode(_Metadata(VERSION, checkpoint.progress, checkpoint.reports)), allow_nan=False)
        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in checkpoint.tensors.items()}
        metadata = {_KEY: plain, _CHECKSUM: digest_of(plain, tensors)}
        with writing(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(self.path, lambda path: safetensors.torch.save_file(tensors, path, metadata))
        self._written = time.monotonic()
        self._cost = self._written - started

    def read(self) -> bytes | None:
        """Return the bytes of the file; None where there is no file."""
        return read_bytes(self.path, advice=_ADVICE) if self.path.exists() else None

    def plan_again(self) -> None:
        """Forget the length of the training, so that a resumed one plans its schedule again.

        Raises:
            UserError: the checkpoint is missing or broken.
        """
        data = self.read()
        if data is None:
            raise UserError(f"{self.path}: no such file; start a new training from the weights, with `init_from`")
        checkpoint = self.parse(data)
        self.write(replace(checkpoint, progress=replace(checkpoint.progress, total_steps=0, validations=0)))

    def parse(self, data: bytes) -> Checkpoint:
        """Read a checkpoint from bytes.

        Raises:
            UserError: the bytes are not a checkpoint, or are damaged.
        """
        try:
            tensors = safetensors.torch.load(data)
            metadata = parse(data[8 : 8 + int.from_bytes(data[:8], "little")])["__metadata__"]
            values = parse(metadata[_KEY].encode())
            if metadata[_CHECKSUM] != digest_of(metadata[_KEY], tensors):
                raise ValueError("its checksum differs: it was changed or damaged after it was written")
        except (SafetensorError, ValueError, KeyError, TypeError) as error:
            raise UserError(f"{self.path}: not a complete checkpoint ({error}); {_ADVICE}") from None
        refuse_newer(values, VERSION, file=self.path, key="version")
        content = decode(_Metadata, values, file=self.path, advice=_ADVICE)
        return Checkpoint(tensors, content.progress, content.reports)


def digest_of(plain: str, tensors: Mapping[str, Tensor]) -> str:
    """Return the SHA-256 of everything that a checkpoint holds."""
    digest = hashlib.sha256(plain.encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


class TrainingState:
    """Everything that changes from step to step.

    Args:
        replica: of the trained model.
        optimizer: of its parameters.
        average: of its weights.
        coins: generator of scheduled sampling, on the CPU.
        chance: of dropout.
    """

    def __init__(
        self,
        replica: Replica,
        optimizer: torch.optim.Optimizer,
        average: Average,
        coins: torch.Generator,
        chance: GlobalStream,
    ) -> None:
        self.replica = replica
        self.optimizer = optimizer
        self.average = average
        self.coins = coins
        self.chance = chance
        self.progress = TrainingProgress()
        self.reports: list[EpochReport] = []
        self.best_weights: Weights | None = None

    def checkpoint(self) -> Checkpoint:
        """Return everything, the states of the random streams included."""
        tensors: dict[str, Tensor] = {"rng/coins": self.coins.get_state()}
        tensors |= dict(zip(_GENERATORS, self.chance.states, strict=False))
        tensors |= _under("model", named_weights(self.replica.model))
        tensors |= _under("average", self.average.tensors())
        tensors |= _under("best", self.best_weights or {})
        for place, values in self.optimizer.state_dict()["state"].items():
            tensors |= _under(f"optimizer/{place}", values)
        return Checkpoint(tensors, self.progress, tuple(self.reports))

    def restore(self, checkpoint: Checkpoint) -> None:
        """Restore everything but the model's weights.

        Raises:
            ValueError, KeyError, RuntimeError, TypeError: the checkpoint belongs to another training.
        """
        self.progress = checkpoint.progress
        self.reports = list(checkpoint.reports)
        self.best_weights = checkpoint.part("best") or None
        self.average.restore(checkpoint.part("average"))
        self.average.plan(self.progress.validations)
        self.coins.set_state(checkpoint.tensors["rng/coins"])
        optimizer = self.optimizer.state_dict()
        state: dict[int, dict[str, Any]] = {}
        for key, tensor in checkpoint.part("optimizer").items():
            place, _, name = key.partition("/")
            state.setdefault(int(place), {})[name] = tensor
        self.optimizer.load_state_dict({"state": state, "param_groups": optimizer["param_groups"]})
        # A checkpoint of another device lacks a generator of this one; the stream of that one begins where it is.
        generators = zip(_GENERATORS, self.chance.states, strict=False)
        self.chance.states = tuple(checkpoint.tensors.get(name, state) for name, state in generators)
        with self.chance.drawing():  # a state that the generators do not take is refused here
            pass


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {f"{prefix}/{name}": tensor for name, tensor in tensors.items()}
