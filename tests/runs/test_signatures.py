"""What calls take: fields of dataclasses by name, texts and pairs; options beside each other; refused is the rest."""

import dataclasses
import os
import types
import typing
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

import selfattn
from selfattn.cli import decoding as commands
from selfattn.comparison.compare import compare
from selfattn.comparison.options import CompareOptions, CompareSettings
from selfattn.comparison.preparation import prepare
from selfattn.data.pairs import Pair
from selfattn.decoding.options import DecodingOptions, DecodingSettings
from selfattn.errors import SettingError, UserError
from selfattn.runs.load import load
from selfattn.runs.predictor import checked_texts, export_place
from selfattn.runs.task import task_class
from selfattn.runs.train import TrainOptions, TrainSettings, merge_settings
from selfattn.runs.train import train as train_on
from selfattn.settings import check_conditions, excludes, needs
from selfattn.tasks.dates import DateOptions, Dates
from selfattn.tasks.lm import TextOptions
from selfattn.tasks.translation import TranslationOptions, TranslationTests
from selfattn.training.config import TrainingConfig, TrainingSettings

MODELS = ("rnn-attention", "transformer")


def accepted(hint):
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


def fields_of(kind):
    hints = typing.get_type_hints(kind)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind)}


@pytest.mark.parametrize(
    ("settings", "kinds"),
    [(TrainingSettings, []), (CompareSettings, [CompareOptions]), (TrainSettings, [TrainOptions])],
)
def test_keywords_are_the_fields(settings, kinds):
    hints = fields_of(TrainingConfig)
    del hints["seed"]
    for kind in kinds:
        hints |= fields_of(kind)
    assert typing.get_type_hints(settings) == {name: accepted(hint) for name, hint in hints.items()}
    assert typing.get_type_hints(DecodingSettings) == fields_of(DecodingOptions)


def prepared(task, options=None, training=None, task_options=None, **flat):
    kind = task_class(task)
    settings = merge_settings(flat, options, CompareOptions, training, task_options, kind.Options, kind.TestOptions)
    trainings, _ = prepare(task, settings)
    return trainings.command, trainings.options, trainings.recipe


def test_settings_mean_the_same_wherever_they_stand(tmp_path):
    flat = prepared("dates", models=MODELS, out=tmp_path, epochs=3, locales=("ko_KR",))
    options = CompareOptions(models=MODELS, out=tmp_path)
    assert prepared("dates", options, training={"epochs": 3}, task_options={"locales": ("ko_KR",)}) == flat
    assert prepared("dates", options, epochs=3, task_options=DateOptions(locales=("ko_KR",))) == flat
    assert prepared(Dates(locales=("ko_KR",)), options, epochs=3) == flat


def test_what_is_left_out_follows_the_task_and_what_is_given_holds(tmp_path):
    options = CompareOptions(models=MODELS, out=tmp_path)
    _, usual, _ = prepared("dates", options)
    assert (usual.budgets, usual.first_seed, usual.seeds) == ((1.0,), 500, 5)
    command, given, _ = prepared("dates", dataclasses.replace(options, budgets=(0.5,), first_seed=0))
    assert (given.budgets, given.first_seed) == ((0.5,), 0)
    assert "--first-seed 0 --budgets 0.5" in command


WRONG_PLACES = [
    ({"lrr": 2}, "`lrr`: there is no such setting here; did you mean `lr`?"),
    ({"training": {"lrr": 2}}, "`lrr`: there is no such setting here; did you mean `lr`?"),
    ({"training": {"seeds": (3,)}}, "`seeds`: there is no such setting here"),
    ({"training": {"seed": 3}}, "`seed`: it is no part of `training`"),
    ({"training": TrainingConfig(epochs=3)}, "`training`: expected settings by name"),
    ({"training": {"lr": 0.1}, "lr": 0.2}, "`lr`: given twice, once in `training`"),
    ({"task_options": {"local": "ko"}}, "`local`: there is no such setting here; did you mean `locales`?"),
    ({"task_options": {"locales": "ko"}, "locales": "ko"}, "`locales`: given twice"),
    ({"task_options": 3}, "`task_options`: expected settings by name"),
]
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
USUAL = {"models": MODELS, "out": "out"}
DATES = ["May 1, 2001", "3 March 1985"]
NO_LISTS = (None, {"text": "a"}, "May 1, 2001", 7, {"a", "b"}, b"ab", print)
PAIR = Pair("a", "b")
NO_TEXTS = (("a", "b"), None, 3, ["a"], PAIR, b"a")
NO_PAIRS = (("a", "b"), None, "a", {"source": "a", "target": "b"}, Pair("a", 3))
# A call, or the name of a method of a run, what it is given, and how the line begins; "\n": how all of it is.
WRONG_CALLS = [
    *((call, ("dates",), {"out": "out"} | one, said) for call in (compare, train_on) for one, said in WRONG_PLACES),
    *((compare, ("dates",), USUAL | settings, f"{said}\n") for settings, said in WRONG_VALUES),
    *((call, (task,), {"out": "out"}, "`task`: expected a name such as 'dates', or a task, got ")
      for call in (compare, train_on) for task in (None, 3, Dates)),
    *((call, (path,), {}, said) for path in (None, 3, ["run"]) for call, said in (
        (selfattn.load, "load: expected a run directory, got "),
        (selfattn.load_plugin, "`plugin`: expected a file, or a module by its dotted name, got "),
    )),
    (compare, ("dates", CompareOptions(**USUAL)), {"quick": True}, "`quick`: beside `options`; set it there"),
    (train_on, ("dates", CompareOptions(**USUAL)), {}, "`options`: expected TrainOptions, got CompareOptions"),
    (train_on, ("dates",), {}, "`out`: give the directory of the run"),
    (compare, ("dates",), {"seed": 3}, "`seed`: the trainings of a comparison have several"),
    (compare, (Dates(),), {"out": "out", "task_options": {"locales": ("ko_KR",)}}, "locales: the task has its options"),
    *((selfattn.build, (config,), {"vocab_size": size}, "build: ")
      for config, size in ((None, 11), (("transformer",), 11), ("transformer", "11"))),
    ("predict", (DATES,), {"beams": 5}, "`beams`: there is no such setting here; did you mean `beam`?"),
    ("predict", (DATES,), {"beam": 0}, "`beam`: expected"),
    ("predict", (DATES,), {"options": 5}, "predict: expected DecodingOptions, got 5"),
    ("predict", (DATES,), {"options": DecodingOptions(), "beam": 2}, "predict: `beam` beside DecodingOptions"),
    ("predict", (DATES,), {"glossary": {"May": "5"}, "beam": 2}, "`glossary`: expected a Glossary({term: words}), got"),
    *((call, (texts,), {}, f"{call}: expected a list of {items}, got ")
      for items, calls in (("texts", ("predict", "decode", "unknown")), ("pairs", ("score", "align")))
      for call in calls for texts in NO_LISTS),
    *((call, (["1 May 2001", item],), {}, f"{call}: text 2: expected a text, got ")
      for call in ("predict", "decode", "unknown") for item in NO_TEXTS),
    *((call, ([item],), {}, f"{call}: pair 1: expected ") for call in ("score", "align") for item in NO_PAIRS),
    *(("attention", (text,), {}, "attention: expected a single text, got ") for text in (None, ["May 1, 2001"], 3)),
    *(("aligned_parts", (pair,), {}, "aligned_parts: pair 1: expected ") for pair in (None, ["May 1, 2001"], 3)),
    *(("align", ([PAIR],), {name: "last"}, f"align: `{name}`: expected a whole number, got 'last'")
      for name in ("layer", "head")),
    *(("align", ([PAIR],), {"head": head}, "align: `head`: expected a whole number") for head in (True, [], "", 0.0)),
    ("decode", (DATES,), {"targets": "1"}, "decode: `targets`: expected a list of texts, got '1'"),
    ("decode", (DATES,), {"first": 1.5}, "decode: `first`: expected a whole number, got 1.5"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "given", "settings", "message"), WRONG_CALLS)
def test_what_a_call_cannot_take_is_named(runs, tmp_path, monkeypatch, call, given, settings, message):
    monkeypatch.chdir(tmp_path)
    function = getattr(runs["transformer"], call) if isinstance(call, str) else call
    with pytest.raises(UserError) as error:
        function(*given, **settings)
    assert f"{error.value}\n".startswith(message)
    others = (selfattn.load, selfattn.load_plugin, selfattn.build)
    assert isinstance(error.value, SettingError) or call in others or "the task has its options" in message
    assert call is not selfattn.build or "expected " in str(error.value)
    assert not list(tmp_path.iterdir())


def test_a_training_by_options(train, tmp_path, tiny, small, runs):
    options = TrainOptions(model="rnn-plain", out=tmp_path / "run", set=small["rnn-plain"])
    run = train_on("dates", options, training=tiny)
    assert replace(run.config, options=runs["rnn-plain"].config.options) == runs["rnn-plain"].config  # `out` is another


def test_keywords_are_the_options_of_decoding_and_an_open_file_is_a_list_of_texts(runs, tmp_path):
    run = runs["transformer"]
    assert run.predict(DATES, beam=3) == run.predict(DATES, DecodingOptions(beam=3))
    assert run.decode(DATES, beam=3, n_best=2) == run.decode(DATES, DecodingOptions(beam=3, n_best=2))
    assert run.predict(iter(DATES)) == run.predict(DATES)
    path = tmp_path / "texts.txt"
    path.write_text("a\nb\n", encoding="utf-8")
    with path.open(encoding="utf-8") as file:
        assert checked_texts("predict", file) == ["a\n", "b\n"]


# Options beside each other: without effect, refused with the reason; or with the effect that they have together

KINDS = (TrainOptions, TrainingConfig, CompareOptions, DateOptions, TextOptions, TranslationOptions, TranslationTests)


@pytest.mark.parametrize("kind", KINDS)
def test_conditions_name_options(kind):
    names = {field.name for field in dataclasses.fields(kind)}
    assert kind.conditions
    for condition in kind.conditions:
        assert names >= set(condition.names)


def test_a_condition_holds_or_names_the_option():
    assert {name for condition in commands._ALIGN for name in condition.names} <= set(commands.align.__annotations__)
    conditions = [needs("`a`", lambda given: given.a, "b"), excludes("`c`", lambda given: given.c, "d", "e")]
    check_conditions(["b", "e"], SimpleNamespace(a=1, c=0), conditions)
    check_conditions([], SimpleNamespace(a=0, c=1), conditions)
    for name, reason in (("b", "goes with `a`: give that as well"), ("e", "has no effect beside `c`: leave one")):
        with pytest.raises(UserError, match=f"^`{name}` {reason}"):
            check_conditions([name], SimpleNamespace(a=0, c=1), conditions)


def test_a_run_is_started_from_with_its_options(cli, runs, tmp_path):
    start = runs["rnn-plain"].path
    further = ("--config", start, "--init-from", start, "--seed", "5")
    cli("train", "dates", *further, "--out", tmp_path / "same").success()
    assert load(tmp_path / "same").config.model == runs["rnn-plain"].config.model


def test_exports_of_runs_from_the_hub_lie_elsewhere(tmp_path, monkeypatch):
    assert export_place(Path("runs/a"), "onnx") == Path("runs/a-onnx")
    monkeypatch.setattr("huggingface_hub.constants.HF_ASSETS_CACHE", str(tmp_path / "assets"))
    repository = tmp_path / "hub" / "models--somebody--dates"
    (repository / "blobs").mkdir(parents=True)
    (repository / "snapshots" / "0a1b").mkdir(parents=True)
    place = export_place(repository / "snapshots" / "0a1b", "ctranslate2")
    assert place.name == "models--somebody--dates-0a1b-ctranslate2"
    assert repository.parent not in place.parents


def test_what_is_in_the_way_of_an_export(cli, runs):
    pytest.importorskip("onnxruntime")
    path = runs["rnn-plain"].path
    place = path.with_name("rnn-plain-onnx")
    place.mkdir()
    (place / "note").write_text("mine")
    refusal = cli("predict", path, "--engine", "onnx", stdin="1/2/03\n").refusal()
    assert refusal == f"error: {place}: is in the way of the export for onnx, and is none; move it away\n"
    (place / "note").unlink()
    place.rmdir()
