"""Claims on attention itself: the weighted sum and its gradients, and scores that saturate the softmax.

The weighted sum is the layer; its gradients can be derived by hand, and are those of autograd. Scores saturate the
softmax unless they are divided, which may help training.
"""

import math
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import product
from statistics import linear_regression

import torch
from einops import repeat
from torch import Tensor

from selfattn.attention import MultiHeadAttention, attend, scores
from selfattn.claims import small
from selfattn.claims.claim import Arm, Blocks, Claim, Setup, number, share
from selfattn.claims.rules import Contrasts, Trials, contrast, exact
from selfattn.models.build import build
from selfattn.registry import register
from selfattn.report.blocks import Block, Column, Heading, Paragraph, Row, Table
from selfattn.report.drawing.numbers import number_scale

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
                    numbers |= {f"{name}.{i}.{j}": x for i, j, x in _entries(ours[name])}
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


def _entries(matrix: Tensor) -> Iterator[tuple[int, int, float]]:
    for i, row in enumerate(matrix.tolist()):
        for j, value in enumerate(row):
            yield i, j, value


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
PAIRS = 6
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
        make = partial(small.lookups, pairs=PAIRS, names=NAMES, values=VALUES)
        model = small.trained(setup, config, lambda draws: make(64, generator=draws), symbols=NAMES + VALUES)
        valid, test = small.validation_and_test(lambda draws: make(setup["tested"], generator=draws), seed=setup.seed)
        return {"valid": small.loss_of(model, valid), "exact": small.exact_share(model, test)}

    def contrasts(self, trials: Trials) -> Contrasts:
        """Unscaled the gradient falls with the width; scaled it stays."""
        unscaled, scaled = (
            [slope(by_width) for by_width in zip(*(trials.values(arm, f"gradient@{w}") for w in WIDTHS), strict=True)]
            for arm in SOFTMAX
        )
        return contrast("unscaled", unscaled, "below", 0.0), contrast("scaled", scaled, "within", 0.1)

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
            for module in model.modules():
                if isinstance(module, MultiHeadAttention):
                    module.q_proj.weight.mul_(setup["sharper"])
        small.train(setup, model, small.stream(partial(make, setup["rows"], length), seed=setup.seed))
        return small.graded(setup, model, partial(make, setup["tested"], length))

    def contrasts(self, trials: Trials) -> Contrasts:
        """With wide heads the division gains; and scores that begin far too large cost something: it would be seen."""
        items = self.size["tested"]
        return (
            trials.lead("gain", "divided-wide", "whole-wide", "right", items),
            trials.lead("sensitive", "divided-wide", "sharp-wide", "right", items),
        )
