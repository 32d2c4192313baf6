"""Letters are characters taken apart: nothing of a text is lost, and a syllable never seen is read by its letters."""

from itertools import groupby
from pathlib import Path
from unicodedata import normalize

import pytest
from hypothesis import given
from hypothesis import strategies as st

from selfattn.errors import UserError
from selfattn.tokenizers.listed import LetterTokenizer
from selfattn.tokenizers.load import load_tokenizer, train_tokenizer
from selfattn.tokenizers.protocol import describe

COMPOSED = st.text(max_size=9).map(lambda text: normalize("NFC", text))


@given(st.lists(COMPOSED, min_size=1, max_size=4))
def test_nothing_of_a_known_text_is_lost(texts: list[str]) -> None:
    tokenizer = LetterTokenizer(texts)
    for text in texts:
        ids = tokenizer.encode(text)
        spans = tokenizer.spans(text)
        assert tokenizer.decode(ids) == text
        assert len(ids) == len(tokenizer.pieces(ids)) == len(spans)
        assert [span for span, _ in groupby(spans)] == [(place, place + 1) for place in range(len(text))]


def test_a_syllable_that_was_never_seen_has_no_unknown_letter(tmp_path: Path) -> None:
    tokenizer = train_tokenizer("letters", ["각", "난", "が", "か"])
    tokenizer.save(tmp_path)
    loaded = load_tokenizer(tmp_path)
    assert isinstance(loaded, LetterTokenizer)
    assert loaded.decode(loaded.encode("낙간が")) == "낙간が"
    assert not loaded.unknown("낙간")
    assert dict(loaded.unknown("간다é")) == {"\u1103": 1, "e": 1, "\u0301": 1}
    assert "coverage    50.00 % of the letters" in describe(loaded, ["가é"])


def test_a_list_of_characters_that_are_not_taken_apart_is_refused(tmp_path: Path) -> None:
    (tmp_path / "letters.json").write_text('{"tokenizer": "letters", "version": 1, "letters": "\\uac00"}')
    with pytest.raises(UserError, match=r"letters.json: not a vocabulary of letters, version 1; restore"):
        load_tokenizer(tmp_path)
