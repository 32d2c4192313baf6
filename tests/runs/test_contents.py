"""Every file that a result depends on is known by its content: what is replaced in between is refused."""

from pathlib import Path

import pytest

from selfattn.comparison import compare as compare_module
from selfattn.errors import UserError
from selfattn.runs import train as train_module
from selfattn.runs.directory import RunDirectory
from selfattn.tokenizers.load import train_tokenizer

# Options of tasks are checked when they are called.
train = train_module.train
compare = compare_module.compare
LM = {
    "out": "run", "data": "train.txt", "valid": "valid.txt", "model": "decoder-only-rnn", "max_steps": 2,
    "batch_size": 8,
}  # fmt: skip
TWICE = {
    "out": "out", "seeds": 2, "jobs": 1, "tune": False, "match": "none", "max_steps": 1, "batch_size": 8,
}  # fmt: skip


def lines(path, first, count=60):
    path.write_text("".join(f"word {number} and {number + 1}\n" for number in range(first, first + count)))
    return path


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines(Path("train.txt"), 100)
    lines(Path("valid.txt"), 500, 9)
    lines(Path("test.txt"), 700, 20)
    return tmp_path


def test_paths_are_kept_as_typed(place):
    train("lm", **LM)
    Path("pairs.tsv").write_text("".join(f"{number} may\t{number:03}\n" for number in range(120)))
    train("dates", out="dates", data="pairs.tsv", model="rnn-plain", max_steps=1, validation_items=4)
    for run in ("run", "dates"):
        texts = [Path(run, name).read_text() for name in ("config.json", "run.json")]
        assert not any(str(place) in text for text in texts)


def test_a_file_that_moved_is_the_same_file_and_another_text_is_refused():
    train("lm", **LM)
    Path("valid.txt").rename("moved.txt")
    run = train("lm", resume=True, **LM | {"data": "./train.txt", "valid": "moved.txt"})
    assert run.config.task_options["valid"] == "valid.txt"
    RunDirectory(Path("run")).update(status="interrupted")
    lines(Path("valid.txt"), 600, 9)  # as many lines
    with pytest.raises(UserError, match=r"run: begun with another content of valid\.txt; restore the file"):
        train("lm", resume=True, **LM)


def replaced_after_the_first_run(monkeypatch, replace_file):
    """Replace a file when the first training of a comparison has ended."""
    from selfattn.comparison.trainings import TrainingRunner

    run = TrainingRunner.run

    def run_and_replace(self, trial, reporter):
        run(self, trial, reporter)
        self.__dict__["_data"] = {}  # as in another process
        replace_file()

    monkeypatch.setattr(TrainingRunner, "run", run_and_replace)


@pytest.mark.parametrize("name", ["valid", "test"])
def test_a_sealed_comparison_refuses_another_text(monkeypatch, name):
    replaced_after_the_first_run(monkeypatch, lambda: lines(Path(f"{name}.txt"), 800, 9 if name == "valid" else 20))
    texts = {"data": "train.txt", "valid": "valid.txt", "test": "test.txt"}
    with pytest.raises(UserError, match=rf"{name}\.txt: has changed since the comparison began"):
        compare("lm", models=("decoder-only-rnn",), **TWICE, **texts)


def test_a_comparison_refuses_another_tokenizer(monkeypatch):
    Path("pairs.tsv").write_text("".join(f"word {n}\tWort {n}\n" for n in range(200)))
    train_tokenizer("bpe", ["word 1 Wort 2"], 280).save("spm")
    other = train_tokenizer("bpe", ["Wort 1 word 2", "word"], 281)
    replaced_after_the_first_run(monkeypatch, lambda: other.save("spm"))
    small = {"models": ("rnn-plain",), "set": ("encoder.hidden_dim=4", "decoder.hidden_dim=4"), "held_out": 9}
    with pytest.raises(UserError, match=r"spm: has changed since the comparison began"):
        compare("translation", data="pairs.tsv", tokenizer="spm", **TWICE, **small)
