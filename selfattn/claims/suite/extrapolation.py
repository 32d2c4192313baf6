"""Claim: what is learned with relative positions carries over to longer sequences, with absolute ones it does not."""

from __future__ import annotations

from functools import partial

from selfattn.claims import small
from selfattn.claims.claim import Claim, Contrasts, Setup, Trials, share
from selfattn.claims.suite.order import POSITIONS, SHORTEST, Labeller, labelled
from selfattn.registry import register

ABSOLUTE, RELATIVE = ("sinusoidal", "learned"), ("rotary", "t5")  # ALiBi sees mostly its neighbours: shown, not tested


@register.claim("extrapolation")
class Extrapolation(Claim):
    """Encoders with five kinds of positions, trained on short sequences and tested on longer ones."""

    source = "Press et al. 2022, sections 1 and 3; Shaw et al. 2018, section 3.2"
    seconds = (15.0, 120.0)
    points = tuple(f"{relative}-{absolute}" for relative in RELATIVE for absolute in ABSOLUTE)
    kinds = {position: {"position": position} for position in POSITIONS}
    rates = (1e-2, 3e-2, 9e-2)
    sizes = {"steps": 300, "tested": 400, "length": 20, "double": 40, "lengths": (20, 30, 40, 80)}
    quick_sizes = {"steps": 150, "tested": 200, "length": 8, "double": 16, "lengths": (8, 12, 16)}
    shows = {"short": ("sinusoidal", "short"), "absolute": ("sinusoidal", "double"), "relative": ("rotary", "double")}
    figure, columns = "right", {"short": share, "double": share}

    def measure(self, setup: Setup) -> dict[str, float]:
        """Train up to one length, and measure the share of right labels at that length and at longer ones."""
        length, lengths = setup["length"], setup["lengths"]
        model = Labeller(setup["position"], max(*lengths, setup["double"]), setup.seed)
        small.train(setup, model, small.stream(partial(labelled, "order", 64, SHORTEST, length), seed=setup.seed))
        unseen = {n: partial(labelled, "order", setup["tested"], n, n) for n in {*lengths, length, setup["double"]}}
        right = {n: small.forced_accuracy(model, small.held_out(unseen[n], seed=setup.seed)) for n in sorted(unseen)}
        valid = small.loss_of(model, small.held_out(unseen[length], seed=setup.seed, name="validation"))
        ends = {"valid": valid, "short": right[length], "double": right[setup["double"]]}
        return ends | {f"right@{n}": right[n] for n in lengths}

    def contrasts(self, trials: Trials) -> Contrasts:
        """At twice the length each relative kind leads over each absolute kind."""
        pairs = [(relative, absolute) for relative in RELATIVE for absolute in ABSOLUTE]
        return tuple(trials.lead(f"{a}-{b}", a, b, "double", self.size["tested"]) for a, b in pairs)
