"""Floating-point operations: the counter against formulas derived by hand, for every family."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from selfattn.errors import UserError
from selfattn.evaluation.cost.flops import BatchShape, Flops, count_flops, machine_peak, training_flops
from selfattn.models.build import build
from selfattn.models.config import ModelConfig
from selfattn.models.decoder_only.config import DecoderOnlyConfig
from selfattn.models.encoder_decoder.config import EncoderDecoderConfig
from selfattn.models.encoder_decoder.rnn_config import RNNDecoderConfig, RNNEncoderConfig
from selfattn.models.presets import PRESETS
from selfattn.models.sizing import match
from selfattn.models.transformer_config import TransformerConfig

VOCAB, B, S, T = 47, 3, 13, 7


def product(rows: int, inner: int, columns: int) -> int:
    """``[rows inner] @ [inner columns]``: a multiplication and an addition for every triple."""
    return 2 * rows * inner * columns


def block(part: TransformerConfig, rows: int, keys: int, context: tuple[int, int] | None) -> int:
    """One block over `rows` positions, whose self-attention compares `keys` pairs of positions.

    The context is how many positions of the memory are compared with, and its width; it is projected elsewhere.
    """
    d = part.dim
    kv = d // part.num_heads * (part.num_kv_heads or part.num_heads)
    self_attention = 2 * product(rows, d, d) + 2 * product(rows, d, kv) + 2 * product(keys, d, 1)
    matrices = 3 if part.activation == "swiglu" else 2
    feed_forward = matrices * product(rows, d, part.ffn_dim)
    cross = 0 if context is None else 2 * product(rows, d, d) + 2 * product(rows, context[0], d)
    return self_attention + feed_forward + cross


def memory(part: TransformerConfig, s: int, width: int) -> int:
    """Keys and values of the source for one block's cross-attention."""
    return 2 * product(s, width, part.dim // part.num_heads * (part.num_kv_heads or part.num_heads))


def recurrent(cell: str, rows: int, width: int, hidden: int) -> int:
    """Every gate reads the input and the state."""
    return product(rows, width + hidden, (4 if cell == "lstm" else 3) * hidden)


def rnn_encoder(part: RNNEncoderConfig) -> int:
    directions = 2 if part.direction == "both" else 1
    widths = [part.embed_dim] + [part.output_dim] * (part.num_layers - 1)
    return sum(directions * recurrent(part.cell, S, width, part.hidden_dim) for width in widths)


def rnn_decoder(part: RNNDecoderConfig, source: int, *, stepwise: bool) -> int:
    """`stepwise`: the target is read token by token, so what is projected for a query and a key is so at every step."""
    h, d = part.hidden_dim, part.embed_dim
    total = (
        part.num_layers * (2 if part.cell == "lstm" else 1) * product(1, source, h)
        if (part.initial_state == "project")
        else 0
    )
    extra, output = 0, h
    if part.attention == "peeky":
        extra, output = source, h + source
    elif part.attention != "none":
        context = h if part.project else source
        if part.project:
            total += 2 * product(T, h, h) + 2 * product(S, source, h)
        total += product(T, S, context)  # the weighted sums
        if part.score in ("dot", "scaled_dot", "general"):
            total += product(T, S, context)
            total += product(T, h, source) if part.score == "general" else 0
        elif part.score == "location":
            total += product(T, h, S)
        else:  # additive, concat: both sides projected, then a vector for every pair
            times = T if stepwise or part.attention == "bahdanau" else 1
            total += product(T, h, h) + times * product(S, source, h) + product(T * S, h, 1)
        if part.attention == "bahdanau":
            extra, output = context, h
            total += product(T, h + context + d, 2 * h)
        elif part.attention == "luong":
            extra, output = h if part.input_feeding else 0, h
            total += product(T, h + context, h)
        else:
            output = h + context
    widths = [d + extra] + [h] * (part.num_layers - 1)
    return total + sum(recurrent(part.cell, T, width, h) for width in widths) + product(T, output, VOCAB)


def by_hand(config: ModelConfig, *, stepwise: bool) -> int:
    """Operations for one source and target. Step by step, a token is compared with those up to itself only."""
    seen = T * (T + 1) // 2 if stepwise else T * T
    if isinstance(config, DecoderOnlyConfig):
        part, both = config.stack, S + T
        keys = S * S + T * S + seen if stepwise else both * both
        return part.num_layers * block(part, both, keys, None) + product(T, part.dim, VOCAB)
    encoder, decoder = config.encoder, config.decoder
    if isinstance(encoder, TransformerConfig):
        total = encoder.num_layers * block(encoder, S, S * S, None)
    else:
        total = rnn_encoder(encoder)
    if isinstance(decoder, RNNDecoderConfig):
        return total + rnn_decoder(decoder, encoder.output_dim, stepwise=stepwise)
    own = block(decoder, T, seen, (S, decoder.dim)) + memory(decoder, S, encoder.output_dim)
    return total + decoder.num_layers * own + product(T, decoder.dim, VOCAB)


def counted(config: ModelConfig, shape: BatchShape) -> Flops:
    return count_flops(build(config, vocab_size=VOCAB, pad_id=0, seed=0), shape)


@pytest.mark.parametrize("name", PRESETS)
def test_the_count_is_what_the_formulas_give(name: str) -> None:
    config = PRESETS[name].config
    flops = counted(config, BatchShape(B, S, T))
    assert flops.forward == B * by_hand(config, stepwise=False)
    assert flops.decoding == B * by_hand(config, stepwise=True)
    # Each product has one gradient for each of its factors, and the same size. The exceptions: the outer product in
    # the gradient of `v . tanh(..)` is no product of matrices, and some kernels leave out the zero state of an RNN.
    if config_has_additive_score(config) or "gru" in name:
        assert 2.9 * flops.forward < flops.training < 3 * flops.forward
    else:
        assert flops.training == 3 * flops.forward


def config_has_additive_score(config: ModelConfig) -> bool:
    return (
        isinstance(config, EncoderDecoderConfig)
        and isinstance(config.decoder, RNNDecoderConfig)
        and config.decoder.score in ("additive", "concat")
    )


def test_the_smallest_transformer_on_paper() -> None:
    """Width 2, one head, inside 3, vocabulary 5; one source token and two target tokens."""
    stack = TransformerConfig(dim=2, num_heads=1, num_layers=1, ffn_dim=3)
    model = build(EncoderDecoderConfig(encoder=stack, decoder=stack), vocab_size=5, pad_id=0, seed=0)
    encoder = 4 * (2 * 1 * 2 * 2) + 2 * (2 * 1 * 1 * 2) + 2 * (2 * 1 * 2 * 3)  # projections, attention, feed-forward
    own = 4 * (2 * 2 * 2 * 2) + 2 * (2 * 2 * 2 * 2)  # two tokens compared with two
    cross = 2 * (2 * 2 * 2 * 2) + 2 * (2 * 1 * 2 * 2) + 2 * (2 * 2 * 1 * 2)  # two query, one is keys and values
    rest = 2 * (2 * 2 * 2 * 3) + 2 * 2 * 2 * 5  # feed-forward, output
    assert count_flops(model, BatchShape(1, 1, 2)).forward == encoder + own + cross + rest


def test_per_token_figures() -> None:
    flops = Flops(BatchShape(batch=2, source=9, target=5), forward=100, training=300, decoding=120)
    assert flops.training_per_token == 30
    assert flops.decoding_per_token == 12


def test_rows_are_counted_once_and_multiplied() -> None:
    for name in ("rnn-bidirectional", "transformer", "decoder-only"):
        config = PRESETS[name].config
        one, many = counted(config, BatchShape(1, S, T)), counted(config, BatchShape(64, S, T))
        assert (many.forward, many.training, many.decoding) == (64 * one.forward, 64 * one.training, 64 * one.decoding)


def test_the_handover_of_cells_costs_nothing() -> None:
    """With LSTM cells handed over PyTorch reads packed rows, by another kernel: the count must not feel it."""
    both = [
        EncoderDecoderConfig(
            encoder=RNNEncoderConfig(hidden_dim=11, embed_dim=5, handover=handover),
            decoder=RNNDecoderConfig(hidden_dim=11, embed_dim=5),
        )
        for handover in ("hidden", "all")
    ]
    hidden, cells = (counted(config, BatchShape(B, S, T)) for config in both)
    assert (hidden.forward, hidden.decoding) == (cells.forward, cells.decoding)


def test_the_model_is_left_alone_and_its_dtype_does_not_matter() -> None:
    model = build(PRESETS["rnn-attention"].config, vocab_size=VOCAB, pad_id=0, seed=0).double().train()
    with torch.no_grad():
        flops = count_flops(model, BatchShape(B, S, T))
    assert flops == counted(PRESETS["rnn-attention"].config, BatchShape(B, S, T))
    assert model.training
    assert all(parameter.grad is None and parameter.dtype == torch.float64 for parameter in model.parameters())


@pytest.mark.parametrize("shape", [BatchShape(0, S, T), BatchShape(B, 0, T), BatchShape(B, S, -1)])
def test_sizes_must_be_positive(shape: BatchShape) -> None:
    with pytest.raises(ValueError, match="sizes of at least 1"):
        counted(PRESETS["rnn-plain"].config, shape)


@pytest.mark.parametrize("name", ["rnn-attention", "transformer"])
def test_models_can_be_sized_for_operations(name: str) -> None:
    shape = BatchShape(B, S, T)

    def measure(config: ModelConfig) -> float:
        return training_flops(config, VOCAB, shape)

    config = match(PRESETS[name].config, 20_000_000, measure)
    assert abs(counted(config, shape).training / 20_000_000 - 1) <= 0.01


def test_a_budget_beyond_all_measure_is_refused_before_memory_is_gone() -> None:
    config = PRESETS["transformer"].config
    with pytest.raises(UserError, match=r"a model of [\d,]+ parameters is too large for it; lower the budget"):
        match(config, 1e18, lambda config: training_flops(config, VOCAB, BatchShape(B, S, T)))


def test_a_machine_can_do_something(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two products, of which the faster took a tenth of a second, of 100 x 100 matrices."""
    times = iter([0.0, 1.0, 1.2, 2.0, 2.1])
    monkeypatch.setattr("selfattn.evaluation.cost.flops.time.perf_counter", lambda: next(times))
    assert machine_peak(size=100, seconds=2.1) == pytest.approx(2 * 100**3 / 0.1)


@pytest.mark.parametrize("make", [nn.LSTM, nn.GRU])
def test_the_counter_alone_would_miss_lstm(make: Callable[..., nn.Module]) -> None:
    """Why there are formulas at all; where this fails, PyTorch has learned to count, and they can go."""
    from torch.utils.flop_counter import FlopCounterMode

    counter = FlopCounterMode(display=False)
    with counter, torch.no_grad():
        make(5, 7, batch_first=True)(torch.zeros(3, 11, 5))
    alone = counter.get_total_flops()
    assert alone in (0, recurrent("lstm" if make is nn.LSTM else "gru", 33, 5, 7))
