"""A comparison that is not quick scores its models without each attention head, where heads can be left out alone."""

import pytest
from forging import differing

from selfattn.comparison.compare import compare
from selfattn.models.build import build
from selfattn.models.families import get_preset
from selfattn.runs.heads import layers_with_heads
from selfattn.runs.record import RunConfig
from selfattn.runs.run import Run
from selfattn.tokenizers.listed import CharTokenizer
from selfattn.training.config import TrainingConfig


@pytest.mark.parametrize(
    ("preset", "expected"),
    [
        ("transformer", True), ("rnn-attention", True), ("decoder-only", True), ("rnn-plain", False),
        ("transformer-linear", False),
    ],
)  # fmt: skip
def test_which_models_have_heads_that_can_be_left_out(preset, expected, tmp_path):
    """In a decoder, linear attention computes all heads in one state."""
    model = build(preset, vocab_size=11).eval()
    config = RunConfig("dates", preset, get_preset(preset).config, TrainingConfig(), {}, 8)
    assert bool(layers_with_heads(Run(tmp_path, config, model, CharTokenizer("abcdefg")))) is expected


@pytest.mark.slow
def test_heads_of_the_first_seed_are_scored(tmp_path):
    settings = {"epochs": 1, "items_per_epoch": 32, "batch_size": 16, "validation_items": 6, "test_items": 6}
    models = ("transformer", "transformer-linear", "rnn-plain", "rnn-attention")
    record, files = compare("dates", out=tmp_path / "out", models=models, seeds=2, tune=False, jobs=1, **settings)
    scored = {model.name: model.heads for model in record.models}
    assert [name for name, heads in scored.items() if heads] == ["transformer", "rnn-attention"]
    heads = scored["transformer"]
    assert heads
    assert (heads.items, heads.to, len(heads.heads)) == (6, "zero", 12)
    assert all(head.difference == pytest.approx(head.score - heads.score) for head in heads.heads)
    for page in (files.html, files.html.with_suffix(".md")):
        assert "decoder.layers.0.cross_attn" in page.read_text()
    assert differing(tmp_path / "out") == []
