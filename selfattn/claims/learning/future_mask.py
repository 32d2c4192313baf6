"""Without the future mask training looks perfect and generation fails."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch

from selfattn.claims.claim import Arm, Claim, Found
from selfattn.claims.rules import MARGIN, contrast, exact, share_error
from selfattn.claims.sequences import (
    BOS,
    EOS,
    batch_of,
    forced_hits,
    held_out,
    loss_of,
    random_symbols,
    stream,
    vocabulary,
    written_hits,
)
from selfattn.claims.training import train_for
from selfattn.data.batches import Batch
from selfattn.decoding.greedy import greedy
from selfattn.evaluation.gates.model_gates import causal
from selfattn.figures.claims import Contrast
from selfattn.models.build import build
from selfattn.models.presets import get_preset
from selfattn.registry import register
from selfattn.report.blocks import Block, Chart, ChartLine, Column, Row, Table
from selfattn.report.drawing.scale import Scale

SYMBOLS, LENGTH, NOISE = 16, 12, 0.2


def noisy_copies(rows: int, generator: torch.Generator) -> Batch:
    """Make sources whose target is the source with every fifth symbol, at random, drawn anew: nobody can foresee it."""
    source, other = (random_symbols(rows, LENGTH, symbols=SYMBOLS, generator=generator) for _ in range(2))
    return batch_of(source, torch.where(torch.rand(source.shape, generator=generator) < NOISE, other, source))


@register.claim("future-mask")
class FutureMask(Claim):
    """The same Transformer trained with the decoder's mask and without it."""

    name = "future-mask"
    source = "Vaswani et al. 2017, section 3.2.3"
    seconds = (20, 90)
    points = ("forced", "free")

    def arms(self, quick: bool) -> tuple[Arm, ...]:
        """Mask on and off."""
        settings = {"steps": 200 if quick else 400, "rows": 64, "tested": 200 if quick else 1000, "dim": 32}
        rates = (3e-3, 1e-2, 3e-2)
        return Arm("mask-on", {**settings, "mask": True}, rates), Arm("mask-off", {**settings, "mask": False}, rates)

    def measure(self, arm: Arm, *, seed: int, rate: float | None, quick: bool) -> dict[str, float]:
        """Train with the right tokens before each; test so, and by greedy decoding; ask the causal gate."""
        config: Any = get_preset("transformer").config
        size = {"dim": arm.settings["dim"], "ffn_dim": 2 * arm.settings["dim"]}
        config = replace(config, encoder=replace(config.encoder, **size), decoder=replace(config.decoder, **size))
        model: Any = build(config, vocab_size=vocabulary(SYMBOLS), seed=seed)
        if not arm.settings["mask"]:
            for block in model.decoder.blocks():
                block.self_attn.register_forward_pre_hook(_unmasked, with_kwargs=True)
        batches = stream(lambda draws: noisy_copies(arm.settings["rows"], draws), seed=seed)
        loss = train_for(model, batches, steps=arm.settings["steps"], lr=rate or 0.0, seed=seed)
        tested = arm.settings["tested"]
        valid, test = (
            held_out(lambda draws: noisy_copies(tested, draws), seed=seed, name=n) for n in ("valid", "test")
        )
        written = greedy(model, test.source, test.source_mask, bos_id=BOS, eos_id=EOS, max_length=LENGTH + 1)
        hits = {"forced": forced_hits(model, test), "free": written_hits(written, test)}
        leaks = not causal(model, test.changed(lambda part: part[:8], list(range(min(8, tested))))).passed
        return {
            "valid": loss_of(model, valid),
            "loss": loss,
            "leaks": float(leaks),
            **{kind: float(hit.double().mean()) for kind, hit in hits.items()},
            **{f"{k}@{at + 1}": float(h[:, at].double().mean()) for k, h in hits.items() for at in range(LENGTH)},
        }

    def contrasts(self, found: Found) -> tuple[Contrast, ...]:
        """Teacher-forced better without the mask, free-running worse, and the gate tells the two apart every time."""
        items = (200 if found.quick else 1000) * (LENGTH + 1)

        def apart(kind: str) -> tuple[tuple[float, ...], float]:
            error = math.hypot(*(share_error(found.values(arm, kind), items) for arm in ("mask-on", "mask-off")))
            return found.differences("mask-off", "mask-on", kind), error

        (forced, forced_error), (free, free_error) = apart("forced"), apart("free")
        wrong = [*found.values("mask-on", "leaks"), *(1 - fired for fired in found.values("mask-off", "leaks"))]
        return (
            contrast("forced", forced, "above", MARGIN, least_error=forced_error),
            contrast("free", free, "below", -MARGIN, least_error=free_error),
            exact("gate", max(wrong), 0.5),
        )

    def blocks(self, found: Found) -> tuple[Block, ...]:
        """Accuracy by position, and in a table with the loss."""
        lines = tuple(
            ChartLine(
                f"{arm} {kind}",
                found.spots(arm, {at: f"{kind}@{at}" for at in range(1, LENGTH + 1)}),
                self.say(f"line.{arm}.{kind}"),
            )
            for arm in found.arms
            for kind in ("forced", "free")
        )
        rows = []
        for arm in found.arms:
            shares = (f"{100 * found.mean(arm, kind).mean:.1f}" for kind in ("forced", "free"))
            rows.append(Row((self.say(f"arm.{arm}"), f"{found.mean(arm, 'loss').mean:.3f}", *shares)))
        heads = tuple(Column(self.say(f"column.{name}"), name != "arm") for name in ("arm", "loss", "forced", "free"))
        chart = Chart("future-mask", self.say("caption"), lines, Scale(), self.say("unit"), height=self.say("height"))
        return chart, Table("figures", heads, tuple(rows))


def _unmasked(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Call self-attention without its mask."""
    return args, kwargs | {"causal": False}
