"""From configuration to model: vocabularies, shared tables, and how parameters are counted."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from selfattn.models.build import build, count_parameters
from selfattn.models.config import (
    DecoderOnlyConfig,
    EncoderDecoderConfig,
    ModelConfig,
    RNNDecoderConfig,
    RNNEncoderConfig,
    TransformerConfig,
)

TRANSFORMER = EncoderDecoderConfig(encoder=TransformerConfig(), decoder=TransformerConfig())
SHARED = EncoderDecoderConfig(encoder=TransformerConfig(), decoder=TransformerConfig(), share_embeddings=True)
RNN = EncoderDecoderConfig(encoder=RNNEncoderConfig(), decoder=RNNDecoderConfig())


def test_parameters_are_counted_once() -> None:
    """An LSTM of width 3 from width 2: 4 gates of 3 * (2 + 3 + 2); a shared and tied table of 5 * 2 counts once."""
    lstm = torch.nn.LSTM(2, 3)
    assert count_parameters(lstm) == (84, 84)
    table, output = torch.nn.Embedding(5, 2), torch.nn.Linear(2, 5)
    output.weight = table.weight
    model = torch.nn.ModuleList([table, torch.nn.ModuleList([table]), output, lstm])
    assert count_parameters(model) == (10 + 5 + 84, 5 + 84)


@pytest.mark.parametrize("config", [TRANSFORMER, RNN], ids=["transformer", "rnn"])
def test_source_and_target_may_have_vocabularies_of_their_own(config: ModelConfig) -> None:
    model: Any = build(config, vocab_size=7, source_vocab_size=11, pad_id=0, seed=0)
    assert (model.encoder.embed.tokens.num_embeddings, model.decoder.embed.tokens.num_embeddings) == (11, 7)
    source, target = torch.tensor([[10, 9]]), torch.tensor([[1, 6, 2]])
    assert model(source, target, source_mask=source != 0).shape == (1, 3, 7)


@pytest.mark.parametrize("config", [SHARED, DecoderOnlyConfig(stack=TransformerConfig())], ids=["shared", "one"])
def test_one_table_has_one_size(config: ModelConfig) -> None:
    with pytest.raises(ValueError, match="source_vocab_size=11 must be vocab_size=7"):
        build(config, vocab_size=7, source_vocab_size=11, pad_id=0, seed=0)
    assert build(config, vocab_size=7, source_vocab_size=7, pad_id=0, seed=0)


@pytest.mark.parametrize("tie", [False, True])
@pytest.mark.parametrize("share", [False, True])
def test_what_is_shared_is_one_tensor(share: bool, tie: bool) -> None:
    part = TransformerConfig(dim=8)
    config = EncoderDecoderConfig(encoder=part, decoder=part, share_embeddings=share, tie_output=tie)
    model: Any = build(config, vocab_size=7, pad_id=0, seed=0)
    source, target, output = model.encoder.embed.tokens.weight, model.decoder.embed.tokens.weight, model.decoder.output
    assert (source is target) == share
    assert (output.weight is target) == tie
    apart = EncoderDecoderConfig(encoder=part, decoder=part)
    more = count_parameters(build(apart, vocab_size=7, pad_id=0, seed=0))[0] - count_parameters(model)[0]
    assert more == 7 * 8 * (share + tie)
