"""What attention shows: agreement with a gold alignment, of tokens and of words, and with what outputs depend on.

A target token has two rows of attention: that of the step which writes it, and that of the next step, which reads it.
Which row points to the token's origin depends on the architecture (Chen et al. 2020, "Accurate Word Alignment Induction
from Neural Machine Translation"). Both are scored, the second as "shifted".

Attention to a word is the sum over its tokens, attention from a word the mean over its tokens (`to_words`). A space
belongs to the word that follows, as in subwords. Each target word is linked to the source word it attends to most.

Attention shows where a model looks, not what its output depends on (Jain and Wallace 2019; Wiegreffe and Pinter 2019).
Two other measures stand beside it: the change when a source token is hidden, and gradient times input. Both need only
the protocol, so they work for every model family. captum's occlusion replaces a token instead of hiding it, and inseq
expects Hugging Face models.
"""

import math
import statistics
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import accumulate, product
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from selfattn.data.batches import batches, collate
from selfattn.data.pairs import Example, Pair, Span
from selfattn.decoding.common import evaluating, log_probabilities
from selfattn.evaluation.links import AlignmentCounts, GoldPair, Link, Links, count_alignment, diagonal
from selfattn.models.protocol import Seq2Seq, stepped_logits
from selfattn.results.record import Agreement, HeadAlignment, ModelAlignment
from selfattn.streams import global_state
from selfattn.tokenizers.protocol import BOS, PAD, Tokenizer

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
        links.update(product(_overlapping(source, span.source), _overlapping(target, span.target)))
    return links


def _overlapping(places: Sequence[Range], place: Range) -> list[int]:
    """Return the numbers of the places that share a character with this one."""
    first, last = place
    if first >= last:
        return []
    return [number for number, (start, end) in enumerate(places) if start < last and first < end and start < end]


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
    model: Seq2Seq, examples: Sequence[Example], *, batch_size: int = 64, dtype: torch.dtype = torch.float32
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
    model: Seq2Seq, examples: Sequence[Example], *, layer: int = -1, head: int | None = None, shifted: bool = False
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
        strongest, places = _strongest(shares[-1 if head is None else head].roll(-1 if shifted else 0, dims=0))
        pairs = enumerate(zip(strongest[:-1].tolist(), places.tolist(), strict=False))
        linked[example] = [(place, token) for token, (weight, place) in pairs if weight > 0]
    return [linked[example] for example in range(len(examples))]


def _shares(heads: Tensor) -> Tensor:
    """Append the mean of the heads ``[h t s]`` and let each row sum to 1."""
    heads = torch.cat([heads, heads.mean(dim=0, keepdim=True)])
    mass = heads.sum(dim=-1, keepdim=True)
    return torch.where(mass > 0, heads / mass, 0.0)


def _strongest(shares: Tensor) -> tuple[Tensor, Tensor]:
    """Return for each row the largest share of a token that is not ``<eos>``, and its place."""
    strongest, places = functional.pad(shares[..., :-1], (0, 1)).max(dim=-1)
    return strongest, places


def _sums(shares: Tensor, gold: Tensor) -> Tensor:
    """Sum over the target of one example ``[h + 1, 12]``, for each head and their mean ``[h + 1, t s]``."""
    rows, length = shares.shape[1:]
    entropy = -torch.xlogy(shares, shares).sum(dim=(1, 2))
    columns = [torch.tensor(rows), entropy, entropy / math.log(max(length, 2)), shares[..., -1].sum(dim=1)]
    strongest, places = _strongest(shares)
    for shift in (0, 1):
        tokens = gold[: rows - shift].any(dim=1).nonzero()[:, 0]
        right = gold[tokens]
        read = tokens + shift
        is_link = strongest[:, read] > 0
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


_BATCH_SIZE = 16


class AttentionReading(NamedTuple):
    """Which attention is read as an alignment.

    Attributes:
        layer: counted from 0.
        head: counted from 0; None for the mean of the layer's heads.
        shifted: whether a token is aligned by the step that reads it, not by the one that writes it.
    """

    layer: int
    head: int | None
    shifted: bool

    def __str__(self) -> str:
        head = "mean of heads" if self.head is None else f"head {self.head}"
        return f"layer {self.layer}, {head}, shifted by {int(self.shifted)}"


@torch.inference_mode()
def word_links(
    model: Seq2Seq, tokenizer: Tokenizer, pairs: Sequence[GoldPair]
) -> dict[AttentionReading, list[set[Link]]]:
    """Let a model write given targets and read its attention as links between words, in every way.

    Args:
        model: any model of the protocol, on any device.
        tokenizer: the one it was trained with.
        pairs: sentences; their links are not looked at.

    Returns:
        For each way the links of every pair, (source, target) from 0. Empty where the model has no attention to its
        source.

    Raises:
        ValueError: a sentence is longer than the model can read.

    Example:
        >>> from selfattn.evaluation.links import Links
        >>> from selfattn.models.build import build
        >>> from selfattn.models.families import PRESETS
        >>> from selfattn.tokenizers.listed import CharTokenizer
        >>> tokenizer = CharTokenizer("abc ")
        >>> model = build(PRESETS["transformer"].config, vocab_size=len(tokenizer), pad_id=0, seed=0)
        >>> links = word_links(model, tokenizer, [GoldPair(("ab", "c"), ("c", "aa", "b"), Links())])
        >>> len(links), sorted(k for _, k in links[AttentionReading(0, None, False)][0])
        (10, [0, 1, 2])
    """
    sides = [(_tokens(pair.source, tokenizer.source), _tokens(pair.target, tokenizer.target)) for pair in pairs]
    examples = [Example(source[0], target[0]) for source, target in sides]
    links: dict[AttentionReading, dict[int, set[Link]]] = {}
    for place, layers in source_shares(model, examples, batch_size=_BATCH_SIZE):
        source, target = sides[place]
        for layer, shares in enumerate(layers):
            for way, read in _read(shares, source[1], target[1], layer).items():
                links.setdefault(way, {})[place] = read
    return {way: [by_place[place] for place in range(len(pairs))] for way, by_place in links.items()}


def words_of_pair(pair: Pair) -> GoldPair:
    """Divide both sides of a pair into words, which are what stands between spaces; without links.

    Example:
        >>> words_of_pair(Pair("a dog", "ein  Hund")).target
        ('ein', 'Hund')
    """
    source = tuple(word for word in pair.source.split(" ") if word)
    target = tuple(word for word in pair.target.split(" ") if word)
    return GoldPair(source, target, Links())


def report_alignment(links: Mapping[AttentionReading, Sequence[set[Link]]], gold: Sequence[GoldPair]) -> dict[str, Any]:
    """Compare links with gold.

    Args:
        links: from `word_links`.
        gold: the sentence pairs.

    Returns:
        Plain JSON values: number of ``pairs``, of their ``sure`` links and of their ``possible`` ones, the sure ones
        among them; ``ways`` to read the attention, each with its figures (`AlignmentCounts.figures`); ``best``, the way
        with the lowest error on these pairs, whose choice inflates its score; and as a baseline the figures of the
        ``diagonal``.
    """
    right = [pair.links for pair in gold]
    counts = {way: count_alignment(some, right) for way, some in links.items()}
    return {
        "pairs": len(gold),
        "sure": sum(len(some.sure) for some in right),
        "possible": sum(len(some.possible) for some in right),
        "ways": [way._asdict() | some.figures for way, some in counts.items()],
        "best": min(counts, key=lambda way: _error(counts[way]))._asdict(),
        "diagonal": _diagonal_counts(gold).figures,
    }


def align_words(model: Seq2Seq, tokenizer: Tokenizer, gold: Sequence[GoldPair]) -> ModelAlignment | None:
    """Compare attention, read as links between words, with hand-made links.

    The best head, for either step, is the one with the lowest error on the first half of the pairs; figures are of the
    second half.

    Args:
        model: any of the protocol.
        tokenizer: of it.
        gold: at least two pairs.

    Returns:
        None where the model has no attention to its source.
    """
    links = word_links(model, tokenizer, gold)
    half = len(gold) // 2
    if not links:
        return None
    right = [pair.links for pair in gold]
    chosen_on = {way: _error(count_alignment(some[:half], right[:half])) for way, some in links.items()}
    reported = {way: count_alignment(some[half:], right[half:]).aer for way, some in links.items()}
    rows = [
        HeadAlignment(way.layer, way.head, aer=reported[way], shifted_aer=reported[way._replace(shifted=True)])
        for way in links
        if not way.shifted
    ]

    def best(shifted: bool) -> tuple[int, int]:
        ways = (way for way in links if way.shifted == shifted and way.head is not None)
        layer, head, _ = min(ways, key=chosen_on.__getitem__)
        return layer, head or 0

    return ModelAlignment(
        heads=tuple(row for row in rows if row.head is not None),
        means=tuple(row for row in rows if row.head is None),
        best=best(shifted=False),
        best_shifted=best(shifted=True),
        diagonal_aer=_diagonal_counts(gold[half:]).aer,
    )


def to_words(weights: Tensor, source_words: Sequence[int], target_words: Sequence[int]) -> Tensor:
    """Turn attention between tokens into attention between words.

    Attention to a word is the sum over its tokens, attention from a word the mean over its tokens (Clark et al. 2019,
    section 4.1), so that every row stays a distribution. Where one token covers two words, it is the first
    one's; the second has no token of its own, and its row and column are 0.

    Args:
        weights: ``[.. t s]``.
        source_words: for each source token the number of its word, from 0, never falling; ``<eos>`` is a word.
        target_words: the same for the target.

    Returns:
        ``[.. words of the target, words of the source]``.

    Example:
        >>> weights = torch.tensor([[0.5, 0.25, 0.25], [0.0, 0.25, 0.75]])
        >>> to_words(weights, [0, 0, 1], [0, 0]).tolist()
        [[0.5, 0.5]]
    """
    source, target = (torch.nn.functional.one_hot(torch.tensor(words)) for words in (source_words, target_words))
    summed = weights @ source.to(weights)
    # The clamp keeps a word without a token from a division by 0.
    return (target.to(weights) / target.sum(dim=0).clamp(min=1).to(weights)).T @ summed


def _error(counts: AlignmentCounts) -> float:
    """The alignment error rate, as something to choose by."""
    return math.inf if counts.aer is None else counts.aer


def _diagonal_counts(gold: Sequence[GoldPair]) -> AlignmentCounts:
    along = [diagonal(len(pair.source), len(pair.target)) for pair in gold]
    return count_alignment(along, [pair.links for pair in gold])


def _tokens(words: Sequence[str], tokenizer: Tokenizer) -> tuple[list[int], list[int]]:
    """The ids of a sentence, ``<eos>`` behind, and for each id the number of its word."""
    text = " ".join(words)
    ends = [end - 1 for end in accumulate(len(word) + 1 for word in words)]  # of words, in characters of the text
    numbers = [min(bisect_right(ends, start), len(words) - 1) for start, _ in tokenizer.spans(text)]
    return [*tokenizer.encode(text), tokenizer.eos_id], [*numbers, len(words)]


def _read(
    shares: Tensor, source: Sequence[int], target: Sequence[int], layer: int
) -> dict[AttentionReading, set[Link]]:
    """Read the attention ``[h + 1, t s]`` of one layer to one sentence as links, in every way."""
    links = {}
    for shifted in (False, True):
        # The row of <eos> comes to the front of the first step's, and its word is dropped below.
        rows = shares.roll(-1, dims=1) if shifted else shares
        strongest, places = to_words(rows, source, target)[:, :-1, :-1].max(dim=-1)
        for head, (is_link, to) in enumerate(zip((strongest > 0).tolist(), places.tolist(), strict=True)):
            way = AttentionReading(layer, head if head < len(shares) - 1 else None, shifted)
            links[way] = {(place, word) for word, place in enumerate(to) if is_link[word]}
    return links


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
        >>> from selfattn.models.families import PRESETS
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
        >>> from selfattn.models.families import PRESETS
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
            ids = source.expand(len(steps), -1).clone()  # which may come from inference mode
            mask = torch.ones_like(ids, dtype=torch.bool)
            with _embedded(model, ids) as vectors:
                memory = model.encode(ids, mask)
            if not vectors:
                return None
            state = model.start(memory)
            read = target_in.expand(len(steps), -1).clone()
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
    from selfattn.evaluation.significance import estimate

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
