"""Named sets of files, such as test sets: NAME=FILE, or files alone."""

import re
from collections.abc import Sequence
from pathlib import Path

from selfattn.errors import SettingError

_NAMED = re.compile(r"([A-Za-z0-9][A-Za-z0-9_.-]*)=(.+)")


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
