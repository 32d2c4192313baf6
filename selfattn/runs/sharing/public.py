"""Settings and record of a run as others may read them: without local paths and without the machine's name."""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping
from dataclasses import replace
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any

from selfattn.runs.directory import RunConfig, RunRecord

# From the root, a home directory or a drive on; not what follows a URL's host.
_PATH = re.compile(r"(?<![\w.:/\\~])(?:~[\w-]*|[A-Za-z]:)?[/\\](?:[^\s'\",;=]*[/\\])?[^\s'\",;=/\\]*")


def public_config(config: RunConfig) -> RunConfig:
    """Return settings whose paths are names of files alone."""
    return replace(config, data=_public(config.data), plugins=tuple(map(public_text, config.plugins)))


def public_record(record: RunRecord) -> RunRecord:
    """Return a record whose command has names of files alone, and no name of the machine."""
    return replace(record, command=public_text(record.command), machine=_public(record.machine))


def public_text(text: str) -> str:
    """Cut paths down to the names of their files, and take the name of this machine out.

    Example:
        >>> public_text("selfattn train translation --data /home/me/a.tsv,~/b.tsv --out=/tmp/x https://host/a/b")
        'selfattn train translation --data a.tsv,b.tsv --out=x https://host/a/b'
        >>> public_text("C:\\\\Users\\\\me\\\\a.tsv"), public_text("/home/my name/a.tsv"), public_text("1/2")
        ('a.tsv', 'a.tsv', '1/2')
    """
    for kind in (PurePosixPath, PureWindowsPath):
        if "\n" not in text and " -" not in text and (kind(text).is_absolute() or text.startswith("~")):
            return kind(text).name
    text = _PATH.sub(lambda found: PureWindowsPath(found[0]).name, text)
    host = socket.gethostname()
    return re.sub(rf"\b{re.escape(host)}\b", "localhost", text) if len(host) > 2 else text


def _public(value: Any) -> Any:
    if isinstance(value, str):
        return public_text(value)
    if isinstance(value, Mapping):
        return {name: _public(part) for name, part in value.items()}
    return [_public(part) for part in value] if isinstance(value, (list, tuple)) else value
