"""Make the record of a comparison from its trained and tested runs on disk."""

from __future__ import annotations

import statistics
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from selfattn.comparison.buckets import make_buckets
from selfattn.comparison.costs import RunTimes, read_costs
from selfattn.comparison.gates import make_gates
from selfattn.comparison.models import primary_pair
from selfattn.comparison.plan import Plan
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
from selfattn.results.plan import AtBudget, Budgets
from selfattn.results.quality import Estimate, IntervalMethod
from selfattn.results.record import SCHEMA, Difference, Model, Record
from selfattn.runs.task import Task

_DIFFERENCES = 40
_UNDISTURBED = "undisturbed: steps times the median step; steps and decoding timed by turns after the trainings"
_NOT_DATA = ("kind", "validation_items")


def make_record(trained: Runs, plan: Plan) -> Record:
    """Put runs together.

    Args:
        trained: runs by variant and model, seed after seed, all tested on the same pairs.
        plan: of the comparison; it may have no models.

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
            raise UserError(f"{run.path}: not tested on the same pairs as {first.path}; compare runs of one test")
    shared = _shared([_training(run) for run in firsts.values()])
    predictions = {name: [run.outputs for run in runs] for name, runs in models.items()}
    task: Task = TASKS[first.config.task].from_settings(first.config.data, str(first.path))
    metrics = {name: make_metric(name, task.language) for name in (plan.headline.metric, *first.result.scores)}
    metric = metrics[plan.headline.metric]
    references = [pair.target for pair in pairs]
    # Beside the metric that decides, others: two scores that agree are worth more than one.
    tested = [metric, *(make_metric(name, task.language) for name in metric.beside)]
    labels = [task.repeats(pair) for pair in pairs]
    primary = primary_pair(task, list(models))
    comparison, *further = [
        compare_outputs(predictions, references, same, clusters=labels, primary=primary if same is metric else None)
        for same in tested
    ]
    data = {name: value for name, value in first.config.data.items() if name not in _NOT_DATA}
    planned: dict[str, Any] = {"tuning_space": dict(plan.space)} if plan.space else {}
    planned |= {"declared": list(plan.declared)} if plan.declared else {}
    planned |= {"test_draw": plan.test_draw} if plan.test_draw else {}
    times = _times(models)
    timed = {"training_time": _UNDISTURBED} if times else {}
    versions = {name: first.record.versions.get(name) for name in ("selfattn", "python", "torch", "babel", "cldr")}
    machine = {name: first.record.machine.get(name) for name in ("platform", "cpu", "cores", "threads")}
    return Record(
        schema=SCHEMA,
        task=first.config.task,
        created=max(run.result.created for runs in models.values() for run in runs),
        command=plan.command,
        environment=versions | machine | {"commit": first.record.commit},
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
        pairs=tuple(pair for same in (comparison, *further) for pair in same.pairs),
        gates=make_gates(trained, plan),
        matching=plan.matching,
        buckets=make_buckets(models, metric, task),
        attention=Attention(_examples(firsts, pairs)),
        differences=_differences(firsts, pairs),
        subject=task.subject(),
        units={name: metric.unit for name, metric in metrics.items()},
        budgets=_budgets(trained, plan, metric, labels) if len(plan.budgets) > 1 else None,
        margin=plan.margin,
    )


def _budgets(trained: Runs, plan: Plan, metric: Metric, labels: Sequence[Hashable]) -> Budgets:
    """Estimate every budget's trainings, and the difference of the primary pair over budgets."""
    references = [pair.target for pair in next(iter(trained[plan.main].values()))[0].pairs]
    cells = {share: trained[plan.variants[share]] for share in plan.budgets}
    counts = {
        share: metric.count_runs({name: [run.outputs for run in runs] for name, runs in models.items()}, references)
        for share, models in cells.items()
    }
    pair = primary_pair(TASKS[plan.task], list(plan.models))
    differences = budget_differences(counts, metric, pair, clusters=labels) if pair else ()
    by_budget = {difference.budget: difference for difference in differences}
    reached = []
    for share, models in cells.items():
        last = [run.metrics[-1] for runs in models.values() for run in runs if not run.failed]
        reached.append(
            AtBudget(
                share,
                score_counts(counts[share], metric, clusters=labels).estimates(),
                last[0].step,
                round(statistics.mean(report.tokens for report in last)),
                round(share * plan.examples) or None,
                by_budget.get(share),
                {name: count for name, runs in models.items() if (count := sum(run.failed for run in runs))},
            )
        )
    crossing = locate(differences) if differences and plan.seeds >= MIN_SEEDS else None
    return Budgets(plan.budget_in, tuple(reached), pair, crossing, ALL_BUDGETS)


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
    comparison: Comparison,
    plan: Plan,
    times: Sequence[RunTimes] | None,
) -> Model:
    first = next(run for run in runs if not run.failed)
    known = first.config.preset in PRESETS
    preset = get_preset(first.config.preset) if known else Preset("", "", lambda: first.config.model)
    training = {key: value for key, value in _training(first).items() if key not in shared}
    headline = plan.headline.metric
    metrics = {headline: comparison.estimates[name]}
    for metric in first.result.scores:
        if metric != headline:
            values = tuple(run.result.scores[metric] for run in runs)
            metrics[metric] = Estimate(statistics.mean(values), runs=values)
    cost = first.result.cost
    if times:
        cost = replace(cost, peak_share=times[0].peak_share, decoding=times[0].decoding)
    return Model(
        name=name,
        attention=bool(first.result.attention) or preset.attention,
        parameters=first.record.parameters,
        seeds=tuple(run.seed for run in runs),
        metrics=metrics,
        summary=preset.summary,
        source=preset.source,
        parameters_non_embedding=first.record.parameters_non_embedding,
        parameters_body=body(first.config.model),
        timing=_timing(runs, times),
        cost=cost,
        alignment=first.result.alignment,
        agreement=first.result.agreement,
        tuning=plan.models[name].trials if name in plan.models else (),
        curves=tuple(run.curve(headline) for run in runs),
        config=config_to_dict(first.config.model) | ({"training": training} if training else {}),
        run_dirs=tuple(f"runs/{run.path.name}" for run in runs),
        failed=tuple(run.seed for run in runs if run.failed),
    )


def _times(models: Mapping[str, Sequence[Tested]]) -> dict[str, list[RunTimes]]:
    """Return the times of runs alone on the machine, where all of them were timed; otherwise nothing."""
    times: dict[str, list[RunTimes]] = {}
    for name, runs in models.items():
        for place in (run.path.resolve() for run in runs if not run.failed):
            timed = read_costs(place.parent.parent).get(place.name)
            if timed is None:
                return {}
            times.setdefault(name, []).append(timed)
    return times


def _timing(runs: Sequence[Tested], times: Sequence[RunTimes] | None) -> Timing:
    """Return the times of a model alone on the machine where known; otherwise beside other trainings."""
    runs = [run for run in runs if not run.failed]
    last, alone = [run.metrics[-1] for run in runs], None
    if times:
        seconds = training = [timed.step_seconds * report.step for timed, report in zip(times, last, strict=True)]
        alone = _mean([timed.predict_ms for timed in times])
        batch = [timed.predict_batch_ms for timed in times]
    else:
        seconds, training = [run.record.train_seconds for run in runs], [report.seconds for report in last]
        batch = [1000 * run.result.seconds / len(run.answers) for run in runs]
    speed = [report.tokens / taken for report, taken in zip(last, training, strict=True)]
    return Timing(_mean(seconds), _mean(speed), alone, _mean(batch))


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


def _differences(firsts: Mapping[str, Tested], pairs: Sequence[Pair]) -> tuple[Difference, ...]:
    """Choose test pairs on which models disagree: some of every pattern of right and wrong, rare patterns first."""
    outputs = {name: run.outputs for name, run in firsts.items()}
    patterns: dict[tuple[bool, ...], list[int]] = {}
    for place, pair in enumerate(pairs):
        texts = [same[place] for same in outputs.values()]
        if len(set(texts)) > 1:
            patterns.setdefault(tuple(text == pair.target for text in texts), []).append(place)
    chosen: list[int] = []
    rare_first = sorted(patterns.values(), key=lambda places: (len(places), places))
    for number, places in enumerate(rare_first[:_DIFFERENCES]):
        chosen += places[: max(1, (_DIFFERENCES - len(chosen)) // (len(rare_first) - number))]
    return tuple(
        Difference(
            pairs[place].source,
            pairs[place].target,
            pairs[place].tag,
            {name: same[place] for name, same in outputs.items()},
        )
        for place in chosen[:_DIFFERENCES]
    )
