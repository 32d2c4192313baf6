"""The page: its figures are those of the record, nothing breaks out of it, the same record gives the same bytes."""

import base64
import hashlib
import json
import re
from functools import cache
from html.parser import HTMLParser

import pytest
import report_records

from selfattn.errors import visible
from selfattn.report.html import html_of
from selfattn.report.numbers import compact, interval_text, mean_text
from selfattn.report.write import document
from selfattn.results.record import record_from_dict
from selfattn.words.messages import catalogue

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
            self.scripts.append((dict(attrs), ""))
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
        if tag not in VOID:
            self.stack.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.attributes.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.stack.pop() == tag

    def handle_data(self, data):
        if "script" in self.stack:
            attrs, text = self.scripts[-1]
            self.scripts[-1] = (attrs, text + data)
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


def test_every_id_is_there_once_and_every_reference_finds_it():
    for name in ("rich", "many_models", "hostile"):
        attributes_of_all = Page(written(name)).attributes
        ids = [attributes["id"] for _, attributes in attributes_of_all if "id" in attributes]
        assert len(ids) == len(set(ids))
        for _, attributes in attributes_of_all:
            for reference in ("aria-labelledby", "for"):
                assert set((attributes.get(reference) or "").split()) <= set(ids), attributes
