"""Say under which conditions a verdict holds: training, budgets, plan, and what wrong learning rates cost."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from selfattn.report.drawing.numbers import compact, myriads, value_text
from selfattn.report.verdict import ranking
from selfattn.results.pair_tests import separated
from selfattn.results.plan import DepartureKind, PlanCheck
from selfattn.results.quality import CrossingKind, Curve
from selfattn.results.record import Model, Record, TuningTrial
from selfattn.words.messages import SOURCE, Message, TextLike, message, phrase

FACTOR = 4.0  # from which on a learning rate is called wrong
_FACTORS = (1.5, 10.0)  # between which a learning rate is called wrong
_CONDITIONS: dict[ranking.HowTuned, str] = {
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


@dataclass(frozen=True)
class Wrong:
    """Scores on validation items; None where there is nothing to average.

    Attributes:
        fresh: mean of the runs with the chosen settings, whose seeds no trial has.
        selected: mean of the trials that were chosen, which are too good for having been chosen.
        any_setting: mean of all trials: what to expect of settings drawn from the space.
        lost: what settings drawn from the space lose against fresh runs with the chosen ones.
        lost_by_rate: the same for trials of other tunings whose learning rate is wrong by `FACTOR` or more.
    """

    fresh: float | None
    selected: float | None
    any_setting: float | None
    lost: float | None
    lost_by_rate: float | None


def cost_of_wrong(record: Record, model: Model) -> Wrong:
    """Return what wrong settings cost a model at the largest budget.

    The trial that was chosen in a tuning is the best of several, and so too good: what is chosen is measured by fresh
    runs. Trials of another tuning were not chosen against it, so that their mean has no such bias.

    Args:
        record: of the comparison.
        model: with its trials and the learning curves of its runs.
    """
    trials = [trial for trial in model.trials if trial.budget is None]
    best = max if record.headline.better == "higher" else min
    scores: list[float] = []
    wrong: list[float] = []
    for place, seed in enumerate(model.seeds):
        curve = next((curve for curve in model.curves if curve.seed == seed), None)
        if valid := _validated(curve):
            scores.append(best(valid))
            apart = _wrong_rates(record, trials, model.tunings[place] if model.tunings else 0)
            wrong += [best(valid) - other for other in apart]
    fresh = fmean(scores) if scores else None
    everything = _mean(record, trials)
    turn = 1 if record.headline.better == "higher" else -1
    lost = None if fresh is None or everything is None else turn * (fresh - everything)
    by_rate = turn * fmean(wrong) if wrong else None
    return Wrong(fresh, _mean(record, [trial for trial in trials if trial.chosen]), everything, lost, by_rate)


def _validated(curve: Curve | None) -> list[float]:
    """Return the scores of the validations; points between them are measured on few items."""
    points = [point for point in curve.points if point.valid is not None] if curve else []
    validations = [point for point in points if point.valid_loss is not None]
    return [point.valid for point in validations or points if point.valid is not None]


def _mean(record: Record, trials: Sequence[TuningTrial]) -> float | None:
    scores = [score for trial in trials if (score := ranking.trial_score(record, trial)) is not None]
    return fmean(scores) if scores else None


def _wrong_rates(record: Record, trials: Sequence[TuningTrial], tuning: int) -> list[float]:
    """Return the scores of the trials whose rate is far from the choice of a tuning, but for those of this tuning."""
    chosen = next((trial.settings.get("lr") for trial in trials if trial.chosen and trial.tuning == tuning), None)
    several = len({trial.tuning for trial in trials}) > 1
    scores: list[float] = []
    for trial in trials:
        rate = trial.settings.get("lr")
        if not isinstance(rate, float) or not isinstance(chosen, float) or (several and trial.tuning == tuning):
            continue
        score = ranking.trial_score(record, trial)
        if score is not None and max(rate / chosen, chosen / rate) >= FACTOR:
            scores.append(score)
    return scores


def wrong_rate(record: Record, models: Sequence[Model]) -> list[Message]:
    """Say what a wrong learning rate costs; nothing where rates were not tried for all of these models.

    Fresh runs with the chosen settings stand against trials that no choice has selected; in older records the best rate
    against others.
    """
    key = "rate.loss"
    sentence = "rate.tuned"
    factor = FACTOR
    known = [cost_of_wrong(record, model).lost_by_rate for model in models]
    costs = [max(0.0, lost) for lost in known if lost is not None]
    if record.tuning is None:
        key = "rate.cost"
        sentence = "rate.wrong"
        factor, costs = _costs_of_rates(record, models)
    if not costs or len(costs) < len(models):
        return []
    points = [value_text(cost, record.headline.kind, 0).removesuffix("\u00a0%") for cost in costs]
    unit = ranking.difference_unit(record)
    texts = [
        message(key, model=ranking.spoken(record, model), cost=cost)
        for model, cost in zip(models, in_list(points, unit), strict=True)
    ]
    return [message(sentence, factor=f"{factor:g}", costs=listed(texts), unit=unit)]


def _costs_of_rates(record: Record, models: Sequence[Model]) -> tuple[float, list[float]]:
    """Return the largest factor by which rates of all models are wrong, and what it costs each; nothing without any."""
    turn = 1 if record.headline.better == "higher" else -1
    costs = []
    for model in models:
        means = {rate: turn * fmean(scores) for rate, scores in ranking.rate_scores(record, model).items()}
        best = max(means, key=means.__getitem__, default=0.0)
        lost: dict[float, float] = {}
        for rate, mean in means.items():
            factor = float(f"{max(rate / best, best / rate):.2g}")
            lost[factor] = max(lost.get(factor, 0.0), means[best] - mean)
        costs.append(lost)
    low, high = _FACTORS
    shared = [factor for factor in set.intersection(*map(set, costs)) if low <= factor <= high] if costs else []
    return max(shared, default=0.0), [lost[max(shared)] for lost in costs if shared]


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
