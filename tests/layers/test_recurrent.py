"""Recurrent stacks: padding, states, dropout. Formulas: tests/parity."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from selfattn.layers import RecurrentStack, reverse_padded

LENGTHS = [5, 7, 2]
MASK = torch.arange(7) < torch.tensor(LENGTHS)[:, None]
few = settings(max_examples=10)


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def make(cell, **settings):
    torch.manual_seed(0)
    return RecurrentStack(3, 5, cell=cell, **settings).double()


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_outputs_at_padding_are_zero(cell):
    """All else that an encoder reads: tests/parity/test_rnn_formulas.py."""
    outputs, _ = make(cell, num_layers=2, direction="both").read(draw(3, 7, 3), MASK)
    assert ((outputs != 0).any(dim=-1) == MASK).all()


@pytest.mark.parametrize("pieces", [[2, 1, 4], [1] * 7])
@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_goes_on_from_a_state(close, cell, pieces):
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


def test_dropout_is_between_layers_only(close):
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
def test_reversing_keeps_padding_and_undoes_itself(lengths, tail):
    x = draw(len(lengths), 7, *tail)
    reversed_x = reverse_padded(x, torch.tensor(lengths))
    for row, length in enumerate(lengths):
        assert torch.equal(reversed_x[row, :length], x[row, :length].flip(0))
        assert torch.equal(reversed_x[row, length:], x[row, length:])
    assert torch.equal(reverse_padded(reversed_x, torch.tensor(lengths)), x)
