"""The output layer and the loss as one function are the two one after the other."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

from selfattn.training import loss as module
from selfattn.training.loss import linear_cross_entropy


def drawn(n: int, d: int, v: int, *, seed: int = 0, scale: float = 1.0) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """States, weight, bias and right tokens, in float64."""
    draw = torch.Generator().manual_seed(seed)
    states, weight, bias = (
        (scale * torch.randn(*shape, generator=draw, dtype=torch.float64)).requires_grad_()
        for shape in ((n, d), (v, d), (v,))
    )
    return states, weight, bias, torch.randint(v, (n,), generator=draw)


def reference(states: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor, smoothing: float) -> Tensor:
    return functional.cross_entropy(functional.linear(states, weight, bias), target, label_smoothing=smoothing)


@given(n=st.integers(1, 9), d=st.integers(1, 5), v=st.integers(1, 7), smoothing=st.sampled_from([0.0, 0.1, 0.9]))
@settings(deadline=None, max_examples=20)
def test_equals_pytorch_whatever_the_chunks(n: int, d: int, v: int, smoothing: float) -> None:
    states, weight, bias, target = drawn(n, d, v, seed=n + 10 * d + 100 * v)
    inputs = (states, weight, bias)
    expected = reference(*inputs, target, smoothing)
    gradients = torch.autograd.grad(expected, inputs)
    with pytest.MonkeyPatch.context() as patch:
        for elements in (1, 2 * v, 100 * v):  # one token at a time, two, all
            patch.setattr(module, "_ELEMENTS", elements)
            found = linear_cross_entropy(*inputs, target, label_smoothing=smoothing)
            torch.testing.assert_close(found, expected)
            torch.testing.assert_close(torch.autograd.grad(found, inputs), gradients)


class Largest(TorchDispatchMode):
    """How many elements the largest tensor has that any operator returns."""

    elements = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        if isinstance(found, Tensor):
            self.elements = max(self.elements, found.numel())
        return found


def test_the_logits_of_no_more_than_some_tokens_exist_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """64 tokens of 50 logits, two tokens at a time; beside them as much to write into."""
    monkeypatch.setattr(module, "_ELEMENTS", 100)
    states, weight, bias, target = drawn(64, 2, 50)
    with Largest() as largest:
        linear_cross_entropy(states, weight, bias, target).backward()  # type: ignore[no-untyped-call]  # PyTorch has no types for it
    assert largest.elements <= 200


def test_numerical_gradients() -> None:
    states, weight, bias, target = drawn(3, 2, 4)

    def value(states: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return 3.0 * linear_cross_entropy(states, weight, bias, target, label_smoothing=0.2)

    assert torch.autograd.gradcheck(value, (states, weight, bias))


def test_without_a_bias_and_without_gradients() -> None:
    states, weight, _, target = drawn(5, 3, 4)
    expected = reference(states, weight, None, target, 0.1)
    torch.testing.assert_close(linear_cross_entropy(states, weight, None, target, label_smoothing=0.1), expected)
    with torch.no_grad():
        found = linear_cross_entropy(states, weight, None, target, label_smoothing=0.1)
    torch.testing.assert_close(found, expected)
    assert not found.requires_grad


def test_logits_beyond_the_range_of_exp() -> None:
    states, weight, bias, target = drawn(4, 3, 5, scale=100.0)
    expected = reference(states, weight, bias, target, 0.1)
    found = linear_cross_entropy(states, weight, bias, target, label_smoothing=0.1)
    assert expected.item() > 1000
    torch.testing.assert_close(found, expected)


def test_no_token_is_no_number() -> None:
    states, weight, bias, target = drawn(0, 3, 5)
    assert math.isnan(linear_cross_entropy(states, weight, bias, target).item())


def test_bfloat16_is_near_float32() -> None:
    states, weight, bias, target = (x.detach().float() if x.is_floating_point() else x for x in drawn(200, 32, 500))
    inputs = tuple((x * 0.2).requires_grad_() for x in (states, weight, bias))
    expected = reference(*inputs, target, 0.1)
    with torch.autocast("cpu", torch.bfloat16):
        found = linear_cross_entropy(*inputs, target, label_smoothing=0.1)
    assert found.dtype == torch.float32
    assert found.item() == pytest.approx(expected.item(), rel=1e-3)
    for near, exact in zip(torch.autograd.grad(found, inputs), torch.autograd.grad(expected, inputs), strict=True):
        assert near.dtype == torch.float32
        assert (near - exact).norm() < 5e-3 * exact.norm()
