"""Hugging Face models: outputs, weights, gradients and tokens by `attend` are those of `eager`, or it is refused."""

import pytest
import torch
import transformers
from torch import nn

from selfattn.attention import attend
from selfattn.errors import UserError
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
    assert result.partition(":")[0] == "equal", result


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


# What layers hand over beside query, key and value: understood as eager does, or refused


class Layer(nn.Module):
    """An attention layer that says it is causal, as most do."""

    layer_idx = 3
    is_causal = True


def tensors(i=3, j=5):
    """Queries ``[1 2 i 4]``, keys and values ``[1 2 j 4]``."""
    torch.manual_seed(0)
    return torch.randn(1, 2, i, 4), torch.randn(1, 2, j, 4), torch.randn(1, 2, j, 4)


def by_hand(query, key, value, added):
    """Attention ``[b i h e]`` by its formula."""
    return ((query @ key.transpose(-2, -1) / 2 + added).softmax(-1) @ value).transpose(1, 2)


@pytest.mark.parametrize("others", [{"temperature": None}, {"gate": False}, {"position_ids": torch.arange(3)}])
def test_what_is_not_there_or_only_describes_changes_nothing(others):
    expected, _ = attention(Layer(), *tensors(), None)
    assert torch.equal(attention(Layer(), *tensors(), None, **others)[0], expected)


@pytest.mark.parametrize("is_causal", [None, True, False])
def test_without_a_mask_nothing_is_hidden(is_causal, close):
    """Eager hides nothing either; causality is the mask's, never guessed."""
    query, key, value = tensors()
    output, _ = attention(Layer(), query, key, value, None, is_causal=is_causal)
    close(output, by_hand(query, key, value, torch.zeros(3, 5)))


def test_an_added_mask_may_be_longer_than_the_keys(close):
    """As models with a cache of fixed size hand it over."""
    query, key, value = tensors()
    added = torch.randn(1, 1, 3, 7).masked_fill(torch.rand(1, 1, 3, 7) < 0.3, torch.finfo(torch.float32).min)
    output, _ = attention(Layer(), query, key, value, added)
    close(output, by_hand(query, key, value, added[..., :5]))


def test_indices_are_the_keys_that_a_query_may_attend_to(close):
    query, key, value = tensors()
    indices = torch.tensor([[[0, 1], [4, 4], [2, 3]]])
    hidden = torch.full((3, 5), -torch.inf)
    hidden[0, :2] = hidden[1, 4] = hidden[2, 2:4] = 0
    output, _ = attention(Layer(), query, key, value, None, indices=indices)
    close(output, by_hand(query, key, value, hidden))


def test_a_sink_for_each_query_takes_its_share(close):
    query, key, value = tensors()
    sinks = torch.randn(1, 2, 3, 1)
    scores = torch.cat([query @ key.transpose(-2, -1) / 2, sinks], dim=-1)
    weights = scores.softmax(-1)[..., :-1]
    output, seen = attention(Layer(), query, key, value, None, sinks=sinks, output_attentions=True)
    close(seen, weights)
    close(output, (weights @ value).transpose(1, 2))


ENDS = torch.tensor([0, 2, 5])
BY_ENDS = {"cu_seq_lens_q": ENDS, "cu_seq_lens_k": ENDS}


@pytest.mark.parametrize(
    ("packing", "parts"),
    [
        (BY_ENDS, (slice(0, 2), slice(2, 5))),
        ({"seq_idx": torch.tensor([[0, 0, 1, 1, 1]])}, (slice(0, 2), slice(2, 5))),
        (BY_ENDS | {"seq_idx": torch.tensor([[0, 0, 0, 0, 1]])}, (slice(0, 2), slice(2, 4), slice(4, 5))),
    ],
)
def test_packed_sequences_do_not_see_each_other(packing, parts):
    query, key, value = tensors(5)
    output, _ = attention(Layer(), query, key, value, None, **packing)
    for part in parts:
        alone, _ = attention(Layer(), query[:, :, part], key[:, :, part], value[:, :, part], None)
        torch.testing.assert_close(output[:, part], alone)


@pytest.mark.parametrize(
    ("handed", "message"),
    [
        (BY_ENDS | {"cu_seq_lens_q": torch.tensor([2, 1, 5])}, "`cu_seq_lens_q` that does not rise from 0"),
        (dict.fromkeys(BY_ENDS, ENDS[:2]), "`cu_seq_lens_q` that does not end at 5"),
        *(
            ({name: value}, f"Layer of layer 3 hands over `{name}`.*'eager'")
            for name, value in (("block_indices", ENDS), ("temperature", 2.0), ("cache", object()), ("gate", True))
        ),
        ({"s_aux": torch.zeros(1)}, r"`s_aux` of \(1,\) for 2 heads"),
        ({"s_aux": torch.zeros(2), "sinks": torch.zeros(1, 2, 5, 1)}, "or `sinks` beside it"),
        ({"sinks": torch.zeros(1, 1, 1, 1)}, r"`sinks` of \(1, 1, 1, 1\)"),
        ({"attention_mask": torch.ones(1, 1, 5, 5).long()}, "a mask of torch.int64, neither bool nor"),
        ({"attention_mask": torch.ones(1, 1, 5, 3).bool()}, "a mask of 3 keys for 5 keys"),
    ],
)
def test_what_is_not_understood_or_fits_in_part_alone_is_refused(handed, message):
    with pytest.raises(UserError, match=message):
        attention(Layer(), *tensors(5), **({"attention_mask": None} | handed))


def eager_attention_forward(module, query, **_):
    """Of a family that nobody knows: its temperature is not handed over."""
    return query / module.temperature


class Foreign(Layer):
    """A layer of such a family."""

    temperature = 2.0

    def forward(self, query):
        return eager_attention_forward(self, query)


def test_a_layer_whose_eager_attention_reads_more_than_is_handed_over_is_refused():
    with pytest.raises(UserError, match="Foreign of layer 3 reads its `temperature`"):
        attention(Foreign(), *tensors(), None)


def test_experts_that_mix_tokens_read_the_rows_of_padding_as_eager_gives_them():
    register()
    model = tiny("DogeForCausalLM", configuration(transformers.DogeConfig, {"is_moe": True}))
    result = compared(model, 1e-4, sides=("left",))
    assert result.partition(":")[0] == "equal", result
