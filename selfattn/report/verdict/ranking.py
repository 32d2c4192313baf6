"""Rank the models of a record by the headline metric, and name what a record measures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from selfattn.report.drawing.numbers import estimate_text, gap_text, score_text
from selfattn.report.drawing.scale import Scale, quality_scale
from selfattn.results.budgets import BudgetDifference
from selfattn.results.pairs import PairTest, Word, is_estimable
from selfattn.results.quality import Estimate, Unit
from selfattn.results.record import Model, Record
from selfattn.words.catalogue import SOURCE, catalogue
from selfattn.words.messages import Message, message

Outcome = Literal["better", "worse", "same", "few", "unknown"]
OUTCOMES: dict[Word, Outcome] = {
    "better": "better",
    "worse": "worse",
    "no difference seen": "same",
    "too few seeds to tell": "few",
}
_LISTED = 5  # models that a sentence names with their scores


def in_task_words(record: Record, key: str, **values: str | int | Message) -> Message:
    """Return a message by its key, with the texts of the task (`Subject.words`) where the task has its own."""
    words = record.subject.words
    return Message(key, values, {lang: texts[key] for lang, texts in words.items() if key in texts})


def named(record: Record, what: str, name: str) -> Message:
    """Return the display name of a metric, a bucket or a gate: the task's, the catalogue's, or the name itself.

    Args:
        record: may bring the task's own texts.
        what: `metric`, `bucket` or `gate`: the first part of the key.
        name: in the record.
    """
    display = in_task_words(record, f"{what}.{name}")
    return display if display.texts or display.key in catalogue(SOURCE) else Message(what, {"name": name})


def metric_kind(record: Record, name: str) -> Unit | None:
    """Return the unit of a metric, the headline or another; None for a plain number."""
    return record.headline.kind if name == record.headline.metric else record.units.get(name)


def headline_name(record: Record) -> Message:
    """Return the display name of the metric that decides."""
    return named(record, "metric", record.headline.metric)


def headline_unit(record: Record) -> Message:
    """Return the unit of that metric as it is shown, such as %."""
    return Message(f"unit.{record.headline.kind}")


def asked_pair(record: Record) -> tuple[Model, Model] | None:
    """Return the two models that the task asks about; None where one of them is not in the record."""
    by_name = {model.name: model for model in record.models}
    names = record.subject.pair
    return (by_name[names[0]], by_name[names[1]]) if names and set(names) <= set(by_name) else None


def judged_pair(record: Record) -> tuple[Model, Model] | None:
    """Return the two models that the verdict is about: those of the task's question, or the only two."""
    only = (record.models[0], record.models[1]) if len(record.models) == 2 else None
    return asked_pair(record) or only


def quality(record: Record, model: Model) -> Estimate | None:
    """Return the headline metric of a model; None when it was not measured."""
    return model.metrics.get(record.headline.metric)


def ranked(record: Record) -> tuple[Model, ...]:
    """Return the models with the best mean first; equal ones in the order of the record, unmeasured ones last."""
    turn = -1 if record.headline.better == "higher" else 1
    means = {model.name: turn * score.mean for model in record.models if (score := quality(record, model))}
    return tuple(sorted(record.models, key=lambda model: (model.name not in means, means.get(model.name, 0.0))))


def record_scale(record: Record) -> Scale:
    """Return the one axis of the headline metric that all charts of a report share."""
    kind = record.headline.kind
    scores = [score for model in record.models if (score := quality(record, model))]
    tops = [score.mean if kind == "share" or score.high is None else score.high for score in scores]
    if kind == "points":
        tops += [p.valid for m in record.models for curve in m.curves for p in curve.points if p.valid is not None]
        tops += [trial.valid for model in record.models for trial in model.trials if trial.valid is not None]
    # Nines are for what comes close to 100 %; a metric that is better when lower should not.
    items = record.test_items if record.headline.better == "higher" else 0
    return quality_scale(max(tops, default=None), items, kind)


def pair_test(record: Record, first: Model, second: Model) -> PairTest | None:
    """Return the test of two models in the headline metric, from the first's side; None where there is none."""
    for test in record.pairs:
        if test.metric == record.headline.metric and {test.first, test.second} == {first.name, second.name}:
            return test if test.first == first.name else test.turned()
    return None


def outcome(record: Record, first: Model, second: Model) -> Outcome:
    """Return how the first stands to the second; `unknown` where no test was made."""
    test = pair_test(record, first, second)
    return OUTCOMES[test.word] if test else "unknown"


def spoken(record: Record, model: Model) -> Message | str:
    """Return a model as a sentence names it, such as "the Transformer"; by its name where there are no words."""
    words = in_task_words(record, f"name.{model.name}")
    return words if words.texts or words.key in catalogue(SOURCE) else model.name


def scores_of(record: Record, measured: Sequence[tuple[Model, Estimate | None]]) -> Message:
    """Return a clause with the scores of two models."""
    (first, score), (second, other) = measured
    key, kind = f"scores.{record.headline.metric}", record.headline.kind
    return message(
        key if key in catalogue(SOURCE) else "scores",
        metric=headline_name(record),
        first=spoken(record, first),
        second=spoken(record, second),
        a=score_text(score, kind),
        b=score_text(other, kind),
    )


def gap(record: Record, test: PairTest | BudgetDifference, runs: str) -> Message:
    """Return how far apart two models with so many runs are; of a difference too wide to mean anything, only that."""
    kind = record.headline.kind
    if not is_estimable(test, kind):
        return message("gap.wide", count=runs)
    return message("gap.size", difference=gap_text(test, kind), unit=message(f"difference.{kind}"), count=runs)


def scores(record: Record, models: tuple[Model, ...]) -> str:
    """Return names with their scores, the first few, in one line that needs no language."""
    shown = [f"{model.name} {estimate_text(quality(record, model), record.headline.kind)}" for model in models]
    more = len(shown) - _LISTED
    return ", ".join(shown[:_LISTED]) + (f", … (+{more})" if more > 0 else "")


def is_single(record: Record) -> bool:
    """Return whether every model was trained once, so that nothing can be tested over seeds."""
    return max(len(model.seeds) for model in record.models) == 1
