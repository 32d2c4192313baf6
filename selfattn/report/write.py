"""Write a report: three files, each whole or not there at all, the same bytes for the same record."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from selfattn.codec import encode
from selfattn.files import write_atomically, writing
from selfattn.report.blocks import Outputs
from selfattn.report.contents import document
from selfattn.report.render.html import html_of
from selfattn.report.render.markdown import markdown_of
from selfattn.results.record import Record
from selfattn.words.messages import SOURCE

_LINE = 110
_ADVICE = "free some disk space, or give another directory"


@dataclass(frozen=True)
class ReportFiles:
    """Where a report lies."""

    html: Path
    markdown: Path
    results: Path


def write_report(
    record: Record, out_dir: str | Path, lang: str = SOURCE, outputs: Outputs | None = None
) -> ReportFiles:
    """Write `results.json`, `report.md` and `report.html` of a record; older ones are replaced.

    Args:
        record: the comparison.
        out_dir: the directory; made when it is not there.
        lang: the language of the Markdown file, and the one that the page opens in.
        outputs: of the test, for sections that need them; default none, and these sections are left out.

    Returns:
        The paths of the three files.

    Raises:
        UserError: the directory or a file cannot be written, there is no catalogue of the language, or a section that
            is not the project's does not make its blocks.
    """
    out = Path(out_dir)
    files = ReportFiles(out / "report.html", out / "report.md", out / "results.json")
    write_all({files.results: results_json(record)})  # first: a section that fails loses no results
    page = document(record, outputs)
    write_all({files.markdown: markdown_of(page, lang), files.html: html_of(page, lang)})
    return files


def write_all(files: Mapping[Path, str | bytes]) -> None:
    """Write files, and make their directories; what is there already is replaced.

    Raises:
        UserError: a directory or a file cannot be written.
    """
    for path, content in files.items():
        data = content.encode() if isinstance(content, str) else content
        with writing(path.parent, _ADVICE):
            path.parent.mkdir(parents=True, exist_ok=True)
        with writing(path, _ADVICE):
            write_atomically(path, partial(Path.write_bytes, data=data))


def results_json(record: Record) -> str:
    """The record as the text of `results.json`: indented, with every list of plain values in one line."""
    return as_json(encode(record))


def as_json(values: Any) -> str:
    """Plain values as JSON that people can read: indented, with every list of plain values in one line."""
    return _dump(values, "") + "\n"


def _dump(value: Any, indent: str) -> str:
    """JSON that puts a list or object on one line where it fits, and a list of plain values always."""
    inner = indent + "  "
    if isinstance(value, list):
        ends, parts = "[]", [_dump(item, inner) for item in value]
    elif isinstance(value, dict):
        ends = "{}"
        parts = [f"{json.dumps(key, ensure_ascii=False)}: {_dump(item, inner)}" for key, item in value.items()]
    else:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    line = f"{ends[0]}{', '.join(parts)}{ends[1]}"
    plain = isinstance(value, list) and not any(isinstance(item, (list, dict)) for item in value)
    if plain or ("\n" not in line and len(indent) + len(line) <= _LINE):
        return line
    return f"{ends[0]}\n" + ",\n".join(inner + part for part in parts) + f"\n{indent}{ends[1]}"
