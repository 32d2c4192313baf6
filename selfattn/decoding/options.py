"""How an output is decoded, what decoding gives, and what another program offers that decodes by itself.

Imports no torch, so that the command line can list the options at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Protocol, TypedDict, runtime_checkable

from annotated_types import Ge, Gt, Le

from selfattn.settings import Condition, Count, Positive, Seed, check_options, excludes, needs

if TYPE_CHECKING:
    from selfattn.data.pairs import Example

LARGEST_PENALTY = 10
"""Largest exponent of a length penalty; beyond it the powers of lengths overflow."""

_MOST_HYPOTHESES = 1000


@dataclass(frozen=True, kw_only=True)
class DecodingOptions:
    """How an output is decoded: greedily, by beam search, or by sampling.

    Attributes:
        beam: Beam size. 1: greedy decoding.
        length_penalty: Exponent of the beam's length penalty (Wu et al. 2016). 0: none.
        n_best: Outputs per input, with line number, score and state. At most the beam size.
        sample: Sample tokens instead of searching.
        temperature: Divisor of the logits before sampling. Near 0: greedy decoding.
        top_k: Sample from the k most probable tokens. Default: all.
        top_p: Sample from the fewest tokens whose probabilities sum to p. Default: all.
        seed: Seed of the sampling. Each input has its own random stream.
        max_length: Longest output, in tokens, with the end token. Default: twice that of training, or more for longer
            inputs.
        no_repeat_ngram: Length n of token sequences that may not come twice in an output. Default: they may.

    Raises:
        SettingError: a value is out of its range, or two of them do not go together.

    Example:
        >>> DecodingOptions(beam=5, n_best=3).n_best
        3
        >>> DecodingOptions(top_k=5)
        Traceback (most recent call last):
        ...
        selfattn.settings.NoEffectError: `top_k` goes with `sample`: give that as well, or leave it out
    """

    conditions: ClassVar[tuple[Condition, ...]] = (
        excludes("`sample`", lambda options: options.sample, "beam"),
        needs("a `beam` of at least that size", lambda options: options.beam >= options.n_best, "n_best"),
        needs("a `beam` of 2 or more", lambda options: options.beam > 1, "length_penalty"),
        needs("`sample`", lambda options: options.sample, "temperature", "top_k", "top_p", "seed"),
    )

    beam: Annotated[int, Ge(1), Le(_MOST_HYPOTHESES)] = 1
    length_penalty: Annotated[float, Ge(-LARGEST_PENALTY), Le(LARGEST_PENALTY)] = 0.0
    n_best: Annotated[int, Ge(1), Le(_MOST_HYPOTHESES)] = 1
    sample: bool = False
    temperature: Positive = 1.0
    top_k: Count | None = None
    top_p: Annotated[float, Gt(0), Le(1)] | None = None
    seed: Seed = 0
    max_length: Count | None = None
    no_repeat_ngram: Count | None = None

    def __post_init__(self) -> None:
        check_options(self)


class DecodingSettings(TypedDict, total=False):
    """Fields of :class:`DecodingOptions`, as keyword arguments."""

    beam: int
    length_penalty: float
    n_best: int
    sample: bool
    temperature: float
    top_k: int | None
    top_p: float | None
    seed: int
    max_length: int | None
    no_repeat_ngram: int | None


GREEDY = DecodingOptions()
SAMPLED = DecodingOptions(sample=True)


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
        log_probability: natural, of the whole output and its end; None as above.
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

    def score_tokens(self, examples: "Sequence[Example]") -> list[list[float]]:
        """Score the tokens of every target, as :func:`selfattn.decoding.scoring.score_tokens` does."""
