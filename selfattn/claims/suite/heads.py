"""Claims on attention and its heads: the weighted sum, saturated scores, and what several heads find that one does not.

The weighted sum is the layer; its gradients can be derived by hand, and are those of autograd. Scores saturate the
softmax unless they are divided, which may help training. Of heads: whether several are better than one, how many can be
cut after training, and what heads of two layers find together (induction).
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import product
from statistics import linear_regression
from typing import Any

import torch
from einops import repeat
from torch import Tensor, nn

from selfattn.attention import attend, scores
from selfattn.claims import small
from selfattn.claims.claim import Arm, Blocks, Claim, Setup, number, share
from selfattn.claims.rules import MARGIN, Contrasts, Trials, contrast, exact, minus
from selfattn.data.batches import Batch
from selfattn.models.build import build
from selfattn.models.families import TransformerConfig
from selfattn.models.inside import attention_layers
from selfattn.models.protocol import Seq2Seq
from selfattn.registry import register
from selfattn.report.blocks import Block, Column, Heading, Paragraph, Row, Table
from selfattn.report.numbers import number_scale
from selfattn.results.claims import Contrast, Need

BOUND = 1e-12  # of the relative error in float64
FORWARD = ("scores", "weights", "output")
BACKWARD = ("d_weights", "d_value", "d_scores", "d_query", "d_key")
# Numbers of which the exponentials are 1, 2 and 3: every step can be done on paper.
_LOGS = (0.6931471805599453, 1.0986122886681098)
QUERY = ((_LOGS[0], _LOGS[1]), (_LOGS[0], 0.0))
KEY = ((0.0, 0.0), (1.0, 0.0), (0.0, 1.0))
VALUE = ((12.0, 0.0), (0.0, 12.0), (12.0, 12.0))
GRADIENT = ((1.0, 0.0), (0.0, 1.0))
# What the rows and the columns of a step's numbers are, as keys of the catalogue, and how many of each there are.
SIZES = {"query": len(QUERY), "key": len(KEY), "place": len(VALUE[0])}
AXES = {"scores": ("query", "key"), "weights": ("query", "key"), "output": ("query", "place")}
AXES |= {"d_weights": ("query", "key"), "d_value": ("key", "place"), "d_scores": ("query", "key")}
AXES |= {"d_query": ("query", "place"), "d_key": ("key", "place")}


@register.claim("weighted-sum")
class WeightedSum(Claim):
    """Forward and backward step by step, on numbers for paper and on random ones."""

    source = "Bahdanau et al. 2015, section 3.1; Saito, Deep Learning from Scratch 2, section 8.1"
    seconds = (1.0, 1.0)
    theorem = True
    seeds = 1
    kinds = {"worked": {}, "random": {"queries": 5, "keys": 7, "width": 3, "values": 11, "draws": 20}}

    def measure(self, setup: Setup) -> dict[str, float]:
        """Return the relative error of every step, and of the worked example every number."""
        worst = dict.fromkeys((*FORWARD, *BACKWARD), 0.0)
        numbers: dict[str, float] = {}
        for example in _examples(setup.arm.settings, setup.seed):
            ours = by_hand(*example)
            other = by_autograd(*example)
            for name in worst:
                size = float(other[name].abs().max())
                worst[name] = max(worst[name], float((ours[name] - other[name]).abs().max()) / size)
            if not setup.arm.settings:
                for name in worst:
                    for i, row in enumerate(ours[name].tolist()):
                        numbers |= {f"{name}.{i}.{j}": value for j, value in enumerate(row)}
        return {f"error.{name}": value for name, value in worst.items()} | numbers

    def contrasts(self, trials: Trials) -> Contrasts:
        """No step differs from autograd by more than rounding."""

        def worst(steps: tuple[str, ...]) -> float:
            return max(trials.values(arm, f"error.{step}")[0] for arm, step in product(self.kinds, steps))

        return exact("forward", worst(FORWARD), BOUND), exact("backward", worst(BACKWARD), BOUND)

    def blocks(self, trials: Trials) -> Blocks:
        """The worked example, step by step."""
        blocks: list[Block] = [Paragraph(self.say("given"))]
        for step, (down, across) in AXES.items():
            columns = [self.say(across, number=j + 1) for j in range(SIZES[across])]
            numbers = [[_text(trials, f"{step}.{i}.{j}") for j in range(len(columns))] for i in range(SIZES[down])]
            head = Column(self.say(f"step.{step}"), numeric=False)
            rows = tuple(Row((self.say(down, number=i), *cells)) for i, cells in enumerate(numbers, 1))
            blocks += [
                Heading(self.say(f"step.{step}"), f"{self.name}-{step}"),
                Paragraph(self.say(f"how.{step}")),
                Table(f"{self.name}-{step}-numbers", (head, *map(Column, columns)), rows),
            ]
        return tuple(blocks)


def _examples(settings: Mapping[str, int], seed: int) -> Iterator[tuple[Tensor, ...]]:
    if not settings:
        yield tuple(torch.tensor(rows, dtype=torch.float64) for rows in (QUERY, KEY, VALUE, GRADIENT))
        return
    draws = torch.Generator().manual_seed(seed)
    i, j, e, c = (settings[name] for name in ("queries", "keys", "width", "values"))
    for _ in range(settings["draws"]):
        sizes = ((i, e), (j, e), (j, c), (i, c))
        yield tuple(torch.randn(size, generator=draws, dtype=torch.float64) for size in sizes)


def _text(trials: Trials, figure: str) -> str:
    return f"{trials.values('worked', figure)[0]:.4f}".rstrip("0").rstrip(".").replace("-", "−") or "0"


def by_hand(query: Tensor, key: Tensor, value: Tensor, gradient: Tensor) -> dict[str, Tensor]:
    """Compute attention and its gradients by repeating, multiplying and summing alone: [i e], [j e], [j c], [i c]."""
    keys = repeat(key, "j e -> i j e", i=len(query))
    values = repeat(value, "j c -> i j c", i=len(query))
    queries = repeat(query, "i e -> i j e", j=len(key))
    gradients = repeat(gradient, "i c -> i j c", j=len(key))
    figures = {"scores": (queries * keys).sum(-1)}
    powers = (figures["scores"] - figures["scores"].amax(-1, keepdim=True)).exp()
    weights = figures["weights"] = powers / powers.sum(-1, keepdim=True)
    figures["output"] = (weights[..., None] * values).sum(1)
    d_weights = figures["d_weights"] = (gradients * values).sum(-1)
    figures["d_value"] = (weights[..., None] * gradients).sum(0)
    d_scores = figures["d_scores"] = weights * (d_weights - (weights * d_weights).sum(-1, keepdim=True))
    figures["d_query"] = (d_scores[..., None] * keys).sum(1)
    figures["d_key"] = (d_scores[..., None] * queries).sum(0)
    return figures


def by_autograd(query: Tensor, key: Tensor, value: Tensor, gradient: Tensor) -> dict[str, Tensor]:
    """Compute the same by the project's attention and PyTorch's gradients."""
    query, key, value = (tensor.clone().requires_grad_() for tensor in (query, key, value))
    attended = attend(query[None, None], key[None, None], value[None, None], score=scores.dot, need_weights=True)
    assert attended.weights is not None
    d_query, d_key, d_value = torch.autograd.grad(attended.output, (query, key, value), gradient[None, None])
    products = query @ key.T
    weights = products.softmax(-1)
    d_scores, d_weights = torch.autograd.grad(weights @ value, (products, weights), gradient)
    figures = {"scores": products, "weights": attended.weights[0, 0], "output": attended.output[0, 0]}
    figures |= {"d_weights": d_weights, "d_value": d_value, "d_scores": d_scores, "d_query": d_query, "d_key": d_key}
    return {name: tensor.detach() for name, tensor in figures.items()}


WIDTHS = (8, 32, 128, 512, 2048)
KEYS = 32
QUERIES = 512
SOFTMAX = {"unscaled": scores.dot, "scaled": scores.scaled_dot}
LEARNED = ("dot", "scaled_dot", "general", "concat", "additive", "location")
LOOKED_UP = 6
NAMES = 12
VALUES = 8


def slope(values: tuple[float, ...]) -> float:
    """Return the slope of the log of values in the log of the width, by least squares."""
    return linear_regression([math.log(width) for width in WIDTHS], [math.log(value) for value in values]).slope


@register.claim("scores")
class Scores(Claim):
    """The gradient of the softmax by width; and what six score functions learn on one task."""

    source = (
        "Vaswani et al. 2017, section 3.2.1, footnote 4; Luong et al. 2015, section 3.1; Bahdanau et al. 2015, A.1.2"
    )
    seconds = (1, 220)
    sizes = {"steps": 800, "tested": 500}
    shows = {"dot_narrow": ("unscaled", "gradient@8"), "dot_wide": ("unscaled", "gradient@2048")}
    shows |= {"scaled_narrow": ("scaled", "gradient@8"), "scaled_wide": ("scaled", "gradient@2048")}
    unit = "number"
    columns = {"exact": share, "valid": number}

    def arms(self) -> tuple[Arm, ...]:
        """The softmax alone, with and without the division; then models that are trained, for each score."""
        learned = (Arm(name, {**self.size, "score": name}, (1e-2, 3e-2, 9e-2)) for name in LEARNED)
        return *(Arm(name) for name in SOFTMAX), *(() if self.quick else learned)

    def measure(self, setup: Setup) -> dict[str, float]:
        """Return gradient and entropy by width, or what a model has learned."""
        if setup.rate is None:
            return _saturation(setup.arm.name, setup.seed)
        config = small.resized("luong-dot", {"decoder.score": setup["score"]}, hidden_dim=32)
        make = partial(small.lookups, pairs=LOOKED_UP, names=NAMES, values=VALUES)
        model = small.trained(setup, config, lambda draws: make(64, generator=draws), symbols=NAMES + VALUES)
        valid, test = small.validation_and_test(lambda draws: make(setup["tested"], generator=draws), seed=setup.seed)
        return {"valid": small.loss_of(model, valid), "exact": small.exact_share(model, test)}

    def contrasts(self, trials: Trials) -> Contrasts:
        """Unscaled the gradient falls with the width; scaled it stays."""
        slopes: dict[str, list[float]] = {}
        for arm in SOFTMAX:
            gradients = [trials.values(arm, f"gradient@{width}") for width in WIDTHS]
            slopes[arm] = [slope(by_width) for by_width in zip(*gradients, strict=True)]
        unscaled = contrast("unscaled", slopes["unscaled"], "below", 0.0)
        return unscaled, contrast("scaled", slopes["scaled"], "within", 0.1)

    def blocks(self, trials: Trials) -> Blocks:
        """The gradient by width; the entropy; and the score functions side by side."""
        across = number_scale(WIDTHS, powers=True)
        gradient, entropy = ({arm: trials.spots(arm, figure) for arm in SOFTMAX} for figure in ("gradient", "entropy"))
        charts = (
            self.chart("gradient", gradient, scale="powers", across=across),
            self.chart("entropy", entropy, scale=number_scale([0, 1]), across=across),
        )
        if self.quick:  # trains nothing
            return charts
        heading = Heading(self.say("learned"), "scores-learned")
        text = Paragraph(self.say("learned.text"))
        return *charts, heading, text, self.means(trials)


def _saturation(arm: str, seed: int) -> dict[str, float]:
    """The norm of the softmax's derivative, and the entropy of its weights as a share of the largest, by width."""
    draws = torch.Generator().manual_seed(seed)
    figures = {}
    for width in WIDTHS:
        query, key = (torch.randn(1, 1, n, width, generator=draws, dtype=torch.float64) for n in (QUERIES, KEYS))
        weights = attend(query, key, key, score=SOFTMAX[arm], need_weights=True).weights
        assert weights is not None
        derivative = torch.diag_embed(weights) - weights[..., :, None] * weights[..., None, :]
        figures[f"gradient@{width}"] = float(derivative.norm(dim=(-2, -1)).mean())
        figures[f"entropy@{width}"] = float(torch.special.entr(weights).sum(-1).mean()) / math.log(KEYS)
    return figures


SYMBOLS = 16
SHARPER = 64  # how many times as large the scores of the positive control begin


@register.claim("scaling")
class Scaling(Claim):
    """Wide and narrow heads with divided scores and with whole ones, before any of them has learned everything."""

    source = "Vaswani et al. 2017, section 3.2.1"
    seconds = (4, 60)
    points = ("gain", "sensitive")
    kinds = {
        "divided-wide": {"heads": 1, "score": "scaled_dot", "sharper": 1},
        "whole-wide": {"heads": 1, "score": "dot", "sharper": 1},
        "sharp-wide": {"heads": 1, "score": "scaled_dot", "sharper": SHARPER},
        "divided-narrow": {"heads": 8, "score": "scaled_dot", "sharper": 1},
        "whole-narrow": {"heads": 8, "score": "dot", "sharper": 1},
    }
    rates = (5e-3, 1e-2, 2e-2)
    learned = dict.fromkeys(("divided-wide", "divided-narrow", "whole-narrow"), ("right", 0.5))  # by chance 0.06
    sizes = {"steps": 150, "rows": 32, "tested": 300, "length": 8, "dim": 64}
    not_quick = ("divided-narrow", "whole-narrow")
    shows = {"divided": ("divided-wide", "right"), "whole": ("whole-wide", "right"), "sharp": ("sharp-wide", "right")}
    figure = "right"
    columns = {"right": share, "valid": number}
    lines = {
        "divided": {8: "divided-narrow", 64: "divided-wide"},
        "whole": {8: "whole-narrow", 64: "whole-wide"},
        "sharp": {64: "sharp-wide"},
    }

    def measure(self, setup: Setup) -> dict[str, float]:
        """Learn to reverse, and measure the share of right tokens."""
        dim = setup["dim"]
        length = setup["length"]
        make = partial(small.reversals, symbols=SYMBOLS)
        config = small.resized("transformer", dim=dim, ffn_dim=dim, num_heads=setup["heads"], score=setup["score"])
        model = build(config, vocab_size=small.vocabulary(SYMBOLS), seed=setup.seed)
        with torch.no_grad():
            for layer in attention_layers(model).values():
                layer.q_proj.weight.mul_(setup["sharper"])
        small.train(setup, model, small.stream(partial(make, setup["rows"], length), seed=setup.seed))
        return small.graded(setup, model, partial(make, setup["tested"], length))

    def contrasts(self, trials: Trials) -> Contrasts:
        """With wide heads the division gains; and scores that begin far too large cost something: it would be seen."""
        items = self.size["tested"]
        return (
            trials.lead("gain", "divided-wide", "whole-wide", "right", items),
            trials.lead("sensitive", "divided-wide", "sharp-wide", "right", items),
        )


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
    seconds = (0, 40)
    points = ("shallow", "deep")
    kinds = {
        "one-1": {"heads": 1, "layers": 1},
        "four-1": {"heads": 4, "layers": 1},
        "one-2": {"heads": 1, "layers": 2},
        "four-2": {"heads": 4, "layers": 2},
    }
    rates = (5e-3, 1e-2, 2e-2)
    learned = dict.fromkeys(kinds, ("either", 0.5))  # by chance 0.31
    weaker = {"shallow": ("shallow",)}  # with two layers, one head can look at the places one after the other
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
            named = model.classify(test.source).argmax(dim=-1) - small.FIRST
        labels = test.target_out - small.FIRST
        left = named // KINDS == labels // KINDS
        right = named % KINDS == labels % KINDS
        return small.graded(setup, model, unseen) | {"either": float((left | right).double().mean())}

    def contrasts(self, trials: Trials) -> Contrasts:
        """Four heads lead over one, in one layer and in two."""
        items = self.size["tested"]
        return (
            trials.lead("shallow", "four-1", "one-1", "right", items),
            trials.lead("deep", "four-2", "one-2", "right", items),
        )


CUT = (0.25, 0.5, 0.75)  # shares of the heads
TASKS = {"copying": partial(small.copies, symbols=SYMBOLS), "reversal": partial(small.reversals, symbols=SYMBOLS)}
Head = tuple[int, int]  # attention and head within it


@contextmanager
def cut(model: nn.Module, heads: Sequence[Head]) -> Iterator[None]:
    """Take the outputs of some heads away inside a ``with`` block: what they pass on is zero.

    Args:
        model: with attentions that have an output projection.
        heads: the number of the attention, and of the head in it.
    """
    with ExitStack() as hooks:
        for place, layer in enumerate(attention_layers(model).values()):
            left = torch.ones(layer.num_heads)
            left[[head for attention, head in heads if attention == place]] = 0.0
            width = layer.query_dim // layer.num_heads
            hook = layer.out_proj.register_forward_pre_hook(partial(_scaled, left.repeat_interleave(width)))
            hooks.callback(hook.remove)
        yield


def _scaled(factors: Tensor, module: Any, args: tuple[Tensor]) -> tuple[Tensor]:
    return (args[0] * factors,)


def by_importance(model: Seq2Seq, batch: Batch) -> list[Head]:
    """Return all heads, the one whose loss costs least first: each is cut alone, and the loss of a batch measured."""
    costs: dict[Head, float] = {}
    for place, layer in enumerate(attention_layers(model).values()):
        for head in range(layer.num_heads):
            with cut(model, [(place, head)]):
                costs[place, head] = small.loss_of(model, batch)
    return sorted(costs, key=costs.__getitem__)


@register.claim("pruning")
class Pruning(Claim):
    """Transformers of 24 heads on two tasks: those that matter least are cut after training, and those that matter."""

    source = "Michel et al. 2019, sections 3 and 4; Voita et al. 2019, section 6"
    seconds = (0, 60)
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
        make = TASKS[setup["task"]]
        config = small.resized("transformer", dim=dim, ffn_dim=dim, num_heads=setup["heads"])
        model = small.trained(setup, config, partial(make, setup["rows"], length), symbols=SYMBOLS)

        def unseen(rows: int, name: str) -> Batch:
            return small.held_out(partial(make, rows, length), seed=setup.seed, name=name)

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
        half = f"{kind}@50"
        change = minus(trials.values(task, half), trials.values(task, "least@0"))
        items = self.size["tested"]
        errors = [trials.share_error([task], figure, items) for figure in ("least@0", half)]
        return contrast(f"{kind}-{task}", change, need, -MARGIN, least_error=math.hypot(*errors))

    def blocks(self, trials: Trials) -> Blocks:
        """Right tokens by the share of heads that is cut, the least and the most important ones first."""
        lines = {f"{arm}.{kind}": trials.spots(arm, kind) for arm, kind in product(trials.arms, ("least", "most"))}
        return self.chart("pruning", lines, of="line"), self.means(trials)


FIXED = 2  # names whose value is always the same
FRESH = 6  # names whose value is drawn anew for each sequence
FOLLOWING = 6
TOKENS = FIXED + FRESH + FOLLOWING
FRESH_DRAWN = 3  # different fresh names in a sequence; each of them and of the fixed ones stands twice
PAIRS = 2 * (FIXED + FRESH_DRAWN)


def pairs(rows: int, draws: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Draw sequences of names, each followed by its value.

    A fixed name has the same value in all sequences, which can be learned by heart. A fresh name has a value of this
    sequence alone: where it stands for the second time, what followed it the first time has to be looked up.

    Returns:
        Tokens ``[b 2n]``, names and values in turn; for each pair ``[b n]`` the place of the earlier value of the same
        name, -1 where it stands for the first time; and whether its name is fixed.
    """
    fixed = torch.arange(FIXED).expand(rows, FIXED)
    fresh = FIXED + torch.rand(rows, FRESH, generator=draws).argsort(dim=1)[:, :FRESH_DRAWN]
    names = torch.cat([fixed, fresh], dim=1)
    drawn = torch.randint(0, FOLLOWING, names.shape, generator=draws)
    values = torch.cat([fixed, drawn[:, FIXED:]], dim=1)  # a fixed name's value is its number
    order = torch.rand(rows, PAIRS, generator=draws).argsort(dim=1) % (FIXED + FRESH_DRAWN)
    names = names.gather(1, order)
    values = values.gather(1, order)
    same = names[:, :, None] == names[:, None, :]
    earlier = same & torch.ones(PAIRS, PAIRS, dtype=torch.bool).tril(-1)
    places = torch.where(earlier.any(dim=-1), 2 * earlier.long().argmax(dim=-1) + 1, -1)
    tokens = torch.stack([small.FIRST + names, small.FIRST + FIXED + FRESH + values], dim=2).flatten(1)
    return tokens, places, names < FIXED


def next_values(rows: int, draws: torch.Generator) -> Batch:
    """Make sequences that begin with a mark, in which every name that can be known is labelled by its value."""
    tokens, places, is_fixed = pairs(rows, draws)
    begin = torch.full((rows, 1), small.BOS)
    source = torch.cat([begin, tokens], dim=1)
    following = torch.cat([tokens, begin], dim=1)  # what comes next
    is_known = torch.stack([is_fixed | (places >= 0), torch.zeros_like(is_fixed)], dim=2).flatten(1)
    return small.labels(source, following, torch.cat([torch.zeros_like(begin, dtype=torch.bool), is_known], dim=1))


def causal(setup: Setup) -> small.Labeller:
    """Build a causal stack of the setting ``layers`` and of width ``dim``."""
    dim = setup["dim"]
    config = TransformerConfig(
        dim=dim, num_heads=4, num_layers=setup["layers"], ffn_dim=2 * dim, position=setup["position"]
    )
    return small.Labeller(config, setup.seed, symbols=TOKENS, causal=True)


@torch.inference_mode()
def shares(model: small.Labeller, batch: Batch, mask: Tensor | None = None) -> tuple[float, float]:
    """Return the shares of right values of fixed names, and of fresh names that stand for the second time.

    Args:
        model: in evaluation mode.
        batch: of :func:`next_values`.
        mask: which keys may be seen; default all.
    """
    hits = model.output(model.read(batch.source, mask=mask).x).argmax(dim=-1) == batch.target_out
    is_fixed = (batch.source >= small.FIRST) & (batch.source < small.FIRST + FIXED)
    fixed = hits[batch.target_mask & is_fixed]
    fresh = hits[batch.target_mask & ~is_fixed]
    return float(fixed.double().mean()), float(fresh.double().mean())


@torch.inference_mode()
def matching(model: small.Labeller, rows: int, draws: torch.Generator) -> float:
    """Return how much a head of the last layer attends, from a name, to what followed it before: of the best head."""
    tokens, places, is_fixed = pairs(rows, draws)
    source = torch.cat([torch.full((rows, 1), small.BOS), tokens], dim=1)
    weights = model.read(source, need_weights=True).self_weights[-1]  # [b h i j]
    at_names = weights[:, :, 1::2]  # [b h n j]
    repeated = (places >= 0) & ~is_fixed
    where = (1 + places.clamp(min=0))[:, None, :, None].expand(-1, weights.shape[1], -1, 1)
    attended = at_names.gather(-1, where)[..., 0]  # [b h n]
    return max(float(attended[:, head][repeated].mean()) for head in range(weights.shape[1]))


@register.claim("induction")
class Induction(Claim):
    """Causal stacks of one layer and of two, equally large: which can go on from a name as the sequence did before?"""

    source = "Olsson et al. 2022, argument 2 and section on mechanics; Elhage et al. 2021"
    seconds = (0, 80)
    points = ("lead", "matching")
    kinds = {
        "one": {"layers": 1, "dim": 48},  # as many weights as the other, to a tenth
        "two": {"layers": 2, "dim": 32},
    }
    rates = (1e-2,)
    learned = dict.fromkeys(kinds, ("fixed", 0.9))
    sizes = {"steps": 600, "rows": 32, "tested": 200, "position": "rotary"}
    shows = {"one": ("one", "fresh"), "two": ("two", "fresh"), "matching": ("two", "matching")}
    columns = {"fixed": share, "fresh": share, "matching": share}

    def measure(self, setup: Setup) -> dict[str, float]:
        """Train; measure both kinds of names, and how much the best head attends to what followed before."""
        model = causal(setup)
        small.train(setup, model, small.stream(partial(next_values, setup["rows"]), seed=setup.seed))
        valid, test = small.validation_and_test(partial(next_values, setup["tested"]), seed=setup.seed)
        fixed, fresh = shares(model, test)
        attended = matching(model, setup["tested"], torch.Generator().manual_seed(setup.seed))
        return {"valid": small.loss_of(model, valid), "fixed": fixed, "fresh": fresh, "matching": attended}

    def contrasts(self, trials: Trials) -> Contrasts:
        """Two layers lead over one, and a head of the second attends to what followed the name before."""
        return (
            trials.lead("lead", "two", "one", "fresh", self.size["tested"]),
            contrast("matching", trials.values("two", "matching"), "above", 0.5),
        )

    def blocks(self, trials: Trials) -> Blocks:
        """Right values of both kinds of names, by the number of layers."""
        arms = {1: "one", 2: "two"}
        lines = {figure: trials.spots_across(arms, figure) for figure in ("fixed", "fresh")}
        return self.chart("induction", lines, of="line"), self.means(trials)
