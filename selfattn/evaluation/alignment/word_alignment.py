"""Read attention between tokens as an alignment of words, and compare it with gold.

Attention to a word is the sum over its tokens, attention from a word the mean over its tokens (`to_words`). A space
belongs to the word that follows, as in subwords. Each target word is linked to the source word it attends to most.
"""

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import torch
from torch import Tensor

from selfattn.data.pairs import Example, Pair
from selfattn.evaluation.alignment.attention_scores import source_shares
from selfattn.evaluation.alignment.links import AlignmentCounts, GoldPair, Link, Links, count_alignment, diagonal
from selfattn.models.protocol import Seq2Seq
from selfattn.results.attention import HeadAlignment, ModelAlignment
from selfattn.tokenizers.protocol import Tokenizer

_BATCH_SIZE = 16


class Way(NamedTuple):
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
def word_links(model: Seq2Seq, tokenizer: Tokenizer, pairs: Sequence[GoldPair]) -> dict[Way, list[set[Link]]]:
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
        >>> from selfattn.evaluation.alignment.links import Links
        >>> from selfattn.models.build import build
        >>> from selfattn.models.presets import PRESETS
        >>> from selfattn.tokenizers.listed import CharTokenizer
        >>> tokenizer = CharTokenizer("abc ")
        >>> model = build(PRESETS["transformer"].config, vocab_size=len(tokenizer), pad_id=0, seed=0)
        >>> links = word_links(model, tokenizer, [GoldPair(("ab", "c"), ("c", "aa", "b"), Links())])
        >>> len(links), sorted(k for _, k in links[Way(0, None, False)][0])
        (10, [0, 1, 2])
    """
    sides = [(_tokens(pair.source, tokenizer), _tokens(pair.target, tokenizer)) for pair in pairs]
    examples = [Example(source[0], target[0]) for source, target in sides]
    links: dict[Way, dict[int, set[Link]]] = {}
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


def report_alignment(links: Mapping[Way, Sequence[set[Link]]], gold: Sequence[GoldPair]) -> dict[str, Any]:
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


def _read(shares: Tensor, source: Sequence[int], target: Sequence[int], layer: int) -> dict[Way, set[Link]]:
    """Read the attention ``[h + 1, t s]`` of one layer to one sentence as links, in every way."""
    links = {}
    for shifted in (False, True):
        # The row of <eos> comes to the front of the first step's, and its word is dropped below.
        rows = shares.roll(-1, dims=1) if shifted else shares
        most, places = to_words(rows, source, target)[:, :-1, :-1].max(dim=-1)
        for head, (is_link, to) in enumerate(zip((most > 0).tolist(), places.tolist(), strict=True)):
            way = Way(layer, head if head < len(shares) - 1 else None, shifted)
            links[way] = {(place, word) for word, place in enumerate(to) if is_link[word]}
    return links
