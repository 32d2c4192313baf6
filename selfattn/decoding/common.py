"""What all ways of decoding share: checked inputs, batches of similar length, the penalty of lengths."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor, nn

from selfattn.data.batches import Batch, batches
from selfattn.data.pairs import Example
from selfattn.errors import DivergedError
from selfattn.models.protocol import Seq2Seq
from selfattn.training.distributed import Processes

M = TypeVar("M", bound=nn.Module)
T = TypeVar("T")


@dataclass(frozen=True)
class LengthPenalty:
    r"""What a hypothesis' log-probability is divided by, as a function of its length.

    .. math:: lp(n) = \left(\frac{o + n}{o + 1}\right)^\alpha

    With the offset 5 this is equation 14 of Wu et al. 2016, "Google's Neural Machine Translation System"; with the
    offset 0 it is :math:`n^\alpha`, as in ``transformers`` and fairseq. ``n`` counts tokens, ``<eos>`` among them.

    Args:
        alpha: 0 is no penalty, the search for the most probable target; the larger, the longer the targets; 0.6 with
            the offset 5 is Vaswani et al. 2017's (section 6.1). Below 0 it favours short ones.
        offset: from 0, default 5.

    Example:
        >>> LengthPenalty(1.0)(7), LengthPenalty(1.0, offset=0)(7), LengthPenalty(0.0)(7)
        (2.0, 7.0, 1.0)
    """

    alpha: float
    offset: float = 5.0

    def __call__(self, length: int) -> float:
        """Return the divisor for a length of at least 1."""
        return float(((self.offset + length) / (self.offset + 1)) ** self.alpha)


NO_PENALTY = LengthPenalty(0.0)


def check_number(log_probability: float) -> None:
    """Make sure that a log-probability is a number.

    Raises:
        DivergedError: it is NaN: logits overflowed.
    """
    if math.isnan(log_probability):
        raise DivergedError("the weights of this model overflow on this input: its probabilities are NaN; train again")


def in_batches(
    model: Seq2Seq,
    examples: Sequence[Example],
    compute: Callable[[Batch, list[int]], Sequence[T]],
    *,
    batch_size: int,
    max_tokens: int,
    processes: Processes | None = None,
) -> list[T]:
    """Compute something of each example, in batches of like length, which changes nothing but the time that they take.

    Args:
        model: on whose device the batches are to be.
        examples: sources and targets as ids.
        compute: given a batch and the places of its rows among the examples, returns a value for each row.
        batch_size: most examples in a batch, at least 1.
        max_tokens: most tokens in a batch, at least 1: long texts go in smaller ones, so that memory stays bounded.
        processes: those that share the batches out, each with the same model; default this one alone.

    Returns:
        The values, in the order of the examples.

    Raises:
        Stopped: a stop was requested, see :mod:`selfattn.interrupts`.

    Example:
        >>> from selfattn.models.build import build
        >>> from selfattn.models.presets import PRESETS
        >>> model = build(PRESETS["transformer"].config, vocab_size=7, pad_id=0, seed=0)
        >>> examples = [Example([4, 5, 2], [2]), Example([4, 2], [2]), Example([6, 2], [2])]
        >>> in_batches(model, examples, lambda batch, places: [places] * len(places), batch_size=2, max_tokens=100)
        [[0], [1, 2], [1, 2]]
    """
    order = sorted(range(len(examples)), key=lambda place: (len(examples[place].source), len(examples[place].target)))
    cut = batches([examples[place] for place in order], batch_size=batch_size, max_tokens=max_tokens)
    processes = processes or Processes()
    computed: list[tuple[list[int], Sequence[T]]] = []
    with processes.stopping_together():
        for batch in processes.share_of(cut):
            places = [order[place] for place in batch.indices]
            computed.append((places, compute(batch.to(model.device), places)))
    by_place: dict[int, T] = {}
    for places, values in processes.joined(computed):
        by_place |= dict(zip(places, values, strict=True))
    return [by_place[place] for place in range(len(examples))]


def length_limits(source: Tensor, source_mask: Tensor, max_length: int | Sequence[int]) -> list[int]:
    """Check a batch of sources, and return the longest length allowed for each.

    Args:
        source: ids ``[b s]``, int64, at least one row.
        source_mask: bool ``[b s]``.
        max_length: one number, or one for each source; at least 1.

    Raises:
        ValueError: one of them is something else.

    Example:
        >>> source = torch.tensor([[5, 2], [6, 2]])
        >>> length_limits(source, source > 0, 7), length_limits(source, source > 0, [5, 3])
        ([7, 7], [5, 3])
    """
    is_batch = source.dim() == 2 and source.dtype == torch.int64 and len(source) > 0
    if not is_batch or source_mask.dtype != torch.bool or source_mask.shape != source.shape:
        kinds = ", ".join(f"{tensor.dtype} {tuple(tensor.shape)}" for tensor in (source, source_mask))
        raise ValueError(f"expected sources [b s] and their mask, int64 and bool, with at least one row; got {kinds}")
    limits = [max_length] * len(source) if isinstance(max_length, int) else list(max_length)
    if len(limits) != len(source) or min(limits) < 1:
        raise ValueError(f"max_length: expected a number of at least 1, or one for each source; got {max_length}")
    return limits


@contextmanager
def evaluating(model: M) -> Iterator[M]:
    """Put every part of a model into evaluation mode, and afterwards back into the mode that it was in.

    Yields:
        The model.

    Example:
        >>> model = nn.Sequential(nn.Dropout(0.5), nn.Dropout(0.5).eval())
        >>> with evaluating(model):
        ...     [part.training for part in model]
        [False, False]
        >>> [part.training for part in model]
        [True, False]
    """
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield model
    finally:
        for module, mode in modes.items():
            module.training = mode
