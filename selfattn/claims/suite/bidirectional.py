"""Claim: an encoder that reads both ways gives each word both its sides."""

from __future__ import annotations

import torch

from selfattn.claims import small
from selfattn.claims.claim import MARGIN, Arm, Blocks, Claim, Contrasts, Trials, contrast, minus
from selfattn.claims.suite.by_length import BATCH
from selfattn.data.batches import Batch
from selfattn.models.config import ModelConfig
from selfattn.registry import register
from selfattn.report.drawing.scale import Scale
from selfattn.results.claims import Contrast
from selfattn.streams import generator

WORDS, CLAUSES, LENGTH = 4, 2, 8  # kinds of words, clauses of a source, words of a clause
ROWS = 500  # sources of a test
RATES = (5e-3, 1e-2, 2e-2)
PLACES = tuple(place for place in range(-LENGTH, LENGTH + 1) if place)  # of the evidence, seen from the word
WIDTHS = {"forward": (48, 48), "backward": (48, 48), "both": (27, 54)}  # of encoder and decoder: bodies within 3 %


def make(rows: int, draws: torch.Generator) -> tuple[Batch, torch.Tensor]:
    """Make sources of clauses, and say how far each target word's evidence is from it: int64 ``[b t]``, left below 0.

    A clause is words and a sign that says how all of them are translated: as themselves, or as the other word of their
    pair. The sign stands before or after them, each as probable as the other.
    """
    shape = (rows, CLAUSES)
    words = torch.randint(0, WORDS, (*shape, LENGTH), generator=draws)
    swapped = torch.randint(0, 2, (*shape, 1), generator=draws)
    right = torch.randint(0, 2, (*shape, 1), generator=draws)
    sign = small.FIRST + WORDS + 2 * right + swapped
    source = torch.where(
        right.bool(), torch.cat([small.FIRST + words, sign], -1), torch.cat([sign, small.FIRST + words], -1)
    )
    away = torch.where(right.bool(), LENGTH - torch.arange(LENGTH), -1 - torch.arange(LENGTH))
    return small.batch_of(source.flatten(1), (small.FIRST + (words ^ swapped)).flatten(1)), away.flatten(1)


@register.claim("bidirectional")
class Bidirectional(Claim):
    """Attention on encoders of three directions, by the side on which the evidence for a word stands."""

    name = "bidirectional"
    source = "Schuster and Paliwal 1997, section II; Bahdanau et al. 2015, section 3.2"
    seconds = (30.0, 240.0)
    points = ("gain", "forward", "backward")

    def arms(self, quick: bool) -> tuple[Arm, ...]:
        """Encoders that read forward, backward and both ways."""
        return tuple(Arm(direction, {"widths": widths}, RATES) for direction, widths in WIDTHS.items())

    def config(self, arm: Arm) -> ModelConfig:
        """What the model of an arm is made of."""
        encoder, decoder = arm.settings["widths"]
        changes = {"encoder.hidden_dim": encoder, "decoder.hidden_dim": decoder, "encoder.direction": arm.name}
        return small.resized("rnn-attention", changes)

    def measure(self, arm: Arm, *, seed: int, rate: float | None, quick: bool, steps: int = 1200) -> dict[str, float]:
        """Train, and measure the share of right words by side, the right words before them being given."""
        config, steps, size = self.config(arm), 500 if quick else steps, small.vocabulary(WORDS + 4)
        model = small.trained(
            config, lambda draws: make(BATCH, draws)[0], vocab_size=size, steps=steps, seed=seed, rate=rate
        )
        valid = small.loss_of(model, small.held_out(lambda draws: make(ROWS, draws)[0], seed=seed, name="validation"))
        batch, away = make(ROWS, generator(seed, "claims/test"))
        hits = small.forced_hits(model, batch)[:, :-1]  # their end is no word
        masks = {"left": away < 0, "right": away > 0} | {f"at{place}": away == place for place in PLACES}
        return {"valid": valid} | {name: float(hits[mask].double().mean()) for name, mask in masks.items()}

    def contrasts(self, trials: Trials) -> Contrasts:
        """Reading both ways gains more on the side that is read too late, for either direction; by more than δ."""

        def more(arm: str, late: str, early: str) -> Contrast:
            gains = minus(trials.differences("both", arm, late), trials.differences("both", arm, early))
            return contrast(arm, gains, "above", 0.0)

        gain = trials.share_difference("gain", "both", "forward", "right", "above", MARGIN, items=ROWS * CLAUSES // 2)
        return gain, more("forward", "right", "left"), more("backward", "left", "right")

    def blocks(self, trials: Trials) -> Blocks:
        """Right words by the place of their evidence."""
        places = {float(place): f"at{place}" for place in PLACES}
        lines = {arm: trials.spots(arm, places) for arm in trials.arms}
        return (self.chart("right-by-side", lines, across=Scale(None, LENGTH, "number", -LENGTH)),)
