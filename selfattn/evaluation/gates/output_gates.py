"""Gates on what a model wrote: does it come to an end, does it say one thing only, is it as good as others reached?"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from selfattn.evaluation.gates.model_gates import Gate
from selfattn.models.config import ModelConfig

NGRAM = 4
Output = Sequence[Hashable]  # token ids, or the characters of a text


def output_gates(
    outputs: Sequence[Output], targets: Sequence[Output], finished: Sequence[bool] | None = None
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
    return Gate("endings", share >= limit, share, limit, found)


def repetition_rate(texts: Sequence[Output], n: int = NGRAM) -> float:
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


def repetition(outputs: Sequence[Output], targets: Sequence[Output], *, above: float = 0.1) -> Gate:
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
    return Gate("repetition", rate <= usual + above, rate, usual + above, found)


def variety(outputs: Sequence[Output], targets: Sequence[Output], *, limit: float = 0.1) -> Gate:
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
    return Gate("variety", different / expected >= limit, different / expected, limit, found)


@dataclass(frozen=True)
class Published:
    """What others reached, and how much training it took them.

    Attributes:
        metric: its name in the record.
        value: what was published.
        floor: below this something is broken, not merely worse.
        source: who published it, on what.
        examples: training pairs that the published system saw, repetitions counted.
        distinct: how many of them were different.
    """

    metric: str
    value: float
    floor: float
    source: str
    examples: int
    distinct: int


# Three passes through nine tenths of the book's 50,000 pairs; later passes bring it to 1.
_BOOK = "Saito 2018, section 8.2: an RNN with attention after 3 passes through the book's dates"
PUBLISHED: dict[tuple[str, str], Published] = {
    ("dates", "rnn with attention"): Published("exact_match", 0.999, 0.95, _BOOK, 135_000, 45_000),
    # What an RNN learns from these pairs, a Transformer must learn from as many.
    ("dates", "transformer"): Published("exact_match", 0.999, 0.95, _BOOK, 135_000, 45_000),
}


def published_floor(task: str, config: ModelConfig, value: float, *, examples: int, distinct: int) -> Gate | None:
    """Ask whether a model of its kind gets near what others published: a broken training is no evidence.

    A model that was trained on less than the published one may well be worse, and is not asked: not after a quick
    run, nor where the point is to learn from few examples.

    Args:
        task: as in :data:`PUBLISHED`. ``dates`` are English dates, the book's or the embedded ones of ``en_US``; with
            other locales the task is another.
        config: of the model; its ``architecture`` decides what it is compared with.
        value: of the metric that :data:`PUBLISHED` names.
        examples: training pairs that the model saw, repetitions counted.
        distinct: how many of them were different.

    Returns:
        None where nothing is published for the task and kind, or the model was trained on less.

    Example:
        >>> from selfattn.models.presets import PRESETS
        >>> published_floor("dates", PRESETS["transformer"].config, 0.61, examples=480_000, distinct=480_000).passed
        False
        >>> published_floor("dates", PRESETS["transformer"].config, 0.61, examples=480_000, distinct=1_000) is None
        True
        >>> published_floor("dates", PRESETS["rnn-plain"].config, 0.61, examples=480_000, distinct=480_000) is None
        True
    """
    published = PUBLISHED.get((task, config.architecture))
    if published is None or examples < published.examples or distinct < published.distinct:
        return None
    found = (
        f"{published.metric} {value:.4g} after {examples:,} training pairs, at least {published.floor:.4g} expected: "
        f"published is {published.value:.4g} after {published.examples:,} ({published.source})"
    )
    return Gate("published floor", value >= published.floor, value, published.floor, found)


@dataclass(frozen=True)
class Floor:
    """What a user knows that others reached on the same data; no program can tell that from the data.

    Attributes:
        metric: its name in the record; more is better.
        value: below this something is broken, not merely worse.
        source: who reached what, on what.

    Example:
        >>> Floor("bleu", 38.0, "Smith 2026: 41.2").gate(12.5).reason
        'bleu 12.5, at least 38 expected (Smith 2026: 41.2)'
    """

    metric: str
    value: float
    source: str

    def gate(self, value: float) -> Gate:
        """Ask whether a run gets there.

        Args:
            value: of the metric.
        """
        found = f"{self.metric} {value:.4g}, at least {self.value:.4g} expected ({self.source})"
        return Gate("published floor", value >= self.value, value, self.value, found)


def _check(outputs: Sequence[Output], targets: Sequence[Output]) -> None:
    if not outputs or len(outputs) != len(targets):
        raise ValueError(f"expected as many outputs as targets, at least one; got {len(outputs)} and {len(targets)}")
