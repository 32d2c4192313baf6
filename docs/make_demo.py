"""Bring what was written by older code up to date, with the models and weights that it holds:

- the demo pages of `docs/demo`;
- the explorers in the outputs of the notebooks.

`python docs/make_demo.py` writes them. Tests say when one is older than the code.
"""

import html
import json
import re
from pathlib import Path
from typing import Any

import torch

from selfattn.demo.page import page_of, read_page
from selfattn.report.pictures import embed_json
from selfattn.runs.attention_view import AttentionView

HERE = Path(__file__).parent / "demo"
NOTEBOOKS = Path(__file__).parent / "notebooks"
_PARTS = {
    "hash": re.compile(r"(?<=script-src ')[^']+"),
    "style": re.compile(r"(?<=<style>).*?(?=</style>)", re.DOTALL),
    "script": re.compile(r"(?<=<script>).*?(?=</script>)", re.DOTALL),
}
_DATA = re.compile(r'(?<=<script type="application/json" id="data">).*?(?=</script>)', re.DOTALL)
_FRAME = re.compile(r'(?<=srcdoc=")[^"]+')


def renewed(path: Path) -> str:
    """Return a demo page as the code of today writes it."""
    models, examples = read_page(path.read_text(encoding="utf-8"))
    return page_of(models, examples, sorted({model["task"] for model in models}), "en")


def renewed_explorer(page: str) -> str:
    """Return an explorer with the script, the style and the words of today, and the weights that it holds."""
    fresh = AttentionView("a", "b", ("a",), ("b",), (torch.ones(1, 1, 1),), (), ()).to_html()
    for pattern in _PARTS.values():
        part = pattern.search(fresh)
        assert part is not None
        page = pattern.sub(lambda _, text=part[0]: text, page, count=1)
    data, today = _DATA.search(page), _DATA.search(fresh)
    assert data is not None
    assert today is not None
    words = json.loads(today[0])["words"]
    return _DATA.sub(lambda _: embed_json(json.loads(data[0]) | {"words": words}), page, count=1)


def renewed_notebook(path: Path) -> str:
    """Return a notebook with the explorers in its outputs brought up to date."""
    notebook: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    for cell in notebook["cells"]:
        for output in cell.get("outputs", []):
            lines = output.get("data", {}).get("text/html")
            if lines:
                text = _FRAME.sub(lambda frame: html.escape(renewed_explorer(html.unescape(frame[0]))), "".join(lines))
                output["data"]["text/html"] = text.splitlines(keepends=True)
    return json.dumps(notebook, ensure_ascii=False, indent=1) + "\n"


if __name__ == "__main__":
    for path in HERE.glob("*.html"):
        path.write_text(renewed(path), encoding="utf-8")
    for path in NOTEBOOKS.glob("*.ipynb"):
        path.write_text(renewed_notebook(path), encoding="utf-8")
