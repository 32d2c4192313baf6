"""The directory that keeps a run: settings, weights, tokenizer, metrics, and what it was made with.

=========================== =================================================================================
config.json                 :class:`RunConfig`: task, preset, model, training and data settings, longest output, ...
model.safetensors           the weights of the best validation: averages, where ``average`` is set
tokenizer/                  the vocabulary
metrics.jsonl               one JSON object for each validation, see :class:`selfattn.training.observer.EpochReport`
run.json                    :class:`RunRecord`: status, parameters, seconds, versions, machine, command, commit, ...
.lock                       held while a process trains here
last/checkpoint.safetensors the last weights and everything else that is needed to go on, see
                            :mod:`selfattn.training.checkpoints.checkpoint`
=========================== =================================================================================

Every file is written aside and moved into place, so a run that is killed leaves no half a file. ``run.json`` has the
checksums of the others, by which reading finds damage; a run of before there were any is read without.
"""

from __future__ import annotations

import math
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, load_model, save_model
from torch import nn

from selfattn.codec import Plain, decode, encode, read, read_json, read_jsonl, refuse_newer, short, write, write_jsonl
from selfattn.errors import UserError
from selfattn.files import LOCK, sha256_of, write_atomically, writing
from selfattn.models.config import ModelConfig
from selfattn.registry import check_plugins
from selfattn.tokenizers.load import load_tokenizer
from selfattn.tokenizers.protocol import Tokenizer
from selfattn.training.config import TrainingConfig
from selfattn.training.distributed.launch import is_main_process
from selfattn.training.observer import EpochReport

SCHEMA = 1
CONFIG, WEIGHTS, TOKENIZER = "config.json", "model.safetensors", "tokenizer"
METRICS, RECORD, CHECKPOINT = "metrics.jsonl", "run.json", "last/checkpoint.safetensors"
_ADVICE = "restore the file or train again"
_UNFINISHED = ("running", "interrupted", "failed")
_DERIVED = ("data.parts.", "data.length_ratio")


@dataclass(frozen=True)
class RunConfig(Plain):
    """Everything that decides a run: with the same code it makes the same weights.

    Attributes:
        task: such as ``dates``.
        preset: the named model that the settings began from.
        model: what the model is made of.
        training: how it is trained.
        data: where the pairs come from, as plain JSON values; the task knows what they mean.
        max_length: most tokens of an output, ``<eos>`` counted.
        plugins: whose parts it needs, as :func:`selfattn.registry.loaded_plugins` names them; default none.
    """

    task: str
    preset: str
    model: ModelConfig
    training: TrainingConfig
    data: Mapping[str, Any]
    max_length: int
    plugins: tuple[str, ...] = ()


@dataclass(frozen=True)
class RunRecord(Plain):
    """How a run came about and how far it is.

    Attributes:
        status: ``running``, ``failed``, or one of :data:`selfattn.training.loop.Status`.
        created: when it was begun, ISO 8601.
        command: what made it.
        seed: of every random stream.
        parameters: of the model.
        parameters_non_embedding: those of them that are not in an embedding.
        train_seconds: of training so far.
        versions: of what decides a result, by name.
        machine: what it is, by name.
        commit: of the checkout, where there is one.
        resumed: when it was gone on with, ISO 8601.
        files: SHA-256 of files by their paths: of what is there, or is about to be, and of what was there before, for
            a process may be killed between the two.
    """

    status: str
    created: str
    command: str
    seed: int
    parameters: int
    parameters_non_embedding: int
    train_seconds: float
    versions: Mapping[str, str]
    machine: Mapping[str, str | int | None]
    commit: str | None = None
    resumed: tuple[str, ...] = ()
    files: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


class RunDirectory:
    """A run on disk.

    Args:
        path: the directory; :meth:`create` makes a new one.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, path: Path, config: RunConfig, tokenizer: Tokenizer, record: RunRecord) -> RunDirectory:
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
        with writing(path, "choose another `out`"):
            path.mkdir(parents=True, exist_ok=True)
            tokenizer.save(path / TOKENIZER)
            write(path / CONFIG, {"schema": SCHEMA} | encode(config))
            run.write_record(record)
        return run

    def write_record(self, record: RunRecord) -> None:
        """Write the first ``run.json``, with the checksums of the settings and the tokenizer."""
        settings = [self.path / CONFIG, *(file for file in (self.path / TOKENIZER).rglob("*") if file.is_file())]
        files = {file.relative_to(self.path).as_posix(): (sha256_of(file),) for file in settings}
        write(self.path / RECORD, replace(record, files=files), checksum=True)

    def update(self, **changes: Any) -> None:
        """Change fields of ``run.json``."""
        write(self.path / RECORD, replace(self.record(), **changes), checksum=True)

    def _put(self, name: str, make: Callable[[Path], object]) -> None:
        """Write a file in place of what is there; the record knows it before it is there."""
        path = self.path / name

        def make_and_note(aside: Path) -> None:
            make(aside)
            if (self.path / RECORD).exists():
                before = (sha256_of(path),) if path.exists() else ()
                self.update(files={**self.record().files, name: (sha256_of(aside), *before)})

        write_atomically(path, make_and_note)

    def _check(self, name: str) -> None:
        """Hold a file against its checksum, or the files of a folder; where the record has none, it is as it is."""
        known = self.record().files if (self.path / RECORD).exists() else {}
        for file in (self.path / name, *(self.path / name).rglob("*")):
            checksums = known.get(file.relative_to(self.path).as_posix())
            if checksums is not None and sha256_of(file) not in checksums:
                raise UserError(
                    f"{file}: was changed or damaged after it was written (its checksum differs); {_ADVICE}"
                )

    def check_files(self) -> None:
        """Hold every file against its checksum.

        Raises:
            UserError: one was changed or damaged.
        """
        self._check(".")

    def save_config(self, config: RunConfig) -> None:
        """Write the settings, in place of those that are there."""
        self._put(CONFIG, lambda aside: write(aside, {"schema": SCHEMA} | encode(config)))

    def config(self) -> RunConfig:
        """Read the settings.

        Raises:
            UserError: the file is missing or broken, from another version of the format, or of a run that was made with
                a plugin that is not loaded; the message says which to give. Nothing is imported for it.
        """
        path = self.path / CONFIG
        if not self.path.is_dir():
            raise UserError(f"{self.path}: no such run directory; make one with selfattn train")
        data = read_json(path, advice="is this a run directory, made by selfattn train?")
        refuse_newer(data, SCHEMA, file=path)
        schema = data.pop("schema", None) if isinstance(data, dict) else SCHEMA
        if schema != SCHEMA:
            raise UserError(f"{path}: schema {short(schema)}, this version reads {SCHEMA}; {_ADVICE}")
        if isinstance(data, dict) and "plugins" in data:  # without them the names of parts mean nothing
            check_plugins(decode(tuple[str, ...], data["plugins"], file=path, advice=_ADVICE), str(self.path))
        config = decode(RunConfig, data, file=path, advice=_ADVICE)
        self._check(CONFIG)
        return config

    def tokenizer(self) -> Tokenizer:
        """Read the tokenizer, of whatever kind it is.

        Raises:
            UserError: its file is missing or broken.
        """
        tokenizer = load_tokenizer(self.path / TOKENIZER)
        self._check(TOKENIZER)
        return tokenizer

    def save_weights(self, model: nn.Module) -> None:
        """Write the weights, in place of those that are there."""
        self._put(WEIGHTS, lambda path: save_model(model, str(path)))

    def count_weights(self) -> int:
        """Say how many numbers the weights are, without reading them.

        Raises:
            UserError: the file is missing or broken.
        """
        path = self.path / WEIGHTS
        if not path.is_file():
            raise UserError(f"{path}: no such file; the run ended before its first epoch, or lost it: {_ADVICE}")
        try:
            path.open("rb").close()  # safetensors would say of a forbidden file that there is none
            with safe_open(path, "pt") as file:
                return sum(math.prod(file.get_slice(name).get_shape()) for name in file.keys())  # noqa: SIM118
        except OSError as error:
            raise UserError(f"{path}: cannot be read ({error.strerror or error}); {_ADVICE}") from None
        except SafetensorError as error:
            raise UserError(f"{path}: not a whole safetensors file ({error}); {_ADVICE}") from None

    def load_weights(self, model: nn.Module) -> None:
        """Read the weights into a model of the same configuration.

        Raises:
            UserError: the file is broken, or of another model; its numbers are of another type, or not finite.
        """
        path = self.path / WEIGHTS
        self.count_weights()  # says what cannot be read
        try:
            kept = {name: tensor.dtype for name, tensor in load_file(path).items()}
            load_model(model, path)
        except SafetensorError as error:
            raise UserError(f"{path}: not a whole safetensors file ({error}); {_ADVICE}") from None
        except RuntimeError as error:
            reason = " ".join(str(error).split())
            raise UserError(f"{path}: not the weights of the model in {CONFIG} ({reason}); {_ADVICE}") from None
        for name, tensor in model.state_dict().items():
            if kept.get(name, tensor.dtype) != tensor.dtype:
                raise UserError(f"{path}: {name} is {kept[name]}, the model's is {tensor.dtype}; {_ADVICE}")
            if not tensor.isfinite().all():
                raise UserError(f"{path}: {name} has numbers that are not finite; {_ADVICE}")
        self._check(WEIGHTS)

    def append(self, report: EpochReport) -> None:
        """Add a line to the metrics."""
        path = self.path / METRICS
        has_lines = path.exists() and path.stat().st_size > 0
        lines = read_jsonl(dict[str, Any], path, advice=_ADVICE) if has_lines else []
        self._put(METRICS, lambda aside: write_jsonl(aside, [*lines, report.to_line()]))

    def rewrite_metrics(self, reports: Iterable[EpochReport]) -> None:
        """Put these lines in place of all metrics."""
        self._put(METRICS, lambda aside: write_jsonl(aside, [report.to_line() for report in reports]))

    def metrics(self) -> list[EpochReport]:
        """Read the metrics, one report for each validation.

        Raises:
            UserError: the file is missing, or a line is no report.
        """
        path = self.path / METRICS
        lines = read_jsonl(dict[str, Any], path, advice=_ADVICE)
        reports = [EpochReport.from_line(line, f"{path}:{number}", _ADVICE) for number, line in enumerate(lines, 1)]
        self._check(METRICS)
        return reports

    def record(self) -> RunRecord:
        """Read ``run.json``.

        Raises:
            UserError: the file is missing or broken.
        """
        return read(RunRecord, self.path / RECORD, advice=_ADVICE)


def check_is_free(path: Path, *, resumes: bool = True) -> None:
    """Make sure that a new directory can be filled here, before any work is done for it.

    Of several processes only the first looks: it may have made the directory already when the others get here.

    Args:
        path: of the directory.
        resumes: whether what fills it can go on with a run that is there; default True.

    Raises:
        UserError: there is a file, another run, or a directory with something in it.
    """
    if not is_main_process():
        return
    try:
        if not path.exists():
            return
        if not path.is_dir():
            raise UserError(f"{path}: is a file; choose another `out`")
        names = {found.name for found in path.iterdir()} - {LOCK}
    except OSError as error:
        raise UserError(f"{path}: cannot be looked into ({error.strerror}); choose another `out`") from None
    if names & {CONFIG, RECORD, WEIGHTS}:
        rest = ", or go on with it: `resume`" if resumes else ""
        raise UserError(f"{path}: already holds a run, which is never overwritten; choose another `out`{rest}")
    if names:
        raise UserError(f"{path}: holds other files; choose another `out`, or an empty directory")


def reopen(path: Path, config: RunConfig, tokenizer: Tokenizer) -> RunDirectory | None:
    """Open a run directory to go on in it.

    Args:
        path: of the run.
        config: what is asked for now; must be what the run was begun with, but that one that failed may go on with a
            lower learning rate.
        tokenizer: likewise.

    Returns:
        The directory; None where no run has begun there yet, so that one can begin.

    Raises:
        UserError: the run is finished, or of other settings; the message names the first that differs.
    """
    clear_remains(path)
    if not (path / CONFIG).exists():
        return None
    run = RunDirectory(path)
    status = run.record().status if (path / RECORD).exists() else "running"
    kept = run.config()
    is_slower = status == "failed" and config.training.lr < kept.training.lr  # what a training that diverged needs
    if is_slower:
        kept = replace(kept, training=replace(kept.training, lr=config.training.lr))
    _compare(encode(kept), encode(config), path)
    with tempfile.TemporaryDirectory() as folder:
        tokenizer.save(folder)
        is_same = files_in(Path(folder)) == files_in(path / TOKENIZER)
    if not is_same:
        raise UserError(
            f"{path / TOKENIZER}: not the tokenizer of these data, which have changed; choose another `out`"
        )
    if status not in _UNFINISHED:
        raise UserError(f"{path}: this run is done ({status}), there is nothing to resume; choose another `out`")
    if is_slower:
        with writing(path):
            run.save_config(config)
    return run


def clear_remains(path: Path) -> None:
    """Take away what a killed process left behind: half-written files, and a directory without settings."""
    if not path.is_dir():
        return
    for remains in (*path.glob(".*.tmp"), *path.glob("*/.*.tmp")):
        remains.unlink(missing_ok=True)
    if {found.name for found in path.iterdir()} - {LOCK} == {TOKENIZER}:  # killed before it wrote the settings
        shutil.rmtree(path / TOKENIZER)


def _compare(kept: Mapping[str, Any], asked: Mapping[str, Any], path: Path) -> None:
    before, now = ({name: value for name, value in _flat(one) if name != "plugins"} for one in (kept, asked))
    # What was chosen goes before what follows from it, such as the parts of a corpus.
    for name in sorted((*before, *now), key=lambda name: name.startswith(_DERIVED)):
        if before.get(name) != now.get(name):
            raise UserError(
                f"{path}: begun with {name} = {_shown(before, name)}, now asked for {_shown(now, name)}; "
                "resume with the settings it was begun with, or choose another `out`"
            )


def _shown(values: Mapping[str, Any], name: str) -> str:
    return repr(values[name]) if name in values else "nothing"


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def files_in(folder: Path) -> dict[str, bytes]:
    """Read all files of a folder, by their paths in it."""
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}
