"""A published Marian model becomes a run: the same tokens and logits; fine-tuned, evaluated, explored, exported."""

import json
import re
import shutil
from pathlib import Path

import pytest
import torch
from marian_model import write_marian, write_pairs

from selfattn.convert.marian import MarianDirectory
from selfattn.errors import UserError
from selfattn.runs.evaluate import evaluate_run
from selfattn.runs.load import load
from selfattn.runs.train import train
from selfattn.tokenizers.borrowed import MarianTokenizer
from selfattn.tokenizers.load import load_tokenizer

transformers = pytest.importorskip("transformers", reason="needs transformers, which is not installed")

TEXTS = ["one two green house", "  red  one 字字 x", "", ">>deu<< one", "three ﬁ four!", "<< one >>"]
BRIEF = {"max_steps": 4, "batch_size": 32, "source": "en", "target": "de", "validation_items": 20}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_marian(tmp_path_factory.mktemp("marian") / "opus", codes=(">>deu<<", ">>nld<<"))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_pairs(tmp_path_factory.mktemp("pairs") / "a.tsv", 1, 240)


@pytest.fixture(scope="module")
def run(folder, data, tmp_path_factory):
    return train("translation", init_from=folder, data=data, out=tmp_path_factory.mktemp("runs") / "run", **BRIEF)


def sides(folder):
    tokenizer = MarianDirectory(folder).open().tokenizer
    assert isinstance(tokenizer.source, MarianTokenizer)
    assert isinstance(tokenizer.target, MarianTokenizer)
    return tokenizer.source, tokenizer.target


def test_tokens_are_theirs(folder):
    theirs = transformers.MarianTokenizer.from_pretrained(folder)
    source, target = sides(folder)
    for text in TEXTS:
        assert [source.theirs[number] for number in source.encode(text)] == theirs(text)["input_ids"][:-1]
        ids = target.encode(text)
        assert [target.theirs[number] for number in ids] == theirs(text_target=text)["input_ids"][:-1]
        known = [number for number in ids if number != target.unk_id]
        assert target.decode(known) == theirs.decode([target.theirs[number] for number in known])
        assert all(start <= end <= len(text) for start, end in source.spans(text))


@torch.no_grad()
def test_logits_are_theirs(folder):
    """All logits but those of <pad> and <bos>, which are never written."""
    theirs = transformers.MarianMTModel.from_pretrained(folder).eval()
    model = MarianDirectory(folder).open().model
    source, target = sides(folder)
    read = [*source.encode("one two red house"), source.eos_id]
    written = [target.bos_id, *target.encode("eins zwei")]
    ids = torch.tensor([read])
    logits = model(ids, torch.tensor([written]), source_mask=ids > 0)
    translated = torch.tensor([[source.theirs[number] for number in read]])
    begun = torch.tensor([[target.theirs[number] for number in written]])
    expected = theirs(input_ids=translated, decoder_input_ids=begun).logits
    torch.testing.assert_close(logits[..., 2:], expected[..., target.theirs[2:]], rtol=1e-5, atol=1e-5)
    assert logits.softmax(-1)[..., :2].max() == 0.0


def test_the_training_starts_from_these_weights(folder, data, tmp_path):
    rate = {"lr": 1e-30, "weight_decay": 0.0}
    frozen = train("translation", init_from=folder, data=data, out=tmp_path / "run", **BRIEF, **rate)
    before = MarianDirectory(folder).open().model.state_dict()
    for name, tensor in frozen.model.state_dict().items():
        torch.testing.assert_close(tensor, before[name], rtol=0.0, atol=1e-25)


def test_a_fine_tuned_model_is_a_run(folder, run, cli, tmp_path):
    back = load(run.path)
    assert back.predict(TEXTS, beam=2) == run.predict(TEXTS, beam=2)
    assert back.config.training.lr == 5e-5  # the recipe of fine-tuning
    for side in ("source", "target"):
        tokens = run.path / "tokenizer" / side
        assert (tokens / "pieces.spm").read_bytes() == (folder / f"{side}.spm").read_bytes()
        assert (tokens / "vocab.json").read_bytes() == (folder / "vocab.json").read_bytes()
    assert "bleu" in evaluate_run(back)["metrics"]
    cli("attention", run.path, "one two").success()
    assert "MarianTokenizer: a page runs" in cli("demo", run.path, "--out", tmp_path / "demo.html").refusal()
    run.tokenizer.save(tmp_path)
    assert load_tokenizer(tmp_path).encode("one") == run.tokenizer.encode("one")
    (tmp_path / "source" / "vocab.json").write_text("{}")
    with pytest.raises(UserError, match=r"vocab\.json: not the file that marian\.json speaks of"):
        load_tokenizer(tmp_path)


@pytest.mark.parametrize("engine", ["ctranslate2", pytest.param("onnx", marks=pytest.mark.slow)])
def test_exports_answer_alike(run, engine, tmp_path):
    pytest.importorskip("ctranslate2" if engine == "ctranslate2" else "onnxruntime")
    exported = load(run.export(engine, tmp_path / "exported"))
    assert exported.predict(TEXTS, beam=3) == run.predict(TEXTS, beam=3)
    assert any(run.predict(TEXTS, beam=3))


def test_pickled_weights_and_the_hub(folder, run, data, hub, cli, tmp_path):
    """The published models have weights of torch, and are fetched by their address."""
    from safetensors.torch import load_file

    files = {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix != ".safetensors"}
    torch.save(load_file(folder / "model.safetensors"), tmp_path / "weights")
    files["pytorch_model.bin"] = (tmp_path / "weights").read_bytes()
    name, commit = "someone/opus-mt-en-de", "a" * 40
    hub.commits[name], hub.branches[name] = {commit: files}, {"main": commit}
    fetched = train("translation", init_from=f"hf://{name}", data=data, out=tmp_path / "run", **BRIEF)
    for key, tensor in fetched.model.state_dict().items():
        assert torch.equal(tensor, run.model.state_dict()[key]), key
    aligned = [cli("align", place, "--data", data, "--words") for place in (f"hf://{name}", folder)]
    assert aligned[0].out == aligned[1].out
    assert len(aligned[0].out.splitlines()) == 240


def test_two_vocabularies(tmp_path, folder):
    two = write_marian(tmp_path / "two", share_encoder_decoder_embeddings=False)
    numbers = json.loads((two / "vocab.json").read_text("utf-8"))
    inner = [piece for piece, number in numbers.items() if 1 < number < len(numbers) - 1]
    turned = {piece: number for number, piece in enumerate(["</s>", "<unk>", *reversed(inner), "<pad>"])}
    (two / "target_vocab.json").write_text(json.dumps(turned))
    change(two / "tokenizer_config.json", separate_vocabs=True, target_vocab_file="target_vocab.json")
    source, target = sides(two)
    theirs = transformers.MarianTokenizer.from_pretrained(two)
    text = "one two"
    assert [source.theirs[number] for number in source.encode(text)] == theirs(text)["input_ids"][:-1]
    ids = [target.theirs[number] for number in target.encode(text)]
    assert ids == [turned.get(piece, 1) for piece in theirs.spm_target.encode(text, out_type=str)]


@pytest.fixture
def start(cli, data, tmp_path):
    """Start a training from a model."""
    command = ("train", "translation", "--data", data, "--out", tmp_path / "run", "--init-from")
    return lambda folder, *options: cli(*command, folder, *options)


def change(path, **values):
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | values), "utf-8")


# A file, what becomes of it (None: it is missing; an object: settings are added), and what the line says.
TOKENS = "tokenizer_config.json"
MODEL_OF = "the model is that of --init-from"
FAULTS = [
    ("vocab.json", None, "vocab.json: no such file"),
    ("vocab.json", lambda numbers: dict(list(numbers.items())[1:]), "vocab.json: 35 pieces, but config.json says 36"),
    ("vocab.json", {"</s>": 1, "<unk>": 0}, "vocab.json: </s> has the id 1, but config.json says 0"),
    ("target.spm", b"?", "target.spm: damaged, or no model"),
    ("model.safetensors", None, "no weights in it; expected"),
    ("model.safetensors", b"1234567890", "model.safetensors: cannot be read as weights"),
    (TOKENS, {"sp_model_kwargs": {"enable_sampling": True}}, f"{TOKENS}: sp_model_kwargs:"),
    (TOKENS, {"tokenizer_class": "T5Tokenizer"}, f'{TOKENS}: tokenizer_class: "T5Tokenizer" has no counterpart'),
    (TOKENS, {"do_lower_case": True}, f"{TOKENS}: do_lower_case: is not understood"),
    (TOKENS, {"added_tokens_decoder": ["</s>"]}, f"{TOKENS}: added_tokens_decoder: expected an object"),
    (TOKENS, {"added_tokens_decoder": {"0": "</s>"}}, f"{TOKENS}: added_tokens_decoder: a token without its text"),
    (TOKENS, {"eos_token": ["</s>"]}, f"{TOKENS}: eos_token: a token without its text"),
    (TOKENS, {"separate_vocabs": True}, "separate_vocabs, but config.json says"),
    ("added_tokens.json", b'{"<x>": 99}', "added_tokens.json: has no counterpart"),
    ("adapter_config.json", b'{"r": 8}', "adapter_config.json"),
    ("config.json", {"quantization_config": {"bits": 8}}, "quantization_config"),
    ("config.json", {"model_type": "bert"}, "a model of Hugging Face (bert), of which only Marian can be a start"),
    # a model as it should be, and options of the training
    ("", "", "--target ko: the model of --init-from is for de; give that"),
    ("", "--target de --source fr", "--source fr: the model of --init-from is for en"),
    ("", "--target de --model transformer", f"--model transformer: {MODEL_OF} (marian)"),
    ("", "--target de --tokenizer bpe", "--tokenizer bpe: the tokens are those of --init-from"),
    ("", "--target de --sampling 0.1", "--sampling: the tokens of --init-from have one segmentation"),
    ("", "--target de --set encoder.num_layers=1", f"--set encoder.num_layers=1: {MODEL_OF}"),
]


@pytest.mark.parametrize(("name", "fault", "message"), FAULTS, ids=[message[:50] for _, _, message in FAULTS])
def test_what_is_not_understood_is_refused(name, fault, message, folder, data, start, tmp_path, cli):
    if not name:
        assert message in start(folder, *fault.split()).refusal()
        return
    broken = Path(shutil.copytree(folder, tmp_path / "opus"))
    path = broken / name
    if fault is None:
        path.unlink()
    elif isinstance(fault, bytes):
        path.write_bytes(fault)
    else:
        values = json.loads(path.read_text("utf-8"))
        path.write_text(json.dumps(values | fault if isinstance(fault, dict) else fault(values)), "utf-8")
    with pytest.raises(UserError, match=f"^[^\n]*{re.escape(message)}[^\n]*$"):
        train("translation", init_from=broken, data=data, out=tmp_path / "run", **BRIEF)
    assert not (tmp_path / "run").exists()
    if "bert" in message:
        assert cli("predict", broken).refusal().endswith("a model of Hugging Face (bert), not a run\n")


def test_notes_and_what_is_no_run(folder, data, tmp_path, start, cli):
    change(folder / "generation_config.json", num_beams=6)
    done = start(folder, "--max-steps", "1", "--target", "de")
    assert "a Marian model, en to de; its tokens and weights as they are" in done.err
    assert "2 language codes such as >>deu<<, >>nld<<: each source text begins with one of them" in done.err
    assert "6 beams are not part of a run; decode with --beam 6" in done.err
    refusal = cli("predict", folder).refusal()
    assert "a model of Hugging Face (marian), not a run; a training with --init-from makes a run of it" in refusal
    with pytest.raises(UserError, match="is a model of pairs, and lm trains models of texts"):
        train("lm", init_from=folder, data=data, out=tmp_path / "lm")
