"""The commands and the program of docs/how-to/fine-tune.md and day.md run, with short trainings and a small model."""

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest
from documented import program
from marian_model import pairs, write_marian, write_pairs

from selfattn.runs.load import load

DOCS = Path(__file__).resolve().parents[2] / "docs"
DAY = (DOCS / "how-to/day.md").read_text("utf-8")
SHORTER = {"--held-out": "8", "--epochs": None, "--max-steps": None}
VECTOR = " ".join(["0.5"] * 128)


def commands_of(text):
    """The commands in the blocks of a page, each without what is piped into it."""
    blocks = re.findall("^```bash\n(.*?)^```", text, re.M | re.S)
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    return [line.rpartition("| ")[2] for line in lines if re.match(r"(.*\| )?selfattn ", line)]


COMMANDS = commands_of(DAY)
SECTIONS = {
    section.partition("\n")[0].removeprefix("# "): commands_of(section)
    for section in re.split("^## ", (DOCS / "how-to/fine-tune.md").read_text("utf-8"), flags=re.M)
}


def shortened(command):
    words = shlex.split(command)[1:]
    if words[0] != "train":
        return words
    short = []
    for word in words:
        if short and short[-1] in SHORTER:
            value = SHORTER[short[-1]]
            short = [*short, value] if value else short[:-1]
        else:
            short.append(word)
    steps = "3" if "--keep" in short else "1"
    return [*short, "--max-steps", steps, "--validate-every", "1", "--validation-items", "4"]


def table_of(page):
    rows = re.findall(r"^\| [^|]*\| `(.*?)` \|", page, re.M)
    return [row.replace("\\|", "|") for row in rows if "selfattn " in row]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The files that the pages name, and the model of the Hub in `opus`."""
    pytest.importorskip("transformers", reason="needs transformers, which is not installed")
    folder = tmp_path_factory.mktemp("pages")
    write_marian(folder / "opus")
    for corpus, (seed, count) in {"mine": (1, 240), "web": (2, 240), "everyday": (1, 300)}.items():
        write_pairs(folder / f"{corpus}.tsv", seed, count)
    sides = {"mine": (1, 240), "a": (3, 240), "b": (4, 240), "captions": (10, 120), "valid": (11, 12), "test": (12, 12)}
    for corpus, (seed, count) in sides.items():
        for side, texts in zip(("en", "de"), zip(*pairs(seed, count), strict=True), strict=True):
            (folder / f"{corpus}.{side}").write_text("".join(f"{text}\n" for text in texts), "utf-8")
    in_order = [(*pair, " ".join(f"{n}-{n}" for n in range(len(pair[0].split())))) for pair in pairs(1, 240)]
    (folder / "mine.links").write_text("".join(f"{links}\n" for _, _, links in in_order))
    (folder / "gold.tsv").write_text("".join("\t".join(row) + "\n" for row in in_order[:20]))
    (folder / "glove.en.txt").write_text(f"one {VECTOR}\ntwo {VECTOR}\n")
    (folder / "vectors.de.txt").write_text(f"2 128\neins {VECTOR}\nzwei {VECTOR}\n")
    return folder


@pytest.fixture
def place(files, tmp_path, hub, monkeypatch):
    """A directory with the files, and a Hub with the model."""
    pytest.importorskip("ctranslate2", reason="needs the extra [ctranslate2]")
    folder, commit, name = shutil.copytree(files, tmp_path / "page"), "b" * 40, "Helsinki-NLP/opus-mt-en-de"
    hub.commits[name] = {commit: {file.name: file.read_bytes() for file in (folder / "opus").iterdir()}}
    hub.branches[name] = {"main": commit}
    monkeypatch.chdir(folder)
    return folder


def run_command(cli, place, command, stdin="one red house\n"):
    """Run a command of a page; its German words become a word of these pairs."""
    text = (place / "captions.de").read_text("utf-8").split()[0]
    done = cli(*[text if word == "Ein Mann" else word for word in shortened(command)], stdin=stdin)
    assert done.code == 0, (command, done.err)
    return done


def run_section(cli, place, section):
    done = [run_command(cli, place, command) for command in SECTIONS[section]]
    return "".join(one.out + one.err for one in done)


def test_a_published_model_and_frozen_weights(place, cli):
    assert "bleu" in run_section(cli, place, "Fine-tune a published model").lower()
    assert (place / "runs/tuned-ctranslate2").is_dir()
    assert load(place / "runs/tuned").config.training.lr == 5e-5
    assert "frozen: encoder, " in run_section(cli, place, "Freeze weights")


def test_guided_alignment_several_corpora_and_pretrained_embeddings(place, cli):
    assert "20 sentence pairs" in run_section(cli, place, "Guided alignment")
    assert load(place / "runs/guided").config.training.guided == 0.05
    run_section(cli, place, "Several corpora")
    for run in ("weights", "temperature", "files"):
        assert "mixture" in load(place / "runs" / run).config.data
    said = run_section(cli, place, "Pretrained embeddings")
    assert re.search("source embeddings: 2 of .* tokens have a vector in glove.en.txt", said)
    assert re.search("target embeddings: 2 of .* tokens have a vector in vectors.de.txt", said)
    assert sum(map(len, SECTIONS.values())) == 11, "are all commands run?"


def test_the_day(cli, place, capsys):
    assert len(COMMANDS) == 13
    for command in COMMANDS:
        run_command(cli, place, command)
    run = load(place / "runs/captions-average")
    assert run.config.metric == "loss"
    assert run.path.joinpath("model.safetensors").exists()
    names = {"__name__": "page"}
    exec(program("day.md", "program"), names)
    names["main"](place / "test.en", 3)
    assert len(capsys.readouterr().out.splitlines()) == 6  # a sentence and its output, three times


@pytest.mark.slow
def test_the_table_of_what_a_component_does(cli, place):
    pytest.importorskip("onnxruntime", reason="needs the extra [onnx]")
    for command in COMMANDS[:3]:  # train, evaluate, fine-tune
        run_command(cli, place, command)
    (place / "glossary.tsv").write_text("house\thaus\n")
    (place / "symbols.txt").write_text("/[0-9]+/\n")
    (place / "glove.txt").write_text(f"one {VECTOR}\ntwo {VECTOR}\n")
    results = {}
    for command in table_of(DAY):
        words, _, file = command.rpartition("| ")[2].partition(" < ")
        stdin = (place / file).read_text("utf-8") if file else "one red house\n"
        results[command] = run_command(cli, place, words, stdin)
    told = "".join(done.err for done in results.values())
    parts = ("captions.en, captions.de: 75.0 % of the training", "train: streamed, ", "source embeddings: 2 of ")
    for line in (*parts, "frozen: encoder, "):
        assert line in told, line
    engines = [done.out for command, done in results.items() if "--token-scores" in command]
    links = [[json.loads(line).get("alignment") for line in out.splitlines()] for out in engines[:2]]
    assert links[0] == links[1]


def test_the_tables_are_the_same_in_both_languages():
    commands = table_of(DAY)
    assert len(commands) == 24
    assert table_of((DOCS / "ko/day.md").read_text("utf-8")) == commands
