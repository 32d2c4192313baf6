"""An encoder that labels its source, tasks for it, and how far its labels depend on order."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from selfattn.claims.sequences import BOS, FIRST, random_symbols
from selfattn.data.batches import Batch
from selfattn.layers import initialise
from selfattn.models.protocol import EncoderMemory, Seq2Seq
from selfattn.models.transformer_config import TransformerConfig
from selfattn.streams import generator

SYMBOLS, LONGEST = 12, 20


class Labeller(Seq2Seq):
    """An encoder that writes one token at each position of its source: no mask hides anything, so none leaks order."""

    def __init__(self, config: TransformerConfig, vocab_size: int, seed: int) -> None:
        super().__init__()
        self.encoder = config.make_encoder(nn.Embedding(vocab_size, config.dim, padding_idx=0))
        self.output = nn.Linear(config.dim, vocab_size)
        initialise(self, generator(seed, "init"))

    def encode(self, source: Tensor, source_mask: Tensor) -> EncoderMemory:
        """Run the encoder."""
        memory: EncoderMemory = self.encoder(source, source_mask)
        return memory

    def forward(self, source: Tensor, target_in: Tensor, *, source_mask: Tensor) -> Tensor:
        """Return logits ``[b s v]``; what stands in the target is not read."""
        logits: Tensor = self.output(self.encode(source, source_mask).states)
        return logits


def labelled(task: str, rows: int, shortest: int, longest: int, draws: torch.Generator) -> Batch:
    """Draw sequences of one length; a label is the symbol before (order), or the next larger one anywhere (set)."""
    length = int(torch.randint(shortest, longest + 1, (1,), generator=draws))
    x = random_symbols(rows, length, symbols=SYMBOLS, generator=draws)
    if task == "order":
        labels = x.roll(1, dims=1).index_fill(1, torch.tensor([0]), BOS)
    else:
        end = FIRST + SYMBOLS
        larger = x[:, None, :].expand(-1, length, -1)
        next_one = torch.where(larger > x[:, :, None], larger, end).amin(dim=-1)
        labels = next_one.masked_fill(next_one == end, BOS)
    everywhere = torch.ones_like(x, dtype=torch.bool)
    return Batch(x, everywhere, x, labels, everywhere, list(range(rows)))


@torch.inference_mode()
def permuted_difference(model: Labeller, seed: int) -> float:
    """Return how far logits of permuted symbols are from permuted logits, at most, relative to the largest logit."""
    draws = generator(seed, "claims/permutation")
    x = random_symbols(8, LONGEST, symbols=SYMBOLS, generator=draws)
    places = torch.randperm(LONGEST, generator=draws)
    mask = torch.ones_like(x, dtype=torch.bool)
    straight, permuted = model.eval()(x, x, source_mask=mask), model(x[:, places], x, source_mask=mask)
    return float((permuted - straight[:, places]).abs().max() / straight.abs().max())
