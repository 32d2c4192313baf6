"""Seal a comparison, and check it: its gates, what its models share, departures from its plan."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from itertools import chain
from pathlib import Path
from typing import Any

from selfattn.codec import decode, encode, fingerprint, read_json
from selfattn.comparison.costs import COSTS, digest_of_costs
from selfattn.comparison.plan import TUNING, ComparisonPlan, Training, planned_trials, tuned_settings
from selfattn.comparison.tested import DIVERGED, Prediction, RunOnDisk, RunOutputs, RunTable, came_to_its_end
from selfattn.comparison.trainings import TrainingRunner, digest_of_trials, pick_best
from selfattn.data.pairs import Pair
from selfattn.errors import UserError
from selfattn.evaluation.gates import TestSet, baseline_gate
from selfattn.experiments.plan import PLAN, check_ledger, decide_alike, departures
from selfattn.models.build import body, spread
from selfattn.models.config import ModelConfig
from selfattn.registry import changed_plugins
from selfattn.results.plan import Departure, LedgerEntry, PlanCheck, Seal
from selfattn.results.record import BODIES_APART, Gate, Matching
from selfattn.runs.directory import RunDirectory
from selfattn.runs.ledger import first_lines, is_sealed, read_ledger
from selfattn.runs.record import RunConfig
from selfattn.training.config import TrainingConfig

_OF_THE_DATA = ("overlap", "similar texts", "known targets", "validation = test")  # the same for every model of a seed
_MACHINE = ("selfattn", "commit", "python", "torch", "threads", "cpu")  # the bits of the weights may depend on them
_ROUNDED = 0.01  # of the tokens
_EARLY_END = ("patience", "target_exact_match")  # one rule for all, by which each training stops by itself
Models = Mapping[str, Sequence[RunOnDisk]]

# No decisions, or made later: tuning has a line of its own in the ledger.
NOT_SEALED = ("command", "seal", "trials", "tuned")

# Published comparisons by name, with the hash of their plan and when it was fixed.
PUBLISHED = Path(__file__).with_name("published.json")
_ADVICE = "take the report from where it was published"
_SHARED = 0.01  # of the test sources may be validation sources too, as real corpora repeat short sentences


def make_gates(trained: RunTable[RunOnDisk], plan: ComparisonPlan) -> tuple[Gate, ...]:
    """Gather the gates of all runs.

    A gate that runs of a model fail is listed for each of them, a gate that all pass once. Runs of smaller budgets are
    only checked for the same data and training: little training makes a model weak, not incomparable.

    Args:
        trained: all runs.
        plan: of the comparison.
    """
    models = trained.main
    baseline = plan.baseline
    sized = {name: runs[0].config.model for name, runs in models.items()}
    gates = [_same_data(models), _same_training(models, plan), check_sizes(plan.matching, sized)]
    apart = differing_machines(trained.all())
    machines = _gate("same machine", apart, "all runs had the same versions, threads and processor")
    gates.append(replace(machines, note=True))
    for budget in trained.budgets:
        if budget != plan.main:
            smaller = trained.at(budget)
            checks = (_same_data(smaller), _same_training(smaller, plan))
            gates += [gate for gate in checks if not gate.passed]
    for name, runs in models.items():
        by_gate: dict[str, list[Gate]] = {}
        for run in runs:
            stated = baseline and baseline_gate(baseline, run.result.scores[baseline.metric])
            for gate in (*run.result.gates, *([stated] if stated else [])):
                model = "" if gate.name in _OF_THE_DATA else name
                by_gate.setdefault(gate.name, []).append(replace(gate, model=model, seed=run.seed))
        for checked in by_gate.values():
            gates += [gate for gate in checked if not gate.passed] or checked[:1]
    return tuple(dict.fromkeys(gates))


def _same_data(models: Models) -> Gate:
    """Whether all runs have the same data in the same order."""
    first, *others = chain.from_iterable(models.values())
    different = [run.path.name for run in others if run.config.data != first.config.data]
    apart = [f"{name} was trained on other data than {first.path.name}" for name in different]
    return _gate("same data", apart, "all models had the same pairs")


def differing_machines(runs: Iterable[RunOnDisk]) -> tuple[str, ...]:
    """List what differs between the machines of runs: versions, commit, threads and processor, with all values.

    Args:
        runs: tested or failed.
    """
    values: dict[str, set[str]] = {}
    for run in runs:
        described = {**run.record.versions, **run.record.machine, "commit": run.record.commit}
        for name in _MACHINE:
            values.setdefault(name, set()).add(str(described.get(name)))
    return tuple(f"{name}: {', '.join(sorted(seen))}" for name, seen in values.items() if len(seen) > 1)


def _gate(name: str, apart: Sequence[str], alike: str) -> Gate:
    return Gate.at_most(name, float(len(apart)), 0.0, "; ".join(apart) or alike)


def _same_training(models: Models, plan: ComparisonPlan) -> Gate:
    """Whether all runs have the same settings of the training, and the steps and target tokens of others of their seed.

    What was tuned may differ; the check against the plan covers it.
    """
    runs = list(chain.from_iterable(models.values()))
    first = runs[0].config.training
    apart: list[str] = []
    tuned = tuned_settings(plan.space, list(plan.models))
    if plan.read_in_a_step:
        tuned.add("max_steps")  # which follows from them
    for name, value in vars(first).items():
        other = next((run for run in runs if getattr(run.config.training, name) != value), None)
        if other is not None and name != "seed" and name not in tuned:
            there = getattr(other.config.training, name)
            apart.append(f"{name}: {value} of {runs[0].path.name}, {there} of {other.path.name}")
    if any(getattr(first, name) is not None for name in _EARLY_END):
        end = ", and stopped by the same rule"
    else:
        apart += _work_apart(runs, same_steps=not plan.read_in_a_step)
        end = ", and each the steps and tokens of the others of its seed"
    gate = _gate("same training", apart, f"all runs had the same settings of the training{end}")
    names = ", ".join(sorted(tuned - {"max_steps"}))
    return replace(gate, reason=f"{gate.reason}; tuned: {names}") if tuned else gate


def _work_apart(runs: Sequence[RunOnDisk], *, same_steps: bool) -> Iterator[str]:
    """Name runs that made other steps, or read other numbers of tokens, than the first of their seed.

    Where steps read differently much, a share of all steps may end within a step of another: tokens may differ by 1 %.
    """
    for name in ("step", "tokens") if same_steps else ("tokens",):
        first: dict[int, RunOnDisk] = {}
        for run in (run for run in runs if not run.failed):
            other = first.setdefault(run.seed, run)
            count = getattr(run.metrics[-1], name)
            expected = getattr(other.metrics[-1], name)
            if abs(count - expected) > (0 if same_steps else _ROUNDED * expected):
                yield f"{count:,} {name.removesuffix('s')}s of {run.path.name}, {expected:,} of {other.path.name}"


# the plan


def check_plan(comparison: Path, plan: ComparisonPlan, runs: RunTable[RunOnDisk]) -> PlanCheck:
    """Check a comparison against its plan.

    Args:
        comparison: its directory.
        plan: as it is now.
        runs: all tested runs.

    Raises:
        UserError: the ledger is broken.
    """
    entries = read_ledger(comparison)
    planned = plan.seal.decides.get("seeds")
    return PlanCheck(
        plan.seal,
        plan.pilot,
        tuple(_departures(comparison, plan, runs, entries)),
        tuple(entry for entry in entries if entry.run),
        seeds=min(map(len, runs.main.values())),
        planned_seeds=planned if isinstance(planned, int) else plan.seeds,
        replays=published(plan.seal),
        machines=differing_machines(runs.all()),
    )


def _departures(
    comparison: Path, plan: ComparisonPlan, runs: RunTable[RunOnDisk], entries: Sequence[LedgerEntry]
) -> Iterator[Departure]:
    sealed = plan.seal.decides
    now = of_plan(plan)
    sealable = [field.name for field in fields(ComparisonPlan) if field.name not in NOT_SEALED]
    changed = [name for name in sealable if now.get(name) != sealed.get(name)]
    if not all(decide_alike(entry.command, plan.command) for entry in first_lines(entries)):
        changed.append("command")
    tested = runs.all()
    configs = {run.path.name: run.config for run in tested}
    planned = [run for run in plan.runs() if run.label in configs]
    unplanned = [run.label for run in planned if not _is_as_planned(plan, run, configs[run.label])]
    first = tested[0]
    mismatched = [] if pairs_digest(first.outputs.pairs) == sealed.get("test") else [first.path.name]
    if "tested" in sealed:  # of older plans, the test items alone
        mismatched += [run.path.name for run in tested if digest_of_tests(run.outputs) != sealed["tested"]]
    yield from check_ledger(comparison, plan.seal, changed, {run.path.name: run.digest for run in tested})
    names = {run.path.name for run in tested}
    outputs = {entry.run: entry.outputs for entry in entries if entry.outputs}
    changed_outputs = [
        name for run in tested if outputs.get(name := run.path.name) not in (None, run.digests["outputs"])
    ]
    times = [entry.when for entry in entries]
    is_ordered = times == sorted(times)  # otherwise the clock went back, and the order of the ledger alone decides
    shared = validation_in_test(plan.seal)
    yield from departures(
        tuning=_changed_trials(comparison, plan, entries),
        costs=[] if is_sealed(entries, COSTS, digest_of_costs(comparison)) else [COSTS],
        plugins=plugins_apart(plan, tested),
        validation=[shared] if shared else [],
        missing=[entry.run for entry in entries if entry.run and entry.run not in names],
        settings=unplanned,
        unrecorded=changed_outputs,
        test=mismatched + [run.path.name for run in tested if run.failed and came_to_its_end(run.directory)],
        before=[run.path.name for run in tested if is_ordered and run.record.created < plan.seal.created],
    )


def _changed_trials(comparison: Path, plan: ComparisonPlan, entries: Sequence[LedgerEntry]) -> list[str]:
    """Name what was changed of the tuning since its line in the ledger, which comes before the first test."""
    if not plan.tuning_trials:
        return []
    tested = [place for place, entry in enumerate(entries) if entry.run]
    sealed = [place for place, entry in enumerate(entries) if entry.sealed == TUNING]
    problems = [] if sealed and sealed[-1] < min(tested, default=len(entries)) else ["ledger.jsonl"]
    try:
        if pick_best(plan, comparison) != plan.trials:
            problems.append(PLAN)
        if not is_sealed(entries, TUNING, digest_of_trials(plan, comparison)):
            problems.append(TUNING)
        for trial in chain.from_iterable(planned_trials(plan).values()):
            directory = RunDirectory(comparison / trial.path)
            is_diverged = directory.record().status == DIVERGED
            if not _is_as_planned(plan, trial, directory.config()) or (is_diverged and came_to_its_end(directory)):
                problems.append(trial.label)
    except UserError as error:  # a trial is gone or damaged
        problems.append(str(error))
    return problems


def plugins_apart(plan: ComparisonPlan, runs: Sequence[RunOnDisk]) -> list[str]:
    """Name plugins that are now, or were in a run, others than in the plan."""
    changed = changed_plugins(plan.plugins)
    for run in runs:
        changed += changed_plugins(run.config.plugins, plan.plugins)
    return changed


def _is_as_planned(plan: ComparisonPlan, planned: Training, config: RunConfig) -> bool:
    """Whether a run, or a trial, has the seed, data and settings of the plan, tuned ones included."""
    recipe = decode(TrainingConfig, plan.seal.decides.get("recipe", {}), file="plan", advice=_ADVICE)
    data = plan.seal.decides.get("data")
    first = {} if planned.amount.pairs is None else {"first": planned.amount.pairs}
    return (
        config.training == planned.training_from(recipe)
        and config.model == planned.model.config
        and isinstance(data, Mapping)
        and config.data == {**data, **first}
    )


def check_sizes(matching: Matching, models: Mapping[str, ModelConfig]) -> Gate:
    """Check whether models have the same size: within the limit in what was counted, and their bodies roughly.

    Args:
        matching: has the count of each model.
        models: by name.
    """
    counts = matching.counts
    if not counts:
        return Gate("matched budgets", False, "the plan has no size of a model")
    smallest, largest, share = spread(counts)
    too_far = False
    quantity = {"flops": "flops", "body": "parameters of the body"}.get(
        matching.budget, "parameters outside embeddings"
    )
    reason = f"{quantity}: {largest} has {counts[largest]:,.4g}, {share:.1%} more than "
    reason += f"{smallest} with {counts[smallest]:,.4g}"
    if matching.budget in ("none", "parameters"):  # these count an output matrix that is no embedding
        smallest_body, largest_body, apart = spread({name: body(config) for name, config in models.items()})
        too_far = apart > BODIES_APART
        reason += f"; without any axis over the vocabulary {largest_body} has {apart:.1%} more than {smallest_body}"
    is_matched = share <= matching.limit and not too_far
    if matching.allowed_apart and not is_matched:
        reason += "; the comparison was asked for all the same"
    passed = is_matched or matching.allowed_apart
    return Gate("matched budgets", passed, reason, value=share, limit=matching.limit)


def decisions(plan: ComparisonPlan, trainings: TrainingRunner) -> dict[str, Any]:
    """Return everything that the results depend on, to be sealed before training."""
    data, tests = trainings.data(plan.first_seed)
    sources = {pair.source or pair.target for pair in tests.validation}
    shared = sum((pair.source or pair.target) in sources for pair in tests.pairs)
    validation = pairs_digest(tests.validation) | {"in_test": shared}
    return of_plan(plan) | {
        "recipe": {name: value for name, value in encode(trainings.recipe).items() if name != "seed"},
        "decoding": encode(trainings.task.decoding),
        "data": dict(data.settings),
        "test": pairs_digest(tests.pairs),
        "tested": digest_of_tests(tests),
        "validation": validation,
    }


def of_plan(plan: ComparisonPlan) -> dict[str, Any]:
    """Return what is sealed of a plan itself."""
    return {name: value for name, value in encode(plan).items() if name not in NOT_SEALED}


def pairs_digest(pairs: Sequence[Pair]) -> dict[str, Any]:
    """Return number and SHA-256 of pairs."""
    return {"items": len(pairs), "sha256": fingerprint([[pair.source, pair.target] for pair in pairs])}


def digest_of_tests(tests: TestSet | RunOutputs) -> str:
    """Return the SHA-256 of all that is tested, with tags and spans, by which the tables divide it."""
    sets: dict[str, list[object]] = {"": [_described(pair) for pair in tests.pairs]}
    for name, items in tests.probes.items():
        sets[name] = [_described(item.pair if isinstance(item, Prediction) else item) for item in items]
    return fingerprint(sets)


def _described(pair: Pair) -> list[object]:
    spans = [[span.field, list(span.source), list(span.target)] for span in pair.spans]
    return [pair.source, pair.target, pair.tag, spans]


def read_published() -> dict[str, dict[str, str]]:
    """Return the published comparisons by name: hash and date of their plan, hash of what is packed."""
    comparisons: dict[str, dict[str, str]] = read_json(PUBLISHED, advice="install selfattn again")
    return comparisons


def published(seal: Seal) -> str:
    """Return the name of the published comparison that had this plan before; empty where there is none."""
    plans = {plan["sha256"]: name for name, plan in read_published().items() if plan["created"] < seal.created}
    return plans.get(seal.sha256, "")


def validation_in_test(seal: Seal) -> str:
    """Say how many test items are validation items too; empty where they are few."""
    match seal.decides:
        case {"validation": {"in_test": int(count)}, "test": {"items": int(items)}} if count > _SHARED * items:
            return f"{count:,} of {items:,} test items"
    return ""
