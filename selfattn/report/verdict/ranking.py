"""How every model stands to every other: by the tests of the record, or, where it has none, by its intervals."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import get_args

from selfattn.report.drawing.numbers import estimate_text
from selfattn.report.drawing.scale import Scale, quality_scale
from selfattn.results.pairs import PairTest, Word
from selfattn.results.quality import Better, Estimate
from selfattn.results.record import Model, Record

_LISTED = 5  # models that a sentence names with their figures


class PairOutcome(StrEnum):
    """How one model stands to another."""

    BETTER = "better"
    WORSE = "worse"
    SAME = "same"  # no difference seen
    FEW = "few"  # too few seeds to tell
    UNKNOWN = "unknown"  # one of the two, its interval, or the test was not measured


OUTCOMES: dict[Word, PairOutcome] = dict(zip(get_args(Word), PairOutcome, strict=False))  # the words in their order


@dataclass(frozen=True)
class Relation:
    """What may be said of a model beside another, with the test that says it, where there is one."""

    outcome: PairOutcome
    test: PairTest | None = None


def asked_pair(record: Record) -> tuple[Model, Model] | None:
    """The two models that the task asks about; None where it asks about none, or one of them is not in the record."""
    by_name = {model.name: model for model in record.models}
    names = record.subject.pair
    return (by_name[names[0]], by_name[names[1]]) if names and set(names) <= set(by_name) else None


def judged_pair(record: Record) -> tuple[Model, Model] | None:
    """The two models that the verdict is about: those that the task asks about, or the only two; None if about all."""
    only = (record.models[0], record.models[1]) if len(record.models) == 2 else None
    return asked_pair(record) or only


def quality(record: Record, model: Model) -> Estimate | None:
    """The headline metric of a model; None when it was not measured."""
    return model.metrics.get(record.headline.metric)


def ranked(record: Record) -> tuple[Model, ...]:
    """Models with the best mean first; equal ones in the order of the record, unmeasured ones last."""
    turn = -1 if record.headline.better == "higher" else 1
    means = {model.name: turn * one.mean for model in record.models if (one := quality(record, model))}
    return tuple(sorted(record.models, key=lambda model: (model.name not in means, means.get(model.name, 0.0))))


def record_scale(record: Record) -> Scale:
    """The one axis of the headline metric that all charts of a report share."""
    kind = record.headline.kind
    found = [estimate for model in record.models if (estimate := quality(record, model))]
    tops = [one.mean if kind == "share" or one.high is None else one.high for one in found]
    if kind == "points":
        tops += [p.valid for m in record.models for curve in m.curves for p in curve.points if p.valid is not None]
        tops += [trial.valid for model in record.models for trial in model.tuning]
    # Nines are for what comes close to 100 %, and of what is better where it is lower nothing should.
    items = record.test_items if record.headline.better == "higher" else 0
    return quality_scale(max(tops, default=None), items, kind)


def interval_outcome(first: Estimate | None, second: Estimate | None, better: Better = "higher") -> PairOutcome:
    """How the first stands to the second: better or worse only if their intervals do not touch.

    That is stricter than a test of the difference; it is what can be said where no test was made.

    Example:
        >>> interval_outcome(Estimate(0.9, 0.8, 0.95), Estimate(0.5, 0.4, 0.6)).value
        'better'
        >>> interval_outcome(Estimate(0.9, 0.8, 0.95), Estimate(0.7, 0.6, 0.8)).value
        'same'
    """
    if first is None or first.low is None or first.high is None:
        return PairOutcome.UNKNOWN
    if second is None or second.low is None or second.high is None:
        return PairOutcome.UNKNOWN
    if first.low <= second.high and second.low <= first.high:
        return PairOutcome.SAME
    return PairOutcome.BETTER if (first.low > second.high) == (better == "higher") else PairOutcome.WORSE


def relation(record: Record, first: Model, second: Model) -> Relation:
    """How the first stands to the second in the headline metric."""
    if not record.pairs:
        return Relation(interval_outcome(quality(record, first), quality(record, second), record.headline.better))
    for test in record.pairs:
        if test.metric == record.headline.metric and {test.first, test.second} == {first.name, second.name}:
            test = test if test.first == first.name else test.turned()
            return Relation(OUTCOMES[test.word], test)
    return Relation(PairOutcome.UNKNOWN)


def scores(record: Record, models: tuple[Model, ...]) -> str:
    """Names with their figures, the first few, in one line that needs no language."""
    shown = [f"{model.name} {estimate_text(quality(record, model), record.headline.kind)}" for model in models]
    more = len(shown) - _LISTED
    return ", ".join(shown[:_LISTED]) + (f", … (+{more})" if more > 0 else "")
