"""Without the future mask training looks perfect and generation fails."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from selfattn.claims import small
from selfattn.claims.claim import MARGIN, Arm, Blocks, Claim, Contrasts, Trials, at, exact, percent
from selfattn.data.batches import Batch
from selfattn.evaluation.gates.model_gates import causal
from selfattn.models.build import build
from selfattn.registry import register

SYMBOLS, LENGTH, NOISE = 16, 12, 0.2
TESTED = {True: 200, False: 1000}  # rows, in a quick run and in a full one


def noisy_copies(rows: int, generator: torch.Generator) -> Batch:
    """Make sources whose target is the source with every fifth symbol, at random, drawn anew: nobody can foresee it."""
    source, other = (small.random_symbols(rows, LENGTH, symbols=SYMBOLS, generator=generator) for _ in range(2))
    return small.batch_of(source, torch.where(torch.rand(source.shape, generator=generator) < NOISE, other, source))


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
        config = small.resized("transformer", dim=dim, ffn_dim=2 * dim)
        model: Any = build(config, vocab_size=small.vocabulary(SYMBOLS), seed=seed)
        if not arm.settings["mask"]:
            for block in model.decoder.blocks():
                block.self_attn.register_forward_pre_hook(_unmasked, with_kwargs=True)
        batches = small.stream(partial(noisy_copies, arm.settings["rows"]), seed=seed)
        loss = small.train_for(model, batches, steps=arm.settings["steps"], lr=rate, seed=seed)
        valid, test = (
            small.held_out(partial(noisy_copies, tested), seed=seed, name=name) for name in ("valid", "test")
        )
        hits = {"forced": small.forced_hits(model, test), "free": small.greedy_hits(model, test)}
        leaks = not causal(model, test.changed(lambda part: part[:8], list(range(min(8, tested))))).passed
        return {
            "valid": small.loss_of(model, valid),
            "loss": loss,
            "leaks": float(leaks),
            **{kind: float(hit.double().mean()) for kind, hit in hits.items()},
            **{f"{k}@{at + 1}": float(h[:, at].double().mean()) for k, h in hits.items() for at in range(LENGTH)},
        }

    def contrasts(self, trials: Trials) -> Contrasts:
        """Teacher-forced better without the mask, free-running worse, and the gate tells the two apart every time."""
        off_on, items = ("mask-off", "mask-on"), TESTED[trials.quick] * (LENGTH + 1)
        wrong = [*trials.values("mask-on", "leaks"), *(1 - fired for fired in trials.values("mask-off", "leaks"))]
        return (
            trials.share_difference("forced", *off_on, "forced", "above", MARGIN, items=items),
            trials.share_difference("free", *off_on, "free", "below", -MARGIN, items=items),
            exact("gate", max(wrong), 0.5),
        )

    def blocks(self, trials: Trials) -> Blocks:
        """Accuracy by position, and in a table with the loss."""
        kinds = ("forced", "free")
        places = {kind: at(kind, range(1, LENGTH + 1)) for kind in kinds}
        lines = {f"{arm}.{kind}": trials.spots(arm, places[kind]) for arm in trials.arms for kind in kinds}
        rows = {
            arm: (f"{trials.mean(arm, 'loss').mean:.3f}", *(percent(trials.mean(arm, kind)) for kind in kinds))
            for arm in trials.arms
        }
        return self.chart("future-mask", lines, of="line"), self.table("figures", ("loss", *kinds), rows)


def _unmasked(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Call self-attention without its mask."""
    return args, kwargs | {"mask": None, "causal": False}  # targets of one length: there is no padding to hide
