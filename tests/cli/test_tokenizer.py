"""Vocabularies are trained and looked into: one for both sides, one for each."""

import pytest

from selfattn.cli.tokenizer import inspect, train
from selfattn.errors import UserError
from selfattn.tokenizers.load import load_tokenizer

SOURCE = ["the lowest tower", "the newer flower", "a new low"] * 4
TARGET = ["가장 낮은 탑", "더 새로운 꽃", "새 최저"] * 4


@pytest.fixture
def pairs(tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"{source}\t{target}\n" for source, target in zip(SOURCE, TARGET, strict=True)))
    return path


@pytest.fixture
def sides(tmp_path):
    for name, texts in (("a.en", SOURCE), ("a.ko", TARGET)):
        (tmp_path / name).write_text("\n".join(texts) + "\n")
    return tmp_path / "a.en", tmp_path / "a.ko"


@pytest.mark.parametrize("kind", ["characters", "unigram", "bpe"])
def test_one_vocabulary_for_both_sides(kind, pairs, tmp_path):
    description = train(pairs, out=tmp_path / "out", kind=kind)
    assert "24 texts, " in description
    assert "100.00 % of the characters\n" in description
    assert inspect(tmp_path / "out", data=(pairs,)) == description


def test_a_vocabulary_for_each_side(pairs, sides, tmp_path):
    for name, data in (("one", [pairs]), ("two", list(sides))):
        description = train(*data, out=tmp_path / name, separate=True)
        assert description.startswith("source\nvocabulary ")
        assert "\n\ntarget\nvocabulary " in description
        tokenizer = load_tokenizer(tmp_path / name)
        assert tokenizer.source.unknown("the 탑") == {"탑": 1}
        assert tokenizer.target.unknown("the 탑") == {"t": 1, "h": 1, "e": 1}
        assert inspect(tmp_path / name, data=(pairs,)) == description
        source, target = inspect(tmp_path / name, text=("새 꽃",)).split("\n\ntarget\n")
        assert "coverage    100.00 %" in target
        assert "coverage    100.00 %" not in source
        with pytest.raises(UserError, match="a vocabulary for each side; give files of pairs"):
            inspect(tmp_path / name, data=sides[:1])


def test_pieces_and_ids_are_printed_also_those_of_a_run(pairs, tmp_path):
    place = tmp_path / "run" / "tokenizer"
    train(pairs, out=place)
    *_, pieces, ids = inspect(place.parent, text=("the tower",), data=(pairs,)).splitlines()
    assert "".join(pieces.split()[1:]) == "␣the␣tower"
    assert [int(number) for number in ids.split()[1:]] == load_tokenizer(place).encode("the tower")
