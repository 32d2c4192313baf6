"""A corpus may be larger than memory: the resident size of a process does not grow with what streams through it."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
import torch

from selfattn.data.batches import stream_batches
from selfattn.data.corpus.cleaning import CleaningOptions
from selfattn.data.corpus.sources import PairSource
from selfattn.data.corpus.stream import PairStream
from selfattn.data.examples import Example, encode_stream
from selfattn.data.readers.records import RawPair
from selfattn.tokenizers.char import CharTokenizer

# Reads, cleans, encodes and batches a whole file, and prints the growth of memory that belongs to the process alone,
# in KiB, from one fifth of the file to its end. (Pages of mapped files belong to the cache of the system.)
PROGRAM = """
import sys
from pathlib import Path
import datasets, torch
from selfattn.data.corpus.corpus import read_corpus
from selfattn.data.corpus.sources import CorpusFiles
from selfattn.data.batches import stream_batches
from selfattn.data.examples import encode_stream
from selfattn.data.shuffling import shuffled
from selfattn.tokenizers.char import CharTokenizer

def memory():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon"))

paths = [(Path(name),) for name in sys.argv[2:]]
parts = read_corpus(CorpusFiles(*paths), streaming=sys.argv[1] == "stream")
pairs = parts.train if sys.argv[1] == "stream" else shuffled(parts.train, seed=0)
tokenizer = CharTokenizer("0123456789 abcdefghijklmnopqrstuvwxyz번째문장")
chance = torch.Generator().manual_seed(0)
stream = stream_batches(encode_stream(pairs, tokenizer), max_tokens=4000, pad_id=0, bos_id=1, generator=chance)
seen, early = 0, None
for batch in stream:
    seen += len(batch.indices)
    if early is None and seen >= 20_000:
        early = memory()
print(seen, early, memory())
"""


def write(path: Path, start: int, lines: int) -> Path:
    with path.open("w", encoding="utf-8") as file:
        file.writelines(f"sentence number {n}\t{n} 번째 문장\n" for n in range(start, start + lines))
    return path


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
@pytest.mark.parametrize("way", ["stream", "map"])
def test_a_million_lines_take_no_more_than_a_hundred_thousand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    held = [write(tmp_path / f"{name}.tsv", 10**9 + start, 100) for start, name in ((0, "valid"), (500, "test"))]
    found = {}
    for lines in (100_000, 1_000_000):
        train = write(tmp_path / f"train-{lines}.tsv", 0, lines)
        program = [sys.executable, "-c", PROGRAM, way, *map(str, (train, *held))]
        result = subprocess.run(program, capture_output=True, text=True, check=True)
        seen, early, late = map(int, result.stdout.split())
        assert seen == lines
        found[lines] = late
        assert late - early < 20_000
    if way == "stream":  # to map, the corpus is cleaned as a whole first, for which some bytes of each pair are kept
        assert found[1_000_000] - found[100_000] < 20_000


def test_what_went_through_a_stream_is_let_go() -> None:
    def rows() -> Iterator[RawPair]:
        return (RawPair(number, f"source {number}", f"target {number}") for number in count(1))

    pairs = PairStream(PairSource("numbers", rows), CleaningOptions(), length_ratio=1.0)
    tokenizer = CharTokenizer("0123456789 sourcetarget")
    chance = torch.Generator().manual_seed(0)
    stream = stream_batches(
        encode_stream(pairs, tokenizer), batch_size=16, buffer=200, pad_id=0, bos_id=1, generator=chance
    )
    others = {id(thing) for thing in gc.get_objects() if type(thing) is Example}  # that other tests still hold
    for _ in range(300):
        next(stream)
    held = [thing for thing in gc.get_objects() if type(thing) is Example and id(thing) not in others]
    assert 0 < len(held) <= 201  # the window, and the one that is being made
