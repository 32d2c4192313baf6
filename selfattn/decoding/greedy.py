"""Greedy decoding: at every step the most probable token, for a whole batch at once."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from selfattn.decoding.hypotheses import Hypotheses
from selfattn.decoding.prepare import check_source, length_limits
from selfattn.decoding.write import write
from selfattn.models.protocol import Seq2Seq


def greedy(
    model: Seq2Seq, source: Tensor, source_mask: Tensor, *, bos_id: int, eos_id: int, max_length: int | Sequence[int]
) -> Hypotheses:
    r"""Write :math:`y_k = \arg\max_y p(y \mid y_{<k}, x)` until ``<eos>``, for every source of a batch.

    A sentence that is finished leaves the batch (``state.reorder``), so a long one does not hold up the others. The
    model is put into evaluation mode for the call and back after it.

    Args:
        model: any model of the protocol; only encode, start and step are called.
        source: ids ``[b s]``, int64.
        source_mask: bool ``[b s]``, True = real token.
        bos_id: the token that every target begins with.
        eos_id: the token that ends a target.
        max_length: the most steps, ``<eos>`` counted; one number, or one for each source; at least 1.

    Returns:
        One hypothesis for each source, in their order. The lowest id wins a tie.

    Raises:
        ValueError: ``max_length`` is not positive or not one for each source, or source and mask are not as described.

    Example:
        >>> from selfattn.models.build import build
        >>> from selfattn.models.presets import PRESETS
        >>> model = build(PRESETS["transformer"].config, vocab_size=11, pad_id=0, seed=0)
        >>> source = torch.tensor([[5, 6, 2], [7, 2, 0]])
        >>> found = greedy(model, source, source != 0, bos_id=1, eos_id=2, max_length=3)
        >>> [len(ids) <= 3 for ids in found.ids]
        [True, True]
    """
    check_source(source, source_mask)
    limits = length_limits(max_length, len(source))

    def most_probable(log_probs: Tensor, sentences: list[int], step: int) -> Tensor:
        return torch.argmax(log_probs, dim=-1)

    return write(model, source, source_mask, bos_id=bos_id, eos_id=eos_id, limits=limits, choose=most_probable)
