"""Check a comparison: its gates, those of its runs and on what its models share; and departures from its plan."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from itertools import chain
from pathlib import Path

from selfattn.comparison import seal
from selfattn.comparison.costs import COSTS, digest_of_costs
from selfattn.comparison.plan import TUNING, ComparisonPlan, Training
from selfattn.comparison.preparation import check_sizes
from selfattn.comparison.run_table import RunTable
from selfattn.comparison.tested import Tested, came_to_its_end
from selfattn.comparison.trainings import DIVERGED
from selfattn.comparison.tuning import choose, digest_of_trials, planned_trials, tuned_settings
from selfattn.errors import UserError
from selfattn.evaluation.gates import baseline_gate
from selfattn.experiments.plan import PLAN, check_ledger, decide_alike, departures
from selfattn.plugin_loading import changed_plugins
from selfattn.results.plan import Departure, PlanCheck
from selfattn.results.record import Gate
from selfattn.runs.directory import RunDirectory
from selfattn.runs.ledger import first_lines, is_sealed, read_ledger
from selfattn.runs.record import RunConfig

_OF_THE_DATA = ("overlap", "similar texts", "known targets", "validation = test")  # the same for every model of a seed
_MACHINE = ("selfattn", "commit", "python", "torch", "threads", "cpu")  # the bits of the weights may depend on them
_ROUNDED = 0.01  # of the tokens
_EARLY_END = ("patience", "target_exact_match")  # one rule for all, by which each training stops by itself

Models = Mapping[str, Sequence[Tested]]


def make_gates(trained: RunTable[Tested], plan: ComparisonPlan) -> tuple[Gate, ...]:
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
    runs = list(chain.from_iterable(models.values()))
    first = runs[0]
    different = [run.path.name for run in runs if run.config.data != first.config.data]
    apart = [f"{name} was trained on other data than {first.path.name}" for name in different]
    return _gate("same data", apart, "all models had the same pairs")


def differing_machines(runs: Iterable[Tested]) -> tuple[str, ...]:
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


def _work_apart(runs: Sequence[Tested], *, same_steps: bool) -> Iterator[str]:
    """Name runs that made other steps, or read other numbers of tokens, than the first of their seed.

    Where steps read differently much, a share of all steps may end within a step of another: tokens may differ by 1 %.
    """
    for name in ("step", "tokens") if same_steps else ("tokens",):
        first: dict[int, Tested] = {}
        for run in (run for run in runs if not run.failed):
            other = first.setdefault(run.seed, run)
            count = getattr(run.metrics[-1], name)
            expected = getattr(other.metrics[-1], name)
            if abs(count - expected) > (0 if same_steps else _ROUNDED * expected):
                yield f"{count:,} {name.removesuffix('s')}s of {run.path.name}, {expected:,} of {other.path.name}"


# the plan


def check_plan(comparison: Path, plan: ComparisonPlan, runs: RunTable[Tested]) -> PlanCheck:
    """Check a comparison against its plan.

    Args:
        comparison: its directory.
        plan: as it is now.
        runs: all tested runs.

    Raises:
        UserError: the ledger is broken.
    """
    entries = tuple(entry for entry in read_ledger(comparison) if entry.run)
    planned = plan.seal.decides.get("seeds")
    return PlanCheck(
        plan.seal,
        plan.pilot,
        tuple(_departures(comparison, plan, runs)),
        entries,
        seeds=min(map(len, runs.main.values())),
        planned_seeds=planned if isinstance(planned, int) else plan.seeds,
        replays=seal.published(plan.seal),
        machines=differing_machines(runs.all()),
    )


def _departures(comparison: Path, plan: ComparisonPlan, runs: RunTable[Tested]) -> Iterator[Departure]:
    sealed = plan.seal.decides
    now = seal.of_plan(plan)
    sealable = [field.name for field in fields(ComparisonPlan) if field.name not in seal.NOT_SEALED]
    changed = [name for name in sealable if now.get(name) != sealed.get(name)]
    entries = read_ledger(comparison)
    if not all(decide_alike(entry.command, plan.command) for entry in first_lines(entries)):
        changed.append("command")
    tested = runs.all()
    configs = {run.path.name: run.config for run in tested}
    planned = [run for run in plan.runs() if run.label in configs]
    unplanned = [run.label for run in planned if not _is_as_planned(plan, run, configs[run.label])]
    first = tested[0]
    others = [] if seal.digest_of(first.answered.pairs) == sealed.get("test") else [first.path.name]
    if "tested" in sealed:  # of older plans, the test items alone
        others += [run.path.name for run in tested if seal.digest_of_tests(run.answered) != sealed["tested"]]
    yield from check_ledger(comparison, plan.seal, changed, {run.path.name: run.digest for run in tested})
    names = {run.path.name for run in tested}
    outputs = {entry.run: entry.outputs for entry in entries if entry.outputs}
    changed_outputs = [
        name for run in tested if outputs.get(name := run.path.name) not in (None, run.digests["outputs"])
    ]
    times = [entry.when for entry in entries]
    is_ordered = times == sorted(times)  # otherwise the clock went back, and the order of the ledger alone decides
    shared = seal.validation_in_test(plan.seal)
    yield from departures(
        tuning=_changed_trials(comparison, plan),
        costs=[] if is_sealed(entries, COSTS, digest_of_costs(comparison)) else [COSTS],
        plugins=plugins_apart(plan, tested),
        validation=[shared] if shared else [],
        missing=[entry.run for entry in entries if entry.run and entry.run not in names],
        settings=unplanned,
        unrecorded=changed_outputs,
        test=others + [run.path.name for run in tested if run.failed and came_to_its_end(run.directory)],
        before=[run.path.name for run in tested if is_ordered and run.record.created < plan.seal.created],
    )


def _changed_trials(comparison: Path, plan: ComparisonPlan) -> list[str]:
    """Name what was changed of the tuning since its line in the ledger, which comes before the first test."""
    if not plan.tuning_trials:
        return []
    entries = read_ledger(comparison)
    tested = [place for place, entry in enumerate(entries) if entry.run]
    sealed = [place for place, entry in enumerate(entries) if entry.sealed == TUNING]
    problems = [] if sealed and sealed[-1] < min(tested, default=len(entries)) else ["ledger.jsonl"]
    try:
        if choose(plan, comparison) != plan.trials:
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


def plugins_apart(plan: ComparisonPlan, runs: Sequence[Tested]) -> list[str]:
    """Name plugins that are now, or were in a run, others than in the plan."""
    changed = changed_plugins(plan.plugins)
    for run in runs:
        changed += changed_plugins(run.config.plugins, plan.plugins)
    return changed


def _is_as_planned(plan: ComparisonPlan, planned: Training, config: RunConfig) -> bool:
    """Whether a run, or a trial, has the seed, data and settings of the plan, tuned ones included."""
    recipe = seal.recipe_in(plan.seal.decides, seed=planned.seed, **planned.model.training)
    pairs = planned.variant.pairs
    data = dict(plan.seal.decides["data"]) | ({} if pairs is None else {"first": pairs})  # type: ignore[call-overload]  # plain values
    return (
        config.training == planned.variant.applied_to(recipe, planned.steps)
        and config.model == planned.model.config
        and dict(config.data) == data
    )
