"""Depth needs skip connections: quality, and the gradient's norm by layer, with and without."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from selfattn.claims.claim import Arm, Claim, Found
from selfattn.claims.rules import MARGIN, contrast, share_error
from selfattn.claims.sequences import forced_accuracy, held_out, loss_of, reversals, stream, vocabulary
from selfattn.claims.training import train_for
from selfattn.figures.claims import Contrast
from selfattn.layers.transformer import BlockOutput, TransformerBlock
from selfattn.models.build import build
from selfattn.models.presets import get_preset
from selfattn.registry import register
from selfattn.report.blocks import Block, Chart, ChartLine, Column, Row, Table
from selfattn.report.drawing.scale import Scale, power_of_ten
from selfattn.training.objective.loss import batch_loss

SYMBOLS, LENGTH = 16, 10
SHALLOW, DEEP = 1, 6


def residual(x: Tensor) -> Tensor:
    """Return what is left of vectors ``[b i d]`` without each text's mean, as a share ``[b]`` of their norm."""
    left: Tensor = (x - x.mean(dim=1, keepdim=True)).norm(dim=(1, 2)) / x.norm(dim=(1, 2))
    return left


class Skipless(nn.Module):
    """A block's parts one after the other, each behind its norm, with nothing that goes around them."""

    def __init__(self, block: TransformerBlock) -> None:
        super().__init__()
        self.block = block

    def forward(self, x: Tensor, *, mask: Tensor | None = None, need_weights: bool = False) -> BlockOutput:
        """Run the parts on ``[b i d]``; weights are not asked for."""
        block, h = self.block, self.block.self_attn_norm(x)
        cache = block.self_attn.project_context(h)
        x = block.feed_forward(block.feed_forward_norm(block.self_attn(h, cache, mask=mask).output))
        return BlockOutput(x, cache, None, None)


@register.claim("depth")
class Depth(Claim):
    """Encoders of several depths, with and without skip connections, from the same first weights."""

    name = "depth"
    source = "He et al. 2016, section 1; Vaswani et al. 2017, section 3.1"
    seconds = (40, 240)
    points = ("interaction",)

    def arms(self, quick: bool) -> tuple[Arm, ...]:
        """Depth by skip connections."""
        settings = {"steps": 240 if quick else 300, "rows": 64, "tested": 200 if quick else 500, "dim": 32}
        return tuple(
            Arm(f"{kind}-{depth}", {**settings, "depth": depth, "skip": kind == "skip"}, (1e-3, 3e-3, 1e-2, 3e-2))
            for kind in ("skip", "none")
            for depth in ((SHALLOW, DEEP) if quick else (SHALLOW, 3, DEEP))
        )

    def measure(self, arm: Arm, *, seed: int, rate: float | None, quick: bool) -> dict[str, float]:
        """Learn to reverse; before that take the gradient, and how far apart the encoder's vectors are."""
        config: Any = get_preset("transformer").config
        size = {"dim": arm.settings["dim"], "ffn_dim": 2 * arm.settings["dim"]}
        encoder = replace(config.encoder, num_layers=arm.settings["depth"], **size)
        config = replace(config, encoder=encoder, decoder=replace(config.decoder, **size))
        model: Any = build(config, vocab_size=vocabulary(SYMBOLS), seed=seed)
        if not arm.settings["skip"]:
            model.encoder.layers = nn.ModuleList(Skipless(block) for block in model.encoder.layers)
        tested, rows = arm.settings["tested"], arm.settings["rows"]
        valid, test = (
            held_out(lambda draws: reversals(tested, LENGTH, symbols=SYMBOLS, generator=draws), seed=seed, name=name)
            for name in ("validation", "test")
        )
        batch_loss(model, valid).backward()  # type: ignore[no-untyped-call]
        norms = [math.hypot(*(p.grad.norm().item() for p in part.parameters())) for part in model.encoder.layers]
        model.zero_grad()
        with torch.no_grad():
            apart = residual(model.encode(valid.source, valid.source_mask).states).mean().item()
        batches = stream(lambda draws: reversals(rows, LENGTH, symbols=SYMBOLS, generator=draws), seed=seed)
        train_for(model, batches, steps=arm.settings["steps"], lr=rate or 0.0, seed=seed)
        return {
            "valid": loss_of(model, valid),
            "right": forced_accuracy(model, test),
            "apart": apart,
            **{f"gradient@{layer}": norm for layer, norm in enumerate(norms, start=1)},
        }

    def contrasts(self, found: Found) -> tuple[Contrast, ...]:
        """What skip connections are worth to the deep encoder, less what they are worth to the shallow one."""
        worth = {d: found.differences(f"skip-{d}", f"none-{d}", "right") for d in (SHALLOW, DEEP)}
        items = (200 if found.quick else 500) * (LENGTH + 1)
        error = math.hypot(
            *(share_error(found.values(f"{kind}-{d}", "right"), items) for kind in ("skip", "none") for d in worth)
        )
        interaction = [deep - shallow for deep, shallow in zip(worth[DEEP], worth[SHALLOW], strict=True)]
        return (contrast("interaction", interaction, "above", MARGIN, least_error=error),)

    def blocks(self, found: Found) -> tuple[Block, ...]:
        """Quality by depth; in a table what the first and the last layer's gradients are, and how far apart vectors."""
        depths = {kind: [int(arm.rpartition("-")[2]) for arm in found.arms if arm.startswith(kind)] for kind in _KINDS}
        lines, rows = [], []
        for kind in _KINDS:
            spots = tuple(found.spots(f"{kind}-{d}", {d: "right"})[0] for d in depths[kind])
            lines.append(ChartLine(kind, spots, self.say(f"line.{kind}")))
            for d in depths[kind]:
                means = [found.mean(f"{kind}-{d}", name).mean for name in ("gradient@1", f"gradient@{d}", "apart")]
                right = found.mean(f"{kind}-{d}", "right").mean
                cells = (*(power_of_ten(mean) for mean in means), f"{100 * right:.1f}")
                rows.append(Row((self.say(f"arm.{kind}-{d}"), *cells)))
        heads = tuple(
            Column(self.say(f"column.{name}"), name != "arm") for name in ("arm", "first", "last", "apart", "right")
        )
        words = {key: self.say(key) for key in ("caption", "unit", "height")}
        chart = Chart("depth", words["caption"], tuple(lines), Scale(), words["unit"], height=words["height"])
        return chart, Table("figures", heads, tuple(rows))


_KINDS = ("skip", "none")
