"""Compare attention with gold: the share on the right source tokens, and the error rate of the implied alignment.

A target token has two rows of attention: that of the step which writes it, and that of the next step, which reads it.
Which row points to the token's origin depends on the architecture (Chen et al. 2020, "Accurate Word Alignment Induction
from Neural Machine Translation"). Both are scored, the second as "shifted".
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product

import torch
from torch import Tensor
from torch.nn import functional

from selfattn.data.batches import batches
from selfattn.data.pairs import Example, Pair, Span
from selfattn.decoding.common import evaluating
from selfattn.evaluation.alignment.links import AlignmentCounts, Link, diagonal
from selfattn.models.protocol import Seq2Seq
from selfattn.results.attention import HeadAlignment, ModelAlignment
from selfattn.tokenizers.protocol import Tokenizer

Range = tuple[int, int]


def gold_from_spans(spans: Sequence[Span], source: Sequence[Range], target: Sequence[Range]) -> Tensor:
    """Return which source tokens each target token may attend to, from fields whose place in both texts is known.

    Within a field, every target token may attend to every source token. Tokens outside all fields are not scored. No
    link is required, so that the alignment error rate is 1 minus the precision.

    Args:
        spans: the fields, in characters.
        source: half-open range of characters of each source token; empty for ``<eos>``.
        target: the same for the target.

    Returns:
        bool ``[t s]``.

    Example:
        >>> characters = [(0, 1), (1, 2), (2, 2)]
        >>> gold_from_spans([Span("day", (0, 2), (1, 2))], characters, characters).int().tolist()
        [[0, 0, 0], [1, 1, 0], [0, 0, 0]]
    """
    gold = torch.zeros(len(target), len(source), dtype=torch.bool)
    for source_place, target_place in links_of_spans(spans, source, target):
        gold[target_place, source_place] = True
    return gold


def links_of_spans(spans: Sequence[Span], source: Sequence[Range], target: Sequence[Range]) -> set[Link]:
    """Return the links of :func:`gold_from_spans`, as places of a source token and a target token."""
    links: set[Link] = set()
    for span in spans:
        columns = [number for number, place in enumerate(source) if _overlap(place, span.source)]
        rows = [number for number, place in enumerate(target) if _overlap(place, span.target)]
        links.update(product(columns, rows))
    return links


def linked_examples(
    pairs: Iterable[Pair], tokenizer: Tokenizer, spans: Mapping[tuple[str, str], Sequence[Span]]
) -> Iterator[Example]:
    """Turn pairs into examples with the links of their spans, for guided alignment.

    Args:
        pairs: of the training part.
        tokenizer: of both sides.
        spans: of pairs by their texts, in place of the pairs' own.

    Example:
        >>> from selfattn.tokenizers.listed import CharTokenizer
        >>> pair = Pair("ab", "b", spans=(Span("b", (1, 2), (0, 1)),))
        >>> list(linked_examples([pair], CharTokenizer("ab"), {}))
        [Example(source=[4, 5, 2], target=[5, 2], links=((1, 0),))]
    """
    for pair in pairs:
        own = spans.get((pair.source, pair.target), pair.spans)
        source = tokenizer.source.encode(pair.source)
        target = tokenizer.target.encode(pair.target)
        links: set[Link] = set()
        if own:
            links = links_of_spans(own, tokenizer.source.spans(pair.source), tokenizer.target.spans(pair.target))
        yield Example([*source, tokenizer.eos_id], [*target, tokenizer.eos_id], tuple(sorted(links)))


def best_head(alignment: ModelAlignment, *, shifted: bool = False) -> tuple[int, int]:
    """Return layer and number of the head with the largest share of attention on gold; the first of equals.

    Choosing the best of many heads inflates its score. Choose on validation data, and report the same head on the test.

    Args:
        alignment: of every head of a model.
        shifted: whether to use the rows of the steps that read a token; default False.
    """
    step = "shifted_gold_share" if shifted else "gold_share"
    best = max(alignment.heads, key=lambda head: getattr(head, step) or 0.0)
    return best.layer, best.head or 0


@torch.inference_mode()
def score_attention(model: Seq2Seq, examples: Sequence[Example], gold: Sequence[Tensor]) -> ModelAlignment | None:
    """Score the attention of a model that writes given targets.

    Args:
        model: any model of the protocol; put into evaluation mode for the call and back after it.
        examples: sources and right targets, ``<eos>`` behind each.
        gold: for each example, as from `gold_from_spans`.

    Returns:
        The scores, with those of the diagonal; None if the model has no attention to its source. A model that attends
        to source and target together is scored on the part of its attention that goes to the source.

    Example:
        >>> from selfattn.models.build import build
        >>> gold = torch.tensor([[True, True, False], [True, True, False], [False, False, False]])
        >>> model = build("transformer", vocab_size=11)
        >>> scores = score_attention(model, [Example([5, 6, 2], [7, 8, 2])], [gold])
        >>> len(scores.heads), len(scores.means), 0 < scores.heads[0].gold_share < 1
        (4, 1, True)
    """
    sums: dict[int, Tensor] = {}
    for place, layers in source_shares(model, examples, dtype=torch.float64):
        for layer, shares in enumerate(layers):
            added = _sums(shares, gold[place])
            sums[layer] = added + sums[layer] if layer in sums else added
    if not sums:
        return None
    heads: list[HeadAlignment] = []
    means: list[HeadAlignment] = []
    for layer, rows in sums.items():
        *of_heads, mean = (_score(layer, row) for row in rows.tolist())
        heads += [replace(score, head=head) for head, score in enumerate(of_heads)]
        means.append(mean)
    return ModelAlignment(tuple(heads), tuple(means), diagonal_aer=diagonal_counts(gold).aer)


def diagonal_counts(gold: Sequence[Tensor]) -> AlignmentCounts:
    """Count what links along the diagonal share with gold, as a baseline for attention.

    As in `score_attention`, only tokens with gold are linked, and none to ``<eos>``, the last token of both sides.

    Args:
        gold: for each example, as from `gold_from_spans`.

    Example:
        >>> diagonal_counts([torch.eye(3, dtype=torch.bool)]).aer
        0.0
    """
    total = AlignmentCounts()
    for matrix in gold:
        target, source = (length - 1 for length in matrix.shape)
        hits = [bool(matrix[token, place]) for place, token in diagonal(source, target) if matrix[token].any()]
        total += AlignmentCounts(len(hits), in_possible=sum(hits))
    return total


def source_shares(
    model: Seq2Seq,
    examples: Sequence[Example],
    *,
    batch_size: int = 64,
    dtype: torch.dtype = torch.float32,
) -> Iterator[tuple[int, list[Tensor]]]:
    """Yield a model's attention to the source while it writes given targets; each row sums to 1.

    Args:
        model: any model of the protocol; put into evaluation mode meanwhile.
        examples: sources and right targets.
        batch_size: examples read together; default 64.
        dtype: to compute in; default float32.

    Returns:
        The place of each example, and for each layer ``[h + 1, t s]``: every head, and their mean as the last. A row
        without attention to the source is 0. There are no layers where the model has no attention to its source.
    """
    with evaluating(model):
        for batch in batches(examples, batch_size=batch_size, max_tokens=None):
            moved = batch.to(model.device)
            maps = model.attention_maps(moved.source, moved.target_in, source_mask=moved.source_mask).cross
            for row, place in enumerate(batch.indices):
                t = len(examples[place].target)
                s = len(examples[place].source)
                yield place, [_shares(weights[row, :, :t, :s].to(dtype).cpu()) for weights in maps]


@torch.inference_mode()
def token_links(
    model: Seq2Seq,
    examples: Sequence[Example],
    *,
    layer: int = -1,
    head: int | None = None,
    shifted: bool = False,
) -> list[list[Link]]:
    """Link each token of given targets to the source token that it attends to most.

    ``<eos>``, the last token of both sides, is not linked: attention often rests on the source's. The lowest position
    wins a tie.

    Args:
        model: any model of the protocol.
        examples: sources and right targets, ``<eos>`` behind each.
        layer: counted from 0, or from the end where negative; default the last. In a deep Transformer the last but one
            often aligns best (Garg et al. 2019).
        head: counted from 0; default the mean over the layer's heads.
        shifted: use the step that reads a token instead of the step that writes it; default False.

    Returns:
        For each example its links ``(source position, target position)``, from 0, in the order of the target. A token
        that attends to ``<eos>`` alone has no link.

    Raises:
        ValueError: the model has no attention to its source, or no such layer or head.

    Example:
        >>> from selfattn.models.build import build
        >>> model = build("transformer", vocab_size=11)
        >>> (links,) = token_links(model, [Example([5, 6, 2], [7, 8, 9, 2])])
        >>> [target for _, target in links], {source for source, _ in links} <= {0, 1}
        ([0, 1, 2], True)
    """
    linked: dict[int, list[Link]] = {}
    for example, layers in source_shares(model, examples, batch_size=16):
        if not layers:
            raise ValueError(f"{type(model).__name__} has no attention to its source, so there is nothing to align by")
        if not -len(layers) <= layer < len(layers):
            raise ValueError(f"layer must be from {-len(layers)} to {len(layers) - 1}, got {layer}")
        shares = layers[layer]
        if head is not None and not 0 <= head < len(shares) - 1:
            raise ValueError(f"head must be from 0 to {len(shares) - 2}, got {head}")
        most, places = _strongest(shares[-1 if head is None else head].roll(-1 if shifted else 0, dims=0))
        pairs = enumerate(zip(most[:-1].tolist(), places.tolist(), strict=False))
        linked[example] = [(place, token) for token, (weight, place) in pairs if weight > 0]
    return [linked[example] for example in range(len(examples))]


def _shares(heads: Tensor) -> Tensor:
    """Append the mean of the heads ``[h t s]`` and let each row sum to 1."""
    heads = torch.cat([heads, heads.mean(dim=0, keepdim=True)])
    mass = heads.sum(dim=-1, keepdim=True)
    return torch.where(mass > 0, heads / mass, 0.0)


def _strongest(shares: Tensor) -> tuple[Tensor, Tensor]:
    """Return for each row the largest share of a token that is not ``<eos>``, and its place."""
    most, places = functional.pad(shares[..., :-1], (0, 1)).max(dim=-1)
    return most, places


def _sums(shares: Tensor, gold: Tensor) -> Tensor:
    """Sum over the target of one example ``[h + 1, 12]``, for each head and their mean ``[h + 1, t s]``."""
    rows, length = shares.shape[1:]
    entropy = -torch.xlogy(shares, shares).sum(dim=(1, 2))
    columns = [torch.tensor(rows), entropy, entropy / math.log(max(length, 2)), shares[..., -1].sum(dim=1)]
    most, places = _strongest(shares)
    for shift in (0, 1):
        tokens = gold[: rows - shift].any(dim=1).nonzero()[:, 0]
        right = gold[tokens]
        read = tokens + shift
        is_link = most[:, read] > 0
        is_hit = right[torch.arange(len(tokens)), places[:, read]]
        on_gold = (shares[:, read] * right).sum(dim=(1, 2))
        columns += [on_gold, torch.tensor(len(tokens)), is_link.sum(dim=1), (is_link & is_hit).sum(dim=1)]
    return torch.stack([column.to(shares).expand(len(shares)) for column in columns], dim=1)


def _score(layer: int, sums: list[float]) -> HeadAlignment:
    rows, entropy, entropy_share, eos, *of_steps = sums
    writing, reading = (
        (on_gold / tokens if tokens else None, AlignmentCounts(int(links), in_possible=int(hits)).aer)
        for on_gold, tokens, links, hits in (of_steps[:4], of_steps[4:])
    )
    return HeadAlignment(layer, None, *writing, *reading, entropy / rows, entropy_share / rows, eos / rows)


def _overlap(first: Range, second: Range) -> bool:
    return max(first[0], second[0]) < min(first[1], second[1])
