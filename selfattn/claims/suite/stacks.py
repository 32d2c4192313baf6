"""Claims on stacks of layers: without a non-linearity they only average, and depth needs skip connections."""

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import Generator, Tensor, nn

from selfattn.attention import MultiHeadAttention
from selfattn.attention.cache import Cache
from selfattn.attention.masks import Mask
from selfattn.claims import small
from selfattn.claims.claim import Blocks, Claim, Setup, percent
from selfattn.claims.rules import MARGIN, Contrasts, Trials, contrast, exact, minus
from selfattn.layers import FeedForward, initialise, make_norm
from selfattn.layers.transformer import BlockOutput, TransformerBlock
from selfattn.models.build import build
from selfattn.registry import register
from selfattn.report.drawing.scale import Scale, power_of_ten
from selfattn.streams import generator
from selfattn.training.loss import batch_loss


def residual(x: Tensor) -> Tensor:
    """Return what is left of vectors ``[b i d]`` without each text's mean, as a share ``[b]`` of their norm."""
    left: Tensor = (x - x.mean(dim=1, keepdim=True)).norm(dim=(1, 2)) / x.norm(dim=(1, 2))
    return left


DEPTH, JUDGED = 8, 4  # layers that are drawn; the layer that the rule looks at, before rounding ends the fall
SMALLEST = 1e-15  # what rounding in float64 leaves
GONE, KEPT = -2.0, -1.0  # powers of ten: a hundredth of the differences is left; a tenth


@register.claim("averaging")
class Averaging(Claim):
    """Stacks of random weights with and without feed-forward blocks, with and without skip connections."""

    source = "Dong et al. 2021, theorem 2.2 and section 2.2"
    seconds = (2, 10)
    kinds = {
        "neither": {"forward": False, "skip": False},
        "forward": {"forward": True, "skip": False},
        "skip": {"forward": False, "skip": True},
        "both": {"forward": True, "skip": True},
    }
    sizes = {"dim": 64, "heads": 4, "tokens": 32, "texts": 16, "stacks": 8}
    shows = {arm: (arm, "left") for arm in ("neither", "forward", "both")}

    def measure(self, setup: Setup) -> dict[str, float]:
        """Send random vectors through stacks of random layers, and take the mean over stacks; no layer is trained."""
        draws, weights = generator(setup.seed, "claims/data"), generator(setup.seed, "init")
        stacks = [stack_figures(setup.arm.settings, draws, weights) for _ in range(setup["stacks"])]
        means = {name: sum(stack[name] for stack in stacks) / len(stacks) for name in stacks[0]}
        return means | {"left": 10 ** means[f"left@{JUDGED}"], "beyond": max(stack["beyond"] for stack in stacks)}

    def contrasts(self, trials: Trials) -> Contrasts:
        """Nearly nothing is left without both; with both, and with feed-forward alone, most is; the mean is a mean."""
        return (*self._rule(trials), contrast("forward", trials.values("forward", f"left@{JUDGED}"), "above", KEPT))

    def conditions(self, trials: Trials) -> dict[str, Contrasts]:
        """The same where feed-forward blocks stand beside skip connections."""
        return {"skip": self._rule(trials)}

    def _rule(self, trials: Trials) -> Contrasts:
        beyond = max(max(trials.values(arm, "beyond")) for arm in self.kinds)
        return (
            exact("mean", beyond, 1e-12),
            contrast("both", trials.values("both", f"left@{JUDGED}"), "above", KEPT),
            contrast("neither", trials.values("neither", f"left@{JUDGED}"), "below", GONE),
        )

    def blocks(self, trials: Trials) -> Blocks:
        """What is left of the differences, by depth."""
        lines = {arm: trials.spots(arm, "left", lambda power: 10.0**power) for arm in trials.arms}
        return (self.chart("averaging", lines, scale=Scale(None, 1.0, "number", SMALLEST, powers=True)),)


def stack_figures(settings: Mapping[str, Any], draws: Generator, weights: Generator) -> dict[str, float]:
    """Return what is left after each layer of a random stack (``left@LAYER``), and what leaves the inputs' range."""
    dim, heads = settings["dim"], settings["heads"]
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


SHALLOW, DEEP = 1, 6
KINDS = ("skip", "none")


class Skipless(nn.Module):
    """A block's parts one after the other, each behind its norm, with nothing that goes around them."""

    def __init__(self, block: TransformerBlock) -> None:
        super().__init__()
        self.block = block

    def forward(self, x: Tensor, *, mask: Mask | None = None, **unused: Any) -> BlockOutput:
        """Run the parts on ``[b i d]``, without weights."""
        block, h = self.block, self.block.self_attn_norm(x)
        context = block.self_attn.project_context(h)
        x = block.feed_forward(block.feed_forward_norm(block.self_attn(h, context, mask=mask).output))
        return BlockOutput(x, Cache(context), None, None)


@register.claim("depth")
class Depth(Claim):
    """Encoders of several depths, with and without skip connections, from the same first weights."""

    source = "He et al. 2016, section 1; Vaswani et al. 2017, section 3.1"
    seconds = (14, 240)
    points = ("interaction",)
    kinds = {
        f"{kind}-{depth}": {"depth": depth, "skip": kind == "skip"} for kind in KINDS for depth in (SHALLOW, 3, DEEP)
    }
    rates = (3e-3, 1e-2, 3e-2)
    sizes = {"steps": 300, "rows": 64, "tested": 500, "dim": 32, "length": 10}
    quick_sizes = {"steps": 150, "tested": 200, "length": 6}
    quick_rates = {"none-6": 3e-3}
    not_quick = ("skip-3", "none-3")
    shows = {name: (f"{name}-{DEEP}", "right") for name in KINDS}

    def measure(self, setup: Setup) -> dict[str, float]:
        """Learn to reverse; before that take the gradient, and how far apart the encoder's vectors are."""
        dim, length, task = setup["dim"], setup["length"], partial(small.reversals, symbols=16)
        config = small.resized("transformer", {"encoder.num_layers": setup["depth"]}, dim=dim, ffn_dim=2 * dim)
        model: Any = build(config, vocab_size=small.vocabulary(16), seed=setup.seed)
        if not setup["skip"]:
            model.encoder.layers = nn.ModuleList(Skipless(block) for block in model.encoder.layers)
        make = partial(task, setup["tested"], length)
        valid, _ = small.validation_and_test(make, seed=setup.seed)
        loss, layers = batch_loss(model, valid), [tuple(layer.parameters()) for layer in model.encoder.layers]
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
        arms = [f"{kind}-{depth}" for kind in KINDS for depth in worth]
        error = trials.share_error(arms, "right", self.size["tested"] * (self.size["length"] + 1))
        return (contrast("interaction", minus(worth[DEEP], worth[SHALLOW]), "above", MARGIN, least_error=error),)

    def blocks(self, trials: Trials) -> Blocks:
        """Quality by depth; in a table what the first and the last layer's gradients are, and how far apart vectors."""
        lines, rows = {}, {}
        for kind in KINDS:
            depths = {float(arm.rpartition("-")[2]): arm for arm in trials.arms if arm.startswith(kind)}
            lines[kind] = trials.spots_across(depths, "right")
            for depth, arm in depths.items():
                before = (trials.mean(arm, name).mean for name in ("gradient@1", f"gradient@{depth:g}", "apart"))
                rows[arm] = (*map(power_of_ten, before), percent(trials.mean(arm, "right")))
        heads = ("first", "last", "apart", "right")
        return self.chart("depth", lines, of="line"), self.table("figures", heads, rows)
