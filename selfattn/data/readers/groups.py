"""Several files: as one corpus, of pairs or of one side each, or as sets with names of their own."""

import os
import re
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from itertools import combinations
from pathlib import Path

from selfattn.data.languages import turned_side
from selfattn.data.readers.containers import content_sha256, named_errors, packing
from selfattn.data.readers.formats import holds_pairs, side_of
from selfattn.errors import SettingError, UserError

Group = tuple[Path, ...]
"""One file of pairs, or the file of the sources and the file of the targets."""

_ADVICE = "give files of pairs, or a source and a target in turn, such as a.en a.de b.en b.de"

_TURN = "turn them round, or the languages"
_NAMED = re.compile(r"([A-Za-z0-9][A-Za-z0-9_.-]*)=(.+)")


def groups_of(paths: Sequence[Path], encoding: str | None = None) -> list[Group]:
    """Divide the files of a corpus into groups that are read one after the other.

    Files that hold pairs by themselves (`holds_pairs`) are groups of one. Others are read two by two, a source and its
    target. Their names tell the two apart: two sources may not end in the language of two targets, and more than two
    files must say which are sources.

    Args:
        paths: one or more.
        encoding: see `lines_of`.

    Raises:
        UserError: there is no file; a file is missing or cannot be read; a file is given twice, or a copy of it; or
            names and contents do not tell what belongs together.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     paths = [Path(folder, name) for name in ("a.en", "a.de", "b.en", "b.de")]
        ...     _ = [path.write_text(path.name) for path in paths]
        ...     [[path.name for path in group] for group in groups_of(paths)]
        [['a.en', 'a.de'], ['b.en', 'b.de']]
    """
    if not paths:
        raise SettingError(f"`data`: no file; {_ADVICE}")
    if len(paths) == 1:
        return [(paths[0],)]
    refuse_repeats(paths)
    have_pairs = [holds_pairs(path, encoding) for path in paths]
    if all(have_pairs):
        return [(path,) for path in paths]
    if any(have_pairs):
        alone = paths[have_pairs.index(True)]
        side = paths[have_pairs.index(False)]
        raise UserError(f"{alone} holds pairs by itself, {side} one side of pairs; {_ADVICE}")
    if len(paths) % 2:
        raise UserError(f"`data`: {len(paths)} files of one side each ({_names(paths)}); {_ADVICE}")
    sources = {side_of(path) for path in paths[::2]}
    targets = {side_of(path) for path in paths[1::2]}
    if sources & targets - {None}:
        language = min(sources & targets - {None}, key=str)
        advice = "name the files .src and .tgt if both sides are of one language"
        raise UserError(f"`data`: a source and a target end in .{language} ({_names(paths)}); {_ADVICE}; {advice}")
    if len(paths) > 2 and (len(sources) > 1 or len(targets) > 1 or None in sources | targets):
        raise UserError(f"`data`: the names do not tell sources from targets ({_names(paths)}); {_ADVICE}")
    return [tuple(paths[number : number + 2]) for number in range(0, len(paths), 2)]


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


def refuse_repeats(paths: Sequence[Path]) -> None:
    """Raise where a file is given twice: by the same path, another path or link, or as a copy, packed or not.

    Raises:
        UserError: see above; or a file is missing or cannot be read.
    """
    content = cache(content_sha256)
    for first, second in combinations(paths, 2):
        is_one_file = os.path.realpath(first) == os.path.realpath(second)
        with suppress(OSError):  # it is missing, which reading says in a better way
            is_one_file |= os.path.samefile(first, second)
        if is_one_file:
            also = "" if str(first) == str(second) else f", also as {second}"
            raise UserError(f"{first}: is given twice{also}; leave it out once")
        if not packing(first) and not packing(second) and _size(first) != _size(second):
            continue
        if content(first) == content(second):
            raise UserError(f"{second}: has the same content as {first}; leave it out")


def refuse_turned(
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
        >>> refuse_turned([Path("a.de"), Path("a.en")], languages=("en", "de"))
        Traceback (most recent call last):
        selfattn.errors.UserError: a.de: given as source, but de is the target; turn them round, or the languages
    """
    turned = None if columns is None else turned_side(columns[0], columns[1], languages)
    if turned is not None:
        name, side, true_side = turned
        raise SettingError(f"`columns` {name}: given as {side}, but it is the {true_side}; {_TURN}")
    for source, target in zip(paths[::2], paths[1::2], strict=False):
        turned = turned_side(side_of(source), side_of(target), languages)
        if turned is not None:
            name, side, true_side = turned
            path = source if side == "source" else target
            raise UserError(f"{path}: given as {side}, but {name} is the {true_side}; {_TURN}")


def _size(path: Path) -> int:
    with named_errors(path):
        return path.stat().st_size


def _names(paths: Sequence[Path]) -> str:
    return ", ".join(path.name for path in paths[:6]) + (", ..." if len(paths) > 6 else "")
