"""Gates on test data and outputs: overlap with training, endings, repetition, variety, published baselines."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

from selfattn.data.pairs import Pair
from selfattn.results.gates import Baseline, Gate
from selfattn.results.quality import Better

NGRAM = 4
_Output = Sequence[Hashable]  # token ids, or the characters of a text


def overlap(train: Iterable[Pair], test: Sequence[Pair], *, limit: float = 0.01) -> Gate:
    """Check how many test sources training contains too, ignoring case.

    Known targets are counted in the reason but fail nothing: different questions may have the same answer, and where
    few different targets exist most may be known.

    Args:
        train: all training pairs, in any order; read once and not kept, so there may be more than memory holds.
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
    texts = [[pair.source for pair in test], [pair.source.casefold() for pair in test], [pair.target for pair in test]]
    wanted = [set(side) for side in texts]
    known: list[set[str]] = [set(), set(), set()]
    for pair in train:
        for text, some, seen in zip((pair.source, pair.source.casefold(), pair.target), wanted, known, strict=True):
            if text in some:
                seen.add(text)
    exact, casefolded, targets = (sum(text in seen for text in side) for side, seen in zip(texts, known, strict=True))
    reason = (
        f"of {len(test):,} test sources {exact:,} are in the training data word for word, {casefolded:,} when case is "
        f"ignored; of the targets {targets:,}"
    )
    return _at_most("overlap", casefolded / len(test), limit, reason)


def output_gates(outputs: Sequence[_Output], targets: Sequence[_Output], finished: Sequence[bool]) -> list[Gate]:
    """Check outputs: do they end, do they repeat themselves, do they differ?

    Args:
        outputs: what the model wrote, as token ids or texts.
        targets: the right ones, in the same form.
        finished: whether each output ends with ``<eos>``.

    Raises:
        ValueError: no outputs, or not as many targets.

    Example:
        >>> outputs = ["2008-11-13", "1999-01-02"]
        >>> [gate.passed for gate in output_gates(outputs, ["2008-11-13", "1999-02-01"], [True, True])]
        [True, True, True]
    """
    return [endings(finished), repetition(outputs, targets), variety(outputs, targets)]


def endings(finished: Sequence[bool], *, limit: float = 0.95) -> Gate:
    """Check how many outputs end by themselves, rather than being cut off at the longest length allowed.

    Args:
        finished: for each output whether it ends with ``<eos>``.
        limit: the smallest share allowed; default 0.95.

    Raises:
        ValueError: no outputs.

    Example:
        >>> endings([True, True, False, True]).value
        0.75
    """
    if not finished:
        raise ValueError("the gate on endings needs at least one output")
    reason = f"{sum(finished):,} of {len(finished):,} outputs end by themselves, at least {limit:.0%} should"
    return _at_least("endings", sum(finished) / len(finished), limit, reason)


def repetition_rate(texts: Sequence[_Output], n: int = NGRAM) -> float:
    r"""Return the mean share of n-grams that occurred before in their own text (seq-rep-n; Welleck et al. 2020, 6.1).

    .. math:: 1 - \frac{\text{different n-grams}}{\text{n-grams}}

    Args:
        texts: token ids or characters; a text of fewer than ``n`` counts as 0.
        n: default 4.

    Returns:
        0 for no texts.

    Example:
        >>> repetition_rate(["2008-11-13"]), round(repetition_rate(["0000000000"]), 3)
        (0.0, 0.857)
    """
    rates = []
    for text in texts:
        grams = [tuple(text[start : start + n]) for start in range(len(text) - n + 1)]
        rates.append(1 - len(set(grams)) / len(grams) if grams else 0.0)
    return sum(rates) / len(rates) if rates else 0.0


def repetition(outputs: Sequence[_Output], targets: Sequence[_Output], *, above: float = 0.1) -> Gate:
    """Check whether outputs repeat themselves more than right answers do.

    Args:
        outputs: what the model wrote.
        targets: the right ones.
        above: by how much the rate of the outputs may exceed that of the targets; default 0.1.

    Raises:
        ValueError: no outputs, or not as many targets.

    Example:
        >>> repetition(["1111111111"], ["2008-11-13"]).passed
        False
    """
    _check(outputs, targets)
    rate, usual = repetition_rate(outputs), repetition_rate(targets)
    reason = f"{rate:.1%} of the {NGRAM}-grams of an output repeat in it, of a target {usual:.1%}"
    return _at_most("repetition", rate, usual + above, reason)


def variety(outputs: Sequence[_Output], targets: Sequence[_Output], *, limit: float = 0.1) -> Gate:
    """Check whether different inputs get different answers; a model that gives few has learned little.

    Args:
        outputs: what the model wrote.
        targets: the right ones.
        limit: the smallest number of different outputs for each different target; default 0.1.

    Raises:
        ValueError: no outputs, or not as many targets.

    Example:
        >>> variety(["a"] * 20, [str(number) for number in range(20)]).value
        0.05
    """
    _check(outputs, targets)
    different, expected = (len({tuple(text) for text in texts}) for texts in (outputs, targets))
    reason = f"{different:,} different outputs where there are {expected:,} different targets"
    return _at_least("variety", different / expected, limit, reason)


def baseline_gate(
    baseline: Baseline, value: float, *, better: Better = "higher", examples: int = 0, distinct: int = 0
) -> Gate | None:
    """Check whether a model comes near what others reached: a broken training is no evidence.

    A model that was trained on less may well be worse, and is not checked: not after a quick run, nor where it learns
    from few examples.

    Args:
        baseline: what is expected.
        value: of the metric that the baseline names.
        better: whether higher or lower values are better; default higher.
        examples: training pairs that the model saw, repetitions counted.
        distinct: how many of them were different.

    Returns:
        None where the model was trained on less.

    Example:
        >>> baseline_gate(Baseline("bleu", 38.0, "Smith 2026: 41.2"), 12.5).reason
        'bleu 12.5, at least 38 expected (Smith 2026: 41.2)'
        >>> baseline_gate(Baseline("bleu", 38.0, "Smith 2026: 41.2", examples=29_000), 12.5, examples=1_000) is None
        True
    """
    if examples < baseline.examples or distinct < baseline.distinct:
        return None
    after = f" after {examples:,} training pairs" if baseline.examples else ""
    bound, compare = ("least", _at_least) if better == "higher" else ("most", _at_most)
    reason = f"{baseline.metric} {value:.4g}{after}, at {bound} {baseline.value:.4g} expected ({baseline.source})"
    return compare("published baseline", value, baseline.value, reason)


def _at_least(name: str, value: float, limit: float, reason: str) -> Gate:
    return Gate(name, value >= limit, reason, value=value, limit=limit)


def _at_most(name: str, value: float, limit: float, reason: str) -> Gate:
    return Gate(name, value <= limit, reason, value=value, limit=limit)


def _check(outputs: Sequence[_Output], targets: Sequence[_Output]) -> None:
    if not outputs or len(outputs) != len(targets):
        raise ValueError(f"expected as many outputs as targets, at least one; got {len(outputs)} and {len(targets)}")
