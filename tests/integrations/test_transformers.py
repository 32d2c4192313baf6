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
from tests.fixtures.eager_sweep import compared
from tests.fixtures.families import attention_mask, configuration, inputs_of, models, tiny
from tokenizers import decoders, pre_tokenizers, processors, trainers
from tokenizers import models as kinds

# Tiny vocabularies lack the special tokens of the families' defaults; transformers warns about it.
pytestmark = pytest.mark.filterwarnings("ignore")

# Of several families that share an attention layer one is tested by default; `test_every_family.py` has them all.
FAMILIES = (
    "llama gemma2 gpt_oss gpt2 bert modernbert marian t5 vit whisper wav2vec2 "
    "deepseek_v32 inkling2_text nllb-moe splinter"  # which once were silently different
)


def small(name: str) -> tuple[Any, dict[str, Tensor]]:
    """A tiny model of a class with random weights, and inputs for it."""
    model = tiny(name, configuration(getattr(transformers, name).config_class))
    return model, inputs_of(model, "none")


@pytest.mark.parametrize("family", [*FAMILIES.split(), pytest.param("pegasus_x", marks=pytest.mark.slow)])
def test_outputs_weights_and_gradients_are_those_of_eager(family: str) -> None:
    register()
    config = configuration(transformers.CONFIG_MAPPING[family])
    result = compared(tiny(next(models(family)), config), 1e-4)
    assert result.result == "equal", result


@pytest.mark.parametrize(
    "family",
    ["LlamaForCausalLM", "Gemma2ForCausalLM", "GptOssForCausalLM", "GPT2LMHeadModel", "MarianMTModel",
     "T5ForConditionalGeneration", "LlamaForCausalLM with a cache of fixed size"],
)  # fmt: skip
def test_it_generates_the_same_tokens(family: str) -> None:
    register()
    name, _, is_static = family.partition(" with")
    model, _ = small(name)
    inputs = {"input_ids": inputs_of(model, "left")["input_ids"], "attention_mask": attention_mask("left")}
    search: dict[str, Any] = {"cache_implementation": "static"} if is_static else {"num_beams": 2}
    if model.config.is_encoder_decoder:
        search["decoder_start_token_id"] = 2
    tokens = []
    for implementation in ("eager", "selfattn"):
        model.set_attn_implementation(implementation)
        tokens.append(model.generate(**inputs, max_new_tokens=8, do_sample=False, **search))
    assert torch.equal(*tokens)


def test_a_watch_keeps_the_layers_and_heads_that_are_asked_for() -> None:
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


def test_unwatched_layers_have_no_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    model, inputs = small("BertModel")
    asked = []

    def spy(*args: Any, **named: Any) -> Any:
        asked.append(named["need_weights"])
        return attend(*args, **named)

    monkeypatch.setattr("selfattn.integrations.transformers.attend", spy)
    with watch(model, layers=[1]):
        model(**inputs)
    assert asked == [False, False, True], "the weights of layer 1 are computed apart"


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
        own = tokenizers.Tokenizer(kinds.WordPiece(unk_token="<unk>"))
        own.pre_tokenizer, own.decoder = pre_tokenizers.Whitespace(), decoders.WordPiece()
        trainer: Any = trainers.WordPieceTrainer(vocab_size=40, special_tokens=special, show_progress=False)
    elif family == "Llama":
        own = tokenizers.Tokenizer(kinds.BPE())
        own.pre_tokenizer, own.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=300,
            special_tokens=special,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
    else:
        own = tokenizers.Tokenizer(kinds.Unigram())
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


def test_weights_that_no_page_can_show_are_refused(tmp_path: Path) -> None:
    model, tokenizer = foreign_model(saved(tmp_path, "Llama"))
    with pytest.raises(UserError, match="give a shorter text, or choose `layers`"):
        explore(model, tokenizer, PROMPT * 300)


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
