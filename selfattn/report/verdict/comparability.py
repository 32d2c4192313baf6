"""Whether models may be compared at all: sanity gates, equal budgets, equal tuning; what is wrong, and the badges."""

from __future__ import annotations

from selfattn.report.blocks import Badge
from selfattn.report.drawing.numbers import amount
from selfattn.report.verdict.names import named
from selfattn.report.verdict.ranking import judged_pair, ranked
from selfattn.results.gates import Gate
from selfattn.results.record import BODIES_APART, Model, Record
from selfattn.words.catalogue import SOURCE
from selfattn.words.messages import Message, Said, message

_SEEDS = 3  # fewer never decide
_MATCHED = "matched budgets"  # the gate that asks what `too_far_apart` asks
_BASELINE = "published baseline"  # depends on the outcome that is asked for, so it is said and stops nothing


def parameter_spread(models: tuple[Model, ...]) -> float:
    """How far apart the parameter counts are, outside embeddings where known: (largest - smallest) / smallest."""
    bare = [model.parameters_non_embedding for model in models if model.parameters_non_embedding is not None]
    counts = bare if len(bare) == len(models) else [model.parameters for model in models]
    return (max(counts) - min(counts)) / max(1, min(counts))


def matched_within(record: Record) -> float:
    """How far apart the models are in what they were sized for; in parameters where they were not sized."""
    counts = record.matching.counts.values()
    if record.matching.budget == "none" or not counts:
        return parameter_spread(record.models)
    return (max(counts) - min(counts)) / min(counts) if min(counts) > 0 else float("inf")


def body_spread(record: Record) -> float | None:
    """How far apart models not sized by it are in their bodies: parameters without any axis over the vocabulary."""
    bodies = [model.parameters_body for model in record.models if model.parameters_body]
    asked = record.matching.budget in ("none", "parameters") and len(bodies) == len(record.models) > 1
    return max(bodies) / min(bodies) - 1 if asked else None


def too_far_apart(record: Record) -> bool:
    """Whether models that were to be of equal size are not, and nobody asked for that, or a gate says so."""
    matching = record.matching
    equal = len(record.models) > 1 and matching.budget != "none" and not matching.allowed_apart
    said = any(gate.name == _MATCHED for gate in failed_gates(record))
    return said or (equal and matched_within(record) > matching.limit)


def failed_gates(record: Record) -> tuple[Gate, ...]:
    """Gates that did not pass, each once a model: the first seed that failed stands for the others; no baselines."""
    return tuple(gate for gate in _failed(record) if gate.name != _BASELINE)


def below_baseline(record: Record) -> tuple[Message, ...]:
    """Which models stay under what others reached: a note, for who is worse is what was to be found out."""
    below = [gate for gate in _failed(record) if gate.name == _BASELINE]
    return tuple(message("verdict.baseline", model=gate.model, reason=gate.reason) for gate in below)


def _failed(record: Record) -> tuple[Gate, ...]:
    found: dict[tuple[str, str], Gate] = {}
    for gate in record.gates:
        if not gate.passed:
            found.setdefault((gate.model, gate.name), gate)
    return tuple(found.values())


def unsound(record: Record) -> frozenset[str]:
    """Models that did not pass a gate of their own: nothing can be compared with them."""
    return frozenset(gate.model for gate in failed_gates(record) if gate.model)


def comparable(record: Record, *models: Model) -> bool:
    """Whether something may be said of these models beside each other."""
    return not obstacles(record) and not any(model.name in unsound(record) for model in models)


def sound(record: Record) -> tuple[Model, ...]:
    """The models that may be compared, those with the best mean first."""
    aside = unsound(record)
    return tuple(model for model in ranked(record) if model.name not in aside)


def obstacles(record: Record) -> tuple[Message, ...]:
    """Why no verdict may be given; empty where one may.

    A gate on the data or on all models stops the verdict, and so does one on a model that the verdict is about. Any
    other model that does not pass is set aside (`set_aside`), and the rest is compared.
    """
    failed = [gate for gate in failed_gates(record) if not gate.model or gate.model in _needed(record)]
    found = [_gate_sentence(record, gate) for gate in failed]
    if too_far_apart(record) and not any(gate.name == _MATCHED for gate in failed):
        budget, limit = message(f"budget.{record.matching.budget}"), amount(100 * record.matching.limit)
        found.append(message("obstacle.apart", budget=budget, percent=_percent(matched_within(record)), limit=limit))
    return tuple(found)


def set_aside(record: Record) -> tuple[Message, ...]:
    """Why models are left out of the verdict, where there is one all the same."""
    if obstacles(record):
        return ()
    return tuple(_gate_sentence(record, gate) for gate in failed_gates(record) if gate.model)


def _needed(record: Record) -> frozenset[str]:
    """Models without which there is no verdict."""
    pair = judged_pair(record)
    if pair is not None:
        return frozenset(model.name for model in pair)
    few = len(sound(record)) < min(2, len(record.models))
    return frozenset(model.name for model in record.models) if few else frozenset()


def matched_statement(record: Record) -> Message:
    """How near the models are in size, and in what."""
    matching, apart = record.matching, matched_within(record)
    budget = message(f"budget.{matching.budget}")
    if apart <= matching.limit:
        return message("badge.matched", budget=budget, percent=_percent(apart))
    asked = matching.budget != "none" and matching.allowed_apart
    return message("badge.unmatched.asked" if asked else "badge.unmatched", budget=budget, percent=_percent(apart))


def badges(record: Record) -> tuple[Badge, ...]:
    """Facts that decide how far the verdict can be believed."""
    passed, asked = sum(gate.passed for gate in record.gates), len(record.gates)
    gates = message("badge.gates", passed=passed, asked=asked) if asked else message("badge.gates.none")
    found = [Badge("bad" if failed_gates(record) else "warn" if passed < asked else "ok" if asked else "note", gates)]
    if len(record.models) > 1:
        near = matched_within(record) <= record.matching.limit
        found.append(Badge("ok" if near else "bad" if too_far_apart(record) else "warn", matched_statement(record)))
    bodies = body_spread(record)
    if bodies is not None:
        far = bodies > BODIES_APART and not record.matching.allowed_apart
        found.append(Badge("bad" if far else "note", message("badge.body", percent=_percent(bodies))))
    fewest = min(len(model.seeds) for model in record.models)
    seeds = message("badge.seeds", count=fewest) if fewest > 1 else message("badge.seed")
    found.append(Badge("ok" if fewest >= _SEEDS else "note", seeds))
    found.append(tuning_badge(record))
    if isinstance(declared := record.settings.get("declared"), list):
        found.append(Badge("warn", message("badge.declared", settings=", ".join(map(str, declared)))))
    if record.protocol:
        kind = "pilot" if record.protocol.pilot else "departed" if record.protocol.departures else "planned"
        found.append(Badge("ok" if kind == "planned" else "warn", message(f"badge.{kind}")))
    if record.settings.get("quick"):
        found.append(Badge("warn", message("badge.quick")))
    return tuple(found)


def tuning_badge(record: Record) -> Badge:
    """Whether the settings of the models were searched for, and equally."""
    trials = sorted({len(model.tuning) for model in record.models})
    if trials[-1] <= 1:  # the recipe as it is, tried once, is no search
        return Badge("note", message("badge.untuned"))
    if len(trials) == 1:
        return Badge("ok", message("badge.tuned", count=trials[0]))
    return Badge("warn", message("badge.tuned.unequal", low=trials[0], high=trials[-1]))


def _gate_sentence(record: Record, gate: Gate) -> Message:
    key = "obstacle.gate" if gate.model else "obstacle.gate.all"
    found: Said = gate.reason  # in English; its figures in every language
    if gate.value is not None and gate.limit is not None:
        figures = {"value": f"{gate.value:.3g}", "limit": f"{gate.limit:.3g}"}
        found = Message("gate.measured", figures, own={SOURCE: gate.reason})
    return message(key, gate=named(record, "gate", gate.name), model=gate.model, reason=found)


def _percent(share: float) -> str:
    return "∞" if share == float("inf") else amount(100 * share)
