"""The question, the verdict and the badges of a comparison: nothing is said that a figure does not carry.

What decides is a mapping from ordered pairs of models to an `Outcome`. `interval_outcomes` makes one from the intervals
of the record (two models differ when their intervals do not touch, which is stricter than a test of the difference);
any other statistics can hand in its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from selfattn.report.numbers import NONE, amount, measure_text, percent_text
from selfattn.report.record import Estimate, Model, Record
from selfattn.report.wordlist import WORDS
from selfattn.report.words import Message, message

PAIR = ("transformer", "rnn-attention")  # the comparison this project is about, when both are in the record
SAME_SIZE = 0.05  # parameters at most this far apart may be called "the same size"
MATCHED = 0.02


class Outcome(StrEnum):
    """How one model stands to another."""

    BETTER = "better"
    WORSE = "worse"
    SAME = "same"  # no difference seen
    UNKNOWN = "unknown"  # one of the two, or its interval, was not measured


Outcomes = Mapping[tuple[str, str], Outcome]


@dataclass(frozen=True)
class Badge:
    """A short fact about the comparison: `ok`, something to `note`, or a warning."""

    kind: Literal["ok", "note", "warn"]
    text: Message


def interval_outcome(first: Estimate | None, second: Estimate | None) -> Outcome:
    """How the first stands to the second: better or worse only if their intervals do not touch.

    Example:
        >>> interval_outcome(Estimate(0.9, 0.8, 0.95), Estimate(0.5, 0.4, 0.6)).value
        'better'
        >>> interval_outcome(Estimate(0.9, 0.8, 0.95), Estimate(0.7, 0.6, 0.8)).value
        'same'
    """
    if first is None or first.low is None or first.high is None:
        return Outcome.UNKNOWN
    if second is None or second.low is None or second.high is None:
        return Outcome.UNKNOWN
    if first.low > second.high:
        return Outcome.BETTER
    return Outcome.WORSE if first.high < second.low else Outcome.SAME


def interval_outcomes(record: Record) -> dict[tuple[str, str], Outcome]:
    """The outcome of every ordered pair of models, from the intervals of their exact match."""
    return {
        (first.name, second.name): interval_outcome(first.exact_match, second.exact_match)
        for first in record.models
        for second in record.models
        if first is not second
    }


def ranked(record: Record) -> tuple[Model, ...]:
    """Models with the highest mean first; equal ones in the order of the record, unmeasured ones last."""
    return tuple(sorted(record.models, key=lambda model: -model.exact_match.mean if model.exact_match else 1))


def standing(model: Model, best: Model, outcomes: Outcomes) -> Message:
    """How a model stands to the one with the highest mean, in two words."""
    if model.exact_match is None:
        return message("standing.unmeasured")
    if model is best:
        return message("standing.highest")
    return message(f"standing.{outcomes[model.name, best.name].value}")


def parameter_spread(models: tuple[Model, ...]) -> float:
    """How far apart the parameter counts are, outside embeddings where known: (largest - smallest) / smallest."""
    bare = [model.parameters_non_embedding for model in models if model.parameters_non_embedding is not None]
    counts = bare if len(bare) == len(models) else [model.parameters for model in models]
    return (max(counts) - min(counts)) / max(1, min(counts))


def question(record: Record) -> Message:
    """The question that the comparison answers."""
    pair = _pair(record)
    if pair and _is_the_pair(record):
        kind = "pair.same" if parameter_spread(pair) <= SAME_SIZE else "pair"
    else:
        kind = "pair.any" if pair else "one" if len(record.models) == 1 else "many"
    key = f"question.{record.task}.{kind}"
    names = {f"name{k}": model.name for k, model in enumerate(pair or record.models[:1])}
    return message(key if key in WORDS else f"question.{kind}", task=record.task, count=len(record.models), **names)


def verdict(record: Record, outcomes: Outcomes) -> tuple[Message, ...]:
    """The answer in a few sentences: the outcome with its figures, cost, what attention is worth, and what is not said.

    Args:
        record: the comparison.
        outcomes: how every model stands to every other, for example `interval_outcomes(record)`.
    """
    pair = _pair(record)
    sentences = [_pair_sentence(record, pair, outcomes) if pair else _field_sentence(record, outcomes)]
    if pair:
        sentences += _time_sentence(pair)
    sentences += _baseline_sentence(record, outcomes)
    sentences.append(_seed_sentence(record))
    return tuple(sentences)


def badges(record: Record) -> tuple[Badge, ...]:
    """Facts that decide how far the verdict can be believed."""
    found = []
    if len(record.models) > 1:
        spread = parameter_spread(record.models)
        percent = amount(100 * spread)
        if spread <= MATCHED:
            found.append(Badge("ok", message("badge.matched", percent=percent)))
        else:
            found.append(Badge("warn", message("badge.unmatched", percent=percent)))
    fewest = min(len(model.seeds) for model in record.models)
    found.append(
        Badge("ok", message("badge.seeds", count=fewest)) if fewest > 1 else Badge("note", message("badge.seed"))
    )
    found.append(Badge("note", message("badge.untuned")))
    if record.settings.get("quick"):
        found.append(Badge("warn", message("badge.quick")))
    return tuple(found)


def scores(models: tuple[Model, ...]) -> str:
    """Names with their figures, in one line that needs no language."""
    return ", ".join(f"{model.name} {percent_text(model.exact_match)}" for model in models)


def _is_the_pair(record: Record) -> bool:
    return set(PAIR) <= {model.name for model in record.models}


def _pair(record: Record) -> tuple[Model, Model] | None:
    """The two models the verdict is about: the project's pair, or the only two there are."""
    by_name = {model.name: model for model in record.models}
    if _is_the_pair(record):
        return by_name[PAIR[0]], by_name[PAIR[1]]
    return (record.models[0], record.models[1]) if len(record.models) == 2 else None


def _items(record: Record) -> Message:
    key = f"items.{record.task}"
    return message(key if key in WORDS else "items", count=f"{record.test_items:,}")


def _pair_sentence(record: Record, pair: tuple[Model, Model], outcomes: Outcomes) -> Message:
    first, second = pair
    outcome = outcomes[first.name, second.name]
    values: dict[str, str | int | Message] = {
        "first": first.name,
        "second": second.name,
        "a": percent_text(first.exact_match),
        "b": percent_text(second.exact_match),
        "items": _items(record),
    }
    missing = [model for model in pair if model.exact_match is None]
    if missing:
        return message("verdict.missing", names=", ".join(model.name for model in missing))
    scope = _scope(record, pair) if outcome in (Outcome.BETTER, Outcome.WORSE) else ""
    return Message(f"verdict.{outcome.value}{scope}", values)


def _field_sentence(record: Record, outcomes: Outcomes) -> Message:
    """The outcome among any number of models: one best, or those that the best cannot be told from."""
    order = tuple(model for model in ranked(record) if model.exact_match)
    if not order:
        return message("verdict.missing", names=", ".join(model.name for model in record.models))
    best, others = order[0], order[1:]
    if not others:
        return message("verdict.alone", scores=scores((best,)), items=_items(record))
    unknown = tuple(model for model in others if outcomes[model.name, best.name] is Outcome.UNKNOWN)
    if unknown:
        return message("verdict.field.unknown", best=scores((best,)), others=scores(unknown), items=_items(record))
    equals = tuple(model for model in others if outcomes[model.name, best.name] is not Outcome.WORSE)
    if equals:
        return message("verdict.field.same", scores=scores((best, *equals)), items=_items(record))
    scope = _scope(record, order)
    return message(f"verdict.field.best{scope}", best=scores((best,)), next=scores(others[:1]), items=_items(record))


def _scope(record: Record, models: tuple[Model, ...]) -> str:
    """What a difference holds for: one run, these seeds, or (with intervals over seeds) any seed."""
    if max(map(_seeds, models)) == 1:
        return ".one"
    return "" if record.interval and record.interval.over == "seeds and items" else ".these"


def _time_sentence(pair: tuple[Model, Model]) -> list[Message]:
    first, second = pair
    a, b = first.timing.train_seconds, second.timing.train_seconds
    if a is None or b is None or b.mean <= 0:
        return []
    one_run = ".one" if max(len(a.runs), len(b.runs)) <= 1 else ""
    return [
        message(
            f"verdict.time{one_run}",
            first=first.name,
            second=second.name,
            a=measure_text(a),
            b=measure_text(b),
            ratio=amount(a.mean / b.mean),
        )
    ]


def _baseline_sentence(record: Record, outcomes: Outcomes) -> list[Message]:
    """What the models without attention reach beside the RNN with attention."""
    without = tuple(model for model in ranked(record) if not model.attention)
    if not without or not _is_the_pair(record):
        return []
    found = {outcomes[model.name, PAIR[1]] for model in without}
    key = f"verdict.baseline.{found.pop().value}" if len(found) == 1 else "verdict.baseline.mixed"
    return [message(key, other=PAIR[1], scores=scores(without) or NONE)]


def _seed_sentence(record: Record) -> Message:
    counts = sorted({_seeds(model) for model in record.models})
    if counts[-1] > 1:
        span = str(counts[0]) if len(counts) == 1 else f"{counts[0]}–{counts[-1]}"
        over = {None: "", "items": ".items", "seeds and items": ".both"}[
            record.interval.over if record.interval else None
        ]
        return message(f"verdict.seeds{over}", count=span)
    seeds = sorted({seed for model in record.models for seed in model.seeds})
    return message("verdict.seed", seed=", ".join(map(str, seeds)))


def _seeds(model: Model) -> int:
    return len(model.seeds)
