"""Claims on the heads of attention: whether several are better than one, and how many can be cut after training."""

import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn

from selfattn.attention import MultiHeadAttention
from selfattn.claims import small
from selfattn.claims.claim import Blocks, Claim, Setup, share
from selfattn.claims.rules import MARGIN, Contrasts, Trials, contrast, minus, share_error
from selfattn.data.batches import Batch
from selfattn.models.protocol import Seq2Seq
from selfattn.models.transformer_config import TransformerConfig
from selfattn.registry import register
from selfattn.results.claims import Contrast, Need

KINDS = 6  # symbols; a label names two of them


def neighbours(rows: int, length: int, draws: torch.Generator) -> Batch:
    """Make sequences in which every position is labelled by its left and its right neighbour, in this order."""
    source = small.random_symbols(rows, length, symbols=KINDS, generator=draws)
    left = source.roll(1, dims=1) - small.FIRST
    right = source.roll(-1, dims=1) - small.FIRST
    return small.labels(source, small.FIRST + KINDS * left + right)


@register.claim("heads")
class Heads(Claim):
    """One head and four of the same width together, in one layer and in two, where two places matter at once."""

    source = "Vaswani et al. 2017, section 3.2.2 and table 3, rows A"
    seconds = (8, 40)
    points = ("shallow", "deep")
    kinds = {
        "one-1": {"heads": 1, "layers": 1},
        "four-1": {"heads": 4, "layers": 1},
        "one-2": {"heads": 1, "layers": 2},
        "four-2": {"heads": 4, "layers": 2},
    }
    rates = (5e-3, 1e-2, 2e-2)
    learned = dict.fromkeys(kinds, ("either", 0.5))  # by chance 0.31
    sizes = {"steps": 150, "length": 10, "rows": 32, "tested": 300, "dim": 32}
    shows = {"one": ("one-1", "right"), "four": ("four-1", "right")}
    shows |= {"one_deep": ("one-2", "right"), "four_deep": ("four-2", "right")}
    figure = "right"
    columns = {"either": share, "right": share}
    lines = {"one": {1: "one-1", 2: "one-2"}, "four": {1: "four-1", 2: "four-2"}}

    def measure(self, setup: Setup) -> dict[str, float]:
        """Train, and measure the share of labels that are right, and of those with at least one neighbour right."""
        dim = setup["dim"]
        config = TransformerConfig(dim=dim, num_heads=setup["heads"], num_layers=setup["layers"], ffn_dim=2 * dim)
        model = small.Labeller(config, setup.seed, symbols=KINDS * KINDS)
        make = partial(neighbours, setup["rows"], setup["length"])
        small.train(setup, model, small.stream(make, seed=setup.seed))
        unseen = partial(neighbours, setup["tested"], setup["length"])
        test = small.held_out(unseen, seed=setup.seed)
        with torch.inference_mode():
            named = model.classify(test.source, test.source_mask).argmax(dim=-1) - small.FIRST
        wanted = test.target_out - small.FIRST
        left = named // KINDS == wanted // KINDS
        right = named % KINDS == wanted % KINDS
        return small.graded(setup, model, unseen) | {"either": float((left | right).double().mean())}

    def contrasts(self, trials: Trials) -> Contrasts:
        """Four heads lead over one, in one layer and in two."""
        return *self.shallow(trials), self.lead(trials, "deep", 2)

    def conditions(self, trials: Trials) -> dict[str, Contrasts]:
        """In one layer alone: with two, one head can look at the places one after the other."""
        return {"shallow": self.shallow(trials)}

    def shallow(self, trials: Trials) -> Contrasts:
        """Four heads lead over one in one layer."""
        return (self.lead(trials, "shallow", 1),)

    def lead(self, trials: Trials, name: str, layers: int) -> Contrast:
        """Hold four heads against one."""
        return trials.lead(name, f"four-{layers}", f"one-{layers}", "right", self.size["tested"])


CUT = (0.25, 0.5, 0.75)  # shares of the heads
SYMBOLS = 16
TASKS = {"copying": partial(small.copies, symbols=SYMBOLS), "reversal": partial(small.reversals, symbols=SYMBOLS)}
Head = tuple[int, int]  # attention and head within it


def attentions(model: nn.Module) -> list[MultiHeadAttention]:
    """Return all attentions of a model, in order."""
    return [module for module in model.modules() if isinstance(module, MultiHeadAttention)]


@contextmanager
def cut(model: nn.Module, heads: Sequence[Head]) -> Iterator[None]:
    """Take the outputs of some heads away inside a ``with`` block: what they pass on is zero.

    Args:
        model: with attentions that have an output projection.
        heads: the number of the attention, and of the head in it.
    """
    with ExitStack() as hooks:
        for number, layer in enumerate(attentions(model)):
            left = torch.ones(layer.num_heads)
            left[[head for attention, head in heads if attention == number]] = 0.0
            width = layer.query_dim // layer.num_heads
            hook = layer.out_proj.register_forward_pre_hook(partial(_scaled, left.repeat_interleave(width)))
            hooks.callback(hook.remove)
        yield


def _scaled(factors: Tensor, module: Any, args: tuple[Tensor]) -> tuple[Tensor]:
    return (args[0] * factors,)


def by_importance(model: Seq2Seq, batch: Batch) -> list[Head]:
    """Return all heads, the one whose loss costs least first: each is cut alone, and the loss of a batch measured."""
    costs: dict[Head, float] = {}
    for number, layer in enumerate(attentions(model)):
        for head in range(layer.num_heads):
            with cut(model, [(number, head)]):
                costs[number, head] = small.loss_of(model, batch)
    return sorted(costs, key=costs.__getitem__)


@register.claim("pruning")
class Pruning(Claim):
    """Transformers of 24 heads on two tasks: those that matter least are cut after training, and those that matter."""

    source = "Michel et al. 2019, sections 3 and 4; Voita et al. 2019, section 6"
    seconds = (8, 60)
    points = tuple(f"{kind}-{task}" for kind, task in product(("least", "most"), TASKS))
    kinds = {task: {"task": task} for task in TASKS}
    rates = (8e-3,)
    learned = dict.fromkeys(kinds, ("least@0", 0.9))
    sizes = {"steps": 250, "length": 8, "rows": 32, "tested": 200, "ranked": 64, "dim": 64, "heads": 8}
    shows = {"all": ("reversal", "least@0"), "half": ("reversal", "least@50"), "most": ("reversal", "most@50")}
    figure = "least"
    columns = {"least@0": share, "least@25": share, "least@50": share, "least@75": share, "most@50": share}

    def measure(self, setup: Setup) -> dict[str, float]:
        """Train; rank the heads on validation data; cut a share of them, and measure the right tokens of the test."""
        dim = setup["dim"]
        length = setup["length"]
        parts = {"dim": dim, "ffn_dim": dim, "num_heads": setup["heads"]}
        make = TASKS[setup["task"]]
        config = small.resized("transformer", **parts)
        model = small.trained(
            setup, config, lambda draws: make(setup["rows"], length, generator=draws), symbols=SYMBOLS
        )

        def unseen(rows: int, name: str) -> Batch:
            return small.held_out(lambda draws: make(rows, length, generator=draws), seed=setup.seed, name=name)

        validation = unseen(setup["tested"], "validation")
        test = unseen(setup["tested"], "test")
        ranked = by_importance(model, unseen(setup["ranked"], "ranked"))
        right = small.forced_accuracy(model, test)
        figures = {"valid": small.loss_of(model, validation), "least@0": right, "most@0": right}
        for part in CUT:
            count = round(part * len(ranked))
            for kind, heads in {"least": ranked[:count], "most": ranked[-count:]}.items():
                with cut(model, heads):
                    figures[f"{kind}@{100 * part:.0f}"] = small.forced_accuracy(model, test)
        return figures

    def contrasts(self, trials: Trials) -> Contrasts:
        """Without the half that matters least hardly anything is lost; without the other half something is."""
        least = [self.change(trials, "least", task, "above") for task in TASKS]
        most = [self.change(trials, "most", task, "below") for task in TASKS]
        return *least, *most

    def change(self, trials: Trials, kind: str, task: str, need: Need) -> Contrast:
        """Hold the change by cutting one half of the heads against the margin."""
        whole = trials.values(task, "least@0")
        half = trials.values(task, f"{kind}@50")
        items = self.size["tested"]
        error = math.hypot(share_error(whole, items), share_error(half, items))
        return contrast(f"{kind}-{task}", minus(half, whole), need, -MARGIN, least_error=error)

    def blocks(self, trials: Trials) -> Blocks:
        """Right tokens by the share of heads that is cut, the least and the most important ones first."""
        lines = {f"{arm}.{kind}": trials.spots(arm, kind) for arm, kind in product(trials.arms, ("least", "most"))}
        return self.chart("pruning", lines, of="line"), self.means(trials)
