"""The loop of greedy decoding and of sampling: one token a step for every sentence that is not finished."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from selfattn.decoding.hypotheses import Hypotheses
from selfattn.decoding.prepare import evaluating
from selfattn.decoding.probabilities import log_probabilities
from selfattn.models.protocol import Seq2Seq


@torch.inference_mode()
def write(
    model: Seq2Seq,
    source: Tensor,
    source_mask: Tensor,
    *,
    bos_id: int,
    eos_id: int,
    limits: list[int],
    choose: Callable[[Tensor, list[int], int], Tensor],
) -> Hypotheses:
    """Write one target for each source, in evaluation mode; a sentence that is finished leaves the batch.

    Args:
        model: any model of the protocol; only encode, start and step are called.
        source: ids ``[b s]``, int64.
        source_mask: bool ``[b s]``, True = real token.
        bos_id: the token that every target begins with.
        eos_id: the token that ends a target.
        limits: for each source the most steps, ``<eos>`` counted.
        choose: given log-probabilities ``[n v]``, the ``n`` sentences they belong to, and the number of the step from
            0, return the next tokens ``[n]``.

    Example:
        >>> from selfattn.models.build import build
        >>> from selfattn.models.presets import PRESETS
        >>> model = build(PRESETS["transformer"].config, vocab_size=11, pad_id=0, seed=0)
        >>> source = torch.tensor([[5, 6], [7, 8]])
        >>> def count(log_probs, sentences, step):
        ...     return torch.tensor([3 + row + step for row in sentences])
        >>> write(model, source, source > 0, bos_id=1, eos_id=5, limits=[2, 4], choose=count).ids
        [[3, 4], [4]]
    """
    rows = len(limits)
    ids: list[list[int]] = [[] for _ in range(rows)]
    finished = [False] * rows
    scores = torch.zeros(rows, dtype=torch.float64)
    with evaluating(model):
        state = model.start(model.encode(source, source_mask))
        token = torch.full((rows,), bos_id, dtype=torch.int64, device=source.device)
        living = list(range(rows))  # which sentence each row of the state belongs to
        for step in range(max(limits)):
            logits, state = model.step(token, state)
            log_probs = log_probabilities(logits)
            token = choose(log_probs, living, step)
            scores[living] += log_probs.gather(-1, token[:, None])[:, 0].double().cpu()
            kept: list[int] = []
            for place, (row, chosen) in enumerate(zip(living, token.tolist(), strict=True)):
                if chosen == eos_id:
                    finished[row] = True
                else:
                    ids[row].append(chosen)
                    if step + 1 < limits[row]:
                        kept.append(place)
            if not kept:
                break
            if len(kept) < len(living):
                index = torch.tensor(kept, device=source.device)
                state, token = state.reorder(index), token[index]
                living = [living[place] for place in kept]
    return Hypotheses(ids, scores.tolist(), finished)
