"""The page in a real browser: it opens quietly, shows the figures of its record, and fits where it is read."""

from __future__ import annotations

import base64
import re
from itertools import pairwise
from typing import Any

import pytest

from selfattn.console import visible

PAGES = ["dates", "three_seeds", "one_model", "many_models", "hostile", "rich", "gate_failed", "translation"]
OPEN_DETAILS = "document.querySelectorAll('details').forEach(one => { one.open = true; });"
CURVES = "section[aria-labelledby=learning] .chart"  # against steps, tokens, seconds, FLOPs: one of them is shown


@pytest.mark.parametrize("name", PAGES)
def test_it_opens_from_disk_in_silence(browser: Any, name: str) -> None:
    browser.open(name)
    for selector in ("#next", "input[name=view][value=lines]", "input[name=lang][value=ko]", "#against-seconds"):
        for element in browser.all(selector):
            browser.run("arguments[0].click()", element)
    assert browser.logs("browser") == []
    asked = browser.requests()
    assert len([url for url in asked if url.startswith("file:")]) == 1
    assert all(url.startswith(("file:", "data:")) for url in asked)


def test_hostile_texts_do_nothing_but_stand_there(browser: Any) -> None:
    data = browser.open("hostile")
    assert browser.one("#command").get_attribute("textContent") == visible(data["command"])
    assert browser.run("return document.querySelectorAll('img, script:not([type])').length") == 1
    assert browser.run("return document.querySelectorAll('#panels b b, #panels script, #panels img').length") == 0
    title = browser.all("#panels .panel h3")[1].text
    assert "<b>rnn</b>" in title


def test_the_policy_of_the_page_stops_foreign_scripts(browser: Any) -> None:
    browser.open()
    browser.run(
        "const script = document.createElement('script'); script.textContent = 'window.foreign = 1';"
        "document.body.append(script);"
        "const image = new Image(); image.src = 'http://127.0.0.1:9/x.png'; document.body.append(image);"
    )
    assert browser.run("return window.foreign") is None
    refused = [entry["message"] for entry in browser.logs("browser")]
    assert any("script-src" in message for message in refused)
    assert any("img-src" in message for message in refused)


def test_the_figures_seen_are_those_of_the_record(browser: Any) -> None:
    for model in browser.open("rich")["models"]:
        row = browser.one(f".summary tr[data-model='{model['name']}']")
        cells = [" ".join(cell.text.split()) for cell in row.find_elements("css selector", "th, td")]
        mean, low, high = (float(text) for text in re.findall(r"[\d.]+", cells[1]))
        exact = model["metrics"]["exact_match"]
        assert mean == pytest.approx(100 * exact["mean"], abs=0.05)
        assert low == pytest.approx(100 * exact["low"], abs=0.1)
        assert high == pytest.approx(100 * exact["high"], abs=0.1)
        assert cells[5] == f"{model['cost']['training_flops_per_token'] / 1e6:.2f} M"
        assert float(cells[6].replace(",", "")) == round(model["timing"]["train_seconds"]["mean"])
        times = browser.one(f"[data-grid=times] tr[data-model='{model['name']}']").text
        assert f"{model['timing']['tokens_per_second']['mean']:,.0f}" in times
        size = browser.one(f"[data-grid=matching] tr[data-model='{model['name']}']").text
        assert f"{model['parameters']:,}" in size


def test_dots_stand_where_their_figures_are_on_the_axis(browser: Any) -> None:
    data = browser.open()
    places = {}
    for model in data["models"]:
        row = f".summary tr[data-model='{model['name']}'] .strip"
        strip, dot = (
            browser.run(f'return document.querySelector("{selector}").getBoundingClientRect().toJSON()')
            for selector in (row, f"{row} .at path")
        )
        places[model["name"]] = (dot["x"] + dot["width"] / 2 - strip["x"]) / strip["width"]
    by_mean = sorted(data["models"], key=lambda model: model["metrics"]["exact_match"]["mean"])
    assert [model["name"] for model in by_mean] == sorted(places, key=lambda name: places[name])
    assert 0.75 < places["rnn-attention"] < 1  # 99.96 %: beyond the third nine of four


def test_tests_of_pairs_seen_are_those_of_the_record(browser: Any) -> None:
    data = browser.open("rich")
    rows = browser.all("[data-grid=pairs-exact_match] tbody tr")
    assert len(rows) == len(data["pairs"])
    found = {}
    for row in rows:
        first, second, difference, p, p_holm, word = (
            " ".join(cell.text.split()) for cell in row.find_elements("css selector", "th, td")
        )
        mean, low, high = (float(text.replace("−", "-")) for text in re.findall(r"[+−]?[\d.]+", difference))
        found[first, second] = (mean, low, high, p, p_holm, word)
    for test in data["pairs"]:
        turned = (test["second"], test["first"]) in found
        mean, low, high, _, p_holm, word = found[
            (test["second"], test["first"]) if turned else (test["first"], test["second"])
        ]
        sign = -1 if turned else 1
        assert mean == pytest.approx(100 * sign * test["difference"], abs=0.051)
        ends = sorted(100 * sign * test[end] for end in ("low", "high"))
        assert low <= ends[0] + 1e-9
        assert high >= ends[1] - 1e-9
        assert p_holm == ("< 0.001" if test["p_holm"] < 0.001 else f"{test['p_holm']:.2f}")
        assert word == (
            {"better": "worse", "worse": "better"}.get(test["word"], test["word"]) if turned else test["word"]
        )


def test_the_axis_of_the_curves_can_be_chosen_by_keyboard(browser: Any) -> None:
    from selenium.webdriver.common.keys import Keys

    data = browser.open("rich")
    last = data["models"][-1]["curves"]
    expected = {
        "step": f"{last[0]['points'][-1]['step']:,}",
        "tokens": f"{last[0]['points'][-1]['tokens'] / 1e6:.2f}\u00a0M",
        "seconds": f"{sum(curve['points'][-1]['seconds'] for curve in last) / 3:.0f}",
        "flops": f"{last[0]['points'][-1]['flops'] / 1e12:.2f}\u00a0T",
    }
    browser.run("arguments[0].focus()", browser.one("#against-step"))
    for name, spent in expected.items():
        shown = [chart for chart in browser.all(CURVES) if chart.is_displayed()]
        assert [chart.get_attribute("data-against") for chart in shown] == [name]
        tips = [tip.get_attribute("textContent") for tip in shown[0].find_elements("css selector", "title")]
        assert any(tip.startswith(f"transformer · {spent} · ") for tip in tips)
        browser.driver.switch_to.active_element.send_keys(Keys.ARROW_RIGHT)
    assert browser.one("#against-step").is_selected()  # round again


def test_bands_cover_the_runs_of_their_model(browser: Any) -> None:
    browser.open("rich")
    drawn = browser.run(
        "return [...document.querySelectorAll('.chart[data-against=step] .lines > *')].map(one =>"
        " [one.tagName, one.getAttribute('class'), one.getAttribute('points'), getComputedStyle(one).fillOpacity])"
    )
    assert [tag for tag, *_ in drawn] == ["polygon"] * 4 + ["polyline"] * 4
    assert [colour for _, colour, *_ in drawn[:4]] == [colour for _, colour, *_ in drawn[4:]]
    for (_, _, band, _), (_, _, line, _) in zip(drawn[:4], drawn[4:], strict=True):
        edge = [tuple(map(float, place.split(","))) for place in band.split()]
        mean = [tuple(map(float, place.split(","))) for place in line.split()]
        upper, lower = edge[: len(mean)], edge[len(mean) :][::-1]
        for (x, y), (_, high), (_, low) in zip(mean, upper, lower, strict=True):
            assert high - 0.01 <= y <= low + 0.01, x


def test_a_verdict_that_was_stopped_is_red_and_keeps_its_figures(browser: Any) -> None:
    browser.open("gate_failed")
    assert browser.text("#verdict").startswith("Not comparable: transformer did not pass the gate “causal”")
    red, green, blue = (
        int(part) for part in re.findall(r"\d+", browser.one("#verdict").value_of_css_property("color"))[:3]
    )
    assert red > 2 * max(green, blue)
    assert "99.96" in browser.text(".summary tr[data-model=transformer]")
    first = browser.one("[data-grid=gates] tbody tr")
    assert "transformer" in first.text
    assert "2.31" in first.text


def test_what_is_folded_away_can_be_opened(browser: Any) -> None:
    data = browser.open("rich")
    heads = browser.one("[data-grid=heads-0]")
    assert not heads.is_displayed()
    browser.one("#heads-0").click()
    assert heads.is_displayed()
    assert len(heads.find_elements("css selector", "tbody tr")) == len(data["models"][-1]["alignment"]["heads"])


@pytest.mark.parametrize("width", [320, 400, 760, 1280])
@pytest.mark.parametrize("name", PAGES)
def test_the_page_never_scrolls_sideways(browser: Any, name: str, width: int) -> None:
    browser.open(name, width=width)
    browser.run(OPEN_DETAILS)
    for view in ("map", "lines"):
        for selector in browser.all(f"input[name=view][value={view}]"):
            browser.run("arguments[0].click()", selector)
        assert browser.run("return document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("lang", ["en", "ko"])
@pytest.mark.parametrize("width", [400, 1280])
def test_no_text_is_smaller_than_12_pixels(browser: Any, lang: str, width: int) -> None:
    browser.open(lang=lang, width=width)
    smallest = browser.run(
        OPEN_DETAILS + "const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT); let least = 99;"
        "while (texts.nextNode()) { const element = texts.currentNode.parentElement;"
        "  if (texts.currentNode.data.trim() && element.getClientRects().length && !element.closest('.unseen, title'))"
        "    least = Math.min(least, parseFloat(getComputedStyle(element).fontSize)); } return least;"
    )
    assert smallest >= 12


@pytest.mark.parametrize("name", ["dates", "rich", "many_models", "translation"])
@pytest.mark.parametrize("width", [400, 1280])
def test_names_beside_the_curves_do_not_overlap_and_stay_on_the_page(browser: Any, name: str, width: int) -> None:
    browser.open(name, width=width)
    for against in ("step", "tokens", "seconds"):
        browser.choose(f"#against-{against}")
        boxes = browser.run(
            "return [...document.querySelectorAll(`.chart[data-against=${arguments[0]}] .name text`)]"
            ".map(text => text.getBoundingClientRect().toJSON())",
            against,
        )
        assert boxes
        boxes.sort(key=lambda box: box["y"])
        for upper, lower in pairwise(boxes):
            assert lower["y"] >= upper["y"] + 12
        assert all(box["right"] <= width for box in boxes)
        shown = [chart.get_attribute("data-against") for chart in browser.all(CURVES) if chart.is_displayed()]
        assert shown == [against]


def test_the_language_can_be_switched(browser: Any) -> None:
    browser.open()
    assert browser.text("h1").startswith("Does a Transformer")
    browser.choose("input[name=lang][value=ko]")
    assert browser.text("h1").startswith("크기가 같다면 트랜스포머가")
    assert browser.run("return [document.documentElement.lang, document.title.slice(0, 3)]") == ["ko", "크기가"]
    assert browser.one("nav").get_attribute("aria-label") == "목차"
    assert "헤드" in browser.text("#panels")
    english = browser.run(
        "return [...document.querySelectorAll('[data-w]')].filter(one => /^[a-z ,]{12,}$/i.test(one.textContent))"
        ".map(one => one.textContent)"
    )
    assert english == []
    browser.choose("input[name=lang][value=en]")
    assert browser.text("h1").startswith("Does a Transformer")


def background(browser: Any) -> tuple[int, ...]:
    colour = browser.run("return getComputedStyle(document.body).backgroundColor")
    return tuple(int(part) for part in re.findall(r"\d+", colour))


def test_light_and_dark_follow_the_system_until_the_reader_chooses(browser: Any) -> None:
    browser.open(dark=True)
    assert max(background(browser)) < 60
    assert browser.one("input[name=theme][value=dark]").is_selected()
    browser.choose("input[name=theme][value=light]")
    assert min(background(browser)) > 240
    browser.open(dark=False)
    assert min(background(browser)) > 240
    browser.choose("input[name=theme][value=dark]")
    assert max(background(browser)) < 60


def test_without_javascript_everything_but_the_controls_is_there(browser: Any) -> None:
    browser.command("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.open()
        assert len([one for one in browser.all("#still .attention-map") if one.is_displayed()]) == 2
        assert not browser.one("#explorer").is_displayed()
        assert not browser.one(".switches").is_displayed()
        assert len([one for one in browser.all(".plot") if one.is_displayed()]) == 1
        browser.one("label[for=against-seconds]").click()
        assert not browser.one(".chart[data-against=step]").is_displayed()
        assert browser.one(".chart[data-against=seconds]").is_displayed()
        assert browser.one(".summary").is_displayed()
    finally:
        browser.command("Emulation.setScriptExecutionDisabled", value=False)


def test_it_prints_in_black_on_white_without_controls(browser: Any) -> None:
    browser.open(dark=True)
    scheme = {"name": "prefers-color-scheme", "value": "dark"}
    browser.command("Emulation.setEmulatedMedia", media="print", features=[scheme])
    assert min(background(browser)) == 255
    for selector in (".switches", ".picker", ".copy", ".contents"):
        assert not browser.one(selector).is_displayed()
    printed = base64.b64decode(browser.command("Page.printToPDF")["data"])
    assert printed.startswith(b"%PDF")


def test_the_command_can_be_copied(browser: Any) -> None:
    data = browser.open()
    browser.command("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"])
    browser.one(".copy").click()
    read = browser.driver.execute_async_script(
        "const done = arguments[0]; setTimeout(() => navigator.clipboard.readText().then(done, done), 50);"
    )
    assert read == data["command"]
    assert browser.text(".copy") == "copied"
