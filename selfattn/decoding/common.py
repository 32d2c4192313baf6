"""What all ways of decoding share: checked inputs, batches of similar length, probabilities, restrictions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor, nn

from selfattn.data.batches import Batch, batches
from selfattn.data.pairs import Example
from selfattn.distributed import Processes
from selfattn.errors import DivergedError
from selfattn.models.protocol import Seq2Seq

BLOCK = 64  # numbers of a long row that are looked through at once
FEW = 24_000  # numbers in all, for which one call takes less time than several
CHUNK = 2**17  # numbers that are exponentiated at once: few enough to stay in a core's own cache
_NOTHING = -1  # stands in front of shorter texts

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
        Stopped: a stop was requested, see :mod:`selfattn.processes`.

    Example:
        >>> from selfattn.models.build import build
        >>> from selfattn.models.families import PRESETS
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
    for places, values in processes.gather_items(computed):
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


def log_probabilities(logits: Tensor) -> Tensor:
    """Return ``log softmax(logits)`` over the last axis, in float32 or wider.

    Example:
        >>> log_probabilities(torch.zeros(1, 2, dtype=torch.bfloat16)).exp()
        tensor([[0.5000, 0.5000]])
    """
    return logits.log_softmax(dim=-1, dtype=torch.promote_types(logits.dtype, torch.float32))


def chosen_log_probabilities(logits: Tensor, ids: Tensor, largest: Tensor | None = None) -> Tensor:
    """Return the log-probabilities of ``ids [n k]`` given ``logits [n v]``, in float32 or wider: ``[n k]``.

    Where they are known, ``largest [n 1]`` are the largest logits of the rows.

    Example:
        >>> chosen_log_probabilities(torch.zeros(1, 2), torch.tensor([[1]])).exp()
        tensor([[0.5000]])
    """
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    chosen = logits.gather(-1, ids)
    n, v = logits.shape
    rows = max(1, CHUNK // v)
    if n <= rows:
        return chosen - logits.logsumexp(dim=-1, keepdim=True)
    shifted = logits.new_empty(rows, v)  # one for all: fresh memory costs more time than the exponentials
    totals = logits.new_empty(n, 1)
    largest = logits.amax(dim=-1, keepdim=True) if largest is None else largest.to(logits.dtype)
    finite = largest.where(largest.abs() != torch.inf, 0.0)  # as torch.logsumexp, whose bits these are
    for start in range(0, n, rows):
        part = logits[start : start + rows]
        powers = torch.sub(part, finite[start : start + rows], out=shifted[: len(part)]).exp_()
        torch.sum(powers, dim=-1, keepdim=True, out=totals[start : start + rows])
    return chosen - totals.log_().add_(finite)


def top(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the ``count`` largest of each row, largest first; of equal ones the lowest id first.

    ``torch.topk`` leaves open which of equal numbers it takes, so that the neighbours in a batch might decide; and
    sorting whole rows is slow. So this takes one more than asked for, and sorts the rows where that one is a tie.
    Of long rows only the blocks with the largest maxima are searched: a maximum is cheap, ``torch.topk`` is not.

    Args:
        scores: ``[n v]``.
        count: from 1; more than ``v`` gives all.

    Returns:
        Values and ids, each ``[n min(count, v)]``.

    Example:
        >>> top(torch.tensor([[3.0, 7.0, 5.0, 7.0, 5.0]]), 3)
        (tensor([[7., 7., 5.]]), tensor([[1, 3, 2]]))
    """
    if count >= scores.shape[-1]:
        values, ids = scores.sort(descending=True, stable=True)
        return values, ids
    values, ids = _largest(scores, count + 1)
    tied = values[:, -1] == values[:, -2]
    ids = ids[:, :-1].sort().values
    values, order = scores.gather(-1, ids).sort(descending=True, stable=True)
    ids = ids.gather(-1, order)
    if tied.any():
        every_value, every_id = scores[tied].sort(descending=True, stable=True)
        values[tied], ids[tied] = every_value[:, :count], every_id[:, :count]
    return values, ids


def _largest(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the ``count`` largest of each row; which of equal ones, and at which end of the count, is left open."""
    blocks = scores.shape[-1] // BLOCK
    if len(scores) == 1 or scores.numel() <= FEW or blocks < 2 * count:
        return scores.topk(count)
    n = len(scores)
    rest = scores[:, blocks * BLOCK :]
    cut = scores[:, : blocks * BLOCK].view(n, blocks, BLOCK)  # also where there is a rest
    # Every number in another block has as many in these that are at least as large.
    best = cut.amax(dim=-1).topk(count).indices
    rows = torch.arange(n, device=scores.device)[:, None]
    values, places = torch.cat([cut[rows, best].flatten(1), rest], dim=-1).topk(count)
    best = torch.cat([best, best.new_full((n, 1), blocks)], dim=-1)  # behind them stands the rest, a shorter block
    return values, best.gather(-1, places // BLOCK) * BLOCK + places % BLOCK


@dataclass(frozen=True)
class Restrictions:
    """Restrictions on the targets of some sources.

    A token that cannot come has the log-probability minus infinity in the search. The others keep those of the model,
    as in ``transformers``: what is left does not sum to 1.

    Attributes:
        prefixes: for each source the tokens that its target begins with; perhaps none.
        before: for each source the tokens in front of its target, which count among its n-grams, such as ``<bos>``.
        no_repeat_ngram: the ``n`` of which no n-gram may come twice, beginning included; None: they may. A requested
            beginning comes even if it repeats itself.

    Example:
        >>> restrictions = Restrictions([[], [7]], [[1], [1]], no_repeat_ngram=2)
        >>> restrictions.masked(torch.zeros(1, 6), torch.tensor([[4, 5, 4]]), [0])  # 4 5 was there
        tensor([[0., 0., 0., 0., 0., -inf]])
        >>> restrictions.masked(torch.zeros(1, 8), torch.zeros(1, 0, dtype=torch.int64), [1]).argmax()
        tensor(7)
    """

    prefixes: Sequence[Sequence[int]]
    before: Sequence[Sequence[int]]
    no_repeat_ngram: int | None = None

    def of(self, places: Sequence[int]) -> Restrictions:
        """Return the restrictions of some of the sources."""
        prefixes = [self.prefixes[place] for place in places]
        before = [self.before[place] for place in places]
        return Restrictions(prefixes, before, self.no_repeat_ngram)

    def masked(self, logits: Tensor, written: Tensor, sentences: Sequence[int]) -> Tensor:
        """Return logits in which what cannot come is minus infinity.

        Args:
            logits: ``[n v]``.
            written: targets so far, without ``<bos>``, int64 ``[n length]``.
            sentences: for each row the source that it belongs to.
        """
        length = written.shape[1]
        if self.no_repeat_ngram is None and all(length >= len(self.prefixes[sentence]) for sentence in sentences):
            return logits
        blocked = torch.zeros_like(logits, dtype=torch.bool)
        if self.no_repeat_ngram is not None:
            before = _padded([self.before[sentence] for sentence in sentences])
            blocked = repeating(torch.cat([before.to(written), written], dim=1), self.no_repeat_ngram, blocked)
        for row, sentence in enumerate(sentences):
            prefix = self.prefixes[sentence]
            if length < len(prefix):
                blocked[row] = True
                blocked[row, prefix[length]] = False
        return logits.masked_fill(blocked, -math.inf)


def repeating(texts: Tensor, n: int, blocked: Tensor) -> Tensor:
    """Mark the tokens that would repeat an n-gram.

    Args:
        texts: tokens so far, int64 ``[rows length]``; negative where a shorter text has none.
        n: at least 1.
        blocked: bool ``[rows v]``, what is marked already.

    Returns:
        ``blocked`` with further marks.
    """
    if texts.shape[1] < n:
        return blocked
    ngrams = texts.unfold(1, n, 1)  # [rows places n]
    last = texts[:, texts.shape[1] - n + 1 :]
    again = (ngrams[..., :-1] == last[:, None]).all(dim=-1) & (ngrams[..., -1] >= 0)
    rows, places = again.nonzero(as_tuple=True)
    tokens = ngrams[rows, places, -1]
    blocked[rows.to(blocked.device), tokens.to(blocked.device)] = True
    return blocked


def _padded(texts: Sequence[Sequence[int]]) -> Tensor:
    """Return texts as one tensor, the shorter ones filled in front."""
    longest = max(map(len, texts), default=0)
    return torch.tensor([[_NOTHING] * (longest - len(text)) + list(text) for text in texts], dtype=torch.int64)
