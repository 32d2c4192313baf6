"""Say under which conditions a verdict holds: how much training, at which learning rates and budgets, by which plan."""

from collections.abc import Sequence
from statistics import fmean

from selfattn.report.drawing.numbers import compact, myriads, value_text
from selfattn.report.verdict.ranking import (
    HowTuned,
    difference_unit,
    gap,
    how_tuned,
    in_task_words,
    rate_scores,
    scores_of,
    spoken,
)
from selfattn.report.verdict.wrong_settings import FACTOR, cost_of_wrong
from selfattn.results.pair_tests import separated
from selfattn.results.plan import DepartureKind, PlanCheck
from selfattn.results.quality import CrossingKind
from selfattn.results.record import Model, Record
from selfattn.words.messages import SOURCE, Message, TextLike, message, phrase

_FACTORS = (1.5, 10.0)  # between which a learning rate is called wrong
_CONDITIONS: dict[HowTuned, str] = {
    "tuned": "condition.tuned",
    "rates": "condition.rates",
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
        finished = [curve for curve in model.curves if curve.points and curve.seed not in model.failed]
        steps |= {curve.points[-1].step for curve in finished}
    batch = settings.get("batch_size")
    if len(steps) == 1 and isinstance(batch, int) and not settings.get("max_tokens"):
        pairs = steps.pop() * batch * int(str(settings.get("accumulate") or 1))
        epochs = settings.get("epochs")
        each = settings.get("items_per_epoch")
        if isinstance(epochs, int) and isinstance(each, int) and not settings.get("max_steps"):
            pairs = min(pairs, epochs * each)  # the last batch of an epoch may be smaller
        return in_task_words(record, "pairs", count=f"{float(f'{part * pairs:.3g}'):,.0f}")
    tuned = record.tuning is not None and batch is None
    epochs = settings.get("epochs")
    each = settings.get("items_per_epoch")
    if tuned and isinstance(epochs, int) and isinstance(each, int) and not settings.get("max_steps"):
        return in_task_words(record, "pairs", count=f"{float(f'{part * epochs * each:.3g}'):,.0f}")
    if not tokens:
        return message("training.unknown")
    ends = [part * min(tokens), part * max(tokens)]
    counts = {lang: "–".join(dict.fromkeys(map(write, ends))) for lang, write in (("en", compact), ("ko", myriads))}
    return message("training.tokens", count=phrase(**counts))


def condition(record: Record) -> Message:
    """Return how much each model was trained, and how its learning rate was chosen."""
    if not record.trained:
        return message("condition.outputs")
    return message(_CONDITIONS[how_tuned(record)], training=amount_of_training(record))


def wrong_rate(record: Record, models: Sequence[Model]) -> list[Message]:
    """Say what a wrong learning rate costs; nothing where rates were not tried for all of these models."""
    if record.tuning is not None:
        return _tuned_wrong_rate(record, models)
    turn = 1 if record.headline.better == "higher" else -1
    costs = []
    for model in models:
        means = {rate: turn * fmean(scores) for rate, scores in rate_scores(record, model).items()}
        best = max(means, key=means.__getitem__, default=0.0)
        lost: dict[float, float] = {}
        for rate, mean in means.items():
            factor = float(f"{max(rate / best, best / rate):.2g}")
            lost[factor] = max(lost.get(factor, 0.0), means[best] - mean)
        costs.append(lost)
    low, high = _FACTORS
    shared = [factor for factor in set.intersection(*map(set, costs)) if low <= factor <= high] if costs else []
    if not shared:
        return []
    kind = record.headline.kind
    factor = max(shared)
    points = [value_text(lost[factor], kind, 0).removesuffix("\u00a0%") for lost in costs]
    unit = difference_unit(record)
    texts = [
        message("rate.cost", model=spoken(record, model), cost=cost)
        for model, cost in zip(models, in_list(points, unit), strict=True)
    ]
    return [message("rate.wrong", factor=f"{factor:g}", costs=listed(texts), unit=unit)]


def _tuned_wrong_rate(record: Record, models: Sequence[Model]) -> list[Message]:
    """Say it by fresh runs with the chosen settings, against trials that no choice has selected."""
    kind = record.headline.kind
    costs: list[str] = []
    for model in models:
        lost = cost_of_wrong(record, model).lost_by_rate
        if lost is None:
            return []
        costs.append(value_text(max(0.0, lost), kind, 0).removesuffix("\u00a0%"))
    unit = difference_unit(record)
    texts = [
        message("rate.loss", model=spoken(record, model), cost=cost)
        for model, cost in zip(models, in_list(costs, unit), strict=True)
    ]
    return [message("rate.tuned", factor=f"{FACTOR:g}", costs=listed(texts), unit=unit)] if texts else []


def in_list(numbers: Sequence[str], unit: Message) -> list[TextLike]:
    """Return numbers for an enumeration before a unit; Korean writes the unit after each, the last one's follows.

    Example:
        >>> from selfattn.words.messages import text_of
        >>> first, last = in_list(["30", "71"], message("difference.share"))
        >>> text_of(first, "en"), text_of(first, "ko"), text_of(last, "ko")
        ('30', '30%p', '71')
    """
    texts = {SOURCE: "{number}", "ko": "{number}{unit}"}
    return [*(Message("", {"number": number, "unit": unit}, texts) for number in numbers[:-1]), *numbers[-1:]]


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
            "scores": scores_of(record, first, second, cell.models),
            "gap": gap(record, difference, min(map(len, runs))),
        }
        names = {"model": spoken(record, first), "other": spoken(record, second)}
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
    """Say which runs diverged, and that they count."""
    if record.budgets is None:
        counts = [(model.name, len(model.failed), 1.0) for model in record.models if model.failed]
    else:
        counts = []
        for cell in record.budgets.cells:
            counts += [(name, count, cell.budget) for name, count in cell.failed.items()]
    return [message("verdict.failed", model=name, count=count, budget=share(part)) for name, count, part in counts]


def cut_off(record: Record) -> list[Message]:
    """Say how many test outputs were cut off at the longest length allowed; nothing where none was."""
    sentences = []
    for model in record.models:
        if model.cut_off:
            total = record.test_items * (len(model.seeds) - len(model.failed))
            count = {"count": f"{model.cut_off:,}", "total": f"{total:,}"}
            sentences.append(message("verdict.cut_off", model=model.name, **count))
    return sentences
