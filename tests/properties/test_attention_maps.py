"""What every model's attention maps hold, and law 8: what self-attention knows of the order of words."""

from collections.abc import Callable
from dataclasses import is_dataclass
from random import Random
from typing import Any

import pytest
import torch
from torch import Tensor

from selfattn.attention import causal_mask
from selfattn.layers import TransformerBlock
from selfattn.models.config import ModelConfig
from selfattn.models.decoder_only.config import DecoderOnlyConfig, RecurrentConfig
from selfattn.models.encoder_decoder.config import EncoderDecoderConfig, RNNDecoderConfig, RNNEncoderConfig
from selfattn.models.protocol import Decoded
from selfattn.models.transformer_config import TransformerConfig

Close = Callable[[Tensor, Tensor], None]  # the fixture of tests/conftest.py

PRIMES = (1, 2, 3, 5, 7)


def heads_by_layer(part: Any) -> list[int]:
    """How many heads each layer of attention has, inside a Transformer or from an RNN decoder."""
    if isinstance(part, TransformerConfig):
        return [part.num_heads] * part.num_layers
    if isinstance(part, RNNDecoderConfig) and part.attention not in ("none", "peeky"):
        return [part.num_heads]
    return []


def expected_heads(config: ModelConfig) -> tuple[list[int], list[int], list[int]]:
    if isinstance(config, DecoderOnlyConfig):
        return (heads_by_layer(config.stack),) * 3
    if isinstance(config, RecurrentConfig):
        return [], [], []
    if not isinstance(config, EncoderDecoderConfig):  # a plugin's: one head of cross-attention in each layer
        return [], [], [1] * config.num_layers
    decoder = heads_by_layer(config.decoder)
    return heads_by_layer(config.encoder), decoder if isinstance(config.decoder, TransformerConfig) else [], decoder


def has_distributions(config: ModelConfig) -> bool:
    """Whether the weights of each query are positive and sum to 1, as those of the softmax."""
    parts = [part for part in vars(config).values() if is_dataclass(part)]
    is_softmax = all(getattr(part, "normalize", "softmax") == "softmax" for part in parts)
    return is_softmax and all(getattr(part, "attention", "softmax") != "delta" for part in parts)


def assert_rows_sum_to_one(weights: Tensor) -> None:
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones_like(weights[..., 0]), rtol=0, atol=1e-12)


@torch.no_grad()
def test_maps_are_distributions_over_what_may_be_seen(zoo: Any, variant: str) -> None:
    draw = Random(variant)
    lengths, t = draw.choices(PRIMES, k=draw.randint(1, 3)), draw.choice(PRIMES[:4])
    model, config, case = zoo.model(variant), zoo.variants[variant], zoo.case(lengths, t, draw.randrange(2**16))
    b, s = case.source.shape
    maps = model.attention_maps(case.source, case.target, source_mask=case.source_mask)
    encoder, decoder, cross = expected_heads(config)
    assert [w.shape for w in maps.encoder] == [(b, h, s, s) for h in encoder]
    assert [w.shape for w in maps.decoder] == [(b, h, t, t) for h in decoder]
    assert [w.shape for w in maps.cross] == [(b, h, t, s) for h in cross]

    decoder_only = isinstance(config, DecoderOnlyConfig)
    visible = causal_mask(t, t)
    padding = ~case.source_mask
    for weights in (*maps.encoder, *maps.cross):
        assert (weights.transpose(1, 3)[padding] == 0).all()
    for weights in maps.decoder:
        assert (weights[..., ~visible] == 0).all()
    if not has_distributions(config):
        return
    for weights in maps.decoder:
        assert (weights[..., visible] > 0).all()  # softmax of finite scores: what may be seen is seen
    if decoder_only:
        for own, other in zip(maps.decoder, maps.cross, strict=True):
            assert_rows_sum_to_one(torch.cat([other, own], dim=-1))
        for weights in maps.encoder:
            assert_rows_sum_to_one(weights.transpose(1, 2)[case.source_mask])
            seen = causal_mask(s, s) | config.bidirectional_prefix
            pairs = seen & case.source_mask[:, None, :] & case.source_mask[:, :, None]
            assert (weights.permute(0, 2, 3, 1)[pairs] > 0).all()
            assert (weights[..., ~seen] == 0)[case.source_mask[:, None, :, None].expand_as(weights)[..., ~seen]].all()
    else:
        for weights in (*maps.encoder, *maps.decoder, *maps.cross):
            assert_rows_sum_to_one(weights)
        for weights in (*maps.encoder, *maps.cross):
            assert (weights.transpose(1, 3)[case.source_mask] > 0).all()


@torch.no_grad()
def test_asking_for_maps_changes_no_output(close: Close, zoo: Any, variant: str) -> None:
    """The maps come from the reference path, the logits from the fused one; blocks and decoders return the same."""
    model, case = zoo.model(variant), zoo.case([5, 3, 2], 7, 0)
    outputs: list[Tensor] = []
    watched = [module for module in model.modules() if isinstance(module, TransformerBlock)]
    watched += [model.decoder] if hasattr(model, "decoder") else []
    hooks = [
        module.register_forward_hook(
            lambda _, __, output: outputs.append(output[0].states if isinstance(output[0], Decoded) else output.x)
        )
        for module in watched
    ]
    model(case.source, case.target, source_mask=case.source_mask)
    count = len(outputs)
    model.attention_maps(case.source, case.target, source_mask=case.source_mask)
    for hook in hooks:
        hook.remove()
    assert len(outputs) == 2 * count == 2 * len(watched)
    for plain, with_maps in zip(outputs[:count], outputs[count:], strict=True):
        close(with_maps, plain)


@torch.no_grad()
def test_a_row_of_the_map_belongs_to_the_step_that_predicts(zoo: Any, variant: str) -> None:
    """Row ``k`` is that of step ``k``: targets that agree up to and including input ``k`` agree in rows up to ``k``."""
    model, case = zoo.model(variant), zoo.case([5, 3], 5, 0)
    maps = model.attention_maps(case.source, case.target, source_mask=case.source_mask)
    case.target[:, 3] = 3 + (case.target[:, 3] - 3 + 7) % 20
    changed = model.attention_maps(case.source, case.target, source_mask=case.source_mask)
    # Bahdanau's state asks before it reads its token, so the changed input shows one row later.
    first = 4 if "bahdanau" in variant else 3
    for before, after in zip((*maps.decoder, *maps.cross), (*changed.decoder, *changed.cross), strict=True):
        assert torch.equal(before[:, :, :first], after[:, :, :first])
    rows = [maps.cross, changed.cross]
    for before, after in zip(*rows, strict=True):
        assert not torch.equal(before[:, :, first], after[:, :, first])


WITHOUT_POSITIONS = TransformerConfig(dim=8, num_heads=2, num_layers=2, ffn_dim=11, position="none")
READER = RNNEncoderConfig(embed_dim=5, hidden_dim=6)


def _encoder(position: str) -> EncoderDecoderConfig:
    stack = TransformerConfig(dim=8, num_heads=2, num_layers=2, ffn_dim=11, position=position)  # type: ignore[arg-type]  # a str of parametrize
    return EncoderDecoderConfig(encoder=stack, decoder=stack)


def permuted(zoo: Any, config: ModelConfig) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """States and logits before (rows permuted afterwards) and after permuting the real tokens of a padded source."""
    model = zoo.fresh(config).double().eval()
    case = zoo.case([5, 7], 3, 0)
    order = torch.tensor([[3, 0, 4, 1, 2, 5, 6], [6, 2, 0, 5, 1, 3, 4]])
    source = case.source.take_along_dim(order, dim=1)
    with torch.no_grad():
        logits = [model(x, case.target, source_mask=case.source_mask) for x in (case.source, source)]
        if isinstance(config, DecoderOnlyConfig):
            states = [model.encode(x, case.source_mask).caches[1].entries.value[:, 0] for x in (case.source, source)]
        else:
            states = [model.encode(x, case.source_mask).states for x in (case.source, source)]
    moved = states[0].take_along_dim(order[..., None], dim=1)
    return moved[case.source_mask], states[1][case.source_mask], logits[0], logits[1]


@pytest.mark.parametrize(
    "config",
    [_encoder("none"), DecoderOnlyConfig(stack=WITHOUT_POSITIONS, bidirectional_prefix=True)],
    ids=["encoder", "prefix"],
)
def test_without_positions_words_are_a_set(close: Close, zoo: Any, config: ModelConfig) -> None:
    """Law 8: permute the source, and its states are permuted; the target, which looks at all of them, feels nothing."""
    expected, actual, before, after = permuted(zoo, config)
    close(actual, expected)
    close(after, before)


@pytest.mark.parametrize(
    "config",
    [
        *(_encoder(position) for position in ("sinusoidal", "learned", "rotary", "alibi", "t5")),
        DecoderOnlyConfig(stack=WITHOUT_POSITIONS),  # a causal mask is position information
        EncoderDecoderConfig(encoder=READER, decoder=WITHOUT_POSITIONS),
        EncoderDecoderConfig(encoder=READER, decoder=RNNDecoderConfig(embed_dim=5, hidden_dim=6)),
    ],
    ids=["sinusoidal", "learned", "rotary", "alibi", "t5", "causal", "rnn-transformer", "rnn"],
)
def test_with_positions_order_matters(zoo: Any, config: ModelConfig) -> None:
    """The other half of law 8."""
    expected, actual, before, after = permuted(zoo, config)
    assert (actual - expected).abs().max() > 1e-3
    assert (after - before).abs().max() > 1e-3
