"""Going on in a run directory that an earlier process began."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from selfattn.codec import encode
from selfattn.errors import UserError
from selfattn.files import LOCK, writing
from selfattn.runs.directory import CONFIG, RECORD, TOKENIZER, RunConfig, RunDirectory
from selfattn.tokenizers.protocol import Tokenizer

_UNFINISHED = ("running", "interrupted", "failed")


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
    if not _same_tokenizer(path / TOKENIZER, tokenizer):
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


_DERIVED = ("data.parts.", "data.length_ratio")


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


def _same_tokenizer(kept: Path, asked: Tokenizer) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        asked.save(folder)
        return _files(Path(folder)) == _files(kept)


def _files(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}
