"""Bad input of every kind: one line on standard error, exit code 2, no traceback, nothing that was saved is touched."""

import shutil
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from selfattn.runs.run import Run

Cli = Callable[..., Any]
Train = Callable[..., Run]


@pytest.fixture
def place(tmp_path: Path, runs: dict[str, Run], monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a run, a run without attention, and files of every bad kind."""
    shutil.copytree(runs["transformer"].path, tmp_path / "run")
    shutil.copytree(runs["rnn-plain"].path, tmp_path / "plain")
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "no-separator.txt").write_text("may 1, 2001 _2001-05-01\nmay 2, 2001\n")
    (tmp_path / "few.tsv").write_text("a\tb\n" * 9)
    (tmp_path / "pairs.tsv").write_text("".join(f"one {n}\teins {n}\n" for n in range(120)))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("mine")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


TRAIN = ("train", "dates", "--quick", "--out", "new")
COMPARE = ("compare", "dates", "--quick", "--out", "new")
TRANSLATE = ("train", "translation", "--quick", "--out", "new")

TABLE: list[tuple[tuple[str, ...], str]] = [
    # commands and flags
    (("trian",), 'Unknown command "trian". Did you mean "train"?'),
    (("train", "dates"), "--out: is missing, or has no value; see selfattn train dates --help"),
    (("train", "dates", "--out"), "--out: is missing, or has no value"),
    ((*TRAIN, "--epoch", "3"), "Unknown option: --epoch. Did you mean --epochs?"),
    ((*COMPARE, "--models", "transformer", "rnn-plain"), "--models takes a list with commas, as in transformer,"),
    (("verify", "RUN", "x"), "x: belongs to no option; see selfattn verify --help"),
    (("predict",), "RUN"),
    # numbers and choices
    ((*TRAIN, "--epochs", "many"), "--epochs"),
    ((*TRAIN, "--threads", "0"), "--threads: expected"),
    ((*TRAIN, "--seed", "1.5"), "--seed: expected a whole number, got 1.5"),
    ((*COMPARE, "--seeds", "0"), "--seeds: expected a whole number from 1"),
    # models and their settings
    ((*TRAIN, "--model", "transfromer"), "model 'transfromer' is not known; did you mean transformer"),
    ((*COMPARE, "--models", "transformer,transformer"), "--models transformer,transformer: expected different names"),
    ((*TRAIN, "--set", "encoder.dim"), "--set encoder.dim: expected name=value"),
    ((*TRAIN, "--set", "encoder.width=3"), "there is no setting"),
    ((*TRAIN, "--set", "encoder.num_heads=5"), "--set encoder.num_heads: 5 does not divide"),
    ((*COMPARE, "--set", "rnn-peeky:encoder.hidden_dim=3"), "rnn-peeky: --set decoder.initial_state: 'copy' needs"),
    ((*COMPARE, "--models", "transformer", "--set", "rnn-plain:encoder.dim=3"), "'rnn-plain' is not a model"),
    # data
    ((*TRAIN, "--locales", "en_XX"), "en_XX"),
    ((*TRAIN, "--withhold-years", "1850"), "'1850' is no year"),
    ((*TRAIN, "--withhold-years", "1900-2099"), "no year from 1969 to 2068 is left"),
    ((*TRAIN, "--withhold-years", "1943", "--data", "pairs.tsv"), "--withhold-years has no effect beside --data"),
    ((*TRAIN, "--data", "nowhere.txt"), "nowhere.txt: no such file"),
    ((*TRAIN, "--data", "no-separator.txt"), "no-separator.txt:2: no separator"),
    ((*TRAIN, "--data", "few.tsv"), "few.tsv: 9 pairs with 1 different source, too few for three parts"),
    ((*TRANSLATE, "--data", "few.tsv"), "(9 read; duplicate: 8 (first few.tsv:2); different sources: 1, targets: 1)"),
    ((*TRANSLATE, "--held-out", "9"), "--held-out goes with --data or --hub: give that as well"),
    (("tokenizer", "train", "pairs.tsv", "--out", "empty.txt/below"), "empty.txt/below: cannot be written"),
    # where things go
    (("train", "dates", "--out", "run"), "run: already holds a run"),
    (("train", "dates", "--out", "full"), "full: holds other files"),
    ((*TRAIN[:-1], "empty.txt/below"), "empty.txt/below: cannot be written"),
    (("compare", "translation", "--out", "new", "--sentences", "few.tsv"), "--sentences goes with --gold"),
    (("compare", "dates", "--out", "run"), "run: holds something already"),
    (("attention", "run", "May 1", "--save", "x.gif"), "x.gif: attention is saved as SVG, PNG, HTML or JSON"),
    # runs
    (("evaluate", "nowhere"), "nowhere: no such run directory"),
    (("attention", "plain", "May 1, 2001"), "rnn-plain has no attention to show"),
    (("attention", "run", ""), "the text is empty"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "expected"), TABLE, ids=lambda value: " ".join(value) if isinstance(value, tuple) else ""
)
def test_one_line_and_exit_code_2(cli: Cli, place: Path, arguments: tuple[str, ...], expected: str) -> None:
    before = contents(place)
    done = cli(*arguments)
    assert done.code == 2
    assert done.out == ""
    assert done.err.startswith("error: ")
    assert done.err.count("\n") == 1
    assert expected in done.err
    assert contents(place) == before


def test_jamo_that_were_taken_apart_are_put_together(cli: Cli, train: Train, tmp_path: Path) -> None:
    rows = [f"{n}월 {day}일\t{n:02}-{day:02}\n" for n in range(1, 10) for day in range(1, 20)]
    for form in ("NFC", "NFD"):
        (tmp_path / f"{form}.tsv").write_text(unicodedata.normalize(form, "".join(rows)), encoding="utf-8")
    further = unicodedata.normalize("NFD", "12월 1일\t12-01\n")  # so that neither file is the run's own
    (tmp_path / "train.tsv").write_text((tmp_path / "NFD.tsv").read_text("utf-8") + further, encoding="utf-8")
    run = train("transformer", tmp_path / "run", data=(tmp_path / "train.tsv",))
    assert {"월", "일"} <= set(run.tokenizer.source.pieces(range(len(run.tokenizer))))
    for command in ("score", "align", "evaluate"):
        done, same = (cli(command, run.path, "--data", tmp_path / f"{form}.tsv") for form in ("NFD", "NFC"))
        assert (done.code, done.err) == (0, "")
        assert done.out.replace("NFD", "NFC") == same.out
    taken_apart = unicodedata.normalize("NFD", "3월 4일")
    assert cli("predict", run.path, stdin=taken_apart + "\n").err == ""
    assert run.attention(taken_apart).source == "3월 4일"


def test_an_output_that_may_become_too_long_is_told_before_anything_is_written(cli: Cli, place: Path) -> None:
    before = contents(place)
    settings = ("decoder.position=learned", "decoder.max_length=12")
    done = cli(*TRAIN, *(part for setting in settings for part in ("--set", setting)))
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert (
        "transformer: cannot write 22 tokens, the most that an output may have with these data: an output" in done.err
    )
    assert contents(place) == before


def test_a_message_with_a_newline_in_it_is_still_one_line(cli: Cli, place: Path) -> None:
    done = cli("evaluate", "no\nwhere")
    assert (done.code, done.err.count("\n")) == (2, 1)
