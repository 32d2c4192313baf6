"""Pictures: attention maps, tokens as they are drawn, colours and signs of models."""

import io
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from selfattn.report import pictures
from selfattn.report.pictures import (
    COLOURS,
    INKS,
    Signs,
    attention_svg,
    attention_text,
    pieces,
    shown,
    visual_order,
    width,
)

SVG = "{http://www.w3.org/2000/svg}"


def cells(picture):
    return [r for r in ET.fromstring(picture).iter(f"{SVG}rect") if r.find(f"{SVG}title") is not None]


def printed(weights, source, target, columns=80):
    console = Console(file=io.StringIO(), width=columns, color_system=None)
    console.print(attention_text(weights, source, target, columns=columns))
    return console.file.getvalue()


def test_every_weight_is_a_cell_as_dark_as_the_weight():
    weights = torch.tensor([[0.5, 0.25, 0.25], [0.0, 1.0, 0.0]], dtype=torch.float64)
    found = cells(attention_svg(weights, ["a", " ", "<eos>"], ["x", "<eos>"]))
    assert [(cell.findtext(f"{SVG}title"), cell.get("fill-opacity")) for cell in found] == [
        ("x ← a: 0.5000", "0.5"), ("x ← ␣: 0.2500", "0.25"), ("x ← ⏎: 0.2500", "0.25"), ("⏎ ← ␣: 1.0000", "1"),
    ]  # fmt: skip


def test_right_to_left_sources_stand_as_they_are_read():
    found = cells(attention_svg([[0.1, 0.2, 0.3, 0.4]], ["א", "ב", "<eos>", "1"], ["x"]))
    left_to_right = sorted(found, key=lambda cell: float(cell.get("x") or 0))
    read = [(cell.findtext(f"{SVG}title") or "")[4] for cell in left_to_right]
    assert read == ["1", "⏎", "ב", "א"]


def test_single_hangul_letters_stand_over_their_own_columns():
    letters = ["\u1100", "\u116e", "\u11a8", "\u113c", "국"]  # an initial, a vowel, a final, an old one, a syllable
    lines = printed([[0.0, 1.0, 0.0, 0.0, 0.0]], letters, ["k"]).splitlines()
    assert lines[0] == "  ㄱㅜㄱ\u113c국"
    assert lines[1].split() == ["k", "██", "ㅜ", "1.00"]


def test_hostile_tokens_stay_text():
    picture = attention_svg([[1.0]], ["<script>\x00"], ["&"], title="\x1b<x>")
    assert "<script>" not in picture
    texts = {text.text for text in ET.fromstring(picture).iter(f"{SVG}text")}
    assert {"<script>▫", "&", "▫<x>"} <= texts


@pytest.mark.parametrize("draw", [attention_svg, attention_text])
def test_a_wrong_shape_says_what_was_expected(draw):
    with pytest.raises(ValueError, match=r"expects 2 rows \(target tokens\) of 3 weights .* got rows of \[2\]"):
        draw([[0.5, 0.5]], ["a", "b", "c"], ["x", "y"])


def test_text_fits_into_80_columns():
    length = 200
    source = ["년" if k % 3 else "a" for k in range(length)]
    weights = [[1.0 / length] * length] * 2
    text = printed(weights, source, ["x", "<eos>"])
    assert max(map(width, text.splitlines())) <= 80
    heads = [line.strip() for line in text.splitlines() if re.match(r"^  \S", line) and "0.0" not in line]
    assert "".join(heads) == "".join(source)


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


# Colours have enough contrast; a model has the same sign everywhere


CSS = (Path(pictures.__file__).parent / "templates" / "report.css").read_text(encoding="utf-8")
NAMES = tuple(f"m{k}" for k in range(COLOURS))


def theme(opening):
    block = CSS[CSS.index(opening) + len(opening) :]
    return dict(re.findall(r"--([\w-]+): (#[0-9a-f]+)", block[: block.index("}")]))


LIGHT = theme(":root {")
DARK = theme(":root[data-theme=dark] {")
PRINT = LIGHT | theme(":root:root:root {")


def linear(colour):
    digits = colour[1:] if len(colour) == 7 else "".join(digit * 2 for digit in colour[1:])
    value = np.array([int(digits[k : k + 2], 16) / 255 for k in (0, 2, 4)])
    return np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)


def contrast(one, other):
    """The contrast ratio of WCAG 2, 1 to 21."""
    low, high = sorted(float(linear(colour) @ [0.2126, 0.7152, 0.0722]) for colour in (one, other))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("colours", [LIGHT, DARK, PRINT], ids=["light", "dark", "print"])
def test_text_and_signs_have_the_contrast_that_wcag_asks_for(colours):
    for ground in ("page", "card"):
        for text in ("ink", "quiet", "bad", "good", "warn"):
            assert contrast(colours[text], colours[ground]) >= 4.5, (text, ground)
    assert contrast(colours["bad"], colours["bad-back"]) >= 4.5
    for sign in (*NAMES, "heat", "focus"):
        assert contrast(colours[sign], colours["page"]) >= 3, sign
    assert theme(":root:not([data-theme=light]) {") == DARK  # both ways to dark are the same
    assert set(DARK) == set(LIGHT)


def test_a_model_has_its_sign_on_every_page_and_in_files():
    report, demo = Signs(["mine", "rnn-plain", "transformer", "rnn-attention"]), Signs(["transformer", "rnn-attention"])
    assert all(report[name] == sign for name, sign in demo.items())
    assert len(set(Signs([f"model {k}" for k in range(49)]).values())) == 49
    assert [LIGHT[name] for name in NAMES] == list(INKS)


def test_long_outputs_wrap_in_every_table():
    """A rule that keeps the cells of a table in one line leaves long texts out."""
    parts = ("white-space: nowrap", ".grid", " td:not(")
    rules = [rule for rule in CSS.split("}") if all(part in rule for part in parts)]
    assert rules
    assert all(".long" in rule for rule in rules)
