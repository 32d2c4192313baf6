"""Make a report again from what is packed beside it, or from its runs: verify it, or write it anew.

The record is made again by the code that made it, and all values are compared. Runs that have their weights are decoded
again.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from itertools import chain
from math import isclose
from pathlib import Path
from random import SystemRandom
from typing import Any

from selfattn.codec import Plain, decode, encode, read, short
from selfattn.comparison import report
from selfattn.comparison.analysis import measure
from selfattn.comparison.check import pairs_digest, read_published
from selfattn.comparison.outputs import Judged
from selfattn.comparison.plan import ComparisonPlan, planned_trials, read_plan
from selfattn.comparison.record import make_record
from selfattn.comparison.scores import JudgedScores
from selfattn.comparison.tested import ENDED, RESULT, Prediction, RunOnDisk, RunOutputs, RunTable, by_model, read_runs
from selfattn.decoding.options import DecodingOptions
from selfattn.errors import SettingError, UserError
from selfattn.evaluation.gates import output_gates
from selfattn.evaluation.metrics import counts_agree, make_metric
from selfattn.experiments.plan import PLAN
from selfattn.processes import use_threads
from selfattn.report.write import RESULTS
from selfattn.results.record import Gate, Recomputation, Record, read_record
from selfattn.runs.evaluate import answer, validate
from selfattn.runs.load import load
from selfattn.runs.task import task_of_settings

CARRIED = "carried.json"
_OUTPUT_GATES = ("endings", "repetition", "variety")
_ADVICE = "take the report from where it was published"
_DEPTHS = {"models": 3, "pairs": 2, "buckets": 2, "gates": 2}  # of a figure in the record; else 1
_LABELS = ("name", "first", "second", "metric", "model", "seed", "budget")


def verify(place: Path, items: int | None = None) -> Iterator[Recomputation]:
    """Compute a report again.

    Its record is made again from the runs: from their weights, which are decoded again, or from the packed comparison
    beside the report, which has everything but the weights. What is packed is held against the record, and against the
    runs where there are any.

    Args:
        place: directory of a comparison or of a report, or the record itself.
        items: decode only this number of test pairs of each run, drawn at random; default all. The figures are then
            computed from the outputs on disk.

    Returns:
        A finding for each run that was decoded, and for each figure of the record.

    Raises:
        UserError: there is no record, neither runs nor what was packed, or a file is broken.
    """
    if items is not None and items < 1:
        raise SettingError(f"`items` {items}: expected a whole number of at least 1")
    file = place / RESULTS if place.is_dir() else place
    record = read_record(file)
    start = "" if file.name == RESULTS else f"{file.stem}-"
    packed = file.with_name(start + report.PACKED)
    with report.unpack(packed) as (folder, sha256):
        if sha256 != record.outputs_sha256:
            yield Recomputation(packed.name, ("is not what was packed for this record",), 1)
            return
        plan = read_plan(file.parent) if not start and (file.parent / PLAN).is_file() else None
        if plan is None or not any((file.parent / run.path).is_dir() for run in plan.runs()):
            if external := read_external(folder):
                yield from external.files_again()
            yield from compare_records(record, record_of(folder, sha256))
            return
    runs = read_runs(file.parent, plan)
    rows: list[tuple[float, str, RunOutputs]] = []
    with use_threads(plan.threads):
        for budget, model, run in runs.rows():
            finding, outputs = _check_outputs(run, items)
            rows.append((budget, model, outputs))
            yield finding
        yield from _trials_again(file.parent, plan, every=items is None)
    again = made_again(file.parent, plan, runs, RunTable.gather(rows))
    content = report.archive(report.packed_files(file.parent, plan, demo=again.demo))
    yield from compare_records(record, replace(again, outputs_sha256=hashlib.sha256(content).hexdigest()))


def _check_outputs(run: RunOnDisk, items: int | None) -> tuple[Recomputation, RunOutputs]:
    """Decode a run again; return how its outputs compare, and the new ones, or those on disk where few are decoded."""
    stored = replace(run.outputs, scores={})
    name = run.path.name
    if run.failed:
        ended = (f"its training is {run.record.status}",) if run.record.status in ENDED else ()
        return Recomputation(f"{name} (diverged)", ended, 0), stored
    stored_answers = {"": stored.answers, **stored.probes}
    before = stored_answers
    if is_sample := items is not None and items < len(stored.answers):
        before = {"": SystemRandom().sample(stored.answers, items)}  # which nobody can foresee
    try:
        loaded = load(run.path)
        options = decode(DecodingOptions, run.result.decoding, file=run.path / RESULT, advice=_ADVICE)
        after = {}
        for probe, answers in before.items():
            targets = [item.target for item in stored_answers[probe]]
            outputs = answer(loaded, [item.pair for item in answers], options, targets=targets)
            again = zip(answers, outputs, strict=True)
            after[probe] = [replace(was, output=now.text, finished=now.finished) for was, now in again]
    except UserError as error:  # changed weights
        return Recomputation(name, (str(error),), 0), stored
    pairs = list(chain.from_iterable(zip(before[probe], after[probe], strict=True) for probe in before))
    differences = tuple(
        f"{short(was.source)}: {short(was.output)} in the test, {short(now.output)} from the weights"
        for was, now in pairs
        if was != now and (loaded.takes_pairs or not _same_counts(was, now))
    )
    if not is_sample:
        stored = replace(stored, answers=after.pop(""), probes=after)
    return Recomputation(f"outputs of {name}", differences, len(pairs)), stored


def _trials_again(comparison: Path, plan: ComparisonPlan, *, every: bool) -> Iterator[Recomputation]:
    """Validate the trials of the tuning again with their weights: all, or those alone that were chosen."""
    for (budget, name, tuning), planned in planned_trials(plan).items():
        for trial, result in zip(planned, plan.tried(name, budget, tuning), strict=False):
            if result.valid is None or not (every or result.chosen):
                continue
            path = comparison / trial.path
            try:
                valid = validate(load(path), plan.headline.metric)
                difference = f"{result.valid:.6g} in the record, {valid:.6g} from the weights"
                differences = () if isclose(valid, result.valid, rel_tol=1e-9) else (difference,)
            except UserError as error:  # gone, or changed
                differences = (str(error),)
            yield Recomputation(f"validation of {path.name}", differences, 1)


def _same_counts(was: Prediction, now: Prediction) -> bool:
    """Whether two counts of a text are equal, but for rounding."""
    return replace(was, output=now.output) == now and counts_agree(was.output, now.output)


def compare_records(record: Record, again: Record) -> Iterator[Recomputation]:
    """Compare all values of a record with those that were made again, and yield a finding for each figure."""
    figures: dict[str, list[str]] = {}
    counts: Counter[str] = Counter()
    for place, was, now in _leaves(record, again):
        depth = _DEPTHS.get(place[0], 1)
        if place[2:3] in (("metrics",), ("buckets",)):
            depth = 4
        elif place[1:2] == ("cells",):
            depth = 3
        figure = ".".join(place[:depth])
        counts[figure] += 1
        if not _is_close(was, now):
            value = ".".join(place[depth:]) or "value"
            figures.setdefault(figure, []).append(f"{value} {short(was)} in the record, {short(now)} again")
    for figure, count in counts.items():
        yield Recomputation(figure, tuple(figures.get(figure, ())), count)


def _leaves(was: Any, now: Any, place: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    """Yield the plain values of two values side by side, each with its place."""
    first, second = _parts(was), _parts(now)
    if first is None or second is None:
        yield place, was, now
        return
    if not isinstance(was, Mapping) and first.keys() == second.keys() and list(first) != list(second):
        yield (*place, "order"), list(first), list(second)
    for key in dict.fromkeys((*first, *second)):
        yield from _leaves(first.get(key), second.get(key), (*place, str(key)))


def _parts(value: Any) -> Mapping[str, Any] | None:
    """Return what a value consists of: fields, or items by their labels or numbers; None of a plain value."""
    if value is None or isinstance(value, str | int | float):  # most are
        return None
    if isinstance(value, Mapping):
        return value
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    if not isinstance(value, list | tuple):
        return None
    items: dict[str, Any] = {}
    for number, item in enumerate(value):
        labels = [getattr(item, name, None) for name in _LABELS] if is_dataclass(item) else []
        label = " ".join(str(text) for text in labels if text not in ("", None) and not callable(text))
        if not label:
            label = str(number)
        elif label in items:
            label = f"{label} {number}"
        items[label] = item
    return items


def _is_close(was: object, now: object) -> bool:
    if isinstance(was, int | float) and isinstance(now, int | float):
        return isclose(was, now, rel_tol=1e-9, abs_tol=1e-12)
    return was == now


def record_of(folder: Path, sha256: str) -> Record:
    """Make the record again of what was packed, with every score computed from the outputs.

    Args:
        folder: see :func:`selfattn.comparison.report.unpack`.
        sha256: of what is packed.
    """
    if external := read_external(folder):
        return replace(external.record(), outputs_sha256=sha256)
    if carried := read_carried(folder):
        record = carried.record()
        gates = _gates_again(record.gates, carried.outputs())
        # Those that were carried over for the documentation; nobody else may.
        is_published = any(plan.get("packed") == sha256 for plan in read_published().values())
        return replace(record, gates=gates, carried=is_published, outputs_sha256=sha256)
    plan = read_plan(folder)
    runs = read_runs(folder, plan)
    outputs = runs.map(lambda run: replace(run.outputs, scores={}))
    return replace(made_again(folder, plan, runs, outputs), outputs_sha256=sha256)


def made_again(folder: Path, plan: ComparisonPlan, runs: RunTable[RunOnDisk], outputs: RunTable[RunOutputs]) -> Record:
    """Make the record again of a comparison and of new outputs of its runs."""
    again = make_record(folder, runs, plan, outputs)
    gates = _gates_again(again.gates, outputs)
    return replace(again, gates=gates, demo=report.has_demo(folder))


def _gates_again(gates: Sequence[Gate], outputs: RunTable[RunOutputs]) -> tuple[Gate, ...]:
    """Compute the gates on outputs again; all others stay as they are."""
    again = list(gates)
    for place, gate in enumerate(gates):
        run = next((run for run in outputs.main.get(gate.model, ()) if run.seed == (gate.seed or 0)), None)
        if gate.name in _OUTPUT_GATES and run is not None:
            finished = [answer.finished for answer in run.answers]
            computed = output_gates(run.texts, [pair.target for pair in run.pairs], finished)
            new = next(other for other in computed if other.name == gate.name)
            again[place] = replace(gate, value=new.value, passed=new.passed)
    return tuple(again)


@dataclass(frozen=True)
class CarriedRun(RunOutputs):
    """The outputs of a run, with its place in the table of runs.

    Attributes:
        model: its name.
        budget: share of the training.
    """

    model: str = field(kw_only=True)
    budget: float = field(kw_only=True)


@dataclass(frozen=True)
class Carried(Plain):
    """What is left of a comparison.

    Attributes:
        frame: its record; what follows from the outputs is left out. Curves, costs, attention, gates of models and the
            check of the plan are carried over.
        data: settings of the training data.
        runs: in the order of the record.
        words: see :class:`selfattn.comparison.tested.RunSummary`.
    """

    frame: Record
    data: Mapping[str, Any]
    runs: tuple[CarriedRun, ...]
    words: Mapping[str, int] = field(default_factory=dict)

    def outputs(self) -> RunTable[RunOutputs]:
        """Return the outputs of all runs."""
        table = RunTable[RunOutputs].gather((run.budget, run.model, run) for run in self.runs)
        return table.map(lambda run: replace(run, words=self.words, scores={}))

    def record(self) -> Record:
        """Compute every figure of the record that follows from the outputs.

        Raises:
            UserError: the test items, or the runs, are not those of the plan.
        """
        outputs = self.outputs()
        seal = self.frame.seal
        runs = {model.name: list(model.seeds) for model in self.frame.models}
        if by_model(outputs.main, lambda run: run.seed) != runs:
            raise UserError(f"{CARRIED}: has other runs than its record; {_ADVICE}")
        if seal is None or not seal.is_true or encode(seal.decides.get("test")) != pairs_digest(outputs.first.pairs):
            raise UserError(f"{CARRIED}: has other test items than the sealed plan; {_ADVICE}")
        task = task_of_settings(self.frame.task, self.data, "results.json")
        names = dict.fromkeys((self.frame.headline.metric, *self.frame.units))
        metrics = [make_metric(name, task.language) for name in names]
        return measure(self.frame, task, outputs, metrics, self.data.get("further_tests", ()))


def read_carried(folder: Path) -> Carried | None:
    """Return what was carried over; None where runs were packed.

    Raises:
        UserError: it is damaged.
    """
    path = folder / CARRIED
    return read(Carried, path, advice=_ADVICE) if path.is_file() else None


def is_external(folder: Path) -> bool:
    """Return whether a directory holds a comparison of outputs or of scores, which has no plan and no runs."""
    results = folder / RESULTS
    return not (folder / PLAN).exists() and results.is_file() and not read_record(results).trained


def read_external(folder: Path) -> Judged | JudgedScores | None:
    """Read what was packed, and is unpacked in a directory; None where it is a comparison of trained runs.

    Raises:
        UserError: what is there is damaged.
    """
    kinds: tuple[type[Judged | JudgedScores], ...] = (Judged, JudgedScores)
    for kind in kinds:
        if (folder / kind.FILE).is_file():
            return kind.unpack(folder)
    return None


def rewrite_external(folder: Path, out: Path, lang: str) -> report.Published:
    """Write the report of a comparison of outputs or scores again, from its record and what is packed beside it.

    Args:
        folder: of the comparison.
        out: directory for the report; an older one of the same comparison is replaced.
        lang: language of the report.

    Raises:
        UserError: what is packed does not belong to the record, or the report cannot be written.
    """
    record = read_record(folder / RESULTS)
    report.check_report_place(out, record.command)
    with report.unpack(folder / report.PACKED) as (files, sha256):
        judged = read_external(files) if sha256 == record.outputs_sha256 else None
        if judged is None:
            raise UserError(f"{folder / report.PACKED}: is not that of {folder / RESULTS}; compare again")
        return report.publish(record, judged.pack(), out, lang, judged.outputs())
