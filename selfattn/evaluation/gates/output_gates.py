"""Gates on what a model wrote: does it come to an end, does it say one thing only, is it as good as others reached?"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from selfattn.results.gates import Baseline, Gate
from selfattn.results.quality import Better

NGRAM = 4
_Output = Sequence[Hashable]  # token ids, or the characters of a text


def output_gates(
    outputs: Sequence[_Output], targets: Sequence[_Output], finished: Sequence[bool] | None = None
) -> list[Gate]:
    """Ask all questions that need nothing but outputs and targets.

    Args:
        outputs: what the model wrote, as token ids or texts.
        targets: what is right, likewise.
        finished: whether each output came to its ``<eos>``; None where that is not known.

    Raises:
        ValueError: no outputs, or not as many targets.

    Example:
        >>> [gate.passed for gate in output_gates(["2008-11-13", "1999-01-02"], ["2008-11-13", "1999-02-01"])]
        [True, True]
    """
    ended = [] if finished is None else [endings(finished)]
    return [*ended, repetition(outputs, targets), variety(outputs, targets)]


def endings(finished: Sequence[bool], *, limit: float = 0.95) -> Gate:
    """Ask how many outputs come to an end by themselves, rather than being cut off at the longest length allowed.

    Args:
        finished: for each output whether it ends with ``<eos>``.
        limit: the share that has to; default 0.95.

    Raises:
        ValueError: no outputs.

    Example:
        >>> endings([True, True, False, True]).value
        0.75
    """
    if not finished:
        raise ValueError("the gate on endings needs at least one output")
    share = sum(finished) / len(finished)
    found = f"{sum(finished):,} of {len(finished):,} outputs end by themselves, at least {limit:.0%} should"
    return Gate("endings", share >= limit, found, value=share, limit=limit)


def repetition_rate(texts: Sequence[_Output], n: int = NGRAM) -> float:
    r"""Mean share of n-grams that their own text has had before (seq-rep-n; Welleck et al. 2020, section 6.1).

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
    """Ask whether outputs go round in circles more than right answers do.

    Args:
        outputs: what the model wrote.
        targets: what is right.
        above: by how much the rate of the outputs may exceed that of the targets; default 0.1.

    Raises:
        ValueError: no outputs, or not as many targets.

    Example:
        >>> repetition(["1111111111"], ["2008-11-13"]).passed
        False
    """
    _check(outputs, targets)
    rate, usual = repetition_rate(outputs), repetition_rate(targets)
    found = f"{rate:.1%} of the {NGRAM}-grams of an output repeat in it, of a target {usual:.1%}"
    return Gate("repetition", rate <= usual + above, found, value=rate, limit=usual + above)


def variety(outputs: Sequence[_Output], targets: Sequence[_Output], *, limit: float = 0.1) -> Gate:
    """Ask whether different inputs get different answers.

    Args:
        outputs: what the model wrote.
        targets: what is right.
        limit: how many different outputs there must be for each different target; default 0.1.

    Raises:
        ValueError: no outputs, or not as many targets.

    Example:
        >>> variety(["a"] * 20, [str(number) for number in range(20)]).value
        0.05
    """
    _check(outputs, targets)
    different, expected = (len({tuple(text) for text in texts}) for texts in (outputs, targets))
    found = f"{different:,} different outputs where there are {expected:,} different targets"
    return Gate("variety", different / expected >= limit, found, value=different / expected, limit=limit)


def baseline_gate(
    baseline: Baseline, value: float, *, better: Better = "higher", examples: int = 0, distinct: int = 0
) -> Gate | None:
    """Ask whether a model gets near what others reached: a broken training is no evidence.

    A model that was trained on less may well be worse, and is not asked: not after a quick run, nor where the point is
    to learn from few examples.

    Args:
        baseline: what is expected.
        value: of the metric that the baseline names.
        better: which of two values is the better one; default the higher.
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
    passed, bound = (value >= baseline.value, "least") if better == "higher" else (value <= baseline.value, "most")
    found = f"{baseline.metric} {value:.4g}{after}, at {bound} {baseline.value:.4g} expected ({baseline.source})"
    return Gate("published baseline", passed, found, value=value, limit=baseline.value)


def _check(outputs: Sequence[_Output], targets: Sequence[_Output]) -> None:
    if not outputs or len(outputs) != len(targets):
        raise ValueError(f"expected as many outputs as targets, at least one; got {len(outputs)} and {len(targets)}")
