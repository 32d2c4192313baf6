"""The code in README and docs runs as it stands, each page as one program."""

import json
import re
import runpy
import shlex
from pathlib import Path
from types import SimpleNamespace

import pytest

from selfattn.cli.main import make_commands

ROOT = Path(__file__).resolve().parents[2]
make_notebooks = SimpleNamespace(**runpy.run_path(str(ROOT / "docs" / "make_notebooks.py")))
slug = make_notebooks.slug
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
RUN_ELSEWHERE = re.compile(r"<!-- (needs a trained run|tests/plugins/\w+\.py|run by [\w/.]+: \w+) -->\n$")
A_FILE = re.compile(r"^<!-- (tests/plugins/\w+\.py) -->\n```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
PAGES = sorted(
    page for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")] if BLOCK.search(page.read_text("utf-8"))
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_pages_code_runs(page):
    text = page.read_text(encoding="utf-8")
    program = []
    for block in BLOCK.finditer(text):
        # Keep line numbers, so that a failure points into the page.
        line = text.count("\n", 0, block.start()) + 1
        before = text[: block.start()]
        if not RUN_ELSEWHERE.search(before):
            program.append(compile("\n" * line + block[1], str(page), "exec"))
    names = {"__name__": "page"}
    for block_code in program:
        exec(block_code, names)


def test_the_files_that_are_shown_are_those_that_are_tested():
    page = (ROOT / "docs" / "how-to" / "extend.md").read_text(encoding="utf-8")
    shown = dict(A_FILE.findall(page))
    assert shown
    for name, code in shown.items():
        assert code == (ROOT / name).read_text(encoding="utf-8"), f"{name}: the page shows another one"


TRANSLATED = sorted(
    page.name for page in (ROOT / "docs" / "ko").glob("*.md") if (ROOT / "docs" / "how-to" / page.name).exists()
)
WITH_OTHER_COMMANDS = {"compare.md", "own-dates.md", "demo.md", "outputs.md"}  # their examples are Korean


PAIRS = [("book.md", "python"), ("concepts.md", "python")]
PAIRS += [(f"how-to/{name}", "bash|python|dockerfile") for name in TRANSLATED if name not in WITH_OTHER_COMMANDS]


@pytest.mark.parametrize(("page", "languages"), PAIRS)
def test_a_korean_page_shows_the_programs_of_the_english_one(page, languages):
    shown = re.compile(rf"^```(?:{languages})\n.*?^```", re.DOTALL | re.MULTILINE)
    english, korean = ((ROOT / "docs" / name).read_text("utf-8") for name in (page, f"ko/{Path(page).name}"))
    assert shown.findall(korean) == shown.findall(english) != []


DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)")
HEADING = re.compile(r"^#{1,3} (.*)$", re.MULTILINE)


def prose(page):
    return re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


def test_what_a_page_links_to_is_there():
    for page in DOCUMENTS:
        for target, anchor in LINK.findall(prose(page)):
            if target.startswith(("http://", "https://", "mailto:", "{{")):  # or an address that is filled in
                continue
            to = page.parent / target if target else page
            assert to.exists(), f"{page}: {target}"
            if anchor and to.suffix == ".md":
                assert anchor in map(slug, HEADING.findall(prose(to))), f"{page}: {target}#{anchor}"


SHELL = re.compile(r"^```bash\n(.*?)^```", re.DOTALL | re.MULTILINE)
OF_ITS_DAY = ("CHANGELOG.md", "log.md", "mutation.md")


def test_the_commands_that_a_page_shows_are_understood(monkeypatch):
    """Those without a plugin or a file of options; nothing is run."""
    monkeypatch.chdir(ROOT)
    shown = {}
    for page in [page for page in DOCUMENTS if page.name not in OF_ITS_DAY]:
        for block in SHELL.findall(page.read_text(encoding="utf-8")):
            for line in block.replace("\\\n", " ").splitlines():
                for words in re.findall(r"(?:^|[ &|])selfattn ([^#|&;<>]*)", line):
                    if not re.search("--plugin|--config|--help", words):
                        shown[tuple(shlex.split(words))] = page.name
    assert len(shown) > 100
    for command, name in shown.items():
        try:
            make_commands(command).parse_args(list(command), exit_on_error=False, print_error=False)
        except Exception as error:
            raise AssertionError(f"{name}: selfattn {shlex.join(command)}") from error


NAMED = re.compile(r"`((?:[\w-]+/)*[\w-]+\.py)`")


def test_the_files_that_a_page_names_are_there():
    """Those in a folder of ours, and tests."""
    homes = [ROOT, *(ROOT / name for name in ("selfattn", "tests", "docs", "tests/reliability", "tests/parity"))]
    for page in [page for page in DOCUMENTS if page.name not in OF_ITS_DAY]:
        for name in NAMED.findall(prose(page)):
            if name.startswith("test_") or any((home / name).parent.is_dir() for home in homes if "/" in name):
                assert any((home / name).exists() for home in homes), f"{page}: {name}"


def test_every_step_of_the_concepts_is_compared_with_the_library():
    """Each program asserts, is short, and each section has one."""
    page = (ROOT / "docs" / "concepts.md").read_text("utf-8")
    for program in BLOCK.findall(page):
        lines = [line for line in program.splitlines() if line.strip() and not line.startswith(("import", "from"))]
        assert "assert" in program
        assert 5 <= len(lines) <= 15, program
    for section in re.split(r"^## \d+\. ", page, flags=re.MULTILINE)[1:]:
        assert "```python" in section, section[:40]


@pytest.mark.parametrize("path", sorted(make_notebooks.made()), ids=lambda path: path.name)
def test_a_notebook_is_as_new_as_its_source(path):
    """Its cells are those of the page; what ran in them may be kept in it."""
    source = json.loads(make_notebooks.made()[path])
    committed = json.loads(path.read_text(encoding="utf-8"))
    cells = [{key: each[key] for key in ("cell_type", "source", "metadata")} for each in committed["cells"]]
    expected = [{key: each[key] for key in ("cell_type", "source", "metadata")} for each in source["cells"]]
    assert cells == expected, f"{path.name} is older than its source: run python docs/make_notebooks.py"


def test_lines_are_short():
    """Tables, links, headings and the command of a report aside, which cannot be broken."""
    for page in DOCUMENTS:
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
            whole = line.lstrip().startswith(("|", "#", "selfattn ")) or re.search(r"]\(|<a |`[^`]{60,}`", line)
            assert len(line) <= 120 or whole, f"{page}:{number}: {len(line)} characters"
