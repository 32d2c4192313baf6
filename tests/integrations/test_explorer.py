"""The explorer on Hugging Face models: what it reads as they do, what it refuses in one line, and no foreign code."""

import json
import re
from pathlib import Path

import pytest
import torch
import transformers

import selfattn
import tokenizers
from selfattn.errors import UserError
from selfattn.integrations.explorer import explore, explore_weights, foreign_model, readable
from tokenizers import decoders, models, pre_tokenizers, processors

# Tiny vocabularies lack the special tokens of the families' defaults; transformers warns about it.
pytestmark = pytest.mark.filterwarnings("ignore")

WORDS = ["[PAD]", "</s>", "[CLS]", "[SEP]", "[UNK]", "<de>", "the", "small", "dog", "saw"]
WORDS += ["a", "red", "ball", "it", "was", "happy"]
SIZES = {"vocab_size": len(WORDS), "hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 2}
SIZES |= {"intermediate_size": 8, "max_position_embeddings": 20}
T5 = {"vocab_size": len(WORDS), "d_model": 16, "d_ff": 8, "d_kv": 4, "num_layers": 2, "num_heads": 2}
BART = {f"{side}_{name}": size for side in ("encoder", "decoder") for name, size in
        (("layers", 2), ("attention_heads", 2), ("ffn_dim", 8))} | {
    "vocab_size": len(WORDS), "d_model": 16, "max_position_embeddings": 20, "pad_token_id": 0, "bos_token_id": 2,
    "eos_token_id": 1, "decoder_start_token_id": 1, "forced_eos_token_id": 1}  # fmt: skip
TEXT = "the small dog saw a red ball"
SECOND = "it was happy"


def made(name, **sizes):
    torch.manual_seed(0)
    model_class = getattr(transformers, name)
    return model_class(model_class.config_class(**sizes)).eval()


def words(first, single="$A", pair="$A $B"):
    """A tokenizer of words, which frames one sentence or two as a template says."""
    inner = tokenizers.Tokenizer(models.WordLevel({word: k for k, word in enumerate(WORDS)}, unk_token="[UNK]"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    marks = [(mark, WORDS.index(mark)) for mark in ("[CLS]", "[SEP]", "</s>")]
    inner.post_processor = processors.TemplateProcessing(single=single, pair=pair, special_tokens=marks)
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="[PAD]", eos_token=first, unk_token="[UNK]", cls_token="[CLS]"
    )


def of_bert():
    return words("[SEP]", "[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1")


def of_t5():
    return words("</s>", "$A </s>", "$A </s> $B </s>")


def test_an_encoder_reads_two_sentences_with_their_separators_and_segments():
    model, tokenizer = made("BertModel", **SIZES), of_bert()
    view = explore(model, tokenizer, TEXT, SECOND)
    assert view.source_tokens == ("[CLS]", *TEXT.split(), "[SEP]", *SECOND.split(), "[SEP]")
    assert view.second == view.source_tokens.index("it")
    model.set_attn_implementation("eager")
    inputs = tokenizer(TEXT, SECOND, return_tensors="pt", return_token_type_ids=True)
    assert 1 in inputs.token_type_ids
    for weights, expected in zip(view.encoder_weights, model(**inputs, output_attentions=True).attentions, strict=True):
        torch.testing.assert_close(weights, expected[0].detach())


def test_a_decoder_reads_a_target_as_the_continuation_and_may_generate_one():
    model, tokenizer = made("LlamaForCausalLM", **SIZES), words("</s>")
    assert explore(model, tokenizer, TEXT, " " + SECOND).source_tokens == (*TEXT.split(), *SECOND.split())
    search = {"num_beams": 2, "min_new_tokens": 4}
    view = explore(model, tokenizer, TEXT, max_new_tokens=4, generate=search)
    inputs = tokenizer(TEXT, return_tensors="pt", return_token_type_ids=False)
    written = model.generate(**inputs, max_new_tokens=4, **search)
    assert list(view.source_tokens) == tokenizer.convert_ids_to_tokens(written[0])


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("T5Model", T5 | {"decoder_start_token_id": 0}),
        ("BartModel", BART),
        ("NllbMoeModel", BART | {"num_experts": 2, "expert_capacity": 64}),  # cross-attention under another name
        ("SeamlessM4TForTextToText", BART | {"hidden_size": 16, "decoder_start_token_id": 3}),
    ],
)
def test_a_bare_encoder_decoder_reads_a_given_target(name, sizes):
    model, tokenizer = made(name, **sizes), of_t5()
    view = explore(model, tokenizer, TEXT, SECOND)
    labels = tokenizer(SECOND, return_tensors="pt").input_ids
    read = torch.cat([torch.tensor([[model.config.decoder_start_token_id]]), labels[:, :-1]], dim=1)
    model.set_attn_implementation("eager")
    inputs = tokenizer(TEXT, return_tensors="pt").input_ids
    expected = model(inputs, decoder_input_ids=read, output_attentions=True)
    for weights, theirs in zip(view.weights, expected.cross_attentions, strict=True):
        torch.testing.assert_close(weights, theirs[0].detach())


def test_an_encoder_decoder_has_three_kinds_of_maps_and_generates_as_it_is_told():
    model, tokenizer = made("BartForConditionalGeneration", **BART), of_t5()
    view = explore(model, tokenizer, TEXT, SECOND, layers=[1], heads=[0])
    s, t = len(view.source_tokens), len(view.target_tokens)
    assert (view.prediction, view.target_tokens[-1]) == (SECOND, "</s>")
    shapes = [tuple(x.shape) for kind in (view.weights, view.encoder_weights, view.decoder_weights) for x in kind]
    assert shapes == [(1, t, s), (1, s, s), (1, t, t)]
    kinds = {(map_.kind, map_.layer, map_.head) for map_ in view.maps().maps}
    assert kinds == {(kind, 1, 0) for kind in ("cross", "encoder", "decoder")}
    assert "<svg" in view.to_svg()
    forced = {"forced_bos_token_id": WORDS.index("<de>"), "num_beams": 3}
    view = explore(model, tokenizer, TEXT, max_new_tokens=5, generate=forced)
    assert view.target_tokens[0] == "<de>"
    assert view.weights[0].shape == (2, len(view.target_tokens), len(view.source_tokens))


BYTES = models.BPE({letter: k for k, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}, [])
PIECES = models.WordPiece({"[UNK]": 0, "a": 1, "ball": 2, "##oon": 3}, unk_token="[UNK]")
UNIGRAM = models.Unigram([("<unk>", 0.0), ("\u2581a", -1.0), ("\u2581balloon", -1.0)], unk_id=0)


@pytest.mark.parametrize(("model", "before", "after", "tokens"), [
    (PIECES, pre_tokenizers.Whitespace(), decoders.WordPiece(), ["a", "ball", "##oon"]),
    (BYTES, pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel(), list("a balloon")),
    (UNIGRAM, pre_tokenizers.Metaspace(), decoders.Metaspace(), [" a", " balloon"]),
])  # fmt: skip
def test_tokens_are_what_a_person_reads(model, before, after, tokens):
    inner = tokenizers.Tokenizer(model)
    inner.pre_tokenizer, inner.decoder = before, after
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=inner)
    assert list(readable(tokenizer, torch.tensor(tokenizer("a balloon").input_ids))) == tokens


def test_weights_that_the_user_computed_are_shown():
    model, tokenizer = made("BertModel", **SIZES), of_bert()
    model.set_attn_implementation("eager")
    inputs = tokenizer(TEXT, SECOND, return_tensors="pt")
    attentions = model(**inputs, output_attentions=True).attentions
    tokens = tokenizer.convert_ids_to_tokens(inputs.input_ids[0])
    view = explore_weights(tokens, [*attentions[:2], None], second=9, heads=[1])
    assert {(map_.layer, map_.head) for map_ in view.maps().maps} == {(0, 1), (1, 1)}
    assert view.without == ("attentions[2]",)
    torch.testing.assert_close(view.encoder_weights[1][0], attentions[1][0, 1].detach())
    assert "attentions[2]" in view.to_html()


SQUARE = torch.full((1, 1, 2, 2), 0.5)
KEYS_AS_ROWS = torch.tensor([[[1.0, 0.9], [0.0, 0.1]]])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"attentions": [SQUARE.expand(3, 1, 2, 2)]}, r"attentions\[0\] has 3 texts"),
        ({"attentions": [torch.full((1, 3, 3), 0.5)]}, r"the tokens say \[heads, 2, 2\]"),
        ({"attentions": [SQUARE * 9]}, "give the weights after the softmax"),
        ({"attentions": [None]}, "output_attentions=True"),
        ({"attentions": [SQUARE], "layers": [1]}, "has layers 0 to 0"),
        ({"attentions": [SQUARE], "heads": []}, "has heads 0 to 0"),
        ({"attentions": [SQUARE], "second": 2}, "`second` 2"),
        ({"attentions": [KEYS_AS_ROWS]}, r"attentions\[0\] has a row that sums to 1.90: rows are queries"),
        ({"attentions": [SQUARE.numpy()]}, r"attentions\[0\] is a ndarray: make it a tensor"),
        ({"attentions": [SQUARE], "tokens": [7, 8]}, "`tokens`: expected a list of tokens as texts"),
        ({"attentions": [SQUARE], "tokens": "ab"}, "`tokens`: expected a list of tokens as texts"),
    ],
)
def test_weights_that_do_not_fit_are_refused(arguments, message):
    with pytest.raises(UserError, match=message):
        explore_weights(**{"tokens": ["a", "b"]} | arguments)
    explore_weights(["a", "b"], [KEYS_AS_ROWS.mT])


LONG = " ".join(["dog"] * 21)
IMAGE = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "image_size": 8, "patch_size": 4}
REFUSED = {
    "text beyond the positions": ("BertModel", SIZES, {"text": LONG}, "23 tokens; BertModel has positions for 20"),
    "target beyond the positions": ("BartModel", BART, {"target": LONG}, "the target has 22 tokens"),
    "RoBERTa begins later": ("RobertaModel", SIZES | {"pad_token_id": 1}, {"text": LONG[:-16]}, "positions for 18"),
    "several texts": ("BertModel", SIZES, {"text": [TEXT, TEXT]}, "`text` is one text, not list"),
    "several targets": ("BertModel", SIZES, {"target": [TEXT]}, "`target` is one text, not list"),
    "no heads": ("BertModel", SIZES, {"heads": []}, "`heads` is empty"),
    "no layers": ("BertModel", SIZES, {"layers": []}, "`layers` is empty"),
    "an encoder cannot generate": ("BertModel", SIZES, {"generate": {}}, "BertModel cannot generate"),
    "nor can a bare model": ("T5Model", T5, {}, "T5Model cannot generate: give a `target`"),
    "speech": ("WhisperForConditionalGeneration", BART | {"num_mel_bins": 6, "max_source_positions": 8}, {},
               "reads input_features, not text"),
    "pictures": ("ViTModel", IMAGE, {}, "ViTModel reads pixel_values, not text"),
    "an argument that generate does not know": (
        "LlamaForCausalLM", SIZES, {"generate": {"beams": 3}}, "cannot generate like this: .*beams"),
    "several sequences": (
        "LlamaForCausalLM", SIZES, {"generate": {"num_beams": 2, "num_return_sequences": 2}}, "shows one sequence"),
    "a target and a search": ("T5Model", T5, {"target": SECOND, "generate": {}}, "`target` or `generate`"),
    "no words": ("LlamaForCausalLM", SIZES, {"text": ""}, "the text has no token"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_shown_is_refused_in_one_line(case):
    name, sizes, arguments, message = REFUSED[case]
    tokenizer = of_bert() if "Bert" in name or "Roberta" in name else words("</s>") if "Llama" in name else of_t5()
    with pytest.raises(UserError, match=message) as refused:
        explore(made(name, **sizes), tokenizer, **({"text": TEXT} | arguments))
    assert "\n" not in str(refused.value)


def test_layers_without_weights_are_named_and_none_at_all_is_refused():
    model = made("BertModel", **SIZES)
    eager = transformers.BertConfig(**SIZES, attn_implementation="eager")
    layers = [layer.attention.self for layer in model.encoder.layer]
    layers[1].config = eager
    view = explore(model, of_bert(), TEXT)
    assert view.without == ("encoder.layer.1.attention.self",)
    assert view.layers["encoder"] == [0, 2]
    for layer in layers:
        layer.config = eager
    with pytest.raises(UserError, match=r"hands over no attention weights: encoder.layer.0"):
        explore(model, of_bert(), TEXT)


def saved(place, name="LlamaForCausalLM", **sizes):
    made(name, **(SIZES | sizes)).save_pretrained(place)
    words("</s>").save_pretrained(place)
    return place


@pytest.fixture(autouse=True)
def quiet():
    """No bar of transformers among the messages."""
    transformers.logging.disable_progress_bar()


def test_a_command_shows_chosen_layers_and_heads(cli, tmp_path, monkeypatch):
    """Before the weights are counted."""
    place, out, page = saved(tmp_path / "llama"), tmp_path / "map.json", tmp_path / "map.html"
    assert f"{TEXT}   (layer 1, mean of 2 heads)" in cli("attention", place, TEXT, "--layer", 1, "--save", page).out
    assert page.exists()
    monkeypatch.setattr("selfattn.integrations.explorer.MOST_WEIGHTS", 2 * 49)
    assert "give a shorter text, or choose --layers and --heads" in cli("attention", place, TEXT).refusal()
    assert cli("attention", place, TEXT, "--layers", "0,2", "--heads", "1", "--save", out).code == 0
    maps = json.loads(out.read_text())["maps"]
    assert [(map_["layer"], map_["head"]) for map_ in maps] == [(0, 1), (2, 1)]


def test_a_directory_that_is_no_model_is_refused(tmp_path):
    assert foreign_model(tmp_path) is None
    (tmp_path / "config.json").write_text('{"model_type": "nothing"}')
    with pytest.raises(UserError, match="transformers cannot load this model") as error:
        foreign_model(tmp_path)
    assert "--nothing" not in error.value.as_options()  # quoted by transformers as we quote settings


@pytest.mark.parametrize("where", ["config.json", "tokenizer_config.json"])
def test_code_that_comes_with_a_model_is_never_run(cli, where, tmp_path):
    place, trace = saved(tmp_path / "foreign"), tmp_path / "trace"
    code = f"open({str(trace)!r}, 'w').write('ran')\n"
    (place / "code.py").write_text(code)
    (place / "custom_generate").mkdir()
    (place / "custom_generate" / "generate.py").write_text(code)
    classes = {"AutoConfig": "code.C", "AutoModelForCausalLM": "code.M", "AutoTokenizer": ["code.T", None]}

    def named(**changes):
        config = json.loads((place / where).read_text())
        (place / where).write_text(json.dumps(config | {"auto_map": classes} | changes))

    named()
    assert cli("attention", place, TEXT, stdin="y\n" * 9).code == 0, "transformers has classes of its own for it"
    named(model_type="unheard_of", tokenizer_class="T")
    refusal = cli("attention", place, TEXT, stdin="y\n" * 9).refusal()
    assert "it needs code that comes with it, which is never run" in refusal
    assert not trace.exists()


def test_whatever_loads_with_transformers_trusts_no_code():
    package = Path(selfattn.__file__).parent
    calls = [
        (path.name, call)
        for path in package.rglob("*.py")
        for call in re.findall(r"^[^`>]*\.from_pretrained\((.*)", path.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert calls
    assert [place for place in calls if "trust_remote_code=False" not in place[1]] == []
