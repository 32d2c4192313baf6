"""Claim: the weighted sum is the layer; its gradients can be derived by hand, and are those of autograd."""

from collections.abc import Iterator, Mapping

import torch
from einops import repeat
from torch import Tensor

from selfattn.attention import attend, scores
from selfattn.claims.claim import Blocks, Claim, Setup
from selfattn.claims.rules import Contrasts, Trials, exact
from selfattn.registry import register
from selfattn.report.blocks import Block, Column, Heading, Paragraph, Row, Table
from selfattn.report.drawing.scale import power_of_ten

BOUND = 1e-12  # of the relative error in float64
FORWARD = ("scores", "weights", "output")
BACKWARD = ("d_weights", "d_value", "d_scores", "d_query", "d_key")
# Numbers of which the exponentials are 1, 2 and 3: every step can be done on paper.
_LOGS = (0.6931471805599453, 1.0986122886681098)
QUERY, KEY = ((_LOGS[0], _LOGS[1]), (_LOGS[0], 0.0)), ((0.0, 0.0), (1.0, 0.0), (0.0, 1.0))
VALUE, GRADIENT = ((12.0, 0.0), (0.0, 12.0), (12.0, 12.0)), ((1.0, 0.0), (0.0, 1.0))
# What the rows and the columns of a step's numbers are, as keys of the catalogue, and how many of each there are.
SIZES = {"query": len(QUERY), "key": len(KEY), "place": len(VALUE[0])}
AXES = {"scores": ("query", "key"), "weights": ("query", "key"), "output": ("query", "place")}
AXES |= {"d_weights": ("query", "key"), "d_value": ("key", "place"), "d_scores": ("query", "key")}
AXES |= {"d_query": ("query", "place"), "d_key": ("key", "place")}


@register.claim("weighted-sum")
class WeightedSum(Claim):
    """Forward and backward step by step, on numbers for paper and on random ones."""

    source = "Bahdanau et al. 2015, section 3.1; Saito, Deep Learning from Scratch 2, section 8.1"
    seconds, theorem, seeds = (1.0, 1.0), True, 1
    kinds = {"worked": {}, "random": {"queries": 5, "keys": 7, "width": 3, "values": 11, "draws": 20}}

    def measure(self, setup: Setup) -> dict[str, float]:
        """Return the relative error of every step, and of the worked example every number."""
        worst = dict.fromkeys((*FORWARD, *BACKWARD), 0.0)
        numbers: dict[str, float] = {}
        for example in _examples(setup.arm.settings, setup.seed):
            ours, other = by_hand(*example), by_autograd(*example)
            for name in worst:
                size = float(other[name].abs().max())
                worst[name] = max(worst[name], float((ours[name] - other[name]).abs().max()) / size)
            if not setup.arm.settings:
                numbers = {f"{name}.{i}.{j}": x for name in worst for i, j, x in _entries(ours[name])}
        return {f"error.{name}": value for name, value in worst.items()} | numbers

    def contrasts(self, trials: Trials) -> Contrasts:
        """No step differs from autograd by more than rounding."""

        def worst(steps: tuple[str, ...]) -> float:
            return max(trials.values(arm, f"error.{step}")[0] for arm in self.kinds for step in steps)

        return exact("forward", worst(FORWARD), BOUND), exact("backward", worst(BACKWARD), BOUND)

    def blocks(self, trials: Trials) -> Blocks:
        """The worked example, step by step."""
        blocks: list[Block] = [Paragraph(self.say("given"))]
        for step, (down, across) in AXES.items():
            columns = [self.say(across, number=j + 1) for j in range(SIZES[across])]
            numbers = [[_text(trials, f"{step}.{i}.{j}") for j in range(len(columns))] for i in range(SIZES[down])]
            head = Column(self.say(f"step.{step}"), numeric=False)
            rows = tuple(Row((self.say(down, number=i), *cells)) for i, cells in enumerate(numbers, 1))
            error = power_of_ten(max(trials.values(arm, f"error.{step}")[0] for arm in trials.arms))
            blocks += [
                Heading(self.say(f"step.{step}"), f"{self.name}-{step}"),
                Paragraph(self.say(f"how.{step}")),
                Table(f"{self.name}-{step}-numbers", (head, *map(Column, columns)), rows),
                Paragraph(self.say("error", error=error), note=True),
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
    keys, values = repeat(key, "j e -> i j e", i=len(query)), repeat(value, "j c -> i j c", i=len(query))
    queries, gradients = repeat(query, "i e -> i j e", j=len(key)), repeat(gradient, "i c -> i j c", j=len(key))
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
