"""Where published figures come from: commits that can be looked up, and records, or the word that there are none."""

import json
import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "docs" / "results"
PAGES = [ROOT / "CONTRIBUTING.md", ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
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
