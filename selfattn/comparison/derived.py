"""What follows from the plan, the archive or the command of a record, beside what the record says."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from selfattn.codec import encode, short
from selfattn.comparison.judged import KIND, read_given, task_of
from selfattn.comparison.plan import ComparisonPlan
from selfattn.comparison.record import NOT_DATA, UNDISTURBED, changed_settings
from selfattn.comparison.run_table import RunTable
from selfattn.comparison.seal import Expected, apart, planned_in, published, recipe_in, validation_in_test
from selfattn.comparison.tested import Answered
from selfattn.comparison.tuning import tuned_settings
from selfattn.data.readers.lines import checked_encoding
from selfattn.errors import UserError, number_of
from selfattn.evaluation.statistics.design import ALL_BUDGETS
from selfattn.experiments.plan import decide_alike
from selfattn.models.sizing import body
from selfattn.results.plan import PlanCheck, Seal
from selfattn.results.record import ANALYSIS, Model, Record
from selfattn.runs.task import TaskData
from selfattn.runs.task_metrics import decided_by, metric_names
from selfattn.training.config import TrainingConfig

_OF_A_BUDGET = {"max_steps", "warmup_steps"}


def underived(record: Record, data: Mapping[str, Any], outputs: RunTable[Answered]) -> Iterator[str]:
    """Name what a record says otherwise than its plan and its archive do.

    Args:
        record: of a published report.
        data: settings of the data in its archive.
        outputs: of its archive.
    """
    for model in record.models:
        failed = tuple(run.seed for run in outputs.main[model.name] if run.failed)
        yield from apart({f"failed runs of {model.name}": (model.failed, failed)}, "archive")
    if record.trained == (data.get("kind") == KIND):
        yield f"trained: {record.trained} in the record, the archive is of {data.get('kind')}"
    if record.plan is None or record.plan.seal is None:
        return
    yield from _ledger_apart(record.plan, record.plan.seal)
    plan = planned_in(record.plan.seal.decides)
    if plan is None or record.analysis == 1:  # older records have fewer fields
        return
    commands = [entry.command for entry in record.plan.entries if not decide_alike(entry.command, record.command)]
    if commands and not any(departure.kind == "plan" for departure in record.plan.departures):
        yield f"command: {short(record.command)} in the record, {short(commands[0])} in the ledger"
    yield from PlannedRecord(record, plan, data).differences()


def _ledger_apart(check: PlanCheck, seal: Seal) -> Iterator[str]:
    """Name what entries of the ledger and the seal show, and no departure says."""
    kinds = {departure.kind for departure in check.departures}
    tested = [entry.run for entry in check.entries if entry.run]
    if any(entry.plan not in ("", seal.sha256) for entry in check.entries) and "plan" not in kinds:
        yield "entries: of another plan"
    again = [run for run in dict.fromkeys(tested) if tested.count(run) > 1]
    if again and "again" not in kinds:
        yield f"entries: {', '.join(again)} tested twice, and no departure says so"
    if (shared := validation_in_test(seal)) and "validation" not in kinds:
        yield f"validation: {shared} chose settings or weights, and no departure says so"
    if (name := published(seal)) and check.replays != name:
        yield f"replays: {check.replays or 'nothing'} in the record, it has the plan of {name}"


@dataclass(frozen=True)
class PlannedRecord:
    """A record beside its plan.

    Attributes:
        record: of a published report.
        plan: that was sealed.
        data: settings of the data in its archive.
    """

    record: Record
    plan: ComparisonPlan
    data: Mapping[str, Any]

    @cached_property
    def task(self) -> TaskData:
        """The task of the record."""
        return task_of(self.record.task, self.data, "results.json")

    @cached_property
    def recipe(self) -> TrainingConfig:
        """The recipe that was sealed."""
        return recipe_in(self.record.seal.decides if self.record.seal else {})

    def differences(self) -> Iterator[str]:
        """Name what the record says otherwise than plan and archive do."""
        yield from self._of_the_task()
        for model in self.record.models:
            yield from apart(self._of_a_model(model))
        yield from self._of_settings()
        yield from apart(self._of_budgets())

    def _of_the_task(self) -> Iterator[str]:
        record = self.record
        task = self.task
        lacking = [name for name in metric_names(decided_by(task, record.headline.metric)) if name not in record.units]
        if lacking:
            yield f"units: without {', '.join(lacking)}, which this task has"
        if record.subject != task.subject():
            yield "subject: other words than those of the task"

    def _of_a_model(self, model: Model) -> Expected:
        """Return what a record says of a model, beside what the plan says."""
        record = self.record
        plan = self.plan
        planned = plan.models.get(model.name)
        if planned is None:  # the models of the seal are compared elsewhere
            return {}
        changes = changed_settings(self.task, planned, is_sized=plan.matching.target is not None)
        values: dict[str, tuple[object, object]] = {
            f"preset of {model.name}": (model.preset, planned.preset),
            f"changes of {model.name}": (dict(model.changes), changes),
            f"parameters_body of {model.name}": (model.parameters_body, body(planned.config)),
        }
        if plan.matching.budget in ("parameters", "none") and model.name in plan.matching.counts:
            counted = plan.matching.counts[model.name]
            values[f"parameters_non_embedding of {model.name}"] = (model.parameters_non_embedding, counted)
        recipe = encode(self.recipe)
        of_model = dict(model.config.get("training", {}))  # type: ignore[call-overload]  # a table, or nothing
        tuned = tuned_settings(plan.space, list(plan.models)) | _OF_A_BUDGET
        for name in (of_model.keys() | planned.training.keys()) - tuned:
            value = of_model.get(name, record.settings.get(name))
            values[f"training of {model.name}: {name}"] = (value, encode(planned.training.get(name, recipe.get(name))))
        return values

    def _of_settings(self) -> Iterator[str]:
        """Name shared settings that are those neither of the data nor of the plan."""
        plan = self.plan
        expected: dict[str, object] = {name: value for name, value in self.data.items() if name not in NOT_DATA}
        expected |= {"quick": plan.quick, "test_draw": plan.test_draw, "training_time": UNDISTURBED}
        tuned = tuned_settings(plan.space, list(plan.models))
        if not plan.read_in_a_step:  # otherwise the steps follow from what was tuned
            recipe = plan.variants[plan.main].applied_to(self.recipe, plan.steps)
            expected |= {name: getattr(recipe, name) for name in _OF_A_BUDGET}
        fields = encode(vars(self.recipe))
        for name, value in self.record.settings.items():
            if name in expected and value != encode(expected[name]):
                yield f"settings.{name}: {short(value)} in the record, {short(expected[name])} in plan or archive"
            if name in tuned:
                yield f"settings.{name}: {short(value)} in the record, the plan tunes it"
            if name not in expected and name not in fields | {"beam": 0, "length_penalty": 0, "curve_items": 0}:
                yield f"settings.{name}: in neither plan nor archive"

    def _of_budgets(self) -> Expected:
        """Return what a record says of the budgets, beside what the plan says."""
        budgets = self.record.budgets
        plan = self.plan
        if budgets is None:
            return {}
        planned = {"unit": plan.budget_in, "pair": plan.primary, "level": ALL_BUDGETS}
        values = {f"budgets.{name}": (getattr(budgets, name), value) for name, value in planned.items()}
        for cell in budgets.cells:
            examples = round(cell.budget * plan.examples) or None
            values[f"examples at budget {cell.budget:g}"] = (cell.examples, examples)
        return values


# Outputs that were made elsewhere have no plan; all follows from the files and the command.


def unlike_the_command(record: Record) -> Iterator[str]:
    """Name what a record of outputs says otherwise than its command, which everybody may run again."""
    options = _options_of(record.command)
    systems = {model.name: ",".join(model.run_dirs) for model in record.models}
    metrics = options.get("--metric", [""])[0].split(",")
    if record.analysis != ANALYSIS:
        yield f"analysis: {record.analysis} in the record, outputs are judged by {ANALYSIS}"
    if record.plan is not None:
        yield "plan: there is none for outputs"
    values: dict[str, tuple[object, object]] = {
        "metric": (record.headline.metric, metrics[0]),
        "margin": (record.margin, float(options["--margin"][0]) if "--margin" in options else None),
        "system": ([f"{name}={files}" for name, files in systems.items()], options.get("--system", [])),
    }
    for name in ("reference", "source", "tags", "train", "language"):
        values[name] = (record.settings.get(name), options.get(f"--{name}", [None])[0])
    yield from apart(values, "command")
    lacking = [name for name in metrics if name not in record.units]
    if lacking:
        yield f"units: without {', '.join(lacking)}, which the command names"


def _options_of(command: str) -> dict[str, list[str]]:
    options: dict[str, list[str]] = {}
    try:
        words = shlex.split(command)
    except ValueError:  # of a record that was changed
        return {}
    for place, word in enumerate(words[:-1]):
        if word.startswith("--"):
            options.setdefault(word, []).append(words[place + 1])
    return options


def files_again(record: Record, outputs: RunTable[Answered]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Read the files of outputs again that are where the command had them.

    Args:
        record: of outputs.
        outputs: of its archive.

    Returns:
        For each file its name, and what differs from the archive.
    """
    encoding = checked_encoding(_options_of(record.command).get("--encoding", [None])[0])
    pairs = outputs.first.pairs
    columns: dict[str, Sequence[str]] = {str(record.settings.get("reference")): [pair.target for pair in pairs]}
    for name, values in (("source", [pair.source for pair in pairs]), ("tags", [pair.tag for pair in pairs])):
        if name in record.settings:
            columns[str(record.settings[name])] = values
    for model in record.models:
        columns |= {label: run.outputs for label, run in zip(model.run_dirs, outputs.main[model.name], strict=True)}
    for label, archived in columns.items():
        path = Path(label)
        if not path.exists() and not Path(label.rpartition(":")[0] or label).is_file():
            continue
        try:
            texts = read_given(label, encoding)
        except UserError as error:
            yield label, (str(error),)
            continue
        count = sum(was != now for was, now in zip(archived, texts, strict=False))
        count += abs(len(archived) - len(texts))
        yield label, (f"not as in the archive: {number_of(count, 'line')}",) if count else ()
