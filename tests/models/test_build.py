"""From configuration to model: vocabularies, shared tables, parameters; the named models; a GRU as language model."""

import re
from dataclasses import replace
from functools import cache

import pytest
import torch
from torch import nn
from zoo import rnn, transformer

from selfattn.attention import RelativeBias
from selfattn.errors import UserError
from selfattn.layers import TokenEmbedding, TransformerBlock
from selfattn.models.build import build, count_parameters
from selfattn.models.config import override
from selfattn.models.families import PRESETS, DecoderOnlyConfig

TRANSFORMER = transformer(dim=16, num_heads=4, num_layers=1)
SHARED = replace(TRANSFORMER, share_embeddings=True)
RNN = rnn({}, {})
LONE = DecoderOnlyConfig(stack=TRANSFORMER.decoder)


def test_parameters_are_counted_once():
    """An LSTM of width 3 from width 2: 4 gates of 3 * (2 + 3 + 2); a shared and tied table of 5 * 2 counts once."""
    lstm = torch.nn.LSTM(2, 3)
    assert count_parameters(lstm) == (84, 84)
    table, output = torch.nn.Embedding(5, 2), torch.nn.Linear(2, 5)
    output.weight = table.weight
    model = torch.nn.ModuleList([table, torch.nn.ModuleList([table]), output, lstm])
    assert count_parameters(model) == (10 + 5 + 84, 5 + 84)


@pytest.mark.parametrize("config", [TRANSFORMER, RNN], ids=["transformer", "rnn"])
def test_source_and_target_may_have_vocabularies_of_their_own(config):
    model = build(config, vocab_size=7, source_vocab_size=11, pad_id=0, seed=0)
    assert (model.encoder.embed.tokens.num_embeddings, model.decoder.embed.tokens.num_embeddings) == (11, 7)
    source, target = torch.tensor([[10, 9]]), torch.tensor([[1, 6, 2]])
    assert model(source, target, source_mask=source != 0).shape == (1, 3, 7)


@pytest.mark.parametrize("config", [SHARED, LONE], ids=["shared", "one"])
def test_one_table_has_one_size(config):
    with pytest.raises(ValueError, match="source_vocab_size=11 must be vocab_size=7"):
        build(config, vocab_size=7, source_vocab_size=11, pad_id=0, seed=0)
    assert build(config, vocab_size=7, source_vocab_size=7, pad_id=0, seed=0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"vocab_size": 0}, "`vocab_size`: expected a whole number from 1, got 0"),
        ({"vocab_size": True}, "`vocab_size`: expected a whole number from 1, got True"),
        ({"source_vocab_size": -1}, "`source_vocab_size`: expected a whole number from 1, got -1"),
        ({"pad_id": 9}, "`pad_id`: expected one of the ids 0 to 8, got 9"),
        ({"pad_id": None}, "`pad_id`: expected one of the ids 0 to 8, got None"),
        ({"seed": 1.5}, "`seed`: expected a whole number, got 1.5"),
    ],
    ids=str,
)
def test_sizes_that_cannot_be_are_named(settings, message):
    with pytest.raises(UserError, match=re.escape(message)):
        build("transformer", **{"vocab_size": 9} | settings)


@pytest.mark.parametrize(
    "name", ["transformer", "rnn-attention", "decoder-only", "decoder-only-rnn", "transformer-delta"]
)
def test_a_mask_of_tokens_is_bool(name):
    model = build(name, vocab_size=9).eval()
    source = torch.tensor([[5, 6, 2]])
    for mask in (torch.ones(1, 3), torch.ones(1, 3, dtype=torch.int64)):
        with pytest.raises(TypeError, match=r"mask of tokens \[b s\] as bool, True = real token, got"):
            model(source, source, source_mask=mask)


@pytest.mark.parametrize("tie", [False, True])
@pytest.mark.parametrize("share", [False, True])
def test_what_is_shared_is_one_tensor(share, tie):
    model = build(transformer(shared={"share_embeddings": share, "tie_output": tie}), vocab_size=7, seed=0)
    source, target, output = model.encoder.embed.tokens.weight, model.decoder.embed.tokens.weight, model.decoder.output
    assert (source is target) == share
    assert (output.weight is target) == tie
    more = count_parameters(build(transformer(), vocab_size=7, seed=0))[0] - count_parameters(model)[0]
    assert more == 7 * 8 * (share + tie)


DEEP_RNN = override(RNN, {"encoder.num_layers": 2, "decoder.num_layers": 2})
LUONG = override(RNN, {"decoder.attention": "luong"})
DECODER_CHANGES = {"attention": "luong", "embed_dim": 5, "cell": "gru", "initial_state": "project"}
DECODER_CHANGES |= {"score": "scaled_dot", "project": True, "dropout": 0.5}
# One change for each setting there is, from a configuration where it matters; names of encoder and decoder apart.
CHANGES = [
    *(
        (RNN, {f"encoder.{name}": value, "decoder.initial_state": "project", "decoder.score": "general"})
        for name, value in {"embed_dim": 4, "hidden_dim": 7, "num_layers": 2, "direction": "both"}.items()
    ),
    *((RNN, {f"encoder.{name}": value}) for name, value in {"cell": "gru", "dropout": 0.5}.items()),
    (DEEP_RNN, {"encoder.residual": True}),
    (DEEP_RNN, {"decoder.residual": True}),
    *((RNN, {f"decoder.{name}": value}) for name, value in DECODER_CHANGES.items()),
    (RNN, {"decoder.hidden_dim": 7, "decoder.initial_state": "project", "decoder.score": "general"}),
    (RNN, {"decoder.num_layers": 2, "decoder.initial_state": "project"}),
    (override(RNN, {"decoder.project": True}), {"decoder.num_heads": 2}),
    (override(LUONG, {"decoder.score": "location"}), {"decoder.max_source_length": 3}),
    (LUONG, {"decoder.input_feeding": True}),
    (TRANSFORMER, {"share_embeddings": True}),
    (TRANSFORMER, {"tie_output": True}),
    (override(LONE, {"stack.num_layers": 2}), {"bidirectional_prefix": True}),  # one block reads it from embeddings
    (LONE, {"tie_output": True}),
]
STACK_CHANGES = {"dim": 32, "num_heads": 2, "num_kv_heads": 2, "num_layers": 2, "ffn_dim": 5}
STACK_CHANGES |= {"activation": "gelu", "norm": "rms", "norm_first": False, "position": "t5", "score": "dot"}
STACK_CHANGES |= {"sinusoid_layout": "halves", "scale_embedding": False, "qk_norm": True}
STACK_CHANGES |= {"dropout": 0.5, "attention_dropout": 0.5, "activation_dropout": 0.5}
CHANGES += [
    (base, {f"{part}.{name}": value})
    for base, part in ((TRANSFORMER, "encoder"), (TRANSFORMER, "decoder"), (LONE, "stack"))
    for name, value in STACK_CHANGES.items()
]
CHANGES += [
    (override(base, {f"{part}.position": "learned"}), {f"{part}.max_length": 31})
    for base, part in ((TRANSFORMER, "encoder"), (TRANSFORMER, "decoder"), (LONE, "stack"))
]


@cache
def look(config):
    """Shapes and logits in training mode."""
    source, target = torch.tensor([[10, 9, 3], [4, 5, 0]]), torch.tensor([[1, 6, 2, 8], [1, 5, 7, 3]])
    torch.manual_seed(0)
    model = build(config, vocab_size=11, pad_id=0, seed=0).train()
    with torch.no_grad():
        logits = model(source, target, source_mask=source != 0)
    return {name: parameter.shape for name, parameter in model.named_parameters()}, logits


@pytest.mark.parametrize(("base", "settings"), CHANGES, ids=lambda x: next(iter(x)) if isinstance(x, dict) else "")
def test_every_setting_changes_the_model(base, settings):
    """In its weights' shapes, or in what it computes while training: no setting is read and forgotten."""
    shapes, logits = look(base)
    other_shapes, other_logits = look(override(base, settings))
    assert shapes != other_shapes or not torch.allclose(logits, other_logits, atol=1e-6)


@pytest.mark.parametrize("config", [TRANSFORMER, LONE], ids=["transformer", "decoder-only"])
def test_blocks_are_made_as_the_settings_say(config):
    """Both kinds of attention, every norm, every dropout: what one output of the whole could not tell apart."""
    parts = ("stack",) if isinstance(config, DecoderOnlyConfig) else ("encoder", "decoder")
    settings = {"num_layers": 2, "num_kv_heads": 1, "qk_norm": True, "norm": "rms", "position": "t5"}
    settings |= {"dropout": 0.1, "attention_dropout": 0.2, "activation_dropout": 0.3}
    changes = {f"{part}.{name}": value for part in parts for name, value in settings.items()}
    modules = dict(build(override(config, changes), vocab_size=11).named_modules())
    blocks = {name: module for name, module in modules.items() if isinstance(module, TransformerBlock)}
    assert len(blocks) == 2 * len(parts)
    assert not [name for name, module in modules.items() if isinstance(module, torch.nn.LayerNorm)]
    for name, block in blocks.items():
        assert (block.cross_attn is not None) == name.startswith("decoder.")
        assert block.dropout.p == 0.1
        assert block.feed_forward.dropout.p == 0.3
        assert isinstance(block.self_attn.position, RelativeBias)
        assert block.self_attn.position.bidirectional == name.startswith("encoder.")
        for attention in (block.self_attn, block.cross_attn):
            if attention is not None:
                assert attention.dropout == 0.2
                assert attention.num_kv_heads == 1
                assert attention.q_norm is not None
                assert attention.k_norm is not None
        if block.cross_attn is not None:
            assert block.cross_attn.position is None
    assert [module.dropout.p for module in modules.values() if isinstance(module, TokenEmbedding)] == [0.1] * len(parts)


# The named models: what they say of themselves is so


VOCAB = 47  # about as many characters as the dates task has


def test_presets_are_of_about_one_size():
    """What is compared begins at equal size, embeddings left out: within a twentieth of each other."""
    sizes = {
        name: count_parameters(build(preset.config, vocab_size=VOCAB, pad_id=0, seed=0))[1]
        for name, preset in PRESETS.items()
    }
    assert max(sizes.values()) <= 1.05 * min(sizes.values()), sizes


@pytest.mark.parametrize("name", PRESETS)
def test_every_part_of_a_preset_learns_and_it_says_truly_whether_it_attends(name):
    """No weight is left without a gradient: nothing is built that is not used."""
    config = PRESETS[name].config
    model = build(config, vocab_size=11, pad_id=0, seed=0)
    source, target = torch.tensor([[3, 4, 5], [6, 7, 0]]), torch.tensor([[1, 8, 9], [1, 9, 4]])
    logits = model(source, target, source_mask=source != 0)
    assert logits.shape == (2, 3, 11)
    assert logits.isfinite().all()
    logits[..., 1].sum().backward()
    unused = [key for key, parameter in model.named_parameters() if parameter.grad is None or not parameter.grad.any()]
    # A key's bias adds the same to all scores of a query, which the softmax does not feel.
    assert not [key for key in unused if not key.endswith("k_proj.bias")]
    assert hasattr(config, "stack") or model.encoder is not model.decoder
    maps = model.attention_maps(source, target, source_mask=source != 0)
    assert bool(maps.cross) == PRESETS[name].attention


CONFIG = override(PRESETS["decoder-only-rnn"].config, {"stack.hidden_dim": 7, "stack.embed_dim": 5})


def test_it_is_the_gru_of_torch():
    model = build(CONFIG, vocab_size=11, pad_id=0, seed=0).eval()
    (gru,) = [module for module in model.modules() if isinstance(module, nn.GRU)]
    tokens = torch.tensor([[1, 5, 6, 7]])
    states, _ = gru(model.embed.tokens(tokens))
    nothing = torch.zeros(1, 0, dtype=torch.int64)
    torch.testing.assert_close(model(nothing, tokens, source_mask=nothing > 0), model.output(states))
