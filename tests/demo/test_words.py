"""Every sentence of the page is used, and every one that is used is there, with the values it is given."""

from __future__ import annotations

import re
from importlib import resources

from selfattn.words.messages import read_catalogue

HOME = resources.files("selfattn.demo")
FAMILIES = ("kind.", "inside.column.")  # asked for by a name that is put together


def test_every_sentence_is_asked_for_and_there() -> None:
    words = read_catalogue(HOME / "words" / "en" / "page.po")
    places = [HOME / "templates" / "page.js", HOME / "templates" / "page.html.j2", HOME / "page.py"]
    code = "\n".join(place.read_text(encoding="utf-8") for place in places)
    assert [key for key in words if f'"{key}"' not in code and not key.startswith(FAMILIES)] == []
    asked = set(re.findall(r'(?:say|said|named)\("([\w.]+)"', code)) | set(re.findall(r'data-w="([\w.]+)"', code))
    assert asked <= set(words)
