"""Which files of pairs belong together: as their names and first lines tell, or the files are refused."""

import os
import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import combinations
from pathlib import Path

from selfattn.data.languages import turned_side
from selfattn.data.readers.lines import LearnedFile, content_sha256, inner_name, named_errors, packing
from selfattn.data.readers.rows import BARS, ENDINGS, SCAN, is_anki, is_object, side_of
from selfattn.errors import SettingError, UserError, number_of

_HEAD = 100  # lines that tell whether a file without a telling name holds pairs
_TURN = "turn them round, or the languages"
_NAMED = re.compile(r"([A-Za-z0-9][A-Za-z0-9_.-]*)=(.+)")
GROUPING = "give files of pairs, or a source and a target in turn, such as a.en a.de b.en b.de"
"""Advice where it is not clear which files belong together."""


def label_of(paths: Iterable[Path]) -> str:
    """Return the names of files, as places in messages have them."""
    return ", ".join(path.name for path in paths)


def group_files(files: Sequence[LearnedFile]) -> list[tuple[LearnedFile, ...]]:
    """Divide several files into groups.

    Files that hold pairs by themselves (`holds_pairs`) are groups of one. Others are read two by two, a source and its
    target. Their names tell the two apart: two sources may not end in the language of two targets, and more than two
    files must say which are sources.
    """
    alone = files if len(files) == 1 else [file for file in files if holds_pairs(file)]
    if len(alone) == len(files):
        return [(file,) for file in files]
    names = label_of(file.path for file in files[:6]) + (", ..." if len(files) > 6 else "")
    sources = {side_of(file.name) for file in files[::2]}
    targets = {side_of(file.name) for file in files[1::2]}
    both = sorted(map(str, sources & targets - {None}))
    if alone:
        side = next(file for file in files if file not in alone)
        raise UserError(f"{alone[0].path} holds pairs by itself, {side.path} one side of pairs; {GROUPING}")
    if len(files) % 2:
        raise UserError(f"`data`: {len(files)} files of one side each ({names}); {GROUPING}")
    if both:
        advice = "name the files .src and .tgt if both sides are of one language"
        raise UserError(f"`data`: a source and a target end in .{both[0]} ({names}); {GROUPING}; {advice}")
    if len(files) > 2 and (len(sources) > 1 or len(targets) > 1 or None in sources | targets):
        raise UserError(f"`data`: the names do not tell sources from targets ({names}); {GROUPING}")
    return list(zip(files[::2], files[1::2], strict=True))


def holds_pairs(file: LearnedFile) -> bool:
    """Return whether a file among several holds pairs by itself, in contrast to one side of pairs.

    Its name tells (``.tsv``, or ``.en``), and its first 100 lines must not contradict. Of a name that does not tell,
    such as ``a.txt``: all of these lines have a tab, are JSON objects, or have an ``_`` at the same place, as in the
    book's file; or no line has.

    Raises:
        UserError: name and lines do not tell, or contradict each other.
    """
    head = [line for line in file.head if line.strip()][:_HEAD]
    side = side_of(file.name)
    path = file.path
    if file.name.suffix.lower() in ENDINGS or is_anki(file):
        return True
    advice = "name it .tsv, .csv or .jsonl if it holds pairs, or by its language, such as .en, if it is one side"
    if not head:
        raise UserError(f"{path}: begins with {len(file.head):,} blank lines; {advice}")
    lines = f"of its first {number_of(len(head), 'line')}"
    signs: dict[str, Callable[[str], object]] = {
        "a tab": lambda line: "\t" in line.strip(),
        "a JSON object": is_object,
        BARS.strip(): lambda line: BARS in line,
        "IN: and OUT:": SCAN.fullmatch,
    }
    for sign, holds in signs.items():
        count = sum(map(bool, map(holds, head)))
        if count == len(head) and side is not None:
            raise UserError(f"{path}: {sign} in all {lines}, so they may be pairs; {advice}")
        if 0 < count < len(head) and side is None:
            raise UserError(f"{path}: {sign} in {count} {lines}; {advice}")
        if count == len(head):
            return True
    if side is not None or not all("_" in line for line in head):
        return False
    if len({line.rindex("_") for line in head}) > 1 or len(head) == 1:
        raise UserError(f"{path}: an underscore in all {lines}; {advice}")
    return True


def named_sets(paths: Sequence[Path], setting: str) -> dict[str, tuple[Path, ...]]:
    """Divide files into the sets that they are given for.

    A name stands before the first file of its set; files without one belong to the set before. Where there is a file
    of that very name, such as ``a=b.tsv``, it is the file.

    Args:
        paths: such as ``iid=a.tsv gen=b.en b.de``.
        setting: name of the setting, for messages.

    Returns:
        The files of each set, in their order; of files without a name those of the set ``""``; nothing of no files.

    Raises:
        SettingError: a name is given twice, or the first file has none and another has.

    Example:
        >>> named_sets([Path("iid=a.tsv"), Path("gen=b.en"), Path("b.de")], "test")["gen"]
        (PosixPath('b.en'), PosixPath('b.de'))
        >>> named_sets([Path("a.tsv")], "test")
        {'': (PosixPath('a.tsv'),)}
    """
    sets: dict[str, tuple[Path, ...]] = {}
    name = ""
    for path in paths:
        match = _NAMED.fullmatch(str(path))
        if match is not None and not path.exists():
            name = match[1]
            path = Path(match[2])
            if name in sets:
                raise SettingError(f"`{setting}` {name}: given twice; give each set a name of its own")
        sets[name] = (*sets.get(name, ()), path)
    if "" in sets and len(sets) > 1:
        raise SettingError(f"`{setting}` {sets[''][0]}: has no name, but another set has; write NAME={sets[''][0]}")
    return sets


def refuse_repeats(paths: Sequence[Path], content: Callable[[Path], str] = content_sha256) -> None:
    """Raise where a file is given twice: by the same path, another path or link, or as a copy, packed or not.

    Args:
        paths: of the files.
        content: returns the checksum of a file, unpacked; default by reading it.

    Raises:
        UserError: see above; or a file is missing or cannot be read.
    """
    content = cache(content)
    sizes: dict[Path, int] = {}
    for path in paths:
        with named_errors(path):
            sizes[path] = path.stat().st_size
    for first, second in combinations(paths, 2):
        if os.path.samefile(first, second):
            also = "" if str(first) == str(second) else f", also as {second}"
            raise UserError(f"{first}: is given twice{also}; leave it out once")
        may_be_copy = packing(first) or packing(second) or sizes[first] == sizes[second]
        if may_be_copy and content(first) == content(second):
            raise UserError(f"{second}: has the same content as {first}; leave it out")


def refuse_swapped(
    paths: Sequence[Path], columns: Sequence[str] | None = None, languages: tuple[str, str] | None = None
) -> None:
    """Raise where names say that sources were given as targets, or targets as sources.

    Args:
        paths: of files of pairs, or of sources and targets in turn; or none.
        columns: names or numbers of the source's and the target's column; default none were chosen.
        languages: of the sources and of the targets; default unknown.

    Raises:
        UserError: the name of a file, or of a column, says that it is the other side.

    Example:
        >>> refuse_swapped([Path("a.de"), Path("a.en")], languages=("en", "de"))
        Traceback (most recent call last):
        selfattn.errors.UserError: a.de: given as source, but de is the target; turn them round, or the languages
    """
    if columns is not None and (turned := turned_side(columns[0], columns[1], languages)):
        name, side, true_side = turned
        raise SettingError(f"`columns` {name}: given as {side}, but it is the {true_side}; {_TURN}")
    for source, target in zip(paths[::2], paths[1::2], strict=False):
        if turned := turned_side(side_of(inner_name(source)), side_of(inner_name(target)), languages):
            name, side, true_side = turned
            path = source if side == "source" else target
            raise UserError(f"{path}: given as {side}, but {name} is the {true_side}; {_TURN}")
