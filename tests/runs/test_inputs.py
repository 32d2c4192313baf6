"""What users hand to a run: decoding by keywords, and wrong calls refused in a line that names the call."""

import dataclasses
import typing
from typing import Any

import pytest

from selfattn.data.pairs import Pair
from selfattn.decoding.options import DecodingOptions, DecodingSettings
from selfattn.errors import SettingError
from selfattn.runs.predictor import checked_texts
from selfattn.runs.run import Run

TEXTS = ["May 1, 2001", "3 March 1985"]
NO_LISTS = (None, {"text": "a"}, "May 1, 2001", 7, {"a", "b"}, b"ab", print)


def test_keywords_are_the_options_of_decoding(runs: dict[str, Run]) -> None:
    run = runs["transformer"]
    assert run.predict(TEXTS, beam=3) == run.predict(TEXTS, DecodingOptions(beam=3))
    assert run.decode(TEXTS, beam=3, n_best=2) == run.decode(TEXTS, DecodingOptions(beam=3, n_best=2))
    assert run.predict(iter(TEXTS)) == run.predict(TEXTS)


def test_the_keywords_have_the_names_and_types_of_the_options() -> None:
    fields = {field.name for field in dataclasses.fields(DecodingOptions)}
    hints = typing.get_type_hints(DecodingOptions)
    assert typing.get_type_hints(DecodingSettings) == {name: hints[name] for name in fields}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"beams": 5}, "`beams`: there is no such setting here; did you mean `beam`?"),
        ({"beam": 0}, "`beam`: expected"),
        ({"options": 5}, "predict: expected DecodingOptions, got 5"),
        ({"options": DecodingOptions(), "beam": 2}, "predict: `beam` beside DecodingOptions"),
        ({"glossary": {"May": "05"}, "beam": 2}, "`glossary`: expected a Glossary({term: words}), got {"),
    ],
)
def test_wrong_options_are_named(runs: dict[str, Run], settings: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError) as error:
        runs["transformer"].predict(TEXTS, **settings)
    assert str(error.value).startswith(message)


PAIR = Pair("a", "b")
NO_TEXTS = (("a", "b"), None, 3, ["a"], PAIR, b"a")
NO_PAIRS: tuple[Any, ...] = (("a", "b"), None, "a", {"source": "a", "target": "b"}, Pair("a", 3))  # type: ignore[arg-type]
# A call, what it is given, and what the line says.
WRONG: list[tuple[str, tuple[Any, ...], dict[str, Any], str]] = [
    *(
        (call, (texts,), {}, "expected a list of (texts|pairs), got ")
        for call in ("predict", "decode", "score", "align", "unknown")
        for texts in NO_LISTS
    ),
    *(
        (call, (["1 May 2001", item],), {}, "text 2: expected a text, got ")
        for call in ("predict", "decode", "unknown")
        for item in NO_TEXTS
    ),
    *((call, ([item],), {}, "pair 1: expected ") for call in ("score", "align") for item in NO_PAIRS),
    *(("attention", (text,), {}, "expected a single text, got ") for text in (None, ["May 1, 2001"], 3)),
    *(("aligned_parts", (pair,), {}, "pair 1: expected ") for pair in (None, ["May 1, 2001"], 3)),
    *(
        ("align", ([PAIR],), {name: "last"}, f"`{name}`: expected a whole number, got 'last'")
        for name in ("layer", "head")
    ),
    *(("align", ([PAIR],), {"head": head}, "`head`: expected a whole number") for head in (True, [], "", 0.0)),
    ("decode", (TEXTS,), {"targets": "2008-11-13"}, "`targets`: expected a list of texts, got '2008-11-13'"),
    ("decode", (TEXTS,), {"first": 1.5}, r"`first`: expected a whole number, got 1\.5"),
]


@pytest.mark.parametrize(("call", "given", "settings", "message"), WRONG)
def test_what_a_call_cannot_take_is_named(
    runs: dict[str, Run], call: str, given: tuple[Any, ...], settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(SettingError, match=f"^{call}: {message}"):
        getattr(runs["transformer"], call)(*given, **settings)


def test_an_open_file_is_a_list_of_texts(tmp_path: Any) -> None:
    path = tmp_path / "texts.txt"
    path.write_text("a\nb\n", encoding="utf-8")
    with path.open(encoding="utf-8") as file:
        assert checked_texts("predict", file) == ["a\n", "b\n"]
