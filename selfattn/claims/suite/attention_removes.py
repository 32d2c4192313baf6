"""Claim: attention removes the bottleneck, at the same number of parameters."""

from __future__ import annotations

import torch

from selfattn.claims import small
from selfattn.claims.claim import Arm, Blocks, Claim, Contrasts, Trials, at
from selfattn.claims.suite.by_length import ITEMS, by_length
from selfattn.data.batches import Batch
from selfattn.models.build import build, count_parameters
from selfattn.models.config import ModelConfig
from selfattn.models.sizing import body
from selfattn.registry import register

SYMBOLS, LENGTHS = 26, (4, 8, 12, 16, 20, 24)
LEAD = 0.10  # that attention has to have at the longest sources
RATES = (2e-3, 5e-3, 1e-2, 2e-2)
OTHERS = ("plain", "peeky")


def make(rows: int, length: int, draws: torch.Generator) -> Batch:
    """Make sources of different symbols in any order, which are to be copied."""
    source = small.FIRST + torch.rand(rows, SYMBOLS, generator=draws).argsort(dim=1)[:, :length]
    return small.batch_of(source, source)


@register.claim("attention-removes")
class AttentionRemoves(Claim):
    """Three ways to the source, with bodies of one size and the same steps."""

    name = "attention-removes"
    source = "Bahdanau et al. 2015, sections 3 and 5.2.2; Luong et al. 2015, section 5.2"
    seconds = (25.0, 150.0)
    points = tuple(f"lead-{other}" for other in OTHERS)

    def arms(self, quick: bool) -> tuple[Arm, ...]:
        """Plain, peeky (narrower, since it reads the vector at every step) and attention."""
        models = {"plain": ("rnn-plain", 64), "peeky": ("rnn-peeky", 54), "attention": ("rnn-attention", 64)}
        return tuple(Arm(arm, {"model": model, "width": width}, RATES) for arm, (model, width) in models.items())

    def config(self, arm: Arm) -> ModelConfig:
        """What the model of an arm is made of."""
        return small.resized(arm.settings["model"], hidden_dim=arm.settings["width"])

    def measure(self, arm: Arm, *, seed: int, rate: float | None, quick: bool, steps: int = 1000) -> dict[str, float]:
        """Train on copies of all lengths."""
        config, steps = self.config(arm), 500 if quick else steps
        return by_length(config, make, LENGTHS, symbols=SYMBOLS, steps=steps, seed=seed, rate=rate)

    def contrasts(self, trials: Trials) -> Contrasts:
        """Attention leads over either at the longest."""
        longest = f"exact@{LENGTHS[-1]}"
        return tuple(
            trials.share_difference(f"lead-{other}", "attention", other, longest, "above", LEAD, items=ITEMS)
            for other in OTHERS
        )

    def blocks(self, trials: Trials) -> Blocks:
        """Exact match by length, and how large the models are."""
        lines = {arm: trials.spots(arm, at("exact", LENGTHS)) for arm in trials.arms}
        configs = {arm.name: self.config(arm) for arm in self.arms(trials.quick) if arm.name in trials.arms}
        rows = {}
        for arm, config in configs.items():
            model = build(config, vocab_size=small.vocabulary(SYMBOLS))
            rows[arm] = (f"{body(config):,}", f"{count_parameters(model)[0]:,}")
        return self.chart("exact-by-length", lines), self.table("sizes", ("body", "all"), rows)
