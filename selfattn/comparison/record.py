"""From trained and tested runs, as they lie on disk, to the record that a report is made from."""

from __future__ import annotations

import statistics
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from selfattn.comparison.buckets import make_buckets
from selfattn.comparison.costs import RunTimes, read_costs
from selfattn.comparison.gates import make_gates
from selfattn.comparison.planning.models import primary_pair
from selfattn.comparison.planning.plan import Plan
from selfattn.comparison.testing import Runs, Tested
from selfattn.data.pairs import Pair
from selfattn.errors import UserError
from selfattn.evaluation.metrics.metric import Metric, make_metric
from selfattn.evaluation.statistics.crossings import LEVEL as ALL_BUDGETS
from selfattn.evaluation.statistics.crossings import budget_differences, locate
from selfattn.evaluation.statistics.significance import MIN_SEEDS, compare_outputs, score_counts
from selfattn.evaluation.statistics.variances import LEVEL
from selfattn.models.config import config_to_dict
from selfattn.models.presets import PRESETS, Preset, get_preset
from selfattn.models.sizing import body
from selfattn.registry import TASKS
from selfattn.results.attention import Attention, AttentionExample, ModelAttention
from selfattn.results.cost import MeanOverRuns, Timing
from selfattn.results.pairs import Comparison
from selfattn.results.protocol import AtBudget, Budgets
from selfattn.results.quality import Estimate, IntervalMethod
from selfattn.results.record import SCHEMA, Difference, Model, Record
from selfattn.runs.directory import RunRecord
from selfattn.runs.task import Task

_DIFFERENCES = 40
_UNDISTURBED = "undisturbed: steps times the median step; steps and decoding timed by turns after the trainings"
_NOT_DATA = ("kind", "validation_items")


def make_record(
    trained: Runs,
    plan: Plan,
) -> Record:
    """Put runs together.

    Args:
        trained: by how much they were trained, for each model its runs, seed after seed; all tested on the same pairs.
        plan: of the comparison; its models may be left open.

    Raises:
        UserError: runs were not tested on the same pairs.
    """
    models = trained[plan.main]
    for own in trained.values():
        for name, runs in own.items():
            if all(run.failed for run in runs):
                raise UserError(f"{runs[0].path}: no training of {name} came to an end: {runs[0].result.failed}")
    firsts = {name: next(run for run in runs if not run.failed) for name, runs in models.items()}
    first = next(iter(firsts.values()))
    pairs = first.pairs
    for run in (run for own in trained.values() for runs in own.values() for run in runs):
        if run.config.task != first.config.task or run.pairs != pairs:
            raise UserError(f"{run.path}: not tested on the same pairs as {first.path}; compare runs of one test")
    shared = _shared([_training(run) for run in firsts.values()])
    predictions = {name: [run.outputs for run in runs] for name, runs in models.items()}
    task: Task = TASKS[first.config.task].from_settings(first.config.data, str(first.path))
    language = task.language
    metrics = {name: make_metric(name, language) for name in (plan.headline.metric, *first.result.scores)}
    metric = metrics[plan.headline.metric]
    references = [pair.target for pair in pairs]
    # Beside the metric that decides, others: two scores that agree are worth more than one.
    tested = [metric, *(make_metric(name, language) for name in metric.beside)]
    labels = [task.repeats(pair) for pair in pairs]
    primary = primary_pair(task, list(models))
    comparison, *further = [
        compare_outputs(predictions, references, one, clusters=labels, primary=primary if one is metric else None)
        for one in tested
    ]
    data = {name: value for name, value in first.config.data.items() if name not in _NOT_DATA}
    planned: dict[str, Any] = {"tuning_space": dict(plan.space)} if plan.space else {}
    planned |= {"declared": list(plan.declared)} if plan.declared else {}
    planned |= {"test_draw": plan.test_draw} if plan.test_draw else {}
    times = _times(models)
    timed = {"training_time": _UNDISTURBED} if times else {}
    return Record(
        schema=SCHEMA,
        task=first.config.task,
        created=max(run.result.created for runs in models.values() for run in runs),
        command=plan.command,
        environment=_environment(first.record),
        settings=data | {"quick": plan.quick} | dict(first.result.decoding) | shared | planned | timed,
        test_items=len(pairs),
        models=tuple(_model(name, runs, shared, comparison, plan, times.get(name)) for name, runs in models.items()),
        headline=plan.headline,
        interval=IntervalMethod(
            LEVEL,
            "closed form" if metric.is_mean else "bootstrap",
            comparison.estimates[next(iter(models))].over,
            len(labels) - len(set(labels)),
        ),
        pairs=tuple(pair for found in (comparison, *further) for pair in found.pairs),
        gates=make_gates(trained, plan),
        matching=plan.matching,
        buckets=make_buckets(models, metric, task),
        attention=Attention(_examples(firsts, pairs)),
        differences=_differences(firsts, pairs),
        subject=task.subject(),
        units={name: one.unit for name, one in metrics.items()},
        budgets=_budgets(trained, plan, metric, labels),
        margin=plan.margin,
    )


def _budgets(trained: Runs, plan: Plan, metric: Metric, labels: Sequence[Hashable]) -> Budgets | None:
    """What every budget's own trainings reach, and what may be said of the two models that the comparison is about."""
    if len(plan.budgets) == 1:
        return None
    references = [pair.target for pair in next(iter(trained[plan.main].values()))[0].pairs]
    cells = {share: trained[plan.variants[share]] for share in plan.budgets}
    counts = {
        share: metric.count_runs({name: [run.outputs for run in own] for name, own in models.items()}, references)
        for share, models in cells.items()
    }
    pair = primary_pair(TASKS[plan.task], list(plan.models))
    differences = budget_differences(counts, metric, pair, clusters=labels) if pair else ()
    by_budget = {one.budget: one for one in differences}
    found = []
    for share, models in cells.items():
        last = [run.metrics[-1] for own in models.values() for run in own if not run.failed]
        found.append(
            AtBudget(
                share,
                score_counts(counts[share], metric, clusters=labels).estimates(),
                last[0].step,
                round(statistics.mean(report.tokens for report in last)),
                round(share * plan.examples) or None,
                by_budget.get(share),
                {name: count for name, own in models.items() if (count := sum(run.failed for run in own))},
            )
        )
    crossing = locate(differences) if differences and plan.seeds >= MIN_SEEDS else None
    return Budgets(plan.budget_in, tuple(found), pair, crossing, ALL_BUDGETS)


def _environment(record: RunRecord) -> Mapping[str, str | int | float | None]:
    versions = {name: record.versions.get(name) for name in ("selfattn", "python", "torch", "babel", "cldr")}
    machine = {name: record.machine.get(name) for name in ("platform", "cpu", "cores", "threads")}
    return versions | machine | {"commit": record.commit}


def _training(run: Tested) -> dict[str, Any]:
    """How a run was trained, but for the seed, as plain JSON values."""
    values = asdict(run.config.training)
    return {name: list(v) if isinstance(v, tuple) else v for name, v in values.items() if name != "seed"}


def _shared(settings: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What is the same for all."""
    return {name: value for name, value in settings[0].items() if all(other[name] == value for other in settings)}


def _model(
    name: str,
    runs: Sequence[Tested],
    shared: Mapping[str, Any],
    comparison: Comparison,
    plan: Plan,
    times: Sequence[RunTimes] | None,
) -> Model:
    first = next(run for run in runs if not run.failed)
    known = first.config.preset in PRESETS
    preset = get_preset(first.config.preset) if known else Preset("", "", lambda: first.config.model)
    own = {key: value for key, value in _training(first).items() if key not in shared}
    cost = first.result.cost
    if times:
        cost = replace(cost, peak_share=times[0].peak_share, decoding=times[0].decoding)
    return Model(
        name=name,
        attention=bool(first.result.attention) or preset.attention,
        parameters=first.record.parameters,
        seeds=tuple(run.seed for run in runs),
        metrics=_metrics(name, runs, comparison, plan.headline.metric),
        summary=preset.summary,
        source=preset.source,
        parameters_non_embedding=first.record.parameters_non_embedding,
        parameters_body=body(first.config.model),
        timing=_timing(runs, times),
        cost=cost,
        alignment=first.result.alignment,
        agreement=first.result.agreement,
        tuning=plan.models[name].trials if name in plan.models else (),
        curves=tuple(run.curve(plan.headline.metric) for run in runs),
        config=config_to_dict(first.config.model) | ({"training": own} if own else {}),
        run_dirs=tuple(f"runs/{run.path.name}" for run in runs),
        failed=tuple(run.seed for run in runs if run.failed),
    )


def _times(models: Mapping[str, Sequence[Tested]]) -> dict[str, list[RunTimes]]:
    """What runs take alone, where all comparisons that they are of have timed all of them; otherwise nothing."""
    found: dict[str, list[RunTimes]] = {}
    for name, runs in models.items():
        for place in (run.path.resolve() for run in runs if not run.failed):
            times = read_costs(place.parent.parent).get(place.name)
            if times is None:
                return {}
            found.setdefault(name, []).append(times)
    return found


def _timing(runs: Sequence[Tested], times: Sequence[RunTimes] | None) -> Timing:
    """Alone on the machine, where that is known; otherwise as it was beside neighbours."""
    runs = [run for run in runs if not run.failed]
    last = [run.metrics[-1] for run in runs]
    if times:
        seconds = training = [one.step_seconds * report.step for one, report in zip(times, last, strict=True)]
        alone = [one.predict_ms for one in times]
        batch = [one.predict_batch_ms for one in times]
    else:
        seconds, training = [run.record.train_seconds for run in runs], [report.seconds for report in last]
        alone = [run.result.predict_ms for run in runs if run.result.predict_ms is not None]
        batch = [1000 * run.result.seconds / len(run.answers) for run in runs]
    speed = [report.tokens / one for report, one in zip(last, training, strict=True)]
    return Timing(_mean(seconds), _mean(speed), _mean(alone) if len(alone) == len(runs) else None, _mean(batch))


def _metrics(name: str, runs: Sequence[Tested], comparison: Comparison, headline: str) -> dict[str, Estimate]:
    """The headline with its interval, and every other metric as it is."""
    metrics = {headline: comparison.estimates[name]}
    for metric in runs[0].result.scores:
        if metric != headline:
            values = tuple(run.result.scores[metric] for run in runs)
            metrics[metric] = Estimate(statistics.mean(values), runs=values)
    return metrics


def _mean(runs: Sequence[float]) -> MeanOverRuns:
    return MeanOverRuns(statistics.mean(runs), tuple(runs))


def _examples(firsts: Mapping[str, Tested], pairs: Sequence[Pair]) -> tuple[AttentionExample, ...]:
    """The attention of all models that have it, side by side on the same pairs."""
    found: dict[int, dict[str, ModelAttention]] = {}
    for name, run in firsts.items():
        for shown in run.result.attention:
            found.setdefault(shown.place, {})[name] = shown.model
    return tuple(
        AttentionExample(pairs[place].source, pairs[place].target, pairs[place].tag, pairs[place].spans, shown)
        for place, shown in sorted(found.items())
    )


def _differences(firsts: Mapping[str, Tested], pairs: Sequence[Pair]) -> tuple[Difference, ...]:
    """Test pairs on which the models do not agree: of every pattern of right and wrong some, rare patterns first."""
    outputs = {name: run.outputs for name, run in firsts.items()}
    patterns: dict[tuple[bool, ...], list[int]] = {}
    for place, pair in enumerate(pairs):
        if len({own[place] for own in outputs.values()}) > 1:
            patterns.setdefault(tuple(own[place] == pair.target for own in outputs.values()), []).append(place)
    chosen: list[int] = []
    rare_first = sorted(patterns.values(), key=lambda places: (len(places), places))
    for number, places in enumerate(rare_first[:_DIFFERENCES]):
        chosen += places[: max(1, (_DIFFERENCES - len(chosen)) // (len(rare_first) - number))]
    return tuple(
        Difference(
            pairs[place].source,
            pairs[place].target,
            pairs[place].tag,
            {name: own[place] for name, own in outputs.items()},
        )
        for place in chosen[:_DIFFERENCES]
    )
