"""Make the record of a comparison from its trained and tested runs on disk."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from selfattn.comparison.archive import Outputs
from selfattn.comparison.costs import ModelTimes, read_costs
from selfattn.comparison.gates import make_gates
from selfattn.comparison.plan import Plan
from selfattn.comparison.quality import measure
from selfattn.comparison.tested import Runs, Tested
from selfattn.data.pairs import Pair
from selfattn.errors import UserError
from selfattn.evaluation.metrics.metric import make_metric
from selfattn.evaluation.statistics.crossings import LEVEL as ALL_BUDGETS
from selfattn.models.config import config_to_dict
from selfattn.models.presets import PRESETS, Preset, get_preset
from selfattn.models.sizing import body
from selfattn.registry import TASKS
from selfattn.results.attention import Attention, AttentionExample, ModelAttention
from selfattn.results.plan import AtBudget, Budgets, Interim
from selfattn.results.record import SCHEMA, MeanOverRuns, Model, Record, Timing
from selfattn.runs.task import Task

_UNDISTURBED = "undisturbed: steps times the median step; steps and decoding timed by turns after the trainings"
_NOT_DATA = ("kind", "validation_items")


def make_record(trained: Runs, plan: Plan, outputs: Outputs | None = None) -> Record:
    """Put runs together.

    Args:
        trained: runs by budget and model, seed after seed, all tested on the same pairs.
        plan: of the comparison; it may have no models.
        outputs: of all runs; default those of their tests.

    Raises:
        UserError: runs were tested on different pairs, or all trainings of a model failed.
    """
    models = trained[plan.main]
    every = [(name, runs) for same in trained.values() for name, runs in same.items()]
    for name, runs in every:
        if all(run.failed for run in runs):
            raise UserError(f"{runs[0].path}: no training of {name} came to an end: {runs[0].result.failed}")
    firsts = {name: next(run for run in runs if not run.failed) for name, runs in models.items()}
    first = next(iter(firsts.values()))
    pairs = first.pairs
    for run in (run for _, runs in every for run in runs):
        if run.config.task != first.config.task or run.pairs != pairs:
            raise UserError(f"{run.path}: not tested on the same pairs as {first.path}; name runs of one test")
    shared = _shared([_training(run) for run in firsts.values()])
    task: Task = TASKS[first.config.task].from_settings(first.config.data, str(first.path))
    metrics = {name: make_metric(name, task.language) for name in (plan.headline.metric, *first.result.scores)}
    data = {name: value for name, value in first.config.data.items() if name not in _NOT_DATA}
    planned: dict[str, Any] = {"tuning_space": dict(plan.space)} if plan.space else {}
    planned |= {"declared": list(plan.declared)} if plan.declared else {}
    planned |= {"test_draw": plan.test_draw} if plan.test_draw else {}
    times = _times(models)
    timed = {"training_time": _UNDISTURBED} if times else {}
    versions = {name: first.record.versions.get(name) for name in ("selfattn", "python", "torch", "babel", "cldr")}
    machine = {name: first.record.machine.get(name) for name in ("platform", "cpu", "cores", "threads")}
    record = Record(
        schema=SCHEMA,
        task=first.config.task,
        created=max(run.result.created for runs in models.values() for run in runs),
        command=plan.command,
        environment=versions | machine | {"commit": first.record.commit},
        settings=data | {"quick": plan.quick} | dict(first.result.decoding) | shared | planned | timed,
        test_items=len(pairs),
        models=tuple(_model(name, runs, shared, plan, times.get(name)) for name, runs in models.items()),
        headline=plan.headline,
        gates=make_gates(trained, plan),
        matching=plan.matching,
        attention=Attention(_examples(firsts, pairs)),
        subject=task.subject(),
        units={name: metric.unit for name, metric in metrics.items()},
        interim=Interim(plan.looks, plan.bounds, plan.ended) if plan.ended else None,
        budgets=_budgets(trained, plan) if len(plan.budgets) > 1 else None,
        margin=plan.margin,
    )
    return measure(record, first.config.data, outputs or outputs_of(trained))


def outputs_of(trained: Runs) -> Outputs:
    """Return the outputs of all runs by budget and model."""
    return {
        budget: {name: [run.answered for run in runs] for name, runs in models.items()}
        for budget, models in trained.items()
    }


def _budgets(trained: Runs, plan: Plan) -> Budgets:
    """Describe the trainings of every budget, without their quality."""
    cells = []
    for share in plan.budgets:
        models = trained[share]
        last = [run.metrics[-1] for runs in models.values() for run in runs if not run.failed]
        tokens = round(statistics.mean(report.tokens for report in last))
        cells.append(AtBudget(share, {}, last[0].step, tokens, round(share * plan.examples) or None))
    return Budgets(plan.budget_in, tuple(cells), plan.primary, level=ALL_BUDGETS)


def _training(run: Tested) -> dict[str, Any]:
    """Settings of a run's training without the seed, as plain values."""
    values = asdict(run.config.training)
    return {name: list(v) if isinstance(v, tuple) else v for name, v in values.items() if name != "seed"}


def _shared(settings: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {name: value for name, value in settings[0].items() if all(other[name] == value for other in settings)}


def _model(
    name: str,
    runs: Sequence[Tested],
    shared: Mapping[str, Any],
    plan: Plan,
    times: Sequence[ModelTimes] | None,
) -> Model:
    first = next(run for run in runs if not run.failed)
    known = first.config.preset in PRESETS
    preset = get_preset(first.config.preset) if known else Preset("", "", lambda: first.config.model)
    training = {key: value for key, value in _training(first).items() if key not in shared}
    cost = first.result.cost
    if times:
        cost = replace(cost, peak_share=times[0].peak_share, decoding=times[0].decoding)
    return Model(
        name=name,
        attention=bool(first.result.attention) or preset.attention,
        parameters=first.record.parameters,
        seeds=tuple(run.seed for run in runs),
        metrics={},
        summary=preset.summary,
        source=preset.source,
        parameters_non_embedding=first.record.parameters_non_embedding,
        parameters_body=body(first.config.model),
        timing=_timing(runs, times) if times else Timing(),
        cost=cost,
        alignment=first.result.alignment,
        agreement=first.result.agreement,
        trials=plan.trials.get(name, ()),
        curves=tuple(run.curve(plan.headline.metric) for run in runs),
        config=config_to_dict(first.config.model) | ({"training": training} if training else {}),
        run_dirs=tuple(f"runs/{run.path.name}" for run in runs),
        failed=tuple(run.seed for run in runs if run.failed),
    )


def _times(models: Mapping[str, Sequence[Tested]]) -> dict[str, list[ModelTimes]]:
    """Return the times of each sound run's model, where all were timed; otherwise nothing."""
    costs = {home: read_costs(home) for home in {run.home for runs in models.values() for run in runs}}
    sound = {name: [run for run in runs if not run.failed] for name, runs in models.items()}
    if not all(run.directory_name in costs[run.home] for runs in sound.values() for run in runs):
        return {}
    return {name: [costs[run.home][run.directory_name] for run in runs] for name, runs in sound.items()}


def _timing(runs: Sequence[Tested], times: Sequence[ModelTimes]) -> Timing:
    """Return the times of a model alone on the machine."""
    last = [run.metrics[-1] for run in runs if not run.failed]
    seconds = [timed.step_seconds * report.step for timed, report in zip(times, last, strict=True)]
    speed = [report.tokens / taken for report, taken in zip(last, seconds, strict=True)]
    single, batch = [timed.predict_ms for timed in times], [timed.predict_batch_ms for timed in times]
    return Timing(*map(_mean, (seconds, speed, single, batch)))


def _mean(values: Sequence[float]) -> MeanOverRuns:
    return MeanOverRuns(statistics.mean(values), tuple(values))


def _examples(firsts: Mapping[str, Tested], pairs: Sequence[Pair]) -> tuple[AttentionExample, ...]:
    """Put the attention of all models side by side on the same pairs."""
    examples: dict[int, dict[str, ModelAttention]] = {}
    for name, run in firsts.items():
        for shown in run.result.attention:
            examples.setdefault(shown.place, {})[name] = shown.model
    return tuple(
        AttentionExample(pairs[place].source, pairs[place].target, pairs[place].tag, pairs[place].spans, shown)
        for place, shown in sorted(examples.items())
    )
