"""Claims on positions: self-attention knows no order without them; relative ones carry over to longer sequences."""

from functools import partial

import torch
from torch import Tensor, nn

from selfattn.claims import small
from selfattn.claims.claim import Blocks, Claim, Setup, percent, share
from selfattn.claims.rules import MARGIN, Contrasts, Trials, contrast, exact
from selfattn.data.batches import Batch
from selfattn.layers import initialise
from selfattn.models.transformer_config import TransformerConfig
from selfattn.registry import register
from selfattn.report.drawing.scale import power_of_ten
from selfattn.streams import generator

SYMBOLS, SHORTEST = 12, 5
POSITIONS = ("sinusoidal", "learned", "rotary", "alibi", "t5")
TASKS = ("order", "set")
SAME, MOVED = 1e-10, 1e-3  # relative differences in float64: at most none, at least one


class Labeller(small.Classifier):
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

    def classify(self, source: Tensor, source_mask: Tensor) -> Tensor:
        """Return logits ``[b s v]``."""
        logits: Tensor = self.output(self.encoder(source, source_mask).states)
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


@register.claim("order")
class Order(Claim):
    """An encoder with and without positions, on a task of order and on a task of sets."""

    source = "Vaswani et al. 2017, section 3.5; Press et al. 2022, sections 1 and 3 (lengths never trained on)"
    seconds = (22, 250)
    points = tuple(f"{position}-{task}" for task in TASKS for position in POSITIONS)
    kinds = {f"{p}-{task}": {"position": p, "task": task} for task in TASKS for p in ("none", *POSITIONS)}
    rates = (1e-2, 3e-2, 9e-2)
    sizes = {"steps": 300, "tested": 400, "length": 20}
    quick_sizes = {"steps": 160, "tested": 200, "length": 8}
    shows = {"without": ("none-order", "right"), "with": ("sinusoidal-order", "right"), "set": ("none-set", "right")}
    figure = "right"
    lines = {task: {k: f"{p}-{task}" for k, p in enumerate(("none", *POSITIONS))} for task in TASKS}

    def measure(self, setup: Setup) -> dict[str, float]:
        """Permute the input of an untrained encoder (``moved``), then train it: the ``right`` share of its labels."""
        task, length, seed = setup["task"], setup["length"], setup.seed
        model = Labeller(setup["position"], length, seed)
        moved = permuted_difference(Labeller(setup["position"], length, seed).double(), length, seed)
        small.train(setup, model, small.stream(partial(labelled, task, 64, SHORTEST, length), seed=seed))
        return small.graded(setup, model, partial(labelled, task, setup["tested"], length, length)) | {"moved": moved}

    def contrasts(self, trials: Trials) -> Contrasts:
        """Equivariant without positions, and with none of them; order needs them, a set does not."""
        items = self.size["tested"]
        return (
            exact("equivariant", max(trials.values("none-order", "moved")), SAME),
            *(contrast(f"moved-{p}", trials.values(f"{p}-order", "moved"), "above", MOVED) for p in POSITIONS),
            *(trials.lead(f"{p}-order", f"{p}-order", "none-order", "right", items) for p in POSITIONS),
            *(trials.lead(f"{p}-set", f"{p}-set", "none-set", "right", items, "within", MARGIN) for p in POSITIONS),
        )

    def blocks(self, trials: Trials) -> Blocks:
        """Both tasks without positions and with each kind of them."""
        rows = {}
        for position in ("none", *POSITIONS):
            rights = (percent(trials.mean(f"{position}-{task}", "right")) for task in TASKS)
            rows[position] = (power_of_ten(trials.mean(f"{position}-order", "moved").mean), *rights)
        return *super().blocks(trials), self.table("order-positions", ("moved", *TASKS), rows, of="position")


ABSOLUTE, RELATIVE = ("sinusoidal", "learned"), ("rotary", "t5")  # ALiBi sees mostly its neighbours: shown, not tested


@register.claim("extrapolation")
class Extrapolation(Claim):
    """Encoders with five kinds of positions, trained on short sequences and tested on longer ones."""

    source = "Press et al. 2022, sections 1 and 3; Shaw et al. 2018, section 3.2"
    seconds = (10, 120)
    points = tuple(f"{relative}-{absolute}" for relative in RELATIVE for absolute in ABSOLUTE)
    kinds = {position: {"position": position} for position in POSITIONS}
    rates = (1e-2, 3e-2, 9e-2)
    sizes = {"steps": 300, "tested": 400, "length": 20, "double": 40, "lengths": (20, 30, 40, 80)}
    quick_sizes = {"steps": 200, "tested": 200, "length": 8, "double": 16, "lengths": (8, 12, 16)}
    quick_rates = {"t5": 9e-2}
    not_quick = ("alibi",)
    shows = {"short": ("sinusoidal", "short"), "absolute": ("sinusoidal", "double"), "relative": ("rotary", "double")}
    figure, columns = "right", {"short": share, "double": share}

    def measure(self, setup: Setup) -> dict[str, float]:
        """Train up to one length, and measure the share of right labels at that length and at longer ones."""
        length, lengths = setup["length"], setup["lengths"]
        model = Labeller(setup["position"], max(*lengths, setup["double"]), setup.seed)
        small.train(setup, model, small.stream(partial(labelled, "order", 64, SHORTEST, length), seed=setup.seed))
        unseen = {n: partial(labelled, "order", setup["tested"], n, n) for n in {*lengths, length, setup["double"]}}
        right = {n: small.forced_accuracy(model, small.held_out(unseen[n], seed=setup.seed)) for n in sorted(unseen)}
        valid = small.loss_of(model, small.held_out(unseen[length], seed=setup.seed, name="validation"))
        ends = {"valid": valid, "short": right[length], "double": right[setup["double"]]}
        return ends | {f"right@{n}": right[n] for n in lengths}

    def contrasts(self, trials: Trials) -> Contrasts:
        """At twice the length each relative kind leads over each absolute kind."""
        pairs = [(relative, absolute) for relative in RELATIVE for absolute in ABSOLUTE]
        return tuple(trials.lead(f"{a}-{b}", a, b, "double", self.size["tested"]) for a, b in pairs)
