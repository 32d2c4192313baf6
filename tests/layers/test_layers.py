"""Feed-forward, embeddings, Transformer blocks, dropout, recurrent stacks. Formulas: tests/parity."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from selfattn.attention import Learned, MultiHeadAttention, Sinusoidal
from selfattn.layers import FeedForward, RecurrentStack, TokenEmbedding, TransformerBlock, reverse_padded
from selfattn.layers.transformer import Dropout


def draw(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_feed_forward_drops_inside():
    block = FeedForward(3, 5, dropout=0.5)
    nn.init.zeros_(block.fc2.weight)
    x = torch.ones(2, 7, 3)
    assert torch.equal(block(x), block.fc2.bias.expand(2, 7, 3))  # what comes after fc2 is not dropped
    nn.init.ones_(block.fc2.weight)
    assert not torch.equal(block(x), block(x))
    assert torch.equal(block.eval()(x), block(x))


def test_embedding_scales_and_adds_positions():
    """Rows (1, 2), (3, 4) times sqrt(4), plus the sines of positions 0 and 5."""
    table = nn.Embedding(3, 4)
    with torch.no_grad():
        table.weight.copy_(torch.arange(12.0).reshape(3, 4))
    sines = Sinusoidal(4)
    embed = TokenEmbedding(table, sines, scale=True)
    ids = torch.tensor([[1, 2]])
    torch.testing.assert_close(embed(ids), 2 * table.weight[ids] + sines(torch.tensor([0, 1])))
    places = torch.tensor([[0, 5]])
    torch.testing.assert_close(embed(ids, places), 2 * table.weight[ids] + sines(places))
    assert torch.equal(TokenEmbedding(table)(ids), table.weight[ids])
    assert TokenEmbedding(table, Learned(7, 4)).double()(ids).dtype == torch.float64


@pytest.mark.parametrize("norm_first", [True, False])
def test_dropout_is_on_every_part_and_not_on_the_residual(norm_first):
    """With parts that return nothing there is nothing to drop; with any one of them alive there is."""
    own, cross = (MultiHeadAttention(12, num_heads=3) for _ in range(2))
    settings = {"self_attn": own, "cross_attn": cross, "feed_forward": FeedForward(12, 17), "norm_first": norm_first}
    block = TransformerBlock(12, **settings, dropout=0.5).double()
    x = draw(2, 7, 12)
    memory = block.project_memory(draw(2, 11, 12))
    lasts = [block.self_attn.out_proj, cross.out_proj, block.feed_forward.fc2]

    def is_random():
        return not torch.equal(block(x, memory=memory).x, block(x, memory=memory).x)

    for alive in (None, *lasts):
        for last in lasts:
            nn.init.normal_(last.weight) if last is alive else nn.init.zeros_(last.weight)
            nn.init.zeros_(last.bias)
        assert is_random() == (alive is not None)
    block.eval()
    assert not is_random()


# Dropout: the share, the scale, the gradient, the seed


@pytest.mark.parametrize("p", [0.1, 0.3, 0.5, 0.9])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_a_seed_decides_what_falls_and_the_rest_is_scaled(p, dtype):
    torch.manual_seed(0)
    count = 200_003  # not a multiple of four
    layer, x = Dropout(p), torch.full((count,), 2.0, dtype=dtype, requires_grad=True)
    dropped = layer(x)
    dropped.sum().backward()
    kept = dropped != 0
    # Within five standard errors of a binomial share.
    assert abs(kept.double().mean().item() - (1 - p)) < 5 * math.sqrt(p * (1 - p) / count)
    scale = torch.tensor(2**16 / (2**16 - round(p * 2**16)), dtype=dtype)
    assert (dropped[kept] == 2 * scale).all()
    assert torch.equal(2 * x.grad, dropped)
    assert dropped.dtype == dtype
    torch.manual_seed(0)
    assert torch.equal(layer(x), dropped)
    assert not torch.equal(layer(x), dropped)
    assert layer.eval()(x) is x


def test_the_ends():
    x = torch.randn(7)
    assert torch.equal(Dropout(0.0)(x), x)
    assert torch.equal(Dropout(1.0)(x), torch.zeros(7))
    assert Dropout(0.3)(torch.ones(0, 3)).shape == (0, 3)
    with pytest.raises(ValueError, match="between 0 and 1"):
        Dropout(1.5)
    assert isinstance(Dropout(0.3), nn.Dropout)


@pytest.fixture
def drawn(monkeypatch):
    """How many numbers were drawn and from where; each 16-bit number comes once."""
    seen = []

    def every(self, low, high):
        seen.append((self.numel(), low, high))
        return self.copy_(torch.arange(-(2**15), 2**15, dtype=torch.int16).view(torch.int64)[: self.numel()])

    monkeypatch.setattr(torch.Tensor, "random_", every)
    return seen


@pytest.mark.parametrize(("p", "fallen"), [(2**-16, 1), (3 * 2**-16, 3), (0.25, 2**14), (1 - 2**-16, 2**16 - 1)])
def test_of_all_numbers_that_can_be_drawn_p_fall(p, fallen, drawn):
    dropped = Dropout(p)(torch.ones(2**16, dtype=torch.float64))
    assert int((dropped == 0).sum()) == fallen
    assert dropped.sum().item() == pytest.approx(2**16)  # the mean is kept
    assert drawn == [(2**14, -(2**63), 2**63 - 1)]


# Recurrent stacks: padding, states, dropout


LENGTHS = [5, 7, 2]
MASK = torch.arange(7) < torch.tensor(LENGTHS)[:, None]


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


@settings(max_examples=10)
@given(st.lists(st.integers(0, 7), min_size=1, max_size=5), st.sampled_from([(), (2,), (3, 2)]))
def test_reversing_keeps_padding_and_undoes_itself(lengths, tail):
    x = draw(len(lengths), 7, *tail)
    reversed_x = reverse_padded(x, torch.tensor(lengths))
    for row, length in enumerate(lengths):
        assert torch.equal(reversed_x[row, :length], x[row, :length].flip(0))
        assert torch.equal(reversed_x[row, length:], x[row, length:])
    assert torch.equal(reverse_padded(reversed_x, torch.tensor(lengths)), x)
