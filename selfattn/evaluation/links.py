"""Word alignments: gold links and their files, and error rates.

A line has the links of one pair: ``i-j`` for a sure link and ``ipj`` for a possible one, source before target, as the
Moses tools and the shared task on word alignment have it (Mihalcea and Pedersen 2003). Files count words from 0 or from
1; in memory they are always counted from 0.
"""

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import astuple, dataclass
from itertools import accumulate
from operator import add
from pathlib import Path
from typing import Literal

from selfattn.data.pairs import Span, clean_text
from selfattn.data.readers.groups import refuse_repeats
from selfattn.data.readers.lines import read_text_lines
from selfattn.errors import UserError, number_of

Base = Literal[0, 1]
Link = tuple[int, int]
"""Positions of a source token and a target token."""

_LINK = re.compile(r"([0-9]{1,9})([-p])([0-9]{1,9})")
_BETWEEN = "|||"


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
    line: str, *, base: Base = 0, lengths: tuple[float, float] = (math.inf, math.inf), where: str = "alignment"
) -> Links:
    """Read the links of one sentence pair.

    Args:
        line: links with spaces between; none at all is fine.
        base: what the first word is counted as; default 0.
        lengths: words of the source and the target; default any number.
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
        match = _LINK.fullmatch(text)
        if match is None:
            raise UserError(f"{where}: {text[:40]!r} is not a link; write i-j (sure) or ipj (possible), such as 0-2")
        link = int(match[1]) - base, int(match[3]) - base
        if not (0 <= link[0] < lengths[0] and 0 <= link[1] < lengths[1]):
            words = f"its sentences of {lengths[0]} and {lengths[1]} words"
            raise UserError(f"{where}: {text}: outside {words}; does this file count from {1 - base}?")
        kinds[match[2]].add(link)
    return Links(frozenset(kinds["-"]), frozenset(kinds["p"]))


def to_pharaoh(links: Iterable[Link]) -> str:
    """Write the links of one sentence as ``i-j`` with spaces between, source position first (Pharaoh format).

    Example:
        >>> to_pharaoh([(0, 0), (2, 1), (1, 2)])
        '0-0 2-1 1-2'
    """
    return " ".join(f"{source}-{target}" for source, target in links)


@dataclass(frozen=True)
class GoldPair:
    """A sentence pair with its gold links.

    Attributes:
        source: its words.
        target: its words.
        links: between them, as positions from 0.
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    links: Links


def read_gold(
    path: str | Path, *, sentences: str | Path | Sequence[str | Path] = (), base: Base | None = None
) -> list[GoldPair]:
    """Read sentence pairs and their links.

    Three forms are known. In one file: source, target and links with tabs between. In two: ``source ||| target`` in the
    one, links in the other, line by line. In three: source, target and links, line by line. Sentences are words with
    spaces between; links are as `parse_links` expects them.

    Args:
        path: the file with the links.
        sentences: the file with the sentences, or those of the sources and of the targets; default none.
        base: what the first word is counted as; default what the file shows: a link to 0 can only be counted from 0, a
            link to the length of its sentence only from 1.

    Raises:
        UserError: a file cannot be read, is given twice, or is not as described, the files have not as many lines, or
            the links leave open what they count from.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = Path(folder, "gold.tsv")
        ...     _ = file.write_text("a dog\\tein Hund\\t1-1 2-2\\n")
        ...     pairs = read_gold(file)
        >>> pairs[0].target, sorted(pairs[0].links.sure)
        (('ein', 'Hund'), [(0, 0), (1, 1)])
    """
    texts = [sentences] if isinstance(sentences, str | Path) else sentences
    rows = list(_rows(Path(path), [Path(file) for file in texts]))
    readings = []
    errors = []
    for first in (0, 1) if base is None else (base,):
        try:
            readings.append([_pair(*row, base=first) for row in rows])
        except UserError as error:
            errors.append(error)
    if not readings:
        raise errors[0]
    if readings[0] != readings[-1]:
        raise UserError(f"{path}: the links could count from 0 or from 1; say which with `base`")
    return readings[0]


def spans_by_texts(gold: Iterable[GoldPair]) -> dict[tuple[str, str], tuple[Span, ...]]:
    """Return the links of sentence pairs, the possible ones among them, as ranges of characters by the two texts.

    Example:
        >>> gold = GoldPair(("a", "dog"), ("Hund",), Links(frozenset({(1, 0)})))
        >>> spans_by_texts([gold])["a dog", "Hund"]
        (Span(field='', source=(2, 5), target=(0, 4)),)
    """
    spans = {}
    for pair in gold:
        source, target = map(_word_ranges, (pair.source, pair.target))
        links = sorted(pair.links.possible)
        texts = " ".join(pair.source), " ".join(pair.target)
        spans[texts] = tuple(Span("", source[word], target[other]) for word, other in links)
    return spans


def _word_ranges(words: Sequence[str]) -> list[tuple[int, int]]:
    """Return the range of characters of each word in a text of words with a space between."""
    ends = accumulate(len(word) + 1 for word in words)
    return [(end - 1 - len(word), end - 1) for word, end in zip(words, ends, strict=True)]


def _pair(where: str, source: str, target: str, links: str, *, base: Base) -> GoldPair:
    # Only spaces separate words here: a no-break space may be part of a word.
    words = [tuple(clean_text(word) for word in side.strip().split(" ") if word) for side in (source, target)]
    if not all(words):
        raise UserError(f"{where}: a sentence without a word; leave the pair out, with its links")
    lengths = len(words[0]), len(words[1])
    return GoldPair(words[0], words[1], parse_links(links, base=base, lengths=lengths, where=where))


def _rows(path: Path, sentences: Sequence[Path]) -> Iterator[tuple[str, str, str, str]]:
    """Yield the place, the source, the target and the links of every pair."""
    if len(sentences) > 2:
        raise UserError(f"`sentences`: expected one file, or one of sources and one of targets; got {len(sentences)}")
    refuse_repeats((path, *sentences))
    links = read_text_lines(path)
    sides = [read_text_lines(file) for file in sentences]
    for file, side in zip(sentences, sides, strict=True):
        if len(side) != len(links):
            raise UserError(
                f"{file} has {number_of(len(side), 'line')} and {path} {len(links)}; expected links for each pair"
            )
    for number, line in enumerate(links, 1):
        cells = [*(side[number - 1] for side in sides), line]
        place = f"{path}:{number}"
        if not sentences:
            expected = "source, target and links, with tabs between"
            cells = line.split("\t")
        elif len(sentences) == 1:
            expected = f"source {_BETWEEN} target"
            place = f"{sentences[0]}:{number}"
            cells = [*sides[0][number - 1].split(_BETWEEN), line]
        if len(cells) != 3:
            raise UserError(f"{place}: expected {expected}; got {number_of(len(cells), 'column')}")
        yield f"{path}:{number}", cells[0], cells[1], cells[2]


@dataclass(frozen=True)
class AlignmentCounts:
    r"""What alignments share with gold, added up over sentence pairs.

    .. math:: \text{precision} = \frac{|A \cap P|}{|A|}, \quad \text{recall} = \frac{|A \cap S|}{|S|}, \quad
        \text{AER} = 1 - \frac{|A \cap S| + |A \cap P|}{|A| + |S|}

    (Och and Ney 2003, section 5.2, with sure links S, possible links P that contain them, and links A.)

    Attributes:
        links: :math:`|A|`.
        sure: :math:`|S|`.
        in_sure: :math:`|A \cap S|`.
        in_possible: :math:`|A \cap P|`.

    Example:
        >>> counts = AlignmentCounts(links=3, sure=2, in_sure=1, in_possible=2)
        >>> round(counts.figures["precision"], 3), counts.figures["recall"], round(counts.aer, 3)
        (0.667, 0.5, 0.4)
    """

    links: int = 0
    sure: int = 0
    in_sure: int = 0
    in_possible: int = 0

    def __add__(self, other: "AlignmentCounts") -> "AlignmentCounts":
        return AlignmentCounts(*map(add, astuple(self), astuple(other)))

    @property
    def aer(self) -> float | None:
        """Alignment error rate: 0 is best; None without links on either side.

        Where gold has possible links only, it is 1 minus the precision.
        """
        both = self.links + self.sure
        return 1 - (self.in_sure + self.in_possible) / both if both else None

    @property
    def figures(self) -> dict[str, float | int | None]:
        """Rates and the number of links, as plain JSON values; what cannot be computed is None."""
        precision = self.in_possible / self.links if self.links else None
        recall = self.in_sure / self.sure if self.sure else None
        return {"aer": self.aer, "precision": precision, "recall": recall, "links": self.links}


def count_alignment(alignments: Sequence[AbstractSet[Link]], gold: Sequence[Links]) -> AlignmentCounts:
    """Compare alignments with gold.

    Args:
        alignments: the links of each sentence pair, (source, target) from 0.
        gold: the right ones, in the same order.

    Raises:
        ValueError: not as many sentence pairs on both sides.

    Example:
        >>> gold = [Links(sure=frozenset({(0, 0)}), possible=frozenset({(1, 1)}))]
        >>> count_alignment([{(0, 0), (1, 1)}], gold).aer
        0.0
    """
    total = AlignmentCounts()
    for links, right in zip(alignments, gold, strict=True):
        total += AlignmentCounts(len(links), len(right.sure), len(right.sure & links), len(right.possible & links))
    return total


def diagonal(source_length: int, target_length: int) -> set[Link]:
    """Link each target word to the source word that stands at the same place along the sentence.

    Word j of t has its middle at (j + 1/2) / t, which falls into source word floor((j + 1/2) s / t). No model is asked:
    an alignment that is not better than this one says no more than word order alone would.

    Args:
        source_length: number of source words, s; at least 1 where there are target words.
        target_length: number of target words, t.

    Returns:
        (source, target) from 0, one link for each target word.

    Example:
        >>> sorted(diagonal(2, 4))
        [(0, 0), (0, 1), (1, 2), (1, 3)]
    """
    return {((2 * word + 1) * source_length // (2 * target_length), word) for word in range(target_length)}
