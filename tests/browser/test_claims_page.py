"""The page of the claims suite as it is committed: accessible, in both languages, and no wider than a narrow screen."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parents[2] / "docs" / "results" / "claims" / "claims.html"


def test_the_page_of_the_claims(browser: Any, violations: Callable[[], list[str]]) -> None:
    browser.show(PAGE)
    for lang, width in (("en", 1280), ("ko", 400)):
        browser.resize(width)
        browser.choose(f"input[name=lang][value={lang}]")
        assert browser.run("return document.documentElement.scrollWidth") <= width
    assert browser.all("svg.plot")
    assert violations() == []
    assert [one for one in browser.requests() if not one.startswith(("file:", "data:"))] == []
