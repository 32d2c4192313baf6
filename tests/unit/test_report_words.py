"""The words: both languages say the same things, and none is left over."""

from __future__ import annotations

import re
import string
from pathlib import Path

import pytest

from selfattn.report.words import wordlist
from selfattn.report.words.messages import message
from selfattn.report.words.wordlist import WORDS
from selfattn.report.words.wordlist_explorer import EXPLORER

NAMES = {"BLEU", "chrF", "TER", "AER"}  # the same in every language
ROOM = Path(wordlist.__file__).parent


def fields(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name is not None}


@pytest.mark.parametrize("key", WORDS)
def test_both_languages_take_the_same_values(key: str) -> None:
    english, korean = WORDS[key]
    assert fields(english) == fields(korean)
    assert english
    assert korean
    assert korean != english or english in NAMES or not re.search("[A-Za-z]{3}", re.sub(r"{\w+}", "", english))


def test_every_entry_is_asked_for() -> None:
    names = ("*.py", "templates/*")
    sources = [path for pattern in names for path in ROOM.glob(pattern) if not path.name.startswith("wordlist")]
    code = "\n".join(path.read_text(encoding="utf-8") for path in sources)
    stems = set(re.findall(r"[\"'`]([\w.]+\.)(?=[\"'{$])", code))  # "head." ~ name, f"unit.{name}", "x." + what
    for key in WORDS:
        assert f'"{key}"' in code or any(key.startswith(stem) for stem in stems), key


def test_values_may_be_messages() -> None:
    items = message("items.dates", count="5,000")
    text = message("verdict.alone", scores="x 50 %", items=items, metric=message("metric.exact_match"))
    assert text.say("en").startswith("x 50 %, exact match on 5,000 unseen dates")
    assert text.say("ko").startswith("처음 보는 날짜 5,000개의 완전 일치율: x 50 %")


def test_the_page_asks_only_for_words_that_are_there() -> None:
    for name in ("page.js", "explorer.js"):
        code = (ROOM / "templates" / name).read_text(encoding="utf-8")
        for key in re.findall(r"say\(\"(x\.[\w.]+[\w])\"", code):
            assert key in EXPLORER
    for path in (ROOM / "templates").glob("*.j2"):
        text = path.read_text(encoding="utf-8")
        for key in re.findall(r"w\(\"([\w.]+)\"[,)]", text) + re.findall(r"w\.attr\(\"[\w-]+\", \"([\w.]+)\"\)", text):
            assert key in WORDS
