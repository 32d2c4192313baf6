"""The documentation as a site: `pip install '.[docs]' && sphinx-build -W docs build/docs`."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator

import selfattn

sys.path.insert(0, str(Path(__file__).parent))
from pages import keep_code_whole, keep_words_whole, mark_wide_drawings, name_columns

project = "selfattn"
author = "the selfattn authors"
copyright = "the selfattn authors, MIT licence"
release = selfattn.__version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
source_suffix = {".md": "myst-nb", ".ipynb": "myst-nb"}
nb_execution_mode = "off"  # their outputs are kept; `pytest --nbmake docs/notebooks` runs them
exclude_patterns = [
    "notebooks/source",
    "lecturer/source",
    "lecturer/lab-solutions*",  # the page for lecturers links to them
]
root_doc = "index"
html_theme = "furo"
html_extra_path = ["demo"]  # pages on which trained models answer
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_title = f"selfattn {release}"

html_math_renderer = "mathml"  # formulas that browsers draw themselves, without a network

myst_heading_anchors = 3
myst_enable_extensions = ["dollarmath"]

autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_member_order = "bysource"
napoleon_use_rtype = False
napoleon_use_ivar = True
# Pages link to README and CONTRIBUTING, outside the site (a test follows every link); two fields are called `set`.
suppress_warnings = ["myst.xref_missing", "ref.python"]

# One page for each package, written anew at every build, so that no public name is missing or stale.
PACKAGES = {
    "attention": "The core",
    "layers": "Layers",
    "models": "Models",
    "tokenizers": "Tokenizers",
    "data": "Data",
    "training": "Training",
    "decoding": "Decoding",
    "evaluation": "Evaluation",
    "results": "What is measured",
    "runs": "Runs and the task protocol",
    "experiments": "The experiment engine",
    "comparison": "Comparison",
    "report": "Report",
    "claims": "Claims",
    "convert": "Weights from and to other libraries",
    "exports": "Models in the formats of other programs",
    "integrations": "Inside models of other libraries",
    "demo": "The demo page",
    "tasks": "Tasks",
}


def modules_of(package: Path) -> list[str]:
    """Return the import names of a package's files, its own before those of the packages within."""
    files = sorted(package.rglob("*.py"), key=lambda file: (len(file.parts), file))
    return [
        ".".join(file.relative_to(package.parents[1]).with_suffix("").parts)
        for file in files
        if file.stem != "__init__"
    ]


def write_api_pages() -> None:
    """Write the pages of the reference beside this file."""
    root, pages = Path(selfattn.__file__).parent, Path(__file__).parent / "api"
    pages.mkdir(exist_ok=True)
    listed = [package for package in PACKAGES if (root / package).is_dir()]
    for package in listed:
        blocks = [f"# {PACKAGES[package]}\n"]
        for module in modules_of(root / package):
            blocks.append(f"## {module}\n\n```{{eval-rst}}\n.. automodule:: {module}\n   :members:\n```\n")
        (pages / f"{package}.md").write_text("\n".join(blocks), encoding="utf-8")
    toctree = "\n".join(listed)
    (pages / "index.md").write_text(
        f"# Reference\n\nEvery public name, from its docstring.\n\n```{{toctree}}\n:maxdepth: 2\n\n{toctree}\n```\n",
        encoding="utf-8",
    )


def speak_korean(app: Sphinx, page: str, template: str, context: dict[str, Any], document: object) -> None:
    """Name the language of a Korean page, so that it is read aloud, broken into lines and translated as Korean."""
    if page.startswith("ko/") or page.endswith(".ko"):
        context["language"] = "ko"


# A report's page from Markdown has the name of the report itself, so the report gets another beside it.
REPORT = re.compile(r'(<a href="[^"]*\b(?:reports|claims)/[\w-]+)(\.html)')


def mend_pages(app: Sphinx, document: nodes.document, page: str) -> None:
    """Change what a page says before it is written."""
    name_columns(document)
    mark_wide_drawings(document, Path(app.srcdir))
    keep_code_whole(document)
    keep_words_whole(document)


def link_reports(app: Sphinx, page: str, template: str, context: dict[str, Any], document: object) -> None:
    """Let links to reports, which stand in the pages as HTML, lead to where the site has them."""
    if "body" in context and not page.startswith("_modules/"):
        context["body"] = REPORT.sub(r"\1.report\2", context["body"])


FUNCTION = re.compile(r"(<mi>(?:exp|ln|log|sin|cos)</mi>)")


def mathml(formula: str, display: str) -> str:
    """Return a formula as MathML, with a space behind the name of a function."""
    return FUNCTION.sub(r'\1<mspace width="0.17em"/>', convert(formula, display=display))


def draw_formula(writer: HTML5Translator, node: nodes.math) -> None:
    """Write a formula in a line as MathML."""
    writer.body.append(mathml(node.astext(), "inline"))
    raise nodes.SkipNode


def draw_display(writer: HTML5Translator, node: nodes.math_block) -> None:
    """Write a formula of its own as MathML."""
    writer.body.append(f'<div class="math">{mathml(node.astext(), "block")}</div>')
    raise nodes.SkipNode


# What the theme itself says, in Korean; it knows one language for a site.
OF_THEME = {
    "<span>Next</span>": "<span>다음</span>",
    "<span>Previous</span>": "<span>이전</span>",
    'placeholder="Search" name="q" aria-label="Search"': 'placeholder="검색" name="q" aria-label="검색"',
    "Copyright &#169; the selfattn authors, MIT licence": "&#169; selfattn 저자들, MIT 라이선스",
    'Made with <a href="https://www.sphinx': '만든 도구: <a href="https://www.sphinx',
    "<span>Back to top</span>": "<span>맨 위로</span>",
    "Skip to content": "본문으로 건너뛰기",
    "On this page": "이 페이지에서",
    'title="View this page"': 'title="이 페이지의 원본"',
    'aria-label="Toggle site navigation sidebar"': 'aria-label="메뉴"',
    'aria-label="Toggle table of contents sidebar"': 'aria-label="이 페이지의 차례"',
    'aria-label="Toggle Light / Dark / Auto color theme"': 'aria-label="밝게, 어둡게, 자동"',
}


def speak_korean_around(app: Sphinx, error: Exception | None) -> None:
    """Put what the theme says on Korean pages into Korean."""
    if error is not None or app.builder.format != "html":
        return
    for file in Path(app.outdir).rglob("*.html"):
        text = file.read_text(encoding="utf-8")
        if '<html class="no-js" lang="ko"' in text:
            for english, korean in OF_THEME.items():
                text = text.replace(english, korean)
            file.write_text(text, encoding="utf-8")


def copy_linked(app: Sphinx, error: Exception | None) -> None:
    """Put the reports, the lab with solutions and the PDFs where the pages link to them."""
    here = Path(__file__).parent
    if error is None and app.builder.format == "html":
        for lab in [*here.glob("lecturer/lab-solutions*.ipynb"), *here.glob("lecturer/*.pdf")]:
            (Path(app.outdir) / lab.relative_to(here)).write_bytes(lab.read_bytes())
    for report in [*here.glob("results/reports/*.html"), *here.glob("results/claims/*.html")]:
        to = (Path(app.outdir) / report.relative_to(here)).with_suffix(".report.html")
        if error is None and app.builder.format == "html":
            to.parent.mkdir(parents=True, exist_ok=True)
            to.write_bytes(report.read_bytes())


def setup(app: Sphinx) -> None:
    """Connect what the pages need beside the theme."""
    app.connect("html-page-context", speak_korean)
    app.connect("html-page-context", link_reports)
    app.connect("doctree-resolved", mend_pages)
    app.connect("build-finished", copy_linked)
    app.connect("build-finished", speak_korean_around)
    app.add_html_math_renderer("mathml", (draw_formula, None), (draw_display, None))


write_api_pages()
