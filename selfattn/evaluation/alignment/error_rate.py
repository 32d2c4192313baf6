"""Word alignments against gold: error rate, precision, recall; and one alignment out of two directions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import astuple, dataclass
from operator import add
from typing import Literal, get_args

from selfattn.decoding.alignment import Link
from selfattn.evaluation.alignment.links import Links

Method = Literal["intersection", "union", "grow-diag", "grow-diag-final", "grow-diag-final-and"]

_NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


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
        >>> round(counts.precision, 3), counts.recall, round(counts.aer, 3)
        (0.667, 0.5, 0.4)
    """

    links: int = 0
    sure: int = 0
    in_sure: int = 0
    in_possible: int = 0

    def __add__(self, other: AlignmentCounts) -> AlignmentCounts:
        return AlignmentCounts(*map(add, astuple(self), astuple(other)))

    @property
    def precision(self) -> float | None:
        """Share of the links that are possible; None without links."""
        return self.in_possible / self.links if self.links else None

    @property
    def recall(self) -> float | None:
        """Share of the sure links that were found; None where gold has none."""
        return self.in_sure / self.sure if self.sure else None

    @property
    def aer(self) -> float | None:
        """Alignment error rate: 0 is best; None without links on either side.

        Where gold has possible links only, it is 1 minus the precision.
        """
        both = self.links + self.sure
        return 1 - (self.in_sure + self.in_possible) / both if both else None


def count_alignment(alignments: Sequence[AbstractSet[Link]], gold: Sequence[Links]) -> AlignmentCounts:
    """Compare alignments with gold.

    Args:
        found: the links of each sentence pair, (source, target) from 0.
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
        total += AlignmentCounts(
            len(links), len(right.sure), len(right.sure.intersection(links)), len(right.possible.intersection(links))
        )
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


def symmetrise(forward: AbstractSet[Link], backward: AbstractSet[Link], method: Method) -> set[Link]:
    """Make one alignment out of those of two directions (Och and Ney 2003, section 4; Koehn et al. 2003, section 4).

    ``grow-diag`` starts from the intersection and adds links of the union that lie next to one it has, diagonally
    too, and give a word of either side its first link. ``final`` then goes through the links of the forward and after
    them of the backward alignment and adds those that give a word its first link; ``final-and`` only where that is so
    on both sides.

    Args:
        forward: links of one direction, as (source, target).
        backward: links of the other direction, also as (source, target).
        method: ``"intersection"``, ``"union"``, ``"grow-diag"``, ``"grow-diag-final"`` or ``"grow-diag-final-and"``.

    Raises:
        ValueError: the method is unknown.

    Example:
        >>> forward, backward = {(0, 0), (1, 1), (3, 3)}, {(0, 0), (1, 0), (2, 2)}
        >>> sorted(symmetrise(forward, backward, "grow-diag"))
        [(0, 0), (1, 0), (1, 1), (2, 2), (3, 3)]
    """
    if method not in get_args(Method):
        raise ValueError(f"unknown method {method!r}; known: {', '.join(get_args(Method))}")
    links, union = {*forward} & {*backward}, {*forward} | {*backward}
    if method in ("intersection", "union"):
        return links if method == "intersection" else union
    sources, targets = ({link[side] for link in links} for side in (0, 1))

    def add_new(some: Iterable[Link], *, both: bool = False) -> None:
        """Add those that give a word of one side (or of both) its first link."""
        for source, target in some:
            is_new = source not in sources, target not in targets
            if all(is_new) if both else any(is_new):
                links.add((source, target))
                sources.add(source)
                targets.add(target)

    before = -1
    while len(links) > before:  # neighbours from the union until there are none, in the order of positions: it decides
        before = len(links)
        for source, target in sorted(union):
            if (source, target) in links:  # perhaps only since a moment ago
                near = [(source + down, target + right) for down, right in _NEIGHBOURS]
                add_new(link for link in near if link in union)
    for some in (forward, backward) if method != "grow-diag" else ():
        add_new(sorted(some), both=method == "grow-diag-final-and")
    return links
