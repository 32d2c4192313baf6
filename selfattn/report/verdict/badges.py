"""The badges: facts that decide how far the verdict can be believed."""

from selfattn.report.blocks import Badge
from selfattn.report.drawing.numbers import amount
from selfattn.report.verdict.ranking import HowTuned, how_tuned, matched_statement, matched_within, quality, training_of
from selfattn.results.record import Record
from selfattn.words.messages import message

_SEEDS = 3  # fewer never decide
_TUNING_BADGES: dict[HowTuned, str] = {"rates": "badge.rates", "given": "badge.given", "same": "badge.same"}


def badges(record: Record) -> tuple[Badge, ...]:
    """Return the facts that decide how far the verdict can be believed."""
    fewest = min(len(model.seeds) for model in record.models)
    if not record.trained:
        most = max(len(model.seeds) for model in record.models)
        files = message("badge.files", count=fewest) if most > 1 else message("badge.file")
        if fewest < most:
            files = message("badge.files.range", low=fewest, high=most)
        return Badge("ok" if fewest >= _SEEDS else "warn", files), Badge("note", message("badge.elsewhere"))
    gates = [gate for gate in record.gates if not gate.note]
    passed = sum(gate.passed for gate in gates)
    total = len(gates)
    facts = [Badge("ok", message("badge.gates.all", total=total))]
    if passed < total:
        facts = [Badge("bad", message("badge.gates", passed=passed, total=total))]
    if len(record.models) > 1:
        near = matched_within(record) <= record.matching.limit
        facts.append(Badge("ok" if near else "warn", matched_statement(record)))
    seeds = message("badge.seeds", count=fewest) if fewest > 1 else message("badge.seed")
    if record.interim and record.interim.ended < max(record.interim.looks):
        seeds = message("badge.interim", ended=record.interim.ended, most=max(record.interim.looks))
    facts += [Badge("ok" if fewest >= _SEEDS else "note", seeds), *_stuck_badge(record), tuning_badge(record)]
    facts += _changed_badges(record)
    facts += _plan_badges(record)
    if record.settings.get("quick"):
        facts.append(Badge("warn", message("badge.quick")))
    return tuple(facts)


def _changed_badges(record: Record) -> list[Badge]:
    """Return in what models are not as their presets: what all have in common, then what one of them has alone."""
    shared = set.intersection(*(set(model.changes.items()) for model in record.models))
    facts = []
    if shared:
        what = ", ".join(f"{name} {value}" for name, value in sorted(shared))
        facts.append(Badge("note", message("badge.changed.all", what=what)))
    for model in record.models:
        alone = [f"{name} {value}" for name, value in model.changes.items() if (name, value) not in shared]
        if alone:
            facts.append(Badge("warn", message("badge.changed", model=model.name, what=", ".join(alone))))
        if model.preset not in ("", model.name):
            facts.append(Badge("note", message("badge.preset", model=model.name, preset=model.preset)))
    return facts


def _stuck_badge(record: Record) -> list[Badge]:
    """Return how many runs got stuck, and how many trainings of a model may."""
    trainings = training_of(record).values()
    if not trainings:
        return []
    stuck = sum(trains.stuck for trains in trainings)
    count = sum(len(quality(record, model).runs) for model in record.models)
    percent = amount(100 * max(trains.most_stuck for trains in trainings))
    return [Badge("warn" if stuck else "note", message("badge.stuck", stuck=stuck, count=count, percent=percent))]


def _plan_badges(record: Record) -> list[Badge]:
    """Return what is known of the plan: whether it was kept, and how many of its seeds were run."""
    plan = record.plan
    if plan is None:
        facts = [Badge("note", message("badge.noplan"))]
    elif plan.pilot:
        facts = [Badge("warn", message("badge.pilot"))]
    elif plan.departures:
        facts = [Badge("warn", message("badge.departed"))]
    else:
        facts = [Badge("note", message("badge.replay")) if plan.replays else Badge("ok", message("badge.planned"))]
    if plan and plan.seeds is not None and plan.planned_seeds and plan.seeds < plan.planned_seeds:
        facts.append(Badge("warn", message("badge.seeds.planned", count=plan.seeds, planned=plan.planned_seeds)))
    if plan and plan.machines:
        facts.append(Badge("warn", message("badge.machines", what="; ".join(plan.machines))))
    return facts


def tuning_badge(record: Record) -> Badge:
    """Return which settings of the models were tuned, and how often."""
    how = how_tuned(record)
    if record.tuning is None:
        return Badge("ok" if how == "rates" else "note", message(_TUNING_BADGES[how]))
    if not record.tuning.is_common:
        return Badge("warn", message("badge.spaces"))
    names = ", ".join(next(iter(record.tuning.space.values())))
    count = record.tuning.tunings
    key = "badge.tuned" if count > 1 else "badge.tuned.once"
    return Badge("ok" if count > 1 else "note", message(key, names=names, count=count))
