"""The record of a comparison, made from its tested runs on disk; its report, and what both are made of in one file."""

import hashlib
import io
import json
import lzma
import statistics
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

from torch import Tensor

from selfattn.codec import encode
from selfattn.comparison.analysis import measure, signatures_beside
from selfattn.comparison.check import check_plan, make_gates
from selfattn.comparison.costs import COSTS, ModelTimes, read_costs, step_key
from selfattn.comparison.plan import ComparisonPlan, PlannedModel, planned_trials, read_plan, tuned_settings
from selfattn.comparison.tested import ANSWERS, RESULT, Answered, RunTable, Tested, by_model, read_runs
from selfattn.comparison.trainings import examples_until, space_texts
from selfattn.data.pairs import Pair
from selfattn.demo.page import EXAMPLES, obstacle, write_demo
from selfattn.errors import SettingError, UserError
from selfattn.evaluation.design import ALL_BUDGETS
from selfattn.evaluation.metrics import make_metric
from selfattn.evaluation.variances import compare_arrivals, describe_arrivals
from selfattn.experiments.plan import PLAN
from selfattn.files import make_directory, read_bytes, write_bytes, writing
from selfattn.models.build import body
from selfattn.models.config import config_to_dict
from selfattn.models.families import PRESETS, Preset, get_preset
from selfattn.ownership import check_ours
from selfattn.report.blocks import Outputs
from selfattn.report.ranking import ranked
from selfattn.report.sections.models import DEMO
from selfattn.report.write import RESULTS, ReportFiles, check_report, write_report
from selfattn.results.plan import AtBudget, Budgets, PlanCheck
from selfattn.results.quality import Target
from selfattn.results.record import (
    SCHEMA,
    Attention,
    AttentionExample,
    MeanOverRuns,
    Model,
    ModelAttention,
    Record,
    Timing,
    Tuning,
    read_record,
)
from selfattn.runs.directory import CONFIG, CURVE, METRICS, RECORD
from selfattn.runs.ledger import LEDGER
from selfattn.runs.load import load
from selfattn.runs.record import flat
from selfattn.runs.run import Run
from selfattn.runs.task import TaskData, task_of_run
from selfattn.runs.training_set import CURVE_ITEMS
from selfattn.words.messages import SOURCE

UNDISTURBED = "undisturbed: steps times the median step; steps and decoding timed by turns after the trainings"
NOT_DATA = ("kind", "validation_items")
ON_DEMO = 4  # most models on the demo page
_MOST_WEIGHTS = 1_000_000  # of a model on that page, which nobody asked for
PACKED = "packed.tar.xz"
_OF_A_RUN = (RECORD, CONFIG, METRICS, CURVE, RESULT, ANSWERS)
_LARGEST = 1 << 30  # bytes, unpacked
_PACKED_ADVICE = "take it from where the report was published, or write the report again"


def make_record(
    comparison: Path, trained: RunTable[Tested], plan: ComparisonPlan, outputs: RunTable[Answered] | None = None
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
    firsts = {name: trained.finished(name) for name in trained.main}
    first = next(iter(firsts.values()))
    pairs = first.answered.pairs
    for run in trained.all():
        if run.config.task != first.config.task or run.answered.pairs != pairs:
            raise UserError(f"{run.path}: not tested on the same pairs as {first.path}; name runs of one test")
    tuned = tuned_settings(plan.space, list(plan.models))
    trainings = [_training(run) for run in firsts.values()]
    shared = {}
    for setting, value in trainings[0].items():
        if setting not in tuned and all(other.get(setting) == value for other in trainings):
            shared[setting] = value
    task = task_of_run(first.config, str(first.path))
    metrics = {name: make_metric(name, task.language) for name in (plan.headline.metric, *first.result.scores)}
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
    described = []
    for name, runs in models.items():
        model = _model(name, runs, shared, plan, times.get(name))
        changes = changed_settings(task, plan.models[name], is_sized=plan.matching.target is not None)
        described.append(replace(model, preset=plan.models[name].preset, changes=changes))
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
        signatures=signatures_beside(plan.headline, metrics.values()),
        budgets=_budgets(trained, plan) if len(plan.budgets) > 1 else None,
        margin=plan.margin,
        tuning=Tuning(plan.tuning_trials, plan.tunings, plan.tuning_seed, space_texts(plan)) if plan.space else None,
        plan=PlanCheck(plan.seal, plan.pilot),  # to be checked against what was done
    )
    if plan.until is not None:
        record = replace(record, target=_target(trained, plan))
    return measure(record, first.config.data, outputs or outputs_of(trained))


def _target(trained: RunTable[Tested], plan: ComparisonPlan) -> Target:
    """Return what the runs read until they reached the target, and the tests of all pairs of models."""
    first = trained.first.config.training
    cap = first.items_per_epoch or 0
    examples = by_model(trained.main, lambda run: examples_until(run.directory))
    return Target(
        plan.until or 0.0,
        cap,
        first.batch_size * first.accumulate * (first.validate_every or 1),
        first.look_items or first.validation_items,
        first.validation_items,
        {name: describe_arrivals(counts, cap) for name, counts in examples.items()},
        compare_arrivals(examples, cap, plan.primary),
    )


def outputs_of(trained: RunTable[Tested]) -> RunTable[Answered]:
    """Return the outputs of all runs."""
    return trained.map(lambda run: run.answered)


def _budgets(trained: RunTable[Tested], plan: ComparisonPlan) -> Budgets:
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
    name: str, runs: Sequence[Tested], shared: Mapping[str, Any], plan: ComparisonPlan, times: ModelTimes | None
) -> Model:
    first = next(run for run in runs if not run.failed)
    preset = Preset("", "", lambda: first.config.model)
    if first.config.preset in PRESETS:
        preset = get_preset(first.config.preset)
    others = shared.keys() | space_texts(plan)[name].keys()
    training = {key: value for key, value in _training(first).items() if key not in others}
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
        cost=first.result.cost,
        alignment=first.result.alignment,
        agreement=first.result.agreement,
        heads=first.result.heads,
        trials=plan.trials.get(name, ()),
        curves=tuple(run.curve(plan.headline.metric) for run in runs),
        config=config_to_dict(first.config.model) | ({"training": training} if training else {}),
        run_dirs=tuple(f"{run.path.parent.name}/{run.path.name}" for run in runs),
        tunings=tuple(plan.tuning_of(run.seed) for run in runs) if plan.tunings > 1 else (),
    )


def _timing(runs: Sequence[Tested], times: ModelTimes) -> Timing:
    """Return the times of a model alone on the machine."""
    finished = [run for run in runs if not run.failed]
    last = [run.metrics[-1] for run in finished]
    steps = [times.steps.get(step_key(run.name, run.config.training), times.step_seconds) for run in finished]
    seconds = [step * report.step for step, report in zip(steps, last, strict=True)]
    speed = [report.tokens / taken for report, taken in zip(last, seconds, strict=True)]
    single = [times.predict_ms] * len(last)
    batch = [times.predict_batch_ms] * len(last)
    return Timing(*(MeanOverRuns(statistics.mean(values), tuple(values)) for values in (seconds, speed, single, batch)))


def _examples(firsts: Mapping[str, Tested], pairs: Sequence[Pair]) -> tuple[AttentionExample, ...]:
    """Put the attention of all models side by side on the same pairs."""
    examples: dict[int, dict[str, ModelAttention]] = {}
    for name, run in firsts.items():
        for item in run.result.attention:
            examples.setdefault(item.place, {})[name] = item.model
    return tuple(
        AttentionExample(pairs[place].source, pairs[place].target, pairs[place].tag, pairs[place].spans, models)
        for place, models in sorted(examples.items())
    )


def write_comparison(comparison: Path, out: Path, lang: str = SOURCE) -> tuple[Record, ReportFiles]:
    """Write the report of a comparison from its tested runs on disk; the same runs give the same bytes.

    The demo page and the packed comparison are written beside it.

    Args:
        comparison: its directory.
        out: where to write the report; an older one of ours there is replaced.
        lang: language in which the report opens, such as `ko`.

    Returns:
        The record, and the paths of the report's files.

    Raises:
        UserError: a run is missing or broken, or the report cannot be written.
    """
    plan = read_plan(comparison)
    if (out / PLAN).exists() and not out.samefile(comparison):
        raise UserError(f"{out}: holds another comparison; choose another `out` for the report of {comparison}")
    check_free_of_others(out)
    runs = read_runs(comparison, plan)
    record = make_record(comparison, runs, plan)
    make_directory(out)
    demo = _write_best(record, runs, out, lang)
    files = files_of(comparison, plan, demo=demo)  # whether there is one is part of the record
    record = replace(
        record,
        plan=check_plan(comparison, plan, runs),
        outputs_sha256=pack(files, out / PACKED),
        demo=demo,
    )
    return record, write_report(record, out, lang, outputs_for_sections(outputs_of(runs)))


def outputs_for_sections(table: RunTable[Answered]) -> Outputs:
    """Return what sections of plugins see of the outputs."""
    pairs = table.first.pairs
    written = {name: tuple(tuple(run.outputs) for run in runs) for name, runs in table.main.items()}
    return Outputs(tuple(pair.source for pair in pairs), tuple(pair.target for pair in pairs), written)


class Elsewhere(Protocol):
    """Results of systems that were trained elsewhere, with what they are judged by: the record is a function of it."""

    def record(self) -> Record:
        """Judge them."""

    def packed(self) -> Mapping[str, bytes]:
        """Return the files from which the same is made again, by name."""

    def outputs(self) -> Outputs | None:
        """Return what sections of plugins see; None without texts."""


def publish(judged: Elsewhere, out: Path, lang: str) -> tuple[Record, ReportFiles]:
    """Judge results of systems that were trained elsewhere, and write the report with what is packed beside it.

    Args:
        judged: the results.
        out: directory for the report; an older one of the same comparison is replaced.
        lang: language in which the report opens.
    """
    record = judged.record()
    make_directory(out)
    record = replace(record, outputs_sha256=pack(judged.packed(), out / PACKED))
    return record, write_report(record, out, lang, judged.outputs())


def check_out(out: Path, command: str) -> None:
    """Refuse a directory with another experiment, or with the report of another comparison.

    Args:
        out: where a report is to be written.
        command: of its comparison, which is not made from runs.

    Raises:
        UserError: there is something else.
    """
    check_free_of_others(out)
    advice = "choose another `out`"
    if (out / PLAN).exists():
        raise SettingError(f"{out}: holds an experiment with its plan; {advice}")
    results = out / RESULTS
    if results.exists() and read_record(results).command != command:
        raise SettingError(f"{out}: holds the report of another comparison; {advice}")


def check_free_of_others(out: Path) -> None:
    """Check that a report with its demo page and its packed comparison may be written into a directory.

    Raises:
        UserError: there is a file of one of their names that selfattn did not write.
    """
    check_report(out)
    for name in (PACKED, DEMO):
        check_ours(out / name)


def _write_best(record: Record, trained: RunTable[Tested], out: Path, lang: str) -> bool:
    """Write the demo page of the best models, each with its first seed; return whether a page can run any of them."""
    best = {model.name: trained.finished(model.name) for model in ranked(record)[:ON_DEMO]}
    runs: dict[str, Run] = {}
    for name, tested in best.items():
        with suppress(UserError):  # a run without its weights
            run = load(tested.path)
            if not obstacle(run, run) and sum(map(Tensor.numel, run.model.parameters())) <= _MOST_WEIGHTS:
                runs[name] = run
    if runs:
        examples = [(answer.source, answer.target) for answer in next(iter(best.values())).answered.answers[:EXAMPLES]]
        names = [model.name for model in record.models]
        write_demo(list(runs.values()), out / DEMO, lang, examples, list(runs), names)
    return bool(runs)


def files_of(comparison: Path, plan: ComparisonPlan, *, demo: bool) -> dict[str, bytes]:
    """Return all files of a comparison but weights: plan, ledger, times, runs and trials, by path inside of it.

    Args:
        comparison: its directory.
        plan: of the comparison.
        demo: whether there is a demo page, which is part of the record; the page itself is left out.
    """
    trainings = [*chain.from_iterable(planned_trials(plan).values()), *plan.runs()]
    names = [PLAN, LEDGER, COSTS]
    for training in trainings:
        names += [f"{training.path}/{name}" for name in _OF_A_RUN]
    files = {name: (comparison / name).read_bytes() for name in names if (comparison / name).is_file()}
    return files | ({DEMO: b""} if demo else {})


def pack(files: Mapping[str, bytes], path: Path) -> str:
    """Pack files by name, and return the SHA-256 of what is packed; the same files give the same bytes."""
    content = archive(files)
    with writing(path):
        write_bytes(path, lzma.compress(content))
    return hashlib.sha256(content).hexdigest()


def archive(files: Mapping[str, bytes]) -> bytes:
    """Return what is packed of files by name, before it is compressed."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return content.getvalue()


@contextmanager
def unpacked(path: Path) -> Iterator[tuple[Path, str]]:
    """Unpack files into a directory that is removed afterwards.

    Returns:
        The directory, and the SHA-256 of what is packed.

    Raises:
        UserError: the file is missing, damaged, or larger than any of ours.
    """
    with TemporaryDirectory() as folder:
        try:
            content = lzma.LZMADecompressor().decompress(read_bytes(path, advice=_PACKED_ADVICE), _LARGEST)
            with tarfile.open(fileobj=io.BytesIO(content)) as archive:
                archive.extractall(folder, filter="data")
        except (lzma.LZMAError, tarfile.TarError, EOFError) as error:
            raise UserError(f"{path}: is not packed by selfattn ({error}); {_PACKED_ADVICE}") from None
        yield Path(folder), hashlib.sha256(content).hexdigest()
