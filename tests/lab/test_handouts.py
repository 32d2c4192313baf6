"""What is handed out beside the lab: slides, the chapter's addition and the book, made from their sources."""

import json
import re
import runpy
import subprocess
import sys
from itertools import chain
from pathlib import Path
from types import SimpleNamespace

import pytest

from selfattn.tasks.dates import Dates

DOCS = Path(__file__).resolve().parents[2] / "docs"
handouts = SimpleNamespace(**runpy.run_path(str(DOCS / "lecturer" / "make_handouts.py")))
notebooks = SimpleNamespace(**runpy.run_path(str(DOCS / "make_notebooks.py")))


@pytest.mark.parametrize("path", sorted(handouts.made()), ids=lambda path: path.name)
def test_slides_and_hand_out_are_as_new_as_their_sources(path):
    text = handouts.made()[path]
    assert path.read_text("utf-8") == text, "run python docs/lecturer/make_handouts.py"
    assert "{{" not in text
    assert path.with_suffix(".pdf").read_bytes().startswith(b"%PDF")
    assert text.count("\n---\n") == (5 if "slides" in path.name else 0)
    for picture in re.findall(r"\]\((\S+)\)", text):
        assert (path.parent / picture).exists()


def test_a_line_without_its_address_is_not_shown():
    known = notebooks.with_addresses.__globals__["_ADDRESSES"]
    before = dict(known)
    try:
        known.update(colab="https://a.example/lab{ending}.ipynb", binder="")
        text = "Before\n[Colab]({{colab}})\n[Binder]({{binder}})\n"
        assert notebooks.with_addresses(text, "ko") == "Before\n[Colab](https://a.example/lab.ko.ipynb)\n"
    finally:
        known.update(before)


def test_a_reader_meets_no_placeholder_of_an_address():
    for path in chain.from_iterable(map(DOCS.glob, ("*.md", "lecturer/*.md", "ko/*.md", "class/*.ipynb"))):
        assert not re.search(r"\bOWNER\b|\bADDRESS\b|git clone 주소|example\.org/selfattn", path.read_text("utf-8")), (
            path
        )


def test_the_sums_are_those_of_the_book_and_the_library_reads_them(tmp_path):
    addition, file = DOCS / "class" / "addition.py", tmp_path / "addition.txt"
    subprocess.run([sys.executable, addition, file], check=True)
    lines = file.read_text("utf-8").splitlines()
    assert len(set(lines)) == 50_000
    for line in lines:
        question, answer = line.split("_")
        assert (len(question), len(answer)) == (7, 4)
        assert sum(map(int, question.split("+"))) == int(answer)
    pair = Dates(data=(str(file),)).splits(seed=0).test(1)[0]
    assert sum(map(int, pair.source.split("+"))) == int(pair.target)
    command = [sys.executable, "-m", "selfattn.cli", "--plugin", str(addition), "models"]
    assert "rnn-reversed" in subprocess.run(command, check=True, capture_output=True, encoding="utf-8").stdout


ENGLISH = (DOCS / "book.md").read_text("utf-8")
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
SECTIONS = re.split(r"^## ", ENGLISH, flags=re.MULTILINE)[2:]
CLASSES = (
    *("Encoder", "Decoder", "Seq2seq", "PeekyDecoder", "WeightSum", "AttentionWeight", "Attention"),
    *("TimeAttention", "AttentionEncoder", "AttentionDecoder", "AttentionSeq2seq"),
)


def test_each_class_has_a_section_that_compares_it_with_the_library():
    headings = " ".join(section.splitlines()[0] for section in SECTIONS)
    for name in CLASSES:
        assert f"`{name}`" in headings
    assert max(map(len, "".join(BLOCK.findall(ENGLISH)).splitlines())) <= 60  # columns stand side by side
    for number in ("7.4.1", "8.4.1", "8.4.3", "8.5.1", "8.5.2"):
        assert number in headings
    for section in SECTIONS:
        ours, library = BLOCK.findall(section)
        assert "selfattn" not in ours.replace("MultiHeadAttention", "")
        assert library.count("compare(") == 1
        assert "largest difference" in section


def test_the_notebook_has_no_markup_of_the_page():
    for name in ("book.ipynb", "book.ko.ipynb"):
        cells = json.loads((DOCS / "notebooks" / name).read_text("utf-8"))["cells"]
        assert not any("div>" in "".join(each["source"]) for each in cells)
        assert sum(each["cell_type"] == "code" for each in cells) == len(BLOCK.findall(ENGLISH))
