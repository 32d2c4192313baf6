"""Claim: attention removes the bottleneck, at the same number of parameters."""

from __future__ import annotations

import torch

from selfattn.claims import small
from selfattn.claims.claim import Blocks, Claim, Contrasts, Setup, Trials
from selfattn.claims.suite.by_length import by_length
from selfattn.data.batches import Batch
from selfattn.models.build import build, count_parameters
from selfattn.models.sizing import body
from selfattn.registry import register

SYMBOLS = 26
LEAD = 0.10  # that attention has to have at the longest sources


def make(rows: int, length: int, draws: torch.Generator) -> Batch:
    """Make sources of different symbols in any order, which are to be copied."""
    source = small.FIRST + torch.rand(rows, SYMBOLS, generator=draws).argsort(dim=1)[:, :length]
    return small.batch_of(source, source)


@register.claim("attention-removes")
class AttentionRemoves(Claim):
    """Three ways to the source, with bodies of one size and the same steps."""

    source = "Bahdanau et al. 2015, sections 3 and 5.2.2; Luong et al. 2015, section 5.2"
    seconds = (25.0, 150.0)
    kinds = {  # the peeky decoder is narrower, since it reads the vector at every step
        "plain": {"model": "rnn-plain", "width": 64},
        "peeky": {"model": "rnn-peeky", "width": 54},
        "attention": {"model": "rnn-attention", "width": 64},
    }
    points = ("lead-plain", "lead-peeky")
    rates = (1e-2, 2e-2, 4e-2)
    sizes = {"steps": 1000, "lengths": (4, 8, 12, 16, 20, 24), "tested": 200, "batch": 64}
    quick_sizes = {"batch": 32, "steps": 300, "lengths": (3, 6, 9)}
    shows = {arm: (arm, "longest") for arm in ("peeky", "attention")}
    figure = "exact"

    def measure(self, setup: Setup) -> dict[str, float]:
        """Train on copies of all lengths."""
        config = small.resized(setup["model"], hidden_dim=setup["width"])
        return by_length(setup, config, make, symbols=SYMBOLS)

    def contrasts(self, trials: Trials) -> Contrasts:
        """Attention leads over either at the longest."""
        items = self.size["tested"]
        return tuple(
            trials.lead(f"lead-{other}", "attention", other, "longest", items, bound=LEAD)
            for other in ("plain", "peeky")
        )

    def blocks(self, trials: Trials) -> Blocks:
        """Exact match by length, and how large the models are."""
        rows = {}
        for arm, settings in self.kinds.items():
            config = small.resized(settings["model"], hidden_dim=settings["width"])
            size = count_parameters(build(config, vocab_size=small.vocabulary(SYMBOLS)))[0]
            rows[arm] = (f"{body(config):,}", f"{size:,}")
        return *super().blocks(trials), self.table("sizes", ("body", "all"), rows)
