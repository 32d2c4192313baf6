"""Without a non-linearity stacked self-attention only averages: how alike the tokens' vectors become with depth."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Generator, Tensor, nn

from selfattn.attention import MultiHeadAttention
from selfattn.claims.claim import Blocks, Claim, Contrasts, Setup, Trials
from selfattn.claims.rules import contrast, exact
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

    source = "Dong et al. 2021, theorem 2.2 and section 2.2"
    seconds = (5, 10)
    kinds = {
        "neither": {"forward": False, "skip": False},
        "forward": {"forward": True, "skip": False},
        "skip": {"forward": False, "skip": True},
        "both": {"forward": True, "skip": True},
    }
    sizes = {"dim": 64, "heads": 4, "tokens": 32, "texts": 16, "stacks": 8}
    shows = {arm: (arm, "left") for arm in ("neither", "forward", "both")}

    def measure(self, setup: Setup) -> dict[str, float]:
        """Send random vectors through stacks of random layers, and take the mean over stacks; no layer is trained."""
        draws, weights = generator(setup.seed, "claims/data"), generator(setup.seed, "init")
        stacks = [self._stack(setup.arm.settings, draws, weights) for _ in range(setup["stacks"])]
        means = {name: sum(stack[name] for stack in stacks) / len(stacks) for name in stacks[0]}
        return means | {"left": 10 ** means[f"left@{JUDGED}"], "beyond": max(stack["beyond"] for stack in stacks)}

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
                    output = part.double()(norm.double()(x))
                    output = output if isinstance(output, Tensor) else output.output
                x = x + output if settings["skip"] else output
            figures[f"left@{layer}"] = residual(x).clamp(min=SMALLEST).log10().mean().item()
        return figures

    def contrasts(self, trials: Trials) -> Contrasts:
        """Nearly nothing is left without both; with both, and with feed-forward alone, most is; the mean is a mean."""
        return (*self._rule(trials), contrast("forward", trials.values("forward", f"left@{JUDGED}"), "above", KEPT))

    def conditions(self, trials: Trials) -> dict[str, Contrasts]:
        """The same where feed-forward blocks stand beside skip connections."""
        return {"skip": self._rule(trials)}

    def _rule(self, trials: Trials) -> Contrasts:
        beyond = max(max(trials.values(arm, "beyond")) for arm in self.kinds)
        return (
            exact("mean", beyond, 1e-12),
            contrast("both", trials.values("both", f"left@{JUDGED}"), "above", KEPT),
            contrast("neither", trials.values("neither", f"left@{JUDGED}"), "below", GONE),
        )

    def blocks(self, trials: Trials) -> Blocks:
        """What is left of the differences, by depth."""
        lines = {arm: trials.spots(arm, "left", lambda power: 10.0**power) for arm in trials.arms}
        return (self.chart("averaging", lines, scale=Scale(None, 1.0, "number", SMALLEST, powers=True)),)
