"""Watching a Hugging Face model: the maps are those that eager gives for the sequence that came out, and looking
changes nothing."""

import threading
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor

from selfattn.errors import UserError
from selfattn.integrations.transformers import register
from selfattn.integrations.watch import watch

# Tiny vocabularies lack the special tokens of the families' defaults; transformers warns about it.
pytestmark = pytest.mark.filterwarnings("ignore")

SIZES = {"vocab_size": 31, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4}
SIZES |= {"intermediate_size": 24, "max_position_embeddings": 64}
GROUPED = SIZES | {"num_key_value_heads": 2}
PAIR = {"vocab_size": 31, "d_model": 16, "d_ff": 24, "d_kv": 4, "num_layers": 2, "num_heads": 4}
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "Llama": ("LlamaForCausalLM", GROUPED),
    "Gemma2": ("Gemma2ForCausalLM", GROUPED | {"head_dim": 8, "sliding_window": 4}),
    "T5": ("T5ForConditionalGeneration", PAIR | {"decoder_start_token_id": 0}),
    "Bert": ("BertModel", SIZES),
    "Albert": ("AlbertModel", SIZES | {"embedding_size": 16}),
}
PROMPT = torch.tensor([[3, 5, 7], [4, 4, 9]])
SEEN = {"attention_mask": torch.ones_like(PROMPT), "do_sample": False, "max_new_tokens": 9}


def made(family: str, seed: int = 1) -> Any:
    name, sizes = MODELS[family]
    torch.manual_seed(seed)
    model_class = getattr(transformers, name)
    model = model_class(model_class.config_class(**sizes)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) / 5)
    return model


def eager(model: Any, tokens: Tensor, sources: Tensor | None = None) -> dict[str, tuple[Tensor, ...]]:
    """What the model itself says of a sequence that it reads at once."""
    model.set_attn_implementation("eager")
    if sources is None:
        return {"decoder": model(tokens, output_attentions=True).attentions}
    outputs = model(sources, decoder_input_ids=tokens, output_attentions=True)
    return {"decoder": outputs.decoder_attentions, "cross": outputs.cross_attentions}


@pytest.mark.parametrize(
    "search", [{"num_beams": 3, "num_return_sequences": 2}, {}, {"cache_implementation": "static"}]
)
@pytest.mark.parametrize("family", ["Llama", "Gemma2", "T5"])
def test_what_is_kept_while_generating_belongs_to_the_sequences_that_come_out(
    family: str, search: dict[str, Any]
) -> None:
    model = made(family)
    with torch.no_grad(), watch(model) as seen:
        tokens = model.generate(PROMPT, **SEEN, **search)
    assert isinstance(tokens, Tensor), "what is returned is what is asked for"
    sources = PROMPT.repeat_interleave(len(tokens) // 2, dim=0) if family == "T5" else None
    expected = eager(model, tokens[:, :-1], sources)
    for layer in seen.layers:
        if layer.kind in expected:
            torch.testing.assert_close(layer.weights, expected[layer.kind][layer.number])


def test_a_sequence_that_ended_before_the_others_has_rows_of_zero_after_its_end() -> None:
    model = made("Llama")
    for end in range(3, 31):
        with torch.no_grad(), watch(model) as seen:
            ends = {"eos_token_id": end, "pad_token_id": 0, "suppress_tokens": [0]}
            tokens = model.generate(PROMPT, **SEEN, num_beams=3, num_return_sequences=3, **ends)
        lengths = (tokens != 0).sum(dim=1)
        if lengths.min() < lengths.max():
            break
    for row, length in enumerate(lengths.tolist()):
        expected = eager(model, tokens[row : row + 1, : length - 1])["decoder"][1]
        kept = seen.layers[1].weights[row : row + 1]
        torch.testing.assert_close(kept[:, :, : length - 1, : length - 1], expected)
        assert kept[:, :, length - 1 :].abs().sum() == 0


@pytest.mark.parametrize("family", ["Llama", "Gemma2"])
@pytest.mark.parametrize("is_assisted", [False, True])
def test_drafts_that_were_rejected_are_left_out(family: str, is_assisted: bool) -> None:
    model = made(family)
    prompt = torch.tensor([[3, 5, 7, 3, 5, 7, 3, 5]])
    drafts: dict[str, Any] = {"prompt_lookup_num_tokens": 4}
    if is_assisted:
        drafts = {"assistant_model": made("Llama", seed=2)}
    with torch.no_grad(), watch(model) as seen:
        tokens = model.generate(prompt, do_sample=False, max_new_tokens=12, **drafts)
    layer = seen.layers[1]
    assert sum(call.shape[2] for call in layer.calls) > tokens.shape[1] - 1, "some draft was rejected"
    torch.testing.assert_close(layer.weights, eager(model, tokens[:, :-1])["decoder"][1])


def test_each_batch_is_a_sequence_of_its_own() -> None:
    model = made("Bert")
    with torch.no_grad(), watch(model, layers=[0]) as seen:
        model(PROMPT)
        model(PROMPT.flip(0))
    first, second = seen.layers[0].sequences
    torch.testing.assert_close(first, second.flip(0))
    with pytest.raises(UserError, match="went through 2 sequences: watch each apart, or see `sequences`"):
        _ = seen.layers[0].weights


def test_each_beam_search_is_a_sequence_of_its_own() -> None:
    model = made("Llama")
    with torch.no_grad(), watch(model) as seen:
        results = [model.generate(PROMPT, **SEEN, num_beams=beams) for beams in (3, 2)]
    for kept, tokens in zip(seen.layers[1].sequences, results, strict=True):
        torch.testing.assert_close(kept, eager(model, tokens[:, :-1])["decoder"][1])


def test_a_sequence_may_be_read_in_pieces_and_go_on_from_a_cache() -> None:
    model = made("Gemma2")
    text = torch.tensor([[3, 5, 7, 11, 13, 4, 6, 8]])
    with torch.no_grad():
        cache = model(text[:, :2]).past_key_values
        with watch(model) as seen:
            model(text[:, 2:5], past_key_values=cache)
            model(text[:, 5:], past_key_values=cache)
    for layer in seen.layers:
        torch.testing.assert_close(layer.weights, eager(model, text)["decoder"][layer.number][:, :, 2:])


def test_a_layer_that_is_used_twice_has_a_map_for_each_time() -> None:
    model = made("Albert")
    with torch.no_grad(), watch(model) as seen:
        model(PROMPT)
    for kept, expected in zip(seen.layers[0].sequences, eager(model, PROMPT)["decoder"], strict=True):
        torch.testing.assert_close(kept, expected)


@pytest.mark.parametrize(
    "way", [*(pytest.param(way, marks=pytest.mark.slow) for way in ("whole", "in place")), "layers"]
)
def test_a_compiled_model_is_watched_like_any_other(way: str) -> None:
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


def test_a_compiled_layer_that_nobody_watches_has_one_graph_for_all_lengths() -> None:
    model = made("Bert")
    register()
    model.set_attn_implementation("selfattn")
    graphs = []

    def counted(graph: Any, _: Any) -> Any:
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
def test_looking_changes_no_gradient_and_sees_each_call_once(is_reentrant: bool, is_inside: bool) -> None:
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


def test_watches_may_lie_inside_each_other() -> None:
    model = made("Llama")
    with torch.no_grad(), watch(model, layers=[0]) as outer, watch(model, layers=[0, 1]) as inner:
        model.generate(PROMPT, **SEEN, num_beams=2)
    assert torch.equal(outer.layers[0].weights, inner.layers[0].weights)


def test_another_thread_is_not_watched() -> None:
    model = made("Bert")
    with torch.no_grad(), watch(model) as seen:
        thread = threading.Thread(target=model, args=(PROMPT,))
        thread.start()
        thread.join()
    assert not seen.layers


def test_a_layer_that_hands_over_no_weights_is_named() -> None:
    model = made("Bert")
    layer = model.encoder.layer[1].attention.self
    watching = watch(model)
    seen = watching.__enter__()
    layer.config = transformers.BertConfig(**SIZES, attn_implementation="eager")
    model(PROMPT)
    with pytest.warns(UserWarning, match="no weights from encoder.layer.1.attention.self"):
        watching.__exit__(None, None, None)
    assert [layer.number for layer in seen.layers] == [0]
    assert [layer.number for layer in seen.without_weights] == [1]


@pytest.mark.parametrize("numbers", [{"layers": []}, {"heads": []}])
def test_no_layers_and_no_heads_are_refused(numbers: dict[str, list[int]]) -> None:
    with pytest.raises(UserError, match="is empty: give numbers from 0"), watch(made("Bert"), **numbers):
        pass


def test_a_model_of_torch_is_refused() -> None:
    module: Any = torch.nn.Linear(2, 2)
    with pytest.raises(UserError, match="watch: expected a model of transformers, got Linear"), watch(module):
        pass


@pytest.mark.parametrize("numbers", [1, [True], ["0"], [0.0]])
def test_what_is_no_number_of_a_layer_is_refused(numbers: Any) -> None:
    with pytest.raises(UserError, match="expected a list of whole numbers from 0"), watch(made("Bert"), layers=numbers):
        pass


def test_a_beam_search_without_cache_is_refused() -> None:
    model = made("Llama")
    with pytest.raises(UserError, match="beam search without cache"), watch(model):
        model.generate(PROMPT, **SEEN, num_beams=2, use_cache=False)
    assert "generate" not in vars(model), "the model is as it was"
