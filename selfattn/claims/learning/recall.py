"""A symbol to be recalled from so many tokens ago, and the least model that can do it."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from selfattn.attention import MultiHeadAttention
from selfattn.claims.sequences import BOS, random_symbols, vocabulary
from selfattn.data.batches import Batch
from selfattn.layers import RecurrentStack
from selfattn.models.protocol import EncoderMemory, Seq2Seq

KINDS, NOISE = 16, 8  # symbols that are to be recalled, and others that stand between


class Reader(Seq2Seq):
    """Reads ids, and says one symbol of what its last token knows: of a recurrent state, or by attending to all."""

    def __init__(self, read: RecurrentStack | MultiHeadAttention, dim: int) -> None:
        super().__init__()
        self.embed, self.read = nn.Embedding(vocabulary(KINDS + NOISE), dim), read
        self.output = nn.Linear(dim, vocabulary(KINDS))

    def last(self, x: Tensor) -> Tensor:
        """Map embedded tokens ``[b s d]`` to the last one's vector ``[b 1 d]``."""
        attends = hasattr(self.read, "project_context")
        known: Tensor = self.read(x[:, -1:], x).output if attends else self.read(x)[0][:, -1:]
        return known

    def encode(self, source: Tensor, source_mask: Tensor) -> EncoderMemory:
        """Read sources without padding."""
        return EncoderMemory(self.last(self.embed(source)), source_mask[:, -1:])

    def forward(self, source: Tensor, target_in: Tensor, *, source_mask: Tensor) -> Tensor:
        """Return logits ``[b 1 v]``."""
        logits: Tensor = self.output(self.last(self.embed(source)))
        return logits


def recalls(rows: int, distance: int, draws: torch.Generator) -> Batch:
    """Make sources that begin with the symbol to be said, so many tokens before the last."""
    wanted = random_symbols(rows, 1, symbols=KINDS, generator=draws)
    others = KINDS + random_symbols(rows, distance, symbols=NOISE, generator=draws)
    source = torch.cat([wanted, others], dim=1)
    every = torch.ones_like(source, dtype=torch.bool)
    return Batch(source, every, torch.full_like(wanted, BOS), wanted, every[:, :1], list(range(rows)))
