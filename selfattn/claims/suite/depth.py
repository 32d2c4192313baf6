"""Depth needs skip connections: quality, and the gradient's norm by layer, with and without."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from selfattn.attention.cache import Cache
from selfattn.attention.masks import Mask
from selfattn.claims import small
from selfattn.claims.claim import Blocks, Claim, Contrasts, Setup, Trials, percent
from selfattn.claims.rules import MARGIN, contrast, minus
from selfattn.layers.transformer import BlockOutput, TransformerBlock
from selfattn.models.build import build
from selfattn.registry import register
from selfattn.report.drawing.scale import power_of_ten
from selfattn.training.loss import batch_loss

SYMBOLS = 16
SHALLOW, DEEP = 1, 6
KINDS = ("skip", "none")


def residual(x: Tensor) -> Tensor:
    """Return what is left of vectors ``[b i d]`` without each text's mean, as a share ``[b]`` of their norm."""
    left: Tensor = (x - x.mean(dim=1, keepdim=True)).norm(dim=(1, 2)) / x.norm(dim=(1, 2))
    return left


class Skipless(nn.Module):
    """A block's parts one after the other, each behind its norm, with nothing that goes around them."""

    def __init__(self, block: TransformerBlock) -> None:
        super().__init__()
        self.block = block

    def forward(self, x: Tensor, *, mask: Mask | None = None, **unused: Any) -> BlockOutput:
        """Run the parts on ``[b i d]``; weights are not asked for."""
        block, h = self.block, self.block.self_attn_norm(x)
        context = block.self_attn.project_context(h)
        x = block.feed_forward(block.feed_forward_norm(block.self_attn(h, context, mask=mask).output))
        return BlockOutput(x, Cache(context), None, None)


@register.claim("depth")
class Depth(Claim):
    """Encoders of several depths, with and without skip connections, from the same first weights."""

    source = "He et al. 2016, section 1; Vaswani et al. 2017, section 3.1"
    seconds = (40, 240)
    points = ("interaction",)
    kinds = {
        f"{kind}-{depth}": {"depth": depth, "skip": kind == "skip"} for kind in KINDS for depth in (SHALLOW, 3, DEEP)
    }
    rates = (3e-3, 1e-2, 3e-2)
    sizes = {"steps": 300, "rows": 64, "tested": 500, "dim": 32, "length": 10}
    quick_sizes = {"steps": 150, "tested": 200, "length": 6}
    quick_rates = {"none-6": 3e-3}
    not_quick = ("skip-3", "none-3")
    shows = {name: (f"{name}-{DEEP}", "right") for name in KINDS}

    def measure(self, setup: Setup) -> dict[str, float]:
        """Learn to reverse; before that take the gradient, and how far apart the encoder's vectors are."""
        dim, length, task = setup["dim"], setup["length"], partial(small.reversals, symbols=SYMBOLS)
        config = small.resized("transformer", {"encoder.num_layers": setup["depth"]}, dim=dim, ffn_dim=2 * dim)
        model: Any = build(config, vocab_size=small.vocabulary(SYMBOLS), seed=setup.seed)
        if not setup["skip"]:
            model.encoder.layers = nn.ModuleList(Skipless(block) for block in model.encoder.layers)
        valid, test = small.validation_and_test(partial(task, setup["tested"], length), seed=setup.seed)
        loss, layers = batch_loss(model, valid), [tuple(layer.parameters()) for layer in model.encoder.layers]
        gradients = (torch.autograd.grad(loss, layer, retain_graph=True) for layer in layers)
        norms = [math.hypot(*(gradient.norm().item() for gradient in layer)) for layer in gradients]
        with torch.no_grad():
            apart = residual(model.encode(valid.source, valid.source_mask).states).mean().item()
        small.train(setup, model, small.stream(partial(task, setup["rows"], length), seed=setup.seed))
        return {
            "valid": small.loss_of(model, valid),
            "right": small.forced_accuracy(model, test),
            "apart": apart,
            **{f"gradient@{layer}": norm for layer, norm in enumerate(norms, start=1)},
        }

    def contrasts(self, trials: Trials) -> Contrasts:
        """What skip connections are worth to the deep encoder, less what they are worth to the shallow one."""
        worth = {depth: trials.differences(f"skip-{depth}", f"none-{depth}", "right") for depth in (SHALLOW, DEEP)}
        arms = [f"{kind}-{depth}" for kind in KINDS for depth in worth]
        error = trials.share_error(arms, "right", self.size["tested"] * (self.size["length"] + 1))
        return (contrast("interaction", minus(worth[DEEP], worth[SHALLOW]), "above", MARGIN, least_error=error),)

    def blocks(self, trials: Trials) -> Blocks:
        """Quality by depth; in a table what the first and the last layer's gradients are, and how far apart vectors."""
        lines, rows = {}, {}
        for kind in KINDS:
            depths = {float(arm.rpartition("-")[2]): arm for arm in trials.arms if arm.startswith(kind)}
            lines[kind] = trials.spots_across(depths, "right")
            for depth, arm in depths.items():
                before = (trials.mean(arm, name).mean for name in ("gradient@1", f"gradient@{depth:g}", "apart"))
                rows[arm] = (*map(power_of_ten, before), percent(trials.mean(arm, "right")))
        heads = ("first", "last", "apart", "right")
        return self.chart("depth", lines, of="line"), self.table("figures", heads, rows)
