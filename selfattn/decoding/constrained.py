"""Beam search for outputs that must have certain words: dynamic beam allocation.

Post and Vilar 2018, "Fast Lexically Constrained Decoding with Dynamic Beam Allocation for Neural Machine Translation",
https://arxiv.org/abs/1804.06609. Hypotheses compete with those that have written as many tokens of the required words
as they have: each number of tokens is a bank with its share of the beam. Whether words are there is asked of the text,
so that what counts as written is what a reader finds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from selfattn.decoding.beam import Sentence
from selfattn.decoding.common import (
    LengthPenalty,
    Restrictions,
    check_number,
    chosen_log_probabilities,
    evaluating,
    length_limits,
    top,
)
from selfattn.decoding.glossary import joins, missing
from selfattn.decoding.options import Hypothesis
from selfattn.models.protocol import Seq2Seq
from selfattn.processes import poll
from selfattn.tokenizers.protocol import Tokenizer


@torch.inference_mode()
def constrained_search(
    model: Seq2Seq,
    source: Tensor,
    source_mask: Tensor,
    *,
    tokenizer: Tokenizer,
    required: Sequence[Sequence[str]],
    max_length: int | Sequence[int],
    beam_size: int,
    n_best: int,
    length_penalty: LengthPenalty,
    restrictions: Restrictions | None = None,
) -> list[list[Hypothesis]]:
    """Search probable targets that have all required words.

    Args:
        model: any model of the protocol; put into evaluation mode for the call and back after it.
        source: ids ``[b s]``, int64.
        source_mask: bool ``[b s]``, True = real token.
        tokenizer: of the targets.
        required: words for each source, see :class:`selfattn.decoding.glossary.Glossary`.
        max_length: the most steps, ``<eos>`` counted; one number, or one for each source; at least 1.
        beam_size: hypotheses that go on at each step.
        n_best: hypotheses to return for each source.
        length_penalty: what log-probabilities are divided by to rank what is finished.
        restrictions: what the targets may not be; default none.

    Returns:
        For each source its hypotheses, best first. Finished ones have all required words; behind them stand those that
        are cut off at ``max_length``, which may lack some, those with more of them first.
    """
    limits = length_limits(source, source_mask, max_length)
    searches = []
    for texts, limit in zip(required, limits, strict=True):
        words = {text: tuple(tokenizer.encode(text)) for text in texts}
        searches.append(_Search(Sentence(limit, n_best, length_penalty), words, beam_size, tokenizer))
    live = list(range(len(searches)))
    with evaluating(model):
        state = model.start(model.encode(source, source_mask))
        token = torch.full((len(searches),), tokenizer.bos_id, device=source.device)
        width = 1
        while live:
            poll()
            logits, state = model.step(token, state)
            allowed = logits
            if restrictions is not None:
                written: list[list[int]] = []
                rows: list[int] = []
                for number in live:
                    written += [beginning.ids for beginning in searches[number].beam]
                    rows += [number] * width
                allowed = restrictions.masked(logits, torch.tensor(written).long().view(len(rows), -1), rows)
            ids = _proposed(allowed, beam_size + 1, [searches[number] for number in live])
            values = chosen_log_probabilities(logits, ids)
            values = values.masked_fill(allowed.gather(-1, ids) == -math.inf, -math.inf).double().cpu()
            index: list[int] = []
            going_on: list[int] = []
            tokens: list[list[int]] = ids.tolist()
            of_tokens: list[list[float]] = values.tolist()
            for row, number in enumerate(live):
                rows_of_search = slice(row * width, (row + 1) * width)
                parents = searches[number].advance(tokens[rows_of_search], of_tokens[rows_of_search])
                if parents:
                    going_on.append(row)
                    index += [row * width + parent for parent in parents]
            if not going_on:
                break
            sources = torch.tensor(going_on, device=source.device)
            state = state.reorder(torch.tensor(index, device=source.device), sources=sources)
            live = [live[row] for row in going_on]
            width = beam_size
            last: list[int] = []
            for number in live:
                last += [beginning.ids[-1] for beginning in searches[number].beam]
            token = torch.tensor(last, device=source.device)
    return [search.best.hypotheses() for search in searches]


def _proposed(logits: Tensor, count: int, searches: Sequence[_Search]) -> Tensor:
    """Return the best tokens of each row, and behind them those that required words need next, int64 ``[n m]``."""
    best = top(logits, count)[1]
    needed: list[Tensor] = []
    for search in searches:
        needed += [torch.tensor(beginning.needed, dtype=torch.int64) for beginning in search.beam]
    rows = pad_sequence(needed, batch_first=True, padding_value=-1).to(best.device)
    # Where nothing is needed, the best token stands once more.
    return torch.cat([best, torch.where(rows < 0, best[:, :1], rows)], dim=1)


@dataclass(frozen=True)
class _Beginning:
    """What a hypothesis has written.

    Attributes:
        ids: its tokens.
        log_probability: of them; minus infinity for one that only fills the beam.
        bank: how many tokens of required words it has written.
        needed: the tokens that required words need next; none where all are there.
        unmet: how many required words are not there.
    """

    ids: list[int]
    log_probability: float
    bank: int
    needed: tuple[int, ...]
    unmet: int


@dataclass
class _Search:
    """The search for the targets of one source.

    Attributes:
        best: the best targets so far.
        words: the tokens of each of the required words.
        beam_size: hypotheses that go on at each step.
        tokenizer: of the targets.
        beam: what is written.
    """

    best: Sentence
    words: Mapping[str, tuple[int, ...]]
    beam_size: int
    tokenizer: Tokenizer
    beam: list[_Beginning] = field(init=False)

    def __post_init__(self) -> None:
        self.beam = [self.beginning([], 0.0)]

    def beginning(self, ids: list[int], log_probability: float) -> _Beginning:
        """Look at what is written, and which tokens of required words come next."""
        text = self.tokenizer.decode(ids)
        absent = set(missing(self.words, text))
        bank = 0
        progress = 0
        needed: dict[int, None] = {}
        for words, tokens in self.words.items():
            if words not in absent:
                bank += len(tokens)
                continue
            count = self._begun(ids, tokens)
            progress = max(progress, count)
            needed[tokens[count]] = None
            needed[tokens[0]] = None
        return _Beginning(ids, log_probability, bank + progress, tuple(needed), len(absent))

    def _begun(self, ids: list[int], tokens: tuple[int, ...]) -> int:
        """Return how many of the first tokens of required words stand at the end of what is written."""
        for count in range(min(len(tokens) - 1, len(ids)), 0, -1):
            if tuple(ids[-count:]) == tokens[:count]:
                before = self.tokenizer.decode(ids[:-count])
                text = self.tokenizer.decode(ids)
                if not joins(before, text[len(before) :]):
                    return count
        return 0

    def advance(self, tokens: list[list[int]], values: list[list[float]]) -> list[int]:
        """Continue by proposed tokens.

        Args:
            tokens: for each hypothesis; some may stand twice.
            values: their log-probabilities.

        Returns:
            For each of `beam_size` hypotheses that go on the one that it came from; none if the search has ended.
        """
        end = self.tokenizer.eos_id
        candidates: dict[tuple[int, int], float] = {}
        for parent, (row, of_row) in enumerate(zip(tokens, values, strict=True)):
            for token, value in zip(row, of_row, strict=True):
                check_number(value)
                candidates[parent, token] = self.beam[parent].log_probability + value
        ranked = sorted(candidates.items(), key=lambda item: -item[1])
        full = 0  # hypotheses with all required words that are better
        banks: dict[int, list[tuple[int, _Beginning]]] = {}
        for (parent, token), total in ranked:
            if total == -math.inf:
                continue
            before = self.beam[parent]
            if token == end:
                if before.unmet == 0 and full < self.beam_size:
                    self.best.add(before.ids, total, finished=True)
                    full += 1
                continue
            new = self.beginning([*before.ids, token], total)
            full += new.unmet == 0
            banks.setdefault(new.bank, []).append((parent, new))
        chosen = self._allotted(banks)
        length = len(self.beam[0].ids) + 1
        if length == self.best.limit:
            return self._cut_off([new for _, new in chosen])
        if not chosen and not self.best.finished:  # restrictions leave no token
            return self._cut_off([before for before in self.beam if before.log_probability > -math.inf])
        if not chosen or not self.best.can_improve(max(new.log_probability for _, new in chosen), length):
            return []
        filler = _Beginning(chosen[0][1].ids, -math.inf, 0, (), 1)
        chosen += [(chosen[0][0], filler)] * (self.beam_size - len(chosen))
        self.beam = [new for _, new in chosen]
        return [parent for parent, _ in chosen]

    def _allotted(self, banks: dict[int, list[tuple[int, _Beginning]]]) -> list[tuple[int, _Beginning]]:
        """Share the beam out among the banks: equally, and the rest to those with most tokens of required words."""
        last_bank = sum(map(len, self.words.values()))
        share, rest = divmod(self.beam_size, last_bank + 1)
        slots = dict.fromkeys(range(last_bank + 1), share)
        slots[last_bank] += rest
        chosen: list[tuple[int, _Beginning]] = []
        for bank in sorted(banks, reverse=True):
            chosen += banks[bank][: slots.get(bank, 0)]
        for bank in sorted(banks, reverse=True):
            free = self.beam_size - len(chosen)
            chosen += banks[bank][slots.get(bank, 0) :][:free]
        return sorted(chosen, key=lambda candidate: -candidate[1].log_probability)

    def _cut_off(self, beginnings: Sequence[_Beginning]) -> list[int]:
        """End the search with these hypotheses, those with most required words first; none goes on."""
        for beginning in sorted(beginnings, key=lambda beginning: (beginning.unmet, -beginning.log_probability)):
            score = beginning.log_probability / self.best.penalty(len(beginning.ids))
            self.best.cut_off.append(Hypothesis(beginning.ids, beginning.log_probability, score, finished=False))
        return []
