"""A score of one's own: the cosine of query and key, sharpened by one trained factor (Graves et al. 2014, "Neural
Turing Machines", equations 5 and 6).

    selfattn --plugin cosine_score.py train dates --model rnn-attention --set decoder.score=cosine --out runs/cosine
"""

import torch
from torch import Tensor, nn

from selfattn.plugin import Score, register


@register.score("cosine")
class Cosine(Score):
    """``sharpness * cos(query, key)``."""

    equal_widths = True

    def __init__(self) -> None:
        super().__init__()
        self.sharpness = nn.Parameter(torch.full((1,), 8.0))

    def initialise(self, generator: torch.Generator) -> None:
        """Give the factor its first value; a module of linear layers alone would need no such method."""
        self.sharpness.fill_(8.0)

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        """Compare every query with every key: ``[b h i e], [b h j e] -> [b h i j]``."""
        query, key, _ = self.as_dot(query, key)
        return query @ key.transpose(-2, -1)

    def as_dot(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor, float]:
        """Say that it is a product of two vectors, so that the fused kernel can be used."""
        return self.sharpness * shortened(query), shortened(key), 1.0


def shortened(x: Tensor) -> Tensor:
    """Make long vectors of length 1, and leave short ones short: a direction made of nothing has no derivative."""
    return x / (1 + x.square().sum(dim=-1, keepdim=True)).sqrt()
