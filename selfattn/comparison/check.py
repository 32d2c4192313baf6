"""Check a comparison against its plan: what is sealed before training, and the departures from it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from selfattn.codec import decode, encode, fingerprint, read_json
from selfattn.comparison.gates import differing_machines
from selfattn.comparison.plan import Plan, read_plan
from selfattn.comparison.tested import Runs, Tested
from selfattn.comparison.trainings import Trainings
from selfattn.data.pairs import Pair
from selfattn.experiments.plan import PLAN, check_ledger, departures
from selfattn.results.plan import Departure, PlanCheck, Seal
from selfattn.results.quality import PairTest
from selfattn.runs.ledger import LEDGER, read_ledger
from selfattn.training.config import TrainingConfig

# Published comparisons by name, with the hash of their plan and when it was fixed.
PUBLISHED = Path(__file__).with_name("published.json")
# No decisions, or they follow from the rest.
_NOT_SEALED = ("command", "seal", "matching", "trials", "tuned", "ended", "plugins", "declared")


def decisions(plan: Plan, trainings: Trainings) -> dict[str, Any]:
    """Return everything that the results depend on, to be sealed before training."""
    data, tests = trainings.data(plan.first_seed)
    return _of_plan(plan) | {
        "recipe": {name: value for name, value in encode(trainings.recipe).items() if name != "seed"},
        "decoding": encode(trainings.task.decoding),
        "data": dict(data.settings),
        "test": _test_set(tests.pairs),
    }


def _of_plan(plan: Plan) -> dict[str, Any]:
    """What tuning does not change of a plan."""
    return {name: value for name, value in encode(plan).items() if name not in _NOT_SEALED}


def _test_set(pairs: Sequence[Pair]) -> dict[str, Any]:
    return {"items": len(pairs), "sha256": fingerprint([[pair.source, pair.target] for pair in pairs])}


def check_plan(comparison: Path, plan: Plan, runs: Runs, pairs: Sequence[PairTest]) -> PlanCheck:
    """Check a comparison against its plan.

    Args:
        comparison: its directory.
        plan: as it is now.
        runs: all tested runs, by budget and model.
        pairs: the tests of their record, which have to justify an early end.

    Raises:
        UserError: the ledger is broken.
    """
    machines = differing_machines(run for models in runs.values() for same in models.values() for run in same)
    if plan.seal is None:
        return PlanCheck(None, plan.pilot, (Departure("plan", ("seal",)),), machines=machines)
    entries = tuple(entry for entry in read_ledger(comparison) if entry.run)
    planned = plan.ended or plan.seal.decides.get("seeds")  # a planned look may end it
    return PlanCheck(
        plan.seal,
        plan.pilot,
        tuple(_departures(comparison, plan, plan.seal, runs, pairs)),
        entries,
        seeds=min(len(same) for same in runs[plan.main].values()),
        planned_seeds=planned if isinstance(planned, int) else plan.seeds,
        replays=_published(plan.seal),
        machines=machines,
    )


def check_together(models: Mapping[str, Sequence[Tested]]) -> PlanCheck:
    """Check runs that were put together afterwards against the plans of the comparisons that they come from.

    Args:
        models: for each model its runs.
    """
    every = [run for same in models.values() for run in same]
    homes = dict.fromkeys(run.home for run in every)
    plans = {home: read_plan(home) for home in homes if (home / PLAN).is_file()}
    missing: list[str] = []
    counts: list[tuple[int, int]] = []
    for same in models.values():
        paths = [run.path.resolve() for run in same]
        places = {(run.home, run.directory_name) for run in same}
        if not all(home in plans for home, _ in places):
            continue
        planned = [home / run.path for home, model in places for run in plans[home].runs() if run.name == model]
        missing += [path.name for path in planned if path not in paths]
        counts.append((len(same), sum(len(plans[home].seed_numbers) for home, _ in places)))
    lost = [home.name for home in homes if home not in plans and (home / LEDGER).is_file()]
    seeds, planned_seeds = min(counts, key=lambda pair: pair[0] - pair[1], default=(None, None))
    return PlanCheck(
        departures=tuple(departures(plan=lost, missing=missing)),
        seeds=seeds,
        planned_seeds=planned_seeds,
        machines=differing_machines(every),
    )


def _published(seal: Seal) -> str:
    """Return the name of the published comparison that had this plan before; empty where there is none."""
    published: dict[str, dict[str, str]] = read_json(PUBLISHED, advice="install selfattn again")
    plans = {plan["sha256"]: name for name, plan in published.items() if plan["created"] < seal.created}
    return str(plans.get(seal.sha256, ""))


def _departures(comparison: Path, plan: Plan, seal: Seal, runs: Runs, pairs: Sequence[PairTest]) -> Iterator[Departure]:
    sealed, now = seal.decides, _of_plan(plan)
    changed = [field.name for field in fields(Plan) if now.get(field.name) != sealed.get(field.name)]
    if plan.ended:
        undecided = any(pair.primary and pair.p > pair.alpha for pair in pairs)
        changed += ["looks"] if plan.ended not in plan.looks else []
        changed += ["end before a decision"] if plan.ended != max(plan.looks, default=0) and undecided else []
    tested = [(budget, run) for budget, models in runs.items() for same in models.values() for run in same]
    first = tested[0][1]
    yield from check_ledger(
        comparison,
        seal,
        [name for name in changed if name not in _NOT_SEALED],
        {run.path.name: run.result.answers_sha256 for _, run in tested},
    )
    entries, names = read_ledger(comparison), {run.path.name for _, run in tested}
    times = [entry.when for entry in entries]
    is_ordered = times == sorted(times)  # otherwise the clock went back, and the order of the ledger alone decides
    yield from departures(
        missing=[entry.run for entry in entries if entry.run and entry.run not in names],
        settings=[run.path.name for budget, run in tested if not _is_as_planned(plan, seal, budget, run)],
        test=[] if _test_set(first.pairs) == sealed.get("test") else [first.path.name],
        before=[run.path.name for _, run in tested if is_ordered and run.record.created < seal.created],
    )


def _is_as_planned(plan: Plan, seal: Seal, budget: float, run: Tested) -> bool:
    """Whether a run has the settings of the plan, tuned ones included."""
    planned, variant = plan.planned(run.name, budget), plan.variants[budget]
    settings = {**dict(seal.decides["recipe"]), "seed": run.seed, **planned.training}  # type: ignore[call-overload]  # plain values
    recipe = decode(TrainingConfig, settings, file=PLAN, advice="compare again")
    return run.config.training == variant.applied_to(recipe, plan.steps) and run.config.model == planned.config
