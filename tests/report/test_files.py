"""Files of a report and the terminal's twin: the same for the same record, with the same words and figures."""

import csv
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from itertools import pairwise
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_records import printed, read

from selfattn.errors import UserError
from selfattn.report.numbers import interval_text, mean_text
from selfattn.report.pictures import drawn_as, width
from selfattn.report.ranking import quality
from selfattn.report.text import markdown_of, plain
from selfattn.report.verdict import question, verdict
from selfattn.report.write import document, write_figures, write_report, write_tables
from selfattn.results.record import read_record
from selfattn.words.messages import LANGS


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_report_is_made_again_from_its_results_byte_for_byte_or_the_old_one_stays(tmp_path, monkeypatch):
    first = write_report(read("dates"), tmp_path / "a" / "b")
    write_report(read_record(first.results), tmp_path / "again")
    before = contents(tmp_path / "again")
    assert before == contents(first.html.parent)
    assert before.keys() == {"report.html", "report.md", "results.json"}
    monkeypatch.setattr("selfattn.files.os.replace", Mock(side_effect=OSError(28, "No space left on device")))
    with pytest.raises(UserError, match=r"results\.json: cannot be written \(No space left on device\)"):
        write_report(read("dates"), tmp_path / "again")
    assert contents(tmp_path / "again") == before


@pytest.mark.parametrize("lang", LANGS)
def test_markdown_says_what_the_page_says(lang):
    dates = read("dates")
    text = markdown_of(document(dates), lang)
    lines = text.splitlines()
    title, lead, *_ = text.split("\n\n")
    assert title == f"# {question(dates).say(lang)}"
    assert lead.replace("\n", " ") == f"**{verdict(dates).lead.say(lang)}**"
    assert max(len(line) for line in lines if not line.startswith("|")) <= 120
    for model in dates.models:
        row = next(line for line in lines if line.startswith(f"| {model.name} |"))
        assert f"{mean_text(quality(dates, model))} {interval_text(quality(dates, model))}" in row
    for bucket in dates.buckets[0].buckets:
        assert any(line.startswith(f"| {bucket.name} | {bucket.items} |") for line in lines)
    assert f"```\n{dates.command}\n```" in text


@given(st.text(max_size=30))
def test_plain_text_is_one_line(text):
    assert len(plain(text).splitlines()) <= 1


@pytest.mark.parametrize("lang", LANGS)
@pytest.mark.parametrize("name", ["rich", "many_models", "translation"])
def test_the_terminal_shows_verdict_table_and_path_in_80_columns(name, lang):
    record = read(name)
    text = printed(record, lang, "compare/dates/report.html")
    assert max(map(width, text.splitlines())) <= 80
    said = " ".join(text.split())
    assert " ".join(question(record).say(lang).split()) in said
    for model in record.models:
        line = next(line for line in text.splitlines() if re.match(rf"\S {model.name} ", line))
        one, kind = quality(record, model), record.headline.kind
        assert f"{mean_text(one, kind)} {interval_text(one, kind)}" in line
    assert "compare/dates/report.html" in text


@pytest.mark.parametrize("name", ["dates", "rich"])
def test_headings_go_down_one_level_at_a_time(name):
    """A page that skips a level is no outline, and documentation tools refuse it."""
    text = markdown_of(document(read(name)))
    levels = [len(line) - len(line.lstrip("#")) for line in text.splitlines() if re.match("#+ ", line)]
    assert max(levels) >= 3
    assert all(after <= before + 1 for before, after in pairwise(levels))


def test_every_chart_is_three_files_that_need_no_style_sheet(tmp_path, monkeypatch):
    record = read("rich")
    files = write_figures(record, tmp_path / "new" / "folder", "ko")
    assert [path.suffix for path in files] == [".svg", ".png", ".pdf"] * (len(files) // 3)
    assert {"step", "trials"} <= {path.stem for path in files}
    for path in files:
        starts = {".png": b"\x89PNG", ".pdf": b"%PDF-", ".svg": b"<svg "}
        assert path.read_bytes().startswith(starts[path.suffix])
    for text in (path.read_text(encoding="utf-8") for path in files if path.suffix == ".svg"):
        assert all(model.name in "".join(ET.fromstring(text).itertext()) for model in record.models)
        assert "class=" not in text
    monkeypatch.setitem(sys.modules, "cairosvg", None)
    assert {path.suffix for path in write_figures(record, tmp_path)} == {".svg"}


def test_pngs_draw_korean_letters_not_boxes():
    command = ["fc-list", ":charset=c77c d6c4"]
    if shutil.which(command[0]) is None or not subprocess.run(command, capture_output=True).stdout:
        pytest.skip("no installed font has Korean letters")
    pictures = [drawn_as("png", f"<svg width='40' height='20'><text y='15'>{letter}</text></svg>") for letter in "일후"]
    assert pictures[0] != pictures[1]


def test_every_table_is_a_csv_file_with_the_values_of_the_record(tmp_path):
    record = read("rich")
    files = write_tables(record, tmp_path)
    assert len(set(files)) == len(files) >= 5
    rows = list(csv.reader((tmp_path / "agreement.csv").read_text(encoding="utf-8").splitlines()))
    assert rows[0][:3] == ["model", "attention and blocking", "attention and gradient × input"]
    assert ["rnn-attention", "0.61 [0.57, 0.66]", "0.33 [-0.01, 0.37]", "–"] in rows
