"""The code in README and docs runs as it stands, each page as one program."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
NEEDS_A_RUN = "<!-- needs a trained run -->\n"
A_FILE = re.compile(r"^<!-- (tests/doors/\w+\.py) -->\n```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
PAGES = sorted(
    page for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")] if BLOCK.search(page.read_text("utf-8"))
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_pages_code_runs(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    program = []
    for block in BLOCK.finditer(text):
        # Keep line numbers, so that a failure points into the page.
        line = text.count("\n", 0, block.start()) + 1
        before = text[: block.start()]
        if not before.endswith(NEEDS_A_RUN) and not re.search(r"<!-- tests/doors/\w+\.py -->\n$", before):
            program.append(compile("\n" * line + block[1], str(page), "exec"))
    names: dict[str, object] = {"__name__": "page"}
    for block_code in program:
        exec(block_code, names)


def test_concepts_is_among_the_pages() -> None:
    assert ROOT / "docs" / "concepts.md" in PAGES


def test_the_files_that_are_shown_are_those_that_are_tested() -> None:
    page = (ROOT / "docs" / "how-to" / "extend.md").read_text(encoding="utf-8")
    shown = dict(A_FILE.findall(page))
    assert len(shown) == 6, "one for each door"
    for name, code in shown.items():
        assert code == (ROOT / name).read_text(encoding="utf-8"), f"{name}: the page shows another one"


def test_the_korean_concepts_run_the_english_program() -> None:
    english, korean = ((ROOT / "docs" / page).read_text("utf-8") for page in ("concepts.md", "ko/concepts.md"))
    assert BLOCK.findall(korean) == BLOCK.findall(english)


def test_the_korean_results_have_the_english_figures() -> None:
    def rows(page: str) -> list[list[str]]:
        """The figures of each row of a table, sorted: languages put their words in another order."""
        lines = (ROOT / "docs" / page).read_text("utf-8").splitlines()
        found = [sorted(re.findall(r"\d[\d,.]*\d|\d", line)) for line in lines if line.startswith("| ")]
        return [row for row in found if len(row) > 2]

    english = rows("results/dates.md")
    for row in rows("ko/dates.md"):
        assert row in english, row


def figures(line: str) -> list[str]:
    return re.findall(r"\d[\d,.]*\d|\d", line)


@pytest.mark.parametrize("readme", ["README.md", "README.ko.md"])
def test_the_readmes_table_is_its_record(readme: str) -> None:
    """Every figure of the table on the first page stands in the committed report, and the command is the report's."""
    text = (ROOT / readme).read_text("utf-8")
    report = (ROOT / "docs/results/reports/dates.md").read_text("utf-8")
    command = re.search(r"selfattn compare dates[^`\n]*", report)
    assert command
    assert f"`{command[0].partition(' --out')[0].strip()}`" in text, "the page names another command than its record"
    recorded: dict[str, list[str]] = {}
    for line in report.splitlines():
        if line.startswith("| "):
            recorded.setdefault(line.split()[1], []).extend(figures(line))
    rows = [line for line in text.splitlines() if re.match(r"\| (rnn-|transformer )", line) and "[" in line]
    assert len(rows) == 4
    for row in rows:
        assert set(figures(row)) <= set(recorded[row.split()[1]]), row
    gates = re.search(r"(\d+) of (\d+) sanity gates passed", report)
    assert gates
    assert gates[1] == gates[2]
    assert re.search(rf"All {gates[1]} sanity gates|점검 {gates[1]}개를 모두", text)
    assert ("not tuned" in report) == bool(re.search("not tuned|탐색하지", text))
    other = (ROOT / "docs/results/reports/translation.md").read_text("utf-8").partition("\n|")[0]
    said = re.search(r"\d\d\.\d % \[[\d., ]+\]\D+\d\d\.\d %\s\[[\d., ]+\], p = [\d.]+\d", text)
    assert said
    assert set(figures(said[0])) <= set(figures(other))


@pytest.mark.parametrize("page", ["README.md", "README.ko.md", "docs/results/dates.md", "docs/results/translation.md"])
def test_tuning_is_said_only_where_it_was_asked_for(page: str) -> None:
    text = " ".join((ROOT / page).read_text("utf-8").split())
    for sentence in re.split(r"(?<=[.;:])\s", text):
        if re.search(r"tuned equally|equal(ly)? tun|cannot be fooled|같은 횟수의 하이퍼파라미터 튜닝", sentence):
            assert "--tune" in sentence, sentence


LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)\s]*)?\)")


@pytest.mark.parametrize(
    "page", sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]), ids=lambda page: str(page.relative_to(ROOT))
)
def test_what_a_page_links_to_is_there(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    for target in LINK.findall(text):
        if not target.startswith(("http://", "https://", "mailto:")):
            assert (page.parent / target).exists(), target
