"""The attention layers of Hugging Face models: their kinds, towers and numbers are those of the model."""

from typing import Any

import pytest
import torch
import transformers

from selfattn.errors import UserError
from selfattn.integrations.watch import attention_layers, watch
from tests.fixtures.families import configuration, inputs_of, tiny

pytestmark = pytest.mark.filterwarnings("ignore")


def small(name: str) -> Any:
    """A tiny model of a class."""
    model_class = getattr(transformers, name)
    return tiny(name, configuration(model_class.config_class))


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("NllbMoeModel", {"encoder", "decoder", "cross"}),
        ("SeamlessM4TForTextToText", {"encoder", "decoder", "cross"}),
        ("T5Model", {"encoder", "decoder", "cross"}),
        ("DogeModel", {"decoder"}),
        ("LayoutLMModel", {"encoder"}),
        ("CLIPModel", {"text_model encoder", "vision_model encoder"}),
        ("LlavaModel", {"encoder", "decoder"}),
    ],
)
def test_kinds_follow_from_what_a_layer_does_and_towers_are_apart(name: str, labels: set[str]) -> None:
    layers = list(attention_layers(small(name)).values())
    assert {f"{layer.tower} {layer.kind}".strip() for layer in layers} == labels
    assert len({(layer.tower, layer.kind, layer.number) for layer in layers}) == len(layers)


def test_layer_three_of_a_hybrid_is_three() -> None:
    config = transformers.Qwen3NextConfig(
        vocab_size=64, hidden_size=32, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
        linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=8, linear_value_head_dim=8,
        intermediate_size=48, num_experts=0, pad_token_id=0,
    )  # fmt: skip
    model = transformers.Qwen3NextModel(config).eval()
    with watch(model, layers=[3]) as seen, torch.no_grad():
        model(**inputs_of(model, "none"))
    assert [(layer.name, layer.number) for layer in seen.layers] == [("layers.3.self_attn", 3)]
    with pytest.raises(UserError, match="`layers` 0: the model has layers 3 with attention"), watch(model, layers=[0]):
        pass


def test_blocks_within_stages_are_counted() -> None:
    layers = attention_layers(transformers.SwinModel(transformers.SwinConfig(depths=[1, 2], num_heads=[1, 2])))
    assert [layer.number for layer in layers.values()] == [0, 1, 2]


def test_a_refused_model_is_left_as_it_was() -> None:
    model = transformers.BloomModel(transformers.BloomConfig(vocab_size=31, hidden_size=16, n_layer=1, n_head=4))
    with pytest.raises(UserError, match="BloomModel"), watch(model):
        pass
    assert model.config._attn_implementation == "eager"
