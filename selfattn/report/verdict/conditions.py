"""Under which budget a verdict stands, and what it leaves open under others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean

from selfattn.report.drawing.numbers import amount, compact, value_text
from selfattn.report.verdict.ranking import PairOutcome, relation
from selfattn.results.record import Model, Record
from selfattn.words.messages import Message, Said, message

_OTHER_ENDS = ("max_steps", "patience", "target_exact_match")  # of a training than that of its last epoch
_NAMED = 3  # runs that did not go as planned
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


def given(record: Record, items: Message) -> Message:
    """The items with what the answer was given: how much training, and with which settings.

    Nothing is added where it was not recorded.
    """
    tokens = [found for model in record.models if (found := _tokens(model)) is not None]
    if len(tokens) < len(record.models) or len(tokens) < 2:
        return items
    texts = dict.fromkeys(compact(count) for count in (min(tokens), max(tokens)))
    amount = message("given.tokens", count="–".join(texts))
    epochs, pairs = (record.settings.get(name) for name in ("epochs", "items_per_epoch"))
    part = record.budgets.found[-1].budget if record.budgets and record.budgets.unit == "steps" else 1.0
    ends_early = any(record.settings.get(name) for name in (_OTHER_ENDS if part == 1 else _OTHER_ENDS[1:]))
    if isinstance(epochs, int) and isinstance(pairs, int) and not ends_early:
        amount = message("given.pairs", count=f"{round(part * epochs * pairs):,}")
    is_tuned = min(len(model.tuning) for model in record.models) > 1
    settings = message("given.tuned" if is_tuned else "given.untuned")
    return message("given", items=items, amount=amount, settings=settings)


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


def budget_outcomes(record: Record) -> list[Message]:
    """For which budgets which of the two models is better, and where their order changes; nothing for one budget.

    Better is who is so for certain by simultaneous intervals: all that is said holds at once.
    """
    budgets = record.budgets
    if budgets is None or budgets.pair is None:
        return []
    if budgets.crossing is None:
        return [message("budgets.few")]
    shares: dict[int, list[str]] = {1: [], -1: [], 0: []}
    for one in budgets.found:
        if one.difference:
            side = (one.difference.low > 0) - (one.difference.high < 0)
            shares[side if record.headline.better == "higher" else -side].append(share(one.budget))
    found = [
        message("budgets.better", model=model, budgets=_listed(shares[side]))
        for side, model in zip((1, -1), budgets.pair, strict=True)
        if shares[side]
    ]
    found += [message("budgets.same", budgets=_listed(shares[0]))] if shares[0] else []
    ends = budgets.crossing.between or (budgets.found[0].budget, budgets.found[-1].budget)
    return [*found, message(f"budgets.{budgets.crossing.kind}", a=share(ends[0]), b=share(ends[1]))]


def _listed(shares: Sequence[str]) -> Said:
    *others, last = shares
    return message("budgets.and", others=", ".join(others), last=last) if others else last


def share(budget: float) -> str:
    """A share of the training.

    Example:
        >>> share(0.125), share(1.0)
        ('12.5\xa0%', '100\xa0%')
    """
    return f"{100 * budget:.3g}\u00a0%"


def departures(record: Record) -> list[Message]:
    """What was done otherwise than planned; of many runs the first few are named."""
    found = record.protocol.departures if record.protocol else ()
    return [message(f"departure.{one.kind}", what=_first_of(one.what)) for one in found]


def _first_of(names: Sequence[str]) -> Message | str:
    named, more = ", ".join(names[:_NAMED]), len(names) - _NAMED
    return message("departure.more", names=named, count=more) if more > 0 else named


def failures(record: Record) -> list[Message]:
    """Which trainings diverged, and that they count."""
    if record.budgets is None:
        counts = [(model.name, len(model.failed), 1.0) for model in record.models if model.failed]
    else:
        counts = [(name, count, one.budget) for one in record.budgets.found for name, count in one.failed.items()]
    return [message("verdict.failed", model=name, count=count, budget=share(part)) for name, count, part in counts]
