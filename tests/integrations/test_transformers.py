"""Hugging Face models: outputs, weights, gradients and tokens by `attend` are those of `eager`."""

import pytest
import torch
import transformers

from selfattn.attention import attend
from selfattn.integrations.transformers import attention, register
from selfattn.integrations.watch import watch
from tests.fixtures.eager_sweep import compared
from tests.fixtures.families import attention_mask, configuration, inputs_of, models, tiny

# Tiny vocabularies lack the special tokens of the families' defaults; transformers warns about it.
pytestmark = pytest.mark.filterwarnings("ignore")

# Of several families that share an attention layer one is tested by default; `test_every_family.py` has them all.
FAMILIES = (
    "llama gemma2 gpt_oss gpt2 bert modernbert marian t5 vit whisper wav2vec2 "
    "deepseek_v32 inkling2_text nllb-moe splinter"  # which once were silently different
)


def small(name):
    """A tiny model of a class with random weights, and inputs for it."""
    model = tiny(name, configuration(getattr(transformers, name).config_class))
    return model, inputs_of(model, "none")


@pytest.mark.parametrize("family", [*FAMILIES.split(), pytest.param("pegasus_x", marks=pytest.mark.slow)])
def test_outputs_weights_and_gradients_are_those_of_eager(family):
    register()
    config = configuration(transformers.CONFIG_MAPPING[family])
    result = compared(tiny(next(models(family)), config), 1e-4)
    assert result.result == "equal", result


@pytest.mark.parametrize("family", [
    "LlamaForCausalLM", "Gemma2ForCausalLM", "GptOssForCausalLM", "GPT2LMHeadModel", "MarianMTModel",
    "T5ForConditionalGeneration", "LlamaForCausalLM with a cache of fixed size",
])  # fmt: skip
def test_it_generates_the_same_tokens(family):
    register()
    name, _, is_static = family.partition(" with")
    model, _ = small(name)
    inputs = {"input_ids": inputs_of(model, "left")["input_ids"], "attention_mask": attention_mask("left")}
    search = {"cache_implementation": "static"} if is_static else {"num_beams": 2}
    if model.config.is_encoder_decoder:
        search["decoder_start_token_id"] = 2
    tokens = []
    for implementation in ("eager", "selfattn"):
        model.set_attn_implementation(implementation)
        tokens.append(model.generate(**inputs, max_new_tokens=8, do_sample=False, **search))
    assert torch.equal(*tokens)


def test_a_watch_keeps_the_layers_and_heads_that_are_asked_for():
    model, inputs = small("MarianMTModel")
    model.set_attn_implementation("eager")
    expected = model(**inputs, output_attentions=True)
    with watch(model, layers=[1], heads=[0, 3]) as seen:
        model(**inputs)
    kinds = {(layer.kind, layer.number): layer.weights for layer in seen.layers}
    assert sorted(kinds) == [("cross", 1), ("decoder", 1), ("encoder", 1)]
    torch.testing.assert_close(kinds["cross", 1], expected.cross_attentions[1][:, [0, 3]])
    torch.testing.assert_close(kinds["decoder", 1], expected.decoder_attentions[1][:, [0, 3]])
    assert model.config._attn_implementation == "eager", "the model is as it was"


def test_unwatched_layers_have_no_weights(monkeypatch):
    model, inputs = small("BertModel")
    asked = []

    def spy(*args, **named):
        asked.append(named["need_weights"])
        return attend(*args, **named)

    monkeypatch.setattr("selfattn.integrations.transformers.attend", spy)
    with watch(model, layers=[1]):
        model(**inputs)
    assert asked == [False, False, True], "the weights of layer 1 are computed apart"


def test_an_added_mask_may_be_longer_than_the_keys(close):
    """As models with a cache of fixed size hand it over."""
    layer = torch.nn.Module()
    query, key, value = torch.randn(1, 2, 3, 4), torch.randn(1, 2, 5, 4), torch.randn(1, 2, 5, 4)
    added = torch.randn(1, 1, 3, 7).masked_fill(torch.rand(1, 1, 3, 7) < 0.3, torch.finfo(torch.float32).min)
    output, _ = attention(layer, query, key, value, added)
    expected = (query @ key.transpose(-2, -1) / 2 + added[..., :5]).softmax(-1) @ value
    close(output, expected.transpose(1, 2))
