"""Scores and alignments of given targets, on a model whose logits and weights are written by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from selfattn.data.batches import Batch
from selfattn.data.examples import Example
from selfattn.decoding.scoring import TargetScore, score_targets
from selfattn.evaluation.alignment.attention_scores import token_links
from selfattn.evaluation.alignment.links import to_pharaoh
from selfattn.models.protocol import AttentionMaps, DecoderState, Memory, Seq2Seq

EOS = 2


class ByHand(Seq2Seq):
    """Given logits ``[b t v]`` and cross-attention by layer ``[b h t s]``; in training mode it gives nonsense."""

    def __init__(self, logits: Tensor, cross: tuple[Tensor, ...] = ()) -> None:
        super().__init__()
        self.logits, self.cross = torch.nn.Parameter(logits, requires_grad=False), cross

    def encode(self, source: Tensor, source_mask: Tensor) -> Memory:
        raise AssertionError

    def start(self, memory: Memory) -> DecoderState:
        raise AssertionError

    def step(self, token: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        raise AssertionError

    def forward(self, source: Tensor, target_in: Tensor, *, source_mask: Tensor) -> Tensor:
        return self.logits * math.nan if self.training else self.logits

    def attention_maps(self, source: Tensor, target_in: Tensor, *, source_mask: Tensor) -> AttentionMaps:
        return AttentionMaps((), (), tuple(weights * 0 if self.training else weights for weights in self.cross))


# Two sentences: "5 6 7 <eos>" with the target "8 9 <eos>", and "5 <eos>" with the target "8 <eos>".
SOURCE = torch.tensor([[5, 6, 7, EOS], [5, EOS, 0, 0]])
TARGET_IN = torch.tensor([[1, 8, 9], [1, 8, 0]])
TARGET_OUT = torch.tensor([[8, 9, EOS], [8, EOS, 0]])


def score_of(model: Seq2Seq, target_out: Tensor = TARGET_OUT, mask: Tensor = TARGET_OUT != 0) -> Any:
    return score_targets(model, Batch(SOURCE, SOURCE != 0, TARGET_IN, target_out, mask, [0, 1]))


def links_of(model: Seq2Seq, **settings: Any) -> list[list[tuple[int, int]]]:
    examples = [Example([5, 6, 7, EOS], [8, 9, EOS]), Example([5, EOS], [8, EOS])]
    return token_links(model, examples, pad_id=0, bos_id=1, **settings)


def probabilities() -> Tensor:
    rows = torch.full((2, 3, 11), 0.05)
    rows[0, 0, 8], rows[0, 1, 9], rows[0, 2, EOS] = 0.5, 0.25, 0.125
    rows[1, 0, 8], rows[1, 1, EOS] = 0.25, 0.5
    rows[..., 0] += 1 - rows.sum(dim=-1)
    return rows


def test_scores_by_hand() -> None:
    model = ByHand(probabilities().log() + torch.randn(2, 3, 1)).train()
    scores = score_of(model)
    halvings = torch.tensor([[1.0, 2.0, 3.0], [2.0, 1.0, 0.0]])
    torch.testing.assert_close(scores, -math.log(2) * halvings)
    assert scores.double().sum(dim=-1).tolist() == pytest.approx([-6 * math.log(2), -3 * math.log(2)], abs=1e-5)
    assert model.training


def test_the_mean_of_a_token() -> None:
    assert TargetScore(log_probability=-6.0, tokens=4).per_token == -1.5


def test_what_stands_at_padding_is_not_read() -> None:
    logits = probabilities().log()
    logits[1, 2] = math.nan
    scores = score_of(ByHand(logits), TARGET_OUT.masked_fill(TARGET_OUT == 0, -100))
    assert scores[1, 2] == 0
    assert scores[1].double().sum().item() == pytest.approx(-3 * math.log(2), abs=1e-5)


def test_scores_of_half_precision_are_float32() -> None:
    assert score_of(ByHand(probabilities().log().bfloat16())).dtype == torch.float32


def cross(*heads: list[list[float]]) -> Tensor:
    """Weights of the first sentence by head ``[t s]``; the second sentence's are all at its first word."""
    weights = torch.zeros(2, len(heads), 3, 4)
    weights[0] = torch.tensor(heads)
    weights[1, :, :, 0] = 1.0
    return weights


#                     5    6    7    <eos>
FIRST = cross(
    [
        [0.1, 0.6, 0.2, 0.1],  # 8 looks at 6
        [0.3, 0.2, 0.1, 0.4],  # 9 looks at <eos>, and of the words at 5
        [0.1, 0.1, 0.8, 0.0],  # <eos> at 7
    ]
)
SECOND = cross(
    [[0.7, 0.1, 0.1, 0.1], [0.0, 0.1, 0.9, 0.0], [0.0, 1.0, 0.0, 0.0]],
    [[0.1, 0.1, 0.8, 0.0], [0.0, 0.3, 0.7, 0.0], [0.5, 0.5, 0.0, 0.0]],
)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"layer": 0}, [[(1, 0), (0, 1)], [(0, 0)]]),
        ({"layer": 0, "shifted": True}, [[(0, 0), (2, 1)], [(0, 0)]]),
        ({"layer": 1, "head": 0}, [[(0, 0), (2, 1)], [(0, 0)]]),
        ({"layer": 1, "head": 1}, [[(2, 0), (2, 1)], [(0, 0)]]),
        ({"layer": 1, "head": 1, "shifted": True}, [[(2, 0), (0, 1)], [(0, 0)]]),  # the lower of equal ones
        ({}, [[(2, 0), (2, 1)], [(0, 0)]]),  # the last layer's mean: 0.45 at 7, 0.4 at 5
        ({"layer": -2}, [[(1, 0), (0, 1)], [(0, 0)]]),
    ],
)
def test_links_by_hand(settings: dict[str, Any], expected: list[list[tuple[int, int]]]) -> None:
    model = ByHand(probabilities(), (FIRST, SECOND)).train()
    assert links_of(model, **settings) == expected
    assert model.training


def test_who_looks_at_no_word_gets_no_link() -> None:
    weights = FIRST.clone()
    weights[0, 0, 0] = torch.tensor([0.0, 0.0, 0.0, 1.0])
    assert links_of(ByHand(probabilities(), (weights,)))[0] == [(0, 1)]


def test_pharaoh() -> None:
    assert to_pharaoh([(1, 0), (0, 1), (10, 2)]) == "1-0 0-1 10-2"
    assert to_pharaoh([]) == ""


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
        links_of(ByHand(probabilities(), (FIRST, SECOND)), **settings)


def test_a_model_without_attention_says_so() -> None:
    with pytest.raises(ValueError, match="ByHand has no attention to its source"):
        links_of(ByHand(probabilities()))
