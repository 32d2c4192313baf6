"""Rank the models of a record, name what it measures, and say which may be compared and under which conditions.

Gates, equal sizes and equal tuning decide.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from statistics import fmean
from typing import Literal

from selfattn.evaluation.variances import ALPHA
from selfattn.report.numbers import (
    Scale,
    amount,
    compact,
    estimate_text,
    gap_text,
    myriads,
    number_scale,
    quality_scale,
    score_text,
)
from selfattn.results.plan import PlanCheck
from selfattn.results.quality import BudgetDifference, Estimate, PairTest, Unit, are_separated, find_pair, is_estimable
from selfattn.results.record import Gate, Model, Record, TuningTrial
from selfattn.words.messages import SOURCE, Message, TextLike, has_text, message, name_key, phrase

HowTuned = Literal["tuned", "given", "same"]
OnItems = Literal["ahead", "behind", "close"]


def in_task_words(record: Record, key: str, **values: str | int | Message) -> Message:
    """Return a message by its key, with the texts of the task (`Subject.words`) where the task has its own."""
    words = record.subject.words
    return Message(key, values, {lang: texts[key] for lang, texts in words.items() if key in texts})


def named(record: Record, kind: Literal["metric", "bucket", "gate"], name: str) -> Message:
    """Return the display name of a metric, a bucket or a gate: the task's, the catalogue's, or the name itself.

    Args:
        record: may bring the task's own texts.
        kind: of what it is the name.
        name: in the record.
    """
    display = in_task_words(record, name_key(kind, name))
    return display if display.texts or has_text(display.key) else Message(kind, {"name": name})


def metric_kind(record: Record, name: str) -> Unit | None:
    """Return the unit of a metric, the headline or another; None for a plain number."""
    return record.headline.kind if name == record.headline.metric else record.units.get(name)


def headline_name(record: Record) -> Message:
    """Return the display name of the metric that decides."""
    return named(record, "metric", record.headline.metric)


def headline_unit(record: Record) -> Message:
    """Return the unit of that metric as it is shown, such as %."""
    return message(f"unit.{record.headline.kind}")


def difference_unit(record: Record) -> Message:
    """Return the unit of a difference in that metric; for a number without a unit, what it is a difference in."""
    values = {"metric": headline_name(record)} if record.headline.kind == "number" else {}
    return message(f"difference.{record.headline.kind}", **values)


def caption_words(record: Record) -> dict[str, Message]:
    """Return what captions name: that metric and its unit."""
    return {"metric": headline_name(record), "scale": headline_unit(record)}


def task_pair(record: Record) -> tuple[Model, Model] | None:
    """Return the two models that the task asks about; None where one of them is not in the record."""
    pair = verdict_pair(record)
    return pair if pair and (pair[0].name, pair[1].name) == record.subject.pair else None


def verdict_pair(record: Record) -> tuple[Model, Model] | None:
    """Return the two models that the verdict is about: those of the task's question, or the only two."""
    models = {model.name: model for model in record.models}
    pair = record.subject.pair_among(list(models))
    return (models[pair[0]], models[pair[1]]) if pair else None


def quality(record: Record, model: Model) -> Estimate:
    """Return the headline metric of a model."""
    return model.metrics[record.headline.metric]


def ranked(record: Record) -> tuple[Model, ...]:
    """Return the models with the best mean first, or the fewest examples; equal ones in the order of the record."""
    if record.target is not None:
        arrivals = record.target.models

        def needs(model: Model) -> tuple[float, int]:
            """Return the median number of examples; of models above the cap, those that arrive more often are first."""
            median = arrivals[model.name].median
            return (math.inf if median is None else median), -arrivals[model.name].arrived

        return tuple(sorted(record.models, key=needs))
    sign = -1 if record.headline.better == "higher" else 1
    return tuple(sorted(record.models, key=lambda model: sign * quality(record, model).mean))


def record_scale(record: Record, values: Iterable[float] | None = None) -> Scale:
    """Return the axis of the headline metric: of shares by what is drawn, of points the same for all charts.

    Args:
        record: has the metric and its values.
        values: that are drawn; default the mean of every model.
    """
    kind = record.headline.kind
    scores = [quality(record, model) for model in record.models]
    if kind == "share":
        # Nines are for what comes close to 100 %; a metric that is better when lower should not.
        items = record.test_items if record.headline.better == "higher" else 0
        return quality_scale([score.mean for score in scores] if values is None else values, items)
    tops = [score.mean if score.high is None else score.high for score in scores]
    for model in record.models:
        points = chain.from_iterable(curve.points for curve in model.curves)
        tops += [point.valid for point in points if point.valid is not None]
        tops += [trial.valid for trial in model.trials if trial.valid is not None]
    lowest = min(score.mean if score.low is None else score.low for score in scores)
    if kind == "number" and lowest < 0:
        return number_scale([lowest, 0.0, *tops])
    return quality_scale(tops, 0, kind)


def pair_test(record: Record, first: Model, second: Model) -> PairTest:
    """Return the test of two models in the headline metric, from the first's side."""
    tests = (test for test in record.pairs if test.metric == record.headline.metric)
    return find_pair(tests, first.name, second.name)


def standing_on_items(test: PairTest) -> OnItems:
    """Return how the first of two models with one run each stands on these test items; other runs may differ.

    Example:
        >>> test = PairTest("a", "b", "bleu", 2.0, 1.0, 3.0, 0.001, 0.003, "not told apart")
        >>> standing_on_items(test), standing_on_items(test.swapped())
        ('ahead', 'behind')
    """
    is_clear = test.p_holm < ALPHA and (test.low > 0 or test.high < 0)
    if not is_clear:
        return "close"
    return "ahead" if (test.difference > 0) == (test.better == "higher") else "behind"


def display_name(record: Record, model: Model) -> Message | str:
    """Return a model as a sentence names it, such as "the Transformer"; by its name where it is changed."""
    if model.is_changed or not record.trained:
        return model.name
    words = in_task_words(record, name_key("name", model.name))
    return words if words.texts or has_text(words.key) else model.name


def scores_of(record: Record, first: Model, second: Model, scores: Mapping[str, Estimate] | None = None) -> Message:
    """Return a clause with the scores of two models; default their means in the headline metric."""
    measured = [scores.get(model.name) if scores else quality(record, model) for model in (first, second)]
    a, b = (score_text(estimate, record.headline.kind) for estimate in measured)
    key = name_key("scores", record.headline.metric)
    key = key if has_text(key) else "scores"
    names = {"first": display_name(record, first), "second": display_name(record, second)}
    return message(key, metric=headline_name(record), a=a, b=b, **names)


def gap(record: Record, test: PairTest | BudgetDifference, runs: int) -> Message:
    """Return how far apart two models with so many runs are; of a difference too wide to mean anything, only that."""
    kind = record.headline.kind
    if not is_estimable(test, kind):
        return message("gap.wide", count=runs)
    return message("gap.size", difference=gap_text(test, kind), unit=difference_unit(record), count=runs)


def scores(record: Record, models: Sequence[Model]) -> str:
    """Return names with their scores in one line that needs no language."""
    kind = record.headline.kind
    return ", ".join(f"{model.name} {estimate_text(quality(record, model), kind)}" for model in models)


def is_single(record: Record, *models: Model) -> bool:
    """Return whether every model was trained once, or some of these, so that nothing can be tested over seeds."""
    counts = [len(model.seeds) for model in models or record.models]
    return (min(counts) if models else max(counts)) == 1


def is_one_file(record: Record) -> bool:
    """Return whether outputs of one training each were judged: nothing can be said of other trainings."""
    return not record.trained and is_single(record)


# may they be compared?


def parameter_spread(models: tuple[Model, ...]) -> float:
    """Return (largest - smallest) / smallest of the parameter counts, outside embeddings where known."""
    counts = [model.parameters_non_embedding or model.parameters for model in models]
    return (max(counts) - min(counts)) / max(1, min(counts))


def matched_within(record: Record) -> float:
    """Return how far apart the models are in what they were sized for; in parameters where they were not sized."""
    counts = record.matching.counts.values()
    if record.matching.budget == "none" or not counts:
        return parameter_spread(record.models)
    return (max(counts) - min(counts)) / min(counts)


def failed_gates(record: Record, *, notes: bool = False) -> tuple[Gate, ...]:
    """Return the gates that did not pass, each once a model; with `notes` those that are only noted."""
    failed = [gate for gate in record.gates if not gate.passed and gate.note == notes]
    return tuple({(gate.model, gate.name): gate for gate in failed}.values())


def sound(record: Record) -> tuple[Model, ...]:
    """Return the models that passed all gates of their own, those with the best mean first."""
    aside = {gate.model for gate in failed_gates(record) if gate.model}
    return tuple(model for model in ranked(record) if model.name not in aside)


def comparable(record: Record, *models: Model) -> bool:
    """Return whether something may be said of these models beside each other."""
    return not obstacles(record) and all(model in sound(record) for model in models)


def obstacles(record: Record) -> tuple[Message, ...]:
    """Return why no verdict may be given; nothing where one may.

    A gate on the data or on all models stops the verdict, and so does a gate on a model that the verdict is about. Any
    other model that does not pass is set aside (`set_aside`), and the rest is compared.
    """
    pair = verdict_pair(record)
    names = {model.name for model in record.models}
    needed = {model.name for model in pair} if pair else names
    if not pair and len(sound(record)) >= min(2, len(names)):
        needed = set()
    failed = (gate for gate in failed_gates(record) if not gate.model or gate.model in needed)
    return tuple(_gate_sentence(record, gate) for gate in failed)


def set_aside(record: Record) -> tuple[Message, ...]:
    """Return why models are left out of the verdict, where there is one all the same."""
    if obstacles(record):
        return ()
    return tuple(_gate_sentence(record, gate) for gate in failed_gates(record) if gate.model)


def _gate_sentence(record: Record, gate: Gate) -> Message:
    finding: TextLike = gate.reason  # in English; its numbers in every language
    if gate.value is not None and gate.limit is not None:
        values = {"value": f"{gate.value:.3g}", "limit": f"{gate.limit:.3g}"}
        finding = Message("gates.measured", values, texts={SOURCE: gate.reason})
    key = "obstacle.gate" if gate.model else "obstacle.gate.all"
    return message(key, gate=named(record, "gate", gate.name), model=gate.model, reason=finding)


def matched_statement(record: Record) -> Message:
    """Return how near the models are in size, and in what."""
    matching = record.matching
    apart = matched_within(record)
    key = "badge.matched" if apart <= matching.limit else "badge.unmatched"
    return message(key, size=message(f"budget.{matching.budget}"), percent=amount(100 * apart))


def how_tuned(record: Record) -> HowTuned:
    """Return `tuned` (settings of each model were), `given` or `same`."""
    if record.tuning is not None:
        return "tuned"
    trained = (model.config.get("training") for model in record.models)
    return "given" if any(isinstance(settings, Mapping) and "lr" in settings for settings in trained) else "same"


def trial_score(record: Record, trial: TuningTrial) -> float | None:
    """Return the validation score of a trial; a diverged one scores zero, or nothing where lower is better."""
    if trial.valid is None:
        return 0.0 if record.headline.better == "higher" else None
    return trial.valid


def target_tokens(model: Model) -> float | None:
    """Return the mean number of target tokens in a training; None where it has no learning curve."""
    ends = [curve.points[-1].tokens or 0 for curve in model.curves if curve.points]
    return fmean(ends) if ends else None


def amount_of_training(record: Record, budget: float | None = None) -> Message:
    """Return how much every model was trained at a budget, default the largest: pairs, or tokens where these differ."""
    settings = record.settings
    part = 1.0
    if budgets := record.budgets:
        cell = next((cell for cell in budgets.cells if cell.budget == budget), budgets.cells[-1])
        if budgets.unit == "examples":
            return message("training.distinct", count=f"{cell.examples:,}")
        part = cell.budget / budgets.cells[-1].budget
    tokens = [count for model in record.models if (count := target_tokens(model))]
    steps: set[int] = set()
    for model in record.models:
        steps |= {curve.points[-1].step for curve in model.curves if curve.points}  # one that diverged has none
    batch = settings.get("batch_size")
    epochs = settings.get("epochs")
    per_epoch = settings.get("items_per_epoch")
    of_epochs = None
    if isinstance(epochs, int) and isinstance(per_epoch, int) and not settings.get("max_steps"):
        of_epochs = epochs * per_epoch
    pairs = of_epochs if record.tuning is not None and batch is None else None
    if len(steps) == 1 and isinstance(batch, int) and not settings.get("max_tokens"):
        pairs = steps.pop() * batch * int(str(settings.get("accumulate") or 1))
        pairs = min(pairs, of_epochs or pairs)  # the last batch of an epoch may be smaller
    if pairs is not None:
        return in_task_words(record, "pairs", count=f"{float(f'{part * pairs:.3g}'):,.0f}")
    if not tokens:
        return message("training.unknown")
    ends = [part * min(tokens), part * max(tokens)]
    counts = {lang: "–".join(dict.fromkeys(map(write, ends))) for lang, write in (("en", compact), ("ko", myriads))}
    return message("training.tokens", count=phrase(**counts))


def condition(record: Record) -> Message:
    """Return how much each model was trained, and how its learning rate was chosen."""
    if not record.trained:
        return message("condition.outputs")
    return message(f"condition.{how_tuned(record)}", training=amount_of_training(record))


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
        key = "budgets.same"
        if difference.low > 0 or difference.high < 0:
            key = "budgets.better"
        elif all(runs) and are_separated(*runs):
            key = "budgets.apart"
        values = {
            "training": amount_of_training(record, cell.budget),
            "scores": scores_of(record, first, second, cell.models),
            "gap": gap(record, difference, min(map(len, runs))),
        }
        names = {"model": display_name(record, first), "other": display_name(record, second)}
        sentences.append(message(key, **values, **names))
    ends = budgets.crossing.between or (budgets.cells[0].budget, budgets.cells[-1].budget)
    a, b = (amount_of_training(record, end) for end in ends)
    return [*sentences, message(f"budgets.{budgets.crossing.kind}", a=a, b=b)]


def enumeration(parts: Sequence[TextLike]) -> TextLike:
    """Return an enumeration with "and" before the last part."""
    *others, last = parts
    return message("and", others=enumeration(others), last=last) if others else last


def share(budget: float) -> str:
    """Return a share of the training as a percentage.

    Example:
        >>> share(0.125), share(1.0)
        ('12.5\xa0%', '100\xa0%')
    """
    return f"{100 * budget:.3g}\u00a0%"


def departures(plan: PlanCheck | None) -> list[Message]:
    """Say what was done otherwise than planned."""
    if plan is None:
        return []
    return [message(f"departure.{departure.kind}", what=", ".join(departure.what)) for departure in plan.departures]


def failed_counts(record: Record) -> list[str]:
    """Return each model of which trainings failed, with how many of how many."""
    return [f"{model.name} {len(model.failed)}/{len(model.seeds)}" for model in record.models if model.failed]


def failures(record: Record) -> list[Message]:
    """Say in a sentence how many trainings of which models failed; nothing where none did."""
    total = {model.name: len(model.seeds) for model in record.models}
    counts = failed_counts(record)
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
