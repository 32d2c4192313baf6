"""Decide whether models may be compared at all: gates, equal sizes, equal tuning; and collect the badges."""

from __future__ import annotations

from selfattn.report.blocks import Badge, BadgeKind
from selfattn.report.drawing.numbers import amount
from selfattn.report.verdict.conditions import how_tuned
from selfattn.report.verdict.ranking import judged_pair, named, ranked
from selfattn.results.gates import Gate
from selfattn.results.record import BODIES_APART, Model, Record
from selfattn.words.catalogue import SOURCE
from selfattn.words.messages import Message, TextLike, message

_SEEDS = 3  # fewer never decide
_MATCHED = "matched budgets"  # the gate that asks what `too_far_apart` asks


def parameter_spread(models: tuple[Model, ...]) -> float:
    """Return (largest - smallest) / smallest of the parameter counts, outside embeddings where known."""
    bare = [model.parameters_non_embedding for model in models if model.parameters_non_embedding is not None]
    counts = bare if len(bare) == len(models) else [model.parameters for model in models]
    return (max(counts) - min(counts)) / max(1, min(counts))


def matched_within(record: Record) -> float:
    """Return how far apart the models are in what they were sized for; in parameters where they were not sized."""
    counts = record.matching.counts.values()
    if record.matching.budget == "none" or not counts:
        return parameter_spread(record.models)
    return (max(counts) - min(counts)) / min(counts) if min(counts) > 0 else float("inf")


def too_far_apart(record: Record) -> bool:
    """Return whether models that were to be of equal size are not, unasked, or a gate says so."""
    matching = record.matching
    equal = len(record.models) > 1 and matching.budget != "none" and not matching.allowed_apart
    return (equal and matched_within(record) > matching.limit) or any(g.name == _MATCHED for g in failed_gates(record))


def failed_gates(record: Record, *, notes: bool = False) -> tuple[Gate, ...]:
    """Return the gates that did not pass, each once a model; with `notes` those that are only noted."""
    failed: dict[tuple[str, str], Gate] = {}
    for gate in record.gates:
        if not gate.passed and gate.note == notes:
            failed.setdefault((gate.model, gate.name), gate)
    return tuple(failed.values())


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
    pair, names = judged_pair(record), {model.name for model in record.models}
    enough = len(sound(record)) >= min(2, len(names))
    needed = {model.name for model in pair} if pair else set() if enough else names
    failed = [gate for gate in failed_gates(record) if not gate.model or gate.model in needed]
    reasons = [_gate_sentence(record, gate) for gate in failed]
    if too_far_apart(record) and not any(gate.name == _MATCHED for gate in failed):
        size, limit = message(f"budget.{record.matching.budget}"), amount(100 * record.matching.limit)
        reasons.append(message("obstacle.apart", size=size, percent=_percent(matched_within(record)), limit=limit))
    return tuple(reasons)


def set_aside(record: Record) -> tuple[Message, ...]:
    """Return why models are left out of the verdict, where there is one all the same."""
    if obstacles(record):
        return ()
    return tuple(_gate_sentence(record, gate) for gate in failed_gates(record) if gate.model)


def _gate_sentence(record: Record, gate: Gate) -> Message:
    finding: TextLike = gate.reason  # in English; its numbers in every language
    if gate.value is not None and gate.limit is not None:
        values = {"value": f"{gate.value:.3g}", "limit": f"{gate.limit:.3g}"}
        finding = Message("gate.measured", values, texts={SOURCE: gate.reason})
    key = "obstacle.gate" if gate.model else "obstacle.gate.all"
    return message(key, gate=named(record, "gate", gate.name), model=gate.model, reason=finding)


def matched_statement(record: Record) -> Message:
    """Return how near the models are in size, and in what."""
    matching, apart = record.matching, matched_within(record)
    if apart <= matching.limit:
        key = "badge.matched"
    else:
        key = "badge.unmatched.asked" if matching.budget != "none" and matching.allowed_apart else "badge.unmatched"
    return message(key, size=message(f"budget.{matching.budget}"), percent=_percent(apart))


def badges(record: Record) -> tuple[Badge, ...]:
    """Return the facts that decide how far the verdict can be believed."""
    gates = [gate for gate in record.gates if not gate.note]
    passed, total = sum(gate.passed for gate in gates), len(gates)
    key = "badge.gates" if passed < total else "badge.gates.all" if total else "badge.gates.none"
    kind: BadgeKind = "bad" if passed < total else "ok" if total else "note"
    facts = [Badge(kind, message(key, passed=passed, total=total))]
    if len(record.models) > 1:
        near = matched_within(record) <= record.matching.limit
        facts.append(Badge("ok" if near else "bad" if too_far_apart(record) else "warn", matched_statement(record)))
    bodies = [model.parameters_body for model in record.models if model.parameters_body]
    if record.matching.budget in ("none", "parameters") and len(bodies) == len(record.models) > 1:
        spread = max(bodies) / min(bodies) - 1
        far = spread > BODIES_APART and not record.matching.allowed_apart
        facts.append(Badge("bad" if far else "note", message("badge.body", percent=_percent(spread))))
    fewest = min(len(model.seeds) for model in record.models)
    seeds = message("badge.seeds", count=fewest) if fewest > 1 else message("badge.seed")
    if record.interim and record.interim.ended < max(record.interim.looks):
        seeds = message("badge.interim", ended=record.interim.ended, most=max(record.interim.looks))
    facts += [Badge("ok" if fewest >= _SEEDS else "note", seeds), tuning_badge(record)]
    if isinstance(declared := record.settings.get("declared"), list):
        facts.append(Badge("warn", message("badge.declared", settings=", ".join(map(str, declared)))))
    facts += _plan_badges(record)
    if record.settings.get("quick"):
        facts.append(Badge("warn", message("badge.quick")))
    return tuple(facts)


def _plan_badges(record: Record) -> list[Badge]:
    """Return what is known of the plan: whether it was kept, and what runs that were put together lack."""
    plan = record.plan
    if plan is None or not (plan.seal or plan.departures):
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
    """Return whether the settings of the models were tuned, and with as many trials each."""
    how, trials = how_tuned(record), sorted({len(model.trials) for model in record.models})
    if how == "tuned" and len(trials) > 1:
        return Badge("warn", message("badge.tuned.unequal", low=trials[0], high=trials[-1]))
    return Badge("ok" if how in ("rates", "tuned") else "note", message(f"badge.{how}", count=trials[0]))


def _percent(share: float) -> str:
    return "∞" if share == float("inf") else amount(100 * share)
