"""The record of a comparison: a function of its plan and of its tested runs."""

import json
import statistics
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from selfattn.codec import encode, flat
from selfattn.comparison.analysis import measure
from selfattn.comparison.check import check_plan, make_gates
from selfattn.comparison.costs import ModelTimes, read_costs, step_key
from selfattn.comparison.plan import ComparisonPlan, PlannedModel, tuned_settings
from selfattn.comparison.tested import RunOnDisk, RunOutputs, RunTable, by_model
from selfattn.comparison.trainings import examples_until, space_texts
from selfattn.data.pairs import Pair
from selfattn.errors import UserError
from selfattn.evaluation.design import ALL_BUDGETS
from selfattn.evaluation.metrics import make_metric
from selfattn.evaluation.variances import compare_arrivals, describe_arrivals
from selfattn.models.build import body
from selfattn.models.config import config_to_dict
from selfattn.models.families import PRESETS, Preset, get_preset
from selfattn.results import record as results
from selfattn.results.plan import AtBudget, Budgets
from selfattn.results.quality import Target
from selfattn.runs.task import TaskData, task_of_run
from selfattn.runs.training_set import CURVE_ITEMS

UNDISTURBED = "undisturbed: steps times the median step; steps and decoding timed by turns after the trainings"

NOT_DATA = ("kind", "validation_items")


def make_record(
    comparison: Path, trained: RunTable[RunOnDisk], plan: ComparisonPlan, outputs: RunTable[RunOutputs] | None = None
) -> results.Record:
    """Put the runs of a comparison together.

    Args:
        comparison: its directory.
        trained: all runs, tested on the same pairs.
        plan: of the comparison.
        outputs: of all runs; default those of their tests.

    Raises:
        UserError: runs were tested on different pairs, or all trainings of a model failed.
    """
    for budget, name, run in trained.rows():
        if all(other.failed for other in trained.at(budget)[name]):
            raise UserError(f"{run.path}: no training of {name} came to an end: {run.result.failed}")
    models = trained.main
    firsts = {name: trained.finished(name) for name in models}
    first = next(iter(firsts.values()))
    pairs = first.outputs.pairs
    for run in trained.all():
        if run.config.task != first.config.task or run.outputs.pairs != pairs:
            raise UserError(f"{run.path}: not tested on the same pairs as {first.path}; name runs of one test")
    tuned = tuned_settings(plan.space, list(plan.models))
    trainings = [_training(run) for run in firsts.values()]
    shared = {}
    for setting, value in trainings[0].items():
        if setting not in tuned and all(other.get(setting) == value for other in trainings):
            shared[setting] = value
    task = task_of_run(first.config, str(first.path))
    names = dict.fromkeys((plan.headline.metric, *first.result.scores))
    metrics = [make_metric(name, task.language) for name in names]
    data = {name: value for name, value in first.config.data.items() if name not in NOT_DATA}
    times = read_costs(comparison)
    planned = {
        "test_draw": plan.test_draw,
        "training_time": UNDISTURBED if times else "",
        "curve_items": CURVE_ITEMS if any(run.directory.curve() for run in trained.all()) else 0,
    }
    settings = data | {"quick": plan.quick} | dict(first.result.decoding) | shared
    versions = {name: first.record.versions.get(name) for name in ("selfattn", "python", "torch", "babel", "cldr")}
    machine = {name: first.record.machine.get(name) for name in ("platform", "cpu", "cores", "threads")}
    described = [_model(task, runs, shared, plan, times.get(name)) for name, runs in models.items()]
    tuning = None
    if plan.space:
        tuning = results.Tuning(plan.tuning_trials, plan.tunings, plan.tuning_seed, space_texts(plan))
    record = results.Record(
        schema=results.SCHEMA,
        task=first.config.task,
        created=max(run.result.created for run in chain.from_iterable(models.values())),
        command=plan.command,
        environment=versions | machine | {"commit": first.record.commit},
        settings=settings | {name: value for name, value in planned.items() if value},
        test_items=len(pairs),
        models=tuple(described),
        gates=make_gates(trained, plan),
        matching=plan.matching,
        attention=results.Attention(_examples(firsts, pairs)),
        subject=task.subject(),
        budgets=_budgets(trained, plan) if len(plan.budgets) > 1 else None,
        margin=plan.margin,
        tuning=tuning,
        plan=check_plan(comparison, plan, trained),
        target=_target(trained, plan, plan.until) if plan.until is not None else None,
    )
    further = first.config.data.get("further_tests", ())
    return measure(record, task, outputs or outputs_of(trained), metrics, further)


def _target(trained: RunTable[RunOnDisk], plan: ComparisonPlan, share: float) -> Target:
    """Return what the runs read until they reached the target, and the tests of all pairs of models."""
    first = trained.first.config.training
    cap = first.items_per_epoch or 0
    examples = by_model(trained.main, lambda run: examples_until(run.directory))
    return Target(
        share,
        cap,
        first.batch_size * first.accumulate * (first.validate_every or 1),
        first.look_items or first.validation_items,
        first.validation_items,
        {name: describe_arrivals(counts, cap) for name, counts in examples.items()},
        compare_arrivals(examples, cap, plan.primary),
    )


def outputs_of(trained: RunTable[RunOnDisk]) -> RunTable[RunOutputs]:
    """Return the outputs of all runs."""
    return trained.map(lambda run: run.outputs)


def _budgets(trained: RunTable[RunOnDisk], plan: ComparisonPlan) -> Budgets:
    """Describe the trainings of every budget, without their quality."""
    cells = []
    for share in plan.budgets:
        runs = chain.from_iterable(trained.at(share).values())
        last = [run.metrics[-1] for run in runs if not run.failed]
        tokens = round(statistics.mean(report.tokens for report in last))
        cells.append(AtBudget(share, {}, last[0].step, tokens, round(share * plan.examples) or None))
    amounts = [cell.examples or cell.steps for cell in cells]
    if len(set(amounts)) < len(amounts):
        path = next(iter(trained.at(plan.budgets[-1]).values()))[0].path
        raise UserError(f"{path}: trained as much as a run of another budget; remove it, and compare with `resume`")
    return Budgets(plan.budget_in, tuple(cells), plan.primary, level=ALL_BUDGETS)


def _training(run: RunOnDisk) -> dict[str, Any]:
    """Return the settings of a run's training without the seed, as plain values."""
    training = run.config.training
    return {name: encode(value) for name, value in vars(training).items() if name != "seed"}


def changed_settings(task: TaskData, planned: PlannedModel, *, is_sized: bool) -> dict[str, str]:
    """Return the settings in which a model is not as its preset is for the task.

    Args:
        task: sizes presets.
        planned: the model.
        is_sized: whether its widths were chosen to match others.
    """
    if planned.preset not in PRESETS:
        return {}
    usual = dict(flat(config_to_dict(task.size(get_preset(planned.preset).config))))
    changes = {}
    for name, value in flat(config_to_dict(planned.config)):
        is_width = is_sized and name.endswith("dim")
        if usual.get(name) != value and not is_width:
            changes[name] = value if isinstance(value, str) else json.dumps(value)
    return changes


def _model(
    task: TaskData, runs: Sequence[RunOnDisk], shared: Mapping[str, Any], plan: ComparisonPlan, times: ModelTimes | None
) -> results.Model:
    """Describe a model by the first of its runs that came to an end, and by all of them."""
    first = next(run for run in runs if not run.failed)
    planned = plan.models[first.name]
    preset = Preset("", "", lambda: first.config.model)
    if first.config.preset in PRESETS:
        preset = get_preset(first.config.preset)
    shared_keys = shared.keys() | space_texts(plan)[first.name].keys()
    training = {key: value for key, value in _training(first).items() if key not in shared_keys}
    return results.Model(
        name=first.name,
        attention=bool(first.result.attention) or preset.attention,
        parameters=first.record.parameters,
        seeds=tuple(run.seed for run in runs),
        metrics={},
        summary=preset.summary,
        source=preset.source,
        parameters_non_embedding=first.record.parameters_non_embedding,
        parameters_body=body(first.config.model),
        timing=_timing(runs, times) if times else results.Timing(),
        **{name: getattr(first.result, name) for name in ("cost", "alignment", "agreement", "heads")},
        trials=plan.trials.get(first.name, ()),
        curves=tuple(run.curve(plan.headline.metric) for run in runs),
        config=config_to_dict(first.config.model) | ({"training": training} if training else {}),
        run_dirs=tuple(f"{run.path.parent.name}/{run.path.name}" for run in runs),
        tunings=tuple(plan.tuning_of(run.seed) for run in runs) if plan.tunings > 1 else (),
        preset=planned.preset,
        changes=changed_settings(task, planned, is_sized=plan.matching.target is not None),
    )


def _timing(runs: Sequence[RunOnDisk], times: ModelTimes) -> results.Timing:
    """Return the times of a model alone on the machine."""
    finished = [run for run in runs if not run.failed]
    last = [run.metrics[-1] for run in finished]
    steps = [times.steps.get(step_key(run.name, run.config.training), times.step_seconds) for run in finished]
    seconds = [step * report.step for step, report in zip(steps, last, strict=True)]
    speed = [report.tokens / taken for report, taken in zip(last, seconds, strict=True)]
    single = [times.predict_ms] * len(last)
    batch = [times.predict_batch_ms] * len(last)
    return results.Timing(
        *(results.MeanOverRuns(statistics.mean(values), tuple(values)) for values in (seconds, speed, single, batch))
    )


def _examples(firsts: Mapping[str, RunOnDisk], pairs: Sequence[Pair]) -> tuple[results.AttentionExample, ...]:
    """Put the attention of all models side by side on the same pairs."""
    examples: dict[int, dict[str, results.ModelAttention]] = {}
    for name, run in firsts.items():
        for item in run.result.attention:
            examples.setdefault(item.place, {})[name] = item.model
    return tuple(
        results.AttentionExample(pairs[place].source, pairs[place].target, pairs[place].tag, pairs[place].spans, models)
        for place, models in sorted(examples.items())
    )
