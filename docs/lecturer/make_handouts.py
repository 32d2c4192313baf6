"""Make the slides and the hand-out, as Markdown and PDF, from `source/`: `python docs/lecturer/make_handouts.py`.

`figures.toml` has the figures. A PDF is printed by Chromium.
"""

from __future__ import annotations

import re
import runpy
import shutil
import subprocess
import tempfile
import tomllib
from pathlib import Path

from markdown_it import MarkdownIt

HERE = Path(__file__).parent
STYLE = """
@page { size: %(size)s; margin: %(margin)s }
body { font: %(font)s/1.45 "Noto Sans CJK KR", "Noto Sans", "DejaVu Sans", sans-serif; color: #1a1a1a; margin: 0 }
h1 { font-size: 1.7em; margin: 0 0 .5em } p { margin: .5em 0 } code { font-family: "DejaVu Sans Mono", monospace }
img { display: block; margin: .4em auto; max-width: 100%%; max-height: 100%% }
table { border-collapse: collapse; width: 100%% } td, th { border: 1px solid #999; padding: .35em .7em }
td, th { text-align: left }
%(more)s
"""
SLIDE = """section { display: flex; flex-direction: column; height: 142mm; break-after: page; word-break: keep-all }
section:last-child { break-after: auto }
p:has(img) { flex: 1; min-height: 0 }
img { width: 100%; height: 100%; object-fit: contain }
p:has(img ~ img) { display: flex; gap: 10mm }
img ~ img, img:has(~ img) { width: 47% }"""
SHAPES = {
    "slides": {"size": "297mm 167mm", "margin": "12mm 16mm", "font": "26px", "more": SLIDE},
    "handout": {"size": "A4", "margin": "14mm", "font": "14px", "more": "li { margin-bottom: 20mm }"},
}


def made() -> dict[Path, str]:
    """Return the Markdown of slides and hand-out, with the figures in it, by its path."""
    figures = tomllib.loads((HERE / "figures.toml").read_text(encoding="utf-8"))
    moved = runpy.run_path(str(HERE.parent / "make_notebooks.py"))["moved"]
    texts = {}
    for name in SHAPES:
        for end in ("", ".ko"):
            source = HERE / "source" / f"{name}{end}.md"
            filled = re.sub(r"\{\{(\w+)\}\}", lambda key: figures[key[1]], source.read_text(encoding="utf-8"))
            texts[HERE / f"{name}{end}.md"] = moved(filled, source, HERE)
    return texts


def page(text: str, shape: str, lang: str) -> str:
    """Return Markdown as a page to print, a section for each slide."""
    render = MarkdownIt().enable("table").render
    sections = "".join(f"<section>{render(slide)}</section>" for slide in text.split("\n---\n"))
    style = STYLE % SHAPES[shape]
    return f'<!doctype html><html lang="{lang}"><meta charset="utf-8"><style>{style}</style>{sections}</html>'


def print_pdf(text: str, to: Path) -> None:
    """Print a page as a PDF; it lies in the folder of the PDF meanwhile, where its pictures are found."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        raise SystemExit("printing needs Chromium: apt-get install chromium fonts-noto-cjk")
    with tempfile.NamedTemporaryFile("w", suffix=".html", dir=to.parent, encoding="utf-8") as file:
        file.write(text)
        file.flush()
        flags = ("--headless", "--no-sandbox", "--disable-gpu", "--no-pdf-header-footer", f"--print-to-pdf={to}")
        subprocess.run([chromium, *flags, Path(file.name).as_uri()], check=True, capture_output=True)


if __name__ == "__main__":
    for path, text in made().items():
        path.write_text(text, encoding="utf-8")
        shape, lang = path.stem.split(".")[0], "ko" if ".ko" in path.stem else "en"
        print_pdf(page(text, shape, lang), path.with_suffix(".pdf"))
