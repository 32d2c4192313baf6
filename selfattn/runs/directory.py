"""The directory of a run: settings, weights, tokenizer, metrics, and how it was made.

=========================== =================================================================================
config.json                 `RunConfig`: task, preset, model, training and data settings, longest output, ...
model.safetensors           the weights of the best validation: averages, where ``average`` is set
tokenizer/                  the vocabulary
metrics.jsonl               one JSON object for each validation, see :class:`selfattn.training.observer.EpochReport`
curve.jsonl                 points between them, in comparisons, see :class:`selfattn.training.observer.CurveReport`
run.json                    `RunRecord`: status, parameters, seconds, versions, machine, command, commit, ...
.lock                       held while a process trains here
kept/step-N.safetensors     the weights at the last validations, with ``keep``, see :mod:`selfattn.runs.load`
last/checkpoint.safetensors everything that is needed to resume, see :mod:`selfattn.training.checkpoint`
=========================== =================================================================================

Every file is written aside and moved into place, so a killed process leaves no half a file. ``run.json`` has the
checksums of all others; a file that it does not list, or that differs, is refused. Imports torch for weights alone.
"""

from __future__ import annotations

import math
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import fields, replace
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError, safe_open

from selfattn.codec import decode, encode, flat, read, read_json, read_jsonl, refuse_newer, write, write_jsonl
from selfattn.errors import UserError, number_of, say
from selfattn.files import LOCK, names_in, open_regular, reading, sha256_of, write_atomically, writing
from selfattn.ownership import check_ours, is_ours
from selfattn.processes import is_main_process
from selfattn.registry import TASKS, check_plugins
from selfattn.runs.record import RunConfig, RunRecord, changed_contents, options_of_data
from selfattn.settings import divide
from selfattn.tokenizers.load import load_tokenizer
from selfattn.tokenizers.protocol import Tokenizer

if TYPE_CHECKING:
    from torch import nn

    from selfattn.training.observer import CurveReport, EpochReport

SCHEMA = 2
CONFIG = "config.json"
WEIGHTS = "model.safetensors"
TOKENIZER = "tokenizer"
METRICS = "metrics.jsonl"
CURVE = "curve.jsonl"
RECORD = "run.json"
CHECKPOINT = "last/checkpoint.safetensors"
_ADVICE = "restore the file or train again"
UNFINISHED = ("running", "interrupted", "failed")


def foreign_kind(path: Path) -> str | None:
    """Return the kind of a model of Hugging Face, such as ``"marian"``, in a directory; None if it holds none.

    Args:
        path: of the directory.
    """
    try:
        values = read_json(path / CONFIG, advice="")
    except UserError:
        return None
    return str(values["model_type"]) if isinstance(values, dict) and "model_type" in values else None


class RunDirectory:
    """A run on disk.

    Args:
        path: the directory; :meth:`create` makes a new one.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(
        cls, path: Path, config: RunConfig, tokenizer: Tokenizer, record: RunRecord, *, resume: bool = False
    ) -> RunDirectory:
        """Make the directory of a new run, with record, settings and tokenizer.

        The record comes first and says whose directory it is; while it lists no files, nothing has begun.

        Args:
            path: must not exist, or be an empty directory.
            config: of the run.
            tokenizer: of the run.
            record: content of ``run.json``, without checksums.
            resume: the directory may also be one that a killed process has just begun; default False.

        Raises:
            UserError: the path is taken, or cannot be written.
        """
        check_place(path, resume=resume)
        run = cls(path)
        with writing(path, "choose another `out`"):
            path.mkdir(parents=True, exist_ok=True)
            write(path / RECORD, replace(record, files={}), checksum=True)
            check_ours(path / CONFIG)
            tokenizer.save(path / TOKENIZER)
            run.write_config(config)
            files = {path / CONFIG, *(path / TOKENIZER / name for name in tokenizer_files(tokenizer))}
            if others := set(_regular_files(path / TOKENIZER)) - files:
                raise UserError(f"{min(others)}: is not a file of this training; remove it, or choose another `out`")
            run.write_record(record, files)
        return run

    @classmethod
    def reopen(cls, path: Path, config: RunConfig, tokenizer: Tokenizer, command: str) -> RunDirectory | None:
        """Open the directory of a run to resume it.

        Args:
            path: of the run.
            config: must be that of the run; a run that failed may resume with a lower learning rate, a finished one
                with more epochs or steps, and one that stopped early with more patience.
            tokenizer: must be that of the run.
            command: that resumes it; the record of a lengthened run has it too.

        Returns:
            The directory; None where no run has begun yet.

        Raises:
            UserError: the run is of other settings or plugins; the message names the first that differs.
        """
        run = cls(path)
        if not (path / RECORD).exists() or not run.record().files:  # killed before its settings were there
            return None
        saved = run.config(exact=True)
        record = run.record()
        old = saved.training
        new = config.training
        length = "epochs" if old.max_steps is None else "max_steps"
        before = getattr(old, length)
        now = getattr(new, length)
        has_more = now is not None and now > before
        # Killed between its record and its settings, a lengthened run is no longer finished, and not yet longer.
        is_pending = record.status == "interrupted" and sha256_of(path / CONFIG) != record.files[CONFIG][0]
        is_slower = record.status == "failed" and new.lr < old.lr  # what diverged needs it
        is_patient = old.patience is not None and (new.patience or math.inf) > old.patience
        is_patient = is_patient and (record.status == "stopped early" or is_pending)
        is_longer = has_more and (record.status == "finished" or is_pending or is_patient)
        if record.status == "stopped early" and has_more and not is_patient:
            reason = f"stopped early, after {number_of(old.patience or 0, 'validation')} without improvement"
            raise UserError(f"{path}: {reason}; give a larger `patience` too, or none")
        may_differ = {"lr": is_slower, "patience": is_patient, length: is_longer}
        allowed = {name: getattr(new, name) for name, may in may_differ.items() if may}
        saved = replace(saved, training=replace(old, **allowed))
        if not saved.longest_source:  # older runs name none, and keep one limit for all outputs
            config = replace(config, longest_source=0)
        _check_settings(path, saved, config)
        if tokenizer_files(tokenizer) != files_in(path / TOKENIZER):
            raise UserError(f"{path / TOKENIZER}: not the tokenizer of these data; choose another `out`")
        if is_longer:
            if not is_pending:
                from selfattn.training.checkpoint import CheckpointFile  # imports torch

                CheckpointFile(path / CHECKPOINT).plan_again()
            lengths = f"{before:,} to {now:,} {length.replace('_', ' ')}"
            schedule = "the learning rate follows the longer schedule from here on"
            say(f"{path}: lengthened from {lengths}; {schedule}, so the result is not that of {now:,} from the start")
        changes = {}
        if is_longer or is_patient:
            earlier = record.command.rpartition(" && ")[0] if is_pending else record.command
            changes = {"status": "interrupted", "command": f"{earlier} && {command} --resume"}
        if allowed:
            run.save_config(config, **changes)
        return run

    def discard(self) -> None:
        """Remove the files that :meth:`create` has written, and directories that are empty then."""
        folders = {self.path}
        for name in (*self.record().files, RECORD, LOCK):
            (self.path / name).unlink(missing_ok=True)
            folders.update((self.path / name).parents)
        for folder in sorted(folders, reverse=True):  # the inner ones first
            if folder.is_relative_to(self.path) and folder != self.path:
                with suppress(OSError):
                    folder.rmdir()

    def write_config(self, config: RunConfig) -> None:
        """Write the first ``config.json``."""
        write(self.path / CONFIG, {"schema": SCHEMA} | encode(config))

    def write_record(self, record: RunRecord, files: Iterable[Path] | None = None) -> None:
        """Write ``run.json`` with the checksums of files; default all that are there, but hidden ones and links."""
        files = _regular_files(self.path) if files is None else files
        checksums = {file.relative_to(self.path).as_posix(): (sha256_of(file),) for file in sorted(files)}
        write(self.path / RECORD, replace(record, files=checksums), checksum=True)

    def update(self, **changes: Any) -> None:
        """Change fields of ``run.json``.

        Raises:
            UserError: it cannot be read or written.
        """
        with writing(self.path):
            write(self.path / RECORD, replace(self.record(), **changes), checksum=True)

    def _put(self, name: str, make: Callable[[Path], object], **changes: Any) -> None:
        """Replace a file; its checksum is in the record before."""
        path = self.path / name

        def make_and_note(aside: Path) -> None:
            make(aside)
            before = (sha256_of(path),) if path.exists() else ()
            self.update(files={**self.record().files, name: (sha256_of(aside), *before)}, **changes)

        with writing(self.path):
            write_atomically(path, make_and_note)

    def check(self, *patterns: str) -> None:
        """Compare files with their checksums in the record.

        Args:
            patterns: of their paths, such as ``tokenizer/**/*``; hidden files do not count.

        Raises:
            UserError: a file was changed or damaged, or is not one of this run.
        """
        for pattern in patterns:
            for file in self.path.glob(pattern):
                if not file.is_dir() and not file.name.startswith("."):
                    self._check_file(file)

    def _check_file(self, file: Path) -> None:
        """Compare a file with its checksum; while a training replaces it, the record changes and is read again."""
        name = file.relative_to(self.path).as_posix()
        before: tuple[str, ...] | None = None
        sums = self.record().files.get(name, ())
        while sums != before:
            with reading(file, _ADVICE):
                if sha256_of(file) in sums:
                    return
            before = sums
            sums = self.record().files.get(name, ())
        if not sums:
            raise UserError(f"{file}: is not a file of this run ({RECORD} does not list it); remove it")
        raise UserError(f"{file}: was changed or damaged after it was written; {_ADVICE}")

    def copy(self, folder: Path, *patterns: str) -> None:
        """Copy files that the record lists, each with the content that it lists, into another directory.

        Args:
            folder: exists.
            patterns: of their paths, such as ``tokenizer/*``, which also covers what lies deeper.

        Raises:
            UserError: a file is a link, no regular file, or was changed.
            OSError: it cannot be copied.
        """
        for name in self.record().files:
            if any(fnmatchcase(name, pattern) for pattern in patterns) and os.path.lexists(self.path / name):
                path = self._inside(name)
                place = folder / name
                place.parent.mkdir(parents=True, exist_ok=True)
                self._check_file(path)
                with open_regular(path) as source, place.open("xb") as copied:
                    shutil.copyfileobj(source, copied)
                if sha256_of(place) not in self.record().files[name]:  # a training may just have replaced it
                    raise UserError(f"{path}: is being replaced; try again when the training has ended")

    def _inside(self, name: str) -> Path:
        """Return the path of a file that the record lists, if nothing on the way leads out of the directory.

        The cache of ``huggingface_hub`` keeps the files of a run as links to its own ones.
        """
        parts = PurePosixPath(name).parts
        if ".." in parts or PurePosixPath(name).is_absolute() or PureWindowsPath(name).is_absolute():
            raise UserError(f"{self.path / RECORD}: lists {name}, which is not in this directory; {_ADVICE}")
        blobs = self.path.resolve().parent.parent / "blobs"
        path = self.path
        for part in parts:
            path = path / part
            if path.is_symlink() and path.resolve().parent != blobs:
                raise UserError(f"{path}: is a link, which is not copied; put the file itself there")
        return path

    def save_config(self, config: RunConfig, **changes: Any) -> None:
        """Replace the settings, and change fields of ``run.json`` as it is written before them."""
        self._put(CONFIG, lambda aside: write(aside, {"schema": SCHEMA} | encode(config)), **changes)

    def config(self, *, exact: bool = False, kind: type[RunConfig] = RunConfig) -> RunConfig:
        """Read the settings. Imports no plugin but those of installed packages.

        Args:
            exact: refuse plugins that have changed; default: say so on standard error.
            kind: the settings as a class, which may hold the model's as plain values; default all of them checked.

        Raises:
            UserError: the file is missing, broken or from another version of the format, or a plugin is not loaded.
        """
        path = self.path / CONFIG
        if not self.path.is_dir():
            raise UserError(f"{self.path}: no such run directory; make one with selfattn train")
        data = read_json(path, advice="is this a run directory, made by selfattn train?")
        refuse_newer(data, SCHEMA, file=path)
        schema = data.pop("schema", None) if isinstance(data, dict) else None
        if schema not in range(1, SCHEMA + 1):
            raise UserError(f"{path}: not the settings of a run, schema {SCHEMA}; {_ADVICE}")
        if schema == 1:
            data["task_options"] = options_of_data(data.get("data", {}), str(path))
        if "plugins" in data:  # first: without plugins the names of parts are unknown
            plugins = decode(dict[str, str], data["plugins"], file=path, advice=_ADVICE)
            check_plugins(plugins, str(self.path), exact=exact)
        config = decode(kind, data, file=path, advice=_ADVICE)
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

    def save_weights(self, model: nn.Module, file: str = WEIGHTS) -> None:
        """Replace the weights, or those in another file of the run."""
        from safetensors.torch import save_file

        tied = _tied_names(model)
        state = model.state_dict()
        # Projections that lie together in memory are views; the file has each by itself.
        tensors = {names[0]: state[names[0]].contiguous() for names in tied}
        others = {name: names[0] for names in tied for name in names[1:]}
        with writing(self.path):
            (self.path / file).parent.mkdir(exist_ok=True)
        self._put(file, lambda path: save_file(tensors, path, others))

    def remove(self, names: Iterable[str]) -> None:
        """Remove files of the run, and their checksums."""
        removed = set(names)
        if not removed:
            return
        with writing(self.path):
            for name in removed:
                (self.path / name).unlink(missing_ok=True)
        files = self.record().files
        self.update(files={name: sums for name, sums in files.items() if name not in removed})

    def check_size(self, parameters: int) -> None:
        """Check that the weights are as many numbers as a model has parameters, or more, without reading them.

        Raises:
            UserError: the file is missing, broken or too small.
        """
        path = self.path / WEIGHTS
        try:
            with open_regular(path), safe_open(path, "pt") as file:  # which calls a forbidden file missing
                # The file is no mapping: it has keys, and cannot be iterated.
                count = sum(math.prod(file.get_slice(name).get_shape()) for name in file.keys())  # noqa: SIM118
        except (OSError, SafetensorError) as error:
            raise UserError(f"{path}: cannot be read ({error}); {_ADVICE}") from None
        if count < parameters:
            wrong = f"not the weights of the model in {CONFIG} ({count:,} numbers, not {parameters:,})"
            raise UserError(f"{path}: {wrong}; {_ADVICE}")

    def load_weights(self, model: nn.Module, file: str = WEIGHTS) -> None:
        """Read the weights, or those in another file of the run, into a model of the same configuration.

        Raises:
            UserError: the file is missing, broken or of another model, or its numbers are not finite.
        """
        from safetensors.torch import load_file

        path = self.path / file
        self.check(file)
        try:
            tensors = load_file(path)
            for names in _tied_names(model):
                stored = next((tensors[name] for name in names if name in tensors), None)
                tensors |= {} if stored is None else dict.fromkeys(names, stored)
            model.load_state_dict(tensors)
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
        from selfattn.training.observer import EpochReport

        path = self.path / METRICS
        lines = read_jsonl(dict[str, Any], path, advice=_ADVICE)
        reports = [EpochReport.from_line(line, f"{path}:{number}", _ADVICE) for number, line in enumerate(lines, 1)]
        self.check(METRICS)
        return reports

    def write_curve(self, points: Iterable[CurveReport]) -> None:
        """Replace the points of the learning curve between validations."""
        self._put(CURVE, lambda aside: write_jsonl(aside, points))

    def curve(self) -> list[CurveReport]:
        """Read the points of the learning curve between validations; none where none were measured.

        Raises:
            UserError: the file is damaged, or a line is not a point.
        """
        from selfattn.training.observer import CurveReport

        path = self.path / CURVE
        if not path.is_file():
            return []
        points = read_jsonl(CurveReport, path, advice=_ADVICE)
        self.check(CURVE)
        return points

    def record(self) -> RunRecord:
        """Read ``run.json``.

        Raises:
            UserError: the file is missing or broken.
        """
        return read(RunRecord, self.path / RECORD, advice=_ADVICE)


def _check_settings(path: Path, saved: RunConfig, config: RunConfig) -> None:
    """Refuse to resume a run with other settings. Files are told apart by their content, not by their paths.

    Runs of schema 1 kept no options, and fewer checksums: what they kept must be the same.
    """
    left_out = _left_out(saved, config)
    options = []
    for run_config in (saved, config):
        task_options = encode(run_config.task_options)
        options.append({f"`{name}`": value for name, value in task_options.items() if name not in left_out})
    _refuse_other(path, saved, *options)
    if changed := changed_contents(saved.data, config.data):
        advice = "restore the file, or choose another `out`"
        raise UserError(f"{path}: begun with another content of {changed[0]}; {advice}")
    _refuse_other(path, saved, _settings_of(saved), _settings_of(config))


def _refuse_other(path: Path, saved: RunConfig, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Raise unless values are the same; the message names the first that differs."""
    for name in (*now, *before):
        if saved.options is None and (name not in now or name not in before):
            continue
        old = repr(before[name]) if name in before else "nothing"
        new = repr(now[name]) if name in now else "nothing"
        if old != new:
            advice = "resume with the same settings, or choose another `out`"
            raise UserError(f"{path}: begun with {name} = {old}, now asked for {new}; {advice}")


def _settings_of(config: RunConfig) -> dict[str, Any]:
    """Return what decides a run, by name, but for the options of its task; what follows from the data comes last."""
    values: dict[str, Any] = encode(config)
    for name in ("task_options", "options", "made_by", "plugins"):
        values.pop(name, None)
    data = _without_paths(values.pop("data"))
    return dict(flat(values)) | dict(flat(data, "data."))


def _left_out(saved: RunConfig, config: RunConfig) -> set[str]:
    """Return the names of options that are not compared: how a comparison tests, and paths, whose content is."""
    if config.task not in TASKS:  # an object of a class that nobody registered
        return set()
    kind = TASKS[config.task]
    options, _ = divide(config.task_options, kind.Options, kind.TestOptions)
    left_out = {field.name for field in fields(kind.TestOptions)}
    for name, value in options.items():
        items = value if isinstance(value, tuple) else [value]
        if name in saved.task_options and any(isinstance(item, Path) for item in items):
            left_out.add(name)
    return left_out


def _without_paths(value: Any) -> Any:
    """Return settings of data without the paths of files, whose content has a checksum beside it."""
    if isinstance(value, dict):
        return {name: _without_paths(item) for name, item in value.items() if name != "path"}
    return [_without_paths(item) for item in value] if isinstance(value, list) else value


def _tied_names(model: nn.Module) -> list[list[str]]:
    """Return the names of each tensor of a model, sorted: several where it is tied to others."""
    names: dict[tuple[Any, ...], list[str]] = {}
    for name, tensor in sorted(model.state_dict().items()):
        names.setdefault((tensor.data_ptr(), tensor.shape, tensor.stride()), []).append(name)
    return list(names.values())


def tokenizer_files(tokenizer: Tokenizer) -> dict[str, bytes]:
    """Return the files that a tokenizer saves, by their paths."""
    with tempfile.TemporaryDirectory() as folder:
        tokenizer.save(folder)
        return files_in(Path(folder))


def _regular_files(folder: Path) -> list[Path]:
    """Return the files of a run, but for its record: neither links nor hidden files."""
    files = []
    for file in folder.rglob("*"):
        is_hidden = any(part.startswith(".") for part in file.relative_to(folder).parts)
        if file.is_file() and not file.is_symlink() and not is_hidden and file.name != RECORD:
            files.append(file)
    return files


def check_place(path: Path, *, resume: bool) -> None:
    """Check that a run can be made or resumed in a directory, before anything is touched.

    Args:
        path: of the directory.
        resume: whether there may be a run; where there is none, a new one can be made.

    Raises:
        UserError: there is a file, another run, something else than a run, or a record that is broken.
    """
    if resume and is_main_process() and (path / RECORD).exists():
        RunDirectory(path).record()
    else:
        check_is_free(path, resumes=not resume)


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
        names = names_in(path)
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}); choose another `out`") from None
    if is_ours(path):
        rest = ", or `resume`" if resumes else ""
        raise UserError(f"{path}: already holds a run, which is never overwritten; choose another `out`{rest}")
    if names:
        raise UserError(f"{path}: holds other files; choose another `out`, or an empty directory")


def files_in(folder: Path) -> dict[str, bytes]:
    """Read all files of a folder, by their paths in it."""
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}
