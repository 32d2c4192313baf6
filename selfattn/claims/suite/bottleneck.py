"""Claim: a vector of fixed length loses long inputs, and a wider vector only moves the length at which it does."""

from __future__ import annotations

from functools import partial

from selfattn.claims import small
from selfattn.claims.claim import Arm, Blocks, Claim, Contrasts, Trials, at, contrast
from selfattn.claims.suite.by_length import ITEMS, by_length, halving_length
from selfattn.registry import register

SYMBOLS, LENGTHS = 8, (4, 8, 12, 16, 20)
WIDTHS = (32, 64, 128)
LEAD = 0.10  # that attention has to have at the longest sources
RATES = (2e-3, 5e-3, 1e-2, 2e-2)


make = partial(small.copies, symbols=SYMBOLS)


@register.claim("bottleneck")
class Bottleneck(Claim):
    """Exact match by source length, trained and tested at the same lengths, and the width that a length needs."""

    name = "bottleneck"
    source = "Cho et al. 2014 (SSST-8), section 4; Bahdanau et al. 2015, sections 1 and 5.2.2"
    seconds = (25.0, 250.0)
    points = ("lead", "lead-wide")

    def arms(self, quick: bool) -> tuple[Arm, ...]:
        """The model without attention at three widths; peeky and attention at the least of them."""
        models = {f"plain-{width}": ("rnn-plain", width) for width in WIDTHS}
        models |= {"peeky": ("rnn-peeky", WIDTHS[0]), "attention": ("rnn-attention", WIDTHS[0])}
        return tuple(Arm(arm, {"model": model, "width": width}, RATES) for arm, (model, width) in models.items())

    def measure(self, arm: Arm, *, seed: int, rate: float | None, quick: bool, steps: int = 1000) -> dict[str, float]:
        """Train on copies of all lengths; ``halving`` is the length at which exact match falls to one half."""
        config, steps = small.resized(arm.settings["model"], hidden_dim=arm.settings["width"]), 400 if quick else steps
        figures = by_length(config, make, LENGTHS, symbols=SYMBOLS, steps=steps, seed=seed, rate=rate)
        return figures | {"halving": halving_length([figures[f"exact@{n}"] for n in LENGTHS], LENGTHS)}

    def contrasts(self, trials: Trials) -> Contrasts:
        """A wider vector halves later, and attention leads at the longest, over the widest vector as well."""
        longest = f"exact@{LENGTHS[-1]}"
        narrow, wide = f"plain-{WIDTHS[0]}", f"plain-{WIDTHS[-1]}"
        return (
            contrast("halving", trials.differences(wide, narrow, "halving"), "above", 0.0),
            trials.share_difference("lead", "attention", narrow, longest, "above", LEAD, items=ITEMS),
            trials.share_difference("lead-wide", "attention", wide, longest, "above", LEAD, items=ITEMS),
        )

    def blocks(self, trials: Trials) -> Blocks:
        """Exact match by length, and the length at which each model halves."""
        lines = {arm: trials.spots(arm, at("exact", LENGTHS)) for arm in trials.arms}
        halvings = {arm: trials.mean(arm, "halving") for arm in trials.arms}
        rows = {arm: [f"{mid.mean:.1f} [{mid.low:.1f}, {mid.high:.1f}]"] for arm, mid in halvings.items()}
        return self.chart("exact-by-length", lines), self.table("halving", ["halving"], rows)
