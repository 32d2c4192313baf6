"""The gates of a whole comparison: those of its runs, and those on what its models share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from selfattn.evaluation.gates.output_gates import floor_gate
from selfattn.figures.gates import Floor, Gate
from selfattn.figures.record import Matching
from selfattn.models.sizing import spread
from selfattn.runs.testing import Tested

_OF_THE_DATA = ("overlap",)  # the same for every model of a seed


def make_gates(
    models: Mapping[str, Sequence[Tested]], matching: Matching, floor: Floor | None = None
) -> tuple[Gate, ...]:
    """Gather what the gates found.

    Of one gate on all runs of a model, those that did not pass are listed, and where all passed the first.

    Args:
        models: for each model its runs.
        matching: what the models were sized for.
        floor: what others reached, which every run is held against; default unknown.
    """
    found = [*_same(models), _matched(models, matching)]
    for name, runs in models.items():
        by_gate: dict[str, list[Gate]] = {}
        for run in runs:
            asked = [Gate(**gate) for gate in run.figures["gates"]]
            if floor is not None:
                gate = floor_gate(floor, run.figures["scores"][floor.metric])
                asked += [] if gate is None else [gate]
            for gate in asked:
                model = "" if gate.name in _OF_THE_DATA else name
                by_gate.setdefault(gate.name, []).append(replace(gate, model=model, seed=run.seed))
        for results in by_gate.values():
            found += [result for result in results if not result.passed] or results[:1]
    return tuple(dict.fromkeys(found))


def _matched(models: Mapping[str, Sequence[Tested]], matching: Matching) -> Gate:
    counts = dict(matching.counts)
    if not counts:
        counts = {name: float(runs[0].record.parameters_non_embedding) for name, runs in models.items()}
    what = {"none": "parameters outside embeddings", "parameters": "parameters outside embeddings"}
    apart = spread(counts)
    named = f"{what.get(matching.budget, matching.budget)}: {apart.largest} has {counts[apart.largest]:,.4g}, "
    reason = f"{named}{apart.share:.1%} more than {apart.smallest} with {counts[apart.smallest]:,.4g}"
    if len(counts) == 1:
        reason = "one model, nothing to match"
    elif apart.share > matching.limit and matching.allowed_apart:
        reason += "; the comparison was asked for all the same"
    passed = apart.share <= matching.limit or matching.allowed_apart
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
            if run.figures["decoding"] != first[0].figures["decoding"]:
                apart.append(f"{run.path.name} was decoded otherwise than {first[0].path.name}")
    reason = "; ".join(apart) or "all models had the same pairs in the same order, and were decoded in the same way"
    yield Gate("same data", not apart, reason, value=float(len(apart)), limit=0.0)


def _data(run: Tested) -> tuple[Any, ...]:
    training = run.config.training
    return (dict(run.config.data), training.items_per_epoch, training.batch_size, training.max_tokens)
