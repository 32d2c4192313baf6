"""A position of one's own: a bias that falls with the logarithm of the distance, each head at a trained rate (Chi et
al. 2022, "KERPLE: Kernelized Relative Positional Embedding for Length Extrapolation", equation 6).

    selfattn --plugin kerple_position.py train dates --set encoder.position=kerple --set decoder.position=kerple
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from selfattn.plugin import AttentionPosition, register


@register.position("kerple")
class Kerple(AttentionPosition):
    """``-r1 log(1 + r2 |i - j|)`` with ``r1, r2 > 0`` of each head; the number of heads is handed to it by its name."""

    def __init__(self, num_heads: int) -> None:
        super().__init__()
        self.raw = nn.Parameter(torch.linspace(-1.0, 1.0, 2 * num_heads).reshape(2, num_heads))

    def initialise(self, generator: torch.Generator) -> None:
        """Draw the first values."""
        self.raw.uniform_(-1.0, 1.0, generator=generator)

    def bias(self, query_positions: Tensor, key_positions: Tensor) -> Tensor:
        """Return ``[h i j]``, or ``[b h i j]`` for positions of each row."""
        distance = (query_positions[..., :, None] - key_positions[..., None, :]).abs().unsqueeze(-3)
        height, rate = F.softplus(self.raw)[..., None, None]
        return -height * torch.log1p(rate * distance)
