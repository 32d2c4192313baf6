"""The code in README and docs runs as it stands, each page as one program."""

from __future__ import annotations

import re
from itertools import pairwise
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
    recorded: dict[str, set[str]] = {}  # of rows by their first cell, of columns by their heads
    heads: list[str] = []
    for before, line in pairwise(report.splitlines()):
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("| ") else []
        heads = heads if before.startswith("|") else cells
        for name, cell in [(cells[0], line), *zip(heads, cells, strict=True)] if cells else []:
            recorded.setdefault(name, set()).update(figures(cell))
    rows = [line for line in text.splitlines() if re.match(r"\| (rnn-|transformer )", line) and "[" in line]
    assert len(rows) == 4
    for row in rows:
        assert set(figures(row)) <= recorded[row.split()[1]], row
    gates = re.search(r"(\d+) of (\d+) sanity gates passed", report)
    assert gates
    passed, asked = gates.groups()
    some = rf"{passed} of {asked} sanity gates passed|점검 {asked}개 가운데 {passed}개를 통과"
    assert re.search(rf"All {asked} sanity gates|점검 {asked}개를 모두" if passed == asked else some, text)
    assert ("not tuned" in report) == bool(re.search("not tuned|탐색하지", text))
    other = (ROOT / "docs/results/reports/translation.md").read_text("utf-8").partition("\n|")[0]
    said = re.search(r"\d\d\.\d % \[[\d., ]+\]\D+\d\d\.\d %\s\[[\d., ]+\], p = [\d.]+\d", text)
    assert said
    assert set(figures(said[0])) <= set(figures(other))


@pytest.mark.parametrize(
    ("page", "record"),
    [("docs/results/dates.md", "dates"), ("docs/ko/dates.md", "dates"), ("docs/results/translation.md", "translation")],
)
def test_the_tables_of_a_main_job_are_its_record(page: str, record: str) -> None:
    """Every figure of the first section's tables stands in the committed report; single runs have the mean it gives."""
    section = (ROOT / page).read_text("utf-8").split("\n## ")[1]
    known = set(figures((ROOT / f"docs/results/reports/{record}.md").read_text("utf-8")))
    rows, runs = 0, None
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("| ") else []
        if not cells or cells[0] == "---":
            continue
        heads = [cell for cell in cells if re.match("single runs|실행별|first epoch|검증 99", cell)]
        if heads or not figures(line):
            runs = next((cells.index(head) for head in heads), None)
            left_out = {cells.index(head) for head in heads}
            continue
        rows += 1
        assert set(figures(" ".join(cell for k, cell in enumerate(cells) if k and k not in left_out))) <= known, line
        if runs is not None and len(single := [float(one) for one in figures(cells[runs])]) > 1:
            mean = cells[runs - 1].partition(" [")[0]
            shown = len(mean.partition(".")[2])
            assert abs(sum(single) / len(single) - float(mean)) <= 0.5001 * 10**-shown, line
    assert rows > 6


@pytest.mark.parametrize("readme", ["README.md", "README.ko.md"])
def test_how_long_something_took_is_written_down_where_it_was_measured(readme: str) -> None:
    measured = " ".join(page.read_text("utf-8") for page in [*ROOT.glob("docs/*.md"), *ROOT.glob("docs/results/*.md")])
    said = re.findall(r"(\d+)(?: min|분)\s?(\d+)(?: s|초)", (ROOT / readme).read_text("utf-8"))
    assert said
    for minutes, seconds in said:
        assert f"{minutes} min {seconds} s" in measured


@pytest.mark.parametrize("readme", ["README.md", "README.ko.md"])
def test_a_winner_is_named_with_its_conditions(readme: str) -> None:
    """Which of two models is better was found after so much training, with settings that nobody searched for."""
    text = " ".join((ROOT / readme).read_text("utf-8").split())
    place = re.search(r"99\.4 % \[96\.6, 100\.0\]", text)
    assert place
    around = text[place.start() - 400 : place.end() + 400]
    for needed in (r"200,000", r"not tuned|탐색하지", r"about these budgets|이 예산에서"):
        assert re.search(needed, around), needed


@pytest.mark.parametrize("page", ["docs/results/dates.md", "docs/ko/dates.md", "README.md", "README.ko.md"])
def test_nothing_is_said_of_years_that_no_probe_asks(page: str) -> None:
    """The probe leaves the centuries of training; in a pilot, years left out within them are copied."""
    assert not re.search("by heart|외웠", (ROOT / page).read_text("utf-8"))


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
