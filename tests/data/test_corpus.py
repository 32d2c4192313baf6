"""Corpora: each row is kept or counted, parts share no sentence; several are mixed by weights or a temperature."""

import gc
import hashlib
import itertools
import json
import os
import random
import re
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from marian_model import pairs, write_pairs

from selfattn.data.corpus import CleaningOptions, PairStream, Tally, clean_rows, is_unlikely, loose, read_corpus
from selfattn.data.readers.pairs import PairFiles
from selfattn.data.readers.rows import BadRecord, RawPair
from selfattn.data.splits import Mixture
from selfattn.errors import UserError
from selfattn.processes import give_back_memory, paused_collector
from selfattn.tasks.translation import Translation


def tsv(path, pairs):
    path.write_text("".join(f"{source}\t{target}\n" for source, target in pairs), encoding="utf-8")
    return (path,)


def texts(pairs):
    return [(pair.source, pair.target) for pair in pairs]


def read(files, **options):
    sources = {name: PairFiles(tuple(part)) for name, part in files.items() if part}
    return read_corpus(sources, ("en", "de"), cleaning=CleaningOptions(), **options)


def counts(corpus):
    """What was left out of train, by step."""
    train = itertools.takewhile(lambda line: line.startswith(("train:", "  ")), corpus.notes)
    steps = (re.match(r"  left out, (.*): ([\d,]+) \(", line) for line in train)
    return {step[1]: int(step[2].replace(",", "")) for step in steps if step}


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
def files(tmp_path):
    parts = {"train": GOOD + BAD, "valid": VALID, "test": TEST}
    return {name: tsv(tmp_path / f"{name}.tsv", pairs) for name, pairs in parts.items()}


def test_every_pair_is_kept_or_counted(files):
    corpus = read(files)
    assert texts(corpus.parts["train"]) == [*GOOD, ("control", "target c")]
    # Neither limits nor repeats touch what scores are taken from.
    assert (texts(corpus.parts["valid"]), texts(corpus.parts["test"])) == (VALID, TEST)
    assert counts(corpus) == {"empty": 1, "length ratio": 1, "duplicate": 1, "shared with valid or test": 2}
    assert "  left out, shared with valid or test: 2 (first train.tsv:7)" in corpus.notes


def test_a_stream_gives_the_same_but_for_repeats(files, monkeypatch):
    corpus = read(files, streaming=True)
    assert isinstance(corpus.parts["train"], PairStream)
    expected = [*GOOD, GOOD[0], ("control", "target c")]
    assert texts(corpus.parts["train"]) == texts(corpus.parts["train"]) == expected
    assert (texts(corpus.parts["valid"]), texts(corpus.parts["test"])) == (VALID, TEST)
    json.dumps(corpus.settings)
    assert corpus.notes[0] == "train: streamed, so it is read and cleaned again in every epoch"
    monkeypatch.setattr("selfattn.data.corpus._SAMPLE", 8)
    notes = read(files, streaming=True).notes
    assert notes[0] == "train: streamed, so cleaning reports behind the first pass; of the first 8 pairs:"
    assert "    left out, shared with valid or test: 2 (first train.tsv:7)" in notes
    with pytest.raises(UserError, match="give valid and test too, or leave out `streaming`"):
        read({"train": files["train"]}, streaming=True)


def test_a_corpus_whose_targets_are_its_sources_is_warned_of(files, tmp_path):
    assert not [note for note in read(files).notes if note.startswith("warning")]
    copies = tsv(tmp_path / "copies.tsv", [(f"text {number}", f"text {number}") for number in range(12)])
    line = (
        "warning: the target is the source in 12 of 12 training pairs; unless that is the task, check files and columns"
    )
    for options in ({}, {"streaming": True}):
        assert line in read({**files, "train": copies}, **options).notes
    assert line in read({"train": copies}, held_out=2).notes


def sentences(count):
    """Pairs of which many share a sentence with others, but for case and punctuation perhaps."""
    rng = random.Random(5)
    ends = (".", "!", "")
    return [(f"S {rng.randrange(count)}{rng.choice(ends)}", f"t {rng.randrange(count)}") for _ in range(count)]


def assert_apart(corpus):
    for side in ("source", "target"):
        known = [set(loose([getattr(pair, side) for pair in part])) for part in corpus.parts.values()]
        assert len(set.union(*known)) == sum(map(len, known))


def test_held_out_parts_share_no_sentence(tmp_path):
    pairs = sentences(1009) + [("S 1", "t 1")] * 2 + [(f"lonely {word}", f"alone {word}") for word in range(503)]
    files = {"train": tsv(tmp_path / "a.tsv", pairs)}
    corpus = read(files, held_out=97)
    assert (len(corpus.parts["valid"]), len(corpus.parts["test"])) == (97, 97)
    assert_apart(corpus)
    assert sorted(pair for part in corpus.parts.values() for pair in texts(part)) == sorted(set(pairs))
    assert counts(corpus) == {"duplicate": len(pairs) - len(set(pairs))}
    assert ", 97 moved to valid, 97 moved to test" in corpus.notes[0]
    by_default = read(files)
    assert len(by_default.parts["valid"]) == len(by_default.parts["test"]) == len(set(pairs)) // 20


def test_multi30k(shared_data):
    """Real data, with the numbers that its description states."""
    names = {"train": "train", "valid": "val", "test": "test_2017_flickr"}
    files = {part: tuple(shared_data(f"multi30k/{name}.{x}.gz") for x in ("en", "de")) for part, name in names.items()}
    corpus = read(files)
    assert (len(corpus.parts["valid"]), len(corpus.parts["test"])) == (1014, 1000)
    left_out = counts(corpus)
    assert left_out["duplicate"] == 3
    assert sum(left_out.values()) == 29_000 - len(corpus.parts["train"]) <= 10


def test_each_row_is_kept_or_counted_for_the_first_step_that_meets_it():
    rows = [
        RawPair(1, "good", "gut"), BadRecord(2, "1 column(s), not 2", lines=3), RawPair(5, "bad \udcff", "ok"),
        RawPair(6, "  ", ""), RawPair(7, "text", "\x00\u00a0"), RawPair(8, "x" * 11, "y"),
        RawPair(9, " e\u0301 ", "t\x00"), RawPair(10, "\ud800", ""),
    ]  # fmt: skip
    tally = Tally("train", "f")
    kept = list(clean_rows(rows, CleaningOptions(max_characters=10), tally, limited=True))
    assert kept == [RawPair(1, "good", "gut"), RawPair(9, "é", "t")]
    assert tally.lines(len(kept), {"test": 1}) == [
        "train: 10 read, 2 kept, 8 left out, 1 moved to test",
        "  left out, broken: 3 (first f:2 1 column(s), not 2)",
        "  left out, invalid UTF-8: 2 (first f:5)",
        "  left out, empty: 2 (first f:6)",
        "  left out, too long: 1 (first f:8 11 characters)",
    ]
    with pytest.raises(UserError, match=r"f: no pair is left for train after cleaning \(broken: 3 \(first f:2 1"):
        tally.refuse_empty(0)


@pytest.mark.parametrize(
    ("source", "target", "bad"),
    # 30 characters let expect 15, both with 10 added: from 25 / 4 to 25 * 4, without the 10: up to 90
    [(30, 1, False), (30, 15, False), (30, 90, False), (30, 91, True), (140, 10, False), (141, 10, True)],
)
def test_lengths_are_held_against_what_the_source_lets_expect(source, target, bad):
    assert is_unlikely(RawPair(1, "s" * source, "t" * target), 0.5, 4.0) == bad


# Several corpora with weights or a temperature: shares of an epoch, the same for the same seed


@pytest.fixture(scope="module")
def corpora(tmp_path_factory):
    """A large and a small corpus, in two formats: a table and parallel corpora would not mix, so two tables."""
    folder = tmp_path_factory.mktemp("corpora")
    return write_pairs(folder / "large.tsv", 1, 300), write_pairs(folder / "small.tsv", 2, 60)


ORIGIN = {
    source: name for name, seed, count in (("small", 2, 60), ("large", 1, 300)) for source, _ in pairs(seed, count)
}


def epoch(number, seed, count=None, **settings):
    return list(Translation(source="en", target="de", **settings).splits(seed).train(number, count))


@pytest.mark.parametrize(
    ("settings", "share"), [({"weights": (1, 3)}, 0.75), ({"temperature": 1000.0}, 0.5), ({"weights": (9, 1)}, 0.1)]
)
def test_shares_of_an_epoch(corpora, settings, share):
    drawn = epoch(0, 0, data=corpora, **settings)
    counts = Counter(ORIGIN[pair.source] for pair in drawn)
    total = len(Translation(source="en", target="de", data=corpora).splits(0).parts["train"])
    assert sum(counts.values()) == total
    assert abs(counts["small"] / total - share) < 0.01
    assert len(epoch(0, 0, 40, data=corpora, **settings)) == 40


def test_shares_by_hand_and_in_the_notes(corpora):
    assert Mixture(("a", "b"), temperature=1.0).shares([30, 10]) == [0.75, 0.25]  # it leaves the sizes
    assert Mixture(("a", "b", "c"), (1e-6, 1e-6, 1.0)).counts([1, 1, 9], 5) == [1, 1, 3]
    splits = Translation(source="en", target="de", data=corpora, weights=(1, 3)).splits(0)
    assert splits.settings["mixture"] == {"weights": [1, 3]}
    notes = "\n".join(splits.notes)
    assert "large.tsv: 25.0 % of the training" in notes
    assert "small.tsv: 75.0 % of the training" in notes


def test_epochs_go_through_each_corpus(corpora):
    """An epoch depends on seed and number alone; later ones bring the pairs that the first ones did not reach."""
    settings = {"data": corpora, "weights": (1, 3)}
    assert epoch(3, 0, **settings) == epoch(3, 0, **settings)
    assert epoch(3, 0, **settings) not in (epoch(4, 0, **settings), epoch(3, 1, **settings))
    drawn = [[pair for pair in epoch(number, 0, **settings) if ORIGIN[pair.source] == "large"] for number in range(4)]
    counts = Counter(itertools.chain.from_iterable(drawn))
    size = len(Translation(source="en", target="de", **settings).splits(0).corpora[0])
    assert counts.total() == 4 * len(drawn[0])
    assert max(counts.values()) - min(counts.values()) <= 1
    assert len(counts) == min(size, counts.total())


# What makes reading a large corpus fast changes nothing


@given(st.lists(st.text(st.characters(max_codepoint=127), max_size=8) | st.text(max_size=8), min_size=1, max_size=4))
@example(["Große_Straße!", "¿Qué?", "¡"])
def test_loose_texts_are_the_letters_and_digits(texts):
    texts = [text.replace("\n", "") for text in texts]  # as in clean texts
    assert loose(texts) == [re.sub(r"[\W_]+", "", text.casefold()) or text for text in texts]


def test_repeated_texts_are_left_out_whatever_their_tags_and_parts_are_identified_by_all_texts(tmp_path):
    rows = [f"source {number}\ttarget {number} é\t{tag}\n" for tag in ("", "a", "b") for number in range(2_500)]
    (tmp_path / "a.tsv").write_text("source\ttarget\tkind\n" + "".join(rows), encoding="utf-8")
    sources = {"train": PairFiles((tmp_path / "a.tsv",), tag="kind")}
    corpus = read_corpus(sources, ("en", "fr"), cleaning=CleaningOptions(), held_out=10)
    assert sum(map(len, corpus.parts.values())) == 2_500
    assert {pair.tag for part in corpus.parts.values() for pair in part} == {""}
    for name, part in corpus.parts.items():
        content = "".join(f"{pair.source}\n{pair.target}\n" for pair in part)
        expected = {"pairs": len(part), "sha256": hashlib.sha256(content.encode()).hexdigest()}
        assert corpus.settings["parts"][name] == expected


@pytest.mark.skipif(sys.platform != "linux", reason="other C libraries give memory back by themselves")
def test_free_memory_is_given_back():
    def held():
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    parts = [b"x" * 50_000 for _ in range(4_000)]
    del parts[:-1]  # what lies behind keeps the C library from giving back what lies before
    before = held()
    give_back_memory()
    assert before - held() > 100_000_000


def test_the_collector_is_as_before_behind_a_pause():
    @paused_collector()
    def fail():
        with paused_collector():
            assert not gc.isenabled()
        assert not gc.isenabled()
        raise ValueError("x")

    with pytest.raises(ValueError, match="x"):
        fail()
    assert gc.isenabled()
