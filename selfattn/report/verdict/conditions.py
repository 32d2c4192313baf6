"""Say under which conditions a verdict holds: training, budgets, plan."""

from collections.abc import Sequence
from statistics import fmean

from selfattn.report.drawing.numbers import compact, myriads
from selfattn.report.verdict import ranking
from selfattn.results.plan import DepartureKind, PlanCheck
from selfattn.results.quality import CrossingKind, separated
from selfattn.results.record import Model, Record
from selfattn.words.messages import Message, TextLike, message, phrase

_CONDITIONS: dict[ranking.HowTuned, str] = {
    "tuned": "condition.tuned",
    "given": "condition.given",
    "same": "condition.same",
}
_CROSSINGS: dict[CrossingKind, str] = {
    "located": "budgets.located",
    "not located": "budgets.not located",
    "none seen": "budgets.none seen",
}
_DEPARTURES: dict[DepartureKind, str] = {
    "plan": "departure.plan",
    "ledger": "departure.ledger",
    "settings": "departure.settings",
    "test": "departure.test",
    "before": "departure.before",
    "again": "departure.again",
    "missing": "departure.missing",
    "unrecorded": "departure.unrecorded",
    "tuning": "departure.tuning",
    "costs": "departure.costs",
    "plugins": "departure.plugins",
    "validation": "departure.validation",
}


def target_tokens(model: Model) -> float | None:
    """Return the mean number of target tokens in a training; None where it has no learning curve."""
    ends = [curve.points[-1].tokens or 0 for curve in model.curves if curve.points]
    return fmean(ends) if ends else None


def amount_of_training(record: Record, budget: float | None = None) -> Message:
    """Return how much every model was trained at a budget, default the largest: pairs, or tokens where these differ."""
    budgets = record.budgets
    settings = record.settings
    cell = next((cell for cell in reversed(budgets.cells) if budget in (None, cell.budget)), None) if budgets else None
    if budgets and cell and budgets.unit == "examples":
        return message("training.distinct", count=f"{cell.examples:,}")
    part = cell.budget / budgets.cells[-1].budget if budgets and cell else 1.0
    tokens = [count for model in record.models if (count := target_tokens(model))]
    steps: set[int] = set()
    for model in record.models:
        steps |= {curve.points[-1].step for curve in model.curves if curve.points}  # one that diverged has none
    batch = settings.get("batch_size")
    epochs = settings.get("epochs")
    each = settings.get("items_per_epoch")
    of_epochs = None
    if isinstance(epochs, int) and isinstance(each, int) and not settings.get("max_steps"):
        of_epochs = epochs * each
    pairs = of_epochs if record.tuning is not None and batch is None else None
    if len(steps) == 1 and isinstance(batch, int) and not settings.get("max_tokens"):
        pairs = steps.pop() * batch * int(str(settings.get("accumulate") or 1))
        pairs = min(pairs, of_epochs or pairs)  # the last batch of an epoch may be smaller
    if pairs is not None:
        return ranking.in_task_words(record, "pairs", count=f"{float(f'{part * pairs:.3g}'):,.0f}")
    if not tokens:
        return message("training.unknown")
    ends = [part * min(tokens), part * max(tokens)]
    counts = {lang: "–".join(dict.fromkeys(map(write, ends))) for lang, write in (("en", compact), ("ko", myriads))}
    return message("training.tokens", count=phrase(**counts))


def condition(record: Record) -> Message:
    """Return how much each model was trained, and how its learning rate was chosen."""
    if not record.trained:
        return message("condition.outputs")
    return message(_CONDITIONS[ranking.how_tuned(record)], training=amount_of_training(record))


def budget_outcomes(record: Record) -> list[Message]:
    """Say what two models reach at every budget but the largest, and where their order changes."""
    budgets = record.budgets
    if budgets is None or budgets.pair is None:
        return []
    if budgets.crossing is None:
        return [message("budgets.few")]
    by_name = {model.name: model for model in record.models}
    sentences = []
    for cell in budgets.cells[:-1]:
        if (difference := cell.difference) is None:
            continue
        first, second = (by_name[name] for name in budgets.pair)
        if (difference.difference < 0) == (record.headline.better == "higher"):
            first, second = second, first
        runs = [cell.models[model.name].runs for model in (first, second)]
        is_sure = difference.low > 0 or difference.high < 0
        are_apart = all(runs) and separated(*runs)
        key = "budgets.better" if is_sure else "budgets.apart" if are_apart else "budgets.same"
        values = {
            "training": amount_of_training(record, cell.budget),
            "scores": ranking.scores_of(record, first, second, cell.models),
            "gap": ranking.gap(record, difference, min(map(len, runs))),
        }
        names = {"model": ranking.spoken(record, first), "other": ranking.spoken(record, second)}
        sentences.append(message(key, **values, **names))
    ends = budgets.crossing.between or (budgets.cells[0].budget, budgets.cells[-1].budget)
    a, b = (amount_of_training(record, end) for end in ends)
    return [*sentences, message(_CROSSINGS[budgets.crossing.kind], a=a, b=b)]


def listed(parts: Sequence[TextLike]) -> TextLike:
    """Return an enumeration with "and" before the last part."""
    *others, last = parts
    return message("and", others=listed(others), last=last) if others else last


def share(budget: float) -> str:
    """Return a share of the training as a percentage.

    Example:
        >>> share(0.125), share(1.0)
        ('12.5\xa0%', '100\xa0%')
    """
    return f"{100 * budget:.3g}\u00a0%"


def departures(plan: PlanCheck | None) -> list[Message]:
    """Say what was done otherwise than planned."""
    departures = plan.departures if plan else ()
    return [message(_DEPARTURES[departure.kind], what=", ".join(departure.what)) for departure in departures]


def failures(record: Record) -> list[Message]:
    """Say in a sentence how many trainings of which models failed; nothing where none did."""
    total = {model.name: len(model.seeds) for model in record.models}
    counts = [f"{model.name} {len(model.failed)}/{total[model.name]}" for model in record.models if model.failed]
    for cell in record.budgets.cells[:-1] if record.budgets else ():
        counts += [f"{name} {count}/{total[name]} ({share(cell.budget)})" for name, count in cell.failed.items()]
    return [message("verdict.failed", counts=", ".join(counts))] if counts else []


def cut_off(record: Record) -> list[Message]:
    """Say how many test outputs were cut off at the longest length allowed; nothing where none was."""
    sentences = []
    for model in record.models:
        if model.cut_off:
            total = record.test_items * sum(bool(curve.points) for curve in model.curves)
            count = {"count": f"{model.cut_off:,}", "total": f"{total:,}"}
            sentences.append(message("verdict.cut_off", model=model.name, **count))
    return sentences
