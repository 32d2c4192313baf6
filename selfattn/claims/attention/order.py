"""Claim: self-attention knows no order, until positions tell it."""

from __future__ import annotations

from functools import partial

from selfattn.claims.attention.labelling import LONGEST, SYMBOLS, Labeller, labelled, permuted_difference
from selfattn.claims.claim import Arm, Claim, Found
from selfattn.claims.drawing import at, chart, percent, table
from selfattn.claims.rules import MARGIN, contrast, exact
from selfattn.claims.sequences import forced_accuracy, held_out, loss_of, stream, vocabulary
from selfattn.claims.training import train_for
from selfattn.models.transformer_config import TransformerConfig
from selfattn.registry import register
from selfattn.report.blocks import Block
from selfattn.report.drawing.scale import number_scale, power_of_ten
from selfattn.results.claims import Contrast, Need

SHORTEST, TEST = 5, (10, LONGEST, 40, 80)
ITEMS, RATES = 400, (3e-3, 1e-2, 3e-2)
POSITIONS = ("sinusoidal", "learned", "rotary", "alibi", "t5")
SHOWN = (("order", 20), ("order", 40), ("order", 80), ("set", 20), ("set", 80))  # in the table
SAME, MOVED = 1e-10, 1e-3  # relative difference, in float64, that counts as none, and that counts as one


@register.claim("order")
class Order(Claim):
    """An encoder with and without positions, on a task of order and on a task of sets, at lengths old and new."""

    name = "order"
    source = "Vaswani et al. 2017, section 3.5; Press et al. 2022, sections 1 and 3 (lengths never trained on)"
    seconds = (25.0, 250.0)
    points = tuple(f"{p}-{task}" for task in ("order", "set") for p in POSITIONS)

    def arms(self, quick: bool) -> tuple[Arm, ...]:
        """No position and every kind of it, on either task."""
        kinds = ("none", *POSITIONS)
        return tuple(
            Arm(f"{p}-{task}", {"position": p, "task": task}, RATES) for task in ("order", "set") for p in kinds
        )

    def measure(
        self, arm: Arm, *, seed: int, rate: float | None, quick: bool, steps: int = 300, items: int = ITEMS
    ) -> dict[str, float]:
        """Permute the input of an untrained encoder (``moved``), then train it: ``right@LENGTH`` of its labels."""
        task, size = arm.settings["task"], vocabulary(SYMBOLS)
        config = TransformerConfig(
            dim=32, num_heads=4, num_layers=2, ffn_dim=64, position=arm.settings["position"], max_length=TEST[-1]
        )
        model = Labeller(config, size, seed)
        moved = permuted_difference(Labeller(config, size, seed).double(), seed)
        batches = stream(partial(labelled, task, 64, SHORTEST, LONGEST), seed=seed)
        train_for(model, batches, steps=150 if quick else steps, lr=rate, seed=seed)
        of_length = {n: partial(labelled, task, items, n, n) for n in TEST}
        found = {f"right@{n}": forced_accuracy(model, held_out(make, seed=seed)) for n, make in of_length.items()}
        validation = held_out(of_length[LONGEST], seed=seed, name="validation")
        return {"valid": loss_of(model, validation), "moved": moved} | found

    def contrasts(self, found: Found) -> tuple[Contrast, ...]:
        """Equivariant without positions, and with none of them; order needs them, a set does not."""
        figure = f"right@{LONGEST}"
        needs: tuple[tuple[str, Need], ...] = (("order", "above"), ("set", "within"))
        return (
            exact("equivariant", max(found.values("none-order", "moved")), SAME),
            *(contrast(f"moved-{p}", found.values(f"{p}-order", "moved"), "above", MOVED) for p in POSITIONS),
            *(
                found.share_difference(pair, pair, f"none-{task}", figure, need, MARGIN, items=ITEMS)
                for task, need in needs
                for pair in (f"{p}-{task}" for p in POSITIONS)
            ),
        )

    def blocks(self, found: Found) -> tuple[Block, ...]:
        """The task of order by length, and all kinds of positions in a table."""
        kinds = ("none", *POSITIONS)
        lines = {p: found.spots(f"{p}-order", at("right", TEST)) for p in kinds}
        heads = ("moved", *(f"{task}@{length}" for task, length in SHOWN))
        rows = {p: [power_of_ten(found.mean(f"{p}-order", "moved").mean)] for p in kinds}
        for p, cells in rows.items():
            cells += (percent(found.mean(f"{p}-{task}", f"right@{length}")) for task, length in SHOWN)
        plot = chart(self, "order-by-length", lines, of="position", across=number_scale(TEST))
        return plot, table(self, "order-positions", heads, rows, of="position")
