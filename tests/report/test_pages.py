"""The page, its files and the terminal's twin: figures of the record, the same bytes again, nothing breaks out."""

import base64
import csv
import hashlib
import json
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from functools import cache
from html.parser import HTMLParser
from itertools import pairwise
from unittest.mock import Mock

import pytest
import report_records
from hypothesis import given
from hypothesis import strategies as st
from report_records import printed, read

from selfattn.errors import UserError, visible
from selfattn.report.html import html_of
from selfattn.report.numbers import compact, interval_text, mean_text
from selfattn.report.pictures import drawn_as, width
from selfattn.report.ranking import quality
from selfattn.report.text import markdown_of, plain
from selfattn.report.verdict import question, verdict
from selfattn.report.write import document, write_figures, write_report, write_tables
from selfattn.results.record import read_record, record_from_dict
from selfattn.words.messages import LANGS, catalogue

VOID = {"meta", "link", "input", "img", "br"}


class Page(HTMLParser):
    """What a test asks of a page: balanced tags, scripts, attributes, the text of every table cell."""

    def __init__(self, html):
        super().__init__()
        self.stack = []
        self.scripts = []
        self.attributes = []
        self.rows = []
        self.text = ""
        self.feed(html)
        self.close()
        assert self.stack == []

    def handle_starttag(self, tag, attrs):
        self.attributes.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append([dict(attrs), ""])
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
        if tag not in VOID:
            self.stack.append(tag)

    def handle_endtag(self, tag):
        assert self.stack.pop() == tag

    def handle_data(self, data):
        if "script" in self.stack:
            self.scripts[-1][1] += data
        elif "style" not in self.stack:
            self.text += data
            if {"td", "th"} & set(self.stack):
                self.rows[-1][-1] += data

    def cells(self, first):
        """All rows whose first cell is `first`, white space made plain."""
        rows = [[" ".join(cell.split()) for cell in row] for row in self.rows]
        return [row for row in rows if row and row[0] == first]

    @property
    def data(self):
        return json.loads(next(text for attrs, text in self.scripts if attrs.get("type") == "application/json"))


@cache
def written(name):
    return html_of(document(report_records.read(name)))


def page(data, lang="en"):
    return Page(html_of(document(record_from_dict(data)), lang))


@pytest.fixture(scope="module")
def dates():
    return Page(written("dates"))


def test_the_table_shows_the_figures_of_the_record(dates):
    for model in report_records.read("dates").models:
        row, *_ = dates.cells(model.name)
        exact = model.metrics["exact_match"]
        assert row[1] == f"{mean_text(exact)} {interval_text(exact)}".replace("\u00a0", " ")
        assert row[4] == f"{model.parameters / 1000:.0f} k"
        times = [model.timing.train_seconds, model.timing.predict_ms]
        assert row[5] == compact(model.cost.training_flops_per_token)
    assert [float(text) for text in row[6:]] == pytest.approx([time.mean for time in times if time], rel=0.05)


def test_every_word_of_the_page_is_there_in_both_languages(dates):
    texts = dates.data["texts"]
    for tag, attributes in dates.attributes:
        if "data-w" in attributes:
            assert len(texts[int(attributes["data-w"] or "")]) == 2, tag
        if "data-wa" in attributes:
            name, number = (attributes["data-wa"] or "").split()
            assert texts[int(number)][0] == attributes[name]
    assert set(dates.data["words"]["ko"]) == {key for key in catalogue("ko") if key.startswith("x.")}


def test_it_asks_nothing_of_the_network_and_runs_only_its_own_script(dates):
    html = written("dates")
    addresses = set(re.findall(r"https?://[^\"'\s)<]+", html))
    assert addresses <= {"http://www.w3.org/2000/svg"}  # the name of a language, not an address
    for _tag, attributes in dates.attributes:
        for name in ("src", "href", "srcset", "action", "data", "poster"):
            assert (attributes.get(name) or "#").startswith(("#", "data:,"))
        assert not any(name.startswith("on") for name in attributes)
    policy = next(a["content"] or "" for tag, a in dates.attributes if tag == "meta" and "http-equiv" in a)
    script = next(text for attrs, text in dates.scripts if not attrs)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert "default-src 'none'" in policy
    assert f"script-src 'sha256-{digest}'" in policy
    assert len(html.encode()) < 3_000_000


def test_hostile_texts_stay_texts():
    nasty = report_records.hostile()
    hostile = page(nasty)
    assert len(hostile.scripts) == 2
    assert not any(tag == "img" for tag, _ in hostile.attributes)
    assert not any(tag == "b" and "rnn" in str(a) for tag, a in hostile.attributes)
    assert hostile.text.count(visible(nasty["command"])) >= 8
    assert "49" not in nasty["command"]
    assert "{{ 7*7 }}" in hostile.text
    assert hostile.data["explorer"]["examples"][0]["format"] == visible(nasty["command"])


def test_a_section_without_anything_to_show_is_left_out():
    data = report_records.dates()
    for model in data["models"]:
        for name in ("timing", "curves", "config", "run_dirs", "summary", "source"):
            del model[name]
    del data["attention"], data["differences"], data["interval"], data["buckets"], data["headline"]
    bare = page(data)
    parts = ("Learning", "Attention", "Test items in parts", "Where models differ", "Alignment against gold", "Gates")
    assert not any(heading in bare.text for heading in (*parts, "Decoding"))
    targets = {attributes.get("id") for _, attributes in bare.attributes}
    links = [attributes["href"] or "" for tag, attributes in bare.attributes if tag == "a"]
    assert {link.removeprefix("#") for link in links} <= targets


@pytest.mark.parametrize("name", ["rich", "many_models", "hostile"])
def test_every_id_is_there_once_and_every_reference_finds_it(name):
    attributes_of_all = [attributes for _, attributes in Page(written(name)).attributes]
    ids = [attributes["id"] for attributes in attributes_of_all if "id" in attributes]
    assert len(ids) == len(set(ids))
    for attributes in attributes_of_all:
        references = f"{attributes.get('aria-labelledby') or ''} {attributes.get('for') or ''}".split()
        assert set(references) <= set(ids), attributes


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
