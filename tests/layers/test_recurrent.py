"""Recurrent stacks against PyTorch's own, packed and unpacked, and what they promise about padding."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from selfattn.layers import RecurrentStack, reverse_padded

Close = Callable[[Tensor, Tensor], None]  # the fixture of tests/conftest.py

LENGTHS = [5, 7, 2]
MASK = torch.arange(7) < torch.tensor(LENGTHS)[:, None]
few = settings(max_examples=10)


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def make(cell: Any, **settings: Any) -> Any:
    torch.manual_seed(0)
    return RecurrentStack(3, 5, cell=cell, **settings).double()


@pytest.mark.parametrize("direction", ["forward", "both"])
@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_reads_like_torch_with_packed_rows(close: Close, cell: Any, direction: Any) -> None:
    """``nn.LSTM`` and ``nn.GRU`` of two layers on packed rows: outputs, final states, gradients."""
    stack = make(cell, num_layers=2, direction=direction)
    kind = nn.LSTM if cell == "lstm" else nn.GRU
    theirs = kind(3, 5, num_layers=2, batch_first=True, bidirectional=direction == "both", dtype=torch.float64)
    names = {
        f"{name}_l{layer}{'_reverse' * side}": part
        for layer, sides in enumerate(stack.layers)
        for side, rnn in enumerate(sides)
        for name, part in {key.removesuffix("_l0"): value for key, value in rnn.named_parameters()}.items()
    }
    assert names.keys() == dict(theirs.named_parameters()).keys()
    with torch.no_grad():
        for name, parameter in theirs.named_parameters():
            parameter.copy_(names[name])
    x, their_x = (draw(3, 7, 3).requires_grad_() for _ in range(2))
    outputs, state = stack.read(x, MASK)
    packed, last = theirs(pack_padded_sequence(their_x, torch.tensor(LENGTHS), batch_first=True, enforce_sorted=False))
    expected, _ = pad_packed_sequence(packed, batch_first=True)
    close(outputs, expected)
    h = last[0] if isinstance(last, tuple) else last
    sides = len(stack.directions)
    for layer, final in enumerate(state):
        close(final, torch.cat(list(h[layer * sides : (layer + 1) * sides]), dim=-1))
    weights = draw(3, 7, stack.output_dim, seed=1)
    ((outputs * weights).sum() + state[0].sum()).backward()
    ((expected * weights).sum() + h[:sides].sum()).backward()
    close(x.grad, their_x.grad)
    for name, parameter in theirs.named_parameters():
        close(names[name].grad, parameter.grad)


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_residual_adds_the_input_from_the_second_layer_on(close: Close, cell: Any) -> None:
    stack = make(cell, num_layers=3, residual=True)
    x = draw(2, 7, 3)
    first, _ = stack.layers[0][0](x)
    second = first + stack.layers[1][0](first)[0]
    third = second + stack.layers[2][0](second)[0]
    close(stack(x)[0], third)
    close(stack.read(x, torch.ones(2, 7, dtype=torch.bool))[0], third)


@pytest.mark.parametrize("pieces", [[2, 1, 4], [1] * 7])
@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_goes_on_from_a_state(close: Close, cell: Any, pieces: list[int]) -> None:
    """Reading 7 tokens is reading some of them, each time from the state that the last left; gradients too."""
    stack = make(cell, num_layers=2)
    x = draw(3, 7, 3)
    results = []
    for sizes in ([7], pieces):
        stack.zero_grad()
        state, read = None, []
        for piece in x.split(sizes, dim=1):
            outputs, state = stack(piece, state)
            read.append(outputs)
        joined = torch.cat(read, dim=1)
        made = [joined, *(part for layer in state for part in layer)]
        sum(part.square().sum() for part in made).backward()
        results.append([*made, *(parameter.grad.clone() for parameter in stack.parameters())])
    for whole, in_pieces in zip(*results, strict=True):
        close(in_pieces, whole)


def test_an_lstm_state_without_its_cells_starts_them_at_zero(close: Close) -> None:
    stack = make("lstm")
    x, h = draw(3, 2, 3), draw(3, 5, seed=1)
    close(stack(x, ((h,),))[0], stack(x, ((h, torch.zeros_like(h)),))[0])


def test_dropout_is_between_layers_only(close: Close) -> None:
    """Not before the first layer, not after the last, and another mask for each layer."""
    x, dropped = draw(3, 7, 3), {"dropout": 0.5}
    torch.manual_seed(0)
    one, deep = make("lstm", **dropped), make("lstm", num_layers=2, **dropped)
    first, read = one(x)[0], one.read(x, MASK)[0]
    one.eval()
    close(first, one(x)[0])
    close(read, one.read(x, MASK)[0])
    for run in (lambda: deep(x)[0], lambda: deep.read(x, MASK)[0]):
        deep.train()
        assert not torch.equal(run(), run())
        assert (run()[MASK] != 0).all()
        deep.eval()
        assert torch.equal(run(), run())


@few
@given(st.lists(st.integers(0, 7), min_size=1, max_size=5), st.sampled_from([(), (2,), (3, 2)]))
def test_reversing_keeps_padding_and_undoes_itself(lengths: list[int], tail: tuple[int, ...]) -> None:
    x = draw(len(lengths), 7, *tail)
    reversed_x = reverse_padded(x, torch.tensor(lengths))
    for row, length in enumerate(lengths):
        assert torch.equal(reversed_x[row, :length], x[row, :length].flip(0))
        assert torch.equal(reversed_x[row, length:], x[row, length:])
    assert torch.equal(reverse_padded(reversed_x, torch.tensor(lengths)), x)
