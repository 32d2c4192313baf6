"""The page of the claims suite as it is committed: accessible, in both languages, and no wider than a narrow screen."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "results" / "claims" / "claims.html"


@pytest.mark.parametrize(("lang", "dark", "width"), [("en", False, 1280), ("ko", True, 400)])
def test_the_page_of_the_claims(
    browser: Any, violations: Callable[[], list[str]], lang: str, dark: bool, width: int
) -> None:
    browser.show(PAGE, width=width, dark=dark)
    browser.choose(f"input[name=lang][value={lang}]")
    assert browser.run("return document.documentElement.scrollWidth") <= width
    assert browser.all("svg.plot")
    assert violations() == []
    assert [one for one in browser.requests() if not one.startswith(("file:", "data:"))] == []
