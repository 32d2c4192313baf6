"""The book beside the library: the same program in both languages, and a section for each class of the book."""

import json
import re
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"
ENGLISH, KOREAN = ((DOCS / folder / "book.md").read_text("utf-8") for folder in ("", "ko"))
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
SECTIONS = re.split(r"^## ", ENGLISH, flags=re.MULTILINE)[2:]
CLASSES = (
    *("Encoder", "Decoder", "Seq2seq", "PeekyDecoder", "WeightSum", "AttentionWeight", "Attention"),
    *("TimeAttention", "AttentionEncoder", "AttentionDecoder", "AttentionSeq2seq"),
)


def test_the_korean_page_runs_the_english_program() -> None:
    assert BLOCK.findall(KOREAN) == BLOCK.findall(ENGLISH)


def test_each_class_has_a_section_that_compares_it_with_the_library() -> None:
    headings = " ".join(section.splitlines()[0] for section in SECTIONS)
    for name in CLASSES:
        assert f"`{name}`" in headings
    for number in ("7.4.1", "8.4.1", "8.4.3", "8.5.1", "8.5.2"):
        assert number in headings
    for section in SECTIONS:
        ours, library = BLOCK.findall(section)
        assert "selfattn" not in ours.replace("MultiHeadAttention", "")
        assert library.count("compare(") == 1
        assert "largest difference" in section


def test_the_columns_are_narrow_enough_to_stand_side_by_side() -> None:
    assert max(map(len, "".join(BLOCK.findall(ENGLISH)).splitlines())) <= 60


def test_the_notebook_has_no_markup_of_the_page() -> None:
    for name in ("book.ipynb", "book.ko.ipynb"):
        cells = json.loads((DOCS / "notebooks" / name).read_text("utf-8"))["cells"]
        assert not any("div>" in "".join(each["source"]) for each in cells)
        assert sum(each["cell_type"] == "code" for each in cells) == len(BLOCK.findall(ENGLISH))
