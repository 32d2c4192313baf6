"""Verify a report: make its record again from its runs, decoded again where there are weights, and compare the two."""

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from itertools import chain
from math import isclose
from pathlib import Path
from random import SystemRandom
from typing import Any

from selfattn.codec import short
from selfattn.comparison.packed import made_again, read_external, record_of
from selfattn.comparison.plan import ComparisonPlan, planned_trials, read_plan
from selfattn.comparison.report import PACKED, archive, packed_files, unpack
from selfattn.comparison.tested import Prediction, RunOnDisk, RunOutputs, RunTable, read_runs
from selfattn.comparison.trainings import ENDED
from selfattn.decoding.options import DecodingOptions
from selfattn.errors import SettingError, UserError
from selfattn.evaluation.metrics import counts_agree
from selfattn.experiments.plan import PLAN
from selfattn.processes import use_threads
from selfattn.report.write import RESULTS
from selfattn.results.record import Recomputation, Record, read_record
from selfattn.runs.evaluate import answer, validate
from selfattn.runs.load import load
from selfattn.runs.run import Run

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
    packed = file.with_name(start + PACKED)
    with unpack(packed) as (folder, sha256):
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
    content = archive(packed_files(file.parent, plan, demo=again.demo))
    yield from compare_records(record, replace(again, outputs_sha256=hashlib.sha256(content).hexdigest()))


def _check_outputs(run: RunOnDisk, items: int | None) -> tuple[Recomputation, RunOutputs]:
    """Decode a run again; return how its outputs compare, and the new ones, or those on disk where few are decoded."""
    stored = replace(run.outputs, scores={})
    name = run.path.name
    if run.failed:
        ended = (f"its training is {run.record.status}",) if run.record.status in ENDED else ()
        return Recomputation(f"{name} (diverged)", ended, 0), stored
    beam = int(run.result.decoding["beam"])
    penalty = run.result.decoding["length_penalty"]
    stored_answers = {"": stored.answers, **stored.probes}
    before = stored_answers
    if is_sample := items is not None and items < len(stored.answers):
        before = {"": SystemRandom().sample(stored.answers, items)}  # which nobody can foresee
    try:
        loaded = load(run.path)
        options = DecodingOptions(beam=beam, length_penalty=penalty)
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
        if was != now and not _same_counts(was, now, loaded)
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


def _same_counts(was: Prediction, now: Prediction, run: Run) -> bool:
    """Whether two counts of a text are equal, but for rounding."""
    return not run.takes_pairs and replace(was, output=now.output) == now and counts_agree(was.output, now.output)


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
    if isinstance(value, Mapping):
        return value
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    if not isinstance(value, list | tuple):
        return None
    items: dict[str, Any] = {}
    for number, item in enumerate(value):
        labels = [getattr(item, name, None) for name in _LABELS]
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
