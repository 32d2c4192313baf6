"""What attention cannot take is named by its arguments; and both paths agree where float16 overflows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from selfattn.attention import Dot, MultiHeadAttention, Score, attend, dot, make_position, scaled_dot
from selfattn.attention.cache import Cache


def heads(*sizes: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(*sizes).to(dtype)


Q = heads(2, 3, 5, 7)


@pytest.mark.parametrize("score", [dot, scaled_dot])
@pytest.mark.parametrize("value", [1.0, 100.0, 200.0])
@pytest.mark.parametrize("bias", [None, 3.0, 1e5, -1e5])
def test_both_paths_agree_in_float16_where_scores_overflow(score: Score, value: float, bias: float | None) -> None:
    query, key = (torch.full((1, 2, 3, 64), value, dtype=torch.float16) for _ in range(2))
    key[..., 1, :] = value / 2
    values = heads(1, 2, 3, 4, dtype=torch.float16)
    added = None if bias is None else torch.tensor([0.0, bias, bias / 2]).expand(1, 1, 3, 3)
    mask = torch.tensor([True, True, False]).expand(1, 1, 3, 3)
    for allowed in (None, mask):
        fused = attend(query, key, values, score=score, bias=added, mask=allowed).output
        reference = attend(query, key, values, score=score, bias=added, mask=allowed, need_weights=True).output
        assert fused.isfinite().all()
        torch.testing.assert_close(fused, reference, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize(
    ("query", "found"),
    [(Q.to(torch.complex64), "torch.complex64"), (Q.long(), "torch.int64"), (np.zeros((2, 3, 5, 7)), "ndarray")],
)
def test_other_numbers_are_refused_by_name(query: Any, found: str) -> None:
    for arguments in ((query, Q, Q), (Q, query, Q), (Q, Q, query)):
        with pytest.raises(TypeError, match=rf"attend: expected (query|key|value) as a floating point .* got {found}"):
            attend(*arguments)


@pytest.mark.parametrize("need_weights", [False, True])
def test_heads_of_no_width_are_refused_on_both_paths(need_weights: bool) -> None:
    none = torch.zeros(2, 3, 5, 0)
    with pytest.raises(ValueError, match="attend: expected heads at least 1 wide, got query 0 and key 0"):
        attend(none, none, Q, need_weights=need_weights)


@pytest.mark.parametrize(
    ("score", "found"), [(lambda query, key: query @ key.mT, "got function"), (Dot, "got the class Dot; make one: Dot")]
)
def test_what_is_no_score_is_said(score: Any, found: str) -> None:
    for call in (lambda: attend(Q, Q, Q, score=score), lambda: MultiHeadAttention(8, num_heads=2, score=score)):
        with pytest.raises(TypeError, match=found):
            call()


def test_what_is_no_position_is_said() -> None:
    position: Any = "rotary"
    with pytest.raises(TypeError, match="expected an AttentionPosition, got 'rotary'; make one: "):
        MultiHeadAttention(8, num_heads=2, position=position)


@pytest.mark.parametrize("project", [True, False])
@pytest.mark.parametrize("x", [torch.zeros(5, 8), torch.zeros(2, 5, 9), torch.zeros(2, 5), np.zeros((2, 5, 8))])
def test_states_of_another_form_are_refused(x: Any, project: bool) -> None:
    layer = MultiHeadAttention(8, num_heads=2, project=project)
    calls: tuple[Callable[[], object], ...] = (
        lambda: layer(x), lambda: layer.project_context(x), lambda: layer(torch.zeros(2, 5, 8), x),
        lambda: layer(x, torch.zeros(2, 5, 8)),
    )  # fmt: skip
    for call in calls:
        with pytest.raises(
            ValueError,
            match=r"MultiHeadAttention: expected (x|context) \[b . d\] with (8|2 times any number of) features",
        ):
            call()


def test_a_cache_whose_keys_all_stand_at_0_is_refused() -> None:
    position = make_position("rotary", dim=8, num_heads=2)
    layer = MultiHeadAttention(8, num_heads=2, position=position)  # type: ignore[arg-type]  # rotary is one
    first, next_one = torch.randn(1, 1, 8), torch.randn(1, 1, 8)
    cache = Cache(layer.project_context(first))
    with pytest.raises(ValueError, match="projected without positions, as if they stood at 0"):
        cache.append(layer.project_context(next_one))
    grown = cache.append(layer.project_context(next_one, torch.tensor([1]))).entries
    both = layer(torch.cat([first, next_one], 1), causal=True).output
    torch.testing.assert_close(layer(next_one, grown).output, both[:, 1:])
