"""Every score function against its formula, written with loops over positions and numbers."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from selfattn.attention import (
    Additive,
    Concat,
    Dot,
    General,
    Location,
    ScaledDot,
    Score,
    attend,
    dot,
    make_score,
    scaled_dot,
)

Vector = list[float]
Matrix = list[list[float]]
Formula = Callable[[Any, Vector, Vector, int], float]


def numbers(parameter: Tensor) -> Any:
    return parameter.detach().double().tolist()


def times(matrix: Matrix, vector: Vector) -> Vector:
    return [sum(weight * x for weight, x in zip(row, vector, strict=True)) for row in matrix]


def dot_formula(score: Dot, q: Vector, k: Vector, j: int) -> float:
    return sum(x * y for x, y in zip(q, k, strict=True))


def scaled_dot_formula(score: ScaledDot, q: Vector, k: Vector, j: int) -> float:
    return sum(x * y for x, y in zip(q, k, strict=True)) / math.sqrt(len(q))


def general_formula(score: General, q: Vector, k: Vector, j: int) -> float:
    """Luong's ``h_t' W h_s``; ``nn.Linear`` keeps the transpose of W, ``[key, query]``."""
    weight = numbers(score.proj.weight)
    return sum(k[a] * weight[a][b] * q[b] for a in range(len(k)) for b in range(len(q)))


def additive_formula(score: Additive, q: Vector, k: Vector, j: int) -> float:
    of_key, of_query = times(numbers(score.key_proj.weight), k), times(numbers(score.query_proj.weight), q)
    return sum(v * math.tanh(x + y) for v, x, y in zip(numbers(score.v.weight)[0], of_key, of_query, strict=True))


def concat_formula(score: Concat, q: Vector, k: Vector, j: int) -> float:
    inner = [
        x + bias for x, bias in zip(times(numbers(score.proj.weight), q + k), numbers(score.proj.bias), strict=True)
    ]
    return sum(v * math.tanh(x) for v, x in zip(numbers(score.v.weight)[0], inner, strict=True))


def location_formula(score: Location, q: Vector, k: Vector, j: int) -> float:
    return times(numbers(score.proj.weight), q)[j]


FORMULAS: dict[str, Formula] = {
    "dot": dot_formula,
    "scaled_dot": scaled_dot_formula,
    "general": general_formula,
    "additive": additive_formula,
    "concat": concat_formula,
    "location": location_formula,
}


def by_loops(formula: Formula, score: Score, query: Tensor, key: Tensor) -> Tensor:
    queries, keys = query.double().tolist(), key.double().tolist()
    return torch.tensor(
        [
            [
                [[formula(score, q, k, position) for position, k in enumerate(key_rows)] for q in query_rows]
                for query_rows, key_rows in zip(query_heads, key_heads, strict=True)
            ]
            for query_heads, key_heads in zip(queries, keys, strict=True)
        ],
        dtype=query.dtype,
    )


def make(name: str, query_dim: int, key_dim: int) -> Score:
    return make_score(name, query_dim, key_dim, hidden_dim=5, max_length=17)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("num_heads", [1, 2, 3])
@pytest.mark.parametrize("name", FORMULAS)
def test_the_formula(name: str, num_heads: int, dtype: torch.dtype, close: Callable[..., None]) -> None:
    same_width = name in ("dot", "scaled_dot")
    score = make(name, 11, 11 if same_width else 13).to(dtype)
    query, key = 0.7 * torch.randn(2, num_heads, 3, 11), 0.7 * torch.randn(2, num_heads, 7, 11 if same_width else 13)
    query, key = query.to(dtype), key.to(dtype)
    expected = by_loops(FORMULAS[name], score, query, key)
    close(score(query, key).detach(), expected)
    as_dot = score.as_dot(query, key)
    assert (as_dot is None) == (name in ("additive", "concat", "location"))
    if as_dot is not None:
        left, right, scale = as_dot
        close((scale * (left @ right.transpose(-2, -1))).detach(), expected)
    if isinstance(score, Additive | Concat):
        score.block_elements = 40
        close(score(query, key).detach(), expected)


def test_parameters_are_those_of_the_papers() -> None:
    shapes = {name: {k: tuple(p.shape) for k, p in make(name, 3, 7).named_parameters()} for name in FORMULAS}
    assert shapes == {
        "dot": {},
        "scaled_dot": {},
        "general": {"proj.weight": (7, 3)},
        "additive": {"query_proj.weight": (5, 3), "key_proj.weight": (5, 7), "v.weight": (1, 5)},
        "concat": {"proj.weight": (5, 10), "proj.bias": (5,), "v.weight": (1, 5)},
        "location": {"proj.weight": (17, 3)},
    }


def test_the_location_score_ends_at_its_stated_length() -> None:
    score, query = Location(3, max_length=5), torch.randn(1, 1, 2, 3)
    assert score(query, torch.randn(1, 1, 5, 3)).shape == (1, 1, 2, 5)
    with pytest.raises(ValueError, match=r"6 source positions, but it was built for at most 5; .*max_length=6"):
        attend(query, torch.randn(1, 1, 6, 3), torch.randn(1, 1, 6, 3), score=score)


@pytest.mark.parametrize("score", [dot, scaled_dot])
@pytest.mark.parametrize("need_weights", [False, True], ids=["fused", "reference"])
def test_a_dot_product_needs_equal_widths(score: Score, need_weights: bool) -> None:
    x, y = torch.randn(1, 1, 2, 3), torch.randn(1, 1, 2, 5)
    with pytest.raises(ValueError, match=r"query width 3 and key width 5 differ; use general or additive"):
        attend(x, y, y, score=score, need_weights=need_weights)
