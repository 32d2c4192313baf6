"""Claim: self-attention knows no order, until positions tell it."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn

from selfattn.claims import small
from selfattn.claims.claim import Blocks, Claim, Contrasts, Setup, Trials, percent
from selfattn.claims.rules import MARGIN, contrast, exact
from selfattn.data.batches import Batch
from selfattn.layers import initialise
from selfattn.models.protocol import EncoderMemory, Seq2Seq
from selfattn.models.transformer_config import TransformerConfig
from selfattn.registry import register
from selfattn.report.drawing.scale import power_of_ten
from selfattn.results.claims import Need
from selfattn.streams import generator

SYMBOLS, SHORTEST = 12, 5
POSITIONS = ("sinusoidal", "learned", "rotary", "alibi", "t5")
SAME, MOVED = 1e-10, 1e-3  # relative difference, in float64, that counts as none, and that counts as one


@register.claim("order")
class Order(Claim):
    """An encoder with and without positions, on a task of order and on a task of sets, at lengths old and new."""

    source = "Vaswani et al. 2017, section 3.5; Press et al. 2022, sections 1 and 3 (lengths never trained on)"
    seconds = (25.0, 250.0)
    points = tuple(f"{p}-{task}" for task in ("order", "set") for p in POSITIONS)
    kinds = {f"{p}-{task}": {"position": p, "task": task} for task in ("order", "set") for p in ("none", *POSITIONS)}
    rates = (1e-2, 3e-2, 9e-2)
    sizes = {"steps": 300, "tested": 400, "length": 20}
    quick_sizes = {"steps": 120, "tested": 200, "length": 8}
    shows = {"without": ("none-order", "right"), "with": ("sinusoidal-order", "right"), "set": ("none-set", "right")}

    def measure(self, setup: Setup) -> dict[str, float]:
        """Permute the input of an untrained encoder (``moved``), then train it: the ``right`` share of its labels."""
        task, length, seed = setup["task"], setup["length"], setup.seed
        model = Labeller(setup["position"], length, seed)
        moved = permuted_difference(Labeller(setup["position"], length, seed).double(), length, seed)
        small.train(setup, model, small.stream(partial(labelled, task, 64, SHORTEST, length), seed=seed))
        validation, test = small.validation_and_test(
            partial(labelled, task, setup["tested"], length, length), seed=seed
        )
        return {
            "valid": small.loss_of(model, validation),
            "moved": moved,
            "right": small.forced_accuracy(model, test),
        }

    def contrasts(self, trials: Trials) -> Contrasts:
        """Equivariant without positions, and with none of them; order needs them, a set does not."""
        needs: tuple[tuple[str, Need], ...] = (("order", "above"), ("set", "within"))
        return (
            exact("equivariant", max(trials.values("none-order", "moved")), SAME),
            *(contrast(f"moved-{p}", trials.values(f"{p}-order", "moved"), "above", MOVED) for p in POSITIONS),
            *(
                trials.lead(pair, pair, f"none-{task}", "right", self.size["tested"], need, MARGIN)
                for task, need in needs
                for pair in (f"{p}-{task}" for p in POSITIONS)
            ),
        )

    def blocks(self, trials: Trials) -> Blocks:
        """Both tasks without positions and with each kind of them."""
        kinds = ("none", *POSITIONS)
        lines = {
            t: trials.spots_across({k: f"{p}-{t}" for k, p in enumerate(kinds)}, "right") for t in ("order", "set")
        }
        rows = {
            p: [
                power_of_ten(trials.mean(f"{p}-order", "moved").mean),
                *(percent(trials.mean(f"{p}-{task}", "right")) for task in lines),
            ]
            for p in kinds
        }
        plot = self.chart("order", lines, of="line")
        return plot, self.table("order-positions", ("moved", *lines), rows, of="position")


class Labeller(Seq2Seq):
    """An encoder that writes one token at each position of its source: no mask hides anything, so none leaks order."""

    def __init__(self, position: str, max_length: int, seed: int) -> None:
        super().__init__()
        vocab_size = small.vocabulary(SYMBOLS)
        config = TransformerConfig(
            dim=32, num_heads=4, num_layers=2, ffn_dim=64, position=position, max_length=max_length
        )
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
def permuted_difference(model: Labeller, length: int, seed: int) -> float:
    """Return how far logits of permuted symbols are from permuted logits, at most, relative to the largest logit."""
    draws = generator(seed, "claims/permutation")
    x = small.random_symbols(8, length, symbols=SYMBOLS, generator=draws)
    places = torch.randperm(length, generator=draws)
    mask = torch.ones_like(x, dtype=torch.bool)
    straight, permuted = model.eval()(x, x, source_mask=mask), model(x[:, places], x, source_mask=mask)
    return float((permuted - straight[:, places]).abs().max() / straight.abs().max())
