"""Attention against gold."""

from __future__ import annotations

from dataclasses import dataclass

from selfattn.codec import Plain
from selfattn.figures.quality import Share


@dataclass(frozen=True)
class HeadAlignment(Plain):
    """How the attention of one head, or the mean of a layer's heads, lies against gold spans or links.

    Args:
        layer: counted from 0.
        head: counted from 0; None for the mean of the layer's heads.
        gold_share: share of the attention on the gold source tokens, by the step that writes a token.
        aer: alignment error rate of each token's most attended source token; lower is better.
        shifted_gold_share: the same by the step that reads the token.
        shifted_aer: likewise.
        entropy: nats.
        entropy_share: of the largest possible.
        eos_share: attention on the source's end of sentence.
    """

    layer: int
    head: int | None = None
    gold_share: float | None = None
    aer: Share | None = None
    shifted_gold_share: float | None = None
    shifted_aer: Share | None = None
    entropy: float | None = None
    entropy_share: float | None = None
    eos_share: float | None = None


@dataclass(frozen=True)
class ModelAlignment(Plain):
    """A model's attention against gold, on the test items, of its run with the first seed.

    Args:
        heads: every head of every layer.
        means: the mean of the heads of each layer.
        best: the row among `heads` that was best on validation items: [layer, head].
        diagonal_aer: alignment error rate of links along the diagonal, which ask no model.
    """

    heads: tuple[HeadAlignment, ...]
    means: tuple[HeadAlignment, ...]
    best: tuple[int, int] | None = None
    diagonal_aer: Share | None = None
