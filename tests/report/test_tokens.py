"""Tokens as they are drawn: signs for the unseen, the visual order of a line, character differences."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from selfattn.report.pictures import pieces, shown, visual_order


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("june 23, 2026", "june 23, 2026"),
        ("2026년 9월", "2026년 9월"),
        ("אבג", "גבא"),
        ("אב 12", "12 בא"),  # numbers stay in their own order
        ("אב (x) ג", "ג )x( בא"),  # brackets are moved, not turned
        ("a אב b", "a בא b"),
        ("٢٣ سبتمبر ٢٠٢٦", "٢٠٢٦ ربمتبس ٢٣"),
        ("٢٣/٩/٢٠٢٦", "٢٣/٩/٢٠٢٦"),  # a separator between numbers belongs to them
        ("א 1-2", "1-2 א"),
        ("א $5", "$5 א"),
        ("", ""),
    ],
)
def test_lines_stand_as_they_are_read(text, seen):
    tokens = list(text)
    assert "".join(tokens[k] for k in visual_order(tokens)) == seen


@given(st.lists(st.text(max_size=3), max_size=20))
def test_the_visual_order_holds_every_token_once(tokens):
    assert sorted(visual_order(tokens)) == list(range(len(tokens)))


def test_what_cannot_be_seen_gets_a_sign():
    tokens = [" ", "<eos>", "<bos>", "<unk>", "\u00a0", "\u200f", "\x07", "\u0301", "a", "년"]
    assert [shown(token) for token in tokens] == ["␣", "⏎", "⊢", "□", "⍽", "⇠", "▫", "◌\u0301", "a", "년"]


@given(st.text(max_size=12), st.text(max_size=12))
def test_pieces_make_up_both_texts(prediction, target):
    parts = pieces(prediction, target)
    assert "".join(text for kind, text in parts if kind != "missing") == prediction
    if len(prediction) != len(target):
        assert "".join(text for kind, text in parts if kind != "wrong") == target
    assert all(text for _, text in parts)
    assert (prediction == target) == all(kind == "same" for kind, _ in parts)
