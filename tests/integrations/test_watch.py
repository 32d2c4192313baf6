"""Watching a Hugging Face model: the maps are those of eager for what came out; its layers, their kinds and numbers."""

import threading
from types import SimpleNamespace

import pytest
import torch
import transformers
from torch import Tensor

from selfattn.attention import attend
from selfattn.errors import UserError
from selfattn.integrations.transformers import register
from selfattn.integrations.watch import attention_layers, watch
from tests.fixtures.families import configuration, inputs_of, tiny

# Tiny vocabularies lack the special tokens of the families' defaults; transformers warns about it.
pytestmark = pytest.mark.filterwarnings("ignore")

MODELS = {
    "Llama": "LlamaForCausalLM", "Gemma2": "Gemma2ForCausalLM", "Gemma4": "Gemma4ForCausalLM", "Bert": "BertModel",
    "T5": "T5ForConditionalGeneration", "T5Gemma2": "T5Gemma2ForConditionalGeneration", "Albert": "AlbertModel",
    "Git": "GitModel", "DiffLlama": "DiffLlamaModel",
}  # fmt: skip
PROMPT = torch.tensor([[3, 5, 7], [4, 4, 9]])
SEEN = {"attention_mask": torch.ones_like(PROMPT), "do_sample": False, "max_new_tokens": 9}


def made(family, **options):
    """A tiny model with random weights, with these options of its configuration."""
    config_class = getattr(transformers, MODELS[family]).config_class
    config = configuration(transformers.Gemma4TextConfig if family == "Gemma4" else config_class, options)
    if config.is_encoder_decoder:
        config.decoder_start_token_id = 0
    return tiny(MODELS[family], config)


def eager(model, tokens, sources=None):
    """What the model itself says of a sequence that it reads at once."""
    model.set_attn_implementation("eager")
    if sources is None:
        return {"decoder": model(tokens, output_attentions=True).attentions}
    outputs = model(sources, decoder_input_ids=tokens, output_attentions=True)
    return {"decoder": outputs.decoder_attentions, "cross": outputs.cross_attentions}


def generated(model, **options):
    """What is kept while a model goes on from the prompt, and the tokens."""
    with torch.no_grad(), watch(model) as seen:
        tokens = model.generate(**{"inputs": PROMPT} | SEEN | options)
    return seen, tokens


SEARCHES = [
    {"num_beams": 3, "num_return_sequences": 2},
    {},
    {"cache_implementation": "static"},
    {"num_beams": 2, "use_cache": False},
]


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("family", ["Llama", "Gemma2", "T5"])
def test_what_is_kept_while_generating_belongs_to_what_comes_out(family, search):
    model = made(family)
    seen, tokens = generated(model, **search)
    assert isinstance(tokens, Tensor), "what is returned is what is asked for"
    sources = PROMPT.repeat_interleave(len(tokens) // 2, dim=0) if family == "T5" else None
    expected = eager(model, tokens[:, :-1], sources)
    for layer in seen.layers:
        if layer.kind in expected:
            torch.testing.assert_close(layer.weights, expected[layer.kind][layer.number])


def test_padding_of_the_prompt_is_hidden_and_has_no_position():
    sizes = {"vocab_size": 31, "n_embd": 16, "n_layer": 2, "n_head": 4, "pad_token_id": 0}
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes)).eval()
    prompt = torch.tensor([[0, 0, 3, 5]])
    mask = (prompt != 0).long()
    seen, tokens = generated(model, inputs=prompt, attention_mask=mask)
    expected = eager(model, tokens[:, 2:-1])["decoder"]
    for layer in seen.layers:
        torch.testing.assert_close(layer.weights[:, :, 2:, 2:], expected[layer.number])
    with pytest.raises(UserError, match="give `generate` their `attention_mask`"), watch(model):
        model.generate(prompt, max_new_tokens=2)


@pytest.mark.parametrize("options", [{"prompt_lookup_num_tokens": 4}, {"is_assisted": True}])
def test_drafts_that_were_rejected_are_left_out(options):
    model = made("Gemma2")
    prompt = torch.tensor([[3, 5, 7, 3, 5, 7, 3, 5]])
    other = made("Gemma2")
    torch.nn.init.normal_(other.lm_head.weight)
    drafts = {"assistant_model": other} if "is_assisted" in options else options
    seen, tokens = generated(model, inputs=prompt, attention_mask=torch.ones_like(prompt), **drafts)
    torch.testing.assert_close(seen.layers[1].weights, eager(model, tokens[:, :-1])["decoder"][1])


@pytest.mark.parametrize("num_shared", [0, 2])
def test_layers_that_read_the_keys_of_others_have_a_row_for_each_token(num_shared):
    """While generating, such a layer computes the last position of the prompt alone."""
    model = made("Gemma4", num_kv_shared_layers=num_shared)
    seen, tokens = generated(model)
    expected = eager(model, tokens[:, :-1])["decoder"]
    for layer in seen.layers:
        torch.testing.assert_close(layer.weights, expected[layer.number])
        torch.testing.assert_close(layer.weights.sum(-1), torch.ones(2, 4, tokens.shape[1] - 1))
    with torch.no_grad(), watch(model) as seen:
        model(PROMPT, logits_to_keep=1)
    own = len(seen.layers) - num_shared
    assert [layer.starts for layer in seen.layers] == [[0]] * own + [[2]] * num_shared


def test_target_and_source_in_one_softmax_are_one_map():
    model = made("T5Gemma2")
    seen, tokens = generated(model)
    expected = eager(model, tokens[:, :-1], PROMPT)
    for layer in seen.layers:
        torch.testing.assert_close(layer.weights.sum(-1), torch.ones(layer.weights.shape[:3]))
        if layer.kind == "decoder":
            joined = torch.cat([expected[kind][layer.number] for kind in ("decoder", "cross")], dim=-1)
            torch.testing.assert_close(layer.weights, joined)


def test_a_model_that_computes_its_attention_itself_says_so():
    model = made("Git")
    message = r"no weights from encoder.layer.0.attention.self, .*: computed in"
    with pytest.warns(UserWarning, match=message), watch(model) as seen:
        model(PROMPT)
    assert not seen.layers
    assert len(seen.without_weights) == 2


def test_rows_that_do_not_sum_to_one_are_refused(monkeypatch):
    def halved(*args, **named):
        output, weights = attend(*args, **named)
        return SimpleNamespace(weights=weights / 2) if named.get("need_weights") else (output, weights)

    model = made("Llama")
    monkeypatch.setattr("selfattn.integrations.transformers.attend", halved)
    message = r"LlamaAttention of layer 0 has weights of which a row sums to 0\.5"
    with pytest.raises(UserError, match=message), watch(model):
        model(PROMPT)


def test_each_call_has_its_weights_and_the_position_of_its_first_row():
    model = made("Gemma2")
    text = torch.tensor([[3, 5, 7, 11, 13, 4, 6, 8]])
    with torch.no_grad():
        cache = model(text[:, :2]).past_key_values
        with watch(model) as seen:
            model(text[:, 2:5], past_key_values=cache)
            model(text[:, 5:], past_key_values=cache)
    expected = eager(model, text)["decoder"]
    for layer in seen.layers:
        assert layer.starts == [2, 5]
        for call, start in zip(layer.calls, layer.starts, strict=True):
            end = start + 3
            rows = expected[layer.number][:, :, start:end, end - call.shape[3] : end]
            torch.testing.assert_close(call, rows)
    with pytest.raises(UserError, match="has weights of 2 calls: see `calls`, which has each"):
        _ = seen.layers[0].weights


@pytest.mark.parametrize("family", ["Albert", "DiffLlama"])
def test_a_layer_that_is_used_twice_has_weights_for_each_time_and_two_values_have_one_map(family):
    model = made(family)
    with torch.no_grad(), watch(model) as seen:
        model(PROMPT)
    calls = [call for layer in seen.layers for call in layer.calls]
    for kept, expected in zip(calls, eager(model, PROMPT)["decoder"], strict=True):
        torch.testing.assert_close(kept, expected)


@pytest.mark.parametrize(
    "way", [*(pytest.param(way, marks=pytest.mark.slow) for way in ("whole", "in place")), "layers"]
)
def test_a_compiled_model_is_watched_like_any_other(way):
    model = made("Llama")
    register()
    model.set_attn_implementation("selfattn")
    compiled = model
    if way == "whole":
        compiled = torch.compile(model, fullgraph=True, backend="eager")
    elif way == "in place":
        model.compile(fullgraph=True, backend="eager")
    else:
        for layer in model.model.layers:
            layer.compile(fullgraph=True, backend="eager")
    with torch.no_grad():
        compiled(PROMPT, use_cache=False)
        with watch(compiled) as seen:
            compiled(PROMPT, use_cache=False)
            compiled(PROMPT[:, :2], use_cache=False)
    assert [len(layer.calls) for layer in seen.layers] == [2, 2]


def test_a_compiled_layer_that_nobody_watches_has_one_graph_for_all_lengths():
    model = made("Bert")
    register()
    model.set_attn_implementation("selfattn")
    graphs = []

    def counted(graph, _):
        graphs.append(graph)
        return graph.forward

    layer = model.encoder.layer[0].attention
    layer.compile(fullgraph=True, dynamic=True, backend=counted)
    with torch.no_grad():
        for length in (3, 5, 8):
            model(torch.arange(3, 3 + length)[None])
    assert len(graphs) == 1


@pytest.mark.parametrize("is_reentrant", [False, True])
@pytest.mark.parametrize("is_inside", [False, True])
def test_looking_changes_no_gradient_and_sees_each_call_once(is_reentrant, is_inside):
    model = made("Llama").train()
    register()
    model.set_attn_implementation("selfattn")
    model.gradient_checkpointing_enable({"use_reentrant": is_reentrant})
    model.enable_input_require_grads()
    gradients = []
    model(PROMPT, labels=PROMPT).loss.backward()
    gradients.append([parameter.grad.clone() for parameter in model.parameters()])
    model.zero_grad()
    with watch(model, layers=[1]) as seen:
        loss = model(PROMPT, labels=PROMPT).loss
        if is_inside:
            loss.backward()
    if not is_inside:
        loss.backward()
    gradients.append([parameter.grad for parameter in model.parameters()])
    assert len(seen.layers[0].calls) == 1
    for plain, watched in zip(*gradients, strict=True):
        assert torch.equal(plain, watched)


def test_watches_may_lie_inside_each_other_and_see_no_other_thread():
    model = made("Llama")
    with torch.no_grad(), watch(model, layers=[0]) as outer, watch(model, layers=[0, 1]) as inner:
        model.generate(PROMPT, **SEEN, num_beams=2)
    assert torch.equal(outer.layers[0].weights, inner.layers[0].weights)
    with watch(model) as seen:
        thread = threading.Thread(target=model, args=(PROMPT,))
        thread.start()
        thread.join()
    assert not seen.layers


REFUSED = [
    *(({name: []}, "is empty: give numbers from 0") for name in ("layers", "heads")),
    *(({"layers": numbers}, "expected a list of whole numbers from 0") for numbers in (1, [True], ["0"], [0.0])),
    *(({"layers": [layer]}, r"`layers` .*\d.*: the model has layers 0 to 1") for layer in (2, -1)),
    *(({"heads": [head]}, r"`heads` .*\d.*: the layer has heads 0 to 3") for head in (4, -1)),
]


@pytest.mark.parametrize(("numbers", "message"), REFUSED, ids=[str(numbers) for numbers, _ in REFUSED])
def test_layers_and_heads_that_cannot_be_watched_are_refused(numbers, message):
    model = made("Bert")
    with pytest.raises(UserError, match=message), watch(model, **numbers):
        model(PROMPT)


def test_what_cannot_be_watched_is_refused_and_left_as_it_was():
    with pytest.raises(UserError, match="watch: expected a model of transformers, got Linear"):
        watch(torch.nn.Linear(2, 2)).__enter__()
    bloom = transformers.BloomModel(transformers.BloomConfig(vocab_size=31, hidden_size=16, n_layer=1, n_head=4))
    with pytest.raises(UserError, match="BloomModel"):
        watch(bloom).__enter__()
    assert bloom.config._attn_implementation == "eager"
    model = made("Llama")
    for options in ({"past_key_values": object()}, {"custom_generate": "mine"}):
        with pytest.raises(UserError, match="of `generate` cannot be read again: give tokens"), watch(model):
            model.generate(PROMPT, **SEEN, **options)
        assert "generate" not in vars(model)


# The attention layers of Hugging Face models: their kinds, towers and numbers are those of the model


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
def test_kinds_follow_from_what_a_layer_does_and_towers_are_apart(name, labels):
    model = tiny(name, configuration(getattr(transformers, name).config_class))
    layers = list(attention_layers(model).values())
    assert {f"{layer.tower} {layer.kind}".strip() for layer in layers} == labels
    assert len({(layer.tower, layer.kind, layer.number) for layer in layers}) == len(layers)


def test_layer_three_of_a_hybrid_is_three_and_blocks_within_stages_are_counted():
    stages = attention_layers(transformers.SwinModel(transformers.SwinConfig(depths=[1, 2], num_heads=[1, 2])))
    assert [layer.number for layer in stages.values()] == [0, 1, 2]
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
