"""What decoding gives, and what another program offers that decodes by itself. Imports no torch."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from selfattn.data.pairs import Example
from selfattn.decoding.options import DecodingOptions


@dataclass(frozen=True)
class Hypothesis:
    """One target for a source.

    Attributes:
        ids: its tokens, without ``<bos>`` and ``<eos>``.
        log_probability: summed, natural, of those tokens and, where there is one, of the ``<eos>`` behind them.
        score: the log-probability divided by the length penalty; what a search ranks by. Without one, the same.
        finished: whether it ends with ``<eos>``; otherwise it was cut off at the longest length allowed.
    """

    ids: list[int]
    log_probability: float
    score: float
    finished: bool


@dataclass(frozen=True)
class Output:
    """One output for an input.

    Attributes:
        text: what it says.
        score: the log-probability over the length penalty. Finished outputs are ranked by it, and after them those
            that were cut off, whatever their scores. None where nothing was decoded: the input is empty or refused.
        log_probability: natural, of the whole output and its end; None likewise.
        finished: whether the model ended it; otherwise it was cut off at the longest length allowed.
        ids: the tokens that the model wrote, without its end.
    """

    text: str
    score: float | None
    log_probability: float | None
    finished: bool
    ids: tuple[int, ...] = ()


NOTHING = Output("", None, None, True)
"""The output for an input with nothing in it, or that is refused: empty, and without a score."""


@runtime_checkable
class OwnSearch(Protocol):
    """A model that decodes by itself, such as one of another program that gives no steps."""

    def hypotheses(
        self,
        sources: Sequence[list[int]],
        options: DecodingOptions,
        limits: Sequence[int],
        prefixes: Sequence[Sequence[int]] = (),
        *,
        scored: bool = True,
    ) -> list[list[Hypothesis]]:
        """Decode every source, as :func:`selfattn.decoding.sources.decode_sources` does."""


@runtime_checkable
class ScoresTargets(Protocol):
    """A model that scores given targets by itself, such as one of another program that gives no steps."""

    def score_tokens(self, examples: Sequence[Example]) -> list[list[float]]:
        """Score the tokens of every target, as :func:`selfattn.decoding.scoring.score_tokens` does."""
