"""The Marian architecture against ``transformers`` with random weights: logits, attention, greedy, beam, round trip."""

import dataclasses
from functools import partial

import pytest
import torch
from torch import nn
from zoo import hybrid

from selfattn.convert.marian import POSITIONS, Marian, MarianIds, config_to_marian, from_marian, to_marian
from selfattn.decoding.beam import beam_search
from selfattn.decoding.common import LengthPenalty
from selfattn.errors import UserError
from selfattn.models.build import build
from selfattn.models.families import EncoderDecoderConfig, TransformerConfig
from selfattn.models.inside import ablate, edited, patch, trace_model

transformers = pytest.importorskip("transformers", reason="compares with transformers, which is not installed")

EOS, PAD, VOCAB = 0, 18, 19


def theirs(seed=341, **settings):
    """A tiny MarianMTModel with weights large enough for tokens to differ.

    Left to chance, such a model writes one token for ever. Here <eos> likes a number that rises over the first seven
    positions, and the seeds were looked for: those of this page end their targets, after different lengths.
    """
    known = {
        "vocab_size": VOCAB, "d_model": 12, "max_position_embeddings": 64,
        "encoder_layers": 2, "encoder_attention_heads": 3, "encoder_ffn_dim": 17,
        "decoder_layers": 3, "decoder_attention_heads": 2, "decoder_ffn_dim": 13,
        "pad_token_id": PAD, "decoder_start_token_id": PAD, "eos_token_id": EOS, "forced_eos_token_id": None,
        "activation_function": "swish", "scale_embedding": True,
    }  # fmt: skip
    config = transformers.MarianConfig(**(known | settings))
    config._attn_implementation = "eager"  # the only one that hands out attention weights
    model = transformers.MarianMTModel(config).eval()
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "embed_positions" in name:
                continue
            drawn = torch.randn(parameter.shape, generator=draw)
            if parameter.dim() == 2:
                table = name.endswith(("shared.weight", "embed_tokens.weight", "lm_head.weight"))
                parameter.copy_(drawn * (0.4 if table else parameter.shape[1] ** -0.5))
            else:
                parameter.copy_(0.1 * drawn + ("norm.weight" in name))
        model.lm_head.weight[EOS, 1] += 4.0
        model.final_logits_bias.copy_(0.5 * torch.randn(model.final_logits_bias.shape, generator=draw))
        model.final_logits_bias[0, EOS] -= 1.0
    return model


# Long enough for every target here to end by itself.
LONGEST = 40


def converted(model):
    return from_marian(model.state_dict(), model.config.to_dict())


TWO_TABLES = {"share_encoder_decoder_embeddings": False}
KINDS = {
    "published": {},
    "relu": {"seed": 47, "activation_function": "relu"},
    "gelu": {"activation_function": "gelu"},
    "unscaled": {"seed": 47, "scale_embedding": False},
    "two vocabularies": {"seed": 129, "vocab_size": 23, "decoder_vocab_size": VOCAB} | TWO_TABLES,
    "untied output": {"seed": 211, "tie_word_embeddings": False} | TWO_TABLES,
}
kinds = pytest.mark.parametrize("kind", KINDS)

LENGTHS = torch.tensor([5, 7, 2, 3])
MASK = torch.arange(7) < LENGTHS[:, None]


def texts(seed=3):
    """Sources that end with <eos>, padded on the right."""
    drawn = torch.randint(1, PAD, MASK.shape, generator=torch.Generator().manual_seed(seed))
    drawn[torch.arange(len(LENGTHS)), LENGTHS - 1] = EOS
    return drawn.masked_fill(~MASK, PAD)


def prefixes():
    """Targets as a decoder reads them: they begin with the padding token."""
    drawn = torch.randint(1, PAD, (len(LENGTHS), 6), generator=torch.Generator().manual_seed(4))
    return torch.cat([torch.full((len(LENGTHS), 1), PAD), drawn], dim=1)


@kinds
@torch.no_grad()
def test_logits_and_attention_weights(kind):
    reference = theirs(**KINDS[kind])
    model = converted(reference).model
    source, target = texts(), prefixes()
    expected = reference(input_ids=source, attention_mask=MASK.long(), decoder_input_ids=target, output_attentions=True)
    torch.testing.assert_close(model(source, target, source_mask=MASK), expected.logits, rtol=1e-4, atol=1e-4)
    maps = model.attention_maps(source, target, source_mask=MASK)
    real = MASK[:, None, :, None].expand_as(maps.encoder[0])  # theirs has rows for padding too
    for ours, attentions in (
        (maps.encoder, expected.encoder_attentions),
        (maps.decoder, expected.decoder_attentions),
        (maps.cross, expected.cross_attentions),
    ):
        assert len(ours) == len(attentions) > 0
        for layer, attention in zip(ours, attentions, strict=True):
            if ours is maps.encoder:
                attention = attention.where(real[:, :1].expand_as(attention), layer)
            torch.testing.assert_close(layer, attention, rtol=1e-4, atol=1e-5)


def cut(sequences):
    """What generate() returned, without the start, <eos> and what lies behind it."""
    rows = [row[1:] for row in sequences.tolist()]
    assert all(EOS in row for row in rows), "a target did not end: this would test nothing"
    return [row[: row.index(EOS)] for row in rows]


@pytest.mark.parametrize(
    ("kind", "alpha"),
    [("two vocabularies", 1.0), ("untied output", 1.0), *(("published", alpha) for alpha in (1.0, 0.0, 0.6, -0.5))],
)
@torch.no_grad()
def test_beam(kind, alpha):
    """All four of four hypotheses, and their scores."""
    reference = theirs(**KINDS[kind])
    marian = converted(reference)
    ids = {"bos_id": marian.ids.start_id, "eos_id": marian.ids.eos_id}
    options = {"beam_size": 4, "n_best": 4, "length_penalty": LengthPenalty(alpha, offset=0)}
    found = beam_search(marian.model, texts(), MASK, **ids, max_length=LONGEST, **options)
    options = {"num_beams": 4, "num_return_sequences": 4, "length_penalty": alpha, "early_stopping": "never"}
    options |= {"max_new_tokens": LONGEST, "return_dict_in_generate": True, "output_scores": True}
    expected = reference.generate(input_ids=texts(), attention_mask=MASK.long(), **options)
    hypotheses = [hypothesis for sentence in found for hypothesis in sentence]
    assert [hypothesis.ids for hypothesis in hypotheses] == cut(expected.sequences)
    assert all(hypothesis.finished for hypothesis in hypotheses)
    torch.testing.assert_close(
        torch.tensor([hypothesis.score for hypothesis in hypotheses]), expected.sequences_scores, rtol=1e-4, atol=1e-4
    )


@kinds
def test_there_and_back(kind):
    """Every number, bit for bit, under every name; and what comes back loads without a complaint."""
    reference = theirs(**KINDS[kind])
    marian = converted(reference)
    trained = [weight for name, weight in reference.named_parameters() if "embed_positions" not in name]
    trained.append(reference.final_logits_bias)
    assert sum(map(torch.numel, marian.model.parameters())) == sum(map(torch.numel, trained))  # tied where theirs are
    state, config = to_marian(marian)
    assert state.keys() == reference.state_dict().keys()
    for name, tensor in reference.state_dict().items():
        assert state[name].dtype == tensor.dtype
        assert torch.equal(state[name], tensor), name
    again = transformers.MarianConfig(**config)
    for name in config:
        ours, before = getattr(again, name), getattr(reference.config, name)
        assert ours == before or name == "architectures", name
    transformers.MarianMTModel(again).load_state_dict(state)


FC1 = "model.encoder.layers.{}.fc1.weight"


NO_MARIAN = [
    ({FC1.format(0): None}, {}, f"of another shape: {FC1.format(0)}"),
    ({FC1.format(7): torch.ones(3)}, {}, f"of another shape: {FC1.format(7)}"),
    ({FC1.format(0): torch.ones(11, 12)}, {}, f"of another shape: {FC1.format(0)}"),
    ({"lm_head.weight": torch.ones(VOCAB, 12)}, {}, "model.shared.weight and lm_head.weight differ, but the"),
    ({POSITIONS[0]: torch.zeros(64, 12)}, {}, "embed_positions.weight: these positions are not the sines"),
    ({POSITIONS[1]: torch.zeros(64)}, {}, "embed_positions.weight: expected a table"),
    ({}, {"model_type": "bart"}, "model_type: expected 'marian', got 'bart'"),
    ({}, {"normalize_before": True}, "normalize_before: expected False, got True"),
    ({}, {"activation_function": "gelu_new"}, "encoder.activation: 'gelu_new' is not one of relu, gelu"),
    ({}, {"decoder_vocab_size": 17}, "decoder_vocab_size: 17 differs from vocab_size 19, but"),
    ({POSITIONS[1]: torch.zeros(65, 12)}, {}, "embed_positions.weight: expected a table of 64 positions by 12"),
    ({FC1.format(0): torch.ones(3).to(torch.int8)}, {}, "fc1.weight: expected a plain floating point tensor"),
    ({FC1.format(0): torch.ones(3).double()}, {}, "expected one dtype, got torch.float32 and torch.float64"),
    ({FC1.format(0): torch.ones(3, device="meta")}, {}, "fc1.weight: expected a plain floating point .* on meta"),
    ({}, {"quantization_config": {"bits": 8}}, "quantization_config: is no setting of a Marian model"),
    ({}, {"pruned_heads": {"0": [1]}}, "pruned_heads: is no setting of a Marian model"),
    ({}, {"tie_encoder_decoder": True}, "tie_encoder_decoder: expected False, got True"),
    ({}, {"num_hidden_layers": 7}, "num_hidden_layers: 7 differs from encoder_layers"),
    ({}, {"eos_token_id": [0, 5]}, r"eos_token_id: expected a whole number of at least 0, got \[0, 5\]"),
    ({}, {"pad_token_id": VOCAB}, "pad_token_id: expected an id below 19, got 19"),
    ({}, {"d_model": None}, "d_model: is missing; is this the configuration of a Marian model"),
]


def changed(weights, config):
    """Convert a Marian model with other weights or settings."""
    model = theirs()
    state = {name: tensor for name, tensor in (model.state_dict() | weights).items() if tensor is not None}
    return from_marian(state, model.config.to_dict() | config)


STACK = TransformerConfig(dim=6, num_heads=3, norm_first=False, sinusoid_layout="halves")
IDS = MarianIds(vocab_size=11, source_vocab_size=11, start_id=10, eos_id=0, pad_id=10)


def pair(decoder=STACK, **settings):
    return EncoderDecoderConfig(encoder=STACK, decoder=decoder, **settings)


def marian(**settings):
    """The configuration of a Marian model with a decoder of these settings."""
    return config_to_marian(pair(dataclasses.replace(STACK, **settings)), IDS)


def tied_by_name_alone():
    model = build(pair(), vocab_size=11, pad_id=10, seed=0)
    return to_marian(Marian(model, pair(tie_output=True), IDS))


REFUSED = [
    *((partial(changed, weights, config), message) for weights, config, message in NO_MARIAN),
    (lambda: marian(num_kv_heads=1), r"decoder.num_kv_heads: the Marian architecture has None here, got 1"),
    (lambda: marian(norm_first=True), "decoder.norm_first: the Marian architecture has False here, got True"),
    (lambda: marian(activation="gelu"), "decoder.activation: the Marian architecture has 'relu' here, got 'gelu'"),
    (lambda: marian(activation="swiglu"), "without swiglu"),
    (lambda: config_to_marian(hybrid("transformer", {"attention": "none"}), IDS), "with a Transformer decoder"),
    (lambda: config_to_marian(pair(share_embeddings=True), dataclasses.replace(IDS, source_vocab_size=13)),
     "decoder_vocab_size: 11 differs from vocab_size 13, but there is one table"),
    (tied_by_name_alone, r"decoder\.embed_tokens\.weight and lm_head\.weight differ"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_what_is_no_marian_model_or_cannot_become_one(call, message):
    with pytest.raises(UserError, match=message):
        call()


def test_what_acts_on_a_part_of_the_model_is_refused_by_name():
    config = pair(share_embeddings=True, tie_output=True)
    model = build(config, vocab_size=11, pad_id=10)
    attention = model.encoder.layers[0].self_attn
    nn.utils.parametrizations.weight_norm(attention.q_proj)
    with pytest.raises(ValueError, match=r"to_marian: encoder.layers.0.self_attn.q_proj \(Linear\) has a parametrised"):
        to_marian(Marian(model, config, IDS))
    attention.q_proj = nn.Sequential(nn.Linear(6, 6))
    with pytest.raises(ValueError, match=r"expected Linear as encoder.layers.0.self_attn.q_proj, got Sequential"):
        to_marian(Marian(model, config, IDS))


# Changes inside the converted model, against changes and hooks made by hand in the other.
PARTS = {
    "encoder self-attention": ("encoder.layers.1.self_attn", "model.encoder.layers.1.self_attn"),
    "decoder self-attention": ("decoder.layers.2.self_attn", "model.decoder.layers.2.self_attn"),
    "cross-attention": ("decoder.layers.0.cross_attn", "model.decoder.layers.0.encoder_attn"),
}


def logits_of(reference, source, mask, target):
    return reference(input_ids=source, attention_mask=mask.long(), decoder_input_ids=target).logits


@pytest.mark.parametrize(("name", "their_name"), PARTS.values(), ids=PARTS)
@torch.no_grad()
def test_a_head_without_output_and_an_output_of_another_input(name, their_name):
    reference, silent = theirs(), theirs()
    model = converted(reference).model
    source, other, target, other_target = texts(3)[1:2], texts(9)[1:2], prefixes()[1:2], prefixes()[2:3]
    mask = torch.ones_like(source, dtype=torch.bool)
    plain = model(source, target, source_mask=mask)
    # What the output projection reads of the last head is zero.
    layer = silent.get_submodule(their_name)
    layer.out_proj.weight[:, -layer.head_dim :] = 0
    expected = logits_of(silent, source, mask, target)
    actual = edited(model, ablate(name, [layer.num_heads - 1]))(source, target, source_mask=mask)
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5)
    assert not torch.allclose(actual, plain, atol=1e-3)
    # The layer's output is the one that it had for another sentence of as many tokens.
    kept = []
    layer = reference.get_submodule(their_name)
    keep = layer.register_forward_hook(lambda module, inputs, output: kept.append(output[0]))
    logits_of(reference, other, mask, other_target)
    keep.remove()
    layer.register_forward_hook(lambda module, inputs, output: (kept[0], *output[1:]))
    expected = logits_of(reference, source, mask, target)
    trace = trace_model(model, other[0], other_target[0])
    actual = edited(model, patch(name, trace))(source, target, source_mask=mask)
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5)
    assert not torch.allclose(actual, plain, atol=1e-3)
