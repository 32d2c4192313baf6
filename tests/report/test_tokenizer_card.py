from __future__ import annotations

from xml.etree import ElementTree

import pytest

from selfattn.report.drawing.tokenizer_card import card_svg, card_text
from selfattn.report.drawing.tokens import width
from selfattn.tokenizers.card import card
from selfattn.tokenizers.char import CharTokenizer
from selfattn.tokenizers.subword import SubwordTokenizer
from selfattn.tokenizers.subword_training import SubwordSettings

TEXTS = ["the lowest tower", "the newer flower", "오늘은 11월 13일"] * 7


def subwords(byte_fallback: bool = True) -> SubwordTokenizer:
    return SubwordTokenizer.train(TEXTS, SubwordSettings("bpe", byte_fallback=byte_fallback), clip=True)


def test_figures_by_hand() -> None:
    # "␣the" " é": 1 + 1 (space) + 2 bytes; the text has 5 characters, one of which is outside.
    found = card(subwords(), ["the é"])
    assert (found.texts, found.characters, found.words, found.tokens, found.longest) == (1, 5, 2, 4, 4)
    assert (found.unknown, found.bytes, found.outside) == (0, 2, (("é", 1),))
    assert found.coverage == pytest.approx(0.8)
    assert (found.tokens_per_word, found.characters_per_token, found.byte_rate) == (2.0, 1.25, 0.5)


def test_without_bytes_the_same_character_is_unknown() -> None:
    found = card(subwords(byte_fallback=False), ["the é", "the"])
    assert (found.unknown, found.bytes, found.outside) == (1, 0, (("é", 1),))
    assert found.unknown_rate == pytest.approx(1 / found.tokens)
    assert found.tokens_per_text == found.tokens / 2


def test_nothing_to_measure() -> None:
    found = card(CharTokenizer("ab"), [])
    assert (found.coverage, found.tokens_per_word, found.characters_per_token, found.unknown_rate) == (1.0, 0, 0, 0)
    assert "0 texts" in card_text(found)
    ElementTree.fromstring(card_svg(found))


def test_one_text_is_said_in_the_singular() -> None:
    assert "1 text, 1 word, 2 characters" in card_text(card(CharTokenizer("ab"), ["ab"]))


def test_the_most_frequent_character_outside_comes_first() -> None:
    assert card(CharTokenizer("a"), ["abcc", "cb"]).outside == (("c", 3), ("b", 2))


def test_the_text_has_80_columns_and_every_token() -> None:
    long = "오늘은 the lowest 💩 tower " * 9
    found = card(subwords(), [long, *map(chr, range(0x600, 0x700))], examples=[long])
    text = card_text(found)
    assert max(map(width, text.splitlines())) <= 80
    cut = "".join(text.split("\n\n")[1].replace("\n  ", "").splitlines())
    assert cut.split("|") == list(found.examples[0].pieces)
    assert "other" in text
    assert "<U+0600>" in text  # as itself it would turn the line around


def test_the_picture_is_well_formed_and_the_same_every_time() -> None:
    texts = ["<unk> & \0 \u200f", "السلام 2024 the", "각 💩 the\n", "", "a" * 300]
    for tokenizer in (subwords(), subwords(byte_fallback=False), CharTokenizer("abc العربية")):
        found = card(tokenizer, texts, examples=texts)
        picture = card_svg(found, title="a < b\x01")
        assert picture == card_svg(found, title="a < b\x01")
        root = ElementTree.fromstring(picture)
        boxes = [node for node in root.iter("{http://www.w3.org/2000/svg}rect") if node.get("rx")]
        assert len(boxes) == sum(len(example.pieces) for example in found.examples)
        wide = float(root.get("width", "0"))
        for box in boxes:
            assert float(box.get("x", "-1")) + float(box.get("width", "0")) <= wide or box.get("x") == "16"
        assert not any(name in picture for name in ("href", "url(", "@import", "<script"))


def test_bytes_and_unknown_tokens_are_outlined() -> None:
    picture = card_svg(card(subwords(), [], examples=["the é"]))
    assert picture.count("stroke-dasharray") == 2
    assert picture.count(": characters 4 to 5</title>") == 2
