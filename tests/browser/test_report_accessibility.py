"""axe-core finds nothing to object to: roles, names, contrast, focus, in both languages and both colour schemes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


@pytest.mark.parametrize(("lang", "dark", "width"), [("en", False, 1280), ("ko", True, 400)])
def test_the_page_has_no_violation(
    browser: Any, violations: Callable[[], list[str]], lang: str, dark: bool, width: int
) -> None:
    browser.open("rich", lang=lang, width=width, dark=dark)
    browser.run("document.querySelectorAll('details').forEach(one => { one.open = true; });")
    assert violations() == []


@pytest.mark.parametrize("name", ["gate_failed", "many_models"])
def test_other_records_have_none_either(browser: Any, violations: Callable[[], list[str]], name: str) -> None:
    browser.open(name)
    assert violations() == []


@pytest.mark.parametrize("dark", [False, True])
def test_nor_has_the_explorer_in_use(browser: Any, violations: Callable[[], list[str]], dark: bool) -> None:
    browser.open(dark=dark)
    browser.one("#panels td[data-row='1'][data-column='24']").click()
    assert violations() == []
    browser.choose("input[name=view][value=lines]")
    browser.all("#panels .weave button")[0].click()
    assert violations() == []
