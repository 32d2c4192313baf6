"""What the machine refuses (space, an output) or cannot serve (a number, a path) is one line with the right reason.

Text of others does nothing to a terminal, a page or a reader: what acts is shown, not done.
"""

import gzip
import io
import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from small_runs import accept_changes, words

from selfattn import files
from selfattn.cli import tokenizer as tokenizer_commands
from selfattn.cli.main import main
from selfattn.comparison.report import write_comparison
from selfattn.data.readers.lines import lines_of
from selfattn.errors import UserError, all_visible, say, visible
from selfattn.ownership import MARKDOWN_MARK
from selfattn.report.html import html_of
from selfattn.report.text import markdown_of, print_summary
from selfattn.report.write import document
from selfattn.runs.directory import RunDirectory
from selfattn.tokenizers.listed import CharTokenizer

RUN = "runs/plain-seed0"
LIMIT = 300  # seconds, on a machine that has other things to do


@pytest.fixture
def places(whole, tmp_path):
    (tmp_path / "pairs.tsv").write_text("May 1, 2001\t2001-05-01\n" * 9)
    return {"RUN": whole / RUN, "WHOLE": whole, "PAIRS": tmp_path / "pairs.tsv", "OUT": tmp_path / "out"}


PRINTING = (
    "--help", "--version", "models", "train dates --help-all", "compare dates --help", "claims",
    "predict RUN", "evaluate RUN --data PAIRS", "evaluate RUN --data PAIRS --json", "score RUN --data PAIRS",
    "align RUN --data PAIRS", "attention RUN 1.May", "report WHOLE --out OUT", "verify WHOLE",
    "tokenizer inspect RUN --text a", "tokenizer train PAIRS --kind characters --out OUT",
    "compare dates --quick --items-per-epoch 9 --models rnn-plain --plan-only --out OUT",
)  # fmt: skip


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
@pytest.mark.parametrize("line", PRINTING)
def test_an_output_that_is_full_or_closed_ends_every_command_in_one_line(
    line, runs, places, monkeypatch,
    capsys,
):  # fmt: skip
    arguments = words(line, **places | {"RUN": runs["rnn-attention"].path})
    for reason, expected in (("full", "standard output: .*no space left"), ("closed", "standard output is closed")):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"May 1, 2001\n")))
        with monkeypatch.context() as patch, open("/dev/full", "w") as full:
            patch.setattr(sys, "stdout", full if reason == "full" else None)
            with pytest.raises(SystemExit) as ended:
                main(arguments)
        message = capsys.readouterr().err
        assert (ended.value.code, message.count("error:")) == (2, 1), message
        assert re.match(f"error: {expected}", message.splitlines()[-1], re.I), message


def test_a_disk_that_is_full_at_the_start(monkeypatch, tmp_path, train):
    replace = os.replace

    def full(aside, path):
        if path.name == "run.json":
            raise OSError(28, "No space left on device", str(path))
        replace(aside, path)

    monkeypatch.setattr(files.os, "replace", full)
    with pytest.raises(UserError, match=r"run: cannot be written \(No space left on device\); "):
        train("rnn-plain", tmp_path / "run")


def test_a_comparison_whose_versions_are_unknown_is_reported(cli, copy):
    directory = RunDirectory(copy / RUN)
    directory.write_record(replace(directory.record(), versions={}))
    assert cli("report", copy, "--out", copy.parent / "report").code == 0


@pytest.mark.skipif(sys.platform == "win32", reason="paths of POSIX")
def test_a_path_that_leads_nowhere_is_named(cli, tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    for path, reason in (
        (tmp_path / "loop", "loop: cannot be read"),
        (Path(os.fsdecode(b"a\xff")), r"'a\\udcff': the path is not UTF-8; rename the file"),
    ):
        with pytest.raises(UserError, match=reason):
            list(lines_of(path))
    done = cli("train", "dates", "--quick", "--out", os.fsdecode(bytes(tmp_path) + b"/a\xff"))
    assert "cannot be written (surrogates not allowed); choose another --out" in done.refusal()


def test_a_long_file_says_how_far_it_is(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("selfattn.data.readers.lines._REPORTED", 20)
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"a\n" * 50))
    assert len(list(lines_of(tmp_path / "a.gz"))) == 50
    said = [line.rpartition(": ")[2] for line in capsys.readouterr().err.splitlines()]
    assert said == ["20 lines read so far", "40 lines read so far"]


def test_a_line_without_end_is_not_held(tmp_path, monkeypatch):
    monkeypatch.setattr("selfattn.data.readers.lines._LONGEST", 4 << 20)
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(b"one\n" + b"a" * (5 << 20), compresslevel=1))
    lines = lines_of(tmp_path / "a.txt.gz")
    assert next(lines) == "one"
    with pytest.raises(UserError, match=r"a\.txt\.gz:2: longer than 4 MiB; give one text a line"):
        next(lines)


# The command line, which says when it imports something.
TOLD = """
import sys
sys.addaudithook(lambda event, given: event == "import" and given[0] in ("torch", "selfattn.runs.fit") and print(
    "imports", given[0], flush=True
))
from selfattn.cli.__main__ import main
main()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize(("number", "moment"), [
    (signal.SIGTERM, "imports torch"),
    pytest.param(signal.SIGINT, "imports torch", marks=pytest.mark.reliability),
    pytest.param(signal.SIGINT, "imports selfattn.runs.fit", marks=pytest.mark.reliability),
])  # fmt: skip
def test_a_program_that_is_stopped_early_says_so(tmp_path, number, moment):
    command = [sys.executable, "-c", TOLD, "train", "dates", "--out", str(tmp_path / "run")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert f"{moment}\n" in iter(process.stdout.readline, "")  # which reads until it is said
        process.send_signal(number)
        _, errors = process.communicate(timeout=LIMIT)
    assert (process.returncode, errors) == (130, "interrupted\n")
    assert not (tmp_path / "run").exists()


# Text that acts

NASTY = "a\x1b]0;owned\x07b\x9b31m\u202ec\u2066d\x00\r"
ACTING = set("\x1b\x07\x9b\u202e\u2066\x00\r")


def test_every_acting_character_is_shown_and_no_place_moves():
    assert len(visible(NASTY)) == len(NASTY)
    assert not ACTING & set(visible(NASTY))
    for code in range(0x11000):
        character = chr(code)
        changed = visible(character) != character
        acts = code < 32 or 127 <= code < 160 or 0xD800 <= code < 0xE000 or character in "\u2028\u2029"
        acts = acts or 0x202A <= code <= 0x202E or 0x2066 <= code <= 0x2069
        assert changed == (acts and character not in "\n\t"), hex(code)
    assert visible("한국어 العربية \u200d नमस्ते") == "한국어 العربية \u200d नमस्ते"


def test_a_report_of_nasty_texts(copy):
    path = copy / RUN / "test.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for row in rows:
        row["source"], row["output"], row["tag"] = row["source"] + NASTY, NASTY, NASTY
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    accept_changes(copy / RUN)
    record, files = write_comparison(copy, copy.parent / "report")
    screen = io.StringIO()
    print_summary(record, Console(file=screen, highlight=False, width=100), files.html)
    for text in (files.html.read_text(), files.markdown.read_text(), screen.getvalue()):
        assert not ACTING & set(text)
    again = all_visible(record)
    page = document(again)
    assert html_of(page) == files.html.read_text()
    assert markdown_of(page) + MARKDOWN_MARK == files.markdown.read_text()


def test_a_message_and_a_tokenizer_are_shown(tmp_path, capsys):
    say(f"error: {NASTY}: no such file")
    CharTokenizer("ab").save(tmp_path)
    for text in (capsys.readouterr().err, tokenizer_commands.inspect(tmp_path, text=(NASTY,))):
        assert not ACTING & set(text)
