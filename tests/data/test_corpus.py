"""Corpora: each row is kept or counted, parts share no sentence; several are mixed by weights or a temperature."""

import itertools
import json
import random
import re
from collections import Counter

import pytest
from marian_model import pairs, write_pairs
from training_parts import StopAt, Stopped

from selfattn.data.corpus import CleaningOptions, PairStream, Tally, clean_rows, is_unlikely, loose, read_corpus
from selfattn.data.readers.pairs import PairFiles
from selfattn.data.readers.rows import BadRecord, RawPair
from selfattn.data.splits import Mixture
from selfattn.errors import UserError
from selfattn.runs.load import load
from selfattn.runs.train import train
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


def test_a_stream_gives_the_same_but_for_repeats(files):
    corpus = read(files, streaming=True)
    assert isinstance(corpus.parts["train"], PairStream)
    expected = [*GOOD, GOOD[0], ("control", "target c")]
    assert texts(corpus.parts["train"]) == texts(corpus.parts["train"]) == expected
    assert (texts(corpus.parts["valid"]), texts(corpus.parts["test"])) == (VALID, TEST)
    json.dumps(corpus.settings)
    with pytest.raises(UserError, match="give valid and test too, or leave out `streaming`"):
        read({"train": files["train"]}, streaming=True)


def test_what_is_told_of_a_stream(files, monkeypatch):
    corpus = read(files, streaming=True)
    assert corpus.notes[0] == "train: streamed, so it is read and cleaned again in every epoch"
    monkeypatch.setattr("selfattn.data.corpus._SAMPLE", 8)
    notes = read(files, streaming=True).notes
    assert notes[0] == "train: streamed, so cleaning reports behind the first pass; of the first 8 pairs:"
    assert "    left out, shared with valid or test: 2 (first train.tsv:7)" in notes


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
        known = [{loose(getattr(pair, side)) for pair in part} for part in corpus.parts.values()]
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

BRIEF = {
    "source": "en", "target": "de", "model": "rnn-plain", "tokenizer": "words", "batch_size": 16, "epochs": 2,
    "set": ("encoder.hidden_dim=8", "decoder.hidden_dim=8"), "validation_items": 5,
}  # fmt: skip


@pytest.fixture(scope="module")
def corpora(tmp_path_factory):
    """A large and a small corpus, in two formats: a table and parallel corpora would not mix, so two tables."""
    folder = tmp_path_factory.mktemp("corpora")
    return write_pairs(folder / "large.tsv", 1, 300), write_pairs(folder / "small.tsv", 2, 60)


def origin(corpora):
    small = {source for source, _ in pairs(2, 60)}
    large = {source for source, _ in pairs(1, 300)}
    return dict.fromkeys(small, "small") | dict.fromkeys(large, "large")


def epoch(number, seed, count=None, **settings):
    return list(Translation(source="en", target="de", **settings).splits(seed).train(number, count))


@pytest.mark.parametrize(
    ("settings", "share"), [({"weights": (1, 3)}, 0.75), ({"temperature": 1000.0}, 0.5), ({"weights": (9, 1)}, 0.1)]
)
def test_shares_of_an_epoch(corpora, settings, share):
    drawn = epoch(0, 0, data=corpora, **settings)
    counts = Counter(origin(corpora)[pair.source] for pair in drawn)
    total = len(Translation(source="en", target="de", data=corpora).splits(0).parts["train"])
    assert sum(counts.values()) == total
    assert abs(counts["small"] / total - share) < 0.01
    assert len(epoch(0, 0, 40, data=corpora, **settings)) == 40


def test_epochs_go_through_each_corpus(corpora):
    """An epoch depends on seed and number alone; later ones bring the pairs that the first ones did not reach."""
    settings = {"data": corpora, "weights": (1, 3)}
    assert epoch(3, 0, **settings) == epoch(3, 0, **settings)
    assert epoch(3, 0, **settings) != epoch(4, 0, **settings)
    assert epoch(3, 0, **settings) != epoch(3, 1, **settings)
    seen = [pair for number in range(4) for pair in epoch(number, 0, **settings)]
    counts = Counter(pair for pair in seen if origin(corpora)[pair.source] == "large")
    sizes = Translation(source="en", target="de", **settings).splits(0).corpora
    passes = {4 * len([pair for pair in epoch(0, 0, **settings) if origin(corpora)[pair.source] == "large"])}
    assert sum(counts.values()) in passes
    assert max(counts.values()) - min(counts.values()) <= 1
    assert len(counts) == min(len(sizes[0]), sum(counts.values()))


def test_a_temperature_of_one_leaves_the_sizes():
    assert Mixture(("a", "b"), temperature=1.0).shares([30, 10]) == [0.75, 0.25]
    assert Mixture(("a", "b", "c"), (1e-6, 1e-6, 1.0)).counts([1, 1, 9], 5) == [1, 1, 3]


def test_a_training_is_told_its_shares_and_resumes(corpora, tmp_path):
    """Stopped after an epoch and resumed, the weights are those of a training that did not stop, bit for bit."""
    settings = BRIEF | {"data": corpora, "weights": (1, 3)}
    full = train("translation", out=tmp_path / "full", **settings)
    with pytest.raises(Stopped):
        train("translation", out=tmp_path / "stopped", observers=[StopAt(25)], **settings)
    resumed = train("translation", out=tmp_path / "stopped", resume=True, **settings)
    for name, tensor in resumed.model.state_dict().items():
        assert tensor.equal(full.model.state_dict()[name]), name
    assert load(full.path).config.data["mixture"] == {"weights": [1, 3]}
    notes = "\n".join(Translation(source="en", target="de", data=corpora, weights=(1, 3)).splits(0).notes)
    assert "large.tsv: 25.0 % of the training" in notes
    assert "small.tsv: 75.0 % of the training" in notes
