"""Which source token each token of a given target looks at: attention as word alignment."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
import torch.nn.functional as F

from selfattn.data.batches import Batch
from selfattn.data.examples import Example
from selfattn.decoding.inputs import batches_by_length
from selfattn.decoding.scoring import BATCH_SIZE, MAX_TOKENS
from selfattn.decoding.stepping import evaluating
from selfattn.models.protocol import Seq2Seq
from selfattn.tokenizers.protocol import Tokenizer

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
