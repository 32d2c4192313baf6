"""A training is resumed with the options and files that it was begun with: what changes a weight is refused by name.

Every file that a result depends on is known by its content, also in a comparison.
"""

import json
import shutil
from dataclasses import fields
from functools import partial
from pathlib import Path

import pytest

from selfattn.comparison import compare as compare_module
from selfattn.comparison import testing
from selfattn.comparison.trainings import TrainingRunner
from selfattn.errors import UserError
from selfattn.registry import TASKS
from selfattn.runs.directory import RunDirectory
from selfattn.runs.train import TrainOptions, train
from selfattn.tasks.dates import DateOptions
from selfattn.tasks.lm import TextOptions
from selfattn.tasks.recall import RecallOptions
from selfattn.tasks.translation import TranslationOptions
from selfattn.tokenizers.load import train_tokenizer
from selfattn.training.config import TrainingConfig

NO_WEIGHT = ("out", "keep", "allow_unknown", "resume", "device", "threads", "tensorboard")
SMALL = ("encoder.hidden_dim=4", "decoder.hidden_dim=4")
LENGTH = {"max_steps": 2, "validate_every": 1, "batch_size": 8, "validation_items": 4, "items_per_epoch": 16}
PAIRS = {"source": "en", "target": "de", "data": ("a.tsv", "b.tsv"), "tokenizer": "bpe"}

# The task, the options that a run was begun with, and another value for each option: of the training ...
TRAINING = {
    "seed": 1, "epochs": ({"epochs": 2, "max_steps": None, "items_per_epoch": 16}, 3), "max_steps": 3,
    "items_per_epoch": ({"epochs": 1, "max_steps": None, "items_per_epoch": 16}, 24), "batch_size": 9,
    "max_tokens": 99, "accumulate": 2, "lr": 0.1, "schedule": "constant", "warmup": 0.5, "warmup_steps": 1,
    "weight_decay": 0.5, "betas": (0.5, 0.5), "clip_norm": 9.0, "label_smoothing": 0.3, "r_drop": 0.5,
    "teacher_forcing": 0.5, "teacher_forcing_end": 0.5, "precision": "bfloat16", "average": "ema",
    "ema_decay": ({"average": "ema"}, 0.5),
    "average_last": ({"average": "last", "max_steps": 8, "average_last": 1}, 2), "validation_items": 5,
    "validate_every": 2, "patience": 3, "target_exact_match": 0.5,
    "look_items": ({"target_exact_match": 1.0, "look_items": 2}, 3),
    "guided": ({"model": "rnn-attention", "guided": 0.05}, 0.1),
}  # fmt: skip
# ... of every command that trains ...
MODEL = {
    "model": "rnn-attention", "quick": True, "init_from": Path("start"), "embeddings": Path("vectors.txt"),
    "source_embeddings": Path("vectors.txt"), "target_embeddings": Path("vectors.txt"), "freeze": ("encoder",),
    "links": ({"model": "rnn-attention", "guided": 0.05, "links": ("links.tsv",)}, ("other-links.tsv",)),
    "set": (*SMALL, "encoder.dropout=0.5"), "metric": "character_error_rate",
}  # fmt: skip
# ... and of each task.
ON_FILE = {"data": ("a.tsv",)}
TASK = {
    "dates": {
        "locales": ("ko_KR",), "withhold_years": ("1950",), "data": (ON_FILE, ("b.tsv",)),
        "columns": (ON_FILE, ("2", "1")), "encoding": (ON_FILE, "latin-1"),
    },
    "recall": {"problem": "copy", "length": 48, "test_length": 96, "pairs": 4, "vocabulary": 200},
    "lm": {
        "data": "b.tsv", "valid": ({"validation_items": None}, "valid.tsv"), "encoding": "latin-1", "context": 20,
        "tokenizer": "words", "vocab_size": ({"tokenizer": "bpe", "vocab_size": 290}, 288),
    },
    "translation": {
        "source": "fr", "target": "nl", "data": ("b.tsv", "a.tsv"), "weights": (3.0, 1.0), "temperature": 2.0,
        "valid": ("valid.tsv",), "test": ("valid.tsv",), "tag": ({"data": ("tags.tsv",)}, "3"),
        "hub": {"hub": "hub", "data": ()}, "columns": ("2", "1"), "encoding": "latin-1",
        "streaming": ({"valid": ("valid.tsv",), "test": ("test.tsv",)}, True), "held_out": 7, "split_seed": 1,
        "max_characters": 20, "max_ratio": 2.0, "keep_overlap": True, "keep_duplicates": True, "tokenizer": "unigram",
        "source_tokenizer": "words", "target_tokenizer": "words", "vocab_size": 288, "separate": True,
        "keep_symbols": "symbols.txt", "sampling": 0.2,
    },
}  # fmt: skip
OF_TEXTS = {"data": "a.tsv", "model": "decoder-only-rnn", "set": ("stack.hidden_dim=4",)}
BEGUN = {"dates": {}, "recall": {}, "lm": OF_TEXTS, "translation": PAIRS}
CASES = [("dates", name, change) for name, change in (TRAINING | MODEL).items()]
CASES += [(task, name, change) for task, changes in TASK.items() for name, change in changes.items()]


@pytest.fixture(autouse=True)
def _few_pairs(monkeypatch):
    """Draw few pairs for a vocabulary; a fresh model has little time to know examples by heart."""
    monkeypatch.setattr("selfattn.data.splits._SAMPLE", 100)
    monkeypatch.setattr(testing, "overfitting", partial(testing.overfitting, steps=10))


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with files that the options name."""
    folder = tmp_path_factory.mktemp("options")
    for name, first in (("a", 100), ("b", 300), ("valid", 500), ("test", 600)):
        lines = [f"word {number}\tWort {number}\n" for number in range(first, first + 120)]
        (folder / f"{name}.tsv").write_text("".join(lines))
    (folder / "tags.tsv").write_text("".join(f"word {n}\tWort {n}\t{n % 2}\n" for n in range(120)))
    (folder / "hub").mkdir()
    records = [json.dumps({"en": f"word {number}", "de": f"Wort {number}"}) + "\n" for number in range(120)]
    (folder / "hub/train.jsonl").write_text("".join(records))
    (folder / "vectors.txt").write_text(f"1 {' '.join(['0.5'] * 32)}\n")
    (folder / "symbols.txt").write_text("ord\n")
    (folder / "links.tsv").write_text("May 1, 2001\t2001-05-01\t1-1 2-1 3-1\n")
    (folder / "other-links.tsv").write_text("May 2, 2001\t2001-05-02\t1-1 2-1 3-1\n")
    return folder


def test_every_option_of_a_training_is_tried():
    assert {*MODEL, *NO_WEIGHT, "seed"} == {field.name for field in fields(TrainOptions)}
    assert {*TRAINING} == {field.name for field in fields(TrainingConfig)}
    kinds = {"dates": DateOptions, "recall": RecallOptions, "lm": TextOptions, "translation": TranslationOptions}
    for task, kind in kinds.items():
        assert TASKS[task].Options is kind
        # A configuration of a dataset is kept as all options are; trying one needs a dataset with several.
        assert {*TASK[task]} == {field.name for field in fields(kind)} - {"hub_config"}


@pytest.fixture(scope="module")
def begin():
    """Train a run with these options, once, in the folder; it counts as unfinished."""
    runs = {}

    def begun(task, settings):
        out = runs.setdefault(repr((task, settings)), Path(f"run{len(runs)}"))
        if not out.exists():
            train(task, out=out, **settings)
            RunDirectory(out).update(status="interrupted")
        return out

    return begun


@pytest.mark.parametrize(("task", "name", "change"), CASES, ids=[f"{task}-{name}" for task, name, _ in CASES])
def test_another_value_is_refused_by_name(place, begin, monkeypatch, task, name, change):
    monkeypatch.chdir(place)
    begun, value = change if isinstance(change, tuple) and isinstance(change[0], dict) else ({}, change)
    settings = {"model": "rnn-plain", "set": SMALL} | LENGTH | BEGUN[task] | begun
    settings = {option: given for option, given in settings.items() if given is not None}
    if name == "init_from":
        value = begin("dates", settings)
        settings |= {"seed": 3}
    out = begin(task, settings)
    with pytest.raises(UserError) as refused:
        train(task, out=out, resume=True, **settings | (value if isinstance(value, dict) else {name: value}))
    assert "begun with " in str(refused.value)


def test_paths_are_kept_as_typed_and_files_are_known_by_their_content(place, begin, tmp_path, monkeypatch):
    monkeypatch.chdir(place)
    settings = LENGTH | OF_TEXTS | {"valid": "valid.tsv"}
    del settings["validation_items"]
    runs = [begin("lm", settings), begin("dates", {"model": "rnn-plain", "set": SMALL} | LENGTH | ON_FILE)]
    assert not any(str(place) in (run / name).read_text() for run in runs for name in ("config.json", "run.json"))
    shutil.copytree(runs[0], tmp_path / "run")
    shutil.copy("a.tsv", tmp_path)
    shutil.copy("valid.tsv", tmp_path / "moved.tsv")
    shutil.copy("b.tsv", tmp_path / "valid.tsv")  # as many lines
    monkeypatch.chdir(tmp_path)
    RunDirectory(Path("run")).update(status="finished")
    again = train("lm", out="run", resume=True, **settings | {"data": "./a.tsv", "valid": "moved.tsv"})
    assert again.config.task_options["valid"] == "valid.tsv"
    RunDirectory(Path("run")).update(status="interrupted")
    with pytest.raises(UserError, match=r"run: begun with another content of valid\.tsv; restore the file"):
        train("lm", out="run", resume=True, **settings)


@pytest.mark.parametrize("name", ["valid.tsv", "test.tsv", "spm"])
def test_a_sealed_comparison_refuses_what_was_replaced(place, tmp_path, monkeypatch, name):
    """A text, or a tokenizer, when the first training has ended."""
    for file in place.glob("*.tsv"):
        shutil.copy(file, tmp_path)
    monkeypatch.chdir(tmp_path)
    train_tokenizer("bpe", ["word 1 Wort 2"], 280).save("spm")
    run = TrainingRunner.run

    def run_and_replace(self, trial, reporter):
        run(self, trial, reporter)
        self.__dict__["_data"] = {}  # as in another process
        if name == "spm":
            train_tokenizer("bpe", ["Wort 1 word 2", "word"], 281).save("spm")
        else:
            shutil.copy("b.tsv", name)

    monkeypatch.setattr(TrainingRunner, "run", run_and_replace)
    task, settings = "lm", {"models": ("decoder-only-rnn",), "valid": "valid.tsv", "test": "test.tsv"}
    if name == "spm":
        task, settings = "translation", {"models": ("rnn-plain",), "set": SMALL, "tokenizer": "spm", "held_out": 9}
    settings |= {"out": "out", "data": "a.tsv", "seeds": 2, "jobs": 1, "tune": False, "match": "none"}
    with pytest.raises(UserError, match=f"{name}: has changed since the comparison began"):
        compare_module.compare(task, max_steps=1, batch_size=8, **settings)
