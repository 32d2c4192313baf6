"""One attention map as a picture and as text."""

import io
import re
import xml.etree.ElementTree as ET

import pytest
import torch
from rich.console import Console

from selfattn.report.pictures import attention_svg, attention_text, width

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
