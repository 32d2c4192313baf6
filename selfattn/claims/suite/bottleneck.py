"""Claim: a vector of fixed length makes long inputs slow to learn; width and training only move the length."""

from __future__ import annotations

from functools import partial

from selfattn.claims import small
from selfattn.claims.claim import Claim, Contrasts, Setup, Trials, number
from selfattn.claims.rules import contrast
from selfattn.claims.suite.by_length import by_length
from selfattn.registry import register

SYMBOLS = 8
LEAD = 0.10  # that attention has to have at the longest sources


@register.claim("bottleneck")
class Bottleneck(Claim):
    """Exact match by source length: narrow, four times as wide, four times as long trained, and with attention."""

    source = "Cho et al. 2014 (SSST-8), section 4; Bahdanau et al. 2015, sections 1 and 5.2.2"
    seconds = (25.0, 250.0)
    points = ("lead", "lead-wide")
    kinds = {
        "plain": {"model": "rnn-plain", "width": 32},
        "plain-wide": {"model": "rnn-plain", "width": 128},
        "plain-long": {"model": "rnn-plain", "width": 32, "times": 4},
        "attention": {"model": "rnn-attention", "width": 32},
    }
    rates = (5e-3, 1e-2, 2e-2, 4e-2)
    sizes = {"steps": 1000, "lengths": (4, 8, 12, 16, 20), "tested": 200, "batch": 64}
    quick_sizes = {"batch": 32, "steps": 300, "lengths": (2, 4, 6, 8)}
    quick_rates = {"plain-wide": 1e-2}
    shows = {"plain": ("plain", "longest"), "attention": ("attention", "longest")}
    shows |= {name: (arm, "halving") for name, arm in zip(("before", "wide", "longer"), kinds, strict=False)}
    figure, columns = "exact", {"halving": number}

    def measure(self, setup: Setup) -> dict[str, float]:
        """Train on copies of all lengths."""
        config = small.resized(setup["model"], hidden_dim=setup["width"])
        return by_length(setup, config, partial(small.copies, symbols=SYMBOLS), symbols=SYMBOLS)

    def contrasts(self, trials: Trials) -> Contrasts:
        """Width and training move the length; attention leads at the longest, over the wide vector as well."""
        items = self.size["tested"]
        return (
            contrast("halving", trials.differences("plain-wide", "plain", "halving"), "above", 0.0),
            contrast("longer", trials.differences("plain-long", "plain", "halving"), "above", 0.0),
            trials.lead("lead", "attention", "plain", "longest", items, bound=LEAD),
            trials.lead("lead-wide", "attention", "plain-wide", "longest", items, bound=LEAD),
        )
