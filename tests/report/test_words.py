"""The words: all catalogues say the same things with the same values, and nothing is missing or left over."""

import ast
import re
from importlib import resources
from pathlib import Path

import pytest
from babel.messages import Message as Entry
from babel.messages.pofile import read_po

from selfattn.errors import UserError
from selfattn.results.record import Subject
from selfattn.words.messages import LANGS, SOURCE, Message, catalogue, message, phrase, read_words

NAMES = {"BLEU", "chrF", "TER", "AER", "LSTM"}  # the same in every language
PACKAGE = Path(str(resources.files("selfattn")))
REPORT = PACKAGE / "report"
PROGRESS = [PACKAGE / "experiments" / "progress.py", *(PACKAGE / "comparison").glob("*.py")]
VIEW = PACKAGE / "runs" / "attention_view.py"
CATALOGUES = sorted(PACKAGE.rglob("*.po"))
CALL = r"(?:\b(?:message|Message|w)\(|w\.key\(\"[\w-]+\", )\"([a-z_]+(?:\.[\w.]+)?)\"[,)]"
PLACE = r"{(\w+)}"
NAMED_BY_RECORDS = ("metric", "bucket", "gate", "x")  # and the explorer's script


def sources() -> list[Path]:
    """The code and the templates that say something of the report's catalogue."""
    return [*REPORT.rglob("*.py"), *(REPORT / "templates").iterdir(), PACKAGE / "runs" / "evaluate.py", *PROGRESS, VIEW]


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


def test_there_are_english_and_korean() -> None:
    assert LANGS == ("en", "ko")
    with pytest.raises(UserError, match=r"language 'tlh': there is no catalogue of it; choose one of en, ko"):
        catalogue("tlh")


def entries(path: Path) -> list[Entry]:
    with path.open("rb") as file:
        return [entry for entry in read_po(file, abort_invalid=True) if entry.id]


@pytest.mark.parametrize("path", CATALOGUES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_catalogues_are_well_formed_and_translate_the_same_texts(path: Path) -> None:
    lang, raw, messages = path.parent.name, path.read_text(encoding="utf-8"), entries(path)
    # babel would swallow what stands twice
    assert raw.count("\nmsgctxt ") == raw.count("\nmsgid ") - 1 == len(messages)
    source = entries(path.parents[1] / SOURCE / path.name)
    assert [(entry.context, entry.id) for entry in messages] == [(entry.context, entry.id) for entry in source]
    for entry in messages:
        assert entry.context, f"{entry.id!r} has no key"
        assert not entry.fuzzy
        english, text = str(entry.id), str(entry.string)
        assert "{" not in re.sub(r"{\w+}", "", english + text)
        assert (english + text).strip() == english + text
        if lang == SOURCE:
            assert text == "", f"{entry.context}: the source language stands in msgid alone"
            continue
        assert text, f"{entry.context} is not translated"
        assert set(re.findall(PLACE, text)) == set(re.findall(PLACE, english)), entry.context
        bare = re.sub(PLACE, "", english)
        assert text != english or english in NAMES or not re.search("[A-Za-z]{3}", bare), entry.context


def test_every_message_is_asked_for_and_there() -> None:
    literals, patterns = asked_for()
    for key in catalogue(SOURCE):
        named = key.partition(".")[0] in NAMED_BY_RECORDS or any(re.fullmatch(one, key) for one in patterns)
        assert key in literals or named, f"{key}: nobody asks for it"
    asked = {key for path in sources() for key in re.findall(CALL, path.read_text(encoding="utf-8"))}
    assert len(asked) > 100
    assert asked - set(LANGS) <= set(catalogue(SOURCE))


def test_every_sentence_of_the_demo_page_is_asked_for_and_there() -> None:
    demo = PACKAGE / "demo"
    words = read_words(demo / "words", "page")[SOURCE]
    places = [demo / "templates" / "page.js", demo / "templates" / "page.html.j2", demo / "page.py"]
    code = "\n".join(place.read_text(encoding="utf-8") for place in places)
    put_together = ("kind.", "inside.column.", "axis.", "way.")
    assert [key for key in words if f'"{key}"' not in code and not key.startswith(put_together)] == []
    asked = set(re.findall(r'(?:say|said|named)\("([\w.]+)"', code)) | set(re.findall(r'data-w="([\w.]+)"', code))
    assert asked <= set(words)


@pytest.mark.parametrize("task", ["dates", "translation"])
def test_tasks_bring_words_of_their_own(task: str) -> None:
    found = read_words(PACKAGE / "tasks" / "words", task)
    assert set(found) == set(LANGS)
    assert {key for texts in found.values() for key in texts} <= set(catalogue(SOURCE)), "words that nobody asks for"


def test_words_of_a_record_go_before_the_catalogue_and_english_stands_in() -> None:
    subject = Subject(words={"en": {"items": "{count} riddles"}})
    own = {lang: texts["items"] for lang, texts in subject.words.items()}
    assert Message("items", {"count": 3}, own).say("en") == "3 riddles"
    assert Message("items", {"count": 3}, own).say("ko") == message("items", count=3).say("ko")
    assert phrase(en="Calibration").say("ko") == "Calibration"
    with pytest.raises(KeyError, match="no such key"):
        message("no such key").say("en")


def test_korean_writes_no_space_before_a_percent_sign() -> None:
    text = phrase(en="{share} and 5 %", ko="{share} 그리고 5 %")
    shown = text.values | {"share": "90\u00a0%"}
    spoken = Message("", shown, text.texts)
    assert spoken.say("ko") == "90% 그리고 5%"
    assert spoken.say("en") == "90\u00a0% and 5 %"
