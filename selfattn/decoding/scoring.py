"""How probable given targets are: the model reads them instead of writing its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from selfattn.data.examples import Example
from selfattn.decoding.inputs import batches_by_length, check_source, check_target
from selfattn.decoding.probabilities import log_probabilities
from selfattn.decoding.stepping import evaluating
from selfattn.models.protocol import Seq2Seq
from selfattn.tokenizers.protocol import Tokenizer

BATCH_SIZE, MAX_TOKENS = 64, 16_384  # of the batches in which given targets are read


@torch.no_grad()
def score_targets(
    model: Seq2Seq,
    source: Tensor,
    source_mask: Tensor,
    target_in: Tensor,
    target_out: Tensor,
    target_mask: Tensor,
) -> Tensor:
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

    Returns:
        Natural log-probabilities ``[b t]`` of each token given those before it, float32 or wider; 0 at padding.

    Raises:
        ValueError: a tensor is not as described.

    Example:
        >>> from selfattn.models.build import build
        >>> from selfattn.models.presets import PRESETS
        >>> model = build(PRESETS["transformer"].config, vocab_size=11, pad_id=0, seed=0)
        >>> source, target_in, target_out = torch.tensor([[5, 6, 2]]), torch.tensor([[1, 7]]), torch.tensor([[7, 2]])
        >>> everything = torch.ones(1, 3, dtype=torch.bool)
        >>> scores = score_targets(model, source, everything, target_in, target_out, everything[:, :2])
        >>> scores.shape, bool(scores.sum() < 0)
        (torch.Size([1, 2]), True)
    """
    check_source(source, source_mask)
    check_target(source, target_mask, target_in=target_in, target_out=target_out)
    with evaluating(model):
        logits = model(source, target_in, source_mask=source_mask)
    chosen = target_out.masked_fill(~target_mask, 0)
    return log_probabilities(logits).gather(-1, chosen[..., None])[..., 0].masked_fill(~target_mask, 0.0)


@dataclass(frozen=True)
class TargetScore:
    """How probable a given target is.

    Attributes:
        log_probability: natural, summed over its tokens.
        tokens: how many those are, its end counted.
    """

    log_probability: float
    tokens: int

    @property
    def per_token(self) -> float:
        """The mean log-probability of a token."""
        return self.log_probability / self.tokens


def score_examples(model: Seq2Seq, tokenizer: Tokenizer, examples: Sequence[Example]) -> list[TargetScore]:
    """Score the target of every example, given its source.

    Args:
        model: any model of the protocol, on any device.
        tokenizer: the one it was trained with.
        examples: sources and targets as ids.

    Returns:
        One score for each example, in their order.

    Example:
        >>> from selfattn.models.build import build
        >>> from selfattn.models.presets import PRESETS
        >>> from selfattn.tokenizers.char import CharTokenizer
        >>> tokenizer = CharTokenizer("abc")
        >>> model = build(PRESETS["transformer"].config, vocab_size=len(tokenizer), pad_id=0, seed=0)
        >>> [found.tokens for found in score_examples(model, tokenizer, [Example([4, 2], [5, 6, 2])])]
        [3]
    """
    scored: dict[int, TargetScore] = {}
    for batch, places in batches_by_length(model, tokenizer, examples, batch_size=BATCH_SIZE, max_tokens=MAX_TOKENS):
        scores = score_targets(
            model, batch.source, batch.source_mask, batch.target_in, batch.target_out, batch.target_mask
        )
        sums = scores.double().sum(dim=-1).tolist()
        for place, summed, count in zip(places, sums, batch.target_mask.sum(dim=1).tolist(), strict=True):
            scored[place] = TargetScore(summed, count)
    return [scored[place] for place in range(len(examples))]
