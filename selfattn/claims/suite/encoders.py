"""Claims on what an encoder is made of: positions, stacked layers, skip connections, norms.

Self-attention knows no order without positions, and relative ones carry over to longer sequences. Without a
non-linearity stacked layers only average, depth needs skip connections, and where the norm stands decides whether the
learning rate has to warm up.
"""

import math
from collections.abc import Mapping
from functools import partial
from itertools import product
from typing import Any

import torch
from torch import Generator, Tensor, nn

from selfattn.attention import MultiHeadAttention
from selfattn.attention.cache import Cache
from selfattn.attention.masks import Mask
from selfattn.claims import small
from selfattn.claims.claim import Blocks, Claim, Setup, number, share
from selfattn.claims.rules import MARGIN, Contrasts, Trials, contrast, exact, minus
from selfattn.data.batches import Batch
from selfattn.layers import FeedForward, initialise, make_norm
from selfattn.layers.transformer import BlockOutput, TransformerBlock
from selfattn.models.build import build
from selfattn.models.families import TransformerConfig
from selfattn.registry import register
from selfattn.report.numbers import Scale
from selfattn.streams import generator
from selfattn.training.loss import batch_loss

SYMBOLS = 12
SHORTEST = 5
POSITIONS = ("sinusoidal", "learned", "rotary", "alibi", "t5")
TASKS = ("order", "set")
SAME = 1e-10  # relative difference in float64: at most none
MOVED = 1e-3  # at least one


def encoder(position: str, max_length: int, seed: int, *, causal: bool = False) -> small.Labeller:
    """Build a stack of two layers that writes one token at each position: no mask hides anything, so none leaks order.

    Args:
        position: how places are told.
        max_length: of the sequences.
        seed: of the first weights.
        causal: whether a position sees those before it alone; default all.
    """
    config = TransformerConfig(dim=32, num_heads=4, num_layers=2, ffn_dim=64, position=position, max_length=max_length)
    return small.Labeller(config, seed, symbols=SYMBOLS, causal=causal)


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
    return small.labels(x, labels)


@torch.inference_mode()
def permuted_difference(model: small.Labeller, length: int, seed: int) -> float:
    """Return how far logits of permuted symbols are from permuted logits, at most, relative to the largest logit."""
    draws = generator(seed, "claims/permutation")
    x = small.random_symbols(8, length, symbols=SYMBOLS, generator=draws)
    places = torch.randperm(length, generator=draws)
    mask = torch.ones_like(x, dtype=torch.bool)
    model.eval()
    straight = model(x, x, source_mask=mask)
    permuted = model(x[:, places], x, source_mask=mask)
    return float((permuted - straight[:, places]).abs().max() / straight.abs().max())


@register.claim("order")
class Order(Claim):
    """An encoder with and without positions, on a task of order and on a task of sets."""

    source = "Vaswani et al. 2017, section 3.5; Press et al. 2022, sections 1 and 3 (lengths never trained on)"
    seconds = (6, 250)
    points = tuple(f"{position}-{task}" for task, position in product(TASKS, POSITIONS))
    kinds = {f"{p}-{task}": {"position": p, "task": task} for task, p in product(TASKS, ("none", *POSITIONS))}
    rates = (1e-2, 3e-2, 9e-2)
    learned = {f"{position}-set": ("right", 0.8) for position in ("none", *POSITIONS)}
    sizes = {"steps": 300, "tested": 400, "length": 20}
    quick_sizes = {"steps": 160, "tested": 200, "length": 8}
    not_quick = tuple(arm for arm in kinds if not arm.startswith(("none", "sinusoidal")))
    shows = {"without": ("none-order", "right"), "with": ("sinusoidal-order", "right"), "set": ("none-set", "right")}
    figure = "right"
    columns = {"right": share, "moved": number}
    lines = {task: {k: f"{p}-{task}" for k, p in enumerate(("none", *POSITIONS))} for task in TASKS}

    def measure(self, setup: Setup) -> dict[str, float]:
        """Permute the input of an untrained encoder (``moved``), then train it: the ``right`` share of its labels."""
        task = setup["task"]
        length = setup["length"]
        seed = setup.seed
        model = encoder(setup["position"], length, seed)
        moved = permuted_difference(encoder(setup["position"], length, seed).double(), length, seed)
        small.train(setup, model, small.stream(partial(labelled, task, 64, SHORTEST, length), seed=seed))
        return small.graded(setup, model, partial(labelled, task, setup["tested"], length, length)) | {"moved": moved}

    def contrasts(self, trials: Trials) -> Contrasts:
        """Equivariant without positions, and with none of them; order needs them, a set does not."""
        items = self.size["tested"]
        measured = [p for p in POSITIONS if f"{p}-order" in trials.arms]
        return (
            exact("equivariant", max(trials.values("none-order", "moved")), SAME),
            *(contrast(f"moved-{p}", trials.values(f"{p}-order", "moved"), "above", MOVED) for p in measured),
            *(trials.lead(f"{p}-order", f"{p}-order", "none-order", "right", items) for p in measured),
            *(trials.lead(f"{p}-set", f"{p}-set", "none-set", "right", items, "within", MARGIN) for p in measured),
        )


ABSOLUTE = ("sinusoidal", "learned")
RELATIVE = ("rotary", "t5", "alibi")
BIASES = ("t5", "alibi")


@register.claim("extrapolation")
class Extrapolation(Claim):
    """Causal stacks with five kinds of positions, trained on short sequences and tested on longer ones."""

    source = "Press et al. 2022, sections 2.2 and 3; Shaw et al. 2018, section 3.2; Su et al. 2021 (rotary)"
    seconds = (3, 60)
    points = tuple(f"{relative}-{absolute}" for relative, absolute in product(RELATIVE, ABSOLUTE))
    kinds = {position: {"position": position} for position in POSITIONS}
    rates = (2e-2,)
    learned = dict.fromkeys(POSITIONS, ("short", 0.9))
    # Where the distance is added to the score, as Press et al. do.
    weaker = {"biases": tuple(f"{bias}-{absolute}" for bias, absolute in product(BIASES, ABSOLUTE))}
    sizes = {"steps": 250, "rows": 32, "tested": 300, "length": 12, "double": 24, "lengths": (12, 18, 24, 48)}
    quick_sizes = {"steps": 120, "tested": 200, "lengths": (12, 24)}
    not_quick = BIASES
    shows = {"short": ("sinusoidal", "short"), "absolute": ("sinusoidal", "double")}
    shows |= {"rotary": ("rotary", "double"), "alibi": ("alibi", "double")}
    figure = "right"
    columns = {"short": share, "double": share}

    def measure(self, setup: Setup) -> dict[str, float]:
        """Train up to one length, and measure the share of right labels at that length and at longer ones."""
        length = setup["length"]
        lengths = sorted({length, setup["double"], *setup["lengths"]})
        model = encoder(setup["position"], max(lengths), setup.seed, causal=True)
        make = partial(labelled, "order", setup["rows"], SHORTEST, length)
        small.train(setup, model, small.stream(make, seed=setup.seed))
        right = {}
        for n in lengths:
            unseen = partial(labelled, "order", setup["tested"], n, n)
            right[n] = small.forced_accuracy(model, small.held_out(unseen, seed=setup.seed))
        trained = partial(labelled, "order", setup["tested"], length, length)
        valid = small.loss_of(model, small.held_out(trained, seed=setup.seed, name="validation"))
        ends = {"valid": valid, "short": right[length], "double": right[setup["double"]]}
        return ends | {f"right@{n}": right[n] for n in setup["lengths"]}

    def contrasts(self, trials: Trials) -> Contrasts:
        """At twice the length each relative kind leads over each absolute kind."""
        items = self.size["tested"]
        relative = [kind for kind in RELATIVE if kind in trials.arms]
        return tuple(trials.lead(f"{a}-{b}", a, b, "double", items) for a, b in product(relative, ABSOLUTE))


def residual(x: Tensor) -> Tensor:
    """Return what is left of vectors ``[b i d]`` without each text's mean, as a share ``[b]`` of their norm."""
    left: Tensor = (x - x.mean(dim=1, keepdim=True)).norm(dim=(1, 2)) / x.norm(dim=(1, 2))
    return left


DEPTH = 8  # layers that are drawn
JUDGED = 4  # the layer that the rule looks at, before rounding ends the fall
SMALLEST = 1e-15  # what rounding in float64 leaves
GONE = -2.0  # powers of ten: a hundredth of the differences is left
KEPT = -1.0  # a tenth


@register.claim("averaging")
class Averaging(Claim):
    """Stacks of random weights with and without feed-forward blocks, with and without skip connections."""

    source = "Dong et al. 2021, theorem 2.2 and section 2.2"
    seconds = (1, 10)
    kinds = {
        "neither": {"forward": False, "skip": False},
        "forward": {"forward": True, "skip": False},
        "skip": {"forward": False, "skip": True},
        "both": {"forward": True, "skip": True},
    }
    sizes = {"dim": 64, "heads": 4, "tokens": 32, "texts": 16, "stacks": 8}
    quick_sizes = {"texts": 8, "stacks": 2}
    shows = {arm: (arm, "left") for arm in kinds}

    def measure(self, setup: Setup) -> dict[str, float]:
        """Send random vectors through stacks of random layers, and take the mean over stacks; no layer is trained."""
        draws = generator(setup.seed, "claims/data")
        weights = generator(setup.seed, "init")
        stacks = [stack_figures(setup.arm.settings, draws, weights) for _ in range(setup["stacks"])]
        means = {name: sum(stack[name] for stack in stacks) / len(stacks) for name in stacks[0]}
        return means | {"left": 10 ** means[f"left@{JUDGED}"], "beyond": max(stack["beyond"] for stack in stacks)}

    def contrasts(self, trials: Trials) -> Contrasts:
        """Without skip connections, attention alone averages the differences away, and a non-linearity keeps them."""
        return self.rule(trials, "neither", "forward")

    def conditions(self, trials: Trials) -> dict[str, Contrasts]:
        """The same with skip connections on both sides."""
        return {"skip": self.rule(trials, "skip", "both")}

    def rule(self, trials: Trials, linear: str, other: str) -> Contrasts:
        """Hold a stack without the non-linearity and one with it against their bounds."""
        beyond = max(max(trials.values(arm, "beyond")) for arm in self.kinds)
        return (
            exact("mean", beyond, 1e-12),
            contrast(linear, trials.values(linear, f"left@{JUDGED}"), "below", GONE),
            contrast(other, trials.values(other, f"left@{JUDGED}"), "above", KEPT),
        )

    def blocks(self, trials: Trials) -> Blocks:
        """What is left of the differences, by depth."""
        lines = {arm: trials.spots(arm, "left", lambda power: 10.0**power) for arm in trials.arms}
        return (self.chart("averaging", lines, scale=Scale(None, 1.0, "number", SMALLEST, powers=True)),)


def stack_figures(settings: Mapping[str, Any], draws: Generator, weights: Generator) -> dict[str, float]:
    """Return what is left after each layer of a random stack (``left@LAYER``), and what leaves the inputs' range."""
    dim = settings["dim"]
    heads = settings["heads"]
    x = torch.randn(settings["texts"], settings["tokens"], dim, generator=draws, dtype=torch.float64)
    # A theorem: without projections every output is a weighted mean of the inputs, so that none leaves their range.
    mean = MultiHeadAttention(dim, num_heads=heads, project=False)(x).output
    beyond = torch.maximum(mean.amax(dim=1) - x.amax(dim=1), x.amin(dim=1) - mean.amin(dim=1)).max().item()
    figures = {"beyond": max(0.0, beyond), "left@0": residual(x).mean().log10().item()}
    for layer in range(1, DEPTH + 1):
        parts: list[nn.Module] = [MultiHeadAttention(dim, num_heads=heads)]
        parts += [FeedForward(dim, 2 * dim)] if settings["forward"] else []
        for part in parts:
            norm = make_norm("layer", dim)
            initialise(nn.ModuleList([part, norm]), weights)
            with torch.no_grad():
                output = part.double()(norm.double()(x))
                output = output if isinstance(output, Tensor) else output.output
            x = x + output if settings["skip"] else output
        figures[f"left@{layer}"] = residual(x).clamp(min=SMALLEST).log10().mean().item()
    return figures


SHALLOW = 1
DEEP = 6
KINDS = ("skip", "none")


class Skipless(nn.Module):
    """A block's parts one after the other, each behind its norm, with nothing that goes around them."""

    def __init__(self, block: TransformerBlock) -> None:
        super().__init__()
        self.block = block

    def forward(self, x: Tensor, *, mask: Mask | None = None, **unused: Any) -> BlockOutput:
        """Run the parts on ``[b i d]``, without weights."""
        block = self.block
        h = self.block.self_attn_norm(x)
        context = block.self_attn.project_context(h)
        x = block.feed_forward(block.feed_forward_norm(block.self_attn(h, context, mask=mask).output))
        return BlockOutput(x, Cache(context), None, None)


@register.claim("depth")
class Depth(Claim):
    """Encoders of several depths, with and without skip connections, from the same first weights."""

    source = "He et al. 2016, section 1; Vaswani et al. 2017, section 3.1"
    seconds = (10, 240)
    points = ("interaction",)
    kinds = {
        f"{kind}-{depth}": {"depth": depth, "skip": kind == "skip"}
        for kind, depth in product(("skip", "none"), (1, 3, 6))
    }
    rates = (3e-3, 1e-2, 3e-2)
    learned = dict.fromkeys(("skip-1", "none-1"), ("right", 0.8))
    sizes = {"steps": 300, "rows": 64, "tested": 500, "dim": 32, "length": 10}
    quick_sizes = {"steps": 150, "tested": 200, "length": 6}
    quick_rates = {"none-6": 3e-3}
    not_quick = ("skip-3", "none-3")
    shows = {name: (f"{name}-{DEEP}", "right") for name in KINDS}
    figure = "right"
    columns = {"gradient@1": number, f"gradient@{DEEP}": number, "apart": number, "right": share}
    lines = {kind: {depth: f"{kind}-{depth}" for depth in (SHALLOW, 3, DEEP)} for kind in KINDS}

    def measure(self, setup: Setup) -> dict[str, float]:
        """Learn to reverse; before that take the gradient, and how far apart the encoder's vectors are."""
        dim = setup["dim"]
        length = setup["length"]
        task = partial(small.reversals, symbols=16)
        config = small.resized("transformer", {"encoder.num_layers": setup["depth"]}, dim=dim, ffn_dim=2 * dim)
        model: Any = build(config, vocab_size=small.vocabulary(16), seed=setup.seed)
        if not setup["skip"]:
            model.encoder.layers = nn.ModuleList(Skipless(block) for block in model.encoder.layers)
        make = partial(task, setup["tested"], length)
        valid, _ = small.validation_and_test(make, seed=setup.seed)
        loss = batch_loss(model, valid)
        layers = [tuple(layer.parameters()) for layer in model.encoder.layers]
        gradients = (torch.autograd.grad(loss, layer, retain_graph=True) for layer in layers)
        norms = [math.hypot(*(gradient.norm().item() for gradient in layer)) for layer in gradients]
        with torch.no_grad():
            apart = residual(model.encode(valid.source, valid.source_mask).states).mean().item()
        small.train(setup, model, small.stream(partial(task, setup["rows"], length), seed=setup.seed))
        before = {f"gradient@{layer}": norm for layer, norm in enumerate(norms, start=1)} | {"apart": apart}
        return small.graded(setup, model, make) | before

    def contrasts(self, trials: Trials) -> Contrasts:
        """What skip connections are worth to the deep encoder, less what they are worth to the shallow one."""
        worth = {depth: trials.differences(f"skip-{depth}", f"none-{depth}", "right") for depth in (SHALLOW, DEEP)}
        arms = [f"{kind}-{depth}" for kind, depth in product(KINDS, worth)]
        error = trials.share_error(arms, "right", self.size["tested"] * (self.size["length"] + 1))
        return (contrast("interaction", minus(worth[DEEP], worth[SHALLOW]), "above", MARGIN, least_error=error),)


def befores(rows: int, length: int, draws: torch.Generator) -> Batch:
    """Make sequences in which every position is labelled by the symbol before it; the first by the last."""
    source = small.random_symbols(rows, length, symbols=SYMBOLS, generator=draws)
    return small.labels(source, source.roll(1, dims=1))


@register.claim("warm-up")
class WarmUp(Claim):
    """Deep stacks with the norm before and behind each part, with warm-up and without it, each at its best rate."""

    source = "Xiong et al. 2020, sections 3 and 4; Vaswani et al. 2017, section 5.3"
    seconds = (0, 80)
    points = ("behind", "before")
    kinds = {
        "behind-warm": {"first": False, "warmup": 0.1},
        "behind-cold": {"first": False, "warmup": 0.0},
        "before-warm": {"first": True, "warmup": 0.1},
        "before-cold": {"first": True, "warmup": 0.0},
    }
    rates = (4e-3, 1e-2, 2.5e-2)
    learned = {"behind-warm": ("right", 0.8), "before-warm": ("right", 0.8)}
    sizes = {"steps": 150, "length": 10, "rows": 32, "tested": 300, "dim": 32, "layers": 4}
    shows = {arm.replace("-", "_"): (arm, "right") for arm in kinds}
    figure = "right"
    columns = {"right": share}
    lines = {"behind": {0: "behind-cold", 1: "behind-warm"}, "before": {0: "before-cold", 1: "before-warm"}}

    def measure(self, setup: Setup) -> dict[str, float]:
        """Train, and measure the share of right labels."""
        dim = setup["dim"]
        config = TransformerConfig(
            dim=dim,
            num_heads=4,
            num_layers=setup["layers"],
            ffn_dim=2 * dim,
            norm_first=setup["first"],
            position="rotary",
        )
        model = small.Labeller(config, setup.seed, symbols=SYMBOLS)
        make = partial(befores, setup["rows"], setup["length"])
        small.train(setup, model, small.stream(make, seed=setup.seed), warmup=setup["warmup"])
        return small.graded(setup, model, partial(befores, setup["tested"], setup["length"]))

    def contrasts(self, trials: Trials) -> Contrasts:
        """With the norm behind each part warm-up gains; with the norm before it makes no difference."""
        items = self.size["tested"]
        return (
            trials.lead("behind", "behind-warm", "behind-cold", "right", items),
            trials.lead("before", "before-warm", "before-cold", "right", items, "within"),
        )
