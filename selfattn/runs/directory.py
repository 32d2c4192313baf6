"""The directory of a run: settings, weights, tokenizer, metrics, and how it was made.

=========================== =================================================================================
config.json                 :class:`RunConfig`: task, preset, model, training and data settings, longest output, ...
model.safetensors           the weights of the best validation: averages, where ``average`` is set
tokenizer/                  the vocabulary
metrics.jsonl               one JSON object for each validation, see :class:`selfattn.training.observer.EpochReport`
run.json                    :class:`RunRecord`: status, parameters, seconds, versions, machine, command, commit, ...
.lock                       held while a process trains here
last/checkpoint.safetensors everything that is needed to resume, see :mod:`selfattn.training.checkpoint`
=========================== =================================================================================

Every file is written aside and moved into place, so a killed process leaves no half a file. ``run.json`` has the
checksums of all others; a file that it does not list, or that differs, is refused.
"""

import math
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import load_model, save_model
from torch import nn

from selfattn import registry
from selfattn.codec import Plain, decode, encode, read, read_json, read_jsonl, refuse_newer, write, write_jsonl
from selfattn.errors import UserError, say
from selfattn.files import LOCK, sha256_of, write_atomically, writing
from selfattn.models.config import ModelConfig
from selfattn.tokenizers.load import load_tokenizer
from selfattn.tokenizers.protocol import Tokenizer
from selfattn.training.checkpoint import CheckpointFile
from selfattn.training.config import TrainingConfig
from selfattn.training.launch import is_main_process
from selfattn.training.observer import EpochReport

SCHEMA = 1
CONFIG, WEIGHTS, TOKENIZER = "config.json", "model.safetensors", "tokenizer"
METRICS, RECORD, CHECKPOINT = "metrics.jsonl", "run.json", "last/checkpoint.safetensors"
_ADVICE = "restore the file or train again"
UNFINISHED = ("running", "interrupted", "failed")
_DERIVED = ("data.parts.", "data.length_ratio")


@dataclass(frozen=True)
class RunConfig(Plain):
    """Everything that decides a run: the same code makes the same weights from it.

    Attributes:
        task: name, such as ``dates``.
        preset: named model that the settings started from.
        model: configuration of the model.
        training: configuration of the training.
        data: where the pairs come from, as plain JSON values that the task understands.
        max_length: most tokens of an output, ``<eos>`` included.
        plugins: plugins that the run uses, with their versions, see :func:`selfattn.registry.plugins_of`.
        init_from: SHA-256 of the weights that the training started from; None for weights drawn at random.
    """

    task: str
    preset: str
    model: ModelConfig
    training: TrainingConfig
    data: Mapping[str, Any]
    max_length: int
    plugins: Mapping[str, str] = field(default_factory=dict)
    init_from: str | None = None


@dataclass(frozen=True)
class RunRecord(Plain):
    """How a run was made, and its progress.

    Attributes:
        status: ``running``, ``failed``, or one of :data:`selfattn.training.loop.Status`.
        created: start, ISO 8601.
        command: that made it.
        seed: of every random stream.
        parameters: of the model.
        parameters_non_embedding: parameters outside embeddings.
        train_seconds: of training so far.
        versions: of libraries, by name.
        machine: description of the machine.
        commit: of the checkout, if any.
        resumed: times when the training was resumed, ISO 8601.
        files: SHA-256 of each file by its path: of the present content, and of the content before, because a process
            may be killed between writing the record and the file.
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
    def create(cls, path: Path, config: RunConfig, tokenizer: Tokenizer, record: RunRecord) -> "RunDirectory":
        """Make the directory of a new run, with settings, tokenizer and record.

        Args:
            path: must not exist, or be an empty directory.
            config: of the run.
            tokenizer: of the run.
            record: content of ``run.json``, without checksums.

        Raises:
            UserError: the path is taken, or cannot be written.
        """
        check_is_free(path)
        run = cls(path)
        with writing(path, "choose another `out`"):
            path.mkdir(parents=True, exist_ok=True)
            tokenizer.save(path / TOKENIZER)
            run.write_config(config)
            run.write_record(record)
        return run

    def write_config(self, config: RunConfig) -> None:
        """Write the first ``config.json``."""
        write(self.path / CONFIG, {"schema": SCHEMA} | encode(config))

    def write_record(self, record: RunRecord) -> None:
        """Write ``run.json`` with the checksums of all files that are there."""
        files = [file for file in self.path.rglob("*") if file.is_file() and file.name not in (RECORD, LOCK)]
        checksums = {file.relative_to(self.path).as_posix(): (sha256_of(file),) for file in files}
        write(self.path / RECORD, replace(record, files=checksums), checksum=True)

    def update(self, **changes: Any) -> None:
        """Change fields of ``run.json``.

        Raises:
            UserError: it cannot be read or written.
        """
        with writing(self.path):
            write(self.path / RECORD, replace(self.record(), **changes), checksum=True)

    def _put(self, name: str, make: Callable[[Path], object]) -> None:
        """Replace a file; its checksum is in the record before."""
        path = self.path / name

        def make_and_note(aside: Path) -> None:
            make(aside)
            before = (sha256_of(path),) if path.exists() else ()
            self.update(files={**self.record().files, name: (sha256_of(aside), *before)})

        with writing(self.path):
            write_atomically(path, make_and_note)

    def check(self, *patterns: str) -> None:
        """Compare files with their checksums in the record.

        Args:
            patterns: of their paths, such as ``tokenizer/**/*``; hidden files do not count.

        Raises:
            UserError: a file was changed or damaged, or is not one of this run.
        """
        known = self.record().files
        for file in (file for pattern in patterns for file in self.path.glob(pattern)):
            if file.is_file() and not file.name.startswith("."):
                sums = known.get(file.relative_to(self.path).as_posix())
                if sums is None:
                    raise UserError(f"{file}: is not a file of this run ({RECORD} does not list it); remove it")
                if sha256_of(file) not in sums:
                    raise UserError(f"{file}: was changed or damaged after it was written; {_ADVICE}")

    def save_config(self, config: RunConfig) -> None:
        """Replace the settings."""
        self._put(CONFIG, lambda aside: write(aside, {"schema": SCHEMA} | encode(config)))

    def config(self, *, exact: bool = False) -> RunConfig:
        """Read the settings. Imports no plugin but those of installed packages.

        Args:
            exact: refuse plugins that have changed; default: say so on standard error.

        Raises:
            UserError: the file is missing, broken or from another version of the format, or a plugin is not loaded.
        """
        path = self.path / CONFIG
        if not self.path.is_dir():
            raise UserError(f"{self.path}: no such run directory; make one with selfattn train")
        data = read_json(path, advice="is this a run directory, made by selfattn train?")
        refuse_newer(data, SCHEMA, file=path)
        if not isinstance(data, dict) or data.pop("schema", None) != SCHEMA:
            raise UserError(f"{path}: not the settings of a run, schema {SCHEMA}; {_ADVICE}")
        if "plugins" in data:  # first: without plugins the names of parts are unknown
            plugins = decode(dict[str, str], data["plugins"], file=path, advice=_ADVICE)
            registry.check_plugins(plugins, str(self.path), exact=exact)
        config = decode(RunConfig, data, file=path, advice=_ADVICE)
        self.check(CONFIG)
        return config

    def tokenizer(self) -> Tokenizer:
        """Read the tokenizer.

        Raises:
            UserError: a file is missing or broken.
        """
        tokenizer = load_tokenizer(self.path / TOKENIZER)
        self.check(f"{TOKENIZER}/**/*")
        return tokenizer

    def save_weights(self, model: nn.Module) -> None:
        """Replace the weights."""
        self._put(WEIGHTS, lambda path: save_model(model, str(path)))

    def check_size(self, parameters: int) -> None:
        """Check that the weights are as many numbers as a model has parameters, or more, without reading them.

        Raises:
            UserError: the file is missing, broken or too small.
        """
        path = self.path / WEIGHTS
        try:
            with path.open("rb"), safe_open(path, "pt") as file:  # which calls a forbidden file missing
                count = sum(math.prod(file.get_slice(name).get_shape()) for name in file.keys())  # noqa: SIM118
        except (OSError, SafetensorError) as error:
            raise UserError(f"{path}: cannot be read ({error}); {_ADVICE}") from None
        if count < parameters:
            wrong = f"not the weights of the model in {CONFIG} ({count:,} numbers, not {parameters:,})"
            raise UserError(f"{path}: {wrong}; {_ADVICE}")

    def load_weights(self, model: nn.Module) -> None:
        """Read the weights into a model of the same configuration.

        Raises:
            UserError: the file is missing, broken or of another model, or its numbers are not finite.
        """
        path = self.path / WEIGHTS
        self.check(WEIGHTS)
        try:
            load_model(model, path)
        except (OSError, SafetensorError, RuntimeError) as error:
            reason = " ".join(str(error).split())
            raise UserError(f"{path}: not the weights of the model in {CONFIG} ({reason}); {_ADVICE}") from None
        for name, tensor in model.state_dict().items():
            if not tensor.isfinite().all():
                raise UserError(f"{path}: {name} has numbers that are not finite; {_ADVICE}")

    def write_metrics(self, reports: Iterable[EpochReport]) -> None:
        """Replace the metrics."""
        self._put(METRICS, lambda aside: write_jsonl(aside, [report.to_line() for report in reports]))

    def metrics(self) -> list[EpochReport]:
        """Read the metrics, one report for each validation.

        Raises:
            UserError: the file is missing, damaged, or a line is not a report.
        """
        path = self.path / METRICS
        lines = read_jsonl(dict[str, Any], path, advice=_ADVICE)
        reports = [EpochReport.from_line(line, f"{path}:{number}", _ADVICE) for number, line in enumerate(lines, 1)]
        self.check(METRICS)
        return reports

    def record(self) -> RunRecord:
        """Read ``run.json``.

        Raises:
            UserError: the file is missing or broken.
        """
        return read(RunRecord, self.path / RECORD, advice=_ADVICE)


def used_plugins(task: str, metrics: Iterable[str], *models: ModelConfig) -> dict[str, str]:
    """Return the plugins that a task, its metrics and models use, with their versions.

    Args:
        task: name of the task.
        metrics: names of the metrics.
        models: configurations.
    """
    names = {task, *metrics, *(value for model in models for _, value in flat(encode(model)) if isinstance(value, str))}
    kinds = registry.SCORES, registry.POSITIONS, registry.FAMILIES, registry.TASKS, registry.METRICS
    return registry.plugins_of(names, *kinds)


def check_is_free(path: Path, *, resumes: bool = True) -> None:
    """Check that a new directory can be made, before any work is done for it.

    Only the first of several processes checks: it may have made the directory already.

    Args:
        path: of the directory.
        resumes: whether the message may offer ``resume``; default True.

    Raises:
        UserError: there is a file, another run, or a directory that is not empty.
    """
    if not is_main_process():
        return
    try:
        if not path.exists():
            return
        if not path.is_dir():
            raise UserError(f"{path}: is a file; choose another `out`")
        names = {file.name for file in path.iterdir()} - {LOCK}
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}); choose another `out`") from None
    if names & {CONFIG, RECORD, WEIGHTS}:
        rest = ", or `resume`" if resumes else ""
        raise UserError(f"{path}: already holds a run, which is never overwritten; choose another `out`{rest}")
    if names:
        raise UserError(f"{path}: holds other files; choose another `out`, or an empty directory")


def reopen(path: Path, config: RunConfig, tokenizer: Tokenizer, command: str) -> RunDirectory | None:
    """Open the directory of a run to resume it.

    Args:
        path: of the run.
        config: must be that of the run; a run that failed may resume with a lower learning rate, and a finished one
            with more epochs or steps.
        tokenizer: must be that of the run.
        command: that resumes it; the record of a lengthened run has it too.

    Returns:
        The directory; None where no run has begun yet.

    Raises:
        UserError: the run is of other settings or plugins; the message names the first that differs.
    """
    if {file.name for file in path.iterdir()} - {LOCK} <= {TOKENIZER, CONFIG}:  # killed before it wrote the record
        (path / CONFIG).unlink(missing_ok=True)
        shutil.rmtree(path / TOKENIZER, ignore_errors=True)
    if not (path / RECORD).exists():
        return None
    run = RunDirectory(path)
    saved, record = run.config(exact=True), run.record()
    is_slower = record.status == "failed" and config.training.lr < saved.training.lr  # what diverged needs it
    if is_slower:
        saved = replace(saved, training=replace(saved.training, lr=config.training.lr))
    length = "epochs" if saved.training.max_steps is None else "max_steps"
    before, now = (getattr(training, length) for training in (saved.training, config.training))
    is_longer = record.status == "finished" and now is not None and now > before
    if is_longer:
        saved = replace(saved, training=replace(saved.training, **{length: now}))
    _compare(encode(saved), encode(config), path)
    with tempfile.TemporaryDirectory() as folder:
        tokenizer.save(folder)
        is_same = files_in(Path(folder)) == files_in(path / TOKENIZER)
    if not is_same:
        raise UserError(f"{path / TOKENIZER}: not the tokenizer of these data; choose another `out`")
    if is_longer:
        CheckpointFile(path / CHECKPOINT).plan_again()
        say(
            f"{path}: lengthened from {before:,} to {now:,} {length.replace('_', ' ')}; the learning rate follows the "
            f"longer schedule from here on, so the result is not that of {now:,} from the start"
        )
        # The status first: whenever it is killed, it can be lengthened again.
        run.update(status="interrupted", command=f"{record.command} && {command} --resume")
    if is_slower or is_longer:
        run.save_config(config)
    return run


def _compare(saved: Mapping[str, Any], requested: Mapping[str, Any], path: Path) -> None:
    before, now = (
        {name: repr(value) for name, value in flat(values) if not name.startswith("plugins")}
        for values in (saved, requested)
    )
    # What was chosen goes before what follows from it, such as the parts of a corpus.
    for name in sorted((*before, *now), key=lambda name: name.startswith(_DERIVED)):
        if before.get(name) != now.get(name):
            old, new = before.get(name, "nothing"), now.get(name, "nothing")
            raise UserError(f"{path}: begun with {name} = {old}, now asked for {new}; choose another `out`")


def flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Iterate over nested values, by names such as ``training.lr``."""
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def files_in(folder: Path) -> dict[str, bytes]:
    """Read all files of a folder, by their paths in it."""
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}
