"""README and docs: their code runs, links and commands are right, published figures come from somewhere."""

import json
import re
import runpy
import shlex
import subprocess
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest

from selfattn.cli.main import make_commands

ROOT = Path(__file__).resolve().parents[2]
make_notebooks = SimpleNamespace(**runpy.run_path(str(ROOT / "docs" / "make_notebooks.py")))
slug = make_notebooks.slug
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
RUN_ELSEWHERE = re.compile(r"<!-- (needs a trained run|\w+\.py|run by [\w/.]+: \w+) -->\n$")
PAGES = sorted(
    page for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")] if BLOCK.search(page.read_text("utf-8"))
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_pages_code_runs(page):
    text = page.read_text(encoding="utf-8")
    names = {"__name__": "page"}
    for block in BLOCK.finditer(text):
        # Keep line numbers, so that a failure points into the page.
        line = text.count("\n", 0, block.start()) + 1
        if not RUN_ELSEWHERE.search(text[: block.start()]):
            exec(compile("\n" * line + block[1], str(page), "exec"), names)


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
    program = cache(lambda *named: make_commands(named))
    for command, name in shown.items():
        try:
            program(*command[:2]).parse_args(list(command), exit_on_error=False, print_error=False)
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


# Where published figures come from: commits that can be looked up, and records, or the word that there are none


RESULTS = ROOT / "docs" / "results"
CITING = [ROOT / "CONTRIBUTING.md", ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
# A commit of another project stands behind the name of its repository, or behind "zoology".
CITED = re.compile(r"(?:commits?|커밋)[ \n]`?([0-9a-f]{7,40})\b")
ELSEWHERE = re.compile(r"(repository|저장소)\s[\w./-]+,\s$|zoology\]?\S* $")
UNKEPT = ("cannot be verified", "cannot be\nverified", "검증할 수 없")
RECORD = re.compile(r"\]\(([\w./-]+(?:\.md|\.json))(?:#[^)]*)?\)|verify ([\w./-]+\.json)")
# Commits of records whose pages say that they are not in this repository.
NAMED_AS_MISSING = {"3772c1341f71": RESULTS / "translation.md"}


@cache
def commits():
    """Hashes of the history; the tests skip where there is none, as in an archive or a shallow clone."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a checkout")
    git = ["git", "-C", str(ROOT)]
    command = [*git, "rev-parse", "--is-shallow-repository"]
    shallow = subprocess.run(command, capture_output=True, text=True, check=False)
    if shallow.stdout.strip() != "false":
        pytest.skip("a shallow clone has no history")
    log = subprocess.run([*git, "log", "--format=%H"], capture_output=True, text=True, check=True)
    return tuple(log.stdout.split())


def is_known(commit):
    return any(known.startswith(commit) for known in commits())


def cited(text):
    """Commits of this repository that a text cites."""
    found = CITED.finditer(text)
    return [match[1] for match in found if not ELSEWHERE.search(text[max(0, match.start() - 60) : match.start()])]


def test_a_citation_is_recognised():
    assert cited("commit 9feb519, 커밋 863f9db and commit `22f060a`") == ["9feb519", "863f9db", "22f060a"]
    assert cited("repository sigmorphon/2020, commit 3d9bb365; [zoology](x) commit d88d6f5") == []


@pytest.mark.parametrize("page", CITING, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_commits_that_pages_cite_are_in_the_history(page):
    if page.parent.name == "reports":  # made of the records below
        return
    unknown = [commit for commit in cited(page.read_text("utf-8")) if not is_known(commit)]
    assert unknown == []


@pytest.mark.parametrize("record", sorted(RESULTS.rglob("*.json")), ids=lambda record: record.name)
def test_commits_of_records_are_in_the_history(record):
    values = json.loads(record.read_text("utf-8"))
    environment = values.get("environment", {}) if isinstance(values, dict) else {}
    for commit in re.findall(r"[0-9a-f]{7,40}", str(environment.get("commit") or "")):
        page = NAMED_AS_MISSING.get(commit)
        assert is_known(commit) or (page and "is not in this repository" in page.read_text("utf-8")), commit


def records_of(text, page):
    """Records that a text names, with their reports, where they exist."""
    found = []
    for linked, verified in RECORD.findall(text):
        path = (page.parent / linked if linked else ROOT / verified).with_suffix(".json")
        if path.is_file():
            found.append(path)
    return found


RESULT_PAGES = [*sorted(RESULTS.glob("*.md")), *(ROOT / f"docs/ko/{name}.md" for name in ("dates", "replications"))]


@pytest.mark.parametrize("page", RESULT_PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_published_table_has_its_record_or_says_that_it_has_none(page):
    """Section by section: a table of figures needs one or the other."""
    for section in re.split(r"^#{2,3} ", page.read_text("utf-8"), flags=re.MULTILINE):
        has_figures = re.search(r"^\|.*\d+\.\d+.*\|$", section, re.MULTILINE)
        assert not has_figures or records_of(section, page) or any(word in section for word in UNKEPT), section[:80]
