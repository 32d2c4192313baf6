"""Without the future mask training looks perfect and generation fails."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from selfattn.claims.claim import Arm, Claim, Found
from selfattn.claims.drawing import at, chart, percent, table
from selfattn.claims.rules import MARGIN, exact
from selfattn.claims.sequences import (
    batch_of,
    forced_hits,
    greedy_hits,
    held_out,
    loss_of,
    random_symbols,
    stream,
    vocabulary,
)
from selfattn.claims.training import resized, train_for
from selfattn.data.batches import Batch
from selfattn.evaluation.gates.model_gates import causal
from selfattn.models.build import build
from selfattn.registry import register
from selfattn.report.blocks import Block
from selfattn.results.claims import Contrast

SYMBOLS, LENGTH, NOISE = 16, 12, 0.2
TESTED = {True: 200, False: 1000}  # rows, in a quick run and in a full one


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
        settings = {"steps": 200 if quick else 400, "rows": 64, "tested": TESTED[quick], "dim": 32}
        rates = (3e-3, 1e-2, 3e-2)
        return Arm("mask-on", {**settings, "mask": True}, rates), Arm("mask-off", {**settings, "mask": False}, rates)

    def measure(self, arm: Arm, *, seed: int, rate: float | None, quick: bool) -> dict[str, float]:
        """Train with the right tokens before each; test so, and by greedy decoding; ask the causal gate."""
        dim, tested = arm.settings["dim"], arm.settings["tested"]
        config = resized("transformer", dim=dim, ffn_dim=2 * dim)
        model: Any = build(config, vocab_size=vocabulary(SYMBOLS), seed=seed)
        if not arm.settings["mask"]:
            for block in model.decoder.blocks():
                block.self_attn.register_forward_pre_hook(_unmasked, with_kwargs=True)
        batches = stream(partial(noisy_copies, arm.settings["rows"]), seed=seed)
        loss = train_for(model, batches, steps=arm.settings["steps"], lr=rate, seed=seed)
        valid, test = (held_out(partial(noisy_copies, tested), seed=seed, name=name) for name in ("valid", "test"))
        hits = {"forced": forced_hits(model, test), "free": greedy_hits(model, test)}
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
        off_on, items = ("mask-off", "mask-on"), TESTED[found.quick] * (LENGTH + 1)
        wrong = [*found.values("mask-on", "leaks"), *(1 - fired for fired in found.values("mask-off", "leaks"))]
        return (
            found.share_difference("forced", *off_on, "forced", "above", MARGIN, items=items),
            found.share_difference("free", *off_on, "free", "below", -MARGIN, items=items),
            exact("gate", max(wrong), 0.5),
        )

    def blocks(self, found: Found) -> tuple[Block, ...]:
        """Accuracy by position, and in a table with the loss."""
        kinds = ("forced", "free")
        places = {kind: at(kind, range(1, LENGTH + 1)) for kind in kinds}
        lines = {f"{arm}.{kind}": found.spots(arm, places[kind]) for arm in found.arms for kind in kinds}
        rows = {
            arm: (f"{found.mean(arm, 'loss').mean:.3f}", *(percent(found.mean(arm, kind)) for kind in kinds))
            for arm in found.arms
        }
        return chart(self, "future-mask", lines, of="line"), table(self, "figures", ("loss", *kinds), rows)


def _unmasked(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Call self-attention without its mask."""
    return args, kwargs | {"causal": False}
