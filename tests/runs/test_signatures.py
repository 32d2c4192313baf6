"""What calls take: fields of dataclasses by name, in any of three places; texts and pairs; refused is the rest."""

import dataclasses
import os
import types
import typing
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from small_runs import Train

import selfattn
from selfattn.comparison.compare import compare
from selfattn.comparison.options import CompareOptions, CompareSettings
from selfattn.comparison.preparation import prepare
from selfattn.data.pairs import Pair
from selfattn.decoding.options import DecodingOptions, DecodingSettings
from selfattn.errors import SettingError, UserError
from selfattn.runs.predictor import checked_texts
from selfattn.runs.run import Run
from selfattn.runs.task import task_class
from selfattn.runs.train import TrainOptions, TrainSettings, merge_settings
from selfattn.runs.train import train as train_on
from selfattn.tasks.dates import DateOptions, Dates
from selfattn.training.config import TrainingConfig, TrainingSettings

MODELS = ("rnn-attention", "transformer")


def accepted(hint: Any) -> Any:
    """Return what a call may pass for a field of this type: a text for a path, one value for several."""
    if hint is Path:
        return str | os.PathLike[str]
    arguments = typing.get_args(hint)
    if arguments[1:] == (...,):
        each = accepted(arguments[0])
        return each | Sequence[each]
    if isinstance(hint, types.UnionType):
        return accepted(arguments[0]) | type(None)
    return hint


@pytest.mark.parametrize(
    ("settings", "kinds"),
    [
        (TrainingSettings, [TrainingConfig]),
        (CompareSettings, [TrainingConfig, CompareOptions]),
        (TrainSettings, [TrainingConfig, TrainOptions]),
    ],
)
def test_keywords_are_the_fields(settings: Any, kinds: list[type[Any]]) -> None:
    hints: dict[str, Any] = {}
    for kind in kinds:
        of_kind = typing.get_type_hints(kind)
        for field in dataclasses.fields(kind):
            if (kind, field.name) != (TrainingConfig, "seed"):
                hints[field.name] = accepted(of_kind[field.name])
    assert typing.get_type_hints(settings) == hints


def prepared(
    task: str | Dates, options: Any = None, training: Any = None, task_options: Any = None, **flat: Any
) -> Any:
    kind = task_class(task)
    settings = merge_settings(flat, options, CompareOptions, training, task_options, kind.Options, kind.TestOptions)
    trainings, _ = prepare(task, settings)
    return trainings.command, trainings.options, trainings.recipe


def test_settings_mean_the_same_wherever_they_stand(tmp_path: Path) -> None:
    flat = prepared("dates", models=MODELS, out=tmp_path, epochs=3, locales=("ko_KR",))
    options = CompareOptions(models=MODELS, out=tmp_path)
    assert prepared("dates", options, training={"epochs": 3}, task_options={"locales": ("ko_KR",)}) == flat
    assert prepared("dates", options, epochs=3, task_options=DateOptions(locales=("ko_KR",))) == flat
    assert prepared(Dates(locales=("ko_KR",)), options, epochs=3) == flat


def test_what_is_left_out_follows_the_task_and_what_is_given_holds(tmp_path: Path) -> None:
    options = CompareOptions(models=MODELS, out=tmp_path)
    _, usual, _ = prepared("dates", options)
    assert (usual.budgets, usual.first_seed, usual.seeds) == ((1.0,), 500, 5)
    command, given, _ = prepared("dates", dataclasses.replace(options, budgets=(0.5,), first_seed=0))
    assert (given.budgets, given.first_seed) == ((0.5,), 0)
    assert "--first-seed 0 --budgets 0.5" in command


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lrr": 2}, "`lrr`: there is no such setting here; did you mean `lr`?"),
        ({"training": {"lrr": 2}}, "`lrr`: there is no such setting here; did you mean `lr`?"),
        ({"training": {"seeds": (3,)}}, "`seeds`: there is no such setting here"),
        ({"training": {"seed": 3}}, "`seed`: it is no part of `training`"),
        ({"training": TrainingConfig(epochs=3)}, "`training`: expected settings by name"),
        ({"training": {"lr": 0.1}, "lr": 0.2}, "`lr`: given twice, once in `training`"),
        ({"task_options": {"local": "ko"}}, "`local`: there is no such setting here; did you mean `locales`?"),
        ({"task_options": {"locales": "ko"}, "locales": "ko"}, "`locales`: given twice"),
        ({"task_options": 3}, "`task_options`: expected settings by name"),
    ],
)
def test_wrong_places_are_named(settings: dict[str, Any], message: str, tmp_path: Path) -> None:
    for call in (compare, train_on):
        with pytest.raises(SettingError) as error:
            call("dates", out=tmp_path / "out", **settings)  # type: ignore[operator]
        assert str(error.value).startswith(message)


WRONG_VALUES = [
    ({"quick": "no"}, "`quick`: expected True or False, got 'no'"),
    ({"tune": "x"}, "`tune`: expected True or False, got 'x'"),
    ({"backend": "spark"}, "`backend`: expected one of local, dask, ray, got 'spark'"),
    ({"device": "gpu"}, "`device`: expected one of auto, cpu, cuda, got 'gpu'"),
    ({"match": "size"}, "`match`: expected one of parameters, body, flops, none, got 'size'"),
    ({"models": [1]}, "`models`: expected a text, got 1"),
    ({"models": None}, "`models`: expected a text, got None"),
    ({"seeds": "3"}, "`seeds`: expected a whole number from 1 to 1,000,000,000, got '3'"),
    ({"seeds": True}, "`seeds`: expected a whole number from 1 to 1,000,000,000, got True"),
    ({"space": 3}, "`space`: expected a text, got 3"),
    ({"out": 3}, "`out`: expected a path, got 3"),
    ({"locales": 3}, "`locales`: expected a text, got 3"),
]


@pytest.mark.parametrize(("settings", "message"), WRONG_VALUES)
def test_values_of_another_type_are_refused(settings: dict[str, Any], message: str, tmp_path: Path) -> None:
    usual: dict[str, Any] = {"models": MODELS, "out": tmp_path / "out"}
    with pytest.raises(SettingError) as error:
        compare("dates", **usual | settings)
    assert str(error.value) == message


@pytest.mark.parametrize("task", [None, 3, Dates])
def test_what_is_no_task_is_refused(task: Any, tmp_path: Path) -> None:
    for call in (compare, train_on):
        with pytest.raises(SettingError, match="`task`: expected a name such as 'dates', or a task, got "):
            call(task, out=tmp_path / "out")  # type: ignore[operator]


@pytest.mark.parametrize("path", [None, 3, ["run"]])
def test_what_is_no_directory_or_plugin_is_refused(path: Any) -> None:
    with pytest.raises(UserError, match="load: expected a run directory, got "):
        selfattn.load(path)
    with pytest.raises(UserError, match="`plugin`: expected a file, or a module by its dotted name, got "):
        selfattn.load_plugin(path)


def test_options_stand_in_one_place(tmp_path: Path) -> None:
    options = CompareOptions(models=MODELS, out=tmp_path)
    with pytest.raises(SettingError, match="`quick`: beside `options`; set it there"):
        compare("dates", options, quick=True)
    with pytest.raises(SettingError, match="`options`: expected TrainOptions, got CompareOptions"):
        train_on("dates", options)  # type: ignore[arg-type]
    with pytest.raises(SettingError, match="`out`: give the directory of the run"):
        train_on("dates")
    with pytest.raises(SettingError, match="`seed`: the trainings of a comparison have several"):
        compare("dates", seed=3)  # type: ignore[call-arg]
    with pytest.raises(UserError, match="the task has its options already"):
        compare(Dates(), out=tmp_path, task_options={"locales": ("ko_KR",)})


def test_a_training_by_options(train: Train, tmp_path: Path, tiny: Any, small: Any, runs: dict[str, Run]) -> None:
    options = TrainOptions(model="rnn-plain", out=tmp_path / "run", set=small["rnn-plain"])
    run = train_on("dates", options, training=tiny)
    assert replace(run.config, options=runs["rnn-plain"].config.options) == runs["rnn-plain"].config  # `out` is another


@pytest.mark.parametrize(("config", "vocab_size"), [(None, 11), (("transformer",), 11), ("transformer", "11")])
def test_what_is_no_model_is_refused(config: Any, vocab_size: Any) -> None:
    with pytest.raises(UserError, match=r"^build: .*expected "):
        selfattn.build(config, vocab_size=vocab_size)


DATES = ["May 1, 2001", "3 March 1985"]
NO_LISTS = (None, {"text": "a"}, "May 1, 2001", 7, {"a", "b"}, b"ab", print)


def test_keywords_are_the_options_of_decoding(runs: dict[str, Run]) -> None:
    run = runs["transformer"]
    assert run.predict(DATES, beam=3) == run.predict(DATES, DecodingOptions(beam=3))
    assert run.decode(DATES, beam=3, n_best=2) == run.decode(DATES, DecodingOptions(beam=3, n_best=2))
    assert run.predict(iter(DATES)) == run.predict(DATES)


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
        runs["transformer"].predict(DATES, **settings)
    assert str(error.value).startswith(message)


PAIR = Pair("a", "b")
NO_TEXTS = (("a", "b"), None, 3, ["a"], PAIR, b"a")
NO_PAIRS: tuple[Any, ...] = (("a", "b"), None, "a", {"source": "a", "target": "b"}, Pair("a", 3))  # type: ignore[arg-type]
# A call, what it is given, and what the line says.
WRONG_CALLS: list[tuple[str, tuple[Any, ...], dict[str, Any], str]] = [
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
    ("decode", (DATES,), {"targets": "2008-11-13"}, "`targets`: expected a list of texts, got '2008-11-13'"),
    ("decode", (DATES,), {"first": 1.5}, r"`first`: expected a whole number, got 1\.5"),
]


@pytest.mark.parametrize(("call", "given", "settings", "message"), WRONG_CALLS)
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
