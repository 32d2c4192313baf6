"""How probable given targets are: the model reads them instead of writing its own."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from selfattn.decoding.prepare import check_source, check_target, evaluating
from selfattn.decoding.probabilities import log_probabilities
from selfattn.models.protocol import Seq2Seq


@dataclass(frozen=True)
class Scores:
    """Natural log-probabilities of given targets.

    Attributes:
        tokens: of each token given those before it, ``[b t]``, float32 or wider; 0 at padding.
        sums: of each whole target.
    """

    tokens: Tensor
    sums: list[float]


@torch.no_grad()
def score(
    model: Seq2Seq,
    source: Tensor,
    source_mask: Tensor,
    target_in: Tensor,
    target_out: Tensor,
    target_mask: Tensor,
) -> Scores:
    r"""Return :math:`\log p(y_k \mid y_{<k}, x)` for every token of given targets (teacher forcing).

    A target that ends with ``<eos>`` and was written by :func:`~selfattn.decoding.greedy.greedy` or found by
    :func:`~selfattn.decoding.beam.beam_search` has the same log-probability here, up to rounding.

    Args:
        model: any model of the protocol; put into evaluation mode for the call and back after it.
        source: ids ``[b s]``, int64.
        source_mask: bool ``[b s]``, True = real token.
        target_in: ids ``[b t]``, int64, what the model reads: ``<bos>`` and the target without its last token.
        target_out: ids ``[b t]``, int64, what is scored: the target, ``<eos>`` behind it.
        target_mask: bool ``[b t]``, True = real token, of both; what stands elsewhere in ``target_out`` is not read.

    Raises:
        ValueError: a tensor is not as described.

    Example:
        >>> from selfattn.models.build import build
        >>> from selfattn.models.presets import PRESETS
        >>> model = build(PRESETS["transformer"].config, vocab_size=11, pad_id=0, seed=0)
        >>> source, target_in, target_out = torch.tensor([[5, 6, 2]]), torch.tensor([[1, 7]]), torch.tensor([[7, 2]])
        >>> everything = torch.ones(1, 3, dtype=torch.bool)
        >>> scores = score(model, source, everything, target_in, target_out, everything[:, :2])
        >>> scores.tokens.shape, scores.sums[0] < 0
        (torch.Size([1, 2]), True)
    """
    check_source(source, source_mask)
    check_target(source, target_mask, target_in=target_in, target_out=target_out)
    with evaluating(model):
        logits = model(source, target_in, source_mask=source_mask)
    chosen = target_out.masked_fill(~target_mask, 0)
    tokens = log_probabilities(logits).gather(-1, chosen[..., None])[..., 0].masked_fill(~target_mask, 0.0)
    return Scores(tokens, tokens.double().sum(dim=-1).tolist())
