"""Exported to CTranslate2, a Transformer writes what it writes here; what the engine cannot hold is refused."""

import dataclasses
import json
import math
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from small_runs import words
from zoo import stack, transformer

from selfattn.codec import read, write
from selfattn.decoding.beam import beam_search
from selfattn.decoding.options import DecodingOptions
from selfattn.errors import UserError
from selfattn.exports.ctranslate2 import Ctranslate2Model, to_ctranslate2
from selfattn.exports.ctranslate2_engine import first_limit
from selfattn.files import sha256_of
from selfattn.models.build import build
from selfattn.models.families import PRESETS, EncoderDecoderConfig
from selfattn.runs.directory import RunDirectory
from selfattn.runs.load import load
from selfattn.runs.predictor import COMPARED, NOTE, Compared, open_compared, remember
from selfattn.tokenizers.listed import CharTokenizer

ctranslate2 = pytest.importorskip("ctranslate2", reason="needs the extra [ctranslate2]")


@pytest.fixture(scope="module")
def exported(runs, tmp_path_factory):
    return load(runs["transformer"].export("ctranslate2", tmp_path_factory.mktemp("exported") / "run"))


@pytest.fixture
def path(runs, tmp_path):
    """A run of its own for each test, beside which its export will lie."""
    return Path(shutil.copytree(runs["transformer"].path, tmp_path / "run"))


def test_predict_exports_once(runs, cli, path, capsys):
    text = "november 13, 2008"
    for err in (f"{path}-ctranslate2: exported for ctranslate2, for this and later calls\n", ""):
        done = cli("predict", path, "--engine", "ctranslate2", stdin=f"{text}\n")
        expected = runs["transformer"].predict([text])[0] + "\n"
        assert (done.out, done.err.partition("1 of 1 output")[0]) == (expected, err)
    run = load(path, engine="ctranslate2")
    run.reference = runs["rnn-attention"]
    for err in (f"{path}-ctranslate2: outputs unlike those of torch: 1 of the first 1\n", ""):
        run.predict([text])
        assert capsys.readouterr().err == err
    RunDirectory(path).update(train_seconds=0.5)
    refusal = cli("predict", path, "--engine", "ctranslate2", stdin="a\n").refusal()
    assert "run-ctranslate2: was exported from another training" in refusal
    with pytest.raises(UserError, match="engine: expected one of torch, onnx, ctranslate2, got 'jax'"):
        load(path, engine="jax")


# A program that predicts with each beam, and says which large packages it has imported beside those of the engine,
# of which old versions import torch themselves.
PREDICT = """import io, sys, ctranslate2
before, text = set(sys.modules), sys.stdin.buffer.read()
from selfattn.cli.main import main
for beam in "13":
    sys.stdin = io.TextIOWrapper(io.BytesIO(text))
    main([*sys.argv[1:], "--beam", beam])
large = {"torch", "numpy", "transformers", "datasets", "scipy", "einops", "babel", "safetensors.torch"}
assert not large & (set(sys.modules) - before)
"""


def test_predict_with_an_export_needs_no_torch(runs, path):
    texts = [pair.source for pair in runs["transformer"].task.held_out().pairs[:20]]
    expected = []
    for beam in (1, 3):
        expected += load(path, engine="ctranslate2").predict(texts, beam=beam)  # and compares with torch
    command = [sys.executable, "-c", PREDICT, "predict", path, "--engine", "ctranslate2"]
    done = subprocess.run(command, input="\n".join(texts), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == expected
    assert expected == [text for beam in (1, 3) for text in runs["transformer"].predict(texts, beam=beam)]


def test_outputs_are_compared_with_those_of_torch_until_enough_were_alike(runs, path, monkeypatch):
    texts = [pair.source for pair in runs["transformer"].task.held_out().pairs[:COMPARED]]
    for part in (["", *texts[:5]], texts[5:]):  # nothing is decoded for an empty text
        assert open_compared(path, 1) is None
        load(path, engine="ctranslate2").predict(part)
    opened = open_compared(path, 1)
    assert opened.predict(texts) == runs["transformer"].predict(texts)
    assert opened.config.output_limit(30) == runs["transformer"].config.output_limit(30)
    other = load(path, engine="ctranslate2")
    other.reference = runs["rnn-attention"]
    other.predict(texts, beam=2)
    assert open_compared(path, 2) is None  # what differed is not remembered
    with monkeypatch.context() as patch:
        patch.setattr("selfattn.runs.predictor.cpu_name", lambda: "another processor")
        assert open_compared(path, 1) is None
    exported = Path(f"{path}-ctranslate2")
    for file in (exported / "config.json", exported / "ctranslate2" / "model.bin", exported / NOTE, path / "run.json"):
        content = file.read_bytes()
        file.write_bytes(content[:-9])
        assert open_compared(path, 1) is None, file
        file.write_bytes(content)
    assert open_compared(path, 1) is not None


@pytest.mark.parametrize("beam", [1, 5])
def test_an_exported_run_answers_as_the_run(runs, exported, beam):
    run = runs["transformer"]
    texts = ["", *(pair.source for pair in run.task.held_out().pairs[:40])]
    expected, found = (one.decode(texts, DecodingOptions(beam=beam)) for one in (run, exported))
    assert [own[0].text for own in found] == [own[0].text for own in expected]
    assert [own[0].finished for own in found] == [own[0].finished for own in expected]
    assert (found[0][0].score, expected[0][0].score) == (None, None)  # of an empty text
    scores = [torch.tensor([own[0].log_probability for own in outputs[1:]]) for outputs in (found, expected)]
    torch.testing.assert_close(*scores, rtol=1e-4, atol=1e-4)


def test_texts_alone_need_no_scores(exported, monkeypatch):
    texts = ["", *(pair.source for pair in exported.task.held_out().pairs[:9])]
    expected = [own[0].text for own in exported.decode(texts)]
    translate = exported.model.engine.translate_batch

    def unscored(*arguments, return_scores, **options):
        assert not return_scores
        return translate(*arguments, return_scores=return_scores, **options)

    monkeypatch.setattr(exported.model, "engine", SimpleNamespace(translate_batch=unscored))
    assert exported.predict(texts) == expected
    assert all(math.isnan(own[0].score) for own in exported.decode(texts, scored=False)[1:])


def test_a_cut_off_hypothesis_comes_after_a_finished_one(exported, monkeypatch):
    def translate(sources, num_hypotheses, **options):
        hypotheses = [["5", "6"], ["7", "<eos>"], ["8", "<eos>"]][:num_hypotheses]
        return [SimpleNamespace(hypotheses=hypotheses, scores=[-0.1, -0.5, -0.9][:num_hypotheses]) for _ in sources]

    monkeypatch.setattr(exported.model, "engine", SimpleNamespace(translate_batch=translate))
    ((hypothesis,),) = exported.model.hypotheses([[5, 2]], DecodingOptions(beam=3), [2])
    assert (hypothesis.ids, hypothesis.score, hypothesis.finished) == ([7], -0.5, True)


def test_the_command_exports_and_predicts(runs, cli, tmp_path):
    run = runs["transformer"]
    before = {name: weight.clone() for name, weight in run.model.state_dict().items()}
    small = tmp_path / "int8"
    assert cli("export", run.path, "--to", "ctranslate2", "--quantize", "int8", "--out", small).code == 0
    run.export("ctranslate2", tmp_path / "whole", quantize="int8")
    assert all(torch.equal(weight, before[name]) for name, weight in run.model.state_dict().items()), "quantised ours"
    folders = (small, run.export("ctranslate2", tmp_path / "float"))
    quantised, plain = ((folder / "ctranslate2" / "model.bin").stat().st_size for folder in folders)
    assert quantised < plain
    done = cli("predict", small, stdin="1 May 1999\n")
    assert (done.code, done.out.count("\n")) == (0, 1)


OTHERWISE = "CTranslate2 computes it in another way"


NO_STEPS = "has no steps and no attention"
REFUSED = {
    "predict RUN --engine ctranslate2 --sample": f"--sample: {OTHERWISE}",
    "predict RUN --engine ctranslate2 --length-penalty 1 --beam 3": f"--length-penalty: {OTHERWISE}",
    "predict RUN --engine ctranslate2 --n-best 2 --beam 3": f"--n-best: {OTHERWISE}",
    "predict RUN --engine ctranslate2 --beam 2 --prefix 2": f"--prefix with a beam: {OTHERWISE}",
    "predict RUN --engine ctranslate2 --align": "--align goes with --engine torch or onnx",
    "predict RNN --engine ctranslate2": "export this model to onnx",
    "attention EXPORTED May": NO_STEPS,
    "score EXPORTED --data PAIRS": NO_STEPS,
}


@pytest.mark.parametrize("line", REFUSED)
def test_what_the_engine_does_not_or_otherwise_is_refused(line, runs, exported, path, cli, tmp_path):
    (tmp_path / "pairs.tsv").write_text("1 May 1999\t1999-05-01\n")
    places = {
        "RUN": path,
        "RNN": runs["rnn-attention"].path,
        "EXPORTED": exported.path,
        "PAIRS": tmp_path / "pairs.tsv",
    }
    assert REFUSED[line] in cli(*words(line, **places), stdin="a\n").refusal()
    assert not Path(f"{path}-ctranslate2").exists()


def test_an_input_without_positions_is_refused(exported):
    with pytest.raises(UserError, match="transformer: "):
        exported.predict(["1" * 2000])


def _convert(config, folder, end=0.0):
    tokenizer = CharTokenizer("abcdefghij")
    model = build(config, vocab_size=len(tokenizer), pad_id=0, seed=0).eval()
    with torch.no_grad():  # so that outputs differ, and differences would be seen
        for name, weight in model.named_parameters():
            weight.add_(torch.randn(weight.shape) * 0.3)
            if name == "decoder.output.bias":
                weight[2] += end
    to_ctranslate2(model, config, tokenizer, folder, lengths=(31, 13))
    return model, tokenizer


@pytest.mark.parametrize("changes", [
    {"norm_first": False}, {"activation": "gelu"}, {"activation": "silu", "scale_embedding": False},
    {"sinusoid_layout": "halves"}, {"position": "learned"},
], ids=str)  # fmt: skip
def test_settings_that_it_holds(changes, tmp_path):
    encoder, decoder = (stack(**changes, num_layers=layers) for layers in (2, 1))
    model, _ = _convert(EncoderDecoderConfig(encoder=encoder, decoder=decoder), tmp_path)
    sources = [[4, 5, 6, 2], [7, 2], [4, 4, 9, 8, 11, 12, 2]]
    found = Ctranslate2Model(tmp_path).hypotheses(sources, DecodingOptions(beam=3), [13] * 3)
    for source, own in zip(sources, found, strict=True):
        tokens = torch.tensor([source])
        expected = beam_search(model, tokens, tokens > 0, bos_id=1, eos_id=2, max_length=13, beam_size=3)[0][0]
        assert own[0].ids == expected.ids
        assert own[0].log_probability == pytest.approx(expected.log_probability, abs=1e-4)


@pytest.mark.parametrize("beam", [1, 3])
def test_outputs_that_end_late_or_never_are_those_of_one_search(beam, tmp_path):
    """Some end before the first limit, some behind it, some not at all; a line's limit is its own."""
    torch.manual_seed(5)
    model, _ = _convert(transformer(), tmp_path, end=1.0)
    sources, limits = [[token, 2] for token in range(4, 14)], [8, 3, 11, 8, 8, 3, 11, 8, 8, 8]
    assert first_limit(sources, 8) == 4
    tokens = torch.tensor(sources)
    expected = beam_search(model, tokens, tokens > 0, bos_id=1, eos_id=2, max_length=limits, beam_size=beam)
    found = Ctranslate2Model(tmp_path).hypotheses(sources, DecodingOptions(beam=beam), limits)
    assert [(own.ids, own.finished) for (own,) in found] == [(own.ids, own.finished) for (own,) in expected]
    assert [own.score for (own,) in found] == pytest.approx([own.score for (own,) in expected], abs=1e-4)
    ends = {(own.finished, len(own.ids) >= 4) for (own,) in found}
    assert beam == 1 or ends >= {(True, False), (True, True), (False, True)}


def forged(run, content):
    """Put other settings into an export, with checksums and the note on the comparison as if they were its own."""
    export = Path(f"{run}-ctranslate2")
    (export / "config.json").write_text(content)
    record = RunDirectory(export).record()
    files = {**record.files, "config.json": (sha256_of(export / "config.json"),)}
    write(export / "run.json", dataclasses.replace(record, files=files), checksum=True)
    note = read(Compared, export / NOTE, advice="")
    (export / NOTE).unlink()
    remember(run, export, note.limits, 1, COMPARED)


FORGERIES = [
    {"schema": 99}, {"schema": None}, {"task": 3}, {"task": None}, {"preset": ["transformer"]}, {"max_length": "22"},
    {"max_length": None}, {"longest_source": 1.5}, {"data": []}, {"training": {"epochs": "ten"}}, {"metric": 5},
    {"freeze": "decoder"}, {"init_from": {}}, {"embeddings": "none"}, {"plugins": []}, {"unheard_of": 1}, {"model": []},
]  # fmt: skip


def test_forged_settings_are_refused_without_torch_as_load_refuses_them(runs, path):
    load(path, engine="ctranslate2").predict([pair.source for pair in runs["transformer"].task.held_out().pairs[:9]])
    content = Path(f"{path}-ctranslate2", "config.json").read_text()
    forged(path, content)
    assert open_compared(path, 1) is not None, "the test forges well"
    for changes in FORGERIES:
        forged(path, json.dumps(json.loads(content) | changes))
        with pytest.raises(UserError):
            RunDirectory(Path(f"{path}-ctranslate2")).config()
        assert open_compared(path, 1) is None, changes


UNHELD = {
    "decoder-only": "holds an encoder and a decoder of Transformer blocks",
    "transformer-rope": "position rotary",
    "transformer-gqa": "num_kv_heads 2",
}


@pytest.mark.parametrize("name", UNHELD)
def test_what_it_cannot_hold_is_refused_with_the_reason(name, tmp_path):
    with pytest.raises(UserError, match=UNHELD[name]):
        _convert(PRESETS[name].config, tmp_path)
    assert not list(tmp_path.iterdir())
