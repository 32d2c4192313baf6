"""Runs on the Hugging Face Hub: fetched by their address, published without what is of this machine.

``HF_ENDPOINT`` names another Hub, ``HF_TOKEN`` or ``hf auth login`` says who publishes, as in ``huggingface_hub``.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from selfattn.data.corpus.availability import is_reachable
from selfattn.errors import UserError
from selfattn.files import write_text
from selfattn.models.ensemble import EnsembleConfig
from selfattn.runs.directory import METRICS, TOKENIZER, WEIGHTS, RunDirectory
from selfattn.runs.sharing.card import model_card
from selfattn.runs.sharing.exported import write_new_record
from selfattn.runs.sharing.public import public_config, public_record

if TYPE_CHECKING:
    from selfattn.runs.run import Run

CARD = "README.md"
_NAME = r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*"
_ADDRESS = re.compile(rf"hf:/{{1,2}}({_NAME})(?:@([\w./-]+))?")  # a path has lost one of the slashes
_FILES = (WEIGHTS, METRICS, "*.onnx", "*.onnx.data", "ctranslate2/*")  # beside settings, tokenizer and record
_SECONDS = 4.0  # to wait for a connection


def is_address(path: object) -> bool:
    """Whether this names a run on the Hub.

    Example:
        >>> is_address("hf://user/name@main"), is_address(Path("runs/a"))
        (True, False)
    """
    return _plain(path).startswith("hf:/")


def fetch(address: object) -> Path:
    """Fetch a run from the Hub, what is not here already, and say where it lies.

    Args:
        address: ``hf://user/name``, or ``hf://user/name@revision``: a branch, tag or commit.

    Returns:
        The directory in the cache of ``huggingface_hub``.

    Raises:
        UserError: it is no address, there is no such run or revision, or the Hub cannot be reached and the run is not
            in the cache.
    """
    found = _ADDRESS.fullmatch(_plain(address))
    if found is None:
        raise UserError(f"{_plain(address)}: expected hf://user/name or hf://user/name@revision")
    from huggingface_hub import snapshot_download

    name, revision = found.groups()
    with _hub_errors(f"hf://{name}" + (f"@{revision}" if revision else "")):
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
        raise UserError("push: several runs that were loaded together; publish one of them")
    if not is_reachable(_endpoint(), seconds=_SECONDS):
        raise UserError(f"{_endpoint()}: cannot be reached; nothing was published")
    from huggingface_hub import HfApi

    with tempfile.TemporaryDirectory() as aside:
        folder = Path(aside) / "run"
        stage(run, folder, name, test=test)
        with _hub_errors(f"hf://{name}"):
            hub = HfApi(endpoint=_endpoint())
            hub.create_repo(name, private=private, exist_ok=True)
            made = hub.upload_folder(repo_id=name, folder_path=folder, commit_message=f"{run.config.preset}")
    return str(made.commit_url)


def stage(run: Run, folder: Path, name: str, *, test: bool) -> None:
    """Make a directory as it is published: the run without its checkpoint, without local paths and the machine's name,
    with a model card."""
    folder.mkdir()
    for pattern in _FILES:
        for file in run.path.glob(pattern):
            (folder / file.relative_to(run.path)).parent.mkdir(exist_ok=True)
            shutil.copyfile(file, folder / file.relative_to(run.path))
    shutil.copytree(run.path / TOKENIZER, folder / TOKENIZER)
    config, record = public_config(run.config), public_record(RunDirectory(run.path).record())
    RunDirectory(folder).save_config(config)
    write_new_record(folder, record)
    write_text(folder / CARD, model_card(run, config, record, name, test=test))


def _plain(path: object) -> str:
    return str(path).replace("\\", "/")


def _endpoint() -> str:
    from huggingface_hub import constants

    return os.environ.get("HF_ENDPOINT", "").rstrip("/") or constants.ENDPOINT


@contextmanager
def _hub_errors(what: str) -> Iterator[None]:
    """Say in one line what the Hub refuses, and keep its library from writing to the terminal."""
    from huggingface_hub import errors
    from huggingface_hub import utils as shown

    utils: Any = shown  # does not say what it exports
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
                f"{what}: there is no such run, or you may not do this there; log in: hf auth login, or set HF_TOKEN"
            ) from None
        raise UserError(f"{what}: the Hub answers {status}; try again later") from None
    except (OSError, ValueError, RuntimeError) as error:
        raise UserError(f"{what}: {str(error).strip().partition(chr(10))[0]}") from None
    finally:
        utils.logging.set_verbosity(verbosity)
        if had_bars:
            utils.enable_progress_bars()
