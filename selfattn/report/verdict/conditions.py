"""Under which budget a verdict stands, and what it leaves open under others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from statistics import fmean

from selfattn.figures.record import Model, Record
from selfattn.report.drawing.numbers import amount, compact, value_text
from selfattn.report.verdict.comparability import matched_statement
from selfattn.report.verdict.ranking import PairOutcome, relation
from selfattn.report.words.messages import Message, message

_NEAR = 1.05  # times as much is still called equal


def _tokens(model: Model) -> float | None:
    ends = [curve.points[-1].tokens for curve in model.curves if curve.points]
    return None if not ends or None in ends else fmean(end or 0 for end in ends)


def _seconds(model: Model) -> float | None:
    return None if model.timing.train_seconds is None else model.timing.train_seconds.mean


SPENT: Mapping[str, Callable[[Model], float | None]] = {  # in training, besides its parameters
    "tokens": _tokens,
    "flops": lambda model: model.cost.training_flops,
    "seconds": _seconds,
}


def budget_sentence(record: Record) -> list[Message]:
    """How much training the verdict is about, and of models of which size; nothing where it was not recorded."""
    tokens = [found for model in record.models if (found := _tokens(model)) is not None]
    if len(tokens) < len(record.models) or len(tokens) < 2:
        return []
    texts = dict.fromkeys(compact(count) for count in (min(tokens), max(tokens)))
    return [message("verdict.budget", tokens="–".join(texts), size=matched_statement(record))]


def open_budgets(record: Record, pair: tuple[Model, Model]) -> list[Message]:
    """Of FLOPs and time, what the model that is not worse had more of: with as much the answer may be another.

    The better one with less of a budget would be better yet with as much. With more of it, nothing follows; but where
    it had spent what the other spent in all, its validations of then say on which side it was, if all runs agree.
    """
    found = []
    for what in ("flops", "seconds"):
        spent = {model.name: SPENT[what](model) or 0.0 for model in pair}
        less, more = sorted(pair, key=lambda model: spent[model.name])
        if not spent[less.name] or record.matching.budget == what:
            continue
        ratio = spent[more.name] / spent[less.name]
        if ratio <= _NEAR or relation(record, more, less).outcome not in (PairOutcome.BETTER, PairOutcome.SAME):
            continue
        of: dict[str, str | Message] = {
            "what": message(f"equal.{what}"),
            "more": more.name,
            "less": less.name,
            "ratio": amount(ratio),
        }
        then, ends = _validated_at(more, 1 / ratio), _validated_at(less, 1.0)
        low, high = (then, ends) if record.headline.better == "higher" else (ends, then)
        if low and high and max(low) < min(high):
            a, b = (value_text(fmean(values), record.headline.kind) for values in (then, ends))
            found.append(message("verdict.turns", **of, a=a, b=b))
        else:
            found.append(message("verdict.open", **of))
    return found


def _validated_at(model: Model, share: float) -> list[float]:
    """The headline metric of each run at a share of its training, on lines between validations; empty where unknown."""
    found = []
    for curve in model.curves:
        points = [(point.step, point.valid) for point in curve.points if point.valid is not None]
        at = share * curve.points[-1].step if points else 0.0
        if not points or at < points[0][0]:
            return []
        left = max(point for point in points if point[0] <= at)
        right = min((point for point in points if point[0] >= at), default=left)
        part = (at - left[0]) / (right[0] - left[0]) if right[0] > left[0] else 0.0
        found.append(left[1] + part * (right[1] - left[1]))
    return found
