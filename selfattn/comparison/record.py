"""Make the record of a comparison from its tested runs: what they are on disk, and the quality of their outputs."""

import json
import statistics
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from selfattn.codec import encode
from selfattn.comparison.check import make_gates
from selfattn.comparison.costs import ModelTimes, read_costs, step_key
from selfattn.comparison.further_tests import TOGETHER, Analysis
from selfattn.comparison.judged import JudgedOutputs, task_of, word_analyses
from selfattn.comparison.models import primary_pair
from selfattn.comparison.plan import Plan, PlannedModel
from selfattn.comparison.run_table import RunTable
from selfattn.comparison.seal import sealed_pair
from selfattn.comparison.tested import Answered, Tested
from selfattn.comparison.tuning import read_space
from selfattn.data.pairs import Pair
from selfattn.errors import UserError
from selfattn.evaluation.metrics.exact import WordRecall
from selfattn.evaluation.metrics.metric import Metric, make_metric
from selfattn.evaluation.statistics.buckets import by_length, by_tag, score_fields, score_groups, score_rare_words
from selfattn.evaluation.statistics.design import ALL_BUDGETS, budget_differences, locate
from selfattn.evaluation.statistics.mean_run import compare_mean_runs, mean_runs
from selfattn.evaluation.statistics.significance import MIN_SEEDS, RunScores, by_tuning, score_counts
from selfattn.evaluation.statistics.variances import ALPHA, LEVEL
from selfattn.models.config import config_to_dict
from selfattn.models.presets import PRESETS, Preset, get_preset
from selfattn.models.sizing import body
from selfattn.results.attention import Attention, AttentionExample, ModelAttention
from selfattn.results.plan import AtBudget, Budgets, Interim, PlanCheck
from selfattn.results.quality import BucketGroup, BudgetDifference, Estimate, IntervalMethod, NgramGroup, PairTest
from selfattn.results.record import SCHEMA, Difference, MeanOverRuns, Model, Record, Timing, Tuning
from selfattn.runs.record import flat
from selfattn.runs.task import TaskData, task_of_settings
from selfattn.runs.training_set import CURVE_ITEMS

Tunings = Mapping[str, Sequence[int]]  # for each model the number of each run's tuning

_UNDISTURBED = "undisturbed: steps times the median step; steps and decoding timed by turns after the trainings"
_ADVICE = "take the report from where it was published, or compare again"
_NOT_DATA = ("kind", "validation_items")
_DIFFERENCES = 40
_MOST_FIELDS = 12
_RARE = "share of the references' words that the outputs have, by how often training shows the word"
_FIELDS = "a field is right where the answer has it as the target has"
_UNSEEN = "never shown in training"


def make_record(
    comparison: Path, trained: RunTable[Tested], plan: Plan, outputs: RunTable[Answered] | None = None
) -> Record:
    """Put the runs of a comparison together.

    Args:
        comparison: its directory.
        trained: all runs, tested on the same pairs.
        plan: of the comparison.
        outputs: of all runs; default those of their tests.

    Raises:
        UserError: runs were tested on different pairs, or all trainings of a model failed.
    """
    for cell in trained.cells():
        if all(run.failed for run in cell.runs):
            run = cell.runs[0]
            raise UserError(f"{run.path}: no training of {cell.model} came to an end: {run.result.failed}")
    models = trained.main
    firsts = {name: trained.finished(name) for name in trained.models}
    first = next(iter(firsts.values()))
    pairs = first.answered.pairs
    for run in trained.all():
        if run.config.task != first.config.task or run.answered.pairs != pairs:
            raise UserError(f"{run.path}: not tested on the same pairs as {first.path}; name runs of one test")
    tuned: set[str] = set()
    for axes in read_space(plan.space, list(plan.models)).values():
        tuned |= {axis.name for axis in axes}
    trainings = [_training(run) for run in firsts.values()]
    shared = {name: v for name, v in trainings[0].items() if all(other.get(name) == v for other in trainings)}
    shared = {name: value for name, value in shared.items() if name not in tuned}
    task = task_of_settings(first.config.task, first.config.data, str(first.path))
    metrics = {name: make_metric(name, task.language) for name in (plan.headline.metric, *first.result.scores)}
    data = {name: value for name, value in first.config.data.items() if name not in _NOT_DATA}
    times = read_costs(comparison)
    planned = {
        "test_draw": plan.test_draw,
        "training_time": _UNDISTURBED if times else "",
        "curve_items": CURVE_ITEMS if any(run.directory.curve() for run in trained.all()) else 0,
    }
    settings = data | {"quick": plan.quick} | dict(first.result.decoding) | shared
    versions = {name: first.record.versions.get(name) for name in ("selfattn", "python", "torch", "babel", "cldr")}
    machine = {name: first.record.machine.get(name) for name in ("platform", "cpu", "cores", "threads")}
    described = []
    for name, runs in models.items():
        model = _model(name, runs, shared, plan, times.get(name))
        if plan.analysis > 1:
            changes = _changes(task, plan.models[name], is_sized=plan.matching.target is not None)
            model = replace(model, preset=plan.models[name].preset, changes=changes)
        described.append(model)
    record = Record(
        schema=SCHEMA,
        task=first.config.task,
        created=max(run.result.created for run in chain.from_iterable(models.values())),
        command=plan.command,
        environment=versions | machine | {"commit": first.record.commit},
        settings=settings | {name: value for name, value in planned.items() if value},
        test_items=len(pairs),
        models=tuple(described),
        headline=plan.headline,
        gates=make_gates(trained, plan),
        matching=plan.matching,
        attention=Attention(_examples(firsts, pairs)),
        subject=task.subject(),
        units={name: metric.unit for name, metric in metrics.items()},
        interim=Interim(plan.looks, plan.bounds, plan.ended) if plan.ended else None,
        budgets=_budgets(trained, plan) if len(plan.budgets) > 1 else None,
        margin=plan.margin,
        analysis=plan.analysis,
        tuning=_tuning(plan),
        plan=PlanCheck(plan.seal, plan.pilot),  # to be checked against what was done
    )
    return measure(record, first.config.data, outputs or outputs_of(trained))


def _tuning(plan: Plan) -> Tuning | None:
    """Describe the tuning of a plan; None without."""
    if not plan.space:
        return None
    spaces: dict[str, dict[str, str]] = {}
    for name, axes in read_space(plan.space, list(plan.models)).items():
        spaces[name] = {axis.name: str(axis).partition("=")[2] for axis in axes}
    return Tuning(plan.tuning_trials, plan.tunings, plan.tuning_seed, spaces)


def outputs_of(trained: RunTable[Tested]) -> RunTable[Answered]:
    """Return the outputs of all runs."""
    return trained.map(lambda run: run.answered)


def _budgets(trained: RunTable[Tested], plan: Plan) -> Budgets:
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


def _training(run: Tested) -> dict[str, Any]:
    """Return the settings of a run's training without the seed, as plain values."""
    training = run.config.training
    return {name: encode(value) for name, value in vars(training).items() if name != "seed"}


def _changes(task: TaskData, planned: PlannedModel, *, is_sized: bool) -> dict[str, str]:
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


def _model(name: str, runs: Sequence[Tested], shared: Mapping[str, Any], plan: Plan, times: ModelTimes | None) -> Model:
    first = next(run for run in runs if not run.failed)
    known = first.config.preset in PRESETS
    preset = get_preset(first.config.preset) if known else Preset("", "", lambda: first.config.model)
    tuned = {axis.name for axis in read_space(plan.space, list(plan.models))[name]}
    training = {key: value for key, value in _training(first).items() if key not in shared.keys() | tuned}
    cost = first.result.cost
    if times:
        cost = replace(cost, peak_share=times.peak_share, decoding=times.decoding)
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
        tunings=tuple(plan.tuning_of(run.seed) for run in runs) if plan.tunings > 1 else (),
    )


def _timing(runs: Sequence[Tested], times: ModelTimes) -> Timing:
    """Return the times of a model alone on the machine."""
    finished = [run for run in runs if not run.failed]
    last = [run.metrics[-1] for run in finished]
    steps = [times.steps.get(step_key(run.name, run.config.training), times.step_seconds) for run in finished]
    seconds = [each * report.step for each, report in zip(steps, last, strict=True)]
    speed = [report.tokens / taken for report, taken in zip(last, seconds, strict=True)]
    single = [times.predict_ms] * len(last)
    batch = [times.predict_batch_ms] * len(last)
    return Timing(*(MeanOverRuns(statistics.mean(each), tuple(each)) for each in (seconds, speed, single, batch)))


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


# from the outputs alone


def measure(record: Record, data: Mapping[str, object], outputs: RunTable[Answered]) -> Record:
    """Return a record with every figure that follows from the outputs; all others stay as they are.

    Args:
        record: of the comparison, with its models, metrics (`units`) and budgets.
        data: settings of the training data, of which the task is made.
        outputs: of all runs; those of the largest budget decide.
    """
    task = task_of(record.task, data, "results.json")
    metrics = {name: make_metric(name, task.language) for name in record.units}
    metric = metrics[record.headline.metric]
    models = outputs.main
    pairs = outputs.first.pairs
    labels = [task.repeats(pair) for pair in pairs]
    texts = _texts(models)
    has_plan = record.plan is not None and record.plan.seal is not None
    primary = sealed_pair(record) if has_plan else primary_pair(task, list(models))
    tunings = _tunings(record)
    alpha = record.interim.bound if record.interim else ALPHA
    counts = metric.count_runs(texts, pairs)
    analyse = compare_mean_runs if record.analysis > 1 else RunScores.comparison
    scores = score_counts(counts, metric, clusters=labels)
    comparison = analyse(by_tuning(scores, tunings) if tunings else scores, primary, alpha)
    tests = list(comparison.pairs)
    # Beside the metric that decides, others: two scores that agree are worth more than one.
    for name in metric.beside:
        further = make_metric(name, task.language)
        scores = score_counts(further.count_runs(texts, pairs), further, clusters=labels)
        tests += analyse(by_tuning(scores, tunings) if tunings else scores).pairs
    if record.analysis > 1:
        tests = [_with_identical(test, texts) for test in tests]

    def estimate(model: str, name: str) -> Estimate:
        if name == metric.name:
            return comparison.estimates[model]
        values = tuple(
            run.scores[name] if name in run.scores else metrics[name].of(run.outputs, pairs) for run in models[model]
        )
        return Estimate(statistics.mean(values), runs=values)

    measured = []
    for model in record.models:
        runs = [run for run in models[model.name] if not run.failed]
        cut_off = sum(not answer.finished for answer in chain.from_iterable(run.answers for run in runs))
        estimates = {name: estimate(model.name, name) for name in metrics}
        measured.append(replace(model, metrics=estimates, cut_off=cut_off if record.analysis > 1 else None))
    over = next(iter(comparison.estimates.values())).over
    buckets = _buckets(models, metric, task, tunings, record, data)
    ngrams: tuple[NgramGroup, ...] = ()
    if isinstance(task, JudgedOutputs):
        words, ngrams = word_analyses(task, outputs, labels)
        buckets = (*buckets, words)
    repeated = len(labels) - len(set(labels))
    return replace(
        record,
        test_items=len(pairs),
        models=tuple(measured),
        interval=IntervalMethod(LEVEL, "closed form" if metric.is_mean else "bootstrap", over, repeated),
        pairs=tuple(tests),
        buckets=buckets,
        ngrams=ngrams,
        differences=_differences(models, pairs),
        budgets=record.budgets and _with_quality(record, record.budgets, outputs, metric, pairs, labels, tunings),
    )


def _tunings(record: Record) -> Tunings | None:
    """Return the number of the tuning of each run, by model; None where models were not tuned several times.

    Raises:
        UserError: some tunings of a model have more runs than others.
    """
    if not any(model.tunings for model in record.models):
        return None
    for model in record.models:
        counts = Counter(model.tunings)
        if len(model.tunings) != len(model.seeds) or len(counts) < 2 or len(set(counts.values())) > 1:
            numbers = f"seeds {list(model.seeds)} have the settings of tunings {list(model.tunings)}"
            raise UserError(f"{model.name}: {numbers}, not as many runs of each of at least two; {_ADVICE}")
    return {model.name: model.tunings for model in record.models}


def _with_identical(test: PairTest, texts: Mapping[str, Sequence[Sequence[str]]]) -> PairTest:
    """Return a test that says so where the runs of both models wrote the same, in whatever order of seeds."""
    outputs = [sorted(map(tuple, texts[name])) for name in (test.first, test.second)]
    is_identical = outputs[0] == outputs[1]
    return replace(test, word="identical outputs") if is_identical else test


def _texts(models: Mapping[str, Sequence[Answered]]) -> dict[str, list[list[str]]]:
    """Return the outputs of the runs of each model."""
    return {name: [run.outputs for run in runs] for name, runs in models.items()}


def _with_quality(
    record: Record,
    budgets: Budgets,
    outputs: RunTable[Answered],
    metric: Metric,
    pairs: Sequence[Pair],
    labels: Sequence[Hashable],
    tunings: Tunings | None,
) -> Budgets:
    """Estimate every budget's trainings, and the difference of the primary pair over budgets."""
    counts = {cell.budget: metric.count_runs(_texts(outputs.at(cell.budget)), pairs) for cell in budgets.cells}
    differences: Sequence[BudgetDifference] = ()
    if budgets.pair:
        differences = budget_differences(counts, metric, budgets.pair, clusters=labels, tunings=tunings)
    by_budget = {difference.budget: difference for difference in differences}
    cells = []
    for cell in budgets.cells:
        scores = score_counts(counts[cell.budget], metric, clusters=labels)
        scores = by_tuning(scores, tunings) if tunings else scores
        estimates = scores.estimates() if record.analysis == 1 else mean_runs(scores)
        counted = {name: sum(run.failed for run in runs) for name, runs in outputs.at(cell.budget).items()}
        failed = {name: count for name, count in counted.items() if count}
        cells.append(replace(cell, models=estimates, difference=by_budget.get(cell.budget), failed=failed))
    seeds = min(len(cell.runs) for cell in outputs.cells())
    crossing = locate(differences) if differences and seeds >= MIN_SEEDS else None
    return replace(budgets, cells=tuple(cells), crossing=crossing)


def _differences(models: Mapping[str, Sequence[Answered]], pairs: Sequence[Pair]) -> tuple[Difference, ...]:
    """Choose test pairs on which models disagree: some of every pattern of right and wrong, rare patterns first."""
    outputs = {name: next(run for run in runs if not run.failed).outputs for name, runs in models.items()}
    patterns: dict[tuple[bool, ...], list[int]] = {}
    for place, pair in enumerate(pairs):
        texts = [written[place] for written in outputs.values()]
        if len(set(texts)) > 1:
            patterns.setdefault(tuple(text == pair.target for text in texts), []).append(place)
    chosen: list[int] = []
    rare_first = sorted(patterns.values(), key=lambda places: (len(places), places))
    for number, places in enumerate(rare_first[:_DIFFERENCES]):
        chosen += places[: max(1, (_DIFFERENCES - len(chosen)) // (len(rare_first) - number))]
    differences: list[Difference] = []
    for place in chosen[:_DIFFERENCES]:
        pair = pairs[place]
        predictions = {name: written[place] for name, written in outputs.items()}
        differences.append(Difference(pair.source, pair.target, pair.tag, predictions))
    return tuple(differences)


def _buckets(
    models: Mapping[str, Sequence[Answered]],
    metric: Metric,
    task: TaskData,
    tunings: Tunings | None,
    record: Record,
    data: Mapping[str, object],
) -> tuple[BucketGroup, ...]:
    """Divide the test by tag, length, field, rare words and probe, and measure every model on every part."""
    compare = compare_mean_runs if record.analysis > 1 else RunScores.comparison
    analysis = Analysis(metric, task.language, compare, tunings, task.repeats)
    named = data.get("further_tests", {})
    first = next(iter(models.values()))[0]
    pairs = first.pairs
    outputs = _texts(models)
    references = [pair.target for pair in pairs]
    labels = [task.repeats(pair) for pair in pairs]
    unit, cut = ("characters", list) if metric.is_mean else ("words", str.split)
    score = partial(score_groups, outputs=outputs, items=pairs, clusters=labels, tunings=tunings)
    group = partial(BucketGroup, metric=metric.name, kind=metric.unit, better=metric.better)
    fields = score_fields(outputs, pairs, labels, tunings) if any(pair.spans for pair in pairs) else []
    often = sorted(fields, key=lambda part: -part.items)[:_MOST_FIELDS]
    rare = score_rare_words(outputs, references, first.words, labels, tunings) if first.words and task.has_words else ()
    side = "source" if any(pair.source for pair in pairs) else "target"
    lengths = by_length([getattr(pair, side) for pair in pairs], words=cut)
    tagged = group(task.tag_name, score(by_tag(pairs), metric=metric))
    if record.analysis > 1:
        tagged = group(task.tag_name, analysis.tags(pairs, outputs, metric), note=TOGETHER)
    groups = [
        tagged,
        group(
            "length" if side == "source" else "reference length",
            score(lengths, metric=metric),
            note=f"{unit} of the {side}",
        ),
        BucketGroup("field", tuple(part for part in fields if part in often), note=_FIELDS),
        BucketGroup("rare words", rare, WordRecall.name, note=_RARE),
    ]
    for name in first.probes:
        probed = {model: [replace(run, answers=run.probes[name]) for run in runs] for model, runs in models.items()}
        if isinstance(named, Mapping) and name in named:
            groups += analysis.further(name, probed)
            continue
        pairs = next(iter(probed.values()))[0].pairs
        labels = [task.repeats(pair) for pair in pairs]
        buckets = score_groups(
            {name: range(len(pairs))}, _texts(probed), pairs, metric, clusters=labels, tunings=tunings
        )
        groups.append(group(name, buckets, note=_UNSEEN))
    return tuple(part for part in groups if part.buckets)
