"""How much of a test was in the training already: what is there cannot show what was learned."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from selfattn.data.pairs import Pair
from selfattn.results.gates import Gate


def overlap(train: Iterable[Pair], test: Sequence[Pair], *, limit: float = 0.01) -> Gate:
    """Hold the share of test sources that training shows too, case ignored and repeats counted, against a limit.

    Known targets are told in the reason but fail nothing: different questions may have one answer, and where few
    different targets exist most may be known.

    Args:
        train: all training pairs, in any order; gone through once and not kept, so they may be more than memory holds.
        test: at least one pair.
        limit: the largest share allowed; default 0.01 (real corpora repeat short sentences).

    Raises:
        ValueError: no test pair.

    Example:
        >>> train = [Pair("May 1", "05-01"), Pair("june 2", "06-02")]
        >>> gate = overlap(train, [Pair("May 1", "05-01"), Pair("JUNE 2", "06-02"), Pair("July 3", "06-02")])
        >>> gate.passed, round(gate.value, 3)
        (False, 0.667)
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
    exact = sum(pair.source in known_sources for pair in test)
    casefolded = sum(pair.source.casefold() in known_folded for pair in test)
    found = (
        f"of {len(test):,} test sources {exact:,} are in the training data word for word, {casefolded:,} when case is "
        f"ignored; of the targets {sum(pair.target in known_targets for pair in test):,}"
    )
    share = casefolded / len(test)
    return Gate("overlap", share <= limit, found, value=share, limit=limit)
