"""What the ways of decoding hand back."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Hypotheses:
    """One target for each source, in the order of the sources.

    Attributes:
        ids: the target's tokens, without ``<bos>`` and ``<eos>``.
        scores: summed natural log-probability of those tokens and, where there is one, of the ``<eos>`` behind them.
        finished: whether the target ends with ``<eos>``; otherwise it was cut off at the longest length allowed.
    """

    ids: list[list[int]]
    scores: list[float]
    finished: list[bool]


@dataclass(frozen=True)
class Hypothesis:
    """One target among several for the same source.

    Attributes:
        ids: its tokens, without ``<bos>`` and ``<eos>``.
        log_probability: summed, natural, of those tokens and, where there is one, of the ``<eos>`` behind them.
        score: the log-probability divided by the length penalty; what the search ranks by.
        finished: whether it ends with ``<eos>``; otherwise it was cut off at the longest length allowed.
    """

    ids: list[int]
    log_probability: float
    score: float
    finished: bool


@dataclass(frozen=True)
class NBest:
    """Several targets for each source.

    Attributes:
        sentences: for each source, in their order, its hypotheses, the best first. Finished ones come before those
            that were cut off, whatever their scores; there are fewer than asked for only where fewer exist.

    Example:
        >>> first, second = Hypothesis([5, 7], -0.25, -0.25, True), Hypothesis([5], -1.5, -1.5, True)
        >>> NBest([[first, second]]).best()
        Hypotheses(ids=[[5, 7]], scores=[-0.25], finished=[True])
    """

    sentences: list[list[Hypothesis]]

    def best(self) -> Hypotheses:
        """Return the first hypothesis of each sentence; its score there is the log-probability."""
        first = [hypotheses[0] for hypotheses in self.sentences]
        return Hypotheses(
            [hypothesis.ids for hypothesis in first],
            [hypothesis.log_probability for hypothesis in first],
            [hypothesis.finished for hypothesis in first],
        )
