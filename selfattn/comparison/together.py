"""Comparisons of the same models on several tasks, such as languages, with one verdict over all."""

from collections.abc import Iterator, Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from selfattn.comparison.compare import compare
from selfattn.comparison.options import MOST_SEEDS
from selfattn.comparison.plan import ComparisonPlan
from selfattn.comparison.preparation import make_plan, prepare
from selfattn.errors import SettingError, UserError, number_of, say
from selfattn.evaluation.significance import FEWEST, drawn_again, improvement, interquartile_mean, mean_difference
from selfattn.experiments.plan import check_out
from selfattn.registry import is_name
from selfattn.report.numbers import bare_p_text, value_text
from selfattn.report.ranking import departures, obstacles, pair_test, quality, set_aside
from selfattn.report.write import RESULTS
from selfattn.results.quality import Estimate, OverTasks, TaskRow, Unit
from selfattn.results.record import Record, read_record
from selfattn.streams import seed_for
from selfattn.words.messages import SOURCE, Message, catalogue, message, name_key, text_of

_TUNING_SEEDS = 1_000_000  # number of first seeds
_NOT_OF_ONE = ("out", "resume", "lang", "plan_only")  # they are given for all comparisons together, or not at all


def compare_each(
    task: str, settings: Mapping[str, Mapping[str, Any]], out: Path, *, resume: bool = False, lang: str = SOURCE
) -> dict[str, Path]:
    """Train comparisons one after the other, each in a directory of its own.

    All are planned before the first is trained, so files that are missing, or models that differ, are refused at once.
    Each plan is sealed as its comparison begins.

    Args:
        task: name of the task that they are comparisons on, such as ``"translation"``.
        settings: those of :func:`compare`, without `out`, by the name of the data set.
        out: directory of all, new; a comparison is in the folder of its name.
        resume: continue; finished runs are not repeated. Default False.
        lang: of the reports. Default English.

    Returns:
        The directory of each comparison, for `selfattn.comparison.together.read_together`.

    Raises:
        SettingError: fewer than three data sets or two models, other models or another metric than the first has, a
            name that no folder can have, or a setting that :func:`compare` refuses.
        UserError: see :func:`compare`.

    Example:
        ``compare_each("translation", {"kor": {"data": ("kor.tsv",)}, "jpn": {"data": ("jpn.tsv",)}, ...},
        Path("compare/phones"))``
    """
    if not resume:
        check_out(out)
    if len(settings) < FEWEST:
        raise SettingError(f"{number_of(len(settings), 'data set')}: a verdict over tasks needs {FEWEST} or more")
    plans: dict[str, ComparisonPlan] = {}
    for name, values in settings.items():
        if not is_name(name):
            raise SettingError(f"{name!r}: a data set's name is made of at most 100 letters, digits, - and _")
        for setting in _NOT_OF_ONE:
            if setting in values:
                raise SettingError(f"{name}: `{setting}` is not for one of several data sets; leave it out there")
        try:
            plan = make_plan(*prepare(task, values))  # nothing is written
        except UserError as error:
            raise UserError(f"{name}: {error}") from None
        if len(plan.models) < 2:
            raise SettingError(f"{name}: one model has no differences; compare two")
        plans[name] = plan
        first_name, first = next(iter(plans.items()))
        if [*plan.models] != [*first.models]:
            raise SettingError(f"{name}: compares {', '.join(plan.models)}, other models than {first_name}")
        if plan.headline != first.headline:
            metrics = f"{plan.headline.metric}, {first_name} by {first.headline.metric}"
            raise SettingError(f"{name}: is decided by {metrics}")
    places = {}
    for number, (name, plan) in enumerate(plans.items(), 1):
        places[name] = out / name
        say(f"{name}: {number} of {len(settings)}, in {places[name]}")
        own = own_settings(name, plan) | dict(settings[name])
        compare(task, **own, out=places[name], resume=resume, lang=lang)
    return places


def own_settings(name: str, plan: ComparisonPlan) -> dict[str, int]:
    """Return a first seed of the trials that follows from the name of a data set; nothing where nothing is tuned.

    With the same trials for every data set, the luck of a tuning would be the same for all, and a verdict over data
    sets would take it for a difference of the models: false alarms of 9 to 19 % instead of 3 to 5 %.

    Args:
        name: of the data set.
        plan: of its comparison.
    """
    if not plan.space or plan.until is not None:
        return {}
    return {"tuning_seed": MOST_SEEDS + seed_for(0, f"tuning/{name}") % _TUNING_SEEDS}


def read_together(places: Mapping[str, Path]) -> dict[str, Record]:
    """Read the records of comparisons.

    Args:
        places: their directories, or records, by the name of the task.

    Raises:
        UserError: one is missing, or given twice, or they are not of the same models and metric.
    """
    records = {name: read_record(path / RESULTS if path.is_dir() else path) for name, path in places.items()}
    first_name, first = next(iter(records.items()))
    seen: dict[str, str] = {}
    for name, record in records.items():
        if [model.name for model in record.models] != [model.name for model in first.models]:
            names = ", ".join(model.name for model in record.models)
            raise UserError(f"{places[name]}: compares {names}, other models than {places[first_name]}")
        if (record.headline.metric, record.headline.better) != (first.headline.metric, first.headline.better):
            metrics = f"{record.headline.metric}, and {places[first_name]} by {first.headline.metric}"
            raise UserError(f"{places[name]}: is decided by {metrics}; compare with one `metric`")
        digest = record.outputs_sha256 or str(places[name].resolve())
        if digest in seen:
            raise UserError(f"{places[name]}: is the comparison of {seen[digest]} again; leave it out")
        seen[digest] = name
    return records


def over_tasks(records: Mapping[str, Record]) -> list[OverTasks]:
    """Judge each pair of models over all tasks; several pairs are corrected by nobody but the reader.

    Args:
        records: of comparisons of the same models, by the name of the task.

    Raises:
        SettingError: fewer than two models, or fewer than three tasks.
    """
    first_record = next(iter(records.values()))
    names = [model.name for model in first_record.models]
    headline = first_record.headline
    if len(names) < 2:
        raise SettingError(f"{names[0]}: one model has no differences; compare two")
    verdicts = []
    for first, second in combinations(names, 2):
        rows = []
        of_first = []
        of_second = []
        for task, record in records.items():
            models = [next(model for model in record.models if model.name == name) for name in (first, second)]
            test = pair_test(record, *models)
            scores = [quality(record, model) for model in models]
            of_first.append(np.array(scores[0].runs or (scores[0].mean,)))
            of_second.append(np.array(scores[1].runs or (scores[1].mean,)))
            rows.append(TaskRow(task, scores[0].mean, scores[1].mean, test.difference, test.low, test.high, test.p))
        difference, p = mean_difference(of_first, of_second)
        verdicts.append(
            OverTasks(
                first,
                second,
                headline.metric,
                headline.kind,
                headline.better,
                tuple(rows),
                difference,
                p,
                drawn_again(lambda models: interquartile_mean(models[0]), [of_first]),
                drawn_again(lambda models: interquartile_mean(models[0]), [of_second]),
                drawn_again(lambda models: improvement(models[0], models[1], headline.better), [of_first, of_second]),
            )
        )
    return verdicts


def together_lines(verdict: OverTasks, lang: str = SOURCE) -> Iterator[str]:
    """Write a verdict as a table in Markdown."""
    for line in _lines(verdict, lang):
        yield text_of(line, lang)


def _lines(verdict: OverTasks, lang: str) -> Iterator[str]:
    metric = catalogue(lang).get(name_key("metric", verdict.metric), verdict.metric)
    kind = verdict.kind
    task = message("together.task").say(lang)
    difference = message("together.difference").say(lang)
    if kind != "number":
        difference += f", {message(f'difference.{kind}').say(lang)}"
    mean = message("together.mean").say(lang)
    yield message("together.head", metric=metric, first=verdict.first, second=verdict.second).say(lang)
    yield ""
    yield f"| {task} | {verdict.first} | {verdict.second} | {difference} | p |"
    yield "| --- | ---: | ---: | ---: | ---: |"
    for row in verdict.rows:
        change = _without_unit(_with_ends(Estimate(row.difference, row.low, row.high), kind))
        cells = (row.task, value_text(row.first, kind), value_text(row.second, kind), change, bare_p_text(row.p))
        yield f"| {' | '.join(cells)} |"
    firsts = value_text(float(np.mean([row.first for row in verdict.rows])), kind)
    seconds = value_text(float(np.mean([row.second for row in verdict.rows])), kind)
    change = _without_unit(_with_ends(verdict.difference, kind))
    yield f"| **{mean}** | {firsts} | {seconds} | {change} | {bare_p_text(verdict.p)} |"
    middle = (_with_ends(verdict.middle_first, kind), _with_ends(verdict.middle_second, kind))
    yield f"| {message('together.middle').say(lang)} | {middle[0]} | {middle[1]} | | |"
    yield ""
    chance = _with_ends(verdict.improvement, "share")
    yield message("together.improvement", first=verdict.first, second=verdict.second, share=chance).say(lang)
    yield message("together.next").say(lang)


def remarks(records: Mapping[str, Record], lang: str = SOURCE) -> Iterator[str]:
    """Say what speaks against some comparisons: no plan, a pilot, departures, failed gates; and how to verify them.

    Args:
        records: by the name of the task.
        lang: of the sentences.
    """
    for task, record in records.items():
        reasons: list[Message] = []
        if record.seal is None:
            reasons.append(message("together.unplanned"))
        elif record.plan and record.plan.pilot:
            reasons.append(message("together.pilot"))
        reasons += departures(record.plan)
        reasons += [*obstacles(record), *set_aside(record)]
        for reason in reasons:
            yield f"- {task}: {reason.say(lang)}"
    yield message("together.verify").say(lang)


def _with_ends(estimate: Estimate, kind: Unit) -> str:
    mean, *ends = (
        value_text(value, kind) for value in (estimate.mean, estimate.low, estimate.high) if value is not None
    )
    return f"{mean} [{', '.join(ends)}]"


def _without_unit(text: str) -> str:
    """Return a difference of shares without percent signs: the head of its column says that it is in points."""
    return text.replace("\u00a0%", "")
