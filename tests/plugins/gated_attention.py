"""An attention of one's own: a gate on the output of every head, opened by the layer's input (Qiu et al. 2025, "Gated
Attention for Large Language Models").

    selfattn --plugin gated_attention.py train dates --set encoder.attention=gated --set decoder.attention=gated
"""

from typing import Any

from torch import Tensor, nn

from selfattn.plugin import MultiHeadAttention, register


@register.attention("gated")
class Gated(MultiHeadAttention):
    """Softmax attention; the heads' outputs are multiplied by ``sigmoid(W x)``."""

    def __init__(self, query_dim: int, context_dim: int | None = None, **options: Any) -> None:
        super().__init__(query_dim, context_dim, **options)
        self.gate = nn.Linear(query_dim, query_dim)

    def join(self, heads: Tensor, x: Tensor) -> Tensor:
        """Close the heads as far as ``x [b i d]`` says, then project them."""
        gate = self.gate(x).sigmoid().unflatten(-1, (self.num_heads, -1))  # [b i h c]
        return super().join(heads * gate.transpose(1, 2), x)
