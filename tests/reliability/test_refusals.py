"""What the machine refuses (a right, space, memory) is one line with the right reason; so is a number beyond it."""

import gzip
import io
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from small_runs import Cli, hear_interrupts

from selfattn import files
from selfattn.cli.main import main
from selfattn.data.readers.lines import lines_of
from selfattn.errors import UserError
from selfattn.runs.directory import RunDirectory

RUN = "runs/plain-seed0"
LIMIT = 300  # seconds, on a machine that has other things to do
FORBIDDEN = (RUN, *(f"{RUN}/{name}" for name in ("config.json", "model.safetensors", "run.json", "tokenizer")))


@pytest.mark.skipif(not hasattr(os, "seteuid"), reason="rights of POSIX")
@pytest.mark.parametrize("name", FORBIDDEN)
@pytest.mark.parametrize("command", ["predict", "evaluate", "report", "attention", "demo"])
def test_what_may_not_be_read_is_named(
    cli: Cli, copy: Path, monkeypatch: pytest.MonkeyPatch, name: str, command: str
) -> None:
    if command == "report" and name.endswith(("model.safetensors", "tokenizer")):
        pytest.skip("a report reads neither")
    monkeypatch.chdir("/")
    kept, asked = os.geteuid(), copy.parents[1]
    mine = [folder for folder in (asked, *asked.parents) if folder.owner() != "root" or kept == 0]
    modes = [(folder, folder.stat().st_mode) for folder in mine]
    for folder, mode in (*modes[:4], (copy.parent, 0o755)):
        folder.chmod(mode | 0o755)  # for whoever is not the owner
    (copy / name).chmod(0)
    out = ("--out", copy.parent / "out")
    arguments = {"attention": ("1 May 2030",), "report": out, "demo": out}
    place = copy if command == "report" else copy / RUN
    try:
        if kept == 0:
            os.seteuid(65534)  # root may read everything
        done = cli(command, place, *arguments.get(command, ()), stdin="1 May 2030\n")
    finally:
        os.seteuid(kept)
        (copy / name).chmod(0o755)
        for folder, mode in modes[:4]:
            folder.chmod(mode)
    assert name.rpartition("/")[2] in done.refusal()
    assert "permission denied" in done.err.lower()


def test_a_disk_that_is_full_at_the_start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, train: Any) -> None:
    replace = os.replace

    def full(aside: Path, path: Path) -> None:
        if path.name == "run.json":
            raise OSError(28, "No space left on device", str(path))
        replace(aside, path)

    monkeypatch.setattr(files.os, "replace", full)
    with pytest.raises(UserError, match=r"run: cannot be written \(No space left on device\); "):
        train("rnn-plain", tmp_path / "run")


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
    line: str, runs: dict[str, Any], whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    (tmp_path / "pairs.tsv").write_text("May 1, 2001\t2001-05-01\n")
    places = {"RUN": runs["rnn-attention"].path, "WHOLE": whole, "PAIRS": tmp_path / "pairs.tsv", "OUT": tmp_path / "o"}
    arguments = [str(places.get(word, word)) for word in line.split()]
    for reason in ("full", "closed"):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"May 1, 2001\n")))
        with monkeypatch.context() as patch, open("/dev/full", "w") as full:
            patch.setattr(sys, "stdout", full if reason == "full" else None)
            with pytest.raises(SystemExit) as ended:
                main(arguments)
        message = capsys.readouterr().err
        expected = "standard output: .*no space left" if reason == "full" else "standard output is closed"
        assert (ended.value.code, message.count("error:")) == (2, 1), message
        assert re.match(f"error: {expected}", message.splitlines()[-1], re.I), message


@pytest.mark.parametrize("command", [
    "train dates", "compare dates", "report RUN", "demo RUN", "export RUN --to onnx", "claims run order",
    "tokenizer train PAIRS",
])  # fmt: skip
def test_an_empty_out_is_not_the_current_directory(cli: Cli, command: str) -> None:
    assert "--out: expected a path, got an empty text" in cli(*command.split(), "--out", "").refusal()


def test_a_comparison_whose_versions_are_unknown_is_reported(cli: Cli, copy: Path) -> None:
    directory = RunDirectory(copy / RUN)
    directory.write_record(replace(directory.record(), versions={}))
    assert cli("report", copy, "--out", copy.parent / "report").code == 0


@pytest.mark.parametrize("option", ["--model", "--set", "--locales", "--device", "--epochs", "--data", "--unknown"])
def test_an_option_of_any_length_gives_a_short_message(cli: Cli, tmp_path: Path, option: str) -> None:
    assert len(cli("train", "dates", "--out", tmp_path / "new", option, "9x" * 2500).refusal()) < 1100


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("predict", "RUN", "--beam", "1000000"), "--beam: expected a whole number from 1 to 1,000, got 1000000"),
        (("predict", "RUN", "--beam", "2", "--length-penalty", "1e30"), "a number in [-10, 10], got 1e+30"),
        (("train", "dates", "--out", "x" * 300), "file name too long"),
        (("compare", "dates", "--quick", "--models", "x" * 300 + "=rnn-plain", "--out", "OUT"), "at most 100 letters"),
        (("tokenizer", "train", "TEXT", "--out", "OUT", "--vocab-size", "10000000000"), "choose from 5 to 16,777,216"),
        (("train", "dates", "--set", "encoder.dim=1000000000", "--out", "OUT"), "from 1 to 1,048,576"),
    ],
)
def test_numbers_that_no_machine_serves(
    cli: Cli, whole: Path, tmp_path: Path, options: tuple[str, ...], reason: str
) -> None:
    (tmp_path / "text").write_text("some text\n" * 9)
    places = {"RUN": whole / RUN, "OUT": tmp_path / "out", "TEXT": tmp_path / "text"}
    done = cli(*(places.get(word, word) for word in options), stdin="1 May 2030\n")
    assert reason.lower() in done.refusal().lower()


@pytest.mark.skipif(sys.platform == "win32", reason="paths of POSIX")
def test_a_path_that_leads_nowhere_is_named(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(UserError, match="loop: cannot be read"):
        list(lines_of(tmp_path / "loop"))
    with pytest.raises(UserError, match=r"'a\\udcff': the path is not UTF-8; rename the file"):
        list(lines_of(Path(os.fsdecode(b"a\xff"))))
    done = cli("train", "dates", "--quick", "--out", os.fsdecode(bytes(tmp_path) + b"/a\xff"))
    assert "cannot be written (surrogates not allowed); choose another --out" in done.refusal()


def test_a_long_file_says_how_far_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("selfattn.data.readers.lines._REPORTED", 20)
    with gzip.open(tmp_path / "a.gz", "wb") as file:
        file.write(b"a\n" * 50)
    assert len(list(lines_of(tmp_path / "a.gz"))) == 50
    assert [line.rpartition(": ")[2] for line in capsys.readouterr().err.splitlines()] == [
        "20 lines read so far", "40 lines read so far",
    ]  # fmt: skip


def test_a_line_without_end_is_not_held(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "a.txt.gz", "wb", compresslevel=1) as file:
        file.write(b"one\n")
        for _ in range(80):
            file.write(b"a" * (1 << 20))
    lines = lines_of(tmp_path / "a.txt.gz")
    assert next(lines) == "one"
    with pytest.raises(UserError, match=r"a\.txt\.gz:2: longer than 64 MiB; give one text a line"):
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
@pytest.mark.parametrize(
    ("number", "moment"),
    [
        (signal.SIGTERM, "imports torch"),
        pytest.param(signal.SIGINT, "imports torch", marks=pytest.mark.reliability),
        pytest.param(signal.SIGINT, "imports selfattn.runs.fit", marks=pytest.mark.reliability),
    ],
)
def test_a_program_that_is_stopped_early_says_so(tmp_path: Path, number: int, moment: str) -> None:
    command = [sys.executable, "-c", TOLD, "train", "dates", "--out", str(tmp_path / "run")]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, preexec_fn=hear_interrupts, **pipes) as process:
        assert process.stdout is not None
        assert f"{moment}\n" in iter(process.stdout.readline, "")  # which reads until it is said
        process.send_signal(number)
        _, errors = process.communicate(timeout=LIMIT)
    assert (process.returncode, errors) == (130, "interrupted\n")
    assert not (tmp_path / "run").exists()


def test_a_terminal_without_a_size_gets_help(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "0")
    assert cli("--help").code == 0
