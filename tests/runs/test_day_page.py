"""The commands of docs/how-to/day.md run one after the other, with short trainings, its program, and its table."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from marian_model import pairs, write_pairs
from small_runs import Cli, Done

from selfattn.runs.load import load

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "how-to/day.md").read_text("utf-8")
BLOCKS = re.findall("^```bash\n(.*?)^```", PAGE, re.M | re.S)
LINES = [line for block in BLOCKS for line in block.replace("\\\n", " ").splitlines()]
COMMANDS = [line.rpartition("| ")[2] for line in LINES if re.match(r"(.*\| )?selfattn ", line)]
PROGRAM = re.findall("<!-- run by tests/runs/test_day_page.py: program -->\n```python\n(.*?)```", PAGE, re.S)
SHORTER = {"--held-out": "20", "--epochs": None, "--max-steps": None}


def shortened(command: str) -> list[str]:
    words = shlex.split(command)[1:]
    if words[0] != "train":
        return words
    short: list[str] = []
    for word in words:
        if short and short[-1] in SHORTER:
            value = SHORTER[short[-1]]
            short = [*short, value] if value else short[:-1]
        else:
            short.append(word)
    return [*short, "--max-steps", "6", "--validate-every", "2", "--validation-items", "10"]


def table_of(page: str) -> list[str]:
    """The commands in the tables of a page."""
    rows = re.findall(r"^\| [^|]*\| `(.*?)` \|", page, re.M)
    return [row.replace("\\|", "|") for row in rows if "selfattn " in row]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with the files that the page starts from."""
    pytest.importorskip("ctranslate2", reason="needs the extra [ctranslate2]")
    monkeypatch.chdir(tmp_path)
    write_pairs(tmp_path / "everyday.tsv", 1, 300)
    for seed, (name, count) in enumerate((("captions", 120), ("valid", 12), ("test", 12))):
        sides = zip(*pairs(10 + seed, count), strict=True)
        for side, texts in zip(("en", "de"), sides, strict=True):
            (tmp_path / f"{name}.{side}").write_text("".join(f"{text}\n" for text in texts), "utf-8")
    return tmp_path


def run_command(cli: Cli, place: Path, command: str, stdin: str = "one red house\n") -> Done:
    """Run a command of the page; its German words become a word of these pairs."""
    text = (place / "captions.de").read_text("utf-8").split()[0]
    words = [text if word == "Ein Mann" else word for word in shortened(command)]
    done = cli(*words, stdin=stdin)
    assert done.code == 0, (command, done.err)
    return done


def test_the_day(cli: Cli, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert len(COMMANDS) == 13
    for command in COMMANDS:
        run_command(cli, place, command)
    run = load(place / "runs/captions-average")
    assert run.config.metric == "loss"
    assert run.path.joinpath("model.safetensors").exists()
    names: dict[str, Any] = {"__name__": "page"}
    exec(PROGRAM[0], names)
    names["main"](place / "test.en", 3)
    assert len(capsys.readouterr().out.splitlines()) == 6  # a sentence and its output, three times


@pytest.mark.slow
def test_the_table_of_what_a_component_does(cli: Cli, place: Path) -> None:
    pytest.importorskip("onnxruntime", reason="needs the extra [onnx]")
    for command in COMMANDS[:3]:  # train, evaluate, fine-tune
        run_command(cli, place, command)
    (place / "glossary.tsv").write_text("house\thaus\n")
    (place / "symbols.txt").write_text("/[0-9]+/\n")
    numbers = " ".join(["0.5"] * 128)
    (place / "glove.txt").write_text(f"one {numbers}\ntwo {numbers}\n")
    results = {}
    for command in table_of(PAGE):
        words, _, file = command.rpartition("| ")[2].partition(" < ")
        stdin = (place / file).read_text("utf-8") if file else "one red house\n"
        results[command] = run_command(cli, place, words, stdin)
    told = "".join(done.err for done in results.values())
    for line in (
        "captions.en, captions.de: 75.0 % of the training",
        "train: streamed, ",
        "frozen: encoder, ",
        "source embeddings: 2 of ",
    ):
        assert line in told, line
    engines = [done.out for command, done in results.items() if "--token-scores" in command]
    links = [[json.loads(line).get("alignment") for line in out.splitlines()] for out in engines[:2]]
    assert links[0] == links[1]


def test_the_tables_are_the_same_in_both_languages() -> None:
    commands = table_of(PAGE)
    assert len(commands) == 24
    assert table_of((DOCS / "ko/day.md").read_text("utf-8")) == commands
