"""What a training starts from: a run, or a Marian model of Hugging Face, in a directory or on the Hub."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from selfattn.convert.marian import FILES, RECIPE, MarianDirectory, MarianStart
from selfattn.data.readers.lines import read_kept
from selfattn.errors import SettingError
from selfattn.files import sha256_of
from selfattn.registry import TASKS
from selfattn.runs.directory import WEIGHTS, RunDirectory, foreign_kind
from selfattn.runs.hub import fetch, is_address
from selfattn.runs.load import load
from selfattn.runs.record import RunConfig
from selfattn.runs.run import Run
from selfattn.runs.task import TaskData
from selfattn.runs.vocabulary import token_settings
from selfattn.training.config import TrainingConfig
from selfattn.training.device import choose_device

PRESET = "marian"
"""Name of a Marian model in a run; no preset has it."""


@dataclass(frozen=True)
class Start:
    """A model that a training starts from.

    Attributes:
        run: with model, weights and tokenizer.
        sha256: of the file of the weights.
        notes: lines to print when the training begins.
        recipe: settings that replace those of the task's recipe; default none.
    """

    run: Run
    sha256: str
    notes: Sequence[str] = ()
    recipe: Mapping[str, Any] = field(default_factory=dict)


def open_start(path: Path, task: TaskData) -> Start:
    """Open a run or a Marian model, and check that a task can be trained from it.

    Args:
        path: of the directory, or ``hf://user/name``.
        task: to be trained.

    Raises:
        UserError: the model cannot be opened, or has other tokens or languages than the task's options say.
    """
    place = fetch(path, *FILES) if is_address(path) else path
    kind = foreign_kind(place)
    if kind not in (None, "marian"):
        raise SettingError(f"`init_from` {path}: a model of Hugging Face ({kind}), of which only Marian can be a start")
    if kind is None:
        run = load(place)
        if not list(run.model.parameters()):
            raise SettingError(f"`init_from` {run.path}: an exported run; take the run itself")
        _check_tokens(task, run)
        return Start(run, RunDirectory(run.path).record().files[WEIGHTS][0])
    if not task.takes_pairs:
        raise SettingError(f"`init_from` {path}: is a model of pairs, and {task.name} trains models of texts")
    run, marian = _open_marian(path, task.name, task.check_languages)
    _check_tokens(task, run)
    return Start(run, sha256_of(MarianDirectory(run.path).weights_file), marian.notes, RECIPE)


def open_model(path: Path, device: str = "cpu") -> Run:
    """Open a run, or a Marian model as if it were a run of the task that has languages.

    Args:
        path: of the directory, or ``hf://user/name``.
        device: to compute on; default the CPU.

    Raises:
        UserError: it cannot be opened, or is another model of Hugging Face.
    """
    place = fetch(path, *FILES) if is_address(path) else path
    if foreign_kind(place) != "marian":
        return load(path, device=device)
    task = next(name for name in TASKS.names() if TASKS[name].check_languages is not TaskData.check_languages)
    run, _ = _open_marian(path, task)
    run.model.to(choose_device(device))
    return run


def _open_marian(
    path: Path, task: str, check_languages: Callable[[str, str], object] = lambda source, target: None
) -> tuple[Run, MarianStart]:
    """Open a Marian model in a directory or on the Hub, whose languages are checked before its weights are fetched."""
    directory = MarianDirectory(fetch(path, *FILES) if is_address(path) else path)
    if is_address(path) and not directory.weights_file.is_file():
        directory = MarianDirectory(fetch(path, *FILES, directory.weights_file.name))
    check_languages(*directory.languages)
    marian = directory.open()
    longest = marian.config.limits().target or 1
    config = RunConfig(task, PRESET, marian.config, TrainingConfig(), {}, max_length=longest)
    return Run(directory.path, config, marian.model, marian.tokenizer), marian


def _check_tokens(task: TaskData, start: Run) -> None:
    """Check that the task's options name no other tokens than those of the run in ``init_from``."""
    settings = token_settings(start.tokenizer)
    for name, value in task.changed_options().items():
        if name == "keep_symbols" and isinstance(value, Path) and read_kept(value) in settings[name]:
            continue
        if name in settings and value not in settings[name]:
            actual = settings[name][0] if settings[name] else "none"
            reason = f"the tokens are those of `init_from` (`{name}` {actual})"
            raise SettingError(f"`{name}` {value}: {reason}; leave it out")
    if task.sampling() and not settings["vocab_size"]:
        raise SettingError("`sampling`: the tokens of `init_from` have one segmentation; leave it out")
