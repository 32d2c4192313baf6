"""The command line: what it prints where, and how it ends."""

import json
import os
import re
import signal
import subprocess
import sys
import tomllib
from pathlib import Path
from unittest.mock import Mock

import pytest
from third_party import FILES

import selfattn
from selfattn.cli.__main__ import main as program
from selfattn.models.families import PRESETS
from selfattn.runs.directory import RunDirectory


def test_version_and_help(cli, monkeypatch):
    assert cli("--version").out.strip() == selfattn.__version__
    monkeypatch.setenv("COLUMNS", "0")  # a terminal without a size
    shown = cli("--help").out
    monkeypatch.delenv("COLUMNS", raising=False)
    assert all(command in shown for command in ("compare", "train", "evaluate", "predict", "attention", "models"))
    basic, everything = cli("train", "dates", "--help").out, cli("train", "dates", "--help-all").out
    assert "--epochs" in basic
    assert basic.endswith("More: --help-all\n")
    assert "--target-exact-match" not in basic
    assert "--target-exact-match" in everything
    assert "More:" not in everything
    assert everything.endswith("Anywhere: --plugin, --config, --write-config; see selfattn --help.\n")
    assert "[default: compare/dates]" in cli("compare", "dates", "--help").out


def test_models_are_listed_one_a_line(cli):
    lines = cli("models").out.splitlines()
    assert [line.split()[0] for line in lines] == list(PRESETS)
    assert all(preset.source in line for line, preset in zip(lines, PRESETS.values(), strict=True))


def test_evaluate_as_json_and_as_text(cli, runs, tmp_path):
    path = tmp_path / "few.jsonl"
    path.write_text('{"source": "May 1, 2001", "target": "2001-05-01"}\n')
    run = runs["rnn-plain"].path
    done = cli("evaluate", run, "--data", path, "--json")
    found = json.loads(done.out)
    assert (found["task"], found["items"]) == ("dates", 1)
    assert found["metrics"].keys() == {"exact_match", "character_error_rate"}
    assert "1 item" in cli("evaluate", run, "--data", path).out
    korean = cli("evaluate", run, "--data", path, "--lang", "ko").out.splitlines()
    assert korean[0] == f"rnn-plain, {path}: 테스트 항목 1개"
    assert [line.split(" ", 2)[:2] for line in korean[1:3]] == [["완전", "일치율"], ["글자", "오류율"]]


def test_attention_is_drawn_and_saved_in_every_form_and_both_languages(cli, runs, tmp_path, monkeypatch):
    run = runs["transformer"]
    call = ("attention", run.path, "May 1, 2001", "--save")
    monkeypatch.setitem(sys.modules, "selfattn.integrations.explorer", None)  # a run does without torch's compiler

    def saved(name, *options):
        done = cli(*call, tmp_path / name, *options).success()
        return done.out, (tmp_path / name).read_text("utf-8")

    shown, picture = saved("x.svg", "--head", 1)
    assert "head 1" in shown.splitlines()[0]
    assert "May␣1,␣2001⏎" in shown
    assert picture.startswith("<svg")
    shown, picture = saved("x.svg", "--lang", "ko")
    assert "층" in shown
    assert "행: 출력, 열: 입력" in shown
    assert "가중치 · 행: 출력, 열: 입력" in picture
    _, page = saved("x.html", "--lang", "ko")
    assert page.startswith("<!doctype html>")
    assert '<html lang="ko">' in page
    assert "http" not in page.replace("http-equiv", "").replace("http://www.w3.org", "")
    view = run.attention("May 1, 2001")
    written = json.loads(saved("x.json")[1])
    assert (written["source"], written["source_tokens"]) == ("May 1, 2001", list(view.source_tokens))
    drawn = [(each["kind"], each["layer"], each["head"]) for each in written["maps"]]
    assert drawn == [(each.kind, each.layer, each.head) for each in view.maps().maps]
    assert {each["kind"] for each in written["maps"]} == {"cross", "encoder", "decoder", "blocking", "gradient"}
    pytest.importorskip("cairosvg")
    view.save(tmp_path / "x.png")
    head = (tmp_path / "x.png").read_bytes()[:24]
    width = int(view.to_svg().partition(' width="')[2].partition('"')[0])
    assert (head[:4], int.from_bytes(head[16:20])) == (b"\x89PNG", 2 * width)
    monkeypatch.setitem(sys.modules, "cairosvg", None)
    assert cli(*call, tmp_path / "y.png").refusal() == "error: PNG needs CairoSVG: pip install 'selfattn[figures]'\n"


def test_an_interrupt_leaves_a_run_that_can_be_used(tmp_path, capfd, monkeypatch):
    signals = [signal.SIGTERM]

    class Written(RunDirectory):
        def write_metrics(self, reports):
            super().write_metrics(reports)
            if len(reports) >= 2 and signals:
                os.kill(os.getpid(), signals.pop())

    out, before = tmp_path / "run", signal.getsignal(signal.SIGTERM)
    line = "train dates --epochs 1000 --items-per-epoch 64 --validation-items 5 --model rnn-plain --out"
    small = ("--set", "encoder.hidden_dim=8", "--set", "decoder.hidden_dim=8")
    monkeypatch.setattr("selfattn.runs.fit.RunDirectory", Written)
    monkeypatch.setattr("selfattn.runs.fit._PAUSE", 0)  # between two writes
    monkeypatch.setattr(sys, "argv", ["selfattn", *line.split(), str(out), *small])
    try:
        with pytest.raises(SystemExit) as ended:
            program()
    finally:
        signal.signal(signal.SIGTERM, before)
    errors = capfd.readouterr().err
    kept = f"interrupted; {out} keeps the best weights so far; the same command with --resume goes on"
    assert (ended.value.code, errors.splitlines()[-1]) == (130, kept)
    assert "stopping after this step, which is saved; once more stops at once" in errors
    assert "Traceback" not in errors
    assert RunDirectory(out).record().status == "interrupted"
    assert len(selfattn.load(out).predict(["May 1, 2001"])) == 1


def test_an_error_that_nobody_expected_keeps_its_traceback(cli, runs, monkeypatch):
    monkeypatch.setattr("selfattn.runs.load.load", Mock(side_effect=ZeroDivisionError("a bug")))
    with pytest.raises(ZeroDivisionError, match="a bug"):
        cli("predict", runs["rnn-plain"].path)


@pytest.mark.parametrize("module", ["selfattn.tasks.dates", "tasks.compare --plugin=reversal_task.py reversal"])
def test_the_tasks_run_as_modules(module, tmp_path):
    root = Path(selfattn.__file__).parents[1]
    if not (root / module.partition(".")[0]).exists():
        pytest.skip("needs the repository: the links `tasks` and `tokenizers` are not installed")
    words = module.replace("=", f"={FILES}/").split()
    command = [sys.executable, "-m", *words, "--epochs", "none", "--out", "new"]
    environment = os.environ | {"PYTHONPATH": str(root)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: Invalid value for --epochs: expected a whole number, got none\n"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", ["--help", "models"])
def test_a_pipe_that_is_closed(command):
    line = f"{sys.executable} -m selfattn.cli {command} | true"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", line], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (141, "")


RECIPE = """
data = ["a.tsv"]
valid = "b.tsv"
tokenizer = "bpe"
vocab-size = 500
epochs = 3
average = "ema"
ema-decay = 0.9
out = "new"
"""
EACH = "has no effect beside a tokenizer for each side (--source-tokenizer, --target-tokenizer)"
BPE = {"vocab-size": "goes with --tokenizer bpe, or --source-tokenizer or --target-tokenizer bpe"}
SAMPLE = "sample = true\nseed = 3"
# The options in a file, those that are typed beside it, and what is left out of the file for what reason.
LEFT_OUT = [
    (RECIPE, "--max-steps 4", {"epochs": "has no effect beside --max-steps"}),
    (RECIPE, "--average none", {"ema-decay": "goes with --average ema"}),
    (RECIPE, "--tokenizer words", BPE),
    (RECIPE, "--source-tokenizer words --target-tokenizer letters", {"tokenizer": EACH} | BPE),
    (RECIPE, "--hub a/b", {"data": "has no effect beside --hub", "valid": "goes with --data"}),
    (RECIPE, "--epochs 4", {}),
    ("beam = 2", "--sample", {"beam": "has no effect beside --sample"}),
    (SAMPLE, "--beam 2", {"sample": "has no effect beside --beam", "seed": "goes with --sample"}),
    ("prefixes = 'none'", "--prefix 20", {"prefixes": "has no effect beside --prefix"}),
    ("align = true", "--engine ctranslate2", {"align": "goes with --engine torch or onnx"}),
]


@pytest.mark.parametrize(("text", "typed", "left_out"), LEFT_OUT)
def test_options_of_a_file_that_the_command_line_excludes_are_left_out(
    cli, runs, tmp_path, monkeypatch, text, typed, left_out
):
    monkeypatch.chdir(tmp_path)
    Path("a.toml").write_text(text)
    if text != RECIPE:
        done = cli("predict", runs["transformer"].path, "--config", "a.toml", *typed.split(), stdin="")
    else:
        done = cli("train", "translation", "--config", "a.toml", *typed.split(), "--write-config", "b.toml")
        assert tomllib.loads(text).keys() - tomllib.loads(Path("b.toml").read_text()).keys() == left_out.keys()
    assert dict(re.findall(r"a.toml: (\S+) is left out: it (.*)", done.err)) == left_out


def test_the_command_line_goes_before_the_last_file_and_that_before_the_others(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a.toml").write_text("epochs = 3\nbatch-size = 8\nlr = 0.1")
    Path("b.toml").write_text("epochs = 4\nlr = 0.2\nout = 'new'")
    cli("train", "dates", "--config", "a.toml", "--config", "b.toml", "--lr", 0.3, "--write-config", "c.toml")
    assert tomllib.loads(Path("c.toml").read_text()) == {"out": "new", "epochs": 4, "batch-size": 8, "lr": 0.3}


WRITTEN = """\
# selfattn train translation --config new.toml
out = "a b"
set = ["encoder.dim=8", "x=1,2"]
columns = ["1", "2"]
data = ["d \\"1\\".tsv"]
epochs = 3
lr = 1e-05
"""


def test_options_are_written_for_a_file_and_from_a_run(cli, runs, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given = ("--out", "a b", "--set", "encoder.dim=8", "--set", "x=1,2", "--columns", "1,2", "--data", 'd "1".tsv')
    done = cli("train", "translation", "--resume", *given, "--epochs", 3, "--lr", 1e-5, "--write-config", "new.toml")
    assert "try: selfattn train translation --config new.toml" in done.out
    assert sorted(Path("new.toml").read_text().splitlines()) == sorted(WRITTEN.splitlines())
    cli("train", "translation", "--config", "new.toml", "--epochs", 4, "--write-config", "again.toml")
    changes = {"again.toml": "new.toml", "epochs = 4": "epochs = 3"}
    again = Path("again.toml").read_text()
    for after, before in changes.items():
        again = again.replace(after, before)
    assert again == Path("new.toml").read_text()
    run = runs["transformer"].path
    done = cli("train", "dates", "--config", run, "--write-config", "run.toml")
    assert done.out.endswith("--config run.toml --out DIRECTORY\n")
    assert f'out = "{run}"\nset = ["encoder.dim=16", ' in Path("run.toml").read_text()
    assert "already holds a run" in cli("train", "dates", "--config", "run.toml").err
    cli("compare", "dates", "--no-tune", "--write-config", "compare.toml")
    assert Path("compare.toml").read_text() == "# selfattn compare dates --config compare.toml\ntune = false\n"
    Path("no.toml").write_text("no-tune = true")
    cli("compare", "dates", "--config", "no.toml", "--write-config", "same.toml")
    assert Path("same.toml").read_text().splitlines()[1:] == ["tune = false"]
