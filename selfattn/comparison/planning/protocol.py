"""A comparison held against its plan: fixed before the first training, and asked afterwards whether it was kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from selfattn.codec import decode, encode, fingerprint
from selfattn.comparison.planning.plan import PLAN, Plan, Variant
from selfattn.comparison.running.jobs import Jobs
from selfattn.comparison.testing import Runs, Tested
from selfattn.data.pairs import Pair
from selfattn.results.protocol import Departure, Look, Protocol, Seal
from selfattn.runs.ledger import read_looks
from selfattn.training.config import TrainingConfig

_ADVICE = "compare again"
_FOUND_LATER = ("command", "seal", "matching", "tuned", "plugins", "declared")  # no decisions, or made by the rest


def seal_of(plan: Plan, jobs: Jobs) -> Seal:
    """Return what a plan decides, settings and test set among it, with the SHA-256 of all that.

    Args:
        plan: of which nothing is done yet.
        jobs: of the comparison.
    """
    pairs = jobs.test_pairs(plan.first_seed)
    decides = _decided(plan) | {
        "recipe": {name: value for name, value in encode(jobs.recipe).items() if name != "seed"},
        "trials": jobs.options.tune,
        "decoding": encode(jobs.task.decoding),
        "data": dict(jobs.training_set(plan.first_seed).settings),
        "test": {"items": len(pairs), "sha256": _sha256(pairs)},
    }
    created = datetime.now(UTC).isoformat(timespec="seconds")
    return Seal(fingerprint(decides), created, decides)


def _decided(plan: Plan) -> dict[str, Any]:
    """What of a plan is the same before and after the models are tuned."""
    found = {name: value for name, value in encode(plan).items() if name not in _FOUND_LATER}
    found["models"] = {name: planned["preset"] if plan.space else planned for name, planned in found["models"].items()}
    return found


def _sha256(pairs: Sequence[Pair]) -> str:
    return fingerprint([[pair.source, pair.target] for pair in pairs])


def hold_against_plan(comparison: Path, plan: Plan, runs: Runs) -> Protocol | None:
    """Say whether a comparison was done as planned.

    Args:
        comparison: its directory.
        plan: as it is now.
        runs: all that were tested, by how much they were trained and by model.

    Returns:
        None for a comparison of before plans were fixed.

    Raises:
        UserError: the ledger is broken.
    """
    if plan.seal is None:
        return None
    looks = read_looks(comparison)
    found = tuple(Departure(kind, what) for kind, what in _departures(plan, plan.seal, runs, looks) if what)
    return Protocol(plan.seal, plan.pilot, found, tuple(look for look in looks if look.run))


def _departures(plan: Plan, seal: Seal, runs: Runs, looks: Sequence[Look]) -> Iterator[tuple[Any, tuple[str, ...]]]:
    decides, now = seal.decides, _decided(plan)
    usual = {field.name: encode(field.default) for field in fields(Plan) if field.name not in _FOUND_LATER}
    # What a plan of before did not know yet, it decided as it is by default.
    changed = [name for name, own in usual.items() if now.get(name, own) != decides.get(name, own)]
    others = [look.run or "ledger" for look in looks if look.plan not in ("", seal.sha256)]
    broken = [] if fingerprint(encode(dict(decides))) == seal.sha256 else ["sha256"]
    yield "plan", tuple(dict.fromkeys([*changed, *broken, *others]))
    tested = [(variant, run) for variant, models in runs.items() for own in models.values() for run in own]
    names = [run.path.name for _, run in tested]
    yield "settings", tuple(run.path.name for variant, run in tested if not _as_planned(plan, seal, variant, run))
    expected = decides.get("test")
    shown = {"items": len(tested[0][1].pairs), "sha256": _sha256(tested[0][1].pairs)}
    yield "test", () if shown == expected else (tested[0][1].path.name,)
    yield "before", tuple(run.path.name for _, run in tested if run.record.created < seal.created)
    asked = [look.run for look in looks]
    yield "again", tuple(name for name in dict.fromkeys(asked) if name and asked.count(name) > 1)
    answers = {(look.run, look.answers) for look in looks}
    yield (
        "unrecorded",
        tuple(
            name
            for name, (_, run) in zip(names, tested, strict=True)
            if (name, run.result.answers_sha256) not in answers
        ),
    )


def _as_planned(plan: Plan, seal: Seal, variant: Variant, run: Tested) -> bool:
    """Whether a run has the settings that the plan gives it, those that its model was tuned for among them."""
    planned = plan.planned(run.name, variant)
    settings = {**dict(seal.decides["recipe"]), "seed": run.seed, **planned.training}  # type: ignore[call-overload]  # plain values
    recipe = decode(TrainingConfig, settings, file=PLAN, advice=_ADVICE)
    return run.config.training == variant.applied_to(recipe, plan.steps) and run.config.model == planned.model
