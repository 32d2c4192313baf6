"""Without the future mask training looks perfect and generation fails."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from selfattn.claims import small
from selfattn.claims.claim import Blocks, Claim, Contrasts, Setup, Trials, number, percent
from selfattn.claims.rules import MARGIN, exact
from selfattn.data.batches import Batch
from selfattn.evaluation.gates.model_gates import causal
from selfattn.models.build import build
from selfattn.registry import register

SYMBOLS, LENGTH, NOISE = 16, 12, 0.2


def noisy_copies(rows: int, generator: torch.Generator) -> Batch:
    """Make sources whose target is the source with every fifth symbol, at random, drawn anew: nobody can foresee it."""
    source, other = (small.random_symbols(rows, LENGTH, symbols=SYMBOLS, generator=generator) for _ in range(2))
    return small.batch_of(source, torch.where(torch.rand(source.shape, generator=generator) < NOISE, other, source))


@register.claim("future-mask")
class FutureMask(Claim):
    """The same Transformer trained with the decoder's mask and without it."""

    source = "Vaswani et al. 2017, section 3.2.3"
    seconds = (20, 90)
    points = ("forced", "free")
    kinds = {"mask-on": {"mask": True}, "mask-off": {"mask": False}}
    rates = (1e-2, 3e-2, 9e-2)
    sizes = {"steps": 400, "rows": 64, "tested": 1000, "dim": 32}
    quick_sizes = {"steps": 200, "tested": 200}
    shows = {"free": ("mask-off", "free"), "forced": ("mask-off", "forced"), "masked": ("mask-on", "free")}
    columns = {"loss": number, "forced": percent, "free": percent}

    def measure(self, setup: Setup) -> dict[str, float]:
        """Train with the right tokens before each; test so, and by greedy decoding; ask the causal gate."""
        dim, tested, seed = setup["dim"], setup["tested"], setup.seed
        config = small.resized("transformer", dim=dim, ffn_dim=2 * dim)
        model: Any = build(config, vocab_size=small.vocabulary(SYMBOLS), seed=seed)
        if not setup["mask"]:
            for block in model.decoder.layers:
                block.self_attn.register_forward_pre_hook(_unmasked, with_kwargs=True)
        loss = small.train(setup, model, small.stream(partial(noisy_copies, setup["rows"]), seed=seed))
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
        off_on, items = ("mask-off", "mask-on"), self.size["tested"] * (LENGTH + 1)
        wrong = [*trials.values("mask-on", "leaks"), *(1 - fired for fired in trials.values("mask-off", "leaks"))]
        return (
            trials.lead("forced", *off_on, "forced", items),
            trials.lead("free", *off_on, "free", items, "below", -MARGIN),
            exact("gate", max(wrong), 0.5),
        )

    def blocks(self, trials: Trials) -> Blocks:
        """Accuracy by position, and in a table with the loss."""
        lines = {f"{arm}.{kind}": trials.spots(arm, kind) for arm in trials.arms for kind in ("forced", "free")}
        return self.chart("future-mask", lines, of="line"), self.table("figures", self.columns, self.rows(trials))


def _unmasked(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Call self-attention without its mask."""
    return args, kwargs | {"mask": None, "causal": False}  # targets of one length: there is no padding to hide
