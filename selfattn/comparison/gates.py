"""The gates of a whole comparison: those of its runs, and those on what its models share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from selfattn.comparison.planning.plan import Plan, Variant
from selfattn.comparison.testing import Runs, Tested
from selfattn.evaluation.gates.output_gates import baseline_gate
from selfattn.models.sizing import body, spread
from selfattn.results.gates import Gate
from selfattn.results.record import BODIES_APART, Matching

_OF_THE_DATA = ("overlap",)  # the same for every model of a seed
_SCALED = "warmup_steps"  # with the share of a budget; who was tuned for another one is held against the plan
_LENGTH = {"epochs", "max_steps", "accumulate", "patience", "target_exact_match"}  # decide how many steps there are
_OWN_END = ("patience", "target_exact_match")  # one rule for all, by which each stops when it is time


def make_gates(trained: Runs, plan: Plan) -> tuple[Gate, ...]:
    """Gather what the gates found.

    Of one gate on all runs of a model, those that did not pass are listed, and where all passed the first. Of what is
    not trained with the largest budget, data and training are held together: a model that little training leaves weak
    is weak, and not incomparable.

    Args:
        trained: by how much they were trained, for each model its runs.
        plan: says what the models were sized for, what was tuned, what was declared to differ, and what others reached.
    """
    models, baseline = trained[plan.main], plan.baseline
    others = {variant: own for variant, own in trained.items() if variant != plan.main}
    found = [*_same(models), _same_training(models, plan, plan.main), _matched(models, plan.matching)]
    found += [
        gate
        for variant, own in others.items()
        for gate in (*_same(own), _same_training(own, plan, variant))
        if not gate.passed
    ]
    for name, runs in models.items():
        by_gate: dict[str, list[Gate]] = {}
        for run in runs:
            stated = baseline and baseline_gate(baseline, run.result.scores[baseline.metric])
            for gate in (*run.result.gates, *([stated] if stated else [])):
                model = "" if gate.name in _OF_THE_DATA else name
                by_gate.setdefault(gate.name, []).append(replace(gate, model=model, seed=run.seed))
        for results in by_gate.values():
            found += [result for result in results if not result.passed] or results[:1]
    return tuple(dict.fromkeys(found))


def _matched(models: Mapping[str, Sequence[Tested]], matching: Matching) -> Gate:
    counts = dict(matching.counts)
    if not counts:
        counts = {name: float(runs[0].record.parameters_non_embedding) for name, runs in models.items()}
    what = dict.fromkeys(("none", "parameters"), "parameters outside embeddings") | {"body": "parameters of the body"}
    apart, too_far = spread(counts), False
    named = f"{what.get(matching.budget, matching.budget)}: {apart.largest} has {counts[apart.largest]:,.4g}, "
    reason = f"{named}{apart.share:.1%} more than {apart.smallest} with {counts[apart.smallest]:,.4g}"
    if len(counts) == 1:
        reason = "one model, nothing to match"
    elif matching.budget in ("none", "parameters"):  # these count an output matrix that is no embedding
        bodies = spread({name: body(runs[0].config.model) for name, runs in models.items()})
        too_far = bodies.share > BODIES_APART
        reason += f"; without any axis over the vocabulary {bodies.largest} has {bodies.share:.1%} more than "
        reason += bodies.smallest
    if len(counts) > 1 and (too_far or apart.share > matching.limit) and matching.allowed_apart:
        reason += "; the comparison was asked for all the same"
    passed = (apart.share <= matching.limit and not too_far) or matching.allowed_apart
    return Gate("matched budgets", passed, reason, value=apart.share, limit=matching.limit)


def _same(models: Mapping[str, Sequence[Tested]]) -> Iterator[Gate]:
    """The same data in the same order, the same seeds, the same vocabulary."""
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
    yield Gate("same data", not apart, reason, value=float(len(apart)), limit=0.0)


def _data(run: Tested) -> tuple[Any, ...]:
    training = run.config.training
    return (dict(run.config.data), training.items_per_epoch, training.batch_size, training.max_tokens)


def _same_training(models: Mapping[str, Sequence[Tested]], plan: Plan, variant: Variant) -> Gate:
    """The same settings of the training, and as many steps and target tokens as the others of a seed.

    A setting may differ between models where each has that of its chosen trial, with as many trials for each, or where
    it was declared to differ.
    """
    runs = [run for own in models.values() for run in own]
    apart, excused = [], set()
    for name in asdict(runs[0].config.training):
        values = {run: getattr(run.config.training, name) for run in runs}
        if name == "seed" or len(set(values.values())) == 1:
            continue
        if name in plan.declared or _tuned_for(name, models, plan, variant) or (name == _SCALED and plan.space):
            excused.add(name)
            continue
        other = next(run for run in runs if values[run] != values[runs[0]])
        apart.append(f"{name}: {values[runs[0]]} of {runs[0].path.name}, {values[other]} of {other.path.name}")
    if any(getattr(runs[0].config.training, name) is not None for name in _OWN_END):
        done = ", and stopped by the same rule"
    elif excused & _LENGTH:
        done = ""
    else:
        apart += _done_apart(runs)
        done = ", and each the steps and tokens of the others of its seed"
    reason = "; ".join(apart) or f"all runs had the same settings of the training{done}"
    for words, names in (("was tuned for", excused - set(plan.declared)), ("differs as declared", set(plan.declared))):
        reason += f"; {', '.join(sorted(names & excused))} {words}" if names & excused else ""
    return Gate("same training", not apart, reason, value=float(len(apart)), limit=0.0)


def _done_apart(runs: Sequence[Tested]) -> Iterator[str]:
    """Runs of one seed that made other steps, or read other numbers of tokens."""
    for name in ("step", "tokens"):
        first: dict[int, Tested] = {}
        for run in (run for run in runs if not run.failed):
            other = first.setdefault(run.seed, run)
            done, expected = (getattr(one.metrics[-1], name) for one in (run, other))
            if done != expected:
                yield f"{done:,} {name.removesuffix('s')}s of {run.path.name}, {expected:,} of {other.path.name}"


def _tuned_for(name: str, models: Mapping[str, Sequence[Tested]], plan: Plan, variant: Variant) -> bool:
    """Whether every run has what the trials had that were chosen for its model: a value, or that of the recipe."""
    trials = {model: plan.models[model].trials if model in plan.models else () for model in models}
    counts, of_recipe = {len(own) for own in trials.values()}, set()
    if len(counts) > 1 or min(counts) < 2:
        return False
    for model, runs in models.items():
        chosen: dict[str, object] = {}
        for trial in trials[model]:
            if trial.chosen and (trial.budget is None or plan.variants.get(trial.budget) == variant):
                chosen |= trial.settings
        values = {getattr(run.config.training, name) for run in runs}
        if name not in chosen:
            of_recipe |= values
        elif values != {chosen[name]}:
            return False
    return len(of_recipe) < 2
