"""Claim: an encoder that reads both ways learns sooner from what stands behind a word."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from selfattn.claims import small
from selfattn.claims.claim import Blocks, Claim, Contrasts, Setup, Trials
from selfattn.claims.rules import contrast, minus
from selfattn.data.batches import Batch
from selfattn.models.config import ModelConfig
from selfattn.registry import register
from selfattn.report.drawing.scale import Scale
from selfattn.results.claims import Contrast
from selfattn.streams import generator

WORDS, CLAUSES = 4, 2  # kinds of words, clauses of a source


def make(rows: int, length: int, draws: torch.Generator) -> tuple[Batch, torch.Tensor]:
    """Make sources of clauses, and say how far each target word's evidence is from it: int64 ``[b t]``, left below 0.

    A clause is words and a sign that says how all of them are translated: as themselves, or as the other word of their
    pair. The sign stands before or after them, each as probable as the other.
    """
    shape = (rows, CLAUSES)
    words = torch.randint(0, WORDS, (*shape, length), generator=draws)
    swapped = torch.randint(0, 2, (*shape, 1), generator=draws)
    right = torch.randint(0, 2, (*shape, 1), generator=draws)
    sign = small.FIRST + WORDS + 2 * right + swapped
    source = torch.where(
        right.bool(), torch.cat([small.FIRST + words, sign], -1), torch.cat([sign, small.FIRST + words], -1)
    )
    away = torch.where(right.bool(), length - torch.arange(length), -1 - torch.arange(length))
    return small.batch_of(source.flatten(1), (small.FIRST + (words ^ swapped)).flatten(1)), away.flatten(1)


def config(settings: Mapping[str, Any]) -> ModelConfig:
    """What the model of an arm is made of."""
    encoder, decoder = settings["widths"]
    changes = {"encoder.hidden_dim": encoder, "decoder.hidden_dim": decoder, "encoder.direction": settings["direction"]}
    return small.resized("rnn-attention", changes)


@register.claim("bidirectional")
class Bidirectional(Claim):
    """Attention on encoders of three directions, by the side on which the evidence for a word stands."""

    source = "Schuster and Paliwal 1997, section II; Bahdanau et al. 2015, section 3.2"
    seconds = (30.0, 240.0)
    points = ("gain", "forward", "backward")
    kinds = {  # widths of encoder and decoder: bodies within 3 %
        "forward": {"direction": "forward", "widths": (48, 48)},
        "backward": {"direction": "backward", "widths": (48, 48)},
        "both": {"direction": "both", "widths": (27, 54)},
        "forward-long": {"direction": "forward", "widths": (48, 48), "times": 4},
    }
    rates = (1e-2, 2e-2, 4e-2)
    sizes = {"steps": 1200, "clause": 8, "tested": 500, "batch": 64}
    quick_sizes = {"steps": 300, "clause": 2, "batch": 32}
    shows = {"forward": ("forward", "right"), "both": ("both", "right"), "longer": ("forward-long", "right")}

    def measure(self, setup: Setup) -> dict[str, float]:
        """Train, and measure the share of right words by side, the right words before them being given."""
        length = setup["clause"]
        model = small.trained(
            setup, config(setup.arm.settings), lambda draws: make(setup["batch"], length, draws)[0], symbols=WORDS + 4
        )
        valid, (batch, away) = (
            make(setup["tested"], length, generator(setup.seed, f"claims/{part}")) for part in ("validation", "test")
        )
        hits = small.forced_hits(model, batch)[:, :-1]  # their end is no word
        masks = {"left": away < 0, "right": away > 0}
        masks |= {f"word@{place}": away == place for place in range(-length, length + 1) if place}
        shares = {name: float(hits[mask].double().mean()) for name, mask in masks.items()}
        return {"valid": small.loss_of(model, valid[0])} | shares

    def contrasts(self, trials: Trials) -> Contrasts:
        """Reading both ways gains more on the side that is read too late, for either direction; by more than δ."""

        def more(arm: str, late: str, early: str) -> Contrast:
            gains = minus(trials.differences("both", arm, late), trials.differences("both", arm, early))
            return contrast(arm, gains, "above", 0.0)

        gain = trials.lead("gain", "both", "forward", "right", self.size["tested"] * CLAUSES // 2)
        return gain, more("forward", "right", "left"), more("backward", "left", "right")

    def blocks(self, trials: Trials) -> Blocks:
        """Right words by the place of their evidence."""
        lines, length = {arm: trials.spots(arm, "word") for arm in trials.arms}, self.size["clause"]
        return (self.chart("right-by-side", lines, across=Scale(None, length, "number", -length)),)
