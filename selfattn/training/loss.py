"""The loss: cross-entropy over real tokens, with teacher forcing or scheduled sampling."""

import torch
from torch import Tensor
from torch.nn import functional

from selfattn.attention.masks import all_real
from selfattn.data.batches import Batch
from selfattn.models.protocol import Seq2Seq
from selfattn.training.linear_loss import linear_cross_entropy

LARGE_VOCABULARY = 4096  # tokens from which on the logits of a batch are not computed all at once


def batch_loss(model: Seq2Seq, batch: Batch, *, label_smoothing: float = 0.0, r_drop: float = 0.0) -> Tensor:
    """Return the mean negative log-likelihood of a batch's target tokens under teacher forcing, nats per token.

    It is :func:`logits_loss` of the model's logits. For a vocabulary of at least ``LARGE_VOCABULARY`` tokens, and
    without R-Drop, :func:`linear_cross_entropy` computes the same up to rounding.

    Args:
        model: on the batch's device; where the caller is under autocast, so is all of this.
        batch: at least one real target token.
        label_smoothing: ``epsilon`` in [0, 1); default 0.
        r_drop: see :func:`logits_loss`; default 0.
    """
    before = model.pre_logits(batch.source, batch.target_in, source_mask=batch.source_mask)
    if before is None or r_drop or before.output.out_features < LARGE_VOCABULARY:
        if before is None:
            logits = model(batch.source, batch.target_in, source_mask=batch.source_mask)
        else:
            logits = before.logits()
        return logits_loss(logits, batch, label_smoothing=label_smoothing, r_drop=r_drop)
    states, target = (pick(x, batch.target_mask) for x in (before.states, batch.target_out))
    output = before.output
    return linear_cross_entropy(states, output.weight, output.bias, target, label_smoothing=label_smoothing)


def logits_loss(logits: Tensor, batch: Batch, *, label_smoothing: float, r_drop: float) -> Tensor:
    """:func:`token_loss` of a batch, and with R-Drop the :func:`divergence` between its two halves.

    Args:
        logits: ``[b t v]``.
        batch: what they are for; with R-Drop its second half is its first half once more.
        label_smoothing: ``epsilon`` in [0, 1).
        r_drop: weight of the divergence.
    """
    loss = token_loss(logits, batch.target_out, batch.target_mask, label_smoothing=label_smoothing)
    if r_drop:
        first, second = logits.chunk(2)
        # Half the paper's loss (equation 4), so that the figure compares with that of a training without.
        loss = loss + r_drop / 2 * divergence(first, second, batch.target_mask.chunk(2)[0])
    return loss


def token_loss(logits: Tensor, target: Tensor, target_mask: Tensor, *, label_smoothing: float = 0.0) -> Tensor:
    r"""Mean negative log-likelihood of the target's real tokens, in nats a token.

    With smoothing :math:`\epsilon` the target distribution is :math:`(1 - \epsilon)` on the right token plus
    :math:`\epsilon / v` on every token (Szegedy et al. 2016, section 7). Computed in at least float32. Padding has
    no part in it: not in the sum, not in the count, not in the gradient.

    Args:
        logits: ``[b t v]``.
        target: the right tokens ``[b t]``, int64.
        target_mask: bool ``[b t]``, True = real token; at least one.
        label_smoothing: ``epsilon`` in [0, 1); default 0.

    Returns:
        A scalar; NaN where no token is real.

    Example:
        >>> import torch
        >>> logits, mask = torch.zeros(1, 2, 4), torch.tensor([[True, False]])
        >>> round(token_loss(logits, torch.tensor([[3, 0]]), mask).item(), 4)  # log 4
        1.3863
    """
    real, target = _real(logits, target_mask), pick(target, target_mask)
    return functional.cross_entropy(real, target, label_smoothing=label_smoothing)


def divergence(first: Tensor, second: Tensor, target_mask: Tensor) -> Tensor:
    r"""Mean symmetric Kullback-Leibler divergence of two predictions of the same tokens, in nats a token.

    .. math:: \tfrac12 (D(p \| q) + D(q \| p)) = \tfrac12 \sum_v (p_v - q_v) (\log p_v - \log q_v)

    R-Drop (Wu et al. 2021, equation 2) takes it between two passes with different dropout. Computed in at least
    float32; padding has no part in it.

    Args:
        first: logits ``[b t v]``.
        second: logits ``[b t v]``.
        target_mask: bool ``[b t]``, True = real token; at least one.

    Example:
        >>> import torch
        >>> p, q = torch.tensor([[[0.75, 0.25]]]), torch.tensor([[[0.25, 0.75]]])
        >>> round(divergence(p.log(), q.log(), torch.tensor([[True]])).item(), 4)  # log(3) / 2
        0.5493
    """
    p = _real(first, target_mask).log_softmax(dim=-1)
    q = _real(second, target_mask).log_softmax(dim=-1)
    return 0.5 * ((p.exp() - q.exp()) * (p - q)).sum(dim=-1).mean()


def pick(x: Tensor, mask: Tensor) -> Tensor:
    """Return what stands at real tokens, ``x[mask]``: without copying where all are.

    Args:
        x: ``[b t ...]``.
        mask: bool ``[b t]``.

    Example:
        >>> import torch
        >>> pick(torch.tensor([[3, 5], [7, 0]]), torch.tensor([[True, True], [True, False]])).tolist()
        [3, 5, 7]
    """
    return x.flatten(0, 1) if all_real(mask) else x[mask]


def _real(logits: Tensor, target_mask: Tensor) -> Tensor:
    real = pick(logits, target_mask)
    return real.float() if real.dtype.itemsize < 4 else real


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
