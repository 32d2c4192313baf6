"""Without a non-linearity stacked self-attention only averages: how alike the tokens' vectors become with depth."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Generator, Tensor, nn

from selfattn.attention import MultiHeadAttention
from selfattn.claims.claim import Arm, Blocks, Claim, Contrasts, Trials, at, contrast, exact
from selfattn.claims.suite.depth import residual
from selfattn.layers import FeedForward, initialise, make_norm
from selfattn.registry import register
from selfattn.report.drawing.scale import Scale
from selfattn.streams import generator

DEPTH, JUDGED = 8, 4  # layers that are drawn; the one that the rule looks at, before rounding ends the fall
SMALLEST = 1e-15  # what rounding in float64 leaves
GONE, KEPT = -2.0, -1.0  # powers of ten: a hundredth of the differences is left; a tenth


@register.claim("averaging")
class Averaging(Claim):
    """Stacks of random weights with and without feed-forward blocks, with and without skip connections."""

    name = "averaging"
    source = "Dong et al. 2021, theorem 2.2 and section 2.2"
    seconds = (5, 10)

    def arms(self, quick: bool) -> tuple[Arm, ...]:
        """Two by two."""
        settings = {"dim": 64, "heads": 4, "tokens": 32, "texts": 16, "stacks": 8}
        parts = {"neither": (False, False), "forward": (True, False), "skip": (False, True), "both": (True, True)}
        return tuple(
            Arm(name, {**settings, "forward": forward, "skip": skip}) for name, (forward, skip) in parts.items()
        )

    def measure(self, arm: Arm, *, seed: int, rate: float | None, quick: bool) -> dict[str, float]:
        """Send random vectors through stacks of random layers, and take the mean over stacks; no layer is trained."""
        draws, weights = generator(seed, "claims/data"), generator(seed, "init")
        stacks = [self._stack(arm.settings, draws, weights) for _ in range(arm.settings["stacks"])]
        means = {name: sum(stack[name] for stack in stacks) / len(stacks) for name in stacks[0]}
        return means | {"beyond": max(stack["beyond"] for stack in stacks)}

    def _stack(self, settings: Mapping[str, Any], draws: Generator, weights: Generator) -> dict[str, float]:
        dim, heads = settings["dim"], settings["heads"]
        x = torch.randn(settings["texts"], settings["tokens"], dim, generator=draws, dtype=torch.float64)
        # A theorem: without projections every output is a weighted mean of the inputs, so that none leaves their range.
        mean = MultiHeadAttention(dim, num_heads=heads, project=False)(x).output
        beyond = torch.maximum(mean.amax(dim=1) - x.amax(dim=1), x.amin(dim=1) - mean.amin(dim=1)).max().item()
        figures = {"beyond": max(0.0, beyond), "left@0": residual(x).mean().log10().item()}
        for layer in range(1, DEPTH + 1):
            parts: list[nn.Module] = [MultiHeadAttention(dim, num_heads=heads)]
            parts += [FeedForward(dim, 2 * dim)] if settings["forward"] else []
            for part in parts:
                norm = make_norm("layer", dim)
                initialise(nn.ModuleList([part, norm]), weights)
                with torch.no_grad():
                    made = part.double()(norm.double()(x))
                    made = made if isinstance(made, Tensor) else made.output
                x = x + made if settings["skip"] else made
            figures[f"left@{layer}"] = residual(x).clamp(min=SMALLEST).log10().mean().item()
        return figures

    def contrasts(self, trials: Trials) -> Contrasts:
        """Nearly nothing is left without both; with both, and with feed-forward alone, most is; the mean is a mean."""
        return (*self._rule(trials), contrast("forward", trials.values("forward", f"left@{JUDGED}"), "above", KEPT))

    def conditions(self, trials: Trials) -> dict[str, Contrasts]:
        """The same where feed-forward blocks stand beside skip connections."""
        return {"skip": self._rule(trials)}

    def _rule(self, trials: Trials) -> Contrasts:
        beyond = max(max(trials.values(arm, "beyond")) for arm in trials.arms)
        return (
            exact("mean", beyond, 1e-12),
            contrast("both", trials.values("both", f"left@{JUDGED}"), "above", KEPT),
            contrast("neither", trials.values("neither", f"left@{JUDGED}"), "below", GONE),
        )

    def blocks(self, trials: Trials) -> Blocks:
        """What is left of the differences, by depth."""
        places = at("left", range(DEPTH + 1))
        lines = {arm: trials.spots(arm, places, lambda power: 10.0**power) for arm in trials.arms}
        return (self.chart("averaging", lines, scale=Scale(None, 1.0, "number", SMALLEST, powers=True)),)
