"""A claim on attention as a cause: other weights in the place of those that a trained model computed."""

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor

from selfattn.claims import small
from selfattn.claims.claim import Claim, Setup, share
from selfattn.claims.rules import Contrasts, Trials, contrast, minus
from selfattn.data.batches import Batch
from selfattn.models.inside import attention_layers, edited, reweigh
from selfattn.models.protocol import Seq2Seq
from selfattn.registry import register

SYMBOLS = 16
MARK = small.FIRST + SYMBOLS  # stands behind every symbol of a target
LOST = 0.2  # a fifth of the tokens
KEPT = 0.02


@register.claim("cause")
class Cause(Claim):
    """Models as trained, and with other weights; at tokens that have to be looked up, and at others."""

    source = "Jain and Wallace 2019, section 4.2; Serrano and Smith 2019, section 3; Vig et al. 2020, section 2"
    seconds = (20, 90)
    points = ("rnn", "transformer", "rnn-marks", "transformer-marks")
    kinds: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "rnn": {"preset": "luong-dot", "parts": {"hidden_dim": 32}},
        "transformer": {"preset": "transformer", "parts": {"dim": 64, "ffn_dim": 128}},
    }
    rates = (3e-3, 1e-2, 3e-2)
    learned: ClassVar[Mapping[str, tuple[str, float]]] = {"rnn": ("looked_up", 0.9), "transformer": ("looked_up", 0.9)}
    sizes = {"steps": 400, "tested": 400, "length": 8}
    quick_sizes = {"steps": 200, "tested": 200, "length": 5}
    shows = {
        "rnn": ("rnn", "looked_up"),
        "rnn_uniform": ("rnn", "looked_up.uniform"),
        "transformer": ("transformer", "looked_up"),
        "transformer_uniform": ("transformer", "looked_up.uniform"),
    }
    columns = dict.fromkeys(
        ("looked_up", "looked_up.uniform", "looked_up.permuted", "mark", "mark.uniform", "mark.permuted"), share
    )

    def measure(self, setup: Setup) -> dict[str, float]:
        """Learn to write a sequence from its end, each symbol with a mark behind it; then change the weights."""
        make = partial(marked, length=setup["length"])
        config = small.resized(setup["preset"], **setup["parts"])
        model = small.trained(setup, config, partial(make, 64), symbols=SYMBOLS + 1)
        validation, test = small.validation_and_test(partial(make, setup["tested"]), seed=setup.seed)
        layers = [name for name in attention_layers(model) if name.endswith("cross_attn")]
        figures = {"valid": small.loss_of(model, validation)} | grades(model, test, "")
        for weights in ("uniform", "permuted"):
            changed = edited(model, *(reweigh(layer, weights) for layer in layers))
            figures |= grades(changed, test, f".{weights}")
        return figures

    def contrasts(self, trials: Trials) -> Contrasts:
        """Uniform weights cost accuracy at what is looked up, and nothing at the marks."""
        lost_symbols = []
        lost_marks = []
        for arm in self.kinds:
            looked_up = minus(trials.values(arm, "looked_up"), trials.values(arm, "looked_up.uniform"))
            marks = minus(trials.values(arm, "mark"), trials.values(arm, "mark.uniform"))
            items = self.size["tested"] * self.size["length"]
            errors = [trials.share_error([arm, arm], figure, items) for figure in ("looked_up", "mark")]
            lost_symbols.append(contrast(arm, looked_up, "above", LOST, least_error=errors[0]))
            lost_marks.append(contrast(f"{arm}-marks", marks, "within", KEPT, least_error=errors[1]))
        return (*lost_symbols, *lost_marks)

    def blocks(self, trials: Trials) -> tuple[Any, ...]:
        """The accuracy of each model, as trained and changed."""
        return (self.means(trials),)


def marked(rows: int, draws: torch.Generator, *, length: int) -> Batch:
    """Make sources whose target is the source from its end, with a mark behind each symbol."""
    source = small.random_symbols(rows, length, symbols=SYMBOLS, generator=draws)
    symbols = source.flip(1)
    target = torch.stack([symbols, torch.full_like(symbols, MARK)], dim=2)
    return small.batch_of(source, target.flatten(1))


def grades(model: Seq2Seq, batch: Batch, suffix: str) -> dict[str, float]:
    """Return the shares of right symbols, which have to be looked up, and of right marks, which do not."""
    hits: Tensor = small.forced_hits(model, batch)[:, :-1].double()
    return {f"looked_up{suffix}": float(hits[:, 0::2].mean()), f"mark{suffix}": float(hits[:, 1::2].mean())}
