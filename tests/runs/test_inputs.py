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


def test_targets_are_a_list_and_the_first_is_a_number(runs: dict[str, Run]) -> None:
    run: Any = runs["transformer"]
    with pytest.raises(SettingError, match="decode: `targets`: expected a list of texts, got '2008-11-13'"):
        run.decode(TEXTS, targets="2008-11-13")
    with pytest.raises(SettingError, match=r"decode: `first`: expected a whole number, got 1\.5"):
        run.decode(TEXTS, first=1.5)


@pytest.mark.parametrize("call", ["predict", "decode", "score", "align", "unknown"])
@pytest.mark.parametrize("texts", NO_LISTS)
def test_what_is_no_list_is_refused(runs: dict[str, Run], call: str, texts: Any) -> None:
    with pytest.raises(SettingError, match=rf"^{call}: expected a list of (texts|pairs), got "):
        getattr(runs["transformer"], call)(texts)


@pytest.mark.parametrize("item", [("a", "b"), None, 3, ["a"], Pair("a", "b"), b"a"])
@pytest.mark.parametrize("call", ["predict", "decode", "unknown"])
def test_an_item_that_is_no_text_is_numbered(runs: dict[str, Run], call: str, item: Any) -> None:
    with pytest.raises(SettingError, match=rf"^{call}: text 2: expected a text, got "):
        getattr(runs["transformer"], call)(["1 May 2001", item])


@pytest.mark.parametrize("item", [("a", "b"), None, "a", {"source": "a", "target": "b"}, Pair("a", 3)])  # type: ignore[arg-type]
@pytest.mark.parametrize("call", ["score", "align"])
def test_an_item_that_is_no_pair_is_numbered(runs: dict[str, Run], call: str, item: Any) -> None:
    with pytest.raises(SettingError, match=rf"^{call}: pair 1: expected "):
        getattr(runs["transformer"], call)([item])


def test_calls_of_one_text_and_of_one_pair(runs: dict[str, Run]) -> None:
    run: Any = runs["transformer"]
    for wrong in (None, ["May 1, 2001"], 3):
        with pytest.raises(SettingError, match=r"^attention: expected a single text, got "):
            run.attention(wrong)
        with pytest.raises(SettingError, match=r"^aligned_parts: pair 1: expected "):
            run.aligned_parts(wrong)
    for name in ("layer", "head"):
        with pytest.raises(SettingError, match=f"^align: `{name}`: expected a whole number, got 'last'"):
            run.align([Pair("a", "b")], **{name: "last"})


def test_an_open_file_is_a_list_of_texts(tmp_path: Any) -> None:
    path = tmp_path / "texts.txt"
    path.write_text("a\nb\n", encoding="utf-8")
    with path.open(encoding="utf-8") as file:
        assert checked_texts("predict", file) == ["a\n", "b\n"]
