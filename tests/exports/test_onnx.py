"""Exported to ONNX and computed by onnxruntime, a model gives what torch gives."""

import json
import shutil
from itertools import chain
from pathlib import Path

import pytest
import torch
from documented import ALONE, program, run_in
from small_runs import accept_changes
from zoo import VARIANTS, VOCAB

import selfattn
from selfattn.decoding.options import DecodingOptions
from selfattn.errors import UserError
from selfattn.evaluation.metrics import ExactMatch
from selfattn.models.build import build
from selfattn.models.families import PRESETS
from selfattn.runs.heads import score_heads
from selfattn.runs.load import load

pytest.importorskip("onnx", reason="needs the extra [onnx]")
pytest.importorskip("onnxscript", reason="needs the extra [onnx]")
onnxruntime = pytest.importorskip("onnxruntime", reason="needs the extra [onnx]")

pytestmark = pytest.mark.slow

TEXTS = ["november 13, 2008", "1 May 1999", "", "Sep 3, 01", "friday, 20 june 1997"]


@pytest.fixture(scope="module", params=["transformer", "rnn-attention"])
def pair(request, runs, tmp_path_factory):
    """A run and what was exported from it."""
    run = runs[request.param]
    return [run, load(run.export("onnx", tmp_path_factory.mktemp("onnx") / request.param))]


def test_an_exported_run_answers_as_the_run(pair, close):
    assert not list(pair[1].path.rglob("*.safetensors"))
    search, drawing = DecodingOptions(beam=3, n_best=2, length_penalty=0.6), DecodingOptions(sample=True, seed=7)
    for options in (DecodingOptions(), search, drawing):
        expected, found = (run.decode(TEXTS, options) for run in pair)
        assert [[one.text for one in own] for own in found] == [[one.text for one in own] for own in expected]
        scores = [[one.score for one in chain.from_iterable(outputs)] for outputs in (found, expected)]
        assert [score is None for score in scores[0]] == [score is None for score in scores[1]]  # of empty texts
        close(*(torch.tensor([score for score in of_run if score is not None]) for of_run in scores))
    assert pair[1].predict(["november 13, 2008"]) == pair[0].predict(["november 13, 2008"])


def test_the_documented_program_answers_without_this_package(pair, tmp_path):
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "transformer-onnx").symlink_to(pair[1].path)
    assert run_in(tmp_path, ALONE + program("export.md", "onnx", "clean", "characters")) == pair[1].predict([TEXTS[0]])


def test_the_graphs_give_the_attention_weights(pair, close):
    run, exported = pair
    source = torch.tensor([[*run.tokenizer.source.encode("1 May 1999"), run.tokenizer.eos_id]])
    target_in = torch.tensor([[run.tokenizer.bos_id, *run.tokenizer.target.encode("1999")]])
    mask = torch.ones_like(source, dtype=torch.bool)
    expected = run.model.attention_maps(source, target_in, source_mask=mask)
    encoder, step = (
        onnxruntime.InferenceSession(str(exported.path / name), providers=["CPUExecutionProvider"])
        for name in ("encoder.onnx", "step.onnx")
    )
    names = [one.name for one in encoder.get_outputs()]
    made = dict(zip(names, encoder.run(None, {"source": source.numpy(), "source_mask": mask.numpy()}), strict=True))
    for number, weights in enumerate(expected.encoder):
        close(torch.tensor(made[f"weights.encoder.layers.{number}.self_attn"]), weights)
    state = {name: value for name, value in made.items() if name.startswith("state.")}
    cross = next(one.name for one in step.get_outputs() if one.name.endswith("cross_attn"))
    names = [one.name for one in step.get_outputs()]
    for place in range(target_in.shape[1]):
        found = dict(zip(names, step.run(None, {"token": target_in[:, place].numpy()} | state), strict=True))
        close(torch.tensor(found[cross])[:, :, 0], expected.cross[0][:, :, place])
        state |= {name: found[f"next.{name}"] for name in state if f"next.{name}" in found}


def test_the_command_exports_and_predicts(pair, cli, tmp_path):
    run, exported = pair
    done = cli("predict", exported.path, stdin="november 13, 2008\n\n")
    assert (done.code, done.out) == (0, run.predict(["november 13, 2008"])[0] + "\n\n")
    for path, more, message in (
        (exported.path, ["--out", tmp_path / "b"], "is an exported run already"),
        (run.path, ["--out", exported.path], "choose another --out\n"),
        (run.path, ["--quantize", "int8", "--out", tmp_path / "c"], "--quantize is for ctranslate2"),
    ):
        assert message in cli("export", path, "--to", "onnx", *more).refusal()
    attention = cli("attention", exported.path, "1 May 1999")
    assert (attention.code, attention.out) == (0, cli("attention", run.path, "1 May 1999").out)
    refusal = cli("attention", exported.path, "1 May 1999", "--save", tmp_path / "map.json").refusal()
    assert "needs gradients, which an export lacks; load the run itself" in refusal


def test_heads_are_those_of_the_run(pair):
    with pytest.raises(UserError, match="an exported run has no heads to leave out; take the run it was exported from"):
        score_heads(pair[1], [], ExactMatch())


def test_damage_is_found(pair, tmp_path):
    copy = Path(shutil.copytree(pair[1].path, tmp_path / "copy"))
    assert load(copy).predict(["1 May 1999"]) == pair[0].predict(["1 May 1999"])
    step = copy / "step.onnx"
    step.write_bytes(step.read_bytes()[:-9])
    with pytest.raises(UserError, match=r"step\.onnx: was changed or damaged"):
        load(copy)
    accept_changes(copy)
    with pytest.raises(UserError, match=r"step\.onnx: onnxruntime cannot read it"):
        load(copy)


def test_files_of_another_export_are_refused(pair, tmp_path):
    """A run.json lists the model files of its run; ONNX files beside it are not that run's."""
    copy = Path(shutil.copytree(pair[0].path, tmp_path / "copy"))
    for name in ("encoder.onnx", "step.onnx"):
        shutil.copy(pair[1].path / name, copy)
    with pytest.raises(UserError, match=r"encoder\.onnx: is not a file of this run"):
        load(copy)


def test_the_record_goes_along(pair):
    kept, copied = (json.loads((run.path / "run.json").read_text("utf-8")) for run in pair)
    assert set(copied["files"]) == {"encoder.onnx", "step.onnx", "config.json", *(n for n in kept["files"] if "/" in n)}
    for name in ("files", "checksum"):
        del kept[name], copied[name]
    assert copied == kept


OTHERS = ["peeky both", "bahdanau lstm deep", "textbook both deep more layers", "rnn + transformer"]


@pytest.mark.parametrize("name", [*OTHERS, *(f"preset {preset}" for preset in PRESETS)])
def test_every_preset(name, tmp_path, close):
    from selfattn.exports.onnx import OnnxModel, to_onnx

    model = build(VARIANTS[name], vocab_size=VOCAB, pad_id=0, seed=0).eval()
    if "delta" in name:
        with pytest.raises(UserError, match="onnx: the delta rule solves systems of equations"):
            to_onnx(model, tmp_path)
        return
    to_onnx(model, tmp_path)
    exported = OnnxModel(tmp_path)
    for rows, length, steps in ((1, 1, 1), (1, 9, 6), (5, 11, 12), (2, 3, 2)):
        source, target_in = torch.randint(4, VOCAB, (rows, length)), torch.randint(4, VOCAB, (rows, steps))
        lengths = torch.randint(1, length + 1, (rows, 1))
        lengths[0] = length
        mask = torch.arange(length) < lengths
        with torch.inference_mode():
            close(exported(source, target_in, source_mask=mask), model(source, target_in, source_mask=mask))
            expected = model.attention_maps(source, target_in, source_mask=mask)
            maps = exported.attention_maps(source, target_in, source_mask=mask)
            # Linear attention keeps no keys in its state, so a decoding step has no weights to give.
            of_decoder = () if "linear" in name else expected.decoder
            of_source = () if "decoder-only-linear" in name else expected.cross
            of_encoder = () if "decoder-only-linear" in name else expected.encoder
            # What stands at padding is read by nobody.
            for ours, theirs, keys in ((maps.cross, of_source, mask), (maps.decoder, of_decoder, None)):
                assert len(ours) == len(theirs)
                for weights, right in zip(ours, theirs, strict=True):
                    seen = weights if keys is None else weights * keys[:, None, None]
                    close(seen, right)
            for weights, right in zip(maps.encoder, of_encoder, strict=True):
                close(weights * mask[:, None, :, None], right * mask[:, None, :, None])


def test_a_language_model_continues(tmp_path):
    text = tmp_path / "text.txt"
    animals, places = ("cat", "dog", "hen", "pig", "cow"), ("mat", "log", "hill", "wall")
    text.write_text("".join(f"the {animal} sat on the {place}\n" for animal in animals for place in places))
    training = {"epochs": 1, "items_per_epoch": 64, "batch_size": 16, "validation_items": 4, "context": 16}
    run = selfattn.train("lm", data=text, out=tmp_path / "run", set=("stack.dim=16", "stack.num_heads=2"), **training)
    exported = load(run.export("onnx", tmp_path / "onnx"))
    for texts in (["the ", "", "the dog sat on"], [""]):
        assert exported.predict(texts) == run.predict(texts)
