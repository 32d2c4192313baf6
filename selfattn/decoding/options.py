"""How an output is decoded, as one frozen dataclass. Imports no torch, so that the command line can list it at once."""

from dataclasses import dataclass
from typing import Annotated, TypedDict

from annotated_types import Ge, Gt, Le

from selfattn.errors import SettingError
from selfattn.settings import Count, Positive, Seed, check_bounds

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
        selfattn.errors.SettingError: `top_k`: says how to draw; it needs `sample`
    """

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
        check_bounds(self)
        if self.n_best > self.beam:
            raise SettingError(f"`n_best`: {self.n_best} outputs need a beam of that size at least, got {self.beam}")
        if self.length_penalty and self.beam == 1:
            raise SettingError("`length_penalty`: ranks the outputs of a beam; give a beam of 2 or more")
        if self.sample and self.beam > 1:
            raise SettingError("`sample`: draws one output, a beam searches the best; give one of them")
        if not self.sample:
            for name, default in (("temperature", 1.0), ("top_k", None), ("top_p", None), ("seed", 0)):
                if getattr(self, name) != default:
                    raise SettingError(f"`{name}`: says how to draw; it needs `sample`")


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
