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
import torch
from hypothesis import given
from hypothesis import strategies as st

from selfattn.console import visible
from selfattn.report.blocks import AttentionExplorer
from selfattn.report.drawing.palette import Signs
from selfattn.report.render.explorer import SINGLES, SYMBOLS, explorer_data, pack
from selfattn.report.render.html import render_html
from selfattn.results.reading import record_from_dict
from selfattn.runs.attention_view import AttentionView
from selfattn.words.catalogue import catalogue

RECORDS = runpy.run_path(str(Path(__file__).parents[1] / "fixtures" / "report_rich.py"))
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


def page(data: dict[str, Any], lang: str = "en") -> Page:
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
        assert row[5] == "–"
        assert float(row[6]) == round(model["timing"]["train_seconds"]["mean"])
        assert float(row[7]) == pytest.approx(model["timing"]["predict_ms"]["mean"], abs=0.05)


def test_formats_stand_with_counts_and_intervals(dates: Page) -> None:
    record = RECORDS["dates"]()
    order = sorted(record["models"], key=lambda model: -model["metrics"]["exact_match"]["mean"])
    for bucket in record["buckets"][0]["buckets"]:
        (row,) = dates.cells(bucket["name"])
        assert int(row[1].replace(",", "")) == bucket["items"]
        for cell, model in zip(row[3:], order, strict=True):
            mean, low, high = (float(text) for text in re.findall(r"[\d.]+", cell))
            score = bucket["models"][model["name"]]
            assert mean == pytest.approx(100 * score["mean"], abs=0.5)
            assert low <= 100 * score["low"] + 1e-9
            assert high >= 100 * score["high"] - 1e-9


def unpacked(text: str) -> list[float]:
    """What `pack` packed, in one row."""
    found, symbols = [], iter(text)
    for symbol in symbols:
        value = SYMBOLS.index(symbol)
        if value >= SINGLES:
            value = SINGLES + (value - SINGLES) * len(SYMBOLS) + SYMBOLS.index(next(symbols))
        found.append(value / 1000)
    return found


@given(st.lists(st.floats(0, 1), max_size=30))
def test_weights_are_packed_to_three_decimals_without_markup(weights: list[float]) -> None:
    text = pack([weights])
    assert unpacked(text) == pytest.approx(weights, abs=0.000501)
    assert not set(text) & set('"\\<> ')


def test_every_thousandth_can_be_packed() -> None:
    assert unpacked(pack([[k / 1000 for k in range(1001)]])) == [k / 1000 for k in range(1001)]


def test_the_explorer_holds_the_weights_of_the_record(dates: Page) -> None:
    record = RECORDS["dates"]()
    shown = dates.data["explorer"]["examples"]
    assert len(shown) == len(record["attention"]["examples"])
    for one, example in zip(shown, record["attention"]["examples"], strict=True):
        assert one["source"] == example["source"]
        for name, model in example["models"].items():
            for here, there in zip(one["models"][name]["maps"], model["maps"], strict=True):
                weights = [weight for row in there["weights"] for weight in row]
                assert unpacked(here["weights"]) == pytest.approx(weights, abs=0.000501)
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
    assert set(dates.data["words"]["ko"]) == {key for key in catalogue("ko") if key.startswith("x.")}


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
    assert html.count('<svg class="plot"') == 3  # against steps, tokens, seconds


def test_the_same_record_gives_the_same_bytes() -> None:
    first = render_html(record_from_dict(RECORDS["rich"]()))
    assert render_html(record_from_dict(copy.deepcopy(RECORDS["rich"]()))) == first


def test_hostile_texts_stay_texts() -> None:
    nasty = RECORDS["hostile"]()
    hostile = page(nasty)
    assert len(hostile.scripts) == 2
    assert not any(tag == "img" for tag, _ in hostile.attributes)
    assert not any(tag == "b" and "rnn" in str(a) for tag, a in hostile.attributes)
    assert hostile.text.count(visible(nasty["command"])) >= 8
    assert "49" not in nasty["command"]
    assert "{{ 7*7 }}" in hostile.text
    assert hostile.data["explorer"]["examples"][0]["format"] == visible(nasty["command"])


def test_a_missing_figure_is_a_dash_with_its_reason() -> None:
    data = RECORDS["dates"]()
    timing, reason = data["models"][0]["timing"], "the clock was broken"
    del timing["predict_ms"], timing["train_seconds"]
    data["models"][0]["not_measured"] = {"predict_ms": reason}
    data["models"][0]["curves"] = []
    data["models"][1]["metrics"] = {}
    shown = page(data)
    plain = shown.cells("rnn-plain")
    assert plain[0][6] == plain[0][7] == "–"
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
        for name in ("timing", "curves", "config", "run_dirs", "summary", "source"):
            del model[name]
    del data["attention"], data["differences"], data["interval"], data["buckets"], data["headline"]
    bare = page(data)
    for sentence in (
        "no learning curves",
        "no attention maps",
        "no item on which",
        "no tests of pairs",
        "–, not measured",
    ):
        assert sentence in bare.text
    for heading in ("Test items in parts", "Alignment against gold", "Decoding"):
        assert heading not in bare.text
    targets = {attributes.get("id") for _, attributes in bare.attributes}
    links = [attributes["href"] or "" for tag, attributes in bare.attributes if tag == "a"]
    assert {link.removeprefix("#") for link in links} <= targets
    assert "their level and method are not recorded" in bare.text


def test_examples_are_left_out_rather_than_a_page_too_large() -> None:
    record = record_from_dict(RECORDS["dates"]())
    maps = AttentionExplorer(record.attention.examples, ("transformer", "rnn-attention"))
    whole = explorer_data(maps, Signs([]))
    size = len(json.dumps(whole["examples"][0], ensure_ascii=False, separators=(",", ":")))
    assert len(explorer_data(maps, Signs([]), budget=size)["examples"]) == 1
    assert len(explorer_data(maps, Signs([]), budget=1)["examples"]) == 1  # one is always there
    assert explorer_data(maps, Signs([]), budget=1)["total"] == len(whole["examples"])


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


def test_every_id_is_there_once_and_every_reference_finds_it() -> None:
    for name in ("rich", "largest", "hostile"):
        found = Page(written(name)).attributes
        ids = [attributes["id"] for _, attributes in found if "id" in attributes]
        assert len(ids) == len(set(ids))
        for _, attributes in found:
            for reference in ("aria-labelledby", "for"):
                assert set((attributes.get(reference) or "").split()) <= set(ids), attributes


def test_the_largest_report_stays_small_and_whole() -> None:
    html = written("largest")
    assert len(html.encode()) < 3_000_000
    examples = Page(html).data["explorer"]["examples"]
    assert len(examples) == 12
    assert len(examples[0]["models"]) == 24


def test_tests_of_pairs_stand_with_difference_interval_and_both_p() -> None:
    shown = Page(written("rich"))
    rows = [row for row in shown.cells("transformer") if len(row) == 6 and row[1] == "rnn-attention"]
    assert rows == [["transformer", "rnn-attention", "+0.02 [−0.07, +0.11]", "0.71", "0.71", "no difference seen"]]
    assert "p is corrected for all 6 pairs" in shown.text


def test_points_and_their_signature_stand_where_figures_do() -> None:
    data = RECORDS["translation"]()
    shown = page(data)
    row, *_ = shown.cells("transformer")
    assert row[1] == "27.3 [26.1, 28.4]"
    assert shown.text.count(data["headline"]["signature"]) >= 2  # statistics, and how to reproduce
    assert shown.text.count("All pairs: ") >= 2  # BLEU and chrF
    assert "".join(shown.rows[0][1].split()).startswith("BLEU")


def test_gates_that_failed_stand_first_in_red() -> None:
    html = written("gate_failed")
    assert '<section class="verdict stopped"' in html
    shown = Page(html)
    gates = [row for row in shown.rows if len(row) == 6 and "passed" in row[2]]
    assert [" ".join(cell.split()) for cell in gates[0]] == [
        "causal",
        "transformer, seed 0",
        "✗ not passed",
        "2.31",
        "0",
        "before position 1 logits move by 2.31 when the tokens from it on change",
    ]
    assert html.count('class="is-bad"') == 2  # the badge and the row
    assert not any("better" in cell or "worse" in cell for row in shown.rows for cell in row)


def test_every_setting_that_differs_is_listed_by_model() -> None:
    shown = Page(written("rich"))
    assert shown.cells("training.lr") == [["training.lr", "0.002", "0.004", "0.004", "0.004"]]
    assert shown.cells("cell") == [["cell", "–", "lstm", "lstm", "lstm"]]
    assert shown.cells("training.warmup") == []  # the same for all


def test_all_trials_stand_with_the_chosen_one_first() -> None:
    data = RECORDS["rich"]()
    shown = page(data)
    for model in data["models"]:
        best = max(model["tuning"], key=lambda trial: trial["valid"])
        assert any(
            f"{best['valid']:.2%}".replace("%", "\u00a0%") in row[0] for row in shown.rows if "(chosen)" in row[0]
        )
    assert sum("(chosen)" in row[0] for row in shown.rows if row) == 4
    assert "Searched space: lr: the recipe's times 0.25 to 2, log-uniform; dropout: 0, 0.1, 0.2." in shown.text


def test_costs_stand_as_they_were_measured() -> None:
    data = RECORDS["rich"]()
    model = data["models"][-1]
    shown = page(data)
    sizes = next(row for row in shown.cells("transformer") if row[-1].endswith("kB"))
    assert sizes[2] == f"{model['cost']['training_flops_per_token'] / 1e6:.2f} M"
    assert sizes[4] == f"{100 * model['cost']['peak_share']:.1f} %"
    decoding = [row for row in shown.rows if row and row[0] == "greedy" and row[1:3] == ["1", "8"]]
    one = model["cost"]["decoding"][0]
    assert decoding[0][3] == f"{one['first_ms']:.1f} + {one['token_ms']:.2f}"


def test_alignment_stands_in_one_table_for_all_models() -> None:
    data = RECORDS["rich"]()
    found = data["models"][-1]["alignment"]
    layer, head = found["best"]
    best = next(one for one in found["heads"] if [one["layer"], one["head"]] == found["best"])
    shown = page(data)
    row = next(row for row in shown.cells("transformer") if row[1] == f"best when writing: layer {layer}, head {head}")
    assert row[2] == f"{100 * best['gold_share']:.1f} %"
    view = AttentionView("", "", (), (), tuple(torch.ones(4, 1, 1) for _ in range(layer + 1)), (), ())
    counted = view.caption(layer, head)
    assert row[1] == f"best when writing: {counted}", "counted as by `selfattn attention --layer --head`"
    assert any(row[1] == "the only head" for row in shown.cells("rnn-attention"))
    assert len([row for row in shown.cells("transformer") if row[1].startswith("mean of layer")]) == 2
    diagonal = [row for row in shown.rows if row and row[0] == "diagonal, no model"]
    assert diagonal == [["diagonal, no model", "–", "–", "43.8\u00a0%", "–", "–", "–", "–"]]


def test_a_record_that_knows_no_diagonal_shows_none() -> None:
    data = RECORDS["rich"]()
    for model in data["models"]:
        if model.get("alignment"):
            del model["alignment"]["diagonal_aer"]
    assert not any(row and row[0] == "diagonal, no model" for row in page(data).rows)


def test_how_far_attention_agrees_with_what_outputs_depend_on_stands_with_its_interval() -> None:
    found = page(RECORDS["rich"]())
    cells = next(row for row in found.cells("rnn-attention") if "0.61" in " ".join(row))
    assert [one.replace("\u00a0", " ").strip() for one in cells[1:]] == ["0.61 [0.57, 0.66]", "0.33 [-0.01, 0.37]", "–"]
    assert "32 test items, run with seed 0" in found.text
    assert "순위 상관계수" in page(RECORDS["rich"](), "ko").text
