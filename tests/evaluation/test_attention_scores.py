"""Attention against gold: shares, entropy and alignments, by hand and on whole models."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from selfattn.data.dates.source import DateSource
from selfattn.data.pairs import Example, Pair, Span, encode_pairs
from selfattn.evaluation.alignment.attention_scores import (
    best_head,
    diagonal_counts,
    gold_from_spans,
    score_attention,
    token_links,
)
from selfattn.evaluation.alignment.links import AlignmentCounts, Link
from selfattn.models.build import build
from selfattn.models.presets import PRESETS
from selfattn.models.protocol import AttentionMaps, Memory, Seq2Seq
from selfattn.results.attention import ModelAlignment
from selfattn.tokenizers.char import CharTokenizer

EOS = 2


class Fixed(Seq2Seq):
    """Attends as it is told: one tensor ``[b h t s]`` a layer."""

    def __init__(self, *maps: Tensor) -> None:
        super().__init__()
        self.maps = maps
        self.weight = torch.nn.Parameter(torch.zeros(1))

    def encode(self, source: Tensor, source_mask: Tensor) -> Memory:
        raise AssertionError

    def attention_maps(self, source: Tensor, target_in: Tensor, *, source_mask: Tensor) -> AttentionMaps:
        return AttentionMaps((), (), self.maps)


def score(maps: Sequence[Tensor], gold: Tensor) -> ModelAlignment:
    """Score the maps ``[h t s]`` of one example, one a layer."""
    t, s = gold.shape
    example = Example([5] * (s - 1) + [EOS], [6] * (t - 1) + [EOS])
    found = score_attention(Fixed(*(weights[None] for weights in maps)), [example], [gold], pad_id=0, bos_id=1)
    assert found is not None
    return found


def gold_of_links(links: set[Link], source_tokens: int, target_tokens: int) -> Tensor:
    gold = torch.zeros(target_tokens, source_tokens, dtype=torch.bool)
    for source, target in links:
        gold[target, source] = True
    return gold


# Two source words and <eos>, two target words and <eos>; the first comes from the second, the second from the first.
CROSSED = gold_of_links({(1, 0), (0, 1)}, 3, 3)
RIGHT = torch.tensor([[0.25, 0.5, 0.25], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
LATE = torch.tensor([[0.0, 0.0, 1.0], [0.25, 0.5, 0.25], [1.0, 0.0, 0.0]])  # the same, one row later


def test_the_diagonal_by_hand() -> None:
    straight = gold_of_links({(0, 0), (1, 1), (2, 1)}, 4, 3)
    # Target words 0 and 1 of 2 have their middles in source words 0 and 2 of 3.
    assert diagonal_counts([straight]) == AlignmentCounts(links=2, in_possible=2)
    assert diagonal_counts([CROSSED]).aer == 1
    assert diagonal_counts([straight, CROSSED]) == AlignmentCounts(links=4, in_possible=2)


def test_a_head_by_hand() -> None:
    (head,) = score([RIGHT[None]], CROSSED).heads
    assert (head.layer, head.head) == (0, 0)
    assert head.gold_share == (0.5 + 1.0) / 2
    assert head.aer == 0
    assert head.eos_share == pytest.approx((0.25 + 0 + 1) / 3)
    entropy = (0.25 * math.log(4) + 0.5 * math.log(2) + 0.25 * math.log(4)) / 3  # the other two rows are certain
    assert head.entropy == pytest.approx(entropy)
    assert head.entropy_share == pytest.approx(entropy / math.log(3))


def test_shifted_rows_are_those_of_the_steps_that_read_a_token() -> None:
    (late,) = score([LATE[None]], CROSSED).heads
    (right,) = score([RIGHT[None]], CROSSED).heads
    assert (late.shifted_gold_share, late.shifted_aer) == (right.gold_share, right.aer)
    assert late.gold_share == (0.0 + 0.25) / 2
    # The first row looks at nothing but <eos>, which links nothing; the second at the second word, which is wrong.
    assert late.aer == 1


def test_the_best_head_and_the_mean_of_heads() -> None:
    scores = score([torch.stack([LATE, RIGHT]), torch.stack([LATE, LATE])], CROSSED)
    assert [(head.layer, head.head) for head in scores.heads] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert [(mean.layer, mean.head) for mean in scores.means] == [(0, None), (1, None)]
    assert best_head(scores) == (0, 1)
    assert best_head(scores, shifted=True) == (0, 0)  # the first of equals
    mean = scores.means[0]
    assert mean.gold_share == pytest.approx((0.75 + 0.125) / 2)
    assert mean.entropy > (scores.heads[0].entropy + scores.heads[1].entropy) / 2  # mixing heads spreads them
    assert replace(scores.means[1], head=0) == scores.heads[2]


def test_attention_that_goes_elsewhere_as_well() -> None:
    """A decoder-only model spends some of its attention on the target; the shares are of what the source gets."""
    (whole,) = score([RIGHT[None]], CROSSED).heads
    (half,) = score([RIGHT[None] / 2], CROSSED).heads
    assert half == whole
    (nothing,) = score([RIGHT[None] * 0], CROSSED).heads
    assert nothing.gold_share == nothing.entropy == nothing.eos_share == 0


def test_examples_are_added_up_whatever_the_batches() -> None:
    """Also where lengths differ: what stands in the padding has no part in it."""
    pairs = DateSource(split="test").pairs(7)
    tokenizer = CharTokenizer.train([pair.source + pair.target for pair in pairs])
    examples = encode_pairs(pairs, tokenizer)
    gold = [gold_of(pair) for pair in pairs]
    for name in ("rnn-multi-head", "decoder-only"):
        model = build(PRESETS[name].config, vocab_size=len(tokenizer), pad_id=0, seed=0).double().train()
        scores = [score_attention(model, examples, gold, pad_id=0, bos_id=1, batch_size=size) for size in (1, 3, 7)]
        assert scores[0] is not None
        assert model.training
        for other in scores[1:]:
            assert other is not None
            for first, second in zip(scores[0].heads, other.heads, strict=True):
                assert first.aer == second.aer
                assert first.shifted_gold_share == pytest.approx(second.shifted_gold_share)
                assert first.entropy == pytest.approx(second.entropy)


def characters(length: int) -> list[tuple[int, int]]:
    """The place of every character of a text, and of ``<eos>`` behind them."""
    return [(place, min(place + 1, length)) for place in range(length + 1)]


def gold_of(pair: Pair) -> Tensor:
    return gold_from_spans(pair.spans, characters(len(pair.source)), characters(len(pair.target)))


def test_spans_reach_every_token_that_they_touch() -> None:
    """Tokens of several characters: ``No|vem|ber`` and the month."""
    gold = gold_from_spans([Span("month", (1, 4), (5, 7))], [(0, 2), (2, 5), (5, 8), (8, 8)], [(0, 5), (5, 7), (7, 7)])
    assert gold.int().tolist() == [[0, 0, 0, 0], [1, 1, 0, 0], [0, 0, 0, 0]]
    assert not gold_from_spans([], characters(2), characters(1)).any()


def test_a_model_without_attention_has_no_scores() -> None:
    model = build(PRESETS["rnn-plain"].config, vocab_size=23, pad_id=0, seed=0)
    example = Example([5, EOS], [6, EOS])
    gold = gold_of_links({(0, 0)}, 2, 2)
    assert score_attention(model, [example], [gold], pad_id=0, bos_id=1) is None


def test_an_empty_source_has_nowhere_to_point() -> None:
    (head,) = score([torch.ones(1, 2, 1)], gold_of_links(set(), 1, 2)).heads
    assert head.aer == AlignmentCounts().aer
    assert head.gold_share is None
    assert (head.entropy, head.entropy_share, head.eos_share) == (0, 0, 1)


def test_gold_must_fit() -> None:
    example = Example([5, EOS], [6, EOS])
    model = Fixed(torch.ones(1, 1, 2, 2))
    with pytest.raises(ValueError, match=r"expected gold of the shapes \[\(2, 2\)\]"):
        score_attention(model, [example], [CROSSED], pad_id=0, bos_id=1)


# "5 6 7 <eos>" with the target "8 9 <eos>": each row is a step, each column a source token.
FIRST = [[0.1, 0.6, 0.2, 0.1], [0.3, 0.2, 0.1, 0.4], [0.1, 0.1, 0.8, 0.0]]  # 9 looks at <eos>, and of the words at 5
SECOND = [[0.7, 0.1, 0.1, 0.1], [0.0, 0.1, 0.9, 0.0], [0.0, 1.0, 0.0, 0.0]]
THIRD = [[0.1, 0.1, 0.8, 0.0], [0.0, 0.3, 0.7, 0.0], [0.5, 0.5, 0.0, 0.0]]


def links_of(*layers: list[list[list[float]]], **settings: Any) -> list[tuple[int, int]]:
    model = Fixed(*(torch.tensor([heads]) for heads in layers))
    (links,) = token_links(model, [Example([5, 6, 7, EOS], [8, 9, EOS])], pad_id=0, bos_id=1, **settings)
    return links


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"layer": 0}, [(1, 0), (0, 1)]),
        ({"layer": 0, "shifted": True}, [(0, 0), (2, 1)]),
        ({"layer": 1, "head": 0}, [(0, 0), (2, 1)]),
        ({"layer": 1, "head": 1}, [(2, 0), (2, 1)]),
        ({"layer": 1, "head": 1, "shifted": True}, [(2, 0), (0, 1)]),  # the lower of equal ones
        ({}, [(2, 0), (2, 1)]),  # the last layer's mean: 0.45 at 7, 0.4 at 5
        ({"layer": -2}, [(1, 0), (0, 1)]),
    ],
)
def test_links_by_hand(settings: dict[str, Any], expected: list[tuple[int, int]]) -> None:
    assert links_of([FIRST], [SECOND, THIRD], **settings) == expected


def test_a_token_that_looks_at_no_word_gets_no_link() -> None:
    assert links_of([[[0.0, 0.0, 0.0, 1.0], *FIRST[1:]]]) == [(0, 1)]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"layer": 2}, "layer must be from -2 to 1, got 2"),
        ({"layer": -3}, "layer must be from -2 to 1, got -3"),
        ({"head": 2}, "head must be from 0 to 1, got 2"),
        ({"head": -1}, "head must be from 0 to 1, got -1"),
    ],
)
def test_layers_and_heads_that_there_are_not(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        links_of([FIRST], [SECOND, THIRD], **settings)


def test_a_model_without_attention_cannot_align() -> None:
    with pytest.raises(ValueError, match="Fixed has no attention to its source"):
        links_of()
