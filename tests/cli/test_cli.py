"""The command line: what it prints where, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import selfattn
from selfattn.models.presets import PRESETS
from selfattn.runs.directory import RunDirectory
from selfattn.runs.run import Run

Cli = Callable[..., Any]


def test_version_and_help(cli: Cli) -> None:
    assert cli("--version").out.strip() == selfattn.__version__
    shown = cli("--help").out
    assert all(command in shown for command in ("compare", "train", "evaluate", "predict", "attention", "models"))
    basic, everything = cli("train", "dates", "--help").out, cli("train", "dates", "--help-all").out
    assert "--epochs" in basic
    assert basic.endswith("More: --help-all\n")
    assert "--target-exact-match" not in basic
    assert "--target-exact-match" in everything
    assert "More:" not in everything
    assert "[default: compare/dates]" in cli("compare", "dates", "--help").out


def test_models_are_listed_one_a_line(cli: Cli) -> None:
    lines = cli("models").out.splitlines()
    assert [line.split()[0] for line in lines] == list(PRESETS)
    assert all(preset.source in line for line, preset in zip(lines, PRESETS.values(), strict=True))


def test_predict_gives_a_line_for_a_line(cli: Cli, runs: dict[str, Run]) -> None:
    run = runs["rnn-attention"]
    texts = ["May 1, 2001", "", "11/13/08", "   ", "ß☃"]
    done = cli("predict", run.path, "--no-check", stdin="\n".join(texts) + "\n")
    assert done.code == 0
    assert done.out.split("\n") == [*run.predict(texts), ""]
    assert done.err == "2 characters that the model does not know, 2 different: 'ß' 1, '☃' 1\n"


@pytest.mark.parametrize(
    ("stdin", "texts"),
    [("", []), ("\n", [""]), ("a\r\nb", ["a", "b"]), ("\n\na\u2028b\n\n", ["", "", "a\u2028b", ""])],
)
def test_lines_end_with_a_newline_and_nothing_else(
    cli: Cli, runs: dict[str, Run], stdin: str, texts: list[str]
) -> None:
    done = cli("predict", runs["rnn-plain"].path, stdin=stdin)
    assert done.out == "".join(line + "\n" for line in runs["rnn-plain"].predict(texts))


def test_many_lines_go_in_chunks_in_their_order(
    cli: Cli, runs: dict[str, Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    import selfattn.cli.stream

    monkeypatch.setattr(selfattn.cli.stream, "_CHUNK", 4)
    texts = [f"{month}/{day}/01" for month in (1, 2, 3) for day in (4, 5, 6)]
    done = cli("predict", runs["rnn-attention"].path, stdin="\n".join(texts))
    assert done.out.splitlines() == runs["rnn-attention"].predict(texts)


def test_evaluate_as_json_and_as_text(cli: Cli, runs: dict[str, Run], tmp_path: Path) -> None:
    path = tmp_path / "few.jsonl"
    path.write_text('{"source": "May 1, 2001", "target": "2001-05-01"}\n')
    run = runs["rnn-plain"].path
    done = cli("evaluate", run, "--data", path, "--json")
    found = json.loads(done.out)
    assert (found["task"], found["items"], set(found["metrics"])) == (
        "dates", 1, {"exact_match", "character_error_rate"}
    )  # fmt: skip
    assert "1 items" in cli("evaluate", run, "--data", path).out
    korean = cli("evaluate", run, "--data", path, "--lang", "ko").out.splitlines()
    assert korean[0] == f"rnn-plain, {path}: 테스트 항목 1개"
    assert [line.split(" ", 2)[:2] for line in korean[1:3]] == [["완전", "일치율"], ["글자", "오류율"]]


def test_attention_is_drawn_in_the_terminal_and_saved(cli: Cli, runs: dict[str, Run], tmp_path: Path) -> None:
    done = cli("attention", runs["transformer"].path, "May 1, 2001", "--save", tmp_path / "x.svg", "--head", 1)
    assert done.code == 0
    assert "head 1" in done.out.splitlines()[0]
    assert "May␣1,␣2001⏎" in done.out
    assert (tmp_path / "x.svg").read_text().startswith("<svg")


def test_attention_in_other_forms(cli: Cli, runs: dict[str, Run], tmp_path: Path) -> None:
    run = runs["transformer"]
    found = json.loads(cli("attention", run.path, "May 1, 2001", "--format", "json").out)
    assert found["source"] == "May 1, 2001"
    shown = run.attention("May 1, 2001").maps()
    assert found["source_tokens"] == list(shown.source_tokens)
    assert [(one["kind"], one["layer"], one["head"]) for one in found["maps"]] == [
        (one.kind, one.layer, one.head) for one in shown.maps
    ]
    assert {one["kind"] for one in found["maps"]} == {"cross", "encoder", "decoder", "blocking", "gradient"}
    page = cli("attention", run.path, "May 1, 2001", "--format", "html").out
    assert page.startswith("<!doctype html>")
    assert "http" not in page.replace("http-equiv", "").replace("http://www.w3.org", "")
    heads = sum(len(layer) for layer in run.attention("May 1, 2001").weights)
    assert cli("attention", run.path, "May 1, 2001", "--format", "svg", "--all-heads").out.count("<svg ") == heads + 1
    cli("attention", run.path, "May 1, 2001", "--save", tmp_path / "x.html")
    assert (tmp_path / "x.html").read_text() == page


def hear_interrupts() -> None:
    """Undo that a shell makes what it runs in the background deaf to SIGINT: the tests may run there."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def start(*arguments: object, **options: Any) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "selfattn.cli.main", *map(str, arguments)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, preexec_fn=hear_interrupts, **options
    )


def test_a_reader_that_leaves_ends_it_quietly(runs: dict[str, Run]) -> None:
    with start("predict", runs["rnn-plain"].path, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        process.stdin.write(b"1/2/03\n" * 3000)
        process.stdin.close()
        assert process.stderr.read() == b""
        assert process.wait() == 141


def test_an_interrupt_leaves_a_run_that_can_be_used(tmp_path: Path) -> None:
    out = tmp_path / "run"
    options = ("--epochs", 1000, "--items-per-epoch", 64, "--validation-items", 5)
    with start("train", "dates", "--out", out, *options) as process:
        deadline = time.monotonic() + 300
        while not (out / "metrics.jsonl").exists():
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate()
    assert process.returncode == 130
    assert "stopping after this step, which is saved; once more stops at once" in errors.decode()
    kept = f"interrupted; {out} keeps the best weights so far; the same command with --resume goes on"
    assert errors.decode().splitlines()[-1] == kept
    assert "Traceback" not in errors.decode()
    assert RunDirectory(out).record().status == "interrupted"
    assert len(selfattn.load(out).predict(["May 1, 2001"])) == 1


def test_an_error_that_nobody_expected_keeps_its_traceback(
    cli: Cli, runs: dict[str, Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*arguments: object, **options: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr("selfattn.runs.run.load", broken)
    with pytest.raises(ZeroDivisionError, match="a bug"):
        cli("predict", runs["rnn-plain"].path)


@pytest.mark.parametrize(
    "module",
    ["selfattn.tasks.dates", "tasks.compare"],
)
def test_the_tasks_run_as_modules(module: str) -> None:
    root = Path(selfattn.__file__).parents[1]
    if not (root / module.partition(".")[0]).exists():
        pytest.skip("needs the repository: the links `tasks` and `tokenizers` are not installed")
    command = [sys.executable, "-m", module, "--epochs", "0", "--out", "nowhere"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    expected = "error: epochs: expected a whole number of at least 1, got 0\n"
    assert (done.returncode, done.stderr, done.stdout) == (2, expected, "")


@pytest.mark.parametrize("command", ["--help", "models", "train dates --help-all"])
def test_output_that_cannot_be_written(command: str) -> None:
    def code(redirected: str) -> tuple[int, str]:
        line = f"{sys.executable} -m selfattn.cli {command} {redirected}"
        done = subprocess.run(["bash", "-o", "pipefail", "-c", line], capture_output=True, text=True, check=False)
        return done.returncode, done.stderr

    assert code("| true") == (141, "")
    if Path("/dev/full").exists():
        refused, message = code("> /dev/full")
        assert (refused, message.count("\n")) == (2, 1)
        assert message.startswith("error: standard output: ")


def test_a_terminal_without_a_size_shows_help(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "0")
    assert "compare" in cli("--help").out


def test_a_closed_output_is_an_error(cli: Cli, runs: dict[str, Run], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    done = cli("models")
    assert (done.code, done.err) == (
        2, "error: standard output is closed; leave it open, or redirect it to a file\n"
    )  # fmt: skip


def test_a_long_option_is_cut_in_the_message(cli: Cli) -> None:
    done = cli("train", "dates", "--out", "x", "--seed", "9x" * 2500)
    assert done.code == 2
    assert "--seed: expected a whole number, got 9x9x" in done.err
    assert len(done.err) < 400
