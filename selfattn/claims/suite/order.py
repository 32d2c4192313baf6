"""Claim: self-attention knows no order, until positions tell it."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn

from selfattn.claims import small
from selfattn.claims.claim import MARGIN, Arm, Blocks, Claim, Contrasts, Trials, at, contrast, exact, percent
from selfattn.data.batches import Batch
from selfattn.layers import initialise
from selfattn.models.protocol import EncoderMemory, Seq2Seq
from selfattn.models.transformer_config import TransformerConfig
from selfattn.registry import register
from selfattn.report.drawing.scale import number_scale, power_of_ten
from selfattn.results.claims import Need
from selfattn.streams import generator

SYMBOLS, SHORTEST, LONGEST = 12, 5, 20
TEST = (10, LONGEST, 40, 80)
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
        task, size = arm.settings["task"], small.vocabulary(SYMBOLS)
        config = TransformerConfig(
            dim=32, num_heads=4, num_layers=2, ffn_dim=64, position=arm.settings["position"], max_length=TEST[-1]
        )
        model = Labeller(config, size, seed)
        moved = permuted_difference(Labeller(config, size, seed).double(), seed)
        batches = small.stream(partial(labelled, task, 64, SHORTEST, LONGEST), seed=seed)
        small.train_for(model, batches, steps=150 if quick else steps, lr=rate, seed=seed)
        of_length = {n: partial(labelled, task, items, n, n) for n in TEST}
        figures = {
            f"right@{n}": small.forced_accuracy(model, small.held_out(make, seed=seed)) for n, make in of_length.items()
        }
        validation = small.held_out(of_length[LONGEST], seed=seed, name="validation")
        return {"valid": small.loss_of(model, validation), "moved": moved} | figures

    def contrasts(self, trials: Trials) -> Contrasts:
        """Equivariant without positions, and with none of them; order needs them, a set does not."""
        figure = f"right@{LONGEST}"
        needs: tuple[tuple[str, Need], ...] = (("order", "above"), ("set", "within"))
        return (
            exact("equivariant", max(trials.values("none-order", "moved")), SAME),
            *(contrast(f"moved-{p}", trials.values(f"{p}-order", "moved"), "above", MOVED) for p in POSITIONS),
            *(
                trials.share_difference(pair, pair, f"none-{task}", figure, need, MARGIN, items=ITEMS)
                for task, need in needs
                for pair in (f"{p}-{task}" for p in POSITIONS)
            ),
        )

    def blocks(self, trials: Trials) -> Blocks:
        """The task of order by length, and all kinds of positions in a table."""
        kinds = ("none", *POSITIONS)
        lines = {p: trials.spots(f"{p}-order", at("right", TEST)) for p in kinds}
        heads = ("moved", *(f"{task}@{length}" for task, length in SHOWN))
        rows = {p: [power_of_ten(trials.mean(f"{p}-order", "moved").mean)] for p in kinds}
        for p, cells in rows.items():
            cells += (percent(trials.mean(f"{p}-{task}", f"right@{length}")) for task, length in SHOWN)
        plot = self.chart("order-by-length", lines, of="position", across=number_scale(TEST))
        return plot, self.table("order-positions", heads, rows, of="position")


class Labeller(Seq2Seq):
    """An encoder that writes one token at each position of its source: no mask hides anything, so none leaks order."""

    def __init__(self, config: TransformerConfig, vocab_size: int, seed: int) -> None:
        super().__init__()
        self.encoder = config.make_encoder(nn.Embedding(vocab_size, config.dim, padding_idx=0))
        self.output = nn.Linear(config.dim, vocab_size)
        initialise(self, generator(seed, "init"))

    def encode(self, source: Tensor, source_mask: Tensor) -> EncoderMemory:
        """Run the encoder."""
        memory: EncoderMemory = self.encoder(source, source_mask)
        return memory

    def forward(self, source: Tensor, target_in: Tensor, *, source_mask: Tensor) -> Tensor:
        """Return logits ``[b s v]``; what stands in the target is not read."""
        logits: Tensor = self.output(self.encode(source, source_mask).states)
        return logits


def labelled(task: str, rows: int, shortest: int, longest: int, draws: torch.Generator) -> Batch:
    """Draw sequences of one length; a label is the symbol before (order), or the next larger one anywhere (set)."""
    length = int(torch.randint(shortest, longest + 1, (1,), generator=draws))
    x = small.random_symbols(rows, length, symbols=SYMBOLS, generator=draws)
    if task == "order":
        labels = x.roll(1, dims=1).index_fill(1, torch.tensor([0]), small.BOS)
    else:
        end = small.FIRST + SYMBOLS
        larger = x[:, None, :].expand(-1, length, -1)
        next_one = torch.where(larger > x[:, :, None], larger, end).amin(dim=-1)
        labels = next_one.masked_fill(next_one == end, small.BOS)
    everywhere = torch.ones_like(x, dtype=torch.bool)
    return Batch(x, everywhere, x, labels, everywhere, list(range(rows)))


@torch.inference_mode()
def permuted_difference(model: Labeller, seed: int) -> float:
    """Return how far logits of permuted symbols are from permuted logits, at most, relative to the largest logit."""
    draws = generator(seed, "claims/permutation")
    x = small.random_symbols(8, LONGEST, symbols=SYMBOLS, generator=draws)
    places = torch.randperm(LONGEST, generator=draws)
    mask = torch.ones_like(x, dtype=torch.bool)
    straight, permuted = model.eval()(x, x, source_mask=mask), model(x[:, places], x, source_mask=mask)
    return float((permuted - straight[:, places]).abs().max() / straight.abs().max())
