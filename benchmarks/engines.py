"""From texts to texts with CTranslate2 itself, with our `--engine ctranslate2` and with our own engine, by turns.

`python -m benchmarks.engines --source test.en [--run RUN] [--turns 5]` prints a table. All have the same weights in
float32, the same tokens and the same outputs (differences are counted). Time is processor time of all threads of this
process. Outputs that are cut off are searched a second time by `--engine ctranslate2` with a beam: their number is
told, and `--ended` leaves them out. `--train SRC TGT` makes a run first, of a few hundred steps, where there is none.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import torch

from benchmarks.measure import spread

Translate = Callable[[Sequence[str], int], list[str]]


def of_engine(run: Any, batch: int, most: int | None) -> Translate:
    """Decode with a run, a batch at a time."""

    def translate(texts: Sequence[str], beam: int) -> list[str]:
        outputs: list[str] = []
        for start in range(0, len(texts), batch):
            outputs += run.predict(texts[start : start + batch], beam=beam, max_length=most)
        return outputs

    return translate


def of_ctranslate2(exported: Any, batch: int, most: int | None) -> Translate:
    """Decode with CTranslate2's own call: sentencepiece's encoding, `translate_batch`, sentencepiece's decoding."""
    import ctranslate2

    tokenizer = exported.tokenizer
    folder = str(exported.path / "ctranslate2")
    engine = ctranslate2.Translator(folder, intra_threads=torch.get_num_threads(), compute_type="float32")
    names = ["<pad>", "<bos>", "<eos>", "<unk>", *map(str, range(4, len(tokenizer.source)))]

    def translate(texts: Sequence[str], beam: int) -> list[str]:
        outputs: list[str] = []
        for start in range(0, len(texts), batch):
            encoded = [tokenizer.source.encode(text) for text in texts[start : start + batch]]
            longest = most or max(exported.config.output_limit(len(ids) + 1) for ids in encoded)
            results = engine.translate_batch(
                [[*[names[token] for token in ids], "<eos>"] for ids in encoded],
                beam_size=beam,
                length_penalty=0.0,
                min_decoding_length=0,
                max_decoding_length=longest,
                max_input_length=0,
            )
            outputs += [tokenizer.target.decode([int(token) for token in one.hypotheses[0]]) for one in results]
        return outputs

    return translate


ALONE = """
import sys, ctranslate2, sentencepiece
folder, model, beam, threads, most, at_once = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
tokens = sentencepiece.SentencePieceProcessor(model_file=model)
engine = ctranslate2.Translator(folder, intra_threads=threads, compute_type="float32")
lines = [line.rstrip("\\n") for line in sys.stdin]
at_once = at_once or len(lines)
options = {"beam_size": beam, "length_penalty": 0.0, "min_decoding_length": 0, "max_decoding_length": most}
for start in range(0, len(lines), at_once):
    sources = [[*map(str, tokens.encode(line)), "<eos>"] for line in lines[start : start + at_once]]
    for result in engine.translate_batch(sources, max_batch_size=64, **options):
        print(tokens.decode([int(token) for token in result.hypotheses[0]]))
"""


def commands(run: Path, exported: Path, beam: int, most: int) -> dict[str, list[str]]:
    """Return whole commands that translate standard input to outputs of at most so many tokens.

    CTranslate2 is given 64 lines at a time, or all of them, which it sorts by length and takes in batches of 64.
    """
    model = exported / "tokenizer" / "subword.model"
    numbers = [str(beam), str(torch.get_num_threads()), str(most)]
    alone = [sys.executable, "-c", ALONE, str(exported / "ctranslate2"), str(model), *numbers]
    ours = [sys.executable, "-m", "selfattn.cli", "predict", str(run), "--beam", str(beam), "--max-length", str(most)]
    return {
        "CTranslate2": [*alone, "64"],
        "CTranslate2, all lines at once": [*alone, "0"],
        "--engine ctranslate2": [*ours, "--engine", "ctranslate2"],
        "selfattn": ours,
    }


def processor_time(call: Callable[[], object]) -> float:
    """Return the processor time of a call, of all its threads and children."""
    before = sum(resource.getrusage(who).ru_utime + resource.getrusage(who).ru_stime for who in WHO)
    call()
    return sum(resource.getrusage(who).ru_utime + resource.getrusage(who).ru_stime for who in WHO) - before


WHO = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)


def show(title: str, taken: dict[str, list[float]], note: str = "") -> None:
    """Print a row for each way: its time, and the speed as a share of CTranslate2's."""
    reference = taken["CTranslate2"]
    for name, times in taken.items():
        middle, low, high = spread(times)
        shares = spread([other / own for own, other in zip(times, reference, strict=True)])
        share = " to ".join(f"{value:.3f}" for value in shares[1:])
        print(
            f"| {title} | {name} | {middle:.2f} ({low:.2f} to {high:.2f}) s | {shares[0]:.3f} ({share}) |", flush=True
        )
    if note:
        print(f"|  | {note} | | |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", type=Path, required=True, help="file of texts")
    parser.add_argument("--run", type=Path, default=Path("build/engines"), help="run of subwords; made where missing")
    parser.add_argument("--train", type=Path, nargs=2, help="files to train a missing run on")
    parser.add_argument("--lines", type=int, default=1000)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--max-length", type=int, help="most tokens of an output, for a run that ends few of them")
    parser.add_argument("--ended", action="store_true", help="leave out lines whose outputs of beam 5 are cut off")
    parser.add_argument("--only", nargs="*", default=["1/1", "1/5", "64/1", "64/5", "commands"], help="batch/beam")
    chosen = parser.parse_args()
    torch.set_num_threads(chosen.threads)
    os.environ["OMP_NUM_THREADS"] = str(chosen.threads)

    from selfattn import load

    if not chosen.run.exists():
        if chosen.train is None:
            parser.error(f"--train: give two files, since {chosen.run} does not exist")
        from selfattn import train

        train("translation", source="en", target="de", data=tuple(chosen.train), max_steps=400, out=chosen.run)
    run = load(chosen.run)
    exported = load(chosen.run, engine="ctranslate2")
    exported.reference = None  # the comparison with torch is no part of the speed
    texts = chosen.source.read_text(encoding="utf-8").splitlines()[: chosen.lines]
    outputs_of = run.decode(texts, beam=5, max_length=chosen.max_length)
    cut_off = {text for text, outputs in zip(texts, outputs_of, strict=True) if not outputs[0].finished}
    if chosen.ended:
        texts = [text for text in texts if text not in cut_off]
    print(f"{len(texts):,} lines, {chosen.threads} threads, {chosen.turns} turns, load {os.getloadavg()[0]:.1f}")
    print(f"outputs of beam 5 that are cut off: {len(cut_off):,}{', left out' if chosen.ended else ''}")
    print("| batch, beam | way | processor time | speed over CTranslate2's |\n| --- | --- | ---: | ---: |")
    for pair in chosen.only:
        if pair == "commands":
            continue
        batch, beam = map(int, pair.split("/"))
        ways = {
            "CTranslate2": of_ctranslate2(exported, batch, chosen.max_length),
            "--engine ctranslate2": of_engine(exported, batch, chosen.max_length),
            "selfattn": of_engine(run, batch, chosen.max_length),
        }
        outputs = {name: way(texts[:64], beam) for name, way in ways.items()}  # warm up
        taken: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(chosen.turns):
            for name, way in ways.items():
                started = time.process_time()
                outputs[name] = way(texts, beam)
                taken[name].append(time.process_time() - started)
        expected = outputs["CTranslate2"]
        other = {
            name: sum(a != b for a, b in zip(found, expected, strict=True))
            for name, found in outputs.items()
            if found != expected
        }
        show(f"{batch}, {beam}", taken, f"other outputs: {other}" if other else "")
    if "commands" in chosen.only:
        with tempfile.TemporaryFile() as lines:
            lines.write("".join(f"{text}\n" for text in texts).encode())
            for beam in (1, 5):
                most = chosen.max_length or run.config.max_length
                calls = {
                    name: partial(_translate, command, lines)
                    for name, command in commands(chosen.run, exported.path, beam, most).items()
                }
                for call in calls.values():
                    call()  # the engine's first outputs are compared with those of torch, once
                taken = {name: [] for name in calls}
                for _ in range(chosen.turns):
                    for name, call in calls.items():
                        taken[name].append(processor_time(call))
                show(f"whole command, beam {beam}", taken)


def _translate(command: list[str], lines: BinaryIO) -> None:
    lines.seek(0)
    subprocess.run(command, stdin=lines, stdout=subprocess.DEVNULL, check=True)


if __name__ == "__main__":
    main()
