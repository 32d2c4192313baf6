"""Check a comparison against its plan: what is sealed before training, and the departures from it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from selfattn.codec import decode, encode, fingerprint
from selfattn.comparison.plan import Plan, Variant
from selfattn.comparison.testing import Runs, Tested
from selfattn.comparison.trainings import Trainings
from selfattn.data.pairs import Pair
from selfattn.experiments.plan import PLAN, check_ledger, departures, is_in_order
from selfattn.results.plan import Departure, PlanCheck, Seal
from selfattn.runs.ledger import read_ledger
from selfattn.training.config import TrainingConfig

_NOT_SEALED = ("command", "seal", "matching", "tuned", "plugins", "declared")  # no decisions, or follow from the rest


def decisions(plan: Plan, trainings: Trainings) -> dict[str, Any]:
    """Return everything that the results depend on, to be sealed before training."""
    pairs = trainings.test_pairs(plan.first_seed)
    return _of_plan(plan) | {
        "recipe": {name: value for name, value in encode(trainings.recipe).items() if name != "seed"},
        "trials": trainings.options.tune,
        "decoding": encode(trainings.task.decoding),
        "data": dict(trainings.training_set(plan.first_seed).settings),
        "test": _test_set(pairs),
    }


def _of_plan(plan: Plan) -> dict[str, Any]:
    """What tuning does not change of a plan."""
    values = {name: value for name, value in encode(plan).items() if name not in _NOT_SEALED}
    values["models"] = {name: model["preset"] if plan.space else model for name, model in values["models"].items()}
    return values


def _test_set(pairs: Sequence[Pair]) -> dict[str, Any]:
    return {"items": len(pairs), "sha256": fingerprint([[pair.source, pair.target] for pair in pairs])}


def check_plan(comparison: Path, plan: Plan, runs: Runs) -> PlanCheck:
    """Check a comparison against its plan.

    Args:
        comparison: its directory.
        plan: as it is now.
        runs: all tested runs, by variant and model.

    Raises:
        UserError: the ledger is broken.
    """
    if plan.seal is None:
        return PlanCheck(None, plan.pilot, (Departure("plan", ("seal",)),))
    entries = tuple(entry for entry in read_ledger(comparison) if entry.run)
    return PlanCheck(plan.seal, plan.pilot, tuple(_departures(comparison, plan, plan.seal, runs)), entries)


def _departures(comparison: Path, plan: Plan, seal: Seal, runs: Runs) -> Iterator[Departure]:
    sealed, now = seal.decides, _of_plan(plan)
    changed = [field.name for field in fields(Plan) if now.get(field.name) != sealed.get(field.name)]
    tested = [(variant, run) for variant, models in runs.items() for same in models.values() for run in same]
    first = tested[0][1]
    yield from check_ledger(
        comparison,
        seal,
        [name for name in changed if name not in _NOT_SEALED],
        {run.path.name: run.result.answers_sha256 for _, run in tested},
    )
    is_ordered = is_in_order(read_ledger(comparison))
    yield from departures(
        settings=[run.path.name for variant, run in tested if not _is_as_planned(plan, seal, variant, run)],
        test=[] if _test_set(first.pairs) == sealed.get("test") else [first.path.name],
        before=[run.path.name for _, run in tested if is_ordered and run.record.created < seal.created],
    )


def _is_as_planned(plan: Plan, seal: Seal, variant: Variant, run: Tested) -> bool:
    """Whether a run has the settings of the plan, tuned ones included."""
    planned = plan.planned(run.name, variant)
    settings = {**dict(seal.decides["recipe"]), "seed": run.seed, **planned.training}  # type: ignore[call-overload]  # plain values
    recipe = decode(TrainingConfig, settings, file=PLAN, advice="compare again")
    return run.config.training == variant.applied_to(recipe, plan.steps) and run.config.model == planned.model
