"""The commands of docs/how-to/day.md run one after the other, with short trainings, and its program."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from marian_model import pairs, write_pairs
from small_runs import Cli

from selfattn.runs.load import load

PAGE = (Path(__file__).resolve().parents[2] / "docs/how-to/day.md").read_text("utf-8")
BLOCKS = re.findall("^```bash\n(.*?)^```", PAGE, re.M | re.S)
LINES = [line for block in BLOCKS for line in block.replace("\\\n", " ").splitlines()]
COMMANDS = [line.rpartition("| ")[2] for line in LINES if re.match(r"(.*\| )?selfattn ", line)]
PROGRAM = re.findall("<!-- run by tests/runs/test_day_page.py: program -->\n```python\n(.*?)```", PAGE, re.S)
SHORTER = {"--held-out": "20", "--epochs": None}


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


def test_the_day(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("ctranslate2", reason="needs the extra [ctranslate2]")
    monkeypatch.chdir(tmp_path)
    write_pairs(tmp_path / "everyday.tsv", 1, 300)
    for seed, (name, count) in enumerate((("captions", 120), ("valid", 12), ("test", 12))):
        sides = zip(*pairs(10 + seed, count), strict=True)
        for side, texts in zip(("en", "de"), sides, strict=True):
            (tmp_path / f"{name}.{side}").write_text("".join(f"{text}\n" for text in texts), "utf-8")
    text = (tmp_path / "captions.de").read_text("utf-8").split()[0]
    assert len(COMMANDS) == 13
    for command in COMMANDS:
        words = [text if word == "Ein Mann" else word for word in shortened(command)]
        done = cli(*words, stdin="one red house\n")
        assert done.code == 0, (command, done.err)
    run = load(tmp_path / "runs/captions-average")
    assert run.config.metric == "loss"
    assert run.path.joinpath("model.safetensors").exists()
    names: dict[str, Any] = {"__name__": "page"}
    exec(PROGRAM[0], names)
    names["main"](tmp_path / "test.en", 3)
    assert len(capsys.readouterr().out.splitlines()) == 6  # a sentence and its output, three times
