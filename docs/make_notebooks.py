"""Make the notebooks that have a source in text: `python docs/make_notebooks.py`.

- `concepts.md` and `ko/concepts.md` become `notebooks/concepts.ipynb` and `notebooks/concepts.ko.ipynb`; so does
  `book.md`.
- `notebooks/source/NAME.md` and `NAME.ko.md` become `notebooks/NAME.ipynb` and `NAME.ko.ipynb`. Their outputs are kept:
  `pytest --nbmake --overwrite docs/notebooks/NAME.ipynb` runs one again.
- `lecturer/source/lab.md` and `lab.ko.md` become the lab of a student in `class/`, whose answers are blank, and the one
  with solutions in `lecturer/`. Addresses in them are those of `addresses.toml`; what lacks its address is left out.

A test says when a committed notebook is older than its source.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
_FENCE = re.compile(r"^```python(?: (\w+))?\n(.*?)^```\n", re.DOTALL | re.MULTILINE)
_MARKUP = re.compile(r"^</?div[^\n]*\n|^```text\n.*?^```\n", re.DOTALL | re.MULTILINE)  # of a page alone
_LINK = re.compile(r"(\]\()([^)#:\s]+)([^)]*\))")
_TAGS = {"answer": ["answer"], "check": ["check", "hide-input"], "ask": ["check"], "solution": ["solution"]}
_ADDRESSES = tomllib.loads((DOCS / "addresses.toml").read_text(encoding="utf-8"))
_PLACE = re.compile(r"\{\{(\w+)\}\}")
_RESTARTED = {
    "en": "… run the folded cell at the top first: its checks are not there (a restart removes them)",
    "ko": "… 맨 위의 접힌 셀을 먼저 실행하세요. 커널을 다시 시작하면 검사 함수가 사라집니다",
}
Cell = dict[str, Any]


def cell(kind: str, text: str, tags: list[str] | None = None) -> Cell:
    """Make a cell of a notebook."""
    lines = text.strip("\n").splitlines(keepends=True)
    metadata: dict[str, Any] = {"tags": tags} if tags else {}
    if tags and "hide-input" in tags:
        metadata["jupyter"] = {"source_hidden": True}
    made: Cell = {"cell_type": kind, "metadata": metadata, "source": lines}
    if kind == "code":
        made |= {"execution_count": None, "outputs": []}
    return made


def notebook(cells: list[Cell], lang: str) -> str:
    """Write cells as a notebook, the same bytes each time."""
    numbered = [made | {"id": f"cell-{number}"} for number, made in enumerate(cells)]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    metadata: dict[str, Any] = {"kernelspec": kernel, "language_info": {"name": "python"}, "lang": lang}
    if lang == "ko":
        metadata["mystnb"] = {"code_prompt_show": "접힌 셀 펼치기", "code_prompt_hide": "셀 접기"}
    made = {"cells": numbered, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(made, ensure_ascii=False, indent=1) + "\n"


def parts(text: str) -> Iterator[tuple[str, str]]:
    """Divide a page into prose and code: pairs of a kind and a text."""
    end = 0
    for block in _FENCE.finditer(text):
        yield "prose", text[end : block.start()]
        yield block[1] or "code", block[2]
        end = block.end()
    yield "prose", text[end:]


def moved(prose: str, page: Path, folder: Path) -> str:
    """Let the links of a page lead from another folder to where they led."""

    def link(match: re.Match[str]) -> str:
        target = os.path.relpath(page.parent / match[2], folder)
        return f"{match[1]}{Path(target).as_posix()}{match[3]}"

    return _LINK.sub(link, prose)


def slug(heading: str) -> str:
    """Return the anchor of a heading, as GitHub and Sphinx make it.

    Example:
        >>> slug("2. The weighted sum, again")
        '2-the-weighted-sum-again'
    """
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def anchored(section: str) -> str:
    """Put an anchor before the heading of a section: notebook programs make their own of headings."""
    heading = re.match(r"## (.*)\n", section)
    return f'<a id="{slug(heading[1])}"></a>\n\n{section}' if heading else section


def concepts(page: Path, folder: Path, lang: str) -> str:
    """Return the notebook of a page: a cell for each section's prose and for each program."""
    cells = []
    for kind, text in parts(page.read_text(encoding="utf-8")):
        if kind == "prose":
            plain = _MARKUP.sub("", moved(text, page, folder))
            for section in re.split(r"^(?=## )", plain, flags=re.MULTILINE):
                if section.strip():
                    cells.append(cell("markdown", anchored(section)))
        else:
            cells.append(cell("code", text))
    return notebook(cells, lang)


def with_addresses(text: str, lang: str) -> str:
    """Put the addresses of the project into a page, and leave out the lines whose address is not there yet.

    Example:
        >>> with_addresses("All\\n[here]({{nowhere}})\\n", "en")
        'All\\n'
    """
    known = {name: address.replace("{ending}", "" if lang == "en" else ".ko") for name, address in _ADDRESSES.items()}
    lines = text.splitlines(keepends=True)
    kept = [line for line in lines if all(known.get(name) for name in _PLACE.findall(line))]
    return _PLACE.sub(lambda place: known[place[1]], "".join(kept))


def lab(source: Path, folder: Path, lang: str, *, with_solutions: bool) -> str:
    """Return the lab: with blank answers for a student, or with the solutions in their place."""
    cells = []
    left_out = "answer" if with_solutions else "solution"
    for kind, text in parts(source.read_text(encoding="utf-8")):
        filled = with_addresses(text, lang)
        if kind == "prose":
            for section in re.split(r"^(?=## )", moved(filled, source, folder), flags=re.MULTILINE):
                if section.strip():
                    cells.append(cell("markdown", section))
        elif kind == "ask":
            asked = f'try:\n    {text}except (NameError, TypeError):\n    print("{_RESTARTED[lang]}")'
            cells.append(cell("code", asked, _TAGS[kind]))
        elif kind != left_out and (kind != "clone" or _ADDRESSES["clone"]):
            cells.append(cell("code", filled, _TAGS.get(kind)))
    return notebook(cells, lang)


def made() -> dict[Path, str]:
    """Return every notebook that has a source, by its path."""
    notebooks = DOCS / "notebooks"
    lecturer = DOCS / "lecturer"
    texts = {
        notebooks / f"{name}{end}.ipynb": concepts(DOCS / folder / f"{name}.md", notebooks, lang)
        for name in ("concepts", "book")
        for lang, folder, end in (("en", "", ""), ("ko", "ko", ".ko"))
    }
    for lang, end in (("en", ""), ("ko", ".ko")):
        for name in ("dates", "compare", "own-task"):
            source = notebooks / "source" / f"{name}{end}.md"
            texts[notebooks / f"{name}{end}.ipynb"] = lab(source, notebooks, lang, with_solutions=True)
        source = lecturer / "source" / f"lab{end}.md"
        texts[DOCS / "class" / f"lab{end}.ipynb"] = lab(source, DOCS / "class", lang, with_solutions=False)
        texts[lecturer / f"lab-solutions{end}.ipynb"] = lab(source, lecturer, lang, with_solutions=True)
    return texts


def with_outputs(text: str, path: Path) -> str:
    """Keep what the same programs wrote when they ran in the notebook that is there."""
    new = json.loads(text)
    if path.exists():
        ran = {"".join(each["source"]): each for each in json.loads(path.read_text(encoding="utf-8"))["cells"]}
        for each in new["cells"]:
            old = ran.get("".join(each["source"]))
            if old is not None and each["cell_type"] == old["cell_type"] == "code":
                each["outputs"] = old["outputs"]
                each["execution_count"] = old["execution_count"]
    return json.dumps(new, ensure_ascii=False, indent=1) + "\n"


if __name__ == "__main__":
    for path, text in made().items():
        path.write_text(with_outputs(text, path), encoding="utf-8")
