"""Say under which conditions a verdict holds: how much training, at which budgets, by which plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean

from selfattn.report.drawing.numbers import amount, compact
from selfattn.report.verdict.ranking import in_task_words, outcome
from selfattn.results.record import Model, Record
from selfattn.words.messages import Message, TextLike, message

_LENGTH = ("epochs", "items_per_epoch", "max_steps", "patience", "target_exact_match")  # decide how long training is
_NAMED = 3  # runs that did not go as planned
_NEAR = 1.05  # times as much still counts as equal


def _tokens(model: Model) -> float | None:
    ends = [curve.points[-1].tokens for curve in model.curves if curve.points]
    return None if not ends or None in ends else fmean(end or 0 for end in ends)


def _seconds(model: Model) -> float | None:
    return None if model.timing.train_seconds is None else model.timing.train_seconds.mean


SPENT: Mapping[str, Callable[[Model], float | None]] = {  # in training, besides parameters
    "tokens": _tokens,
    "flops": lambda model: model.cost.training_flops,
    "seconds": _seconds,
}


def condition(record: Record) -> Message:
    """Return the test items, how much each model was trained, and whether its settings were tuned."""
    items = in_task_words(record, "items", count=f"{record.test_items:,}")
    tokens = [count for model in record.models if (count := _tokens(model)) is not None]
    if len(tokens) < len(record.models):
        return message("condition.items", items=items)
    amounts = dict.fromkeys(compact(count) for count in (min(tokens), max(tokens)))
    training = message("condition.tokens", count="–".join(amounts))
    epochs, pairs = (record.settings.get(name) for name in ("epochs", "items_per_epoch"))
    part = record.budgets.cells[-1].budget if record.budgets and record.budgets.unit == "steps" else 1.0
    differing = {name for model in record.models for name in _training_of(model)}
    ends_early = any(record.settings.get(name) for name in _LENGTH[2 if part == 1 else 3 :]) or differing & set(_LENGTH)
    if isinstance(epochs, int) and isinstance(pairs, int) and not ends_early:
        training = message("condition.pairs", count=f"{round(part * epochs * pairs):,}")
    tuned = min(len(model.tuning) for model in record.models) > 1
    return message("condition.tuned" if tuned else "condition.untuned", items=items, training=training)


def _training_of(model: Model) -> Mapping[str, object]:
    """Return the settings of training in which a model differs from the others."""
    settings = model.config.get("training")
    return settings if isinstance(settings, Mapping) else {}


def open_budgets(record: Record, pair: tuple[Model, Model]) -> list[Message]:
    """Say of FLOPs and time which model used more, where it is not worse: with equal amounts the answer may differ."""
    sentences = []
    for what in ("flops", "seconds"):
        spent = {model.name: SPENT[what](model) or 0.0 for model in pair}
        less, more = sorted(pair, key=lambda model: spent[model.name])
        if not spent[less.name] or record.matching.budget == what:
            continue
        ratio = spent[more.name] / spent[less.name]
        if ratio > _NEAR and outcome(record, more, less) in ("better", "same"):
            what_said = message(f"equal.{what}")
            sentences.append(
                message("verdict.open", what=what_said, more=more.name, less=less.name, ratio=amount(ratio))
            )
    return sentences


def budget_outcomes(record: Record) -> list[Message]:
    """Say at which budgets which of the two models is better, and where their order changes; nothing for one budget.

    A model is better where the simultaneous interval of the difference leaves out 0: all that is said holds at once.
    """
    budgets = record.budgets
    if budgets is None or budgets.pair is None:
        return []
    if budgets.crossing is None:
        return [message("budgets.few")]
    shares: dict[tuple[str, str], list[str]] = {}
    for point in budgets.cells:
        if point.difference:
            better, worse = budgets.pair
            if (point.difference.difference > 0) != (record.headline.better == "higher"):
                better, worse = worse, better
            sure = point.difference.low > 0 or point.difference.high < 0
            apart = _apart(point.models[better].runs, point.models[worse].runs)
            key = "better" if sure else "apart" if apart else "same"
            shares.setdefault((key, "" if key == "same" else better), []).append(share(point.budget))
    sentences = [
        message(f"budgets.{key}", model=model, budgets=_listed(parts)) for (key, model), parts in shares.items()
    ]
    ends = budgets.crossing.between or (budgets.cells[0].budget, budgets.cells[-1].budget)
    return [*sentences, message(f"budgets.{budgets.crossing.kind}", a=share(ends[0]), b=share(ends[1]))]


def _apart(first: Sequence[float], second: Sequence[float]) -> bool:
    """Return whether all runs of one model are better than all runs of the other."""
    return bool(first and second) and (min(first) > max(second) or max(first) < min(second))


def _listed(shares: Sequence[str]) -> TextLike:
    *others, last = shares
    return message("budgets.and", others=", ".join(others), last=last) if others else last


def share(budget: float) -> str:
    """Return a share of the training as a percentage.

    Example:
        >>> share(0.125), share(1.0)
        ('12.5\xa0%', '100\xa0%')
    """
    return f"{100 * budget:.3g}\u00a0%"


def departures(record: Record) -> list[Message]:
    """Say what was done otherwise than planned; of many runs the first few are named."""
    kinds = record.plan.departures if record.plan else ()
    return [message(f"departure.{departure.kind}", what=_first_of(departure.what)) for departure in kinds]


def _first_of(names: Sequence[str]) -> Message | str:
    named, more = ", ".join(names[:_NAMED]), len(names) - _NAMED
    return message("departure.more", names=named, count=more) if more > 0 else named


def failures(record: Record) -> list[Message]:
    """Say which runs diverged, and that they count."""
    if record.budgets is None:
        counts = [(model.name, len(model.failed), 1.0) for model in record.models if model.failed]
    else:
        counts = [(name, count, point.budget) for point in record.budgets.cells for name, count in point.failed.items()]
    return [message("verdict.failed", model=name, count=count, budget=share(part)) for name, count, part in counts]
