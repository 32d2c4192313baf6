"""A claim on training a stack: where the norm stands decides whether the learning rate has to warm up."""

from functools import partial

import torch

from selfattn.claims import small
from selfattn.claims.claim import Claim, Setup, share
from selfattn.claims.rules import Contrasts, Trials
from selfattn.data.batches import Batch
from selfattn.models.transformer_config import TransformerConfig
from selfattn.registry import register

SYMBOLS = 12


def befores(rows: int, length: int, draws: torch.Generator) -> Batch:
    """Make sequences in which every position is labelled by the symbol before it; the first by the last."""
    source = small.random_symbols(rows, length, symbols=SYMBOLS, generator=draws)
    return small.labels(source, source.roll(1, dims=1))


@register.claim("warm-up")
class WarmUp(Claim):
    """Deep stacks with the norm before and behind each part, with warm-up and without it, each at its best rate."""

    source = "Xiong et al. 2020, sections 3 and 4; Vaswani et al. 2017, section 5.3"
    seconds = (10, 80)
    points = ("behind", "before")
    kinds = {
        "behind-warm": {"first": False, "warmup": 0.1},
        "behind-cold": {"first": False, "warmup": 0.0},
        "before-warm": {"first": True, "warmup": 0.1},
        "before-cold": {"first": True, "warmup": 0.0},
    }
    rates = (4e-3, 1e-2, 2.5e-2)
    learned = {"behind-warm": ("right", 0.8), "before-warm": ("right", 0.8)}
    sizes = {"steps": 150, "length": 10, "rows": 32, "tested": 300, "dim": 32, "layers": 4}
    shows = {arm.replace("-", "_"): (arm, "right") for arm in kinds}
    figure = "right"
    columns = {"right": share}
    lines = {"behind": {0: "behind-cold", 1: "behind-warm"}, "before": {0: "before-cold", 1: "before-warm"}}

    def measure(self, setup: Setup) -> dict[str, float]:
        """Train, and measure the share of right labels."""
        dim = setup["dim"]
        config = TransformerConfig(
            dim=dim,
            num_heads=4,
            num_layers=setup["layers"],
            ffn_dim=2 * dim,
            norm_first=setup["first"],
            position="rotary",
        )
        model = small.Labeller(config, setup.seed, symbols=SYMBOLS)
        make = partial(befores, setup["rows"], setup["length"])
        small.train(setup, model, small.stream(make, seed=setup.seed), warmup=setup["warmup"])
        return small.graded(setup, model, partial(befores, setup["tested"], setup["length"]))

    def contrasts(self, trials: Trials) -> Contrasts:
        """With the norm behind each part warm-up gains; with the norm before it makes no difference."""
        items = self.size["tested"]
        return (
            trials.lead("behind", "behind-warm", "behind-cold", "right", items),
            trials.lead("before", "before-warm", "before-cold", "right", items, "within"),
        )
