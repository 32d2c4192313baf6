"""Token embeddings, with positions added where a model adds them, and the layer that maps back to tokens."""

import math

import torch
from torch import Tensor, nn

from selfattn.attention import EmbeddingPosition
from selfattn.layers.dropout import Dropout


class TokenEmbedding(nn.Module):
    """Look tokens up, scale, add positions, drop out (Vaswani et al. 2017, sections 3.4, 3.5 and 5.4).

    Args:
        tokens: the table ``[v d]``; handed over, so that several places can share it.
        position: vectors added by position; default none.
        scale: multiply the looked-up vectors by ``sqrt(d)``; default False.
        dropout: probability of dropping a unit while training; default 0.

    Raises:
        ValueError: the position gives vectors of another shape than its positions and the table's width.

    Example:
        >>> from selfattn.attention import Sinusoidal
        >>> embed = TokenEmbedding(nn.Embedding(11, 4), Sinusoidal(4), scale=True)
        >>> embed(torch.tensor([[3, 7]])).shape
        torch.Size([1, 2, 4])
    """

    def __init__(
        self,
        tokens: nn.Embedding,
        position: EmbeddingPosition | None = None,
        *,
        scale: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.tokens = tokens
        self.position = position
        self.scale = math.sqrt(tokens.embedding_dim) if scale else 1.0
        self.dropout = Dropout(dropout)

    def forward(self, ids: Tensor, positions: Tensor | None = None) -> Tensor:
        """Map ids ``[b t]`` (positions ``[t]`` or ``[b t]``, default 0, 1, 2, ...) to vectors ``[b t d]``."""
        x: Tensor = self.tokens(ids)
        if self.scale != 1.0:
            x = x * self.scale
        if self.position is not None:
            if positions is None:
                positions = torch.arange(ids.shape[-1], device=ids.device)
            added = self.position(positions)
            if added.shape != (*positions.shape, x.shape[-1]):
                raise ValueError(
                    f"{type(self.position).__name__}: expected a vector of width {x.shape[-1]} for each of the "
                    f"positions {tuple(positions.shape)}, got {tuple(added.shape)}"
                )
            x = x + added.to(x.dtype)
        dropped: Tensor = self.dropout(x)
        return dropped


def output_layer(dim: int, tokens: nn.Embedding, tie: bool) -> nn.Linear:
    """Build the layer that maps ``[.. d]`` to logits, with the embedding table's weights or with its own."""
    output = nn.Linear(dim, tokens.num_embeddings)
    if tie:
        output.weight = tokens.weight
    return output
