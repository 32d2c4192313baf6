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

    def as_dot(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor, float]:
        """Return two vectors and a factor, whose product is the score: the fused kernel computes it."""
        return self.sharpness * shortened(query), shortened(key), 1.0


def shortened(x: Tensor) -> Tensor:
    """Scale long vectors to length 1 and keep short ones short: at zero, a direction has no derivative."""
    return x / (1 + x.square().sum(dim=-1, keepdim=True)).sqrt()
