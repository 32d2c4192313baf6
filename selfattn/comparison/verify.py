"""Verify a report: decode again from the weights, or score the archived outputs again, and compare every figure."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from math import isclose
from pathlib import Path
from random import SystemRandom
from typing import Any

from selfattn.codec import encode, short
from selfattn.comparison.archive import ARCHIVE, archive_sha256, read_archive
from selfattn.comparison.check import check_plan
from selfattn.comparison.derived import files_again, underived, unlike_the_command
from selfattn.comparison.measured import measure
from selfattn.comparison.plan import ComparisonPlan, read_plan
from selfattn.comparison.record import make_record
from selfattn.comparison.run_table import RunTable
from selfattn.comparison.seal import unkept
from selfattn.comparison.tested import Answer, Answered, Tested, read_runs
from selfattn.comparison.trainings import ENDED
from selfattn.comparison.tuning import planned_trials
from selfattn.decoding.options import DecodingOptions
from selfattn.errors import SettingError, UserError
from selfattn.evaluation.gates.output_gates import output_gates
from selfattn.evaluation.metrics.likelihood import agree
from selfattn.experiments.plan import PLAN
from selfattn.results.reading import read_record
from selfattn.results.record import Gate, Record
from selfattn.results.verified import Recomputation
from selfattn.runs.answers import answer
from selfattn.runs.load import load
from selfattn.runs.run import Run
from selfattn.runs.task_metrics import decided_by
from selfattn.runs.training_set import make_training_set
from selfattn.training.device import use_threads
from selfattn.training.distributed import Processes
from selfattn.training.validation import validation_loss

RESULTS = "results.json"
# Fields of the record that follow from the outputs.
_OF_OUTPUTS = {"test_items", "headline", "units", "signatures", "interval", "pairs", "buckets"}
_OF_OUTPUTS |= {"differences", "gates", "budgets", "ngrams"}
_OF_MODELS = (("metrics",), ("cut_off",))
_ADVICE = "take the report and its archive from where they were published"
_OUTPUT_GATES = ("endings", "repetition", "variety")
_DEPTHS = defaultdict(lambda: 1, models=3, pairs=2, buckets=2, gates=2)  # of a figure in the record
_LABELS = ("name", "first", "second", "metric", "model", "seed", "budget")


def verify(place: Path, items: int | None = None) -> Iterator[Recomputation]:
    """Compute the figures of a report again.

    The runs of a comparison are decoded again from their weights. Where there are no runs, the archive of outputs
    beside the record is scored again.

    Args:
        place: directory of a comparison or of a report, or the record itself.
        items: decode only this number of test pairs of each run, drawn at random; default all. The figures are then
            computed from the outputs on disk.

    Returns:
        A finding for each run that was decoded, and for each figure of the record.

    Raises:
        UserError: there is no record, neither runs nor an archive, or a file is broken.
    """
    if items is not None and items < 1:
        raise SettingError(f"`items` {items}: expected a whole number of at least 1")
    file = place / RESULTS if place.is_dir() else place
    record = read_record(file)
    if file.name == RESULTS and (file.parent / PLAN).is_file() and (file.parent / "runs").is_dir():
        yield from _from_weights(file.parent, record, items)
    else:
        yield from _from_archive(file.with_name(ARCHIVE if file.name == RESULTS else f"{file.stem}-{ARCHIVE}"), record)


def _check_archive(sha256: str, name: str, record: Record) -> Recomputation:
    return Recomputation(name, () if sha256 == record.outputs_sha256 else ("is not the archive of this record",), 1)


def _from_archive(path: Path, record: Record) -> Iterator[Recomputation]:
    sha256 = archive_sha256(path)
    yield _check_archive(sha256, path.name, record)
    if sha256 != record.outputs_sha256:
        return
    data, outputs = read_archive(path)
    _check_runs(path, outputs, record)
    if record.plan is not None:
        yield Recomputation("plan.seal", tuple(unkept(record, data, outputs)), 1)
    yield Recomputation("what follows from plan and archive", tuple(underived(record, data, outputs)), 1)
    if not record.trained:
        yield Recomputation("what follows from the command", tuple(unlike_the_command(record)), 1)
        for name, differences in files_again(record, outputs):
            yield Recomputation(f"lines of {name}", differences, record.test_items)
    record = replace(record, gates=tuple(gate for gate in record.gates if gate.name in _OUTPUT_GATES))
    again = replace(measure(record, data, outputs), gates=_gates_again(record.gates, outputs))
    yield from _compare(record, again, outputs_alone=True)


def _check_runs(path: Path, outputs: RunTable[Answered], record: Record) -> None:
    """Check that an archive has the runs of its record, no more and no fewer.

    Raises:
        UserError: it has others.
    """
    runs = {model.name: model.seeds for model in record.models}
    for budget in outputs.budgets:
        archived = {name: tuple(run.seed for run in of_model) for name, of_model in outputs.at(budget).items()}
        if archived != runs:
            seeds = f"runs with seeds {archived} at budget {budget:g}, the record has {runs}"
            raise UserError(f"{path}: {seeds}; {_ADVICE}")
        for name, of_model in outputs.at(budget).items():
            if all(run.failed for run in of_model):
                raise UserError(f"{path}: no training of {name} came to an end; {_ADVICE}")
    budgets = {cell.budget for cell in record.budgets.cells} if record.budgets else {max(outputs.budgets)}
    if budgets != set(outputs.budgets):
        numbers = f"outputs at budgets {sorted(outputs.budgets)}, the record has {sorted(budgets)}"
        raise UserError(f"{path}: {numbers}; {_ADVICE}")


def _from_weights(comparison: Path, record: Record, items: int | None) -> Iterator[Recomputation]:
    plan = read_plan(comparison)
    runs = read_runs(comparison, plan)
    rows: list[tuple[float, str, Answered]] = []
    with use_threads(plan.threads):
        for cell in runs.cells():
            for run in cell.runs:
                finding, answered = _decode(run, items)
                rows.append((cell.budget, cell.model, answered))
                yield finding
    outputs = RunTable.gather(rows)
    if (comparison / ARCHIVE).is_file():
        yield _check_archive(archive_sha256(comparison / ARCHIVE), ARCHIVE, record)
    again = make_record(comparison, runs, plan, outputs)
    again = replace(
        again,
        plan=check_plan(comparison, plan, runs, again.pairs),
        gates=_gates_again(again.gates, outputs),
        outputs_sha256=record.outputs_sha256,
        demo=record.demo,
        signatures=again.signatures if record.signatures else {},  # older records have none
    )
    with use_threads(plan.threads):
        yield from _trials_again(comparison, plan, every=items is None)
    yield from _compare(record, again)


def _decode(run: Tested, items: int | None) -> tuple[Recomputation, Answered]:
    """Decode a run again; return how its outputs compare, and the new ones, or those on disk where few are decoded."""
    stored = replace(run.answered, scores={})
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
        after = {
            probe: _again(loaded, options, answers, [answer.target for answer in stored_answers[probe]])
            for probe, answers in before.items()
        }
    except UserError as error:  # changed weights
        return Recomputation(name, (str(error),), 0), stored
    pairs = list(chain.from_iterable(zip(before[probe], after[probe], strict=True) for probe in before))
    differences = tuple(
        f"{short(was.source)}: {short(was.output)} in the test, {short(now.output)} from the weights"
        for was, now in pairs
        if was != now and not _alike(was, now, loaded)
    )
    again = stored if is_sample else replace(stored, answers=after.pop(""), probes=after)
    return Recomputation(f"outputs of {name}", differences, len(pairs)), again


def _trials_again(comparison: Path, plan: ComparisonPlan, *, every: bool) -> Iterator[Recomputation]:
    """Validate the trials of the tuning again with their weights: all, or those alone that were chosen."""
    for (budget, name, tuning), planned in planned_trials(plan).items():
        of_trials = None if budget == plan.main else budget
        results = [t for t in plan.trials.get(name, ()) if (t.budget, t.tuning) == (of_trials, tuning)]
        for trial, result in zip(planned, results, strict=False):
            if result.valid is None or not (every or result.chosen):
                continue
            path = comparison / trial.path
            try:
                valid = _validated(load(path), plan.headline.metric)
                difference = f"{result.valid:.6g} in the record, {valid:.6g} from the weights"
                differences = () if isclose(valid, result.valid, rel_tol=1e-9) else (difference,)
            except UserError as error:  # gone, or changed
                differences = (str(error),)
            yield Recomputation(f"validation of {path.name}", differences, 1)


def _validated(run: Run, metric: str) -> float:
    """Return the metric of a run on its validation items."""
    data = make_training_set(decided_by(run.task, metric), run.config.training, tokenizer=run.tokenizer)
    loss = validation_loss(run.model, data.validation, run.config.training)
    return data.criterion.measure(run.model, loss, Processes())[metric]


def _alike(was: Answer, now: Answer, run: Run) -> bool:
    """Whether two counts of a text are equal, but for rounding."""
    return not run.takes_pairs and replace(was, output=now.output) == now and agree(was.output, now.output)


def _again(run: Run, options: DecodingOptions, answers: Sequence[Answer], targets: Sequence[str]) -> list[Answer]:
    outputs = answer(run, [stored.pair for stored in answers], options, targets=targets)
    return [
        replace(stored, output=best.text, finished=best.finished) for stored, best in zip(answers, outputs, strict=True)
    ]


def _gates_again(gates: Sequence[Gate], outputs: RunTable[Answered]) -> tuple[Gate, ...]:
    """Compute the gates on outputs again; all others stay as they are."""
    again = list(gates)
    for place, gate in enumerate(gates):
        run = next((run for run in outputs.main.get(gate.model, ()) if run.seed == (gate.seed or 0)), None)
        if gate.name in _OUTPUT_GATES and run is not None:
            finished = [answer.finished for answer in run.answers]
            computed = output_gates(run.outputs, [pair.target for pair in run.pairs], finished)
            new = next(other for other in computed if other.name == gate.name)
            again[place] = replace(gate, value=new.value, passed=new.passed)
    return tuple(again)


def _compare(record: Record, again: Record, *, outputs_alone: bool = False) -> Iterator[Recomputation]:
    """Compare two records value by value, or those values alone that follow from the outputs."""
    before = dict(_leaves(encode(record)))
    after = dict(_leaves(encode(again)))
    figures: dict[str, list[str]] = {}
    counts: Counter[str] = Counter()
    for place in dict.fromkeys((*before, *after)):
        was = before.get(place)
        now = after.get(place)
        of_model = place[2:3]
        if outputs_alone and place[0] not in _OF_OUTPUTS and of_model not in _OF_MODELS:
            continue
        depth = 4 if of_model in (("metrics",), ("buckets",)) else 3 if place[1:2] == ("cells",) else _DEPTHS[place[0]]
        figure = ".".join(place[:depth])
        value = ".".join(place[depth:]) or "value"
        counts[figure] += 1
        if not _agree(was, now):
            figures.setdefault(figure, []).append(f"{value} {short(was)} in the record, {short(now)} again")
    for figure, count in counts.items():
        yield Recomputation(figure, tuple(figures.get(figure, ())), count)


def _leaves(value: Any, place: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], object]]:
    """Yield every plain value with its place, a key for each level; items of a list have their labels or numbers."""
    if isinstance(value, list):
        items: dict[str, Any] = {}
        for number, item in enumerate(value):
            labels = [item.get(key) for key in _LABELS] if isinstance(item, dict) else []
            label = " ".join(str(text) for text in labels if text not in ("", None))
            items[str(number) if not label else f"{label} {number}" if label in items else label] = item
        value = items
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _leaves(item, (*place, str(key)))
    else:
        yield place, value


def _agree(was: object, now: object) -> bool:
    if isinstance(was, int | float) and isinstance(now, int | float):
        return isclose(was, now, rel_tol=1e-9, abs_tol=1e-12)
    return was == now
