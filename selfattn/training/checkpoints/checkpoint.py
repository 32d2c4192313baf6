"""A training put down on disk at any step, to go on from later as if it had never stopped.

One safetensors file has everything: tensors under their names, and plain values as JSON in the file's own metadata.
One file, because one file can be replaced at once: a process that is killed while it writes leaves the old one.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from selfattn.codec import Plain, decode, encode, parse, refuse_newer
from selfattn.errors import UserError
from selfattn.files import read_bytes, write_atomically, writing
from selfattn.training.checkpoints.progress import Progress
from selfattn.training.observer import EpochReport

VERSION = 1
_SHARE = 0.02  # of the time may go into checkpoints, where nobody says how often
_AT_LEAST = 30.0  # seconds between two of them, where nobody says how often
_KEY = "selfattn"
_CHECKSUM = "selfattn.sha256"
_ADVICE = "restore it or train again"


@dataclass(frozen=True)
class Checkpoint:
    """What has to be kept.

    Attributes:
        tensors: by names such as ``model/encoder.embed.weight``.
        progress: how far the training is.
        reports: of its validations.
    """

    tensors: Mapping[str, Tensor]
    progress: Progress
    reports: tuple[EpochReport, ...]

    def part(self, name: str) -> dict[str, Tensor]:
        """Return the tensors under ``name/``, by the rest of their names."""
        start = f"{name}/"
        return {key.removeprefix(start): tensor for key, tensor in self.tensors.items() if key.startswith(start)}


@dataclass(frozen=True)
class _Metadata(Plain):
    """What stands in the file besides tensors."""

    version: int
    progress: Progress
    reports: tuple[EpochReport, ...]


class CheckpointFile:
    """The place of the checkpoint, and how often it is written.

    Args:
        path: of the file; its directory is made when it is needed.
        every: steps from one to the next; a validation has one behind it in any case. Default: as often as leaves 98 %
            of the time for training, and not more often than every 30 seconds.

    Raises:
        UserError: ``every`` is below 1.

    Example:
        >>> file = CheckpointFile(Path("checkpoint.safetensors"), every=50)
        >>> [step for step in range(1, 120) if file.is_due(step)]
        [50, 100]
    """

    def __init__(self, path: Path, every: int | None = None) -> None:
        if every is not None and every < 1:
            raise UserError(f"save_every: expected a whole number of at least 1, got {every}")
        self.path, self.every = path, every
        self._cost, self._written = 0.0, time.monotonic()

    def is_due(self, step: int) -> bool:
        """Say whether it is time to write again, after this step."""
        if self.every is not None:
            return step % self.every == 0
        return time.monotonic() - self._written >= max(_AT_LEAST, self._cost / _SHARE)

    def write(self, checkpoint: Checkpoint) -> None:
        """Write a checkpoint in place of the last one.

        Raises:
            UserError: the disk does not take it.
        """
        started = time.monotonic()
        values = _Metadata(VERSION, checkpoint.progress, checkpoint.reports)
        plain = json.dumps(encode(values), allow_nan=False)
        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in checkpoint.tensors.items()}
        metadata = {_KEY: plain, _CHECKSUM: _digest(plain, tensors)}
        with writing(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(self.path, lambda path: safetensors.torch.save_file(tensors, path, metadata))
        self._written = time.monotonic()
        self._cost = self._written - started

    def read(self) -> bytes | None:
        """Return the file as it is; None where there is none."""
        return read_bytes(self.path, advice=_ADVICE) if self.path.exists() else None

    def parse(self, data: bytes) -> Checkpoint:
        """Read a checkpoint.

        Raises:
            UserError: these bytes are none.
        """
        try:
            tensors = safetensors.torch.load(data)
            metadata = parse(data[8 : 8 + int.from_bytes(data[:8], "little")])["__metadata__"]
            values = parse(metadata[_KEY].encode())
            version = values["version"]
            if metadata.get(_CHECKSUM, checksum := _digest(metadata[_KEY], tensors)) != checksum:
                raise ValueError("its checksum differs: it was changed or damaged after it was written")
        except (SafetensorError, ValueError, KeyError, TypeError) as error:
            raise UserError(f"{self.path}: not a whole checkpoint ({error}); {_ADVICE}") from None
        refuse_newer(values, VERSION, file=self.path, key="version")
        if version != VERSION:
            raise UserError(f"{self.path}: version {version!r}, this program reads {VERSION}; train again")
        found = decode(_Metadata, values, file=self.path, advice=_ADVICE)
        return Checkpoint(tensors, found.progress, found.reports)


def _digest(plain: str, tensors: Mapping[str, Tensor]) -> str:
    """The SHA-256 of everything that a checkpoint holds."""
    found = hashlib.sha256(plain.encode())
    for name, tensor in sorted(tensors.items()):
        found.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        found.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return found.hexdigest()
