"""Runs on the Hugging Face Hub: fetched by their address, published without local paths and the machine's name.

``HF_ENDPOINT`` names another Hub; ``HF_TOKEN`` or ``hf auth login`` says who publishes, as in ``huggingface_hub``.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING, Any

from selfattn.data.corpus.availability import checked_answers, is_reachable
from selfattn.decoding.options import GREEDY
from selfattn.errors import UserError
from selfattn.files import write_text
from selfattn.models.ensemble import EnsembleConfig
from selfattn.runs.card import model_card
from selfattn.runs.directory import METRICS, TOKENIZER, WEIGHTS, RunDirectory

if TYPE_CHECKING:
    from selfattn.runs.run import Run

CARD = "README.md"
_NAME = r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*"
_ADDRESS = re.compile(rf"hf:/{{1,2}}({_NAME})(?:@([\w./-]+))?")  # a Path has one slash
_FILES = (WEIGHTS, METRICS, "*.onnx", "*.onnx.data", "ctranslate2/*")  # besides settings, tokenizer and record
_SECONDS = 4.0  # to wait for a connection
# A path from the root, a home directory or a drive; not the part of a URL behind its host.
_PATH = re.compile(r"(?<![\w.:/\\~])(?:~[\w-]*|[A-Za-z]:)?[/\\](?:[^\s'\",;=]*[/\\])?[^\s'\",;=/\\]*")


def is_address(path: object) -> bool:
    """Say whether a path is the address of a run on the Hub.

    Example:
        >>> is_address("hf://user/name@main"), is_address(Path("runs/a"))
        (True, False)
    """
    return _plain(path).startswith("hf:/")


def fetch(address: object) -> Path:
    """Fetch a run from the Hub, or from the cache of ``huggingface_hub``, and return its directory.

    Args:
        address: ``hf://user/name``, or ``hf://user/name@revision`` with a branch, tag or commit.

    Raises:
        UserError: the address is not valid, there is no such run or revision, or the Hub cannot be reached and the run
            is not in the cache.
    """
    parts = _ADDRESS.fullmatch(_plain(address))
    if parts is None:
        raise UserError(f"{_plain(address)}: expected hf://user/name or hf://user/name@revision")
    from huggingface_hub import snapshot_download

    name, revision = parts.groups()
    with _hub_errors(f"hf://{name}" + (f"@{revision}" if revision else "")), checked_answers():
        return Path(
            snapshot_download(
                name,
                revision=revision,
                endpoint=_endpoint(),
                local_files_only=not is_reachable(_endpoint(), seconds=_SECONDS),
                allow_patterns=["*.json", f"{TOKENIZER}/*", *_FILES],
            )
        )


def push(run: Run, name: str, *, private: bool = False, test: bool = True) -> str:
    """Publish a run; see :meth:`selfattn.runs.run.Run.push`."""
    if not re.fullmatch(_NAME, name):
        raise UserError(f"{name}: expected the name of a repository, user/name")
    if isinstance(run.config.model, EnsembleConfig):
        raise UserError("push: an ensemble; publish one of its runs")
    if not is_reachable(_endpoint(), seconds=_SECONDS):
        raise UserError(f"{_endpoint()}: cannot be reached; nothing was published")
    from huggingface_hub import HfApi

    with tempfile.TemporaryDirectory() as aside:
        folder = Path(aside) / "run"
        stage(run, folder, name, test=test)
        with _hub_errors(f"hf://{name}"):
            hub = HfApi(endpoint=_endpoint())
            hub.create_repo(name, private=private, exist_ok=True)
            commit = hub.upload_folder(repo_id=name, folder_path=folder, commit_message=f"{run.config.preset}")
    return str(commit.commit_url)


def stage(run: Run, folder: Path, name: str, *, test: bool) -> None:
    """Make the directory that is published: the run without checkpoint, local paths and machine name, and a card."""
    folder.mkdir()
    for pattern in _FILES:
        for file in run.path.glob(pattern):
            (folder / file.relative_to(run.path)).parent.mkdir(exist_ok=True)
            shutil.copyfile(file, folder / file.relative_to(run.path))
    shutil.copytree(run.path / TOKENIZER, folder / TOKENIZER)
    record = RunDirectory(run.path).record()
    plugins = {public_text(plugin): version for plugin, version in run.config.plugins.items()}
    config = replace(run.config, data=_public(run.config.data), plugins=plugins)
    record = replace(record, command=public_text(record.command), machine=_public(record.machine))
    public = RunDirectory(folder)
    public.write_config(config)
    measured, reason = None, "it was published without"
    if test:
        try:
            measured = run.task.evaluate(run, (), GREEDY, None)
            measured["data"] = public_text(str(measured["data"]))
        except UserError as error:
            reason = public_text(str(error))
    write_text(folder / CARD, model_card(config, record, len(run.tokenizer), name, measured, reason))
    public.write_record(record)


def public_text(text: str) -> str:
    """Shorten paths to the names of their files, and replace the name of this machine.

    Example:
        >>> public_text("selfattn train translation --data /home/me/a.tsv,~/b.tsv --out=/tmp/x https://host/a/b")
        'selfattn train translation --data a.tsv,b.tsv --out=x https://host/a/b'
        >>> public_text("C:\\\\Users\\\\me\\\\a.tsv"), public_text("/home/my name/a.tsv"), public_text("1/2")
        ('a.tsv', 'a.tsv', '1/2')
    """
    for kind in (PurePosixPath, PureWindowsPath):
        if "\n" not in text and " -" not in text and (kind(text).is_absolute() or text.startswith("~")):
            return kind(text).name
    text = _PATH.sub(lambda path: PureWindowsPath(path[0]).name, text)
    host = socket.gethostname()
    return re.sub(rf"\b{re.escape(host)}\b", "localhost", text) if len(host) > 2 else text


def _public(value: Any) -> Any:
    if isinstance(value, str):
        return public_text(value)
    if isinstance(value, Mapping):
        return {name: _public(part) for name, part in value.items()}
    return [_public(part) for part in value] if isinstance(value, (list, tuple)) else value


def _plain(path: object) -> str:
    return str(path).replace("\\", "/")


def _endpoint() -> str:
    from huggingface_hub import constants

    return os.environ.get("HF_ENDPOINT", "").rstrip("/") or constants.ENDPOINT


@contextmanager
def _hub_errors(what: str) -> Iterator[None]:
    """Turn errors of the Hub into one line, and silence its library, inside a ``with`` block."""
    from huggingface_hub import errors
    from huggingface_hub import utils as shown

    utils: Any = shown  # its exports are not typed
    verbosity, had_bars = utils.logging.get_verbosity(), not utils.are_progress_bars_disabled()
    utils.logging.set_verbosity(utils.logging.CRITICAL)
    utils.disable_progress_bars()
    try:
        yield
    except errors.RevisionNotFoundError:
        raise UserError(f"{what}: there is no such revision; name a branch, a tag or a commit") from None
    except errors.LocalEntryNotFoundError:
        raise UserError(f"{what}: {_endpoint()} cannot be reached, and the run is not in the cache") from None
    except errors.HfHubHTTPError as error:
        status = getattr(error.response, "status_code", None)
        if status in (401, 403, 404):
            raise UserError(
                f"{what}: there is no such run, or you may not do this there ({status}); log in: hf auth login, or set "
                "HF_TOKEN"
            ) from None
        raise UserError(f"{what}: the Hub answers {status}; try again later") from None
    except (OSError, ValueError, RuntimeError) as error:
        raise UserError(f"{what}: {str(error).strip().partition(chr(10))[0]}") from None
    finally:
        utils.logging.set_verbosity(verbosity)
        if had_bars:
            utils.enable_progress_bars()
