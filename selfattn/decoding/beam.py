"""Beam search: at every step the most probable beginnings, several for each sentence, for a whole batch at once."""

from __future__ import annotations

import bisect
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from selfattn.decoding.common import (
    NO_PENALTY,
    LengthPenalty,
    Restrictions,
    check_number,
    chosen_log_probabilities,
    evaluating,
    length_limits,
    top,
)
from selfattn.decoding.options import Hypothesis
from selfattn.models.protocol import Seq2Seq
from selfattn.processes import poll


@torch.inference_mode()
def beam_search(
    model: Seq2Seq,
    source: Tensor,
    source_mask: Tensor,
    *,
    bos_id: int,
    eos_id: int,
    max_length: int | Sequence[int],
    beam_size: int,
    n_best: int = 1,
    length_penalty: LengthPenalty = NO_PENALTY,
    restrictions: Restrictions | None = None,
) -> list[list[Hypothesis]]:
    r"""Search the targets with the best :math:`\log p(y \mid x) / lp(|y|)`, for every source of a batch.

    At every step each sentence's hypotheses are continued by every token. Of all continuations together, those among
    the ``beam_size`` most probable that end with ``<eos>`` are finished, and the ``beam_size`` most probable of those
    that do not go on (as in ``transformers`` and fairseq). The penalty ranks what is finished; it plays no part in
    who goes on, since all of those are equally long.

    A sentence is finished when no hypothesis that goes on can become better than the worst of its ``n_best`` finished
    ones: its log-probability can only fall, and the penalty cannot grow beyond that of the best length still allowed.
    So stopping early never changes the result. It then leaves the batch. A penalty that grows with length makes that
    bound loose, and a ``max_length`` that is close to what is needed makes it tight again.

    Without a penalty a beam of 1 is greedy decoding, and so it is with a negative alpha; a penalty above 0 lets it go
    on behind its first ``<eos>``. A beam wide enough for all beginnings finds the best target there is.

    Args:
        model: any model of the protocol; only encode, start and step are called. It is put into evaluation mode for
            the call and back after it.
        source: ids ``[b s]``, int64.
        source_mask: bool ``[b s]``, True = real token.
        bos_id: the token that every target begins with.
        eos_id: the token that ends a target.
        max_length: the most steps, ``<eos>`` counted; one number, or one for each source; at least 1.
        beam_size: hypotheses that go on at each step; at least 1.
        n_best: hypotheses to return for each source, from 1 to ``beam_size``; default 1.
        length_penalty: default none.
        restrictions: what the targets may not be; default none.

    Returns:
        For each source its hypotheses, best first; fewer than asked for only where fewer exist. One that is cut off at
        ``max_length`` is worth less than any finished one. The lowest id wins a tie.

    Raises:
        ValueError: a limit is below 1, there are not as many limits as sources, or source and mask are not as
            described.

    Example:
        >>> from selfattn.models.build import build
        >>> from selfattn.models.families import PRESETS
        >>> model = build(PRESETS["transformer"].config, vocab_size=11, pad_id=0, seed=0)
        >>> source = torch.tensor([[5, 6, 2], [7, 2, 0]])
        >>> results = beam_search(
        ...     model, source, source != 0, bos_id=1, eos_id=2, max_length=7, beam_size=5, n_best=3,
        ...     length_penalty=LengthPenalty(0.6),
        ... )
        >>> [len(hypotheses) for hypotheses in results]
        [3, 3]
        >>> first, second, _ = results[0]
        >>> (first.finished, first.score) >= (second.finished, second.score)
        True
    """
    limits = length_limits(source, source_mask, max_length)
    searched = [Sentence(limit, n_best, length_penalty) for limit in limits]
    with evaluating(model):
        state = model.start(model.encode(source, source_mask))
        rows = len(source)
        token = torch.full((rows,), bos_id, device=source.device)
        totals = torch.zeros(rows, 1, dtype=torch.float64)
        prefixes = torch.zeros(rows, 1, 0, dtype=torch.int64)
        beam = _Beam(list(range(rows)), totals, prefixes)
        while True:
            poll()
            logits, state = model.step(token, state)
            # One more than the beam: whatever becomes of <eos>, the best row alone could fill the beam.
            if restrictions is None:
                best, ids = top(logits, beam_size + 1)
                values = chosen_log_probabilities(logits, ids, best[:, :1])
            else:
                allowed = restrictions.masked(logits, beam.prefixes.flatten(0, 1), beam.sentence_of_each())
                ids = top(allowed, beam_size + 1)[1]
                values = chosen_log_probabilities(logits, ids)
                values = values.masked_fill(allowed.gather(-1, ids) == -math.inf, -math.inf)
            values = values.double().cpu()
            index, live, beam = beam.advance(values, ids.cpu(), eos_id, beam_size, searched)
            if not live:
                break
            sources = torch.tensor(live, device=source.device)
            state = state.reorder(index.to(source.device), sources=sources)
            token = beam.prefixes[..., -1].flatten().to(source.device)
    return [sentence.hypotheses() for sentence in searched]


@dataclass(frozen=True)
class _Beam:
    """The hypotheses that go on: as many, ``w``, for each of ``n`` sentences, most probable first; all on the CPU.

    Attributes:
        sentences: which ones they are.
        totals: log-probabilities, float64 ``[n w]``.
        prefixes: what is written so far, int64 ``[n w length]``.
    """

    sentences: list[int]
    totals: Tensor
    prefixes: Tensor

    def sentence_of_each(self) -> list[int]:
        """Return for each hypothesis its sentence."""
        w = self.totals.shape[1]
        return torch.tensor(self.sentences).repeat_interleave(w).tolist()

    def advance(
        self, values: Tensor, ids: Tensor, eos_id: int, beam_size: int, searched: list[Sentence]
    ) -> tuple[Tensor, list[int], _Beam]:
        """Extend every hypothesis by its best tokens, keep the best for each sentence, record finished ones.

        Args:
            values: log-probabilities of the best tokens, ``[(n w) m]``.
            ids: the tokens.
            eos_id: the token that ends a target.
            beam_size: how many may go on.
            searched: every sentence.

        Returns:
            The row that each kept hypothesis came from, the rows of sentences that go on, and the new beam.
        """
        n, w = self.totals.shape
        m = values.shape[-1]
        totals = (self.totals[:, :, None] + values.view(n, w, m)).flatten(1)
        totals, order = totals.sort(descending=True, stable=True)
        parents = order // m
        tokens = ids.view(n, w * m).gather(1, order)
        ends = tokens == eos_id
        best_ends = ends[:, :beam_size].nonzero()
        if len(best_ends):
            sentences, places = best_ends.unbind(dim=1)
            finished = self.prefixes[sentences, parents[sentences, places]].tolist()
            scores = totals[sentences, places].tolist()
            for row, prefix, total in zip(sentences.tolist(), finished, scores, strict=True):
                searched[self.sentences[row]].add(prefix, total, finished=True)

        go_on = ends.int().argsort(dim=1, stable=True)[:, : min(beam_size, w * (m - 1))]
        totals, parents, tokens = (part.gather(1, go_on) for part in (totals, parents, tokens))
        length = self.prefixes.shape[-1] + 1
        prefixes = self.prefixes.gather(1, parents[..., None].expand(-1, -1, length - 1))
        prefixes = torch.cat([prefixes, tokens[..., None]], dim=-1)
        live: list[int] = []
        for row, (number, best) in enumerate(zip(self.sentences, totals[:, 0].tolist(), strict=True)):
            check_number(best)  # NaN would be the largest
            sentence = searched[number]
            if length == sentence.limit:
                for prefix, total in zip(prefixes[row].tolist(), totals[row].tolist(), strict=True):
                    sentence.add(prefix, total, finished=False)
            elif sentence.can_improve(best, length):
                live.append(row)
        rows = torch.arange(n)[:, None] * w + parents
        return rows[live].flatten(), live, _Beam([self.sentences[row] for row in live], totals[live], prefixes[live])


@dataclass
class Sentence:
    """The best hypotheses of one sentence so far.

    Attributes:
        limit: longest length allowed.
        n_best: how many hypotheses are wanted.
        penalty: what the log-probability is divided by.
        finished: the best that end with ``<eos>``, best first; of equal ones the first found.
        cut_off: the best that do not end with it, in the same order.
    """

    limit: int
    n_best: int
    penalty: LengthPenalty
    finished: list[Hypothesis] = field(default_factory=list)
    cut_off: list[Hypothesis] = field(default_factory=list)

    def add(self, ids: list[int], log_probability: float, *, finished: bool) -> None:
        """Take a hypothesis in, if it is possible at all and among the best."""
        if log_probability == -math.inf:
            return
        score = log_probability / self.penalty(len(ids) + finished)
        best = self.finished if finished else self.cut_off
        bisect.insort(best, Hypothesis(ids, log_probability, score, finished), key=lambda other: -other.score)
        del best[self.n_best :]

    def can_improve(self, log_probability: float, length: int) -> bool:
        """Say whether a hypothesis of this length and log-probability can end among the best; equal is not better."""
        if log_probability == -math.inf:
            return False
        if len(self.finished) < self.n_best:
            return True
        largest = max(self.penalty(length + 1), self.penalty(self.limit))  # the penalty is monotonic
        return log_probability / largest > self.finished[-1].score

    def hypotheses(self) -> list[Hypothesis]:
        """Return the best: finished ones first."""
        return (self.finished + self.cut_off)[: self.n_best]
