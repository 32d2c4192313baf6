"""A run directory gives back what was put into it, and names what is broken; old and newer formats."""

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from selfattn import load
from selfattn.cli.config import read_config
from selfattn.codec import read_json, write
from selfattn.errors import UserError
from selfattn.files import write_atomically
from selfattn.models.build import build
from selfattn.models.families import EncoderDecoderConfig, TransformerConfig
from selfattn.runs.directory import CHECKPOINT, RunDirectory
from selfattn.runs.evaluate import evaluate_run
from selfattn.runs.record import RunConfig, RunRecord, commit, machine, versions
from selfattn.runs.train import train
from selfattn.tokenizers.listed import CharTokenizer
from selfattn.tokenizers.load import load_tokenizer
from selfattn.training.checkpoint import CheckpointFile, digest_of
from selfattn.training.config import TrainingConfig
from selfattn.training.observer import EpochReport

STACK = TransformerConfig(dim=8, num_heads=2, ffn_dim=11)
MODEL = EncoderDecoderConfig(encoder=STACK, decoder=STACK, share_embeddings=True, tie_output=True)
DATA = {"kind": "embedded", "locales": ["en_US"]}
CONFIG = RunConfig("dates", "transformer", MODEL, TrainingConfig(seed=5, betas=(0.8, 0.9)), DATA, 22)
TOKENIZER = CharTokenizer(["0123456789-/ é"])
MACHINE = {"cores": 2, "memory": None}
RECORD = RunRecord("running", "2026-11-22T10:00:00+00:00", "test", 5, 7, 3, 0.5, {"torch": "2"}, MACHINE)
REPORT = EpochReport(1, 2, 3, 4.0, 5.0, 6.0, 7.0, 8.0, {"exact_match": 0.5})


def new_model(seed=0):
    return build(CONFIG.model, vocab_size=len(TOKENIZER), pad_id=0, seed=seed)


@pytest.fixture
def run(tmp_path):
    directory = RunDirectory.create(tmp_path / "some" / "run", CONFIG, TOKENIZER, RECORD)
    directory.save_weights(new_model())
    directory.write_metrics([REPORT])
    return directory


def test_everything_comes_back(run):
    again = RunDirectory(run.path)
    assert again.config() == CONFIG
    assert again.tokenizer().characters == TOKENIZER.characters
    assert again.metrics() == [REPORT]
    assert replace(again.record(), files={}) == RECORD
    saved, loaded = new_model(0), new_model(1)
    again.load_weights(loaded)
    assert all(torch.equal(loaded.state_dict()[name], weight) for name, weight in saved.state_dict().items())
    # Tied weights are one tensor before and after, and stand in the file once.
    assert loaded.decoder.output.weight is loaded.decoder.embed.tokens.weight
    assert len(load_file(run.path / "model.safetensors")) == len(saved.state_dict()) - 2
    files = "config.json metrics.jsonl model.safetensors run.json tokenizer"
    assert sorted(path.name for path in run.path.iterdir()) == files.split()


def test_a_run_that_is_read_while_it_trains_is_not_called_damaged(run, monkeypatch):
    """Between the reading of the record and that of the file, a training replaces both."""
    read, other = RunDirectory.record, RunDirectory(run.path)
    is_first = True

    def record(self):
        nonlocal is_first
        before = read(self)
        if self is run and is_first:
            is_first = False
            other.save_weights(new_model(3))
            other.save_weights(new_model(4))
        return before

    monkeypatch.setattr(RunDirectory, "record", record)
    run.load_weights(new_model())
    assert not is_first
    (run.path / "model.safetensors").write_bytes(b"x")
    with pytest.raises(UserError, match=r"model\.safetensors: was changed or damaged"):
        run.load_weights(new_model())


def test_a_write_that_fails_leaves_the_old_file_and_no_other(tmp_path):
    path = tmp_path / "x.json"
    write(path, {"a": 1})

    def fails(temporary):
        temporary.write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_atomically(path, fails)
    assert read_json(path, advice="") == {"a": 1}
    assert os.listdir(tmp_path) == ["x.json"]
    with pytest.raises(ValueError, match="not JSON compliant"):
        write(path, {"a": float("nan")})
    assert read_json(path, advice="") == {"a": 1}


def test_the_record_of_versions_and_machine_is_filled():
    assert all(versions().values())
    found = machine()
    assert (found["threads"], found["cores"] >= 1) == (torch.get_num_threads(), True)
    assert commit() is None or len(str(commit())) >= 7


# Files of version 0.1.0 load, answer and resume; what a newer version wrote is refused in one line

FORMATS = Path(__file__).parents[1] / "fixtures/formats"
SIZES = ("encoder.dim=8", "decoder.dim=8", "encoder.ffn_dim=16", "decoder.ffn_dim=16", "encoder.dropout=0.2")
TRAINING = {"items_per_epoch": 200, "epochs": 3, "validation_items": 20, "batch_size": 32, "validate_every": 5}


def test_runs_on_dates_and_on_texts_load_and_answer():
    run = load(FORMATS / "run-dates", device="cpu")
    assert (run.config.preset, run.config.training.average, run.config.plugins) == ("transformer", "ema", {})
    assert {parameter.device.type for parameter in run.model.parameters()} == {"cpu"}
    assert len(run.predict(["November 13, 2008", "11/13/08"])) == 2
    record = RunDirectory(FORMATS / "run-dates").record()
    assert (record.status, record.parameters, record.machine["cores"], record.resumed) == ("interrupted", 3086, 2, ())
    of_texts = load(FORMATS / "run-lm")
    assert of_texts.predict(["line 1"])[0].startswith("line 1")
    assert RunDirectory(of_texts.path).record().commit is None


def test_an_interrupted_run_resumes_from_its_checkpoint(tmp_path):
    out = Path(shutil.copytree(FORMATS / "run-dates", tmp_path / "run"))
    settings = {"device": "cpu", "average": "ema", "set": SIZES, "resume": True}
    train("dates", model="transformer", out=out, **settings, **TRAINING)
    directory = RunDirectory(out)
    assert directory.record().status == "finished"
    reports = directory.metrics()
    assert [report.step for report in reports] == [5, 10, 15, 20, 21]
    assert [report.valid_loss for report in reports[2:]] == pytest.approx([3.6385, 3.5926, 3.5892], abs=2e-3)


def make_newer(path, key):
    """Make a file what a later version may write: another number, and an unknown field."""
    changes = {key: 9, "colour": "red"}
    if path.suffix == ".json":
        values = json.loads(path.read_text())
        values.pop("checksum", None)
        path.write_text(json.dumps(values | changes))
        return
    with safe_open(path, "pt") as file:
        values = json.dumps(json.loads(file.metadata()["selfattn"]) | changes)
    tensors = load_file(path)
    save_file(tensors, path, {"selfattn": values, "selfattn.sha256": digest_of(values, tensors)})


NEWER = {
    "run-dates/config.json": (lambda path: RunDirectory(path.parent).config(), "schema 9, this"),
    "tokenizer-char/char.json": (lambda path: load_tokenizer(path.parent), "version 9, this"),
    "tokenizer-subword/subword.json": (lambda path: load_tokenizer(path.parent), "version 9"),
    f"run-dates/{CHECKPOINT}": (lambda path: CheckpointFile(path).parse(path.read_bytes()), "version 9, this"),
}


@pytest.mark.parametrize("name", NEWER)
def test_what_a_newer_version_wrote_is_refused(tmp_path, name):
    path, (read, message) = Path(shutil.copytree(FORMATS, tmp_path / "formats")) / name, NEWER[name]
    make_newer(path, message.split()[0])
    with pytest.raises(UserError) as caught:
        read(path)
    assert str(caught.value).startswith(f"{path}: {message}")
    assert str(caught.value).endswith(": a newer selfattn wrote it; update selfattn")


@pytest.fixture
def old(tmp_path, monkeypatch):
    """A folder with runs of version 0.1.0 on files, and these files."""
    folder = Path(shutil.copytree(FORMATS, tmp_path / "formats"))
    monkeypatch.chdir(folder / "data")
    return folder


OLD_CORPUS = {
    "source": "en", "target": "de", "data": "train.tsv", "valid": "valid.tsv", "test": ("iid=iid.tsv", "gen=gen.tsv"),
    "keep_duplicates": True, "max_ratio": 4.0, "tokenizer": "characters", "max_steps": 4, "validate_every": 2,
}  # fmt: skip
OLD_FILES = {"data": "days.tsv", "columns": ("2", "3"), "max_steps": 2}
SMALL = {"model": "rnn-plain", "batch_size": 8, "validation_items": 5}
SMALL["set"] = ("encoder.hidden_dim=4", "decoder.hidden_dim=4")


def test_runs_on_files_are_tested_on_their_own_test_part(old):
    corpus = evaluate_run(load(old / "run-corpus"))
    assert (corpus["items"], corpus["data"], corpus["cut_off"]) == (6, "iid.tsv, test part", 6)
    assert corpus["metrics"]["character_error_rate"] == pytest.approx(2.25)
    with pytest.raises(UserError, match=r"days.tsv: no such file"):  # where it was trained on
        evaluate_run(load(old / "run-files"))
    dates = evaluate_run(load(old / "run-files"), Path("days.tsv"))  # the same content
    assert (dates["items"], dates["unseen"]["items"]) == (12, 12)
    with pytest.raises(UserError, match=r"`columns` 1,2: the run was trained on this file with 2,3"):
        evaluate_run(load(old / "run-files"), Path("days.tsv"), columns=("1", "2"))
    with pytest.raises(UserError, match=r"kept no options; its command was: selfattn train dates --model rnn-plain"):
        read_config(old / "run-files", ["train", "dates"])  # for another training


@pytest.mark.parametrize(("name", "task", "settings", "change", "reason"), [
    ("run-corpus", "translation", OLD_CORPUS, {"max_ratio": 5.0}, "begun with `max_ratio` = 4.0"),
    ("run-files", "dates", OLD_FILES, {"data": "train.tsv", "columns": ("1", "2")}, "begun with "),
])  # fmt: skip
def test_runs_on_files_resume_with_the_same_settings_alone(old, name, task, settings, change, reason):
    with pytest.raises(UserError, match=reason):
        train(task, out=old / name, resume=True, **settings | SMALL | change)
    assert train(task, out=old / name, resume=True, **settings | SMALL).config == load(old / name).config
