"""A comparison that is not quick scores its models without each attention head, where heads can be left out alone."""

from pathlib import Path

import pytest

from selfattn.comparison.compare import compare
from selfattn.comparison.verify import verify


@pytest.mark.slow
def test_heads_of_the_first_seed_are_scored(tmp_path: Path) -> None:
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
    assert not [finding for finding in verify(tmp_path / "out") if finding.differences]
