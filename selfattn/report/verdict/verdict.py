"""The question and the verdict of a comparison: nothing is said that a figure does not carry.

Words follow the tests of the record (`Record.pairs`); where it has none, its intervals. A sanity gate that did not
pass, or models of unequal size that were to be equal, leave nothing to be said but that.
"""

from __future__ import annotations

from selfattn.evaluation.statistics.design import POWER, most_failing, seeds_needed, smallest_detectable
from selfattn.evaluation.statistics.significance import MIN_SEEDS
from selfattn.report.blocks import Verdict
from selfattn.report.drawing.numbers import (
    NONE,
    amount,
    difference_text,
    estimate_text,
    measure_text,
    p_text,
    share_text,
)
from selfattn.report.verdict.comparability import (
    badges,
    below_baseline,
    comparable,
    obstacles,
    parameter_spread,
    set_aside,
    sound,
)
from selfattn.report.verdict.conditions import budget_outcomes, departures, failures, given, open_budgets
from selfattn.report.verdict.names import headline_name, in_task_words
from selfattn.report.verdict.ranking import PairOutcome, asked_pair, judged_pair, quality, ranked, relation, scores
from selfattn.results.pairs import PairTest
from selfattn.results.record import Model, Record
from selfattn.words.messages import Message, message

SAME_SIZE = 0.05  # parameters at most this far apart, bodies twice, may be called "the same size"
_GOOD = 0.99  # of a share: nothing of a run so good has failed
LISTED = 4  # obstacles that the verdict spells out


def question(record: Record) -> Message:
    """The question that the comparison answers."""
    pair = judged_pair(record)
    if pair and asked_pair(record):
        bodies = [model.parameters_body or 1 for model in pair]
        same = parameter_spread(pair) <= SAME_SIZE and max(bodies) <= (1 + 2 * SAME_SIZE) * min(bodies)
        kind = "pair.same" if same else "pair"
    else:
        kind = "pair.any" if pair else "one" if len(record.models) == 1 else "many"
    names = {f"name{k}": model.name for k, model in enumerate(pair or record.models[:1])}
    return in_task_words(record, f"question.{kind}", task=record.task, count=len(record.models), **names)


def verdict(record: Record) -> Verdict:
    """The question, the answer in a few sentences, and how far it can be believed."""
    asks, facts, source, stops = question(record), badges(record), origin(record), obstacles(record)
    if stops:
        figures = message("verdict.stopped.figures", scores=scores(record, ranked(record)), **_what(record))
        notes = (*failures(record), *departures(record), *below_baseline(record), _seed_sentence(record))
        rest = (*_listed(stops)[1:], figures, *notes)
        return Verdict(asks, message("verdict.stopped", reason=stops[0]), rest, True, (), facts, source)
    pair = judged_pair(record)
    lead, test = _pair_sentence(record, pair) if pair else _field_sentence(record)
    others: list[Message] = [*_test_sentence(record, test), *failures(record), *departures(record)]
    if pair:
        others[1:1] = budget_outcomes(record)
        same = relation(record, *pair).outcome is PairOutcome.SAME
        others += [*(_design_sentence(record, pair) if same else ()), *_saturated_sentence(record, pair)]
        others += [*open_budgets(record, pair), *_time_sentence(record, pair)]
    others += [*below_baseline(record), *([] if _several_seeds(record) else [_seed_sentence(record)])]
    aside = tuple(message("verdict.aside", reason=reason) for reason in set_aside(record))
    return Verdict(asks, lead, tuple(others), False, _listed(aside), facts, source)


def limits(record: Record) -> tuple[Message, ...]:
    """What else belongs to the answer, and what it leaves open; nothing where there is no answer."""
    if obstacles(record):
        return ()
    pair = judged_pair(record)
    test = relation(record, *pair).test if pair else None
    exploratory = sum(other.metric == test.metric for other in record.pairs) - 1 if test and test.primary else 0
    found = [message("verdict.primary", **_names(test), pairs=exploratory)] if test and exploratory else []
    seeds = [_seed_sentence(record)] if _several_seeds(record) else []
    decided = pair and relation(record, *pair).outcome is not PairOutcome.SAME
    found += _design_sentence(record, pair) if pair and decided else []
    return (*found, *seeds, *_ceiling_sentence(record), *_baseline_sentence(record), *_plan_sentence(record))


def _design_sentence(record: Record, pair: tuple[Model, Model]) -> list[Message]:
    """The smallest difference that this comparison could have found; nothing where runs are too few to say."""
    test = relation(record, *pair).test
    first, second = (one.runs if (one := quality(record, model)) else () for model in pair)
    if test is None or min(len(first), len(second)) < MIN_SEEDS:
        return []
    half = (test.high - test.low) / 2
    smallest = smallest_detectable(first, second, half)
    if not smallest > 0:
        return []
    seeds, kind = seeds_needed(smallest / 2, first, second, half), record.headline.kind
    found, power = amount(100 * smallest if kind == "share" else smallest), share_text(POWER, 0)
    key = "verdict.design" if seeds else "verdict.design.items"
    return [message(key, smallest=found, unit=message(f"difference.{kind}"), power=power, seeds=seeds or 0)]


def _plan_sentence(record: Record) -> list[Message]:
    protocol = record.protocol
    if protocol is None:
        return []
    runs = len({look.run for look in protocol.looks})
    of = {"created": protocol.seal.created[:16].replace("T", "\u00a0"), "sha": protocol.seal.sha256[:12]}
    draw = record.settings.get("test_draw")
    fresh = [message("protocol.draw", draw=draw)] if isinstance(draw, int) else []
    return [message("protocol.plan", **of, looks=len(protocol.looks), runs=runs), *fresh]


def _listed(reasons: tuple[Message, ...]) -> tuple[Message, ...]:
    """The first few, and how many there are beside."""
    more = [message("verdict.stopped.more", count=len(reasons) - LISTED)] if len(reasons) > LISTED else []
    return (*reasons[:LISTED], *more)


def origin(record: Record) -> tuple[str, ...]:
    """Where the record comes from: task, locales or languages, day, commit."""
    locales = record.settings.get("locales")
    languages = [record.settings.get(f"{side}_language") for side in ("source", "target")]
    named = ", ".join(map(str, locales)) if isinstance(locales, list) else ""
    named = " → ".join(map(str, languages)) if all(languages) else named
    commit = str(record.environment.get("commit") or "")[:7]
    return tuple(part for part in (record.task, named, record.created[:10], commit) if part)


def standing(record: Record, model: Model) -> Message:
    """How a model stands to the one with the best mean, in two words."""
    best, own = best_of(record), quality(record, model)
    top = quality(record, best)
    if own is None or top is None:
        return message("standing.unmeasured")
    if model is not best and not obstacles(record) and not comparable(record, model, best):
        return message("standing.stopped")
    if own.mean == top.mean:
        return message("standing.highest" if record.headline.better == "higher" else "standing.lowest")
    if obstacles(record):
        return message("standing.stopped")
    return message(f"standing.{relation(record, model, best).outcome.value}")


def best_of(record: Record) -> Model:
    """The model with the best mean of those that may be compared, or of all where none may."""
    return (ranked(record) if obstacles(record) else sound(record))[0]


def _what(record: Record, *, measured: bool = True) -> dict[str, str | int | Message]:
    """What was measured, on what, under which conditions."""
    items = in_task_words(record, "items", count=f"{record.test_items:,}")
    return {"metric": headline_name(record), "items": given(record, items) if measured else items}


def _pair_sentence(record: Record, pair: tuple[Model, Model]) -> tuple[Message, PairTest | None]:
    first, second = pair
    missing = [model for model in pair if quality(record, model) is None]
    if missing:
        return message(
            "verdict.missing", names=", ".join(m.name for m in missing), **_what(record, measured=False)
        ), None
    found = relation(record, first, second)
    decided = found.outcome in (PairOutcome.BETTER, PairOutcome.WORSE)
    values: dict[str, str | int | Message] = {
        "first": first.name,
        "second": second.name,
        "a": estimate_text(quality(record, first), record.headline.kind),
        "b": estimate_text(quality(record, second), record.headline.kind),
        **_what(record),
    }
    key = f"verdict.{found.outcome.value}{_scope(record, pair) if decided else ''}"
    if record.margin is not None and found.test and found.outcome is not PairOutcome.FEW:
        word = found.test.beside(record.margin / (100 if record.headline.kind == "share" else 1))
        alone = word in ("equivalent", "cannot tell")
        key = f"verdict.margin.{word}" if alone else f"verdict.margin.{found.outcome.value}.{word}"
        unit = message(f"difference.{record.headline.kind}")
        values["margin"] = message("verdict.margin", margin=f"{record.margin:g}", unit=unit)
    return Message(key, values), found.test


def _field_sentence(record: Record) -> tuple[Message, PairTest | None]:
    """The outcome among any number of models: one best, or those that the best cannot be told from."""
    order = tuple(model for model in sound(record) if quality(record, model))
    what = _what(record)
    if not order:
        bare = _what(record, measured=False)
        return message("verdict.missing", names=", ".join(m.name for m in record.models), **bare), None
    best, others = order[0], order[1:]
    if not others:
        return message("verdict.alone", scores=scores(record, (best,)), **what), None
    found = {model.name: relation(record, model, best) for model in others}
    near = tuple(model for model in others if found[model.name].outcome is not PairOutcome.WORSE)
    if not near:
        values = {"best": scores(record, (best,)), "next": scores(record, others[:1]), **what}
        return Message(f"verdict.field.best{_scope(record, order)}", values), relation(record, best, others[0]).test
    outcomes = {found[model.name].outcome for model in near}
    kind = "unknown" if PairOutcome.UNKNOWN in outcomes else "few" if PairOutcome.FEW in outcomes else "same"
    return message(f"verdict.field.{kind}", scores=scores(record, (best, *near)), **what), None


def _scope(record: Record, models: tuple[Model, ...]) -> str:
    """What a difference holds for: one run, these seeds, or (with a test, or intervals over seeds) any seed."""
    if record.pairs:
        return ""
    if max(len(model.seeds) for model in models) == 1:
        return ".one"
    return "" if record.interval and record.interval.over == "seeds and items" else ".these"


def _test_sentence(record: Record, test: PairTest | None) -> list[Message]:
    if test is None:
        return []
    pairs = sum(other.metric == test.metric for other in record.pairs)
    kind = record.headline.kind
    unit, p = message(f"difference.{kind}"), p_text(test.p_holm)
    key = "verdict.test.alone" if pairs == 1 or test.primary else "verdict.test"
    return [message(key, **_names(test), difference=difference_text(test, kind), unit=unit, p=p, pairs=pairs)]


def _names(test: PairTest) -> dict[str, str]:
    return {"first": test.first, "second": test.second}


def _time_sentence(record: Record, pair: tuple[Model, Model]) -> list[Message]:
    """How long training takes: nothing where the spread is not known, or larger than the difference."""
    first, second = pair
    a, b = first.timing.train_seconds, second.timing.train_seconds
    if a is None or b is None or b.mean <= 0 or min(len(a.runs), len(b.runs)) < 2:
        return []
    if max(max(one.runs) - min(one.runs) for one in (a, b)) > abs(a.mean - b.mean):
        return []
    of, ratio = {"first": first.name, "second": second.name}, amount(a.mean / b.mean)
    return [message(f"verdict.time.{record.times}", **of, a=measure_text(a), b=measure_text(b), ratio=ratio)]


def _baseline_sentence(record: Record) -> list[Message]:
    """What the models without attention reach beside the second of the pair."""
    without = tuple(model for model in sound(record) if not model.attention)
    pair = asked_pair(record)
    if not without or not pair or not pair[1].attention:
        return []
    other = pair[1]
    found = {relation(record, model, other).outcome for model in without}
    why = [message("verdict.baseline.why")] if PairOutcome.SAME in found else []
    key = f"verdict.baseline.{found.pop().value}" if len(found) == 1 else "verdict.baseline.mixed"
    return [message(key, other=other.name, scores=scores(record, without) or NONE), *why]


def _saturated_sentence(record: Record, pair: tuple[Model, Model]) -> list[Message]:
    """That two models which cannot be told apart leave a test nothing to tell them by, where parts of it ask more."""
    found = [one for model in pair if (one := quality(record, model))]
    share = record.headline.kind == "share" and record.headline.better == "higher"
    if not share or len(found) < 2 or min(one.mean for one in found) < _GOOD:
        return []
    parts = [
        part.models for group in record.buckets if group.metric == record.headline.metric for part in group.buckets
    ]
    names = {model.name for model in pair}
    harder = any(names <= set(part) and max(part[name].mean for name in names) < _GOOD for part in parts)
    undecided = relation(record, *pair).outcome is PairOutcome.SAME
    return [message("verdict.saturated")] if harder and undecided else []


def _ceiling_sentence(record: Record) -> list[Message]:
    """What runs that are all good leave open: trainings that fail, of which so few may show none."""
    if record.headline.kind != "share" or record.headline.better != "higher":
        return []
    runs = {model.name: one.runs for model in sound(record) if (one := quality(record, model)) and one.runs}
    good = {name: own for name, own in runs.items() if len(own) > 1 and min(own) >= _GOOD}
    if not good:
        return []
    perfect = [name for name, own in good.items() if min(own) == 1.0]
    fewest = min(map(len, good.values()))
    percent = amount(100 * most_failing(fewest))
    found = [message("verdict.ceiling", names=", ".join(good), count=fewest, percent=percent)]
    return found + ([message("verdict.ceiling.items", names=", ".join(perfect))] if perfect else [])


def _several_seeds(record: Record) -> bool:
    return max(len(model.seeds) for model in record.models) > 1


def _seed_sentence(record: Record) -> Message:
    counts = sorted({len(model.seeds) for model in record.models})
    if _several_seeds(record):
        span = str(counts[0]) if len(counts) == 1 else f"{counts[0]}–{counts[-1]}"
        if record.interval is None:
            return message("verdict.seeds", count=span)
        return message("verdict.seeds.items" if record.interval.over == "items" else "verdict.seeds.both", count=span)
    seeds = sorted({seed for model in record.models for seed in model.seeds})
    return message("verdict.seed", seed=", ".join(map(str, seeds)))
