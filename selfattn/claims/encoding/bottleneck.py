"""Claim: a vector of fixed length loses long inputs, and a wider vector only moves the length at which it does."""

from __future__ import annotations

from functools import partial

from selfattn.claims.claim import Arm, Claim, Found
from selfattn.claims.drawing import at, chart, table
from selfattn.claims.encoding.by_length import ITEMS, by_length, halving_length
from selfattn.claims.rules import contrast
from selfattn.claims.sequences import copies
from selfattn.claims.training import resized
from selfattn.registry import register
from selfattn.report.blocks import Block
from selfattn.results.claims import Contrast

SYMBOLS, LENGTHS = 8, (4, 8, 12, 16, 20)
WIDTHS = (32, 64, 128)
LEAD = 0.10  # that attention has to have at the longest sources
RATES = (2e-3, 5e-3, 1e-2, 2e-2)


make = partial(copies, symbols=SYMBOLS)


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
        config, steps = resized(arm.settings["model"], hidden_dim=arm.settings["width"]), 400 if quick else steps
        found = by_length(config, make, LENGTHS, symbols=SYMBOLS, steps=steps, seed=seed, rate=rate)
        return found | {"halving": halving_length([found[f"exact@{n}"] for n in LENGTHS], LENGTHS)}

    def contrasts(self, found: Found) -> tuple[Contrast, ...]:
        """A wider vector halves later, and attention leads at the longest, over the widest vector as well."""
        longest = f"exact@{LENGTHS[-1]}"
        narrow, wide = f"plain-{WIDTHS[0]}", f"plain-{WIDTHS[-1]}"
        return (
            contrast("halving", found.differences(wide, narrow, "halving"), "above", 0.0),
            found.share_difference("lead", "attention", narrow, longest, "above", LEAD, items=ITEMS),
            found.share_difference("lead-wide", "attention", wide, longest, "above", LEAD, items=ITEMS),
        )

    def blocks(self, found: Found) -> tuple[Block, ...]:
        """Exact match by length, and the length at which each model halves."""
        lines = {arm: found.spots(arm, at("exact", LENGTHS)) for arm in found.arms}
        halvings = {arm: found.mean(arm, "halving") for arm in found.arms}
        rows = {arm: [f"{one.mean:.1f} [{one.low:.1f}, {one.high:.1f}]"] for arm, one in halvings.items()}
        return chart(self, "exact-by-length", lines), table(self, "halving", ["halving"], rows)
