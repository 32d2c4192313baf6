"""What kind of file it is: pairs in a known format, or one side of pairs. Its name says so, else its first lines."""

import re
from itertools import islice
from pathlib import Path
from typing import Literal

from selfattn.codec import parse
from selfattn.data.languages import SOURCES, TARGETS, is_language
from selfattn.data.readers.containers import inner_name
from selfattn.data.readers.lines import lines_of
from selfattn.errors import UserError, number_of

Format = Literal["tsv", "csv", "jsonl", "bars", "anki", "scan", "book"]

FORMAT_NAMES: dict[Format, str] = {
    "tsv": "TSV",
    "csv": "CSV",
    "jsonl": "JSON lines",
    "bars": "source ||| target",
    "anki": "notes of Anki",
    "scan": "IN: source OUT: target",
    "book": "the book's format",
}
_ENDINGS: dict[str, Format] = {
    ".tsv": "tsv",
    ".tab": "tsv",
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
}
_SIDES = SOURCES | TARGETS
_ANKI = ("#separator:", "#html:", "#columns:", "#notetype", "#deck", "#tags", "#guid", "#if matches:")
_BARS = " ||| "
SCAN = re.compile("IN: (.+?) OUT: (.+)")
"""A line of SCAN's files."""
_HEAD = 100  # lines that tell what a file without a telling name is


def head_of(path: Path, encoding: str | None) -> list[str]:
    """Return the first lines of a file, without blank ones.

    Raises:
        UserError: see `lines_of`.
    """
    return list(islice((line for line in lines_of(path, encoding) if line.strip()), _HEAD))


def format_of(path: Path, encoding: str | None = None) -> Format | None:
    """Return the format of a file of pairs.

    It follows the file's name (``.tsv``, ``.tab``, ``.csv``, ``.jsonl``, ``.ndjson``, ``.json``, in any case; the
    ending of a packed file may stand behind it), or else its first line: ``#separator:`` begins notes exported from
    Anki, ``{`` JSON lines, ``IN:`` SCAN's, a tab stands in TSV, `` ||| `` in fast_align's format, an ``_`` in the
    book's.

    Returns:
        The format; None where neither tells, such as of one of two parallel files.

    Raises:
        UserError: the file is missing, damaged or empty, or a JSON array; or lines have several underscores, and not
            the last at the same place.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "date.txt")
        ...     _ = path.write_text("2/10/93   _1993-02-10\\n")
        ...     format_of(path)
        'book'
    """
    head = head_of(path, encoding)
    ending = inner_name(path).suffix.lower()
    first = head[0] if head else ""
    if ending == ".json" and first.lstrip().startswith("["):
        raise UserError(f"{path}: a JSON array; write one object a line, and name it .jsonl")
    if first.lower().startswith(_ANKI):
        return "anki"
    if ending in _ENDINGS:
        return _ENDINGS[ending]
    if first.lstrip().startswith("{"):
        return "jsonl"
    if "\t" in first:
        return "tsv"
    if _BARS in first:
        return "bars"
    if SCAN.fullmatch(first):
        return "scan"
    if "_" not in first:
        return None
    places = {line.rindex("_") for line in head if "_" in line}
    if len(places) > 1 and any(line.count("_") > 1 for line in head):
        raise UserError(f"{path}: several underscores in a line, and not at one place; write tabs between, as TSV")
    return "book"


def side_of(path: Path) -> str | None:
    """Return the language, or the side, that the name of a file ends in, in lower case; None where it names none.

    Example:
        >>> side_of(Path("train.EN.gz")), side_of(Path("news.zho.txt")), side_of(Path("a.src")), side_of(Path("a.txt"))
        ('en', 'zho', 'src', None)
    """
    name = inner_name(path)
    if name.suffix.lower() == ".txt":
        name = name.with_suffix("")
    ending = name.suffix.removeprefix(".").lower()
    return ending if ending in _SIDES or is_language(ending) else None


def holds_pairs(path: Path, encoding: str | None = None) -> bool:
    """Return whether a file among several holds pairs by itself, in contrast to one side of pairs.

    Its name tells (``.tsv``, or ``.en``), and its first 100 lines must not contradict. Of a name that does not tell,
    such as ``a.txt``: all of these lines have a tab, are JSON objects, or have an ``_`` at the same place, as in the
    book's file; or no line has.

    Raises:
        UserError: name and lines do not tell, or contradict each other; or see `lines_of`.
    """
    head = head_of(path, encoding)
    ending = inner_name(path).suffix.lower()
    side = side_of(path)
    if ending in _ENDINGS or (head and head[0].lower().startswith(_ANKI)):
        return True
    advice = "name it .tsv, .csv or .jsonl if it holds pairs, or by its language, such as .en, if it is one side"
    if not head:
        raise UserError(f"{path}: begins with {_HEAD} or more blank lines; {advice}")
    lines = f"of its first {number_of(len(head), 'line')}"
    for sign, count in (
        ("a tab", sum("\t" in line.strip() for line in head)),
        ("a JSON object", sum(_is_object(line) for line in head)),
        (_BARS.strip(), sum(_BARS in line for line in head)),
        ("IN: and OUT:", sum(SCAN.fullmatch(line) is not None for line in head)),
    ):
        if count == len(head):
            if side is not None:
                raise UserError(f"{path}: {sign} in all {lines}, so they may be pairs; {advice}")
            return True
        if count and side is None:
            raise UserError(f"{path}: {sign} in {count} {lines}; {advice}")
    marked = sum("_" in line for line in head)
    if side is not None or marked < len(head):
        return False
    if len({line.rindex("_") for line in head}) > 1 or len(head) == 1:
        raise UserError(f"{path}: an underscore in all {lines}; {advice}")
    return True


def _is_object(line: str) -> bool:
    if not line.lstrip().startswith("{"):
        return False
    try:
        return isinstance(parse(line.encode("utf-8", "surrogateescape")), dict)
    except ValueError:
        return False
