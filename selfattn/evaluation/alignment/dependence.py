"""Measure which source tokens an output depends on, and how far attention agrees.

Attention shows where a model looks, not what its output depends on (Jain and Wallace 2019; Wiegreffe and Pinter 2019).
Two other measures stand beside it: the change when a source token is hidden, and gradient times input. Both need only
the protocol, so they work for every model family. captum's occlusion replaces a token instead of hiding it, and inseq
expects Hugging Face models.
"""

import math
import statistics
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

import torch
from torch import Tensor, nn

from selfattn.data.batches import collate
from selfattn.data.pairs import Example
from selfattn.decoding.common import evaluating, log_probabilities
from selfattn.evaluation.alignment.attention_scores import source_shares
from selfattn.models.protocol import Seq2Seq, stepped_logits
from selfattn.results.attention import Agreement
from selfattn.streams import global_state
from selfattn.tokenizers.protocol import BOS, PAD

_NUMBERS = 1 << 24  # probabilities held at once


@torch.no_grad()
def by_blocking(model: Seq2Seq, source: Tensor, target_in: Tensor) -> Tensor:
    r"""Return how much each step changes when a source token is blocked (Li et al. 2016, "Understanding Neural Networks
    through Representation Erasure").

    .. math:: \tfrac12 \sum_v |p(v \mid y_{<k}, x) - p(v \mid y_{<k}, x \setminus x_i)|

    Neither encoder nor decoder attends to a blocked token; a recurrent encoder skips it.

    Args:
        model: any model of the protocol; put into evaluation mode for the call and back after it.
        source: ids ``[s]``, int64, ``<eos>`` behind them.
        target_in: ids ``[t]``, int64, what the decoder reads, ``<bos>`` first.

    Returns:
        Total variation ``[t s]`` between the distributions of the step with and without the token, 0 to 1, float32.

    Example:
        >>> from selfattn.models.build import build
        >>> from selfattn.models.presets import PRESETS
        >>> model = build(PRESETS["rnn-attention"].config, vocab_size=11, pad_id=0, seed=0)
        >>> by_blocking(model, torch.tensor([5, 6, 2]), torch.tensor([1, 7])).shape
        torch.Size([2, 3])
    """
    length = len(source)
    rows = max(1, _NUMBERS // (len(target_in) * model_width(model)))
    keep = ~torch.eye(length, dtype=torch.bool, device=source.device)
    ids = source.expand(length, length)
    if not model.takes_gaps:
        ids = torch.cat([ids[keep].view(length, length - 1), source.new_zeros(length, 1)], dim=1)
        keep = torch.arange(length, device=source.device).expand(length, length) < length - 1
    with evaluating(model):
        reference = _probabilities(model, source[None], torch.ones_like(source, dtype=torch.bool)[None], target_in)
        changes = [
            (_probabilities(model, ids[k : k + rows], keep[k : k + rows], target_in) - reference).abs().sum(dim=-1)
            for k in range(0, length, rows)
        ]
    return (0.5 * torch.cat(changes).T).clamp(0, 1).cpu()


def by_gradient(model: Seq2Seq, source: Tensor, target: Tensor) -> Tensor | None:
    r"""Return the share of each source token in gradient times input (Shrikumar et al. 2017).

    .. math:: |\nabla_{e_i} \log p(y_k \mid y_{<k}, x) \cdot e_i| \; / \; \sum_j |\nabla_{e_j} \log p \cdot e_j|

    with :math:`e_i` the embedding of source token i.

    Args:
        model: any model of the protocol; put into evaluation mode for the call and back after it.
        source: ids ``[s]``, int64, ``<eos>`` behind them.
        target: ids ``[t]``, int64, what the steps write, ``<eos>`` behind them.

    Returns:
        Shares ``[t s]``, float32; a row without any gradient is 0. None where the model embeds no source tokens by an
        ``nn.Embedding``.

    Example:
        >>> from selfattn.models.build import build
        >>> from selfattn.models.presets import PRESETS
        >>> model = build(PRESETS["rnn-attention"].config, vocab_size=11, pad_id=0, seed=0)
        >>> by_gradient(model, torch.tensor([5, 6, 2]), torch.tensor([7, 2])).sum(dim=1).round(decimals=4)
        tensor([1., 1.])
    """
    target_in = torch.cat([target.new_tensor([BOS]), target[:-1]])
    rows = max(1, _NUMBERS // (len(target) * model_width(model)))
    products = []
    # cuDNN's recurrent kernels run backward in training only.
    with ExitStack() as stack:
        stack.enter_context(evaluating(model))
        stack.enter_context(global_state())  # of which cuDNN's flags are a part
        stack.enter_context(torch.backends.cudnn.flags(enabled=False))
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.enable_grad())
        for steps in torch.split(torch.arange(len(target), device=source.device), rows):
            ids = source.expand(len(steps), -1).contiguous()
            mask = torch.ones_like(ids, dtype=torch.bool)
            with _embedded(model, ids) as vectors:
                memory = model.encode(ids, mask)
            if not vectors:
                return None
            state = model.start(memory)
            read = target_in.expand(len(steps), -1).contiguous()
            advances = "advance" in model.defines
            logits = model.advance(read, state)[0].logits() if advances else stepped_logits(model, read, state)
            chosen = log_probabilities(logits)[torch.arange(len(steps)), steps, target[steps]]
            (gradient,) = torch.autograd.grad(chosen.sum(), vectors[:1])
            products.append((gradient * vectors[0]).sum(dim=-1).abs().detach())
    strength = torch.cat(products)
    mass = strength.sum(dim=1, keepdim=True)
    return torch.where(mass > 0, strength / mass, 0.0).float().cpu()


def agreement(model: Seq2Seq, examples: Sequence[Example]) -> Agreement | None:
    """Measure how far attention agrees with what the output depends on: Kendall's rank correlation over source tokens.

    Attention is the mean over heads and layers in the step that writes a token. Values that agree to four decimals are
    ties. The correlations of an output's tokens are averaged; the interval is over examples.

    Args:
        model: any model of the protocol.
        examples: sources and what the model wrote for them.

    Returns:
        None where the model has no attention to its source, or no example has a correlation.
    """
    from scipy.stats import kendalltau

    correlations: list[list[float]] = [[], [], []]
    for place, layers in source_shares(model, examples):
        if not layers:
            return None
        batch = collate([examples[place]], PAD, BOS, [place]).to(model.device)
        attention = torch.stack([shares[-1] for shares in layers]).mean(dim=0)
        blocked = by_blocking(model, batch.source[0], batch.target_in[0])
        gradient = by_gradient(model, batch.source[0], batch.target_out[0])
        pairs = [(attention, blocked), (attention, gradient), (blocked, gradient)]
        for values, (first, second) in zip(correlations, pairs, strict=True):
            if second is not None:
                rows = zip(first.round(decimals=4).tolist(), second.round(decimals=4).tolist(), strict=True)
                by_token = [tau for row in rows if not math.isnan(tau := kendalltau(*row).statistic)]
                values += [statistics.mean(by_token)] if by_token else []
    if not correlations[0]:
        return None
    # not at the top: it imports scipy, which a run that only predicts does without
    from selfattn.evaluation.statistics.significance import estimate

    estimates = (estimate([values], bounds=(-1.0, 1.0)) if values else None for values in correlations)
    return Agreement(len(examples), *estimates)


def model_width(model: Seq2Seq) -> int:
    """Return the widest row that a model's weights have: no less than its vocabulary."""
    return max(max(weight.shape, default=1) for weight in model.parameters())


def _probabilities(model: Seq2Seq, source: Tensor, mask: Tensor, target_in: Tensor) -> Tensor:
    logits = model(source, target_in.expand(len(source), -1), source_mask=mask)
    return log_probabilities(logits).exp().float()


@contextmanager
def _embedded(model: nn.Module, ids: Tensor) -> Iterator[list[Tensor]]:
    """Catch the vectors of these ids, cut off from the table, so that there are gradients by them."""
    vectors: list[Tensor] = []

    def catch(_: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
        if vectors or inputs[0].shape != ids.shape or not torch.equal(inputs[0], ids):
            return output
        vectors.append(output.detach().requires_grad_())
        return vectors[0]

    with ExitStack() as hooks:
        for part in model.modules():
            if isinstance(part, nn.Embedding):
                hooks.enter_context(part.register_forward_hook(catch))
        yield vectors
