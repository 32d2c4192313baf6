"""The loss: cross-entropy over real tokens, with teacher forcing or scheduled sampling."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from selfattn.attention.masks import all_real
from selfattn.data.batches import Batch
from selfattn.errors import UserError
from selfattn.models.protocol import Decoded, Seq2Seq

_ELEMENTS = 2**20  # logits that exist at once: few enough to stay in a processor's cache
LARGE_VOCABULARY = 4096  # tokens from which on the logits of a batch are not computed all at once


def batch_loss(
    model: Seq2Seq, batch: Batch, *, label_smoothing: float = 0.0, r_drop: float = 0.0, guided: float = 0.0
) -> Tensor:
    """Return the mean negative log-likelihood of a batch's target tokens under teacher forcing, nats per token.

    It is :func:`logits_loss` of the model's logits. For a vocabulary of at least ``LARGE_VOCABULARY`` tokens, and
    without R-Drop, :func:`linear_cross_entropy` computes the same up to rounding.

    Args:
        model: on the batch's device; where the caller is under autocast, so is all of this.
        batch: at least one real target token.
        label_smoothing: ``epsilon`` in [0, 1); default 0.
        r_drop: see :func:`logits_loss`; default 0.
        guided: weight of the :func:`alignment_loss` of one head, where the batch has links; default 0. The head is the
            first of the last layer but one (Garg et al. 2019, section 4.2), or of the only layer.

    Raises:
        UserError: with links, the model returns no attention to its source.
    """
    if guided and batch.links is not None:
        return _guided_loss(model, batch, guided, label_smoothing, r_drop)
    before = model.pre_logits(batch.source, batch.target_in, source_mask=batch.source_mask)
    if before is None:
        logits = model(batch.source, batch.target_in, source_mask=batch.source_mask)
    else:
        return _decoded_loss(before, batch, label_smoothing, r_drop)
    return logits_loss(logits, batch, label_smoothing=label_smoothing, r_drop=r_drop)


def _decoded_loss(before: Decoded, batch: Batch, label_smoothing: float, r_drop: float) -> Tensor:
    """Return the loss of what a decoder gives: of its logits, or of a large vocabulary without all of them at once."""
    output = before.output
    if r_drop or output.out_features < LARGE_VOCABULARY or output.bias is None:
        return logits_loss(before.logits(), batch, label_smoothing=label_smoothing, r_drop=r_drop)
    states, target = (pick(x, batch.target_mask) for x in (before.states, batch.target_out))
    return linear_cross_entropy(states, output.weight, output.bias, target, label_smoothing=label_smoothing)


def _guided_loss(model: Seq2Seq, batch: Batch, guided: float, label_smoothing: float, r_drop: float) -> Tensor:
    """Return the loss of a batch with the alignment loss of one head."""
    assert batch.links is not None
    if "advance" not in model.defines:
        raise UserError(f"`guided`: {type(model).__name__} returns no attention weights while it trains; leave it out")
    state = model.start(model.encode(batch.source, batch.source_mask))
    decoded, _ = model.advance(batch.target_in, state, need_weights=True)
    layers = decoded.self_weights if model.reads_one_sequence else decoded.cross_weights
    if not layers:
        raise UserError(f"`guided`: {type(model).__name__} has no attention to its source; choose a model that has")
    head = layers[max(0, len(layers) - 2)][:, 0, :, : batch.source.shape[1]]  # of one sequence: its part on the source
    return _decoded_loss(decoded, batch, label_smoothing, r_drop) + guided * alignment_loss(head, batch.links)


def alignment_loss(weights: Tensor, links: Tensor) -> Tensor:
    r"""Mean cross-entropy of attention weights against given links, in nats a linked target token.

    .. math:: -\frac1n \sum_t \frac{1}{|L_t|} \sum_{s \in L_t} \log a_{ts}

    with the linked source tokens :math:`L_t` of a target token :math:`t`, and :math:`n` target tokens that have some:
    guided alignment (Chen et al. 2016, section 3.2; Garg et al. 2019, equation 5). Computed in at least float32.

    Args:
        weights: ``[b t s]``, of the step that writes a token.
        links: bool ``[b t s]``.

    Returns:
        A scalar; 0 without links.

    Example:
        >>> weights = torch.tensor([[[0.25, 0.75], [0.5, 0.5]]])
        >>> links = torch.tensor([[[False, True], [False, False]]])
        >>> round(alignment_loss(weights, links).item(), 4)  # -log 0.75
        0.2877
    """
    counts = links.sum(dim=-1)
    linked = counts > 0
    weights = weights[linked]
    weights = weights.float() if weights.dtype.itemsize < 4 else weights
    logs = weights.clamp(min=torch.finfo(weights.dtype).tiny).log()
    of_token = (logs * links[linked]).sum(dim=-1) / counts[linked]
    return -of_token.sum() / max(1, len(of_token))


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
    real = _real(logits, target_mask)
    target = pick(target, target_mask)
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


def sampled_logits(model: Seq2Seq, batch: Batch, *, teacher_forcing: float, generator: torch.Generator) -> Tensor:
    """Decode step by step, feeding the right token with a probability and the model's best guess otherwise.

    Bengio et al. 2015, "Scheduled Sampling", section 2.4: one coin for each sentence and step. The guess is taken as
    it is; no gradient flows through the choice. Works for every model, because it needs no more than the protocol;
    it is slower than ``forward``, which reads all positions at once.

    Args:
        model: any sequence-to-sequence model.
        batch: the first of its ``target_in``, ``<bos>``, is always fed.
        teacher_forcing: probability of feeding the right token, in ``[0, 1]``; 1 equals ``forward``.
        generator: where the coins come from, on the CPU.

    Returns:
        Logits ``[b t v]``.

    Example:
        >>> from selfattn.data.batches import collate
        >>> from selfattn.data.pairs import Example
        >>> from selfattn.models.build import build
        >>> batch = collate([Example([4, 5, 2], [6, 7, 2])], 0, 1, [0])
        >>> coins = torch.Generator().manual_seed(0)
        >>> sampled_logits(build("rnn-attention", vocab_size=11), batch, teacher_forcing=0.5, generator=coins).shape
        torch.Size([1, 3, 11])
    """
    target_in = batch.target_in
    right = (torch.rand(target_in.shape, generator=generator) < teacher_forcing).to(target_in.device)
    state = model.start(model.encode(batch.source, batch.source_mask))
    guess = target_in[:, 0]
    steps: list[Tensor] = []
    for position in range(target_in.shape[1]):
        token = torch.where(right[:, position], target_in[:, position], guess)
        logits, state = model.step(token, state)
        guess = logits.detach().argmax(dim=-1)
        steps.append(logits)
    return torch.stack(steps, dim=1)


def linear_cross_entropy(
    states: Tensor, weight: Tensor, bias: Tensor, target: Tensor, *, label_smoothing: float = 0.0
) -> Tensor:
    r"""Mean of ``cross_entropy(linear(states, weight, bias), target, label_smoothing)`` over all tokens.

    The gradient with respect to a token's logits is :math:`p - (1 - \epsilon) y - \epsilon / v` with softmax
    :math:`p` and right token :math:`y`, so it can be had in the forward pass, for as many tokens at a time as are
    convenient. What does not depend on :math:`p` is added in full precision. Under autocast the two products with
    ``weight`` and the softmax are computed in autocast's dtype, sums in that of ``states``.

    Where no gradient is wanted none is computed. The gradient has no gradient of its own.

    Args:
        states: ``[n d]``.
        weight: ``[v d]``.
        bias: ``[v]``.
        target: the right tokens ``[n]``, int64.
        label_smoothing: :math:`\epsilon` in [0, 1); default 0.

    Returns:
        A scalar in nats a token; NaN where there is no token.

    Example:
        >>> states, weight = torch.ones(2, 3), torch.zeros(4, 3)
        >>> round(linear_cross_entropy(states, weight, torch.zeros(4), torch.tensor([0, 3])).item(), 4)  # log 4
        1.3863
    """
    kind = states.device.type
    low = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else weight.dtype
    with torch.autocast(kind, enabled=False):
        inputs = states.to(weight.dtype), weight, bias
        if not (torch.is_grad_enabled() and any(x.requires_grad for x in inputs)):
            return _loss(None, *inputs, target, label_smoothing, low)
        loss: Tensor = _LinearCrossEntropy.apply(*inputs, target, label_smoothing, low)  # type: ignore[no-untyped-call]  # PyTorch has no types for it
        return loss


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        gradients: Any = tuple(torch.zeros_like(x) for x in inputs[:3])
        loss = _loss(gradients, *inputs)
        ctx.save_for_backward(*gradients)
        return loss

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        factor = gradients[0] / max(1, len(ctx.saved_tensors[0]))
        return *(x * factor for x in ctx.saved_tensors), None, None, None


def _loss(
    gradients: tuple[Tensor, Tensor, Tensor] | None,
    states: Tensor,
    weight: Tensor,
    bias: Tensor,
    target: Tensor,
    smoothing: float,
    low: torch.dtype,
) -> Tensor:
    """Return the mean loss, and add the gradients of the summed loss to those given.

    Args:
        gradients: with respect to states, weight and bias, all 0; None where they are not needed.
        states: ``[n d]``.
        weight: ``[v d]``.
        bias: ``[v]``.
        target: ``[n]``.
        smoothing: the label smoothing.
        low: dtype of the two products with ``weight``.
    """
    total = states.new_zeros(())
    n = len(target)
    low_states = states.to(low)
    low_weight = weight.to(low)
    low_bias = bias.to(low)
    chunk = max(1, min(n, _ELEMENTS // len(weight)))
    # Every chunk in the memory of the one before: fresh memory costs more than what is written there.
    memory = low_states.new_empty(2, chunk, len(weight))
    if gradients is not None:
        to_states, to_weight, to_bias = gradients
    for begin in range(0, n, chunk):
        place = slice(begin, begin + chunk)
        x = low_states[place]
        logits, p = memory[:, : len(x)]
        torch.addmm(low_bias, x, low_weight.T, out=logits)
        torch.softmax(logits, dim=-1, out=p)
        # The largest of the probabilities is 1 / sum(exp(logit - largest)), at least 1 / v: its log is safe.
        log_sum = logits.amax(dim=-1).to(total.dtype) - p.amax(dim=-1).to(total.dtype).log()
        right = logits.gather(-1, target[place, None])[:, 0].to(total.dtype)
        total = total + (log_sum - (1 - smoothing) * right).sum()
        if gradients is not None:
            to_states[place] = (p @ low_weight).to(total.dtype)
            if low == to_weight.dtype:
                to_weight.addmm_(p.T, x)
            else:
                to_weight += p.T @ x
            to_bias += p.new_ones(len(p)) @ p  # a sum over the first axis would copy to float32
    if gradients is not None:  # so far of the probabilities; the smoothed target distribution is subtracted at once
        even = smoothing / len(weight)
        to_states -= (1 - smoothing) * weight[target] + even * weight.sum(dim=0)
        to_weight.index_add_(0, target, states, alpha=smoothing - 1)
        to_weight -= even * states.sum(dim=0)
        to_bias.index_add_(0, target, to_bias.new_ones(()).expand(n), alpha=smoothing - 1)
        to_bias -= even * n
    if smoothing:
        mean = states.sum(dim=0) @ weight.mean(dim=0) + n * bias.mean()  # of the logits, summed over the tokens
        total = total - smoothing * mean
    return total / n if n else total / 0
