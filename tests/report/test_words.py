"""The words: all catalogues say the same things with the same values, and nothing is missing or left over."""

from __future__ import annotations

import ast
import re
import tomllib
from importlib import resources
from pathlib import Path

import pytest
from babel.messages.pofile import read_po

from selfattn.errors import UserError
from selfattn.results.record import Subject
from selfattn.words.catalogue import LANGS, SOURCE, catalogue, read_words
from selfattn.words.messages import Message, message, phrase

NAMES = {"BLEU", "chrF", "TER", "AER", "LSTM"}  # the same in every language
PACKAGE = Path(str(resources.files("selfattn")))
REPORT = PACKAGE / "report"
CATALOGUES = sorted(PACKAGE.rglob("*.po"))
CALL = r"(?:\b(?:message|Message|w)\(|w\.key\(\"[\w-]+\", )\"([a-z_]+(?:\.[\w.]+)?)\"[,)]"
OTHERS = [lang for lang in LANGS if lang != SOURCE]
NAMED_BY_RECORDS = ("metric", "bucket", "gate", "x")  # and the explorer's script


def sources() -> list[Path]:
    """The code and the templates that say something of the report's catalogue."""
    return [*REPORT.rglob("*.py"), *(REPORT / "templates").iterdir(), PACKAGE / "runs" / "evaluate.py"]


def asked_for() -> tuple[set[str], list[str]]:
    """Every literal that may be a key, and a pattern for every key that is put together."""
    literals, patterns = set[str](), []
    for path in sources():
        text = path.read_text(encoding="utf-8")
        literals |= set(re.findall(r'"([\w. ]+)"', text))
        for node in ast.walk(ast.parse(text)) if path.suffix == ".py" else ():
            if isinstance(node, ast.JoinedStr):
                parts = (re.escape(str(v.value)) if isinstance(v, ast.Constant) else ".+" for v in node.values)
                patterns.append("".join(parts))
    return literals, [pattern for pattern in patterns if re.match(r"[a-z_]+\\.", pattern)]


def places(text: str) -> set[str]:
    return set(re.findall(r"{(\w+)}", text))


def keys(path: Path) -> list[str]:
    with path.open("rb") as file:
        return [str(one.context) for one in read_po(file) if one.id]


def test_there_are_english_and_korean() -> None:
    assert LANGS == ("en", "ko")
    with pytest.raises(UserError, match=r"language 'tlh': there is no catalogue of it; choose one of en, ko"):
        catalogue("tlh")


@pytest.mark.parametrize("path", CATALOGUES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_catalogues_are_well_formed(path: Path) -> None:
    lang = path.parent.name
    with path.open("rb") as file:
        found = list(read_po(file, abort_invalid=True))
    raw = path.read_text(encoding="utf-8")
    assert (
        raw.count("\nmsgctxt ") == raw.count("\nmsgid ") - 1 == len(found) - 1
    )  # babel would swallow what stands twice
    for one in found:
        if not one.id:
            continue
        assert one.context, f"{one.id!r} has no key"
        assert not one.fuzzy
        english, text = str(one.id), str(one.string)
        if lang == SOURCE:
            assert text == "", f"{one.context}: the source language stands in msgid alone"
            continue
        assert text, f"{one.context} is not translated"
        assert places(text) == places(english), one.context
        bare = re.sub(r"{\w+}", "", english)
        assert text != english or english in NAMES or not re.search("[A-Za-z]{3}", bare), one.context
    for text in (f"{one.id}{one.string}" for one in found if one.id):
        assert "{" not in re.sub(r"{\w+}", "", text)
        assert text == text.strip()


@pytest.mark.parametrize("path", [p for p in CATALOGUES if p.parent.name == SOURCE], ids=lambda p: p.name)
@pytest.mark.parametrize("lang", OTHERS)
def test_every_language_translates_the_same_texts(path: Path, lang: str) -> None:
    other = path.parents[1] / lang / path.name
    texts = []
    for one in (path, other):
        with one.open("rb") as file:
            texts.append([(str(found.context), str(found.id)) for found in read_po(file) if found.id])
    assert texts[0] == texts[1]


def test_every_message_is_asked_for_and_there() -> None:
    literals, patterns = asked_for()
    for key in catalogue(SOURCE):
        named = key.partition(".")[0] in NAMED_BY_RECORDS or any(re.fullmatch(one, key) for one in patterns)
        assert key in literals or named, f"{key}: nobody asks for it"
    asked = {key for path in sources() for key in re.findall(CALL, path.read_text(encoding="utf-8"))}
    assert len(asked) > 100
    assert asked - set(LANGS) <= set(catalogue(SOURCE))


def test_korean_uses_one_word_for_one_thing() -> None:
    text = "\n".join(path.read_text(encoding="utf-8") for path in CATALOGUES)
    for other in ("매개변수", "시험", "더 높음", "더 낮음"):  # 파라미터, 테스트, 더 나음, 더 못함
        assert other not in text


@pytest.mark.parametrize("task", ["dates", "translation"])
def test_tasks_bring_words_of_their_own(task: str) -> None:
    found = read_words(PACKAGE / "tasks" / "words", task)
    assert set(found) == set(LANGS)
    assert {key for texts in found.values() for key in texts} <= set(catalogue(SOURCE)), "words that nobody asks for"


def test_values_may_be_messages() -> None:
    own = {lang: texts["items"] for lang, texts in read_words(PACKAGE / "tasks" / "words", "dates").items()}
    items = Message("items", {"count": "5,000"}, own)
    text = message("condition.rates", training=items)
    assert text.say("en") == "After 5,000 unseen dates, each at its best learning rate"
    assert text.say("ko").startswith("처음 보는 날짜 5,000개를 ")


def test_words_of_a_record_go_before_the_catalogue_and_english_stands_in() -> None:
    subject = Subject(words={"en": {"items": "{count} riddles"}})
    own = {lang: texts["items"] for lang, texts in subject.words.items()}
    assert Message("items", {"count": 3}, own).say("en") == "3 riddles"
    assert Message("items", {"count": 3}, own).say("ko") == message("items", count=3).say("ko")
    assert phrase(en="Calibration").say("ko") == "Calibration"
    with pytest.raises(KeyError, match="no such key"):
        message("no such key").say("en")


def test_the_catalogues_and_templates_are_packed_with_the_package() -> None:
    project = tomllib.loads((Path(__file__).resolve().parents[2] / "pyproject.toml").read_text(encoding="utf-8"))
    patterns = project["tool"]["setuptools"]["package-data"]
    packed = {
        path
        for package, globs in patterns.items()
        for pattern in globs
        for path in (PACKAGE.parent / package.replace(".", "/")).glob(pattern)
    }
    assert set(CATALOGUES) <= packed
    assert set((REPORT / "templates").iterdir()) <= packed
