"""Claim: it matters where attention sits: after the RNN, after it and fed back into it, or before it."""

from __future__ import annotations

from functools import partial
from typing import Any

from selfattn.claims import small
from selfattn.claims.claim import Blocks, Claim, Contrasts, Setup, Trials, share
from selfattn.claims.suite.by_length import by_length
from selfattn.evaluation.cost import BatchShape, training_flops
from selfattn.models.config import ModelConfig
from selfattn.registry import register

SYMBOLS = 4  # so few that a symbol does not say where it stands
FED = {"width": 29, "input_feeding": True}


def config(settings: Any) -> ModelConfig:
    """What the model of an arm is made of: Luong's, but for the place of the attention."""
    places = {f"decoder.{name}": settings[name] for name in ("input_feeding", "attention") if name in settings}
    return small.resized("luong-general", places, hidden_dim=settings["width"])


@register.claim("placement")
class Placement(Claim):
    """Three places of the same attention, each as wide as equal operations allow."""

    source = "Luong et al. 2015, sections 3.3 and 4; Bahdanau et al. 2015, section 3.1"
    seconds = (25.0, 240.0)
    points = ("gain",)
    kinds = {
        "after": {"width": 32},
        "fed": FED,
        "before": {"width": 26, "attention": "bahdanau"},
        "after-long": {"width": 32, "times": 4},
        "fed-long": {**FED, "times": 4},
    }
    rates = (1e-2, 2e-2, 4e-2)
    sizes = {"steps": 500, "lengths": (4, 8, 12, 16, 20), "tested": 200, "batch": 64}
    quick_sizes = {"batch": 32, "steps": 150, "lengths": (4, 6, 8)}
    not_quick = ("before",)
    shows = {"after": ("after", "exact"), "fed": ("fed", "exact")}
    shows |= {"after_longer": ("after-long", "exact"), "fed_longer": ("fed-long", "exact")}
    figure = "exact"

    def measure(self, setup: Setup) -> dict[str, float]:
        """Train on copies of all lengths."""
        make = partial(small.copies, symbols=SYMBOLS)
        return by_length(setup, config(setup.arm.settings), make, symbols=SYMBOLS)

    def contrasts(self, trials: Trials) -> Contrasts:
        """Input feeding gains; what attention before the RNN does, and longer training, is looked at, not tested."""
        return (trials.lead("gain", "fed", "after", "exact", self.size["tested"] * len(self.size["lengths"])),)

    def blocks(self, trials: Trials) -> Blocks:
        """Exact match by length, and what the models compute."""
        longest = max(self.size["lengths"])
        shape, size = BatchShape(64, longest, longest + 1), small.vocabulary(SYMBOLS)
        rows = {
            arm: (f"{training_flops(config(settings), size, shape) / 1e6:.0f}", share(trials.mean(arm, "exact")))
            for arm, settings in self.kinds.items()
            if arm in trials.arms
        }
        return *super().blocks(trials), self.table("operations", ("flops", "exact"), rows)
