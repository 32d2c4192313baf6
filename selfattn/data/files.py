"""Pairs from files: the book's fixed-width file, TSV and JSON lines, each plain or gzipped."""

from __future__ import annotations

import json
import os
import unicodedata
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from selfattn.data.lines import lines_of
from selfattn.data.pairs import Pair
from selfattn.errors import UserError

BOOK_SEED = 1984
_ADVICE = "give at least one line with a pair"


def read_pairs(path: str | os.PathLike[str]) -> list[Pair]:
    """Read pairs of texts, one a line.

    The format follows the file's name (``.tsv``, ``.jsonl``), or else its first line:

    - JSON lines (the line begins with ``{``): an object with the texts ``"source"`` and ``"target"``; other keys
      are ignored;
    - TSV (the line has a tab): source, tab, target;
    - the book's file (Saito, *Deep Learning from Scratch 2*): the input padded with spaces, ``_``, the target. The
      padding is taken off. The last ``_`` of a line counts.

    A name that ends in ``.gz`` is unpacked first. Lines end with ``\\n`` or ``\\r\\n`` and nothing else; the text is
    UTF-8, and put into Unicode's form NFC, as every input of a model is.

    Args:
        path: the file.

    Returns:
        The pairs in the order of the file, without tags.

    Raises:
        UserError: the file is missing, a directory, empty or damaged, or a line is not a pair with text on both
            sides; the message names the file and the line.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "date.txt")
        ...     _ = path.write_text("2/10/93   _1993-02-10\\n")
        ...     read_pairs(path)
        [Pair(source='2/10/93', target='1993-02-10', tag='', spans=())]
    """
    path = Path(path)
    lines = read_lines(path, _ADVICE)
    parse = _parser(path, lines[0])
    pairs = []
    for number, line in enumerate(lines, 1):
        try:
            source, target = parse(line)
        except ValueError as error:
            raise UserError(f"{path}:{number}: {error}") from None
        for side, text in (("source", source), ("target", target)):
            if not text.strip():
                raise UserError(f"{path}:{number}: the {side} is empty; write a text there or take the line out")
        pairs.append(Pair(unicodedata.normalize("NFC", source), unicodedata.normalize("NFC", target)))
    return pairs


def is_book_file(path: str | os.PathLike[str]) -> bool:
    """Say whether `read_pairs` takes a file for the book's, so that the book's own split applies.

    Raises:
        UserError: the file is missing, a directory, empty or damaged.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "date.txt")
        ...     _ = path.write_text("2/10/93   _1993-02-10\\n")
        ...     is_book_file(path)
        True
    """
    path = Path(path)
    return _parser(path, read_lines(path, _ADVICE)[0]) is _book_line


def book_split(pairs: Sequence[Pair], seed: int = BOOK_SEED) -> tuple[list[Pair], list[Pair]]:
    """Split as the book does: NumPy's legacy generator with this seed, shuffle, the last tenth is the test.

    Args:
        pairs: at least 10.
        seed: of ``numpy.random.RandomState``; default 1984, the book's.

    Returns:
        Training pairs and test pairs, each in shuffled order.

    Raises:
        UserError: fewer than 10 pairs.

    Example:
        >>> train, test = book_split([Pair(str(n), str(n)) for n in range(20)])
        >>> len(train), len(test)
        (18, 2)
    """
    if len(pairs) < 10:
        raise UserError(f"{len(pairs)} pairs are too few to split: the test is a tenth; give 10 or more")
    order = np.arange(len(pairs))
    np.random.RandomState(seed).shuffle(order)
    cut = len(pairs) - len(pairs) // 10
    shuffled = [pairs[index] for index in order.tolist()]
    return shuffled[:cut], shuffled[cut:]


def seen(test: Sequence[Pair], train: Sequence[Pair], *, casefold: bool = False) -> list[bool]:
    """Say for each test pair whether the training pairs have it too (source and target): recall, not skill.

    Args:
        test: pairs to look up.
        train: pairs to look among.
        casefold: ignore case; default False.

    Example:
        >>> seen([Pair("MAY", "5"), Pair("June", "6")], [Pair("May", "5")], casefold=True)
        [True, False]
    """

    def key(pair: Pair) -> tuple[str, str]:
        return (pair.source.casefold(), pair.target.casefold()) if casefold else (pair.source, pair.target)

    known = {key(pair) for pair in train}
    return [key(pair) in known for pair in test]


def read_lines(path: Path, advice: str) -> list[str]:
    """Read the lines of a text in UTF-8, unpacked where its name ends in ``.gz``.

    Args:
        path: the file.
        advice: what to do where it is empty, for the error message.

    Raises:
        UserError: the file is missing, a directory, damaged or empty.
    """
    rows = list(lines_of(path, advice))
    if not any(row.strip() for row in rows):
        raise UserError(f"{path}: the file is empty; {advice}")
    lines = []
    for number, row in enumerate(rows, 1):
        try:
            lines.append(row.decode("utf-8"))
        except UnicodeDecodeError as error:
            raise UserError(
                f"{path}:{number}: not valid UTF-8 (byte {error.start + 1}); save the file as UTF-8"
            ) from None
    return lines


def _parser(path: Path, first_line: str) -> Callable[[str], tuple[str, str]]:
    suffix = (path.with_suffix("") if path.suffix == ".gz" else path).suffix
    if suffix == ".jsonl" or (suffix != ".tsv" and first_line.startswith("{")):
        return _json_line
    if suffix == ".tsv" or "\t" in first_line:
        return _tsv_line
    return _book_line


def _json_line(line: str) -> tuple[str, str]:
    try:
        record = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"not valid JSON ({error.msg}, column {error.colno}); write one object a line") from None
    except RecursionError:
        raise ValueError("nested too deeply; write one flat object a line") from None
    match record:
        case {"source": str(source), "target": str(target)}:
            return source, target
    raise ValueError('wanted an object with the texts "source" and "target"; add or correct them')


def _tsv_line(line: str) -> tuple[str, str]:
    columns = line.split("\t")
    if len(columns) != 2:
        raise ValueError(f"wanted source, tab, target; found {len(columns)} column(s); keep just these two")
    return columns[0], columns[1]


def _book_line(line: str) -> tuple[str, str]:
    source, separator, target = line.rpartition("_")
    if not separator:
        raise ValueError("no separator; write input_target (the book's format) or input, tab, target")
    return source.rstrip(" "), target.rstrip(" ")
