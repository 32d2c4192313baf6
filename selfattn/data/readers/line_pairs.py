"""Pairs out of lines: parallel files, JSON lines, the book's file."""

from collections.abc import Iterator
from pathlib import Path

from selfattn.codec import parse
from selfattn.data.readers.formats import SCAN
from selfattn.data.readers.lines import BAD_BYTE, count_lines, lines_of
from selfattn.data.readers.records import BadRecord, RawPair, check_columns, pair_of
from selfattn.errors import SettingError, UserError, number_of

RawRecord = RawPair | BadRecord


def parallel_pairs(source: Path, target: Path, encoding: str | None) -> Iterator[RawRecord]:
    """Pair line n of one file with line n of another.

    Raises:
        UserError: they have different numbers of lines; or see `lines_of`.
    """
    counts = [count_lines(path, encoding) for path in (source, target)]
    if counts[0] != counts[1]:
        raise UserError(
            f"{source} has {number_of(counts[0], 'line')} and {target} {counts[1]:,}; parallel files need as many"
        )
    both = zip(lines_of(source, encoding), lines_of(target, encoding), strict=True)
    for number, (left, right) in enumerate(both, 1):
        yield RawPair(number, left, right)


def json_pairs(
    path: Path, columns: tuple[str, str], encoding: str | None, tag: str | None = None
) -> Iterator[RawRecord]:
    """Read an object a line, with the texts at the top or within ``"translation"``.

    Raises:
        UserError: the first object lacks a column; or see `lines_of`.
    """
    is_first = True
    for number, line in enumerate(lines_of(path, encoding), 1):
        if not line.strip():
            yield RawPair(number, "", "")
            continue
        if BAD_BYTE.search(line):
            yield RawPair(number, line, line)  # which has the byte in its texts
            continue
        try:
            record = parse(line.encode())
        except ValueError as error:
            yield BadRecord(number, f"not valid JSON ({getattr(error, 'msg', error)})")
            continue
        if not isinstance(record, dict):
            yield BadRecord(number, "not a JSON object")
            continue
        if is_first:
            check_columns(f"{path}:{number}", record, columns)
            if tag is not None and tag not in record:
                raise SettingError(f"{path}:{number}: no {tag!r} (`tag`), only {', '.join(map(repr, record))}")
        is_first = False
        yield pair_of(number, record, columns, tag)


def scan_pairs(path: Path, encoding: str | None) -> Iterator[RawRecord]:
    """Read SCAN's files: ``IN: words OUT: actions``.

    Raises:
        UserError: see `lines_of`.
    """
    for number, line in enumerate(lines_of(path, encoding), 1):
        match = SCAN.fullmatch(line)
        if match is not None or not line.strip():
            yield RawPair(number, *(("", "") if match is None else (match[1], match[2])))
        else:
            yield BadRecord(number, "no IN: source OUT: target")


def book_pairs(path: Path, encoding: str | None) -> Iterator[RawRecord]:
    """Read the book's file: the input padded with spaces, the last ``_`` of the line, the target.

    Raises:
        UserError: see `lines_of`.
    """
    for number, line in enumerate(lines_of(path, encoding), 1):
        source, separator, target = line.rpartition("_")
        if separator or not line.strip():
            yield RawPair(number, source.rstrip(" "), target.rstrip(" "))
        else:
            yield BadRecord(number, "no separator (_) between input and target")
