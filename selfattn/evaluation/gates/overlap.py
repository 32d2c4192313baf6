"""How much of a test was in the training already: what is there cannot show what was learned."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from selfattn.data.pairs import Pair
from selfattn.figures.gates import Gate


@dataclass(frozen=True)
class Overlap:
    """Test pairs that training shows too, counted with their repeats.

    Attributes:
        items: test pairs.
        exact: those whose source is a training source, character by character.
        casefolded: those whose source is one when case is ignored; the exact ones are among them.
        targets: those whose target is a training target; where few different targets exist that may be most.
    """

    items: int
    exact: int
    casefolded: int
    targets: int

    def gate(self, *, limit: float = 0.01) -> Gate:
        """Hold the share of known sources, case ignored, against a limit.

        Known targets are told in the reason but fail nothing: different questions may have one answer.

        Args:
            limit: the largest share allowed; default 0.01 (real corpora repeat short sentences).

        Example:
            >>> Overlap(items=200, exact=1, casefolded=2, targets=50).gate().passed
            True
        """
        share = self.casefolded / self.items
        found = (
            f"of {self.items:,} test sources {self.exact:,} are in the training data word for word, "
            f"{self.casefolded:,} when case is ignored; of the targets {self.targets:,}"
        )
        return Gate("overlap", share <= limit, found, value=share, limit=limit)


def overlap(train: Iterable[Pair], test: Sequence[Pair]) -> Overlap:
    """Count test pairs that training shows too.

    Args:
        train: all training pairs, in any order; gone through once and not kept, so they may be more than memory holds.
        test: at least one pair.

    Raises:
        ValueError: no test pair.

    Example:
        >>> train = [Pair("May 1", "05-01"), Pair("june 2", "06-02")]
        >>> overlap(train, [Pair("May 1", "05-01"), Pair("JUNE 2", "06-02"), Pair("July 3", "06-02")])
        Overlap(items=3, exact=1, casefolded=2, targets=3)
    """
    if not test:
        raise ValueError("overlap needs at least one test pair")
    sources, folded = {pair.source for pair in test}, {pair.source.casefold() for pair in test}
    targets = {pair.target for pair in test}
    known_sources: set[str] = set()
    known_folded: set[str] = set()
    known_targets: set[str] = set()
    for pair in train:
        if pair.source in sources:
            known_sources.add(pair.source)
        if (source := pair.source.casefold()) in folded:
            known_folded.add(source)
        if pair.target in targets:
            known_targets.add(pair.target)
    return Overlap(
        items=len(test),
        exact=sum(pair.source in known_sources for pair in test),
        casefolded=sum(pair.source.casefold() in known_folded for pair in test),
        targets=sum(pair.target in known_targets for pair in test),
    )
