"""The words: all catalogues say the same things with the same values, and nothing is missing or left over."""

import ast
import json
import re
from dataclasses import fields
from importlib import resources
from pathlib import Path
from typing import get_args, get_type_hints

import pytest
import report_records
from babel.messages.pofile import read_po

from selfattn.errors import UserError
from selfattn.models.families import PRESETS
from selfattn.report.blocks import Chart, MarkedAnswer, Strip, Styled
from selfattn.report.html import Translator, html_of
from selfattn.report.pictures import Signs
from selfattn.report.ranking import HowTuned, OnItems
from selfattn.report.sections import models, training
from selfattn.report.text import MarkdownPage, markdown_of
from selfattn.report.write import _blocks, chart_svg, document
from selfattn.results.claims import Finding, Need
from selfattn.results.plan import Budgets, DepartureKind
from selfattn.results.quality import CrossingKind, MarginWord, Unit, Word
from selfattn.results.record import Cost, Matching, Timing
from selfattn.results.subject import Subject
from selfattn.words.messages import LANGS, SOURCE, Message, NameKind, catalogue, message, name_key, phrase, read_words

NAMES = {"BLEU", "chrF", "TER", "AER", "LSTM"}  # the same in every language
PACKAGE = Path(str(resources.files("selfattn")))
REPORT = PACKAGE / "report"
PROGRESS = [PACKAGE / "experiments" / "progress.py", *(PACKAGE / "comparison").glob("*.py")]
VIEW = PACKAGE / "runs" / "attention_view.py"
CATALOGUES = sorted(PACKAGE.rglob("*.po"))
CALL = r"(?:\b(?:message|Message|w)\(|w\.key\(\"[\w-]+\", )\"([a-z_]+(?:\.[\w.]+)?)\"[,)]"
PLACE = r"{(\w+)}"
PLURAL = r"{(\w+)\?([^{}|]+)\|([^{}|]+)}"
NO_KEYS = {"report.md", "report.html", "page.js", "report.css", "plan.seal"}  # files, and a field of records


def sources():
    """The code and the templates that say something of the report's catalogue."""
    places = [*REPORT.rglob("*.py"), *(REPORT / "templates").iterdir(), VIEW, *PROGRESS]
    return [*places, PACKAGE / "runs" / "evaluate.py"]


def literals(paths):
    """All texts that stand in quotes in the code and the templates."""
    texts = set[str]()
    for path in paths:
        code = path.read_text(encoding="utf-8")
        if path.suffix == ".py":
            constants = (node.value for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Constant))
            texts |= {value for value in constants if isinstance(value, str)}
        else:
            texts |= set(re.findall(r'"([\w. -]+)"', code))
    return texts


def test_there_are_english_and_korean():
    assert LANGS == ("en", "ko")
    with pytest.raises(UserError, match=r"language 'tlh': there is no catalogue of it; choose one of en, ko"):
        catalogue("tlh")


def entries(path):
    with path.open("rb") as file:
        return [entry for entry in read_po(file, abort_invalid=True) if entry.id]


@pytest.mark.parametrize("path", CATALOGUES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_catalogues_are_well_formed_and_translate_the_same_texts(path):
    lang, raw, messages = path.parent.name, path.read_text(encoding="utf-8"), entries(path)
    # babel would swallow what stands twice
    assert raw.count("\nmsgctxt ") == raw.count("\nmsgid ") - 1 == len(messages)
    source = entries(path.parents[1] / SOURCE / path.name)
    assert [(entry.context, entry.id) for entry in messages] == [(entry.context, entry.id) for entry in source]
    for entry in messages:
        assert entry.context, f"{entry.id!r} has no key"
        assert not entry.fuzzy
        english, text = str(entry.id), str(entry.string)
        assert "{" not in re.sub(PLACE, "", re.sub(PLURAL, "", english)) + re.sub(PLACE, "", text)
        assert {name for name, _, _ in re.findall(PLURAL, english)} <= set(re.findall(PLACE, english)), entry.context
        assert (english + text).strip() == english + text
        if lang == SOURCE:
            assert text == "", f"{entry.context}: the source language stands in msgid alone"
            continue
        assert text, f"{entry.context} is not translated"
        assert set(re.findall(PLACE, text)) == set(re.findall(PLACE, english)), entry.context
        bare = re.sub(PLACE, "", english)
        assert text != english or english in NAMES or not re.search("[A-Za-z]{3}", bare), entry.context


def test_every_key_of_the_report_stands_in_the_code_as_it_is_and_every_key_in_the_code_has_a_text():
    keys = set(catalogue(SOURCE))
    of_names = {key for key in keys if key.startswith(tuple(name_key(kind, "") for kind in get_args(NameKind)))}
    assert sorted(keys - of_names - literals(sources()) - expanded(COMPOSED)) == [], "nobody asks for these"
    requested = {key for path in sources() for key in re.findall(CALL, path.read_text(encoding="utf-8"))}
    families = {key.partition(".")[0] for key in keys if "." in key}
    dotted = {text for text in literals(sources()) if re.fullmatch(r"[a-z]+(?:\.[a-z_]+)+", text)}
    requested |= {text for text in dotted if text.partition(".")[0] in families}
    assert len(requested) > 300
    assert sorted(requested - set(LANGS) - set(get_args(NameKind)) - keys - NO_KEYS) == []


def test_every_name_with_a_text_is_given_by_the_code():
    """The catalogue has no text for a metric, a gate or a part of the test that there is no longer."""
    names = set[str]()
    for key in catalogue(SOURCE):
        kinds = [kind for kind in get_args(NameKind) if key.startswith(name_key(kind, ""))]
        if kinds:
            names.add(key.removeprefix(name_key(max(kinds, key=len), "")).removesuffix(".what"))
    patterns = (r"(characters|words) of the (source|target)", r"by how often .* shows the word.*", r"\w+.unit")
    composed = {name for name in names if any(re.fullmatch(pattern, name) for pattern in patterns)}
    assert len(names) > 60
    assert sorted(names - composed - literals(PACKAGE.rglob("*.py")) - set(PRESETS)) == []


def test_every_key_of_the_pages_of_claims_and_demo_stands_in_the_code_as_it_is():
    """And every key in the code of the demo page has a text."""
    claims, demo = PACKAGE / "claims", PACKAGE / "demo"
    places = [demo / "templates" / "page.js", demo / "templates" / "page.html.j2", demo / "page.py"]
    of_claims = [claims / "page.py", claims / "run.py", PACKAGE / "cli" / "claims.py"]
    for folder, code, composed_keys in ((claims, of_claims, expanded(COMPOSED_OF_CLAIMS)), (demo, places, set())):
        words = set(read_words(folder / "words", "page")[SOURCE])
        assert composed_keys <= words
        assert sorted(words - literals(code) - composed_keys) == []
    requested = re.findall(
        r'(?:(?:say|named)\(|data-w=)"([\w.]+)"', "\n".join(path.read_text("utf-8") for path in places)
    )
    assert set(requested) <= words


# Keys that a word of a record ends, with the words that can stand there.
BUDGETS = get_type_hints(Budgets)["unit"]
COMPOSED = {
    "agreement.{}": models._AGREEMENT,
    "against.{}": tuple(training._SPENT),
    "alignment.{}": (*models._ALIGNMENT, *models._AGAINST_SPANS.values()),
    "attention.{}": get_args(Word),
    "badge.{}": ("given", "same"),  # of `HowTuned`, without tuning
    "budget.{}": get_args(get_type_hints(Matching)["budget"]),
    "budgets.unit.{}": get_args(BUDGETS),
    "budgets.{}": (*get_args(CrossingKind), *get_args(BUDGETS)),
    "condition.{}": get_args(HowTuned),
    "cost.{}": (*models.TIMES, *models.SIZES),
    "departure.{}": get_args(DepartureKind),
    "difference.{}": get_args(Unit),
    "margin.{}": get_args(MarginWord),
    "pairs.difference.{}": get_args(Unit),
    "spent.{}": tuple(training._SPENT),
    "standing.{}": (*get_args(Word), *get_args(OnItems)),
    "target.{}": get_args(Word),
    "unit.{}": get_args(Unit),
    "verdict.{}": get_args(Word),
}
COMPOSED_OF_CLAIMS = {"verdict.{}": get_args(Finding), "need.{}": get_args(Need)}


def expanded(forms):
    return {form.format(word) for form, words in forms.items() for word in words}


def composed(path):
    """The texts of a file that are a name with a point before one value, which stands as {}."""
    forms = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.JoinedStr):
            form = "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
            forms |= {form} if re.fullmatch(r"[a-z_.]+\.{}", form) else set()
    return forms


def test_every_key_that_is_composed_is_listed():
    """A search does not find a composed key: so each is one name before a word of a record, and stands above."""
    forms = set[str]().union(*(composed(path) for path in sources() if path.suffix == ".py"))
    families = {key.partition(".")[0] for key in catalogue(SOURCE) if "." in key}
    assert {form for form in forms if form.partition(".")[0] in families} == set(COMPOSED)
    assert sorted(expanded(COMPOSED) - set(catalogue(SOURCE))) == []
    assert set(models.TIMES) == {field.name for field in fields(Timing)}  # every cost of a record has a heading
    assert set(models.SIZES) == {field.name for field in fields(Cost)} - {"decoding"}
    of_claims = {f"{name}.{{}}" for name in ("arm", "bar", "condition", "contrast", "finding")}
    assert composed(PACKAGE / "claims" / "page.py") == of_claims | set(COMPOSED_OF_CLAIMS)
    for path in (*(REPORT / "templates").iterdir(), PACKAGE / "demo" / "templates" / "page.js"):
        script = path.read_text(encoding="utf-8")
        assert re.findall(r'say\(`|say\("[^"]*"\s*\+|words\[[^]]*\]\["', script) == [], path


@pytest.mark.parametrize("task", ["dates", "translation", "lm"])
def test_tasks_bring_words_of_their_own(task):
    found = read_words(PACKAGE / "tasks" / "words", task)
    assert set(found) == set(LANGS)
    assert {key for texts in found.values() for key in texts} <= set(catalogue(SOURCE)), "words that nobody asks for"


def test_words_of_a_record_go_before_the_catalogue_and_english_stands_in():
    subject = Subject(words={"en": {"items": "{count} riddles"}})
    own = {lang: texts["items"] for lang, texts in subject.words.items()}
    assert Message("items", {"count": 3}, own).say("en") == "3 riddles"
    assert Message("items", {"count": 3}, own).say("ko") == message("items", count=3).say("ko")
    assert phrase(en="Calibration").say("ko") == "Calibration"
    with pytest.raises(KeyError, match="no such key"):
        message("no such key").say("en")
    for count, noun in (("0", "outputs"), ("1", "output"), ("1,001", "outputs")):
        assert message("evaluate.cut", count=count).say("en").startswith(f"{count} {noun} cut")
    assert message("more", count=1).say("ko") == message("more", count=2).say("ko").replace("2", "1")


def test_korean_writes_no_space_before_a_percent_sign():
    spoken = Message("", {"share": "90\u00a0%"}, {"en": "{share} and 5 %", "ko": "{share} 그리고 5 %"})
    assert (spoken.say("ko"), spoken.say("en")) == ("90% 그리고 5%", "90\u00a0% and 5 %")
    french = "20\u00a0% de réduction"  # data keep theirs
    assert MarkdownPage("ko").cell(Styled(french, quoted=True)) == french
    assert MarkdownPage("ko").cell(MarkedAnswer(french, french)) == f"✓ {french}"
    assert Message("", {"text": "50 % 할인"}, {"en": "{text}"}).say("ko") == "50 % 할인"


@pytest.mark.parametrize("name", ["dates", "rich", "translation"])
def test_every_percentage_of_a_korean_report_has_no_space_and_no_break_before_a_particle(name):
    record = report_records.read(name)
    screens = {}
    for lang in LANGS:
        charts = [block for block, _ in _blocks(record) if isinstance(block, Chart)]
        pictures = [chart_svg(chart, Signs([]), lang) for chart in charts]
        shown, data = html_of(document(record), lang).split('<script type="application/json" id="data">')
        places = [text[LANGS.index(lang)] for text in json.loads(data.split("</script>")[0])["texts"]]
        texts = markdown_of(document(record), lang), report_records.printed(record, lang)
        screens[lang] = "\n".join([*texts, *pictures, shown, *places])
    spaced = r"\d[ \u00a0]%"
    assert re.search(spaced, screens["en"])
    assert re.findall(spaced, screens["ko"]) == []
    assert any("%\u2060" in text for text in places)
    assert [text for text in places if re.search(r"[%)\]”’][가-힣]", text)] == []


def test_a_long_text_in_a_table_has_a_line_of_its_own_on_a_phone():
    long = [phrase(en="short", ko="이 글은 전화기의 반 줄에 들어가지 않습니다"), "−0.012\u00a0[−0.018,\u00a0−0.006]"]
    long += [MarkedAnswer("", "Ein Mann mit einem orangefarbenen Hut")]
    assert [Translator("en").is_long(text) for text in (*long, "rnn-attention, seed 400", Strip(()))] == [
        True, True, True, False, False,
    ]  # fmt: skip
