"""Subwords on real Korean and on Multi30k: nothing is lost, what is frequent is whole."""

from __future__ import annotations

import gzip
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from selfattn.tokenizers.subword import SubwordSettings, SubwordTokenizer

Shared = Callable[[str], Path]


def lines(path: Path) -> list[str]:
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return [line for line in text.decode().split("\n") if line]


@pytest.fixture(scope="module")
def korean(shared_data: Shared) -> tuple[list[str], list[str]]:
    """Sentences in NFC to train on, and others."""
    sides = [[unicodedata.normalize("NFC", text) for text in lines(shared_data(f"ko-en/news/{name}.ko"))]
             for name in ("dev", "test-a")]  # fmt: skip
    return sides[0], sides[1]


def syllables(text: str) -> set[str]:
    return {character for character in text if "가" <= character <= "힣"}


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_every_syllable_of_the_texts_is_a_token(kind: Any, korean: tuple[list[str], list[str]]) -> None:
    train, unseen = korean
    tokenizer = SubwordTokenizer.train(train, SubwordSettings(kind, 4000))
    assert tokenizer.unknown(*train) == {}
    seen = syllables("".join(train))
    for syllable in seen:
        assert len(tokenizer.encode(syllable)) <= 2, syllable  # itself, and the space before it
    for text in unseen:
        ids = tokenizer.encode(text)
        assert tokenizer.decode(ids) == text
        assert tokenizer.spans(text)[-1][1] == len(text)
    outside = {char for char in tokenizer.unknown(*unseen) if "가" <= char <= "힣"}
    assert outside == syllables("".join(unseen)) - seen
    assert tokenizer.unknown(*unseen).total() < 0.01 * sum(map(len, unseen))
