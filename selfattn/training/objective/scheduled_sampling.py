"""Scheduled sampling: a model in training reads its own words now and then instead of the right ones."""

from __future__ import annotations

import torch
from torch import Tensor

from selfattn.models.protocol import Seq2Seq


def teacher_forcing_probability(start: float, end: float | None, step: int, *, total_steps: int) -> float:
    r"""Give the probability of the right token at step ``k`` of ``n``.

    .. math:: p_k = p_1 + (p_n - p_1) \frac{k - 1}{n - 1}

    This is the linear decay of Bengio et al. 2015, section 2.4.

    Args:
        start: :math:`p_1`, in ``[0, 1]``.
        end: :math:`p_n`, in ``[0, 1]``; None for ``start``.
        step: ``k``, counted from 1; beyond ``total_steps`` it counts as ``total_steps``.
        total_steps: ``n``, at least 1; with a single step it is ``start``.

    Example:
        >>> [teacher_forcing_probability(1.0, 0.0, step, total_steps=5) for step in range(1, 6)]
        [1.0, 0.75, 0.5, 0.25, 0.0]
    """
    if end is None or total_steps == 1:
        return start
    done = (min(step, total_steps) - 1) / (total_steps - 1)
    return (1.0 - done) * start + done * end


def sampled_logits(
    model: Seq2Seq,
    source: Tensor,
    target_in: Tensor,
    *,
    source_mask: Tensor,
    teacher_forcing: float,
    generator: torch.Generator,
) -> Tensor:
    """Decode step by step, feeding the right token with a probability and the model's best guess otherwise.

    Bengio et al. 2015, "Scheduled Sampling", section 2.4: one coin for each sentence and step. The guess is taken as
    it is; no gradient flows through the choice. Works for every model, because it needs no more than the protocol;
    it is slower than ``forward``, which reads all positions at once.

    Args:
        model: any sequence-to-sequence model.
        source: ids ``[b s]``.
        target_in: ids ``[b t]``; the first, ``<bos>``, is always fed.
        source_mask: bool ``[b s]``.
        teacher_forcing: probability of feeding the right token, in ``[0, 1]``; 1 equals ``forward``.
        generator: where the coins come from, on the CPU.

    Returns:
        Logits ``[b t v]``.

    Example:
        >>> from selfattn.models.build import build
        >>> from selfattn.models.presets import PRESETS
        >>> model = build(PRESETS["rnn-attention"].config, vocab_size=11, pad_id=0, seed=0)
        >>> source, target = torch.tensor([[4, 5, 2]]), torch.tensor([[1, 6, 7]])
        >>> coins = torch.Generator().manual_seed(0)
        >>> mask = torch.ones(1, 3, dtype=torch.bool)
        >>> sampled_logits(model, source, target, source_mask=mask, teacher_forcing=0.5, generator=coins).shape
        torch.Size([1, 3, 11])
    """
    right = (torch.rand(target_in.shape, generator=generator) < teacher_forcing).to(target_in.device)
    state = model.start(model.encode(source, source_mask))
    guess = target_in[:, 0]
    steps: list[Tensor] = []
    for position in range(target_in.shape[1]):
        token = torch.where(right[:, position], target_in[:, position], guess)
        logits, state = model.step(token, state)
        guess = logits.detach().argmax(dim=-1)
        steps.append(logits)
    return torch.stack(steps, dim=1)
