"""The named models: what they say of themselves is so."""

from typing import Any

import pytest
import torch

from selfattn.models.build import build, count_parameters
from selfattn.models.decoder_only.config import DecoderOnlyConfig
from selfattn.models.presets import PRESETS

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
