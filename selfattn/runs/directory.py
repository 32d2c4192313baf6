"""The directory that keeps a run: settings, weights, tokenizer, metrics, and what it was made with.

=========================== =================================================================================
config.json                 task, preset, model, training and data settings, longest output (schema version 1)
model.safetensors           the weights of the best validation: averages, where ``average`` is set
tokenizer/                  the vocabulary
metrics.jsonl               one JSON object for each validation, see :class:`selfattn.training.observer.EpochReport`
run.json                    status, parameters, seconds, versions, machine, command, commit, seed, date
last/checkpoint.safetensors the last weights and everything else that is needed to go on, see
                            :mod:`selfattn.training.checkpoints.checkpoint`
=========================== =================================================================================

Every file is written aside and moved into place, so a run that is killed leaves no half a file.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_model, save_model
from torch import nn

from selfattn.errors import UserError
from selfattn.files import read_json, write_atomically, write_json
from selfattn.models.config import ModelConfig, config_from_dict, config_to_dict
from selfattn.tokenizers.load import load_tokenizer
from selfattn.tokenizers.protocol import Tokenizer
from selfattn.training.config import TrainingConfig, training_from_dict
from selfattn.training.distributed.parallel import is_main_process
from selfattn.training.observer import EpochReport

SCHEMA = 1
CONFIG, WEIGHTS, TOKENIZER, METRICS, RECORD, CHECKPOINT = (
    "config.json",
    "model.safetensors",
    "tokenizer",
    "metrics.jsonl",
    "run.json",
    "last/checkpoint.safetensors",
)
_ADVICE = "restore the file or train again"


@dataclass(frozen=True)
class RunConfig:
    """Everything that decides a run: with the same code it makes the same weights.

    Attributes:
        task: such as ``dates``.
        preset: the named model that the settings began from.
        model: what the model is made of.
        training: how it is trained.
        data: where the pairs come from, as plain JSON values; the task knows what they mean.
        max_length: most tokens of an output, ``<eos>`` counted.
    """

    task: str
    preset: str
    model: ModelConfig
    training: TrainingConfig
    data: Mapping[str, Any]
    max_length: int


def config_to_json(config: RunConfig) -> dict[str, Any]:
    """Return the settings as plain JSON values, as ``config.json`` keeps them."""
    values: dict[str, Any] = {
        "task": config.task,
        "preset": config.preset,
        "model": config_to_dict(config.model),
        "training": asdict(config.training),
        "data": dict(config.data),
        "max_length": config.max_length,
    }
    plain: dict[str, Any] = json.loads(json.dumps(values))  # as it comes back from the file: lists, not tuples
    return plain


class RunDirectory:
    """A run on disk.

    Args:
        path: the directory; :meth:`create` makes a new one.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, path: Path, config: RunConfig, tokenizer: Tokenizer, record: Mapping[str, Any]) -> RunDirectory:
        """Begin a run: write settings, tokenizer and record.

        Args:
            path: must not exist, or be an empty directory.
            config: of the run.
            tokenizer: of the run.
            record: what goes into ``run.json``.

        Raises:
            UserError: there is something at the path, or it cannot be made.
        """
        check_is_free(path)
        run = cls(path)
        try:
            path.mkdir(parents=True, exist_ok=True)
            tokenizer.save(path / TOKENIZER)
        except OSError as error:
            raise UserError(f"{path}: cannot be written ({error.strerror}); choose another --out") from None
        write_json(path / CONFIG, {"schema": SCHEMA, **config_to_json(config)})
        run.write_record(record)
        return run

    def config(self) -> RunConfig:
        """Read the settings.

        Raises:
            UserError: the file is missing or broken, or from another version of the format.
        """
        path = self.path / CONFIG
        if not self.path.is_dir():
            raise UserError(f"{self.path}: no such run directory; make one with selfattn train")
        data = read_json(path, "is this a run directory, made by selfattn train?")
        if data.get("schema") != SCHEMA:
            raise UserError(f"{path}: schema {data.get('schema')!r}, this version reads {SCHEMA}; {_ADVICE}")
        match data:
            case {
                "task": str(task),
                "preset": str(preset),
                "model": dict(model),
                "training": training,
                "data": dict(settings),
                "max_length": int(max_length),
            }:
                return RunConfig(
                    task,
                    preset,
                    config_from_dict(model, str(path)),
                    training_from_dict(training, str(path)),
                    settings,
                    max_length,
                )
        raise UserError(f"{path}: a setting is missing or of the wrong type; {_ADVICE}")

    def tokenizer(self) -> Tokenizer:
        """Read the tokenizer, of whatever kind it is.

        Raises:
            UserError: its file is missing or broken.
        """
        return load_tokenizer(self.path / TOKENIZER)

    def save_weights(self, model: nn.Module) -> None:
        """Write the weights, in place of those that are there."""
        write_atomically(self.path / WEIGHTS, lambda path: save_model(model, str(path)))

    def load_weights(self, model: nn.Module) -> None:
        """Read the weights into a model of the same configuration.

        Raises:
            UserError: the file is missing, broken, or of another model.
        """
        path = self.path / WEIGHTS
        if not path.is_file():
            raise UserError(f"{path}: no such file; the run ended before its first epoch, or lost it: {_ADVICE}")
        try:
            load_model(model, path)
        except (SafetensorError, OSError) as error:
            raise UserError(f"{path}: not a whole safetensors file ({error}); {_ADVICE}") from None
        except RuntimeError as error:
            reason = " ".join(str(error).split())
            raise UserError(f"{path}: not the weights of the model in {CONFIG} ({reason}); {_ADVICE}") from None

    def append(self, report: EpochReport) -> None:
        """Add a line to the metrics."""
        path = self.path / METRICS
        self._write_metrics((path.read_bytes() if path.exists() else b"") + _line(report))

    def rewrite_metrics(self, reports: Iterable[EpochReport]) -> None:
        """Put these lines in place of all metrics."""
        self._write_metrics(b"".join(map(_line, reports)))

    def _write_metrics(self, lines: bytes) -> None:
        write_atomically(self.path / METRICS, lambda temporary: temporary.write_bytes(lines))

    def metrics(self) -> list[dict[str, Any]]:
        """Read the metrics, one object for each validation.

        Raises:
            UserError: the file is missing, or a line is not a JSON object.
        """
        path = self.path / METRICS
        try:
            lines = path.read_bytes().removesuffix(b"\n").split(b"\n")
        except OSError as error:
            raise UserError(f"{path}: cannot be read ({error.strerror}); {_ADVICE}") from None
        found = []
        for number, line in enumerate(lines, 1):
            try:
                found.append(dict(json.loads(line)))
            except (ValueError, TypeError):
                raise UserError(f"{path}:{number}: not a JSON object; {_ADVICE}") from None
        return found

    def write_record(self, record: Mapping[str, Any]) -> None:
        """Write ``run.json``, in place of what is there."""
        write_json(self.path / RECORD, dict(record))

    def record(self) -> dict[str, Any]:
        """Read ``run.json``.

        Raises:
            UserError: the file is missing or broken.
        """
        return read_json(self.path / RECORD, _ADVICE)


def _line(report: EpochReport) -> bytes:
    return json.dumps(report.to_line(), allow_nan=False).encode() + b"\n"


def check_is_free(path: Path) -> None:
    """Make sure that a new directory can be filled here, before any work is done for it.

    Of several processes only the first looks: it may have made the directory already when the others get here.

    Raises:
        UserError: there is a file, another run, or a directory with something in it.
    """
    if not is_main_process():
        return
    try:
        if not path.exists():
            return
        if not path.is_dir():
            raise UserError(f"{path}: is a file; choose another --out")
        names = {found.name for found in path.iterdir()}
    except OSError as error:
        raise UserError(f"{path}: cannot be looked into ({error.strerror}); choose another --out") from None
    if names & {CONFIG, RECORD, WEIGHTS}:
        raise UserError(
            f"{path}: already holds a run, which is never overwritten; choose another --out, or go on with it: --resume"
        )
    if names:
        raise UserError(f"{path}: holds other files; choose another --out, or an empty directory")
