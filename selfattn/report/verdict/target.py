"""Say how many training examples each model needs until the target, and how many times as many as the best.

Nothing is said that a number of `Record.target` does not carry.
"""

from collections.abc import Sequence
from dataclasses import replace

from selfattn.report.drawing.numbers import amount
from selfattn.report.verdict.ranking import asked_pair, in_task_words, ranked, spoken
from selfattn.results.plan import parse_axis
from selfattn.results.quality import RatioTest, Target, Word
from selfattn.results.record import Model, Record
from selfattn.words.messages import SOURCE, Message, TextLike, message

_DIGITS = 2  # of a number of examples, and of a ratio
_EDGE = 0.05  # of the range of a setting
_ANSWERS: dict[Word, str] = {"better": "target.yes", "worse": "target.no", "not told apart": "target.undecided"}


def rounded(count: float) -> int:
    """Return a number of examples in two digits.

    Example:
        >>> rounded(15_733), rounded(5_280)
        (16000, 5300)
    """
    return round(float(f"{count:.{_DIGITS}g}"))


def examples_text(record: Record, count: float) -> Message:
    """Return a number of examples in the words of the task, such as "5,300 dates"."""
    return in_task_words(record, "pairs", count=f"{rounded(count):,}")


def ratio_text(test: RatioTest) -> str:
    """Return a ratio with its interval: "1.6 [1.4, 1.9]", "> 3.8 [> 3.2]".

    Example:
        >>> test = RatioTest("a", "b", 1.62, "", 0.01, 0.01, "worse", 1.38, 1.91)
        >>> ratio_text(test).replace("\\u00a0", " ")
        '1.6 [1.4, 1.9]'
    """
    sign = {"more": ">\u00a0", "fewer": "<\u00a0"}.get(test.bound, "")
    text = f"{sign}{amount(test.ratio)}"
    if test.low is not None and test.high is not None:
        return f"{text} [{amount(test.low)},\u00a0{amount(test.high)}]"
    if test.low is not None:
        return f"{text} [>\u00a0{amount(test.low)}]"
    return f"{text} [<\u00a0{amount(test.high)}]" if test.high is not None else text


def question(record: Record, target: Target) -> Message:
    """Return the question: of the task about its two models, or how many examples each model needs."""
    key = "question.target" if asked_pair(record) else "question.target.any"
    return in_task_words(record, key, percent=amount(100 * target.share))


def lead(record: Record, target: Target) -> Message:
    """Return the answer in one sentence: what the best model needs, and the others in comparison."""
    best, *others = ranked(record)
    median = target.models[best.name].median
    if median is None:
        cap = examples_text(record, target.cap)
        return message("target.nobody", cap=cap, percent=amount(100 * target.share))
    clauses = [_clause(record, target, model, best) for model in others]
    values: dict[str, TextLike] = {
        "answer": _answer(record, target),
        "model": spoken(record, best),
        "count": examples_text(record, median),
        "percent": amount(100 * target.share),
        "others": join_and(clauses),
    }
    return in_task_words(record, "target.lead" if others else "target.alone", **values)


def _answer(record: Record, target: Target) -> TextLike:
    """Return the answer to the question about the task's pair; nothing where the question is another."""
    pair = asked_pair(record)
    if pair is None:
        return ""
    test = target.pair(pair[0].name, pair[1].name)
    return message("target.rough") if _is_rough(target) else message(_ANSWERS[test.word])


def _is_rough(target: Target) -> bool:
    """Say whether the runs are too few to tell any models apart."""
    return all(test.low is None and test.high is None for test in target.pairs)


def _clause(record: Record, target: Target, model: Model, best: Model) -> Message:
    test = target.pair(model.name, best.name)
    values: dict[str, TextLike] = {"model": spoken(record, model), "ratio": ratio_text(test)}
    if test.bound == "more":
        return message("target.more", **values | {"ratio": ratio_text(replace(test, bound=""))})
    if test.word == "not told apart" and not _is_rough(target):
        return message("target.alike", **values)
    return message("target.times", **values)


def join_and(texts: Sequence[Message]) -> Message:
    """Join clauses with commas, the last with "and"."""
    places = [f"{{part{k}}}" for k in range(len(texts))]
    comma = ", ".join(places)
    joined = f"{', '.join(places[:-1])} and {places[-1]}" if len(places) > 1 else comma
    return Message("", {f"part{k}": text for k, text in enumerate(texts)}, {SOURCE: joined, "ko": comma})


def sentences(record: Record, target: Target) -> list[Message]:
    """Return what belongs to the answer: runs and intervals, runs that did not arrive, choices at an edge, the test."""
    count = min(len(arrivals.examples) for arrivals in target.models.values())
    few = _is_rough(target)
    says = [message("target.runs.few" if few else "target.runs", count=count)]
    for model in ranked(record):
        arrivals = target.models[model.name]
        if missing := len(arrivals.examples) - arrivals.arrived:
            cap = examples_text(record, target.cap)
            total = len(arrivals.examples)
            says.append(message("target.missing", model=spoken(record, model), count=missing, total=total, cap=cap))
    for model in record.models:
        if names := at_edge(record, model):
            says.append(message("target.edge", model=spoken(record, model), settings=names))
    return says


def at_edge(record: Record, model: Model) -> str:
    """Name the settings of which most tunings chose a value at the same end of what was tried."""
    chosen = [trial.settings for trial in model.trials if trial.chosen]
    names = []
    for name, text in (record.tuning.space.get(model.name, {}) if record.tuning else {}).items():
        axis = parse_axis(f"{name}={text}")
        values = [settings[name] for settings in chosen if isinstance(settings.get(name), int | float)]
        places = [axis.place(float(str(value))) for value in values]
        width = 1 / len(axis.values) if axis.values else _EDGE
        ends = (sum(place < width for place in places), sum(place > 1 - width for place in places))
        if 2 * max(ends) > len(chosen):
            names.append(name)
    return ", ".join(names)
