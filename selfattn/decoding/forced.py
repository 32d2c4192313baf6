"""Forced decoding: the model reads given targets instead of writing its own, to score them or to align them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from selfattn.data.batches import Batch
from selfattn.data.examples import Example
from selfattn.decoding.common import batches_by_length
from selfattn.decoding.probabilities import log_probabilities
from selfattn.decoding.stepping import evaluating
from selfattn.models.protocol import Seq2Seq
from selfattn.tokenizers.protocol import Tokenizer

BATCH_SIZE, MAX_TOKENS = 64, 16_384  # of the batches in which given targets are read


@torch.no_grad()
def score_targets(model: Seq2Seq, batch: Batch) -> Tensor:
    r"""Return :math:`\log p(y_k \mid y_{<k}, x)` for every token of given targets (teacher forcing).

    A target that ends with ``<eos>`` and was written by :func:`~selfattn.decoding.greedy.greedy` or found by
    :func:`~selfattn.decoding.beam.beam_search` has the same log-probability here, up to rounding.

    Args:
        model: any model of the protocol; put into evaluation mode for the call and back after it.
        batch: sources and targets, on the model's device; what stands at padding is not read.

    Returns:
        Natural log-probabilities ``[b t]`` of each token given those before it, float32 or wider; 0 at padding.

    Example:
        >>> from selfattn.data.batches import collate
        >>> from selfattn.models.build import build
        >>> model = build("transformer", vocab_size=11)
        >>> scores = score_targets(model, collate([Example([5, 6, 2], [7, 2])], 0, 1, [0]))
        >>> scores.shape, bool(scores.sum() < 0)
        (torch.Size([1, 2]), True)
    """
    with evaluating(model):
        logits = model(batch.source, batch.target_in, source_mask=batch.source_mask)
    chosen = batch.target_out.masked_fill(~batch.target_mask, 0)
    return log_probabilities(logits).gather(-1, chosen[..., None])[..., 0].masked_fill(~batch.target_mask, 0.0)


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
        >>> [score.tokens for score in score_examples(model, tokenizer, [Example([4, 2], [5, 6, 2])])]
        [3]
    """
    scored: dict[int, TargetScore] = {}
    for batch, places in batches_by_length(model, tokenizer, examples, batch_size=BATCH_SIZE, max_tokens=MAX_TOKENS):
        sums = score_targets(model, batch).double().sum(dim=-1).tolist()
        for place, summed, count in zip(places, sums, batch.target_mask.sum(dim=1).tolist(), strict=True):
            scored[place] = TargetScore(summed, count)
    return [scored[place] for place in range(len(examples))]


Link = tuple[int, int]


@torch.inference_mode()
def alignments(
    model: Seq2Seq,
    batch: Batch,
    *,
    eos_id: int,
    layer: int = -1,
    head: int | None = None,
    shifted: bool = False,
) -> list[list[Link]]:
    r"""Link every token of given targets to the source token that it attends to most (forced decoding).

    .. math:: i(k) = \arg\max_i a_{r(k), i}

    The row :math:`r(k)` is that of the step which predicts token ``k``; shifted, that of the next step, which reads
    it. The two differ in what they align: a state that has read a token often looks at where that token came from,
    not at what comes next (Chen et al. 2020, "Accurate Word Alignment Induction from Neural Machine Translation").
    Try both.

    ``<eos>`` is linked on neither side: attention likes to rest on the source's. The lowest position wins a tie.

    Args:
        model: a model with attention to its source; put into evaluation mode for the call and back after it.
        batch: sources and targets, on the model's device.
        eos_id: the token that ends sources and targets.
        layer: which layer's attention, counted from the end where negative; default the last. In a deep Transformer
            the last but one often aligns best (Garg et al. 2019).
        head: which head; default the mean over heads.
        shifted: take the row of the step that reads a token instead of the one that predicts it; default False. The
            last token of a target without ``<eos>`` is read by no step and gets no link.

    Returns:
        For each sentence its links ``(source position, target position)``, from 0, in the order of the target. A
        token that attends to no source token but ``<eos>`` gets no link.

    Raises:
        ValueError: the model has no attention to its source, or no such layer or head.

    Example:
        >>> from selfattn.data.batches import collate
        >>> from selfattn.models.build import build
        >>> model = build("transformer", vocab_size=11)
        >>> links = alignments(model, collate([Example([5, 6, 2], [7, 8, 9, 2])], 0, 1, [0]), eos_id=2)[0]
        >>> [k for _, k in links], {i for i, _ in links} <= {0, 1}
        ([0, 1, 2], True)
    """
    with evaluating(model):
        maps = model.attention_maps(batch.source, batch.target_in, source_mask=batch.source_mask).cross
    if not maps:
        raise ValueError(f"{type(model).__name__} has no attention to its source, so there is nothing to align by")
    if not -len(maps) <= layer < len(maps):
        raise ValueError(f"layer must be from {-len(maps)} to {len(maps) - 1}, got {layer}")
    weights = maps[layer]
    if head is not None and not 0 <= head < weights.shape[1]:
        raise ValueError(f"head must be from 0 to {weights.shape[1] - 1}, got {head}")
    weights = weights.to(torch.promote_types(weights.dtype, torch.float32))
    rows = weights.mean(dim=1) if head is None else weights[:, head]

    words = batch.source_mask & (batch.source != eos_id)
    linked = batch.target_mask & (batch.target_out != eos_id)
    if shifted:
        rows = rows.roll(-1, dims=1)
        linked = linked & F.pad(batch.target_mask[:, 1:], (0, 1), value=False)
    links: list[list[Link]] = [[] for _ in batch.source]
    if words.any():
        most, places = rows.masked_fill(~words[:, None, :], 0.0).max(dim=-1)
        for sentence, k in (linked & (most > 0)).nonzero().tolist():
            links[sentence].append((int(places[sentence, k]), k))
    return links


def align_examples(
    model: Seq2Seq,
    tokenizer: Tokenizer,
    examples: Sequence[Example],
    *,
    layer: int = -1,
    head: int | None = None,
    shifted: bool = False,
) -> list[list[Link]]:
    """Link the target tokens of every example to the source tokens that they attend to most.

    Args:
        model: one with attention to its source, on any device.
        tokenizer: the one it was trained with.
        examples: sources and targets as ids, with ``<eos>`` at their ends.
        layer: see :func:`alignments`, as for the others.
        head: default the mean over heads.
        shifted: default False.

    Returns:
        The links of each example, in their order.

    Raises:
        ValueError: the model has no attention to its source, or no such layer or head.
    """
    linked: dict[int, list[Link]] = {}
    for batch, places in batches_by_length(model, tokenizer, examples, batch_size=BATCH_SIZE, max_tokens=MAX_TOKENS):
        links = alignments(model, batch, eos_id=tokenizer.eos_id, layer=layer, head=head, shifted=shifted)
        linked |= dict(zip(places, links, strict=True))
    return [linked[place] for place in range(len(examples))]


def to_pharaoh(links: Iterable[Link]) -> str:
    """Write the links of one sentence as ``i-k`` with spaces between, source position first (Pharaoh format).

    Example:
        >>> to_pharaoh([(0, 0), (2, 1), (1, 2)])
        '0-0 2-1 1-2'
    """
    return " ".join(f"{i}-{k}" for i, k in links)
