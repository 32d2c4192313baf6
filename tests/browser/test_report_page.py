"""The page in a real browser: it opens quietly, shows the figures of its record, and fits where it is read."""

from __future__ import annotations

import base64
import re
from typing import Any

import pytest

PAGES = ["many_models", "hostile", "rates"]
OPEN_DETAILS = "document.querySelectorAll('details').forEach(one => { one.open = true; });"
CURVES = "section[aria-labelledby=learning] .chart"  # against steps, tokens, seconds, FLOPs: one of them is shown


@pytest.mark.parametrize("name", PAGES)
def test_it_opens_from_disk_in_silence_and_never_scrolls_sideways(browser: Any, name: str) -> None:
    browser.open(name)
    browser.run(OPEN_DETAILS)
    for selector in ("#next", "input[name=view][value=lines]", "input[name=lang][value=ko]", "#against-seconds"):
        for element in browser.all(selector):
            browser.run("arguments[0].click()", element)
        for width in (320, 760, 1280):
            browser.resize(width)
            assert browser.run("return document.documentElement.scrollWidth") <= width
    assert browser.logs("browser") == []
    asked = browser.requests()
    assert len([url for url in asked if url.startswith("file:")]) == 1
    assert all(url.startswith(("file:", "data:")) for url in asked)


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
