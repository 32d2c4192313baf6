"""A score, a position and a family as plugins: sized, saved and trained.

The laws of `tests/properties` and `tests/gradients` hold for them as for the built-in parts.
"""

import re
from functools import partial
from pathlib import Path

import pytest
import torch
import training_parts

from selfattn.attention import (
    AttentionPosition,
    EmbeddingPosition,
    MultiHeadAttention,
    Rotary,
    Score,
    make_score,
)
from selfattn.errors import UserError
from selfattn.evaluation.attention import by_blocking
from selfattn.evaluation.cost import BatchShape, training_flops
from selfattn.models.build import build, count_parameters, match, parameters
from selfattn.models.config import Limits, ModelConfig, config_to_dict, override
from selfattn.models.families import get_preset
from selfattn.models.protocol import Memory, Seq2Seq
from selfattn.registry import ATTENTIONS, NORMALIZERS, POSITIONS, SCORES, register
from selfattn.runs.load import load
from selfattn.runs.record import used_plugins
from selfattn.training.config import TrainingConfig

pytestmark = pytest.mark.usefixtures("plugins")

VOCAB = 47


@pytest.mark.parametrize("budget", [60_000, 182_000, 2_000_000])
def test_a_family_is_sized_for_a_budget(budget):
    size = partial(parameters, vocab_size=VOCAB)
    sized = match(get_preset("convolutional").config, budget, size)
    assert abs(size(sized) / budget - 1) <= 0.02
    model = build(sized, vocab_size=VOCAB, pad_id=0, seed=0)
    assert count_parameters(model)[1] == size(sized)
    assert training_flops(sized, VOCAB, BatchShape(2, 7, 5)) > 0


def test_a_family_has_answers_to_what_the_engine_asks():
    config = get_preset("convolutional").config
    assert config.limits() == Limits()
    sizes = {"dim": 128, "embed_dim": 128, "num_layers": 4, "dropout": 0.3}
    assert vars(config.enlarged(width=128, dropout=0.3, longest=512)) == sizes
    assert config.architecture == ""
    assert not config.reads_one_sequence
    with pytest.raises(ValueError, match="share one embedding"):
        build(config, vocab_size=VOCAB, pad_id=0, seed=0, source_vocab_size=5)


def test_a_bias_of_another_shape_is_an_error_even_where_it_would_fit():
    position = POSITIONS["kerple"](3)
    layer, x = MultiHeadAttention(12, num_heads=3, position=position), torch.randn(3, 5, 12)
    positions = torch.arange(5).expand(3, 5)
    layer(x, positions=positions)
    position.bias = lambda queries, keys: torch.zeros(3, 5, 5)  # [b i j] for [b h i j]
    layer(x)  # [h i j]
    with pytest.raises(ValueError, match=r"expected Kerple\.bias to return \[b h i j\] \(3, 3, 5, 5\) .*, got"):
        layer(x, positions=positions)
    position.rotate = lambda x, positions: x[..., :1]
    with pytest.raises(ValueError, match=r"expected Kerple\.rotate to keep \(3, 3, 5, 4\), got \(3, 3, 5, 1\)"):
        layer(x)


def test_a_position_that_is_added_can_be_a_plugin():
    class Rows(EmbeddingPosition):
        def __init__(self, dim):
            super().__init__()
            self.dim = dim

        def forward(self, positions):
            return torch.zeros(self.dim)

    register.position("rows")(Rows)
    stack = {"encoder.position": "rows", "decoder.position": "none"}
    model = build(override(get_preset("transformer").config, stack), vocab_size=11, pad_id=0, seed=0)
    assert isinstance(model.encoder.embed.position, Rows)
    source = torch.tensor([[3, 4]])
    with pytest.raises(ValueError, match=r"Rows: expected a vector of width 96 for each of the positions \(2,\), got"):
        model(source, source, source_mask=source > 0)


def test_a_constructor_is_handed_what_it_names_and_told_what_there_is_and_a_score_its_widths():
    settings = {"encoder.hidden_dim": 64, "decoder.initial_state": "project", "decoder.score": "cosine"}
    with pytest.raises(UserError, match="'cosine' needs equal widths, but the encoder's is 64 and the decoder's 128"):
        override(get_preset("rnn-attention").config, settings)

    class Wide(Score):
        def __init__(self, key_dim, *, max_length, times=2):
            super().__init__()
            self.sizes = (key_dim, max_length, times)
            self.sharpness = torch.nn.Parameter(torch.ones(()))  # without axes

        def forward(self, query, key):
            return self.sharpness * query.new_zeros(*query.shape[:3], key.shape[2])

    class Odd(Wide):
        def __init__(self, colour):
            super().__init__(1, max_length=1)

    register.score("wide")(Wide)
    register.score("odd")(Odd)
    assert make_score("wide", 3, 5, max_length=7).sizes == (5, 7, 2)
    with pytest.raises(UserError, match=r"score 'odd': its constructor asks for colour without a default; "):
        make_score("odd", 3, 5)
    model = build(override(get_preset("rnn-attention").config, {"decoder.score": "wide"}), vocab_size=11).eval()
    assert by_blocking(model, torch.tensor([5, 6, 2]), torch.tensor([1, 7])).shape == (2, 3)


def test_a_family_whose_model_does_not_follow_the_protocol_is_refused_when_it_is_built():
    unfinished = type("Unfinished", (Seq2Seq,), {"encode": lambda self, source, source_mask: Memory()})()
    for model, message in (
        (torch.nn.Linear(2, 3), r"Config\.build: expected a Seq2Seq, got Linear"),
        (unfinished, "Unfinished: has neither a method advance nor step"),
    ):
        config = type("Config", (ModelConfig,), {"build": lambda self, model=model, **sizes: model})
        with pytest.raises(UserError, match=message):
            build(config(), vocab_size=5)
    with pytest.raises(UserError, match="Unfinished: has no method start, and its memory Memory is no DecoderState"):
        unfinished.start(Memory())


def test_an_attention_gets_every_setting_that_it_takes(plugins):
    settings = {"num_kv_heads": 1, "qk_norm": True, "score": "cosine", "normalize": "relu", "attention_dropout": 0.25}
    config = override(
        get_preset("transformer-rope").config,
        {f"decoder.{name}": value for name, value in (settings | {"attention": "gated"}).items()},
    )
    block = build(config, vocab_size=11).decoder.layers[0]
    for layer in (block.self_attn, block.cross_attn):
        assert isinstance(layer, ATTENTIONS["gated"])
        assert (layer.num_kv_heads, layer.dropout) == (1, 0.25)
        assert layer.q_norm is not None
        assert isinstance(layer.score, SCORES["cosine"])
        assert isinstance(layer.normalize, NORMALIZERS["relu"])
    assert isinstance(block.self_attn.position, Rotary)
    assert config_to_dict(config)["decoder"]["state"] == "gated"
    used = {Path(name).stem for name in used_plugins("dates", (), config)}
    assert used == {"gated_attention", "cosine_score", "relu_normalizer"}


def test_a_setting_that_an_attention_does_not_take_is_refused():
    class Narrow(MultiHeadAttention):
        def __init__(self, query_dim, context_dim, *, num_heads, dropout):
            super().__init__(query_dim, context_dim, num_heads=num_heads, dropout=dropout)

        @classmethod
        def takes_position(cls, kind):
            return not issubclass(kind, AttentionPosition)

    register.attention("narrow")(Narrow)
    preset = get_preset("decoder-only").config
    assert override(preset, {"stack.attention": "narrow"}).stack.attention == "narrow"
    for settings, message in (
        ({"qk_norm": True}, "stack.qk_norm: has no effect with attention 'narrow'; leave it at False"),
        ({"position": "rotary"}, "stack.position: with attention 'narrow' expected none, sinusoidal, learned, got"),
        ({"attention": "narow"}, "stack.attention: attention 'narow' is not known; did you mean narrow"),
    ):
        changes = {f"stack.{name}": value for name, value in ({"attention": "narrow"} | settings).items()}
        with pytest.raises(UserError, match=re.escape(message)):
            override(preset, changes)
    with pytest.raises(UserError, match="attention 'x': expected a subclass of MultiHeadAttention, got"):
        register.attention("x")(torch.nn.Linear)


@pytest.mark.parametrize("variant", ["convolutional", "decoder-only prefix cosine kerple", "decoder-only gated hybrid"])
def test_a_run_is_kept_loaded_and_gone_on_with(zoo, variant, tmp_path, monkeypatch):
    monkeypatch.setitem(training_parts.MODELS, variant, zoo.variants[variant])
    whole = TrainingConfig(epochs=2, batch_size=8, lr=0.01)
    run = training_parts.fit_small(tmp_path / "whole", whole, model=variant)
    again = load(tmp_path / "whole")
    assert again.config.model == zoo.variants[variant]
    torch.testing.assert_close(again.model.state_dict(), run.model.state_dict(), rtol=0, atol=0)
    stop = training_parts.StopAt(4)
    with pytest.raises(training_parts.Stopped):
        training_parts.fit_small(tmp_path / "cut", whole, model=variant, save_every=2, observers=[stop])
    training_parts.fit_small(tmp_path / "cut", whole, model=variant, save_every=2, resume=True)
    assert training_parts.outcome(tmp_path / "cut") == training_parts.outcome(tmp_path / "whole")
