"""The named models: what they say of themselves is so."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from selfattn.errors import UserError
from selfattn.models.build import build, count_parameters
from selfattn.models.decoder_only.config import DecoderOnlyConfig
from selfattn.models.presets import PRESETS, get_preset

VOCAB = 47  # about as many characters as the dates task has


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_runs_and_says_truly_whether_it_attends(name: str) -> None:
    preset = PRESETS[name]
    model = build(preset.config, vocab_size=VOCAB, pad_id=0, seed=0).eval()
    source, target = torch.tensor([[3, 4, 5], [6, 7, 0]]), torch.tensor([[1, 8], [1, 9]])
    with torch.no_grad():
        logits = model(source, target, source_mask=source != 0)
        maps = model.attention_maps(source, target, source_mask=source != 0)
    assert logits.shape == (2, 2, VOCAB)
    assert logits.isfinite().all()
    assert bool(maps.cross) == preset.attention


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_has_one_line_and_an_author(name: str) -> None:
    preset = PRESETS[name]
    for line in (preset.summary, preset.source):
        assert line.strip() == line != ""
        assert "\n" not in line
    assert len(preset.summary) <= 100
    assert name == name.lower()


def test_presets_differ() -> None:
    configs = [preset.config for preset in PRESETS.values()]
    assert all(a != b for number, a in enumerate(configs) for b in configs[:number])


def test_presets_are_of_about_one_size() -> None:
    """What is compared begins at equal size, embeddings left out: within a twentieth of each other."""
    sizes = {
        name: count_parameters(build(preset.config, vocab_size=VOCAB, pad_id=0, seed=0))[1]
        for name, preset in PRESETS.items()
    }
    assert max(sizes.values()) <= 1.05 * min(sizes.values()), sizes


def test_every_part_of_every_preset_learns() -> None:
    """No weight is left without a gradient: nothing is built that is not used."""
    for name, preset in PRESETS.items():
        model: Any = build(preset.config, vocab_size=11, pad_id=0, seed=0)
        source, target = torch.tensor([[3, 4, 5], [6, 7, 0]]), torch.tensor([[1, 8, 9], [1, 9, 4]])
        model(source, target, source_mask=source != 0)[..., 1].sum().backward()
        unused = [
            key for key, parameter in model.named_parameters() if parameter.grad is None or not parameter.grad.any()
        ]
        # A key's bias adds the same to all scores of a query, which the softmax does not feel.
        assert not [key for key in unused if not key.endswith("k_proj.bias")], name
        assert isinstance(preset.config, DecoderOnlyConfig) or model.encoder is not model.decoder


def test_an_unknown_name_is_a_user_error_with_the_nearest() -> None:
    with pytest.raises(UserError, match=r"model 'tranformer' is not known; did you mean transformer or "):
        get_preset("tranformer")
    with pytest.raises(UserError, match="model 'zzz' is not known; known: rnn-plain, "):
        get_preset("zzz")
    for name in PRESETS:
        assert get_preset(name) is PRESETS[name]
