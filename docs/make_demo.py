"""Make the demo pages of `docs/demo` again, with the models that they hold: `python docs/make_demo.py`.

A test says when a page is older than the code.
"""

from pathlib import Path

from selfattn.demo.page import page_of, read_page

HERE = Path(__file__).parent / "demo"


def renewed(path: Path) -> str:
    """Return a page as the code of today writes it."""
    models, examples = read_page(path.read_text(encoding="utf-8"))
    return page_of(models, examples, sorted({model["task"] for model in models}), "en")


if __name__ == "__main__":
    for path in HERE.glob("*.html"):
        path.write_text(renewed(path), encoding="utf-8")
