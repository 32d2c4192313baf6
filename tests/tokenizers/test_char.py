from __future__ import annotations

from pathlib import Path

import pytest

from selfattn.errors import UserError
from selfattn.tokenizers.char import CharTokenizer


@pytest.mark.parametrize("number", [-1, 6, 1000])
def test_an_id_outside_the_vocabulary_is_an_error(number: int) -> None:
    tokenizer = CharTokenizer("ab")
    with pytest.raises(ValueError, match=f"token id {number} is outside the vocabulary of 6"):
        tokenizer.decode([4, number])
    with pytest.raises(ValueError, match="outside the vocabulary"):
        tokenizer.pieces([number])


def test_save_makes_the_directory_and_leaves_one_file(tmp_path: Path) -> None:
    folder = tmp_path / "run" / "tokenizer"
    CharTokenizer("ab").save(folder)
    CharTokenizer("abc월\ud800").save(folder)  # again, over the first; even half a surrogate pair survives
    assert [path.name for path in folder.iterdir()] == ["char.json"]
    assert CharTokenizer.load(folder).characters == "abc월\ud800"


def test_a_failing_save_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    CharTokenizer("ab").save(tmp_path)

    def full(*_: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(OSError, match="no space"):
        CharTokenizer("xyz").save(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["char.json"]
    assert CharTokenizer.load(tmp_path).characters == "ab"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe",
        b"null",
        b'{"tokenizer": "char", "version": 2, "characters": "ab"}',
        b'{"tokenizer": "char", "version": 1, "characters": ["a"]}',
        b'{"tokenizer": "char", "version": 1, "characters": "ba"}',
        b'{"tokenizer": "char", "version": 1, "characters": "aa"}',
    ],
)
def test_a_broken_file_is_one_line_that_names_it(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "char.json").write_bytes(content)
    with pytest.raises(UserError) as error:
        CharTokenizer.load(tmp_path)
    assert str(error.value).startswith(f"{tmp_path / 'char.json'}:")
    assert "\n" not in str(error.value)
