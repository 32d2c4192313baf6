"""Feed-forward, norms, embeddings, Transformer blocks and dropout. Formulas: tests/parity."""

import math

import pytest
import torch
from torch import nn

from selfattn.attention import Learned, MultiHeadAttention, Sinusoidal
from selfattn.layers import FeedForward, TokenEmbedding, TransformerBlock
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
def test_share_and_scale(p, dtype):
    torch.manual_seed(0)
    count = 200_003  # not a multiple of four
    dropped = Dropout(p)(torch.ones(count, dtype=dtype))
    kept = dropped != 0
    # Within five standard errors of a binomial share.
    assert abs(kept.double().mean().item() - (1 - p)) < 5 * math.sqrt(p * (1 - p) / count)
    scale = torch.tensor(2**16 / (2**16 - round(p * 2**16)), dtype=dtype)
    assert (dropped[kept] == scale).all()
    assert dropped.dtype == dtype


def test_the_gradient_is_that_of_what_was_kept():
    torch.manual_seed(0)
    x = torch.randn(5, 7, 3, requires_grad=True)
    dropped = Dropout(0.4)(x)
    dropped.sum().backward()
    assert torch.equal(x.grad != 0, dropped != 0)
    assert torch.allclose(dropped, x * x.grad)


def test_a_seed_decides_and_evaluation_is_the_identity():
    layer, x = Dropout(0.5), torch.randn(11, 13)
    torch.manual_seed(3)
    first, second = layer(x), layer(x)
    torch.manual_seed(3)
    assert torch.equal(layer(x), first)
    assert not torch.equal(first, second)
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
