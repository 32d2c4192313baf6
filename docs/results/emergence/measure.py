"""When does alignment emerge? Train the runs of a comparison again and watch their attention.

``measure.py links DATA GOLD`` lets eflomal (``pip install eflomal``) align the words of the English and German captions
in DATA, the folder of Multi30k, and writes 400 validation pairs with their links to GOLD. A link that both directions
find is sure, one that a single direction finds is possible (Och and Ney 2003, section 5.2).

``measure.py train RUN GOLD OUT`` trains a run again, called in the folder that its data files are named from. A seed
decides everything that is random, so the steps are those of the run; at the end it prints whether the last weights are.
Every 50 steps it writes a line to OUT (JSON Lines): step, losses, BLEU on 100 validation captions, and the alignment
error rate of every way to read the attention, on the first and on the second half of GOLD.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from safetensors.torch import load_file

from selfattn.data.pairs import Pair
from selfattn.data.readers.pairs import read_pairs
from selfattn.evaluation.attention import word_links
from selfattn.evaluation.links import GoldPair, count_alignment, parse_links, read_gold
from selfattn.models.protocol import Seq2Seq
from selfattn.runs.directory import CHECKPOINT, RunDirectory
from selfattn.runs.fit import fit
from selfattn.runs.task import make_task
from selfattn.runs.training_set import make_training_set
from selfattn.tokenizers.protocol import Tokenizer
from selfattn.training.observer import EpochReport, Observer

PAIRS, EVERY, SCORED = 400, 50, 100


class Watch(Observer):
    """Writes the alignment error rates of the model at every validation."""

    def __init__(self, gold: list[GoldPair], tokenizer: Tokenizer, out: Path) -> None:
        self.gold, self.tokenizer, self.out = gold, tokenizer, out

    def validated(self, report: EpochReport, model: Seq2Seq, is_best: bool) -> None:
        """Write one line."""
        half, right = len(self.gold) // 2, [pair.links for pair in self.gold]
        errors = {
            str(way): [count_alignment(links[part], right[part]).aer for part in (slice(half), slice(half, None))]
            for way, links in word_links(model, self.tokenizer, self.gold).items()
        }
        line = {"step": report.step, "lr": report.lr, "train_loss": report.train_loss}
        line |= {"valid_loss": report.valid_loss, "bleu": report.measures["bleu"], "aer": errors}
        with self.out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def words(text: str) -> str:
    """Return a caption with one space between its words."""
    return " ".join(filter(None, text.strip().split(" ")))


def plain(line: str) -> str:
    """Return the words as the aligner gets them: lower case, without punctuation."""
    return " ".join("".join(filter(str.isalnum, word)).lower() or word for word in line.split(" "))


def write_links(data: Path, out: Path) -> None:
    """Align with eflomal and write the first validation pairs with their links."""
    train, valid = (
        [
            Pair(words(pair.source), words(pair.target))
            for pair in read_pairs(data / f"{part}.en.gz", data / f"{part}.de.gz")
        ]
        for part in ("train", "val")
    )
    lines = [f"{plain(pair.source)} ||| {plain(pair.target)}\n" for pair in (*train, *valid[:PAIRS])]
    with TemporaryDirectory() as name:
        text, forward, back = (Path(name, file) for file in ("text", "forward", "back"))
        text.write_text("".join(lines), encoding="utf-8")
        subprocess.run(["eflomal-align", "-i", text, "-f", forward, "-r", back, "--model", "3"], check=True)
        sides = [path.read_text(encoding="utf-8").splitlines()[len(train) :] for path in (forward, back)]
    rows = []
    for pair, *directions in zip(valid, *sides, strict=False):
        first, second = (parse_links(links).sure for links in directions)
        links = (f"{i}{'-' if (i, j) in first & second else 'p'}{j}" for i, j in sorted(first | second))
        rows.append(f"{pair.source}\t{pair.target}\t{' '.join(links)}\n")
    out.write_text("".join(rows), encoding="utf-8")


def train(run: Path, gold: list[GoldPair], out: Path) -> None:
    """Train a run again and watch it; print whether the last weights are those of the run."""
    directory = RunDirectory(run)
    config, tokenizer = directory.config(), directory.tokenizer()
    files = {
        option: tuple(Path(file["path"]) for file in config.data["sources"][part]["files"])
        for option, part in {"data": "train", "valid": "valid", "test": "test"}.items()
    }
    languages = {"source": config.data["source_language"], "target": config.data["target_language"]}
    task = make_task(config.task, languages | files)
    training = replace(config.training, validate_every=EVERY, validation_items=SCORED, average="none")
    data = make_training_set(task, training, task.splits(training.seed, SCORED), keep=True)
    watch = Watch(gold, tokenizer, out)
    with TemporaryDirectory() as folder:
        config = replace(config, training=training)
        again = Path(folder, "run")
        fit(config, data, again, command="", threads=1, observers=[watch], notes=())
        before, after = (load_file(path / CHECKPOINT) for path in (run, again))
    same = [bool((tensor == after[name]).all()) for name, tensor in before.items() if name.startswith("model/")]
    print(f"{run}: {sum(same)} of {len(same)} tensors of the last weights are equal")


if __name__ == "__main__":
    if sys.argv[1] == "links":
        write_links(Path(sys.argv[2]), Path(sys.argv[3]))
    else:
        train(Path(sys.argv[2]), read_gold(sys.argv[3], base=0), Path(sys.argv[4]))
