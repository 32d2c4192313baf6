"""axe-core finds nothing to object to: roles, names, contrast, focus, in both languages and both colour schemes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


@pytest.mark.parametrize(("lang", "dark", "width", "view"), [("en", False, 1280, "map"), ("ko", True, 400, "lines")])
def test_the_page_with_its_explorer_in_use_has_no_violation(
    browser: Any, violations: Callable[[], list[str]], lang: str, dark: bool, width: int, view: str
) -> None:
    browser.open("rates", lang=lang, width=width, dark=dark)
    browser.run("document.querySelectorAll('details').forEach(one => { one.open = true; });")
    browser.choose(f"input[name=view][value={view}]")
    used = "#panels td[data-row='1'][data-column='24']" if view == "map" else "#panels .weave button"
    browser.run("arguments[0].click()", browser.one(used))
    assert violations() == []
