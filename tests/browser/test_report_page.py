"""Pages in a real browser: they open quietly, fit where they are read, and axe-core finds nothing to object to."""

import base64
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PAGES = ["many_models", "hostile", "rich"]
OPEN_DETAILS = "document.querySelectorAll('details').forEach(one => { one.open = true; });"


@pytest.mark.parametrize("name", PAGES)
def test_it_opens_from_disk_in_silence_and_never_scrolls_sideways(browser: Any, name: str) -> None:
    browser.open(name)
    browser.run(OPEN_DETAILS)
    for controls in ("#next", "input[name=view][value=lines], input[name=lang][value=ko], #against-seconds"):
        for element in browser.all(controls):
            browser.run("arguments[0].click()", element)
        for width in (320, 760, 1280):
            browser.resize(width)
            assert browser.run("return document.documentElement.scrollWidth") <= width
    assert browser.logs("browser") == []
    asked = browser.requests()
    assert len([url for url in asked if url.startswith("file:")]) == 1
    assert all(url.startswith(("file:", "data:")) for url in asked)


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


@pytest.mark.parametrize(
    ("fragment", "locale", "lang"), [("#ko", "en-US", "ko"), ("", "ko-KR", "ko"), ("#en", "ko-KR", "en")]
)
def test_it_opens_in_the_language_of_its_address_or_of_the_reader(
    browser: Any, fragment: str, locale: str, lang: str
) -> None:
    script = f"Object.defineProperty(navigator, 'language', {{value: '{locale}'}})"
    added = browser.command("Page.addScriptToEvaluateOnNewDocument", source=script)["identifier"]
    browser.open(fragment=fragment)
    browser.command("Page.removeScriptToEvaluateOnNewDocument", identifier=added)
    assert browser.run("return document.documentElement.lang") == lang
    assert browser.one(f"input[name=lang][value={lang}]").is_selected()


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
        assert browser.one("#still").is_displayed()
        assert not browser.one("#explorer").is_displayed()
        assert not browser.one(".switches").is_displayed()
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


@pytest.mark.parametrize(("lang", "dark", "width", "view"), [("en", False, 1280, "map"), ("ko", True, 400, "lines")])
def test_axe_has_nothing_to_object_to(
    browser: Any, violations: Callable[[], list[str]], lang: str, dark: bool, width: int, view: str
) -> None:
    browser.open("rich", lang=lang, width=width, dark=dark)
    browser.run(OPEN_DETAILS)
    browser.choose(f"input[name=view][value={view}]")
    browser.choose("#panels td[data-row='1'][data-column='24']" if view == "map" else "#panels .weave button")
    assert violations() == []


def test_the_committed_page_of_the_claims_is_accessible(browser: Any, violations: Callable[[], list[str]]) -> None:
    browser.show(Path(__file__).resolve().parents[2] / "docs" / "results" / "claims" / "claims.html")
    for lang, width in (("en", 1280), ("ko", 400)):
        browser.resize(width)
        browser.choose(f"input[name=lang][value={lang}]")
        assert browser.run("return document.documentElement.scrollWidth") <= width
    assert browser.all("svg.plot")
    assert violations() == []
