"""The commands of docs/how-to/fine-tune.md run as they stand, with short trainings and a small published model."""

import re
import shlex
from pathlib import Path

import pytest
from hub_server import Hub
from marian_model import pairs, write_marian, write_pairs
from small_runs import Cli

from selfattn.runs.load import load

pytest.importorskip("transformers", reason="needs transformers, which is not installed")

PAGE = (Path(__file__).resolve().parents[2] / "docs/how-to/fine-tune.md").read_text("utf-8")
SECTIONS = {
    re.search("^#+ (.*)$", section, re.M)[1]: [  # type: ignore[index]
        shlex.split(command)[1:]
        for block in re.findall("^```bash\n(.*?)^```", section, re.M | re.S)
        for command in block.replace("\\\n", " ").splitlines()
    ]
    for section in re.split("^(?=## )", PAGE, flags=re.M)
}
SHORT = ("--max-steps", "4", "--batch-size", "32", "--validation-items", "20")


@pytest.fixture
def place(tmp_path: Path, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with the files that the page names, and a Hub with its model."""
    folder = write_marian(tmp_path / "opus")
    commit = "b" * 40
    name = "Helsinki-NLP/opus-mt-en-de"
    hub.commits[name] = {commit: {file.name: file.read_bytes() for file in folder.iterdir()}}
    hub.branches[name] = {"main": commit}
    write_pairs(tmp_path / "mine.tsv", 1, 240)
    write_pairs(tmp_path / "web.tsv", 2, 240)
    for seed, corpus in ((1, "mine"), (3, "a"), (4, "b")):
        sides = zip(*pairs(seed, 240), strict=True)
        for side, texts in zip(("en", "de"), sides, strict=True):
            (tmp_path / f"{corpus}.{side}").write_text("".join(f"{text}\n" for text in texts), "utf-8")
    in_order = [
        (source, target, " ".join(f"{n}-{n}" for n in range(len(source.split())))) for source, target in pairs(1, 240)
    ]
    (tmp_path / "mine.links").write_text("".join(f"{links}\n" for _, _, links in in_order))
    (tmp_path / "gold.tsv").write_text("".join("\t".join(row) + "\n" for row in in_order[:20]))
    numbers = " ".join(["0.5"] * 128)
    (tmp_path / "glove.en.txt").write_text(f"one {numbers}\ntwo {numbers}\n")
    (tmp_path / "vectors.de.txt").write_text(f"2 128\neins {numbers}\nzwei {numbers}\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run_commands(cli: Cli, section: str) -> str:
    said = ""
    for command in SECTIONS[section]:
        is_training = command[0] == "train"
        done = cli(*command, *(SHORT if is_training else ()))
        assert done.code == 0, (command, done.err)
        said += done.out + done.err
    return said


def test_a_published_model_and_frozen_weights(place: Path, cli: Cli) -> None:
    pytest.importorskip("ctranslate2", reason="needs the extra [ctranslate2]")
    said = run_commands(cli, "Fine-tune a published model")
    assert "bleu" in said.lower()
    assert (place / "runs/tuned-ctranslate2").is_dir()
    assert load(place / "runs/tuned").config.training.lr == 5e-5
    assert "frozen: encoder, " in run_commands(cli, "Freeze weights")


def test_guided_alignment(place: Path, cli: Cli) -> None:
    said = run_commands(cli, "Guided alignment")
    assert load(place / "runs/guided").config.training.guided == 0.05
    assert "20 sentence pairs" in said


def test_several_corpora(place: Path, cli: Cli) -> None:
    run_commands(cli, "Several corpora")
    for run in ("weights", "temperature", "files"):
        assert "mixture" in load(place / "runs" / run).config.data


def test_pretrained_embeddings(place: Path, cli: Cli) -> None:
    said = run_commands(cli, "Pretrained embeddings")
    assert re.search("source embeddings: 2 of .* tokens have a vector in glove.en.txt", said)
    assert re.search("target embeddings: 2 of .* tokens have a vector in vectors.de.txt", said)


def test_all_commands_are_run() -> None:
    assert sum(map(len, SECTIONS.values())) == 11
    assert [name for name, commands in SECTIONS.items() if not commands] == []
