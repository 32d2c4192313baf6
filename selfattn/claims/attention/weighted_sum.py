"""Claim: the weighted sum is the layer; its gradients can be derived by hand, and are those of autograd."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from selfattn.claims.attention.by_hand import by_autograd, by_hand
from selfattn.claims.claim import Arm, Claim, Found
from selfattn.claims.rules import exact
from selfattn.registry import register
from selfattn.report.blocks import Block, Column, Heading, Paragraph, Row, Table
from selfattn.report.drawing.scale import power_of_ten
from selfattn.results.claims import Contrast

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

    name = "weighted-sum"
    source = "Bahdanau et al. 2015, section 3.1; Saito, Deep Learning from Scratch 2, section 8.1"
    seconds, theorem, seeds = (1.0, 1.0), True, 1

    def arms(self, quick: bool) -> tuple[Arm, ...]:
        """The worked example, and random numbers of another size."""
        return Arm("worked"), Arm("random", {"queries": 5, "keys": 7, "width": 3, "values": 11, "draws": 20})

    def measure(self, arm: Arm, *, seed: int, rate: float | None, quick: bool) -> dict[str, float]:
        """Return the relative error of every step, and of the worked example every number."""
        worst = dict.fromkeys((*FORWARD, *BACKWARD), 0.0)
        numbers: dict[str, float] = {}
        for given in _given(arm.settings, seed):
            own, other = by_hand(*given), by_autograd(*given)
            for name in worst:
                size = float(other[name].abs().max())
                worst[name] = max(worst[name], float((own[name] - other[name]).abs().max()) / size)
            if not arm.settings:
                numbers = {f"{name}.{i}.{j}": x for name in worst for i, j, x in _entries(own[name])}
        return {f"error.{name}": value for name, value in worst.items()} | numbers

    def contrasts(self, found: Found) -> tuple[Contrast, ...]:
        """No step differs from autograd by more than rounding."""

        def worst(steps: tuple[str, ...]) -> float:
            return max(found.values(arm, f"error.{step}")[0] for arm in found.arms for step in steps)

        return exact("forward", worst(FORWARD), BOUND), exact("backward", worst(BACKWARD), BOUND)

    def blocks(self, found: Found) -> tuple[Block, ...]:
        """The worked example, step by step."""
        blocks: list[Block] = [Paragraph(self.say("given"))]
        for step, (down, across) in AXES.items():
            columns = [self.say(across, number=j + 1) for j in range(SIZES[across])]
            numbers = [[_text(found, f"{step}.{i}.{j}") for j in range(len(columns))] for i in range(SIZES[down])]
            head = Column(self.say(f"step.{step}"), numeric=False)
            rows = tuple(Row((self.say(down, number=i), *cells)) for i, cells in enumerate(numbers, 1))
            error = power_of_ten(max(found.values(arm, f"error.{step}")[0] for arm in found.arms))
            blocks += [
                Heading(self.say(f"step.{step}"), f"{self.name}-{step}"),
                Paragraph(self.say(f"how.{step}")),
                Table(step, (head, *map(Column, columns)), rows),
                Paragraph(self.say("error", error=error), note=True),
            ]
        return tuple(blocks)


def _given(settings: Mapping[str, int], seed: int) -> Iterator[tuple[Tensor, ...]]:
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


def _text(found: Found, figure: str) -> str:
    return f"{found.values('worked', figure)[0]:.4f}".rstrip("0").rstrip(".").replace("-", "−") or "0"
