import itertools
import json
import random
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from selfattn.data.corpus.corpus import CleanCorpus, PairStream, loose, read_corpus
from selfattn.data.pairs import Pair
from selfattn.data.readers import file_sources
from selfattn.errors import UserError

RealData = Callable[[str], Path]
Files = dict[str, tuple[Path, ...]]


def tsv(path: Path, pairs: Sequence[tuple[str, str]]) -> tuple[Path]:
    path.write_text("".join(f"{source}\t{target}\n" for source, target in pairs), encoding="utf-8")
    return (path,)


def texts(pairs: Sequence[Pair] | PairStream) -> list[tuple[str, str]]:
    return [(pair.source, pair.target) for pair in pairs]


def read(files: Files, columns: tuple[str, str] | None = None, **options: Any) -> CleanCorpus:
    return read_corpus(file_sources(files, columns), **options)


def counts(parts: CleanCorpus) -> dict[str, int]:
    """What was left out of train, by step."""
    train = itertools.takewhile(lambda line: line.startswith(("train:", "  ")), parts.notes)
    found = (re.match(r"  left out, (.*): ([\d,]+) \(", line) for line in train)
    return {match[1]: int(match[2].replace(",", "")) for match in found if match}


GOOD = [(f"source {word}", f"target {word}") for word in ("one", "two", "three", "four", "five")]
BAD = [
    ("source one", "target one"),  # repeats the first
    ("source a", "target 8"),  # in valid by target
    ("source 9", "target b"),  # in test by source
    ("x", "y" * 200),
    ("no target", " "),
    ("control\x01", "target c"),
]
VALID = [("source 8", "target 8"), ("source 8", "target 8"), ("z", "w" * 300)]
TEST = [("source 9", "target 9")]


@pytest.fixture
def files(tmp_path: Path) -> Files:
    parts = {"train": GOOD + BAD, "valid": VALID, "test": TEST}
    return {name: tsv(tmp_path / f"{name}.tsv", pairs) for name, pairs in parts.items()}


def test_every_pair_is_kept_or_counted(files: Files) -> None:
    parts = read(files)
    assert texts(parts.train) == [*GOOD, ("control", "target c")]
    assert texts(parts.valid) == VALID  # neither limits nor repeats touch what scores are taken from
    assert texts(parts.test) == TEST
    assert counts(parts) == {"empty": 1, "length ratio": 1, "duplicate": 1, "shared with valid or test": 2}
    assert "  left out, shared with valid or test: 2 (train.tsv:7; train.tsv:8)" in parts.notes
    assert parts.train[0].tag == ""
    assert parts.train[0].spans == ()


def test_a_stream_gives_the_same_but_for_repeats(files: Files) -> None:
    parts = read(files, streaming=True)
    assert isinstance(parts.train, PairStream)
    expected = [*GOOD, GOOD[0], ("control", "target c")]
    assert texts(parts.train) == expected
    assert texts(parts.train) == expected
    assert (texts(parts.valid), texts(parts.test)) == (VALID, TEST)
    json.dumps(parts.settings)


def test_a_stream_needs_its_held_out_parts(files: Files) -> None:
    with pytest.raises(UserError, match="give valid and test too, or leave out `streaming`"):
        read({"train": files["train"]}, streaming=True)


def test_training_on_the_test_itself_leaves_nothing(tmp_path: Path) -> None:
    path = tsv(tmp_path / "a.tsv", GOOD)
    with pytest.raises(UserError, match=r"no pair is left for train after cleaning \(shared with valid or test 5"):
        read({"train": path, "valid": path, "test": path})


def sentences(count: int) -> list[tuple[str, str]]:
    """Pairs of which many share a sentence with others, but for case and punctuation perhaps."""
    rng = random.Random(5)
    ends = (".", "!", "")
    return [(f"S {rng.randrange(count)}{rng.choice(ends)}", f"t {rng.randrange(count)}") for _ in range(count)]


def assert_apart(parts: CleanCorpus) -> None:
    for side in ("source", "target"):
        known = [{loose(getattr(pair, side)) for pair in part} for part in (parts.train, parts.valid, parts.test)]
        assert not known[0] & known[1]
        assert not known[0] & known[2]
        assert not known[1] & known[2]


def test_held_out_parts_share_no_sentence(tmp_path: Path) -> None:
    pairs = sentences(1009) + [("S 1", "t 1")] * 2 + [(f"lonely {word}", f"alone {word}") for word in range(503)]
    files: Files = {"train": tsv(tmp_path / "a.tsv", pairs)}
    parts = read(files, held_out=97)
    assert (len(parts.valid), len(parts.test)) == (97, 97)
    assert_apart(parts)
    assert sorted(texts(parts.train) + texts(parts.valid) + texts(parts.test)) == sorted(set(pairs))
    assert counts(parts) == {"duplicate": len(pairs) - len(set(pairs))}
    assert ", 97 moved to valid, 97 moved to test" in parts.notes[0]
    by_default = read(files)
    assert len(by_default.valid) == len(by_default.test) == len(set(pairs)) // 20


def test_one_part_may_be_given_and_the_other_held_out(files: Files, tmp_path: Path) -> None:
    train = tsv(tmp_path / "b.tsv", sentences(211))
    parts = read(files | {"train": train, "valid": ()}, held_out=11)
    assert (len(parts.valid), texts(parts.test)) == (11, TEST)
    assert_apart(parts)


def test_what_hangs_together_cannot_be_held_out(tmp_path: Path) -> None:
    train = tsv(tmp_path / "a.tsv", [(f"source {n}", "always the same") for n in range(101)])
    with pytest.raises(UserError, match="cannot hold 5 of 101 pairs out for valid so that no sentence"):
        read({"train": train})


# Real data, with the numbers that its description states


def multi30k(shared_data: RealData, part: str, language: str) -> tuple[Path, Path]:
    return shared_data(f"multi30k/{part}.en.gz"), shared_data(f"multi30k/{part}.{language}.gz")


def test_multi30k(shared_data: RealData) -> None:
    names = {"train": "train", "valid": "val", "test": "test_2017_flickr"}
    parts = read({part: multi30k(shared_data, name, "de") for part, name in names.items()})
    assert [line for line in parts.notes if "shared with train" in line] == [
        "valid: 2 of its pairs shared with train (1 by source, 1 by target)",
        "test: 2 of its pairs shared with train (0 by source, 2 by target)",
    ]
    assert (len(parts.valid), len(parts.test)) == (1014, 1000)
    found = counts(parts)
    assert found["duplicate"] == 3
    assert sum(found.values()) == 29_000 - len(parts.train) <= 10
