"""Claim: attention is an explanation only where its keys know nothing of their neighbours."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn

from selfattn.attention import MultiHeadAttention
from selfattn.claims import small
from selfattn.claims.claim import Blocks, Claim, Contrasts, Setup, Trials, share
from selfattn.data.batches import Batch
from selfattn.layers import RecurrentStack, initialise
from selfattn.models.protocol import EncoderMemory, Seq2Seq
from selfattn.registry import register
from selfattn.streams import generator

KINDS, NOISE, WIDTH = 8, 8, 32  # symbols to find, and others that stand around


def needles(rows: int, length: int, draws: torch.Generator) -> Batch:
    """Make sources of noise with one symbol at a random place, which is to be said after the last token."""
    wanted = small.random_symbols(rows, 1, symbols=KINDS, generator=draws)
    noise = KINDS + small.random_symbols(rows, length, symbols=NOISE, generator=draws)
    place = torch.randint(0, length - 1, (rows, 1), generator=draws)
    every = torch.ones_like(noise, dtype=torch.bool)
    source = noise.scatter(1, place, wanted)
    return Batch(source, every, torch.full_like(wanted, small.BOS), wanted, every[:, :1], list(range(rows)))


class Finder(Seq2Seq):
    """Says one symbol of what the last token attends to: embeddings, or states of an LSTM that reads both ways."""

    def __init__(self, reads: bool, seed: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(small.vocabulary(KINDS + NOISE), WIDTH)
        self.read = RecurrentStack(WIDTH, WIDTH // 2, direction="both") if reads else None
        self.attend, self.output = MultiHeadAttention(WIDTH, num_heads=1), nn.Linear(WIDTH, small.vocabulary(KINDS))
        initialise(self, generator(seed, "init"))

    def find(self, source: Tensor) -> tuple[Tensor, Tensor]:
        """Return logits ``[b 1 v]`` and weights ``[b s]``."""
        x = self.embed(source)
        x = x if self.read is None else self.read.read(x, torch.ones_like(source, dtype=torch.bool))[0]
        attended = self.attend(x[:, -1:], x, need_weights=True)
        assert attended.weights is not None
        return self.output(attended.output), attended.weights[:, 0, 0]

    def encode(self, source: Tensor, source_mask: Tensor) -> EncoderMemory:
        """Return the embeddings."""
        return EncoderMemory(self.embed(source), source_mask)

    def forward(self, source: Tensor, target_in: Tensor, *, source_mask: Tensor) -> Tensor:
        """Return logits ``[b 1 v]``."""
        return self.find(source)[0]


@torch.inference_mode()
def agreement(model: Finder, batch: Batch, draws: torch.Generator) -> float:
    """Return the share of sources whose most attended token is the one whose replacement costs most."""
    right = batch.target_out[..., None]
    before = model.find(batch.source)[0].log_softmax(-1).gather(-1, right)
    costs = []
    for place in range(batch.source.shape[1]):
        other = KINDS + small.random_symbols(len(batch.source), 1, symbols=NOISE, generator=draws)
        changed = batch.source.index_copy(1, torch.tensor([place]), other)
        costs.append((before - model.find(changed)[0].log_softmax(-1).gather(-1, right)).flatten())
    most = torch.stack(costs, dim=1).argmax(1)
    return float((most == model.find(batch.source)[1].argmax(1)).double().mean())


@register.claim("explanation")
class Explanation(Claim):
    """Attention on embeddings and on an LSTM's states: does the most attended token matter most?"""

    source = "Jain and Wallace 2019, section 4.1; Wiegreffe and Pinter 2019, section 3"
    seconds = (5.0, 40.0)
    points = ("lead", "right")
    kinds = {"embeddings": {"reads": False}, "states": {"reads": True}}
    rates = (3e-3, 1e-2, 3e-2)
    sizes = {"steps": 400, "tested": 400, "length": 12}
    quick_sizes = {"steps": 200, "tested": 200}
    shows = {"embeddings": ("embeddings", "agreement"), "states": ("states", "agreement"), "right": ("states", "right")}
    columns = {"right": share, "agreement": share}

    def measure(self, setup: Setup) -> dict[str, float]:
        """Train to find a symbol among noise; replace each token by noise, and compare with the attention."""
        model = Finder(setup["reads"], setup.seed)
        small.train(setup, model, small.stream(partial(needles, 64, setup["length"]), seed=setup.seed))
        valid, test = small.validation_and_test(partial(needles, setup["tested"], setup["length"]), seed=setup.seed)
        agrees = agreement(model, test, generator(setup.seed, "claims/replaced"))
        right = small.forced_accuracy(model, test)
        return {"valid": small.loss_of(model, valid), "right": right, "agreement": agrees}

    def contrasts(self, trials: Trials) -> Contrasts:
        """Both models are right; attention names the token that matters more often on embeddings than on states."""
        items = self.size["tested"]
        return (
            trials.lead("lead", "embeddings", "states", "agreement", items),
            trials.lead("right", "states", "embeddings", "right", items, "within"),
        )

    def blocks(self, trials: Trials) -> Blocks:
        """Right answers and agreement of both models."""
        arms = dict(enumerate(self.kinds))
        lines = {figure: trials.spots_across(arms, figure) for figure in self.columns}
        return self.chart("explanation", lines, of="line"), self.table("means", self.columns, self.rows(trials))
