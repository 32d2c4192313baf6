"""Cost: memory by hand, operations against formulas derived by hand."""

import pytest
import torch

from selfattn.evaluation.cost import BatchShape, count_flops, peak_memory
from selfattn.models.build import build
from selfattn.models.families import (
    PRESETS,
    EncoderDecoderConfig,
    RNNDecoderConfig,
    RNNEncoderConfig,
    TransformerConfig,
)

VOCAB = 11
B, S, T = 3, 13, 7


@pytest.fixture
def model():
    return build(PRESETS["rnn-attention"].config, vocab_size=VOCAB, pad_id=0, seed=0)


def test_views_and_what_is_done_in_place_take_nothing():
    given = torch.ones(13, 17)

    def run():
        given.t().reshape(17, 13)[2:5].add_(1)
        given.mul_(2)

    assert peak_memory(run) == 0


def test_training_holds_what_the_gradients_need(model):
    source, target = torch.full((5, 7), 3), torch.full((5, 3), 4)

    def train(rows):
        model(source[rows], target[rows], source_mask=source[rows] > 0).sum().backward()

    def read():
        with torch.no_grad():
            model(source, target, source_mask=source > 0)

    def infer():
        with torch.inference_mode():
            model(source, target, source_mask=source > 0)

    train(slice(0, 5))  # from here on there are gradients to add to
    training, one_row = peak_memory(lambda: train(slice(0, 5))), peak_memory(lambda: train(slice(0, 1)))
    assert training > one_row
    assert training > peak_memory(read) > 0
    assert peak_memory(infer) == peak_memory(read)


def products(rows, inner, columns):
    """``[rows inner] @ [inner columns]``: a multiplication and an addition for every triple."""
    return 2 * rows * inner * columns


def counted(config, shape):
    return count_flops(build(config, vocab_size=VOCAB, pad_id=0, seed=0), shape)


def test_the_smallest_transformer_on_paper():
    """Width 2, one head, inside 3, vocabulary 5; one source token and two target tokens."""
    stack = TransformerConfig(dim=2, num_heads=1, num_layers=1, ffn_dim=3)
    model = build(EncoderDecoderConfig(encoder=stack, decoder=stack), vocab_size=5, pad_id=0, seed=0)
    encoder = 4 * (2 * 1 * 2 * 2) + 2 * (2 * 1 * 1 * 2) + 2 * (2 * 1 * 2 * 3)  # projections, attention, feed-forward
    self_attention = 4 * (2 * 2 * 2 * 2) + 2 * (2 * 2 * 2 * 2)  # two tokens compared with two
    cross = 2 * (2 * 2 * 2 * 2) + 2 * (2 * 1 * 2 * 2) + 2 * (2 * 2 * 1 * 2)  # two query, one is keys and values
    rest = 2 * (2 * 2 * 2 * 3) + 2 * 2 * 2 * 5  # feed-forward, output
    assert count_flops(model, BatchShape(1, 1, 2)).forward == encoder + self_attention + cross + rest


@pytest.mark.parametrize(("cell", "gates"), [("lstm", 4), ("gru", 3)])
def test_an_rnn_with_attention_on_paper(cell, gates):
    """Width 5, hidden 7: every gate reads the input and the state; scaled dot products with the encoder's states."""
    encoder = RNNEncoderConfig(hidden_dim=7, embed_dim=5, cell=cell)
    decoder = RNNDecoderConfig(hidden_dim=7, embed_dim=5, cell=cell, attention="textbook", score="scaled_dot")
    flops = counted(EncoderDecoderConfig(encoder=encoder, decoder=decoder), BatchShape(B, S, T))
    cells = products(S, 5 + 7, gates * 7) + products(T, 5 + 7, gates * 7)
    attention, output = 2 * products(T, 7, S), products(T, 7 + 7, VOCAB)
    assert flops.forward == flops.decoding == B * (cells + attention + output)


def test_the_model_is_left_alone_and_its_dtype_does_not_matter():
    model = build(PRESETS["rnn-attention"].config, vocab_size=VOCAB, pad_id=0, seed=0).double().train()
    with torch.no_grad():
        flops = count_flops(model, BatchShape(B, S, T))
    assert flops == counted(PRESETS["rnn-attention"].config, BatchShape(B, S, T))
    assert model.training
    assert all(parameter.grad is None and parameter.dtype == torch.float64 for parameter in model.parameters())
