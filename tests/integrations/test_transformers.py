"""Hugging Face models: outputs, weights, gradients and tokens by `attend` are those of `eager`; the explorer."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor

import tokenizers
from selfattn.attention import attend
from selfattn.cli.main import main
from selfattn.errors import UserError
from selfattn.integrations.explorer import explore, foreign_model
from selfattn.integrations.transformers import attention, register
from selfattn.integrations.watch import watch
from tokenizers import decoders, models, pre_tokenizers, processors, trainers

# Tiny vocabularies lack the special tokens of the families' defaults; transformers warns about it.
pytestmark = pytest.mark.filterwarnings("ignore")

TEXT = {"vocab_size": 31, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 24}
GROUPED = TEXT | {"num_key_value_heads": 2, "max_position_embeddings": 64}
WIDE = GROUPED | {"head_dim": 8, "sliding_window": 4}
IMAGE = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 24} | {
    "image_size": 8,
    "patch_size": 4,
}
SOUND = (
    TEXT
    | {"conv_dim": (8, 8), "conv_stride": (2, 2), "conv_kernel": (3, 3), "num_feat_extract_layers": 2}
    | {"num_conv_pos_embeddings": 4, "num_conv_pos_embedding_groups": 2}
)
PAIRS = {f"{side}_{name}": size for side in ("encoder", "decoder") for name, size in
         (("layers", 2), ("attention_heads", 4), ("ffn_dim", 24))} | {
    "vocab_size": 31, "d_model": 16, "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1,
    "eos_token_id": 2, "decoder_start_token_id": 2, "forced_eos_token_id": 2}  # fmt: skip
EXPERTS = {"num_local_experts": 2, "num_experts_per_tok": 1}

# Family: kind of input, class of the model, settings.
FAMILIES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "Llama": ("decoder", "LlamaForCausalLM", GROUPED),
    "Mistral": ("decoder", "MistralForCausalLM", GROUPED | {"sliding_window": 4}),
    "Mixtral": ("decoder", "MixtralForCausalLM", GROUPED | EXPERTS),
    "Qwen2": ("decoder", "Qwen2ForCausalLM", GROUPED),
    "Qwen3": ("decoder", "Qwen3ForCausalLM", GROUPED | {"head_dim": 8}),
    "Gemma2": ("decoder", "Gemma2ForCausalLM", WIDE),
    "Gemma3": ("decoder", "Gemma3ForCausalLM", WIDE),
    "GptOss": ("decoder", "GptOssForCausalLM", WIDE | EXPERTS),
    "GPT2": ("decoder", "GPT2LMHeadModel", {"vocab_size": 31, "n_embd": 16, "n_layer": 2, "n_head": 4}),
    "GPTNeoX": ("decoder", "GPTNeoXForCausalLM", TEXT),
    "OPT": ("decoder", "OPTForCausalLM", TEXT | {"ffn_dim": 24, "word_embed_proj_dim": 16}),
    "Phi3": ("decoder", "Phi3ForCausalLM", GROUPED | {"pad_token_id": 0}),
    "Olmo2": ("decoder", "Olmo2ForCausalLM", GROUPED),
    "Granite": ("decoder", "GraniteForCausalLM", GROUPED),
    "Cohere2": ("decoder", "Cohere2ForCausalLM", GROUPED | {"sliding_window": 4}),
    "Bert": ("encoder", "BertModel", TEXT),
    "Roberta": ("encoder", "RobertaModel", TEXT),
    "DistilBert": ("encoder", "DistilBertModel", {"vocab_size": 31, "dim": 16, "n_layers": 2, "n_heads": 4}),
    "Electra": ("encoder", "ElectraModel", TEXT | {"embedding_size": 16}),
    "Albert": ("encoder", "AlbertModel", TEXT | {"embedding_size": 16}),
    "ModernBert": ("encoder", "ModernBertModel", TEXT | {"pad_token_id": 0, "local_attention": 4}),
    "Bart": ("pair", "BartForConditionalGeneration", PAIRS),
    "Marian": ("pair", "MarianMTModel", PAIRS),
    "M2M100": ("pair", "M2M100ForConditionalGeneration", PAIRS),
    "Pegasus": ("pair", "PegasusForConditionalGeneration", PAIRS),
    "T5": ("pair", "T5ForConditionalGeneration", {"vocab_size": 31, "d_model": 16, "d_kv": 4, "d_ff": 24}
           | {"num_layers": 2, "num_heads": 4, "decoder_start_token_id": 0}),
    "ViT": ("image", "ViTModel", IMAGE),
    "Dinov2": ("image", "Dinov2Model", IMAGE),
    "CLIPVision": ("image", "CLIPVisionModel", IMAGE),
    "SiglipVision": ("image", "SiglipVisionModel", IMAGE),
    "Whisper": ("speech pair", "WhisperForConditionalGeneration", PAIRS | {"max_source_positions": 8}
                | {"num_mel_bins": 6, "suppress_tokens": None, "begin_suppress_tokens": None}),
    "Wav2Vec2": ("speech", "Wav2Vec2Model", SOUND),
    "Hubert": ("speech", "HubertModel", SOUND),
}  # fmt: skip
LEFT_PADDED, RIGHT_PADDED = torch.ones(2, 9, dtype=torch.long), torch.ones(2, 9, dtype=torch.long)
LEFT_PADDED[0, :3], RIGHT_PADDED[0, 6:] = 0, 0


def made(family: str) -> tuple[Any, dict[str, Tensor]]:
    """A tiny model of a family with random weights, and inputs for it."""
    kind, name, settings = FAMILIES[family]
    model_class = getattr(transformers, name)
    torch.manual_seed(1)
    model = model_class(model_class.config_class(**settings)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) / 10)
    tokens = torch.randint(3, 31, (2, 9))
    inputs = {
        "decoder": {"input_ids": tokens, "attention_mask": LEFT_PADDED},
        "encoder": {"input_ids": tokens, "attention_mask": LEFT_PADDED},
        "pair": {"input_ids": tokens, "attention_mask": RIGHT_PADDED, "decoder_input_ids": tokens[:, :5]},
        "image": {"pixel_values": torch.randn(2, 3, 8, 8)},
        "speech": {"input_values": torch.randn(2, 80)},
        "speech pair": {"input_features": torch.randn(2, 6, 16), "decoder_input_ids": tokens[:, :5]},
    }[kind]
    return model, inputs


def read(tensor: Tensor, inputs: dict[str, Tensor]) -> Tensor:
    """Leave out what a row of left padding gives: its gradient is rounding."""
    return tensor[LEFT_PADDED.bool()] if inputs.get("attention_mask") is LEFT_PADDED else tensor


USUAL = ["Llama", "Gemma2", "GptOss", "GPT2", "Bert", "ModernBert", "Marian", "T5", "ViT", "Whisper", "Wav2Vec2"]


def families(*kinds: str) -> list[Any]:
    """The families of these kinds; one of several that share their attention layer is tested by default."""
    names = [name for name, (kind, *_) in FAMILIES.items() if kind in kinds]
    return [name if name in USUAL else pytest.param(name, marks=pytest.mark.slow) for name in names]


@pytest.mark.parametrize("family", families("decoder", "encoder", "pair", "image", "speech", "speech pair"))
def test_outputs_weights_and_gradients_are_those_of_eager(family: str, close: Callable[[Tensor, Tensor], None]) -> None:
    register()
    model, inputs = made(family)
    results = []
    for implementation, with_weights in (("eager", True), ("selfattn", True), ("selfattn", False)):
        model.set_attn_implementation(implementation)
        model.zero_grad()
        outputs = model(**inputs, output_attentions=with_weights)
        first = outputs[0]
        read(first, inputs).square().sum().backward()
        gradient = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
        weights = [map_ for key in outputs if key.endswith("attentions") for map_ in outputs[key] or ()]
        results.append((first, gradient / gradient.abs().max(), weights))
    (expected, expected_gradient, expected_weights), *ours = results
    for output, gradient, _ in ours:
        close(output, expected)
        close(gradient, expected_gradient)
    weights = ours[0][2]
    assert len(weights) == len(expected_weights) > 1
    for map_, expected_map in zip(weights, expected_weights, strict=True):
        close(map_, expected_map)


@pytest.mark.parametrize("family", [*families("decoder", "pair"), "Llama with a cache of fixed size"])
def test_it_generates_the_same_tokens(family: str) -> None:
    register()
    name, _, is_static = family.partition(" with")
    model, inputs = made(name)
    inputs.pop("decoder_input_ids", None)
    search: dict[str, Any] = {"cache_implementation": "static"} if is_static else {"num_beams": 2}
    tokens = []
    for implementation in ("eager", "selfattn"):
        model.set_attn_implementation(implementation)
        tokens.append(model.generate(**inputs, max_new_tokens=8, do_sample=False, **search))
    assert torch.equal(*tokens)


def test_a_watch_keeps_the_layers_and_heads_that_are_asked_for() -> None:
    model, inputs = made("Marian")
    model.set_attn_implementation("eager")
    expected = model(**inputs, output_attentions=True)
    with watch(model, layers=[1], heads=[0, 3]) as seen:
        model(**inputs)
    kinds = {(layer.kind, layer.number): layer.weights for layer in seen.layers}
    assert sorted(kinds) == [("cross", 1), ("decoder", 1), ("encoder", 1)]
    torch.testing.assert_close(kinds["cross", 1], expected.cross_attentions[1][:, [0, 3]])
    torch.testing.assert_close(kinds["decoder", 1], expected.decoder_attentions[1][:, [0, 3]])
    assert model.config._attn_implementation == "eager", "the model is as it was"


def test_a_watch_while_generating_has_a_row_for_each_token() -> None:
    model, _ = made("Llama")
    prompt = torch.tensor([[3, 5, 7]])
    with watch(model, layers=[0]) as seen:
        tokens = model.generate(prompt, max_new_tokens=4, min_new_tokens=4, do_sample=False)
    weights = seen.layers[0].weights
    assert weights.shape == (1, 4, 6, 6)
    model.set_attn_implementation("eager")
    expected = model(tokens[:, :-1], output_attentions=True).attentions[0]
    torch.testing.assert_close(weights, expected)


def test_unwatched_layers_have_no_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    model, inputs = made("Bert")
    asked = []

    def spy(*args: Any, **named: Any) -> Any:
        asked.append(named["need_weights"])
        return attend(*args, **named)

    monkeypatch.setattr("selfattn.integrations.transformers.attend", spy)
    with watch(model, layers=[1]):
        model(**inputs)
    assert asked == [False, False, True], "the weights of layer 1 are computed apart"


@pytest.mark.parametrize(("layers", "heads"), [([2], None), ([-1], None), (None, [4]), (None, [-1])])
def test_a_layer_or_head_that_is_not_there_is_refused(layers: list[int] | None, heads: list[int] | None) -> None:
    model, inputs = made("Bert")
    message = r"`(layers|heads)` .*\d.*: the (model|layer) has (layers 0 to 1|heads 0 to 3)"
    with pytest.raises(UserError, match=message), watch(model, layers=layers, heads=heads):
        model(**inputs)


def test_a_model_without_attention_interface_is_refused() -> None:
    config = transformers.BloomConfig(vocab_size=31, hidden_size=16, n_layer=1, n_head=4)
    with pytest.raises(UserError, match="BloomModel"), watch(transformers.BloomModel(config)):
        pass


def test_an_added_mask_may_be_longer_than_the_keys(close: Callable[[Tensor, Tensor], None]) -> None:
    """As models with a cache of fixed size hand it over."""
    layer = torch.nn.Module()
    query, key, value = torch.randn(1, 2, 3, 4), torch.randn(1, 2, 5, 4), torch.randn(1, 2, 5, 4)
    added = torch.randn(1, 1, 3, 7).masked_fill(torch.rand(1, 1, 3, 7) < 0.3, torch.finfo(torch.float32).min)
    output, _ = attention(layer, query, key, value, added)
    expected = (query @ key.transpose(-2, -1) / 2 + added[..., :5]).softmax(-1) @ value
    close(output, expected.transpose(1, 2))


# The explorer on Hugging Face models: the maps are the model's own weights, the tokens what a person reads


PROMPT = "a small dog runs after a red ball"
SIZES = {"num_attention_heads": 2, "intermediate_size": 8, "hidden_size": 8, "num_hidden_layers": 2}
PAIR_SIZES = {
    f"{side}_{name}": 2 for side in ("encoder", "decoder") for name in ("layers", "attention_heads", "ffn_dim")
} | {"d_model": 8, "pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0, "forced_eos_token_id": 1}


def saved(place: Path, family: str) -> Path:
    """A tiny model of a family with the kind of tokenizer that it has, as `save_pretrained` writes it."""
    special = ["<pad>", "</s>", "<unk>"]
    if family == "Bert":
        own = tokenizers.Tokenizer(models.WordPiece(unk_token="<unk>"))
        own.pre_tokenizer, own.decoder = pre_tokenizers.Whitespace(), decoders.WordPiece()
        trainer: Any = trainers.WordPieceTrainer(vocab_size=40, special_tokens=special, show_progress=False)
    elif family == "Llama":
        own = tokenizers.Tokenizer(models.BPE())
        own.pre_tokenizer, own.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=300,
            special_tokens=special,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
    else:
        own = tokenizers.Tokenizer(models.Unigram())
        own.pre_tokenizer, own.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
        own.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
        trainer = trainers.UnigramTrainer(vocab_size=40, special_tokens=special, unk_token="<unk>", show_progress=False)
    own.train_from_iterator([PROMPT] * 9, trainer)
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=own, pad_token="<pad>", eos_token="</s>", unk_token="<unk>"
    )
    name = {"Bert": "BertModel", "Llama": "LlamaForCausalLM", "Marian": "MarianMTModel"}[family]
    model_class = getattr(transformers, name)
    torch.manual_seed(0)
    sizes = PAIR_SIZES if family == "Marian" else SIZES
    model_class(model_class.config_class(vocab_size=len(tokenizer), **sizes)).save_pretrained(place)
    tokenizer.save_pretrained(place)
    return place


@pytest.mark.parametrize("family", ["Bert", "Llama"])
def test_one_sequence_has_a_map_for_each_head(family: str, tmp_path: Path) -> None:
    model, tokenizer = foreign_model(saved(tmp_path, family))
    view = explore(model, tokenizer, PROMPT)
    assert "".join(view.source_tokens).replace("##", "").replace(" ", "") == PROMPT.replace(" ", "")
    ids = tokenizer(PROMPT, return_tensors="pt").input_ids
    model.set_attn_implementation("eager")
    for weights, expected in zip(view.encoder_weights, model(ids, output_attentions=True).attentions, strict=True):
        torch.testing.assert_close(weights, expected[0].detach())


def test_an_encoder_decoder_has_three_kinds_of_maps(tmp_path: Path) -> None:
    model, tokenizer = foreign_model(saved(tmp_path, "Marian"))
    view = explore(model, tokenizer, PROMPT, "a red dog", layers=[1], heads=[0])
    s, t = len(view.source_tokens), len(view.target_tokens)
    assert view.prediction == "a red dog"
    assert view.target_tokens[-1] == "</s>"
    shapes = [tuple(x.shape) for kind in (view.weights, view.encoder_weights, view.decoder_weights) for x in kind]
    assert shapes == [(1, t, s), (1, s, s), (1, t, t)]
    assert {(map_.kind, map_.layer, map_.head) for map_ in view.maps().maps} == {
        ("cross", 1, 0),
        ("encoder", 1, 0),
        ("decoder", 1, 0),
    }
    assert "<svg" in view.to_svg()


def test_without_a_target_an_encoder_decoder_generates_one(tmp_path: Path) -> None:
    model, tokenizer = foreign_model(saved(tmp_path, "Marian"))
    view = explore(model, tokenizer, PROMPT, max_new_tokens=5)
    assert len(view.target_tokens) == 5
    assert view.weights[0].shape[1] == 5


def test_a_text_without_tokens_and_weights_that_no_page_can_show_are_refused(tmp_path: Path) -> None:
    model, tokenizer = foreign_model(saved(tmp_path, "Llama"))
    for text, message in ((PROMPT * 300, "give a shorter text, or choose `layers`"), ("", "the text has no token")):
        with pytest.raises(UserError, match=message):
            explore(model, tokenizer, text)


def test_a_directory_that_is_no_model_is_refused(tmp_path: Path) -> None:
    assert foreign_model(tmp_path) is None
    (tmp_path / "config.json").write_text('{"model_type": "nothing"}')
    with pytest.raises(UserError, match="transformers cannot load this model") as error:
        foreign_model(tmp_path)
    assert "--nothing" not in error.value.as_options()  # quoted by transformers as we quote settings


def test_the_command_line_shows_a_hugging_face_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    place, page = saved(tmp_path / "llama", "Llama"), tmp_path / "map.html"
    monkeypatch.setattr("sys.argv", ["selfattn", "attention", str(place), PROMPT, "--layer", "1", "--save", str(page)])
    main()
    assert f"{PROMPT}   (layer 1, mean of 2 heads)" in capsys.readouterr().out
    assert page.exists()
