"""Gates of a comparison: those of its runs, and those on what its models share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from selfattn.comparison.models import check_sizes
from selfattn.comparison.plan import Plan
from selfattn.comparison.tested import Runs, Tested
from selfattn.evaluation.gates.output_gates import baseline_gate
from selfattn.results.record import Gate, Matching

_OF_THE_DATA = ("overlap", "similar texts")  # the same for every model of a seed
_LENGTH = {"epochs", "max_steps", "accumulate", "patience", "target_exact_match"}  # settings that decide the steps
_MACHINE = ("selfattn", "python", "torch", "threads", "cpu")  # the bits of the weights may depend on them
_SCALED = "warmup_steps"  # with the share of a budget; the check against the plan covers it
_EARLY_END = ("patience", "target_exact_match")  # one rule for all, by which each training stops by itself

Models = Mapping[str, Sequence[Tested]]


def make_gates(trained: Runs, plan: Plan) -> tuple[Gate, ...]:
    """Gather the gates of all runs.

    A gate that runs of a model fail is listed for each of them, a gate that all pass once. Runs of smaller budgets are
    only checked for the same data and training: little training makes a model weak, not incomparable.

    Args:
        trained: runs by budget and model.
        plan: of the comparison.
    """
    models, baseline = trained[plan.main], plan.baseline
    gates = [_same_data(models), _same_training(models, plan, plan.main), _matched(models, plan.matching)]
    gates.append(_same_machines(run for others in trained.values() for same in others.values() for run in same))
    for budget, others in trained.items():
        if budget != plan.main:
            checks = (_same_data(others), _same_training(others, plan, budget))
            gates += [gate for gate in checks if not gate.passed]
    for name, runs in models.items():
        by_gate: dict[str, list[Gate]] = {}
        for run in runs:
            stated = baseline and baseline_gate(baseline, run.result.scores[baseline.metric])
            for gate in (*run.result.gates, *([stated] if stated else [])):
                model = "" if gate.name in _OF_THE_DATA else name
                by_gate.setdefault(gate.name, []).append(replace(gate, model=model, seed=run.seed))
        for same in by_gate.values():
            gates += [gate for gate in same if not gate.passed] or same[:1]
    return tuple(dict.fromkeys(gates))


def _matched(models: Models, matching: Matching) -> Gate:
    """Whether the models have the same size."""
    if not matching.counts:
        sizes = {name: float(runs[0].record.parameters_non_embedding) for name, runs in models.items()}
        matching = replace(matching, counts=sizes)
    return check_sizes(matching, {name: runs[0].config.model for name, runs in models.items()})


def _same_data(models: Models) -> Gate:
    """Whether all runs have the same data in the same order, the same seeds and the same decoding."""
    first_name, first = next(iter(models.items()))
    apart = []
    for name, runs in models.items():
        if [run.seed for run in runs] != [run.seed for run in first]:
            apart.append(f"{name} has other seeds than {first_name}")
        for run in runs:
            if _data(run) != _data(first[0]):
                apart.append(f"{run.path.name} was trained on other data than {first[0].path.name}")
            if run.result.decoding != first[0].result.decoding:
                apart.append(f"{run.path.name} was decoded otherwise than {first[0].path.name}")
    reason = "; ".join(apart) or "all models had the same pairs in the same order, and were decoded in the same way"
    return Gate("same data", not apart, reason, value=float(len(apart)), limit=0.0)


def _data(run: Tested) -> tuple[Any, ...]:
    training = run.config.training
    return (dict(run.config.data), training.items_per_epoch, training.batch_size, training.max_tokens)


def differing_machines(runs: Iterable[Tested]) -> tuple[str, ...]:
    """List what differs between the machines of runs: versions, threads and the processor, with all values.

    Args:
        runs: tested or failed.
    """
    values: dict[str, set[str]] = {}
    for run in runs:
        described = {**run.record.versions, **run.record.machine}
        for name in _MACHINE:
            values.setdefault(name, set()).add(str(described.get(name)))
    return tuple(f"{name}: {', '.join(sorted(seen))}" for name, seen in values.items() if len(seen) > 1)


def _same_machines(runs: Iterable[Tested]) -> Gate:
    """Whether all runs had the same versions, threads and processor; a difference is only noted."""
    apart = differing_machines(runs)
    reason = "; ".join(apart) or "all runs had the same versions, threads and processor"
    return Gate("same machine", not apart, reason, value=float(len(apart)), limit=0.0, note=True)


def _same_training(models: Models, plan: Plan, budget: float) -> Gate:
    """Whether all runs have the same settings of the training, and the steps and target tokens of others of their seed.

    A setting may differ where every model has the value of its chosen trial, or where the difference was declared.
    """
    runs = [run for same in models.values() for run in same]
    apart, excused = [], set()
    for name in asdict(runs[0].config.training):
        values = {run: getattr(run.config.training, name) for run in runs}
        if name == "seed" or len(set(values.values())) == 1:
            continue
        is_tuned = name in plan.space and (name == _SCALED or _is_tuned(name, models, plan, budget))
        if name in plan.declared or is_tuned:
            excused.add(name)
            continue
        other = next(run for run in runs if values[run] != values[runs[0]])
        apart.append(f"{name}: {values[runs[0]]} of {runs[0].path.name}, {values[other]} of {other.path.name}")
    if any(getattr(runs[0].config.training, name) is not None for name in _EARLY_END):
        end = ", and stopped by the same rule"
    elif excused & _LENGTH:
        end = ""
    else:
        apart += _work_apart(runs)
        end = ", and each the steps and tokens of the others of its seed"
    reason = "; ".join(apart) or f"all runs had the same settings of the training{end}"
    for words, names in (("was tuned for", excused - set(plan.declared)), ("differs as declared", set(plan.declared))):
        reason += f"; {', '.join(sorted(names & excused))} {words}" if names & excused else ""
    return Gate("same training", not apart, reason, value=float(len(apart)), limit=0.0)


def _work_apart(runs: Sequence[Tested]) -> Iterator[str]:
    """Name runs that made other steps, or read other numbers of tokens, than the first of their seed."""
    for name in ("step", "tokens"):
        first: dict[int, Tested] = {}
        for run in (run for run in runs if not run.failed):
            other = first.setdefault(run.seed, run)
            count, expected = (getattr(same.metrics[-1], name) for same in (run, other))
            if count != expected:
                yield f"{count:,} {name.removesuffix('s')}s of {run.path.name}, {expected:,} of {other.path.name}"


def _is_tuned(name: str, models: Models, plan: Plan, budget: float) -> bool:
    """Whether every run has the value that tuning chose for its model.

    All models must have tried the same two or more rates; one may have gone on beyond them.
    """
    tried = [{float(str(trial.settings["lr"])) for trial in plan.trials.get(model, ())} for model in models]
    grid, every = set.intersection(*tried), set.union(*tried)
    if len(grid) < 2 or any(min(grid) <= rate <= max(grid) for rate in every - grid):
        return False
    chosen = {model: plan.chosen(model, budget)[name] for model in models}
    return all(getattr(run.config.training, name) == chosen[model] for model, runs in models.items() for run in runs)
