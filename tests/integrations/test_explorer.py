"""The explorer on Hugging Face models: the maps are the model's own weights, the tokens what a person reads."""

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

import tokenizers
from selfattn.cli.main import main
from selfattn.errors import UserError
from selfattn.integrations.explorer import explore, foreign_model, open_model
from tokenizers import decoders, models, pre_tokenizers, processors, trainers

pytestmark = pytest.mark.filterwarnings("ignore")  # of transformers: about token numbers of tiny vocabularies

TEXT = "a small dog runs after a red ball"
SIZES = {"num_attention_heads": 2, "intermediate_size": 8, "hidden_size": 8, "num_hidden_layers": 2}
PAIRS = {
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
    own.train_from_iterator([TEXT] * 9, trainer)
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=own, pad_token="<pad>", eos_token="</s>", unk_token="<unk>"
    )
    name = {"Bert": "BertModel", "Llama": "LlamaForCausalLM", "Marian": "MarianMTModel"}[family]
    model_class = getattr(transformers, name)
    torch.manual_seed(0)
    sizes = PAIRS if family == "Marian" else SIZES
    model_class(model_class.config_class(vocab_size=len(tokenizer), **sizes)).save_pretrained(place)
    tokenizer.save_pretrained(place)
    return place


@pytest.mark.parametrize("family", ["Bert", "Llama"])
def test_one_sequence_has_a_map_for_each_head(family: str, tmp_path: Path) -> None:
    model, tokenizer = open_model(saved(tmp_path, family))
    view = explore(model, tokenizer, TEXT)
    assert "".join(view.source_tokens).replace("##", "").replace(" ", "") == TEXT.replace(" ", "")
    ids = tokenizer(TEXT, return_tensors="pt").input_ids
    model.set_attn_implementation("eager")
    for weights, expected in zip(view.encoder_weights, model(ids, output_attentions=True).attentions, strict=True):
        torch.testing.assert_close(weights, expected[0].detach())


def test_an_encoder_decoder_has_three_kinds_of_maps(tmp_path: Path) -> None:
    model, tokenizer = open_model(saved(tmp_path, "Marian"))
    view = explore(model, tokenizer, TEXT, "a red dog", layers=[1], heads=[0])
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
    model, tokenizer = open_model(saved(tmp_path, "Marian"))
    view = explore(model, tokenizer, TEXT, max_new_tokens=5)
    assert len(view.target_tokens) == 5
    assert view.weights[0].shape[1] == 5


def test_weights_that_no_page_can_show_are_refused(tmp_path: Path) -> None:
    model, tokenizer = open_model(saved(tmp_path, "Llama"))
    with pytest.raises(UserError, match=r"give a shorter text, or choose `layers` and `heads`"):
        explore(model, tokenizer, TEXT * 300)


def test_a_directory_that_is_no_model_is_refused(tmp_path: Path) -> None:
    assert foreign_model(tmp_path) is None
    (tmp_path / "config.json").write_text('{"model_type": "nothing"}')
    with pytest.raises(UserError, match="transformers cannot load this model"):
        foreign_model(tmp_path)


def test_the_command_line_shows_a_hugging_face_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    place, page = saved(tmp_path / "llama", "Llama"), tmp_path / "map.html"
    monkeypatch.setattr("sys.argv", ["selfattn", "attention", str(place), TEXT, "--layer", "1", "--save", str(page)])
    main()
    assert f"{TEXT}   (layer 1, mean of 2 heads)" in capsys.readouterr().out
    assert page.exists()


def test_an_empty_text_is_refused(tmp_path: Path) -> None:
    model, tokenizer = open_model(saved(tmp_path, "Llama"))
    with pytest.raises(UserError, match="the text has no token"):
        explore(model, tokenizer, "")
