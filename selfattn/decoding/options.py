"""How an output is decoded, as one frozen dataclass. Imports no torch, so that the command line can list it at once."""

from dataclasses import dataclass
from functools import partial

from selfattn.errors import SettingError
from selfattn.settings import check

LARGEST_PENALTY = 10
"""Largest exponent of a length penalty; beyond it the powers of lengths overflow."""

_MOST, _MOST_HYPOTHESES = 2**31, 1000


@dataclass(frozen=True, kw_only=True)
class DecodingOptions:
    """How an output is decoded: greedily, by beam search, or by sampling.

    Attributes:
        beam: Beam size. 1: greedy decoding.
        length_penalty: Exponent of the beam's length penalty (Wu et al. 2016). 0: none.
        n_best: Outputs per input, with line number, score and state. At most the beam size.
        sample: Sample tokens instead of searching.
        temperature: Divisor of the logits before sampling.
        top_k: Sample from the k most probable tokens. Default: all.
        top_p: Sample from the fewest tokens whose probabilities sum to p. Default: all.
        seed: Seed of the sampling. Each input has its own random stream.
        max_length: Longest output, in tokens, with the end token. Default: as in training.

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

    beam: int = 1
    length_penalty: float = 0.0
    n_best: int = 1
    sample: bool = False
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    seed: int = 0
    max_length: int | None = None

    def __post_init__(self) -> None:
        fits = partial(check, self)
        fits("beam n_best top_k max_length", int, lambda x: x >= 1, "a whole number of at least 1")
        fits("beam n_best", int, lambda x: x <= _MOST_HYPOTHESES, f"at most {_MOST_HYPOTHESES}")
        fits("top_k max_length", int, lambda x: x <= _MOST, f"at most {_MOST}")
        fits("temperature", float, lambda x: x > 0, "a number above 0 (greedy decoding is the limit at 0)")
        fits("top_p", float, lambda x: 0 < x <= 1, "a share in (0, 1]")
        limits = f"a number from -{LARGEST_PENALTY} to {LARGEST_PENALTY}"
        fits("length_penalty", float, lambda x: abs(x) <= LARGEST_PENALTY, limits)
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


GREEDY, SAMPLED = DecodingOptions(), DecodingOptions(sample=True)
