"""The page: its figures are those of the record, nothing breaks out of it, the same record gives the same bytes."""

from __future__ import annotations

import base64
import copy
import hashlib
import json
import re
import runpy
from functools import cache
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from selfattn.report.explorer import explorer_data
from selfattn.report.html import render_html
from selfattn.report.reading import record_from_dict
from selfattn.report.wordlist_explorer import EXPLORER
from selfattn.report.words import Lang

RECORDS = runpy.run_path(str(Path(__file__).parents[1] / "fixtures" / "report_records.py"))
VOID = {"meta", "link", "input", "img", "br"}


class Page(HTMLParser):
    """What a test asks of a page: balanced tags, scripts, attributes, the text of every table cell."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.stack: list[str] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.attributes: list[tuple[str, dict[str, str | None]]] = []
        self.rows: list[list[str]] = []
        self.text = ""
        self.svgs = 0
        self.feed(html)
        self.close()
        assert self.stack == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append((dict(attrs), ""))
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
        if tag == "svg":
            self.svgs += 1
        if tag not in VOID:
            self.stack.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.stack.pop() == tag

    def handle_data(self, data: str) -> None:
        if "script" in self.stack:
            attrs, text = self.scripts[-1]
            self.scripts[-1] = (attrs, text + data)
        elif "style" not in self.stack:
            self.text += data
            if {"td", "th"} & set(self.stack):
                self.rows[-1][-1] += data

    def cells(self, first: str) -> list[list[str]]:
        """All rows whose first cell is `first`, white space made plain."""
        rows = [[" ".join(cell.split()) for cell in row] for row in self.rows]
        return [row for row in rows if row and row[0] == first]

    @property
    def data(self) -> Any:
        return json.loads(next(text for attrs, text in self.scripts if attrs.get("type") == "application/json"))


@cache
def written(name: str) -> str:
    """The page of one of the made-up records."""
    return render_html(record_from_dict(RECORDS[name]()))


def page(data: dict[str, Any], lang: Lang = "en") -> Page:
    return Page(render_html(record_from_dict(data), lang))


@pytest.fixture(scope="module")
def dates() -> Page:
    return Page(written("dates"))


def test_the_table_shows_the_figures_of_the_record(dates: Page) -> None:
    for model in RECORDS["dates"]()["models"]:
        row, *_ = dates.cells(model["name"])
        mean, low, high = (float(text) for text in re.findall(r"[\d.]+", row[1]))
        exact = model["metrics"]["exact_match"]
        digits = len(re.findall(r"[\d.]+", row[1])[0].partition(".")[2])
        assert mean == pytest.approx(100 * exact["mean"], abs=0.5 * 10**-digits + 1e-9)
        assert 0 <= 100 * exact["low"] - low < 10**-digits
        assert 0 <= high - 100 * exact["high"] < 10**-digits
        assert row[4] == f"{model['parameters'] / 1000:.0f} k"
        assert float(row[5]) == round(model["timing"]["train_seconds"]["mean"])
        assert float(row[6].replace(",", "")) == round(model["timing"]["tokens_per_second"]["mean"])
        assert float(row[7]) == pytest.approx(model["timing"]["predict_ms"]["mean"], abs=0.05)


def test_formats_stand_with_counts_and_intervals(dates: Page) -> None:
    record = RECORDS["dates"]()
    order = sorted(record["models"], key=lambda model: -model["metrics"]["exact_match"]["mean"])
    for name in record["models"][0]["by_format"]:
        (row,) = dates.cells(name)
        assert int(row[1].replace(",", "")) == record["models"][0]["by_format"][name]["items"]
        for cell, model in zip(row[3:], order, strict=True):
            mean, low, high = (float(text) for text in re.findall(r"[\d.]+", cell))
            score = model["by_format"][name]["exact_match"]
            assert mean == pytest.approx(100 * score["mean"], abs=0.5)
            assert low <= 100 * score["low"] + 1e-9
            assert high >= 100 * score["high"] - 1e-9


def test_the_explorer_holds_the_weights_of_the_record(dates: Page) -> None:
    record = RECORDS["dates"]()
    shown = dates.data["explorer"]["examples"]
    assert len(shown) == len(record["attention"]["examples"])
    for one, example in zip(shown, record["attention"]["examples"], strict=True):
        assert one["source"] == example["source"]
        for name, model in example["models"].items():
            for here, there in zip(one["models"][name]["maps"], model["maps"], strict=True):
                assert [[w / 10000 for w in row] for row in here["weights"]] == there["weights"]
                assert (here["kind"], here["layer"], here["head"]) == (there["kind"], there["layer"], there["head"])


def test_gold_cells_are_those_of_the_spans(dates: Page) -> None:
    first = dates.data["explorer"]["examples"][0]["models"]["transformer"]
    year = next(span for span in first["gold"] if span["field"] == "year")
    assert year["rows"] == [0, 1, 2, 3]
    assert "".join(first["source"]["tokens"][k] for k in year["columns"]) == "2008"


def test_every_word_of_the_page_is_there_in_both_languages(dates: Page) -> None:
    texts = dates.data["texts"]
    for tag, attributes in dates.attributes:
        if "data-w" in attributes:
            assert len(texts[int(attributes["data-w"] or "")]) == 2, tag
        if "data-wa" in attributes:
            name, number = (attributes["data-wa"] or "").split()
            assert texts[int(number)][0] == attributes[name]
    assert set(dates.data["words"]["ko"]) == set(EXPLORER)


def test_it_opens_in_korean_too() -> None:
    korean = page(RECORDS["dates"](), "ko")
    assert ("html", {"lang": "ko"}) in korean.attributes
    assert "차이가 보이지 않습니다." in korean.text
    assert "No difference seen" not in korean.text


def test_it_asks_nothing_of_the_network_and_runs_only_its_own_script(dates: Page) -> None:
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


def test_without_javascript_there_is_one_map_for_each_model_with_attention(dates: Page) -> None:
    html = written("dates")
    assert html.count('class="attention-map"') == 2
    assert "No maps for rnn-plain, rnn-peeky" in dates.text
    assert html.count('<svg class="plot"') == 4  # against epochs, steps, tokens, seconds


def test_the_same_record_gives_the_same_bytes() -> None:
    first = render_html(record_from_dict(RECORDS["three_seeds"]()))
    assert render_html(record_from_dict(copy.deepcopy(RECORDS["three_seeds"]()))) == first


def test_hostile_texts_stay_texts() -> None:
    nasty = RECORDS["hostile"]()
    hostile = page(nasty)
    assert len(hostile.scripts) == 2
    assert not any(tag == "img" for tag, _ in hostile.attributes)
    assert not any(tag == "b" and "rnn" in str(a) for tag, a in hostile.attributes)
    assert hostile.text.count(nasty["command"]) >= 8
    assert "49" not in nasty["command"]
    assert "{{ 7*7 }}" in hostile.text
    assert hostile.data["explorer"]["examples"][0]["format"] == nasty["command"]


def test_a_missing_figure_is_a_dash_with_its_reason() -> None:
    data = RECORDS["dates"]()
    timing, reason = data["models"][0]["timing"], "the clock was broken"
    del timing["predict_ms"], timing["train_seconds"]
    data["models"][0]["not_measured"] = {"predict_ms": reason}
    data["models"][0]["curves"] = []
    data["models"][1]["metrics"] = {}
    shown = page(data)
    plain = shown.cells("rnn-plain")
    assert plain[0][5] == plain[0][7] == "–"
    assert f"rnn-plain, time for one input: – ({reason})." in shown.text
    assert "rnn-plain, training time: – (the record holds no figure)." in shown.text
    assert "rnn-plain, learning curve: –" in shown.text
    assert any(a.get("title") == reason for _, a in shown.attributes)
    peeky = shown.cells("rnn-peeky")[0]
    assert peeky[1].split() == ["–", "–"]
    assert peeky[3] == "not measured"


def test_one_model_is_a_report_too() -> None:
    one = page(RECORDS["one_model"]())
    assert "How well does transformer convert dates?" in one.text
    assert "The record holds no item on which the models differ." in one.text
    assert "parameters matched" not in one.text


def test_twenty_models_stand_apart() -> None:
    html = written("many_models")
    assert "Which of these 20 models converts dates best?" in Page(html).text
    assert len(html.encode()) < 3_000_000
    plot = html[html.index('<svg class="plot"') :]
    plot = plot[: plot.index("</figure>")]
    names = re.findall(r'<text x="100%" y="([\d.]+)" dx="30">', plot)
    heights = sorted(float(y) for y in names)
    assert len(heights) == 20
    assert min(b - a for a, b in pairwise(heights)) >= 16.9


def test_a_bare_record_says_what_it_does_not_hold() -> None:
    data = RECORDS["dates"]()
    for model in data["models"]:
        for name in ("by_format", "timing", "curves", "config", "run_dirs", "summary", "source"):
            del model[name]
    del data["attention"], data["differences"], data["interval"]
    bare = page(data)
    for sentence in ("no learning curves", "no attention maps", "no figures by format", "no item on which"):
        assert sentence in bare.text
    assert "their level and method are not recorded" in bare.text


def test_examples_are_left_out_rather_than_a_page_too_large() -> None:
    record = record_from_dict(RECORDS["dates"]())
    whole = explorer_data(record)
    size = len(json.dumps(whole["examples"][0], ensure_ascii=False, separators=(",", ":")))
    assert len(explorer_data(record, budget=size)["examples"]) == 1
    assert len(explorer_data(record, budget=1)["examples"]) == 1  # one is always there
    assert explorer_data(record, budget=1)["total"] == len(whole["examples"])


def test_outlines_need_a_prediction_of_the_right_length() -> None:
    data = RECORDS["dates"]()
    shown = data["attention"]["examples"][0]["models"]["transformer"]
    shown["prediction"] = "2008-11-1"
    shown["target_tokens"].pop(-2)
    for one in shown["maps"]:
        one["weights"] = [row if one["kind"] == "cross" else row[:-1] for row in one["weights"][:-1]]
    example = page(data).data["explorer"]["examples"][0]["models"]
    assert example["transformer"]["gold"] is None
    assert example["rnn-attention"]["gold"]
