"""Word alignments as files: one sentence pair a line, ``i-j`` for a sure link and ``ipj`` for a possible one.

The order is source, then target, as the Moses tools and the shared task on word alignment have it (Mihalcea and
Pedersen 2003). Files count words from 0 or from 1; in memory they are always counted from 0.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from selfattn.decoding.alignment import Link
from selfattn.errors import UserError
from selfattn.files import write_text

Base = Literal[0, 1]

_LINK = re.compile(r"([0-9]+)([-p])([0-9]+)")


@dataclass(frozen=True)
class Links:
    """The gold links of one sentence pair, as (source, target) positions from 0.

    Attributes:
        sure: links that an alignment must have.
        possible: links that it may have; the sure ones are always among them.

    Example:
        >>> Links(frozenset({(0, 0)}), frozenset({(1, 0)})).possible == {(0, 0), (1, 0)}
        True
    """

    sure: frozenset[Link] = frozenset()
    possible: frozenset[Link] = frozenset()

    def __post_init__(self) -> None:
        object.__setattr__(self, "possible", self.possible | self.sure)


def parse_links(
    line: str, *, base: Base = 0, lengths: tuple[int, int] | None = None, where: str = "alignment"
) -> Links:
    """Read the links of one sentence pair.

    Args:
        line: links with spaces between; none at all is fine.
        base: what the first word is counted as; default 0.
        lengths: words of the source and the target; default unknown.
        where: what to call the place in an error message.

    Raises:
        UserError: something is not a link, or it leads outside the sentences.

    Example:
        >>> links = parse_links("1-1 2p1", base=1)
        >>> sorted(links.sure), sorted(links.possible)
        ([(0, 0)], [(0, 0), (1, 0)])
    """
    kinds: dict[str, set[Link]] = {"-": set(), "p": set()}
    for text in line.split():
        found = _LINK.fullmatch(text)
        if found is None:
            raise UserError(f"{where}: {text!r} is not a link; write i-j (sure) or ipj (possible), such as 0-2")
        link = int(found[1]) - base, int(found[3]) - base
        if min(link) < 0:
            raise UserError(f"{where}: {text}: a position below {base}; does this file count from 0?")
        if lengths is not None and not (link[0] < lengths[0] and link[1] < lengths[1]):
            hint = "" if base else "; does this file count from 1?"
            raise UserError(f"{where}: {text}: outside its sentences of {lengths[0]} and {lengths[1]} words{hint}")
        kinds[found[2]].add(link)
    return Links(frozenset(kinds["-"]), frozenset(kinds["p"]))


def read_links(path: str | Path, *, base: Base = 0, lengths: Sequence[tuple[int, int]] | None = None) -> list[Links]:
    """Read an alignment file.

    Args:
        path: a text file in UTF-8.
        base: what the first word is counted as; default 0. A file does not say, and a wrong guess shifts everything:
            give `lengths` where they are known, so that most wrong guesses are found out.
        lengths: words of every source and target, in the order of the lines; default unknown.

    Raises:
        UserError: the file cannot be read, has another number of lines than there are sentence pairs, or a line is
            not as :func:`parse_links` expects it; the message has its number.
    """
    path = Path(path)
    try:
        lines = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}); name a file of word alignments") from None
    except UnicodeDecodeError:
        raise UserError(f"{path}: not a text in UTF-8; name a file of word alignments") from None
    if lengths is not None and len(lines) != len(lengths):
        raise UserError(f"{path}: {len(lines)} lines for {len(lengths)} sentence pairs; one line a pair is needed")
    return [
        parse_links(line, base=base, lengths=None if lengths is None else lengths[number - 1], where=f"{path}:{number}")
        for number, line in enumerate(lines, 1)
    ]


def format_links(links: Links, *, base: Base = 0) -> str:
    """Write the links of one sentence pair as a line, by source position.

    Example:
        >>> format_links(Links(frozenset({(2, 0), (0, 1)}), frozenset({(1, 1)})), base=1)
        '1-2 2p2 3-1'
    """
    return " ".join(
        f"{source + base}{'-' if (source, target) in links.sure else 'p'}{target + base}"
        for source, target in sorted(links.possible)
    )


def write_links(path: str | Path, sentences: Iterable[Links], *, base: Base = 0) -> None:
    """Write an alignment file, the whole of it or nothing.

    Args:
        path: replaced where it exists.
        sentences: the links of each pair.
        base: what to count the first word as; default 0.

    Raises:
        UserError: the file cannot be written.
    """
    text = "".join(format_links(links, base=base) + "\n" for links in sentences)
    try:
        write_text(Path(path), text)
    except OSError as error:
        raise UserError(f"{path}: cannot be written ({error.strerror}); choose another place") from None
