"""Sentence pairs with gold word alignments, from the files in which they are handed around."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from selfattn.data.readers.lines import read_lines
from selfattn.errors import UserError
from selfattn.evaluation.alignment.pharaoh import Base, Links, parse_links

_BETWEEN = "|||"
_ADVICE = "give sentences with gold links"


@dataclass(frozen=True)
class GoldPair:
    """A sentence pair with its gold links.

    Attributes:
        source: its words.
        target: likewise.
        links: between them, as positions from 0.
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    links: Links

    def turned(self) -> GoldPair:
        """Return the pair with source and target exchanged."""
        sure, possible = (
            frozenset((target, source) for source, target in some) for some in (self.links.sure, self.links.possible)
        )
        return GoldPair(self.target, self.source, Links(sure, possible))


def read_gold(path: str | Path, *, sentences: str | Path | None = None, base: Base | None = None) -> list[GoldPair]:
    """Read sentence pairs and their links.

    Two forms are known. In one file: source, target and links with tabs between. In two: ``source ||| target`` in the
    one, links in the other, line by line. Sentences are words with spaces between; links are as
    `selfattn.evaluation.alignment.pharaoh.parse_links` expects them.

    Args:
        path: the file with the links.
        sentences: the file with the sentences, where there are two; default none.
        base: what the first word is counted as; default what the file shows: a link to 0 can only be counted from 0, a
            link to the length of its sentence only from 1.

    Raises:
        UserError: a file cannot be read or is not as described, the two have not as many lines, or the links leave
            open what they count from.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = Path(folder, "gold.tsv")
        ...     _ = file.write_text("a dog\\tein Hund\\t1-1 2-2\\n")
        ...     pairs = read_gold(file)
        >>> pairs[0].target, sorted(pairs[0].links.sure)
        (('ein', 'Hund'), [(0, 0), (1, 1)])
    """
    path = Path(path)
    rows = _one_file(path) if sentences is None else _two_files(path, Path(sentences))
    links = _parse(path, rows, base)
    return [GoldPair(source, target, some) for (source, target, _), some in zip(rows, links, strict=True)]


_Row = tuple[tuple[str, ...], tuple[str, ...], str]


def _one_file(path: Path) -> list[_Row]:
    rows = []
    for number, line in enumerate(read_lines(path, _ADVICE), 1):
        cells = line.split("\t")
        if len(cells) != 3:
            raise UserError(
                f"{path}:{number}: {len(cells)} columns, expected source, target and links with tabs between; where "
                "the sentences stand in a file of their own, name it, too"
            )
        rows.append(_row(cells[0], cells[1], cells[2], f"{path}:{number}"))
    return rows


def _two_files(path: Path, sentences: Path) -> list[_Row]:
    texts, links = read_lines(sentences, _ADVICE), read_lines(path, _ADVICE)
    if len(texts) != len(links):
        raise UserError(
            f"{sentences} has {len(texts)} lines and {path} {len(links)}; one line of links a pair is needed"
        )
    rows = []
    for number, (text, some) in enumerate(zip(texts, links, strict=True), 1):
        sides = text.split(_BETWEEN)
        if len(sides) != 2:
            raise UserError(f"{sentences}:{number}: expected source {_BETWEEN} target")
        rows.append(_row(sides[0], sides[1], some, f"{sentences}:{number}"))
    return rows


def _row(source: str, target: str, links: str, where: str) -> _Row:
    # Only spaces part words here: a no-break space may stand inside one.
    words = tuple(tuple(word for word in side.strip().split(" ") if word) for side in (source, target))
    if not all(words):
        raise UserError(f"{where}: a sentence without a word; leave the pair out, with its links")
    return words[0], words[1], links


def _parse(path: Path, rows: Sequence[_Row], base: Base | None) -> list[Links]:
    def read(base: Base) -> list[Links]:
        return [
            parse_links(links, base=base, lengths=(len(source), len(target)), where=f"{path}:{number}")
            for number, (source, target, links) in enumerate(rows, 1)
        ]

    if base is not None:
        return read(base)
    found: list[list[Links]] = []
    errors: list[UserError] = []
    for guess in (0, 1):
        try:
            found.append(read(guess))
        except UserError as error:
            errors.append(error)
    if not found:
        raise errors[0]
    if len(found) == 2 and found[0] != found[1]:
        raise UserError(f"{path}: the links could count from 0 or from 1; say which")
    return found[0]
