"""What holds of subwords whatever the text: it comes back, the ranges cover it, samples say the same."""

from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from selfattn.tokenizers.subword import SubwordSettings, SubwordTokenizer

TEXTS = ["the lowest tower", "the  newer\nflower", " a new low", "오늘은 11월 13일", "العربية", "ᄀ\u1161ᆨ"] * 7

# All of Unicode, and the characters at which something could go wrong more often than chance brings them.
SPECIAL = st.sampled_from([*" \n\0▁▅\u0301\u200d\u202e", "<unk>", "<0xE3>", "the ", "오늘", "new"])
TEXT = st.lists(st.text(max_size=6) | SPECIAL, max_size=8).map("".join)

KINDS = ["unigram", "bpe"]


@cache
def trained(kind: Any, byte_fallback: bool = True) -> SubwordTokenizer:
    return SubwordTokenizer.train(TEXTS, SubwordSettings(kind, byte_fallback=byte_fallback), clip=True)


@pytest.mark.parametrize("kind", KINDS)
@given(text=TEXT, seed=st.integers(0, 2**63), alpha=st.floats(0, 1))
def test_every_text_comes_back_however_it_is_cut(kind: str, text: str, seed: int, alpha: float) -> None:
    tokenizer = trained(kind)
    ids, sampled = tokenizer.encode(text), tokenizer.sample(text, seed, alpha)
    assert tokenizer.decode(ids) == tokenizer.decode(sampled) == text
    assert not {*ids, *sampled} & set(range(4))
    assert sampled == tokenizer.sample(text, seed, alpha)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("byte_fallback", [True, False])
@given(text=TEXT)
def test_ranges_cover_the_text_in_order(kind: str, byte_fallback: bool, text: str) -> None:
    tokenizer = trained(kind, byte_fallback)
    ids, spans = tokenizer.encode(text), tokenizer.spans(text)
    assert len(spans) == len(ids)
    assert spans == sorted(spans)
    reached = 0
    for place, (number, (start, end)) in enumerate(zip(ids, spans, strict=True)):
        assert start == reached or (start, end) == spans[place - 1], "a gap, or an overlap of different ranges"
        reached = end
        if number >= 4 + 256 * byte_fallback:  # a piece says what it stands for
            assert tokenizer.decode([number]) == text[start:end].removeprefix(" ")
    assert reached == len(text)


@given(text=TEXT)
def test_what_is_unknown_is_what_is_written_as_bytes(text: str) -> None:
    tokenizer = trained("unigram")
    known = set("".join(TEXTS))
    assert tokenizer.unknown(text) == {char: text.count(char) for char in set(text) - known}
