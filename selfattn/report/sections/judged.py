"""Tables on which the verdict rests: tests of all pairs, sanity gates, sizes, tuning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from selfattn.figures.gates import Gate
from selfattn.figures.pairs import PairTest
from selfattn.figures.record import Model, Record, TuningTrial
from selfattn.report.drawing.numbers import NONE, amount, compact, difference_text, p_text, value_text
from selfattn.report.render.grid import Column, Grid, Line
from selfattn.report.sections.settings import flatten
from selfattn.report.sections.summary import interval_note
from selfattn.report.verdict.comparability import obstacles, unsound
from selfattn.report.verdict.names import metric_kind, metric_name, named
from selfattn.report.verdict.ranking import ranked, turned
from selfattn.report.words.messages import Message, message

_WORDS = {
    "better": "word.better",
    "worse": "word.worse",
    "no difference seen": "word.same",
    "too few seeds to tell": "word.few",
}


@dataclass(frozen=True)
class PairTables:
    """All pairs on one metric."""

    metric: Message
    grid: Grid


def pair_tables(record: Record) -> tuple[PairTables, ...]:
    """The tests of all pairs, a table a metric, the headline's first; the model with the higher mean stands first."""
    names = dict.fromkeys([record.headline.metric, *(test.metric for test in record.pairs)])
    tables = (PairTables(metric_name(record, name), _pairs_grid(record, name)) for name in names)
    return tuple(table for table in tables if table.grid.lines)


def method_note(record: Record) -> Message:
    """How pairs were tested, in one sentence, and what the intervals are."""
    pairs = sum(test.metric == record.pairs[0].metric for test in record.pairs) if record.pairs else 0
    key = "statistics.none" if not pairs else "statistics.method.alone" if pairs == 1 else "statistics.method"
    return message(key, count=pairs, intervals=interval_note(record))


def _pairs_grid(record: Record, metric: str) -> Grid:
    place = {model.name: k for k, model in enumerate(ranked(record))}
    tests = [test for test in record.pairs if test.metric == metric]
    tests = [test if place[test.first] < place[test.second] else turned(test) for test in tests]
    tests.sort(key=lambda test: (place[test.first], place[test.second]))
    kind = metric_kind(record, metric) or "points"
    aside, stopped = unsound(record), bool(obstacles(record))
    heads = ("pairs.first", "pairs.second", f"pairs.difference.{kind}", "pairs.p", "pairs.holm", "pairs.word")
    columns = tuple(Column(message(key), numeric=1 < k < 5) for k, key in enumerate(heads))
    return Grid(
        f"pairs-{metric}",
        columns,
        tuple(_pair_line(record, test, metric, stopped or bool({test.first, test.second} & aside)) for test in tests),
    )


def _pair_line(record: Record, test: PairTest, metric: str, stopped: bool) -> Line:
    difference = difference_text(test, metric_kind(record, metric) or "points")
    p, p_holm = (p_text(value).removeprefix("=\u00a0") for value in (test.p, test.p_holm))
    word = message("standing.stopped" if stopped else _WORDS[test.word])
    return Line((test.first, test.second, difference, p, p_holm, word), test.first)


def gates_grid(record: Record) -> Grid:
    """Every gate, those that did not pass first."""
    heads = ("gates.gate", "gates.whose", "gates.found", "gates.value", "gates.limit", "gates.reason")
    columns = tuple(Column(message(key), numeric=k in (3, 4)) for k, key in enumerate(heads))
    order = sorted(record.gates, key=lambda gate: gate.passed)
    return Grid("gates", columns, tuple(_gate_line(record, gate) for gate in order))


def _gate_line(record: Record, gate: Gate) -> Line:
    whose: str | Message = gate.model or message("gates.all")
    if gate.seed is not None and gate.model:
        whose = message("gates.seed", model=gate.model, seed=gate.seed)
    found = message("gates.passed" if gate.passed else "gates.failed")
    value, limit = (NONE if number is None else f"{number:.3g}" for number in (gate.value, gate.limit))
    return Line(
        (named(record, "gate", gate.name), whose, found, value, limit, gate.reason), tone="" if gate.passed else "bad"
    )


def matching_grid(record: Record) -> Grid:
    """What every model has of what they were, or might have been, sized for."""
    keys = ["col.model", "col.parameters", "col.non_embedding"]
    counts = record.matching.counts
    if counts and record.matching.budget in ("flops", "seconds"):
        keys.append(f"budget.{record.matching.budget}")
    columns = tuple(Column(message(key), numeric=k > 0) for k, key in enumerate(keys))
    lines = []
    for model in ranked(record):
        bare = NONE if model.parameters_non_embedding is None else f"{model.parameters_non_embedding:,}"
        cells = [model.name, f"{model.parameters:,}", bare]
        if len(keys) > len(cells):
            cells.append(_count(counts.get(model.name), record.matching.budget))
        lines.append(Line(tuple(cells), model.name))
    return Grid("matching", columns, tuple(lines))


def _count(count: float | None, budget: str) -> str:
    if count is None or budget == "flops":
        return compact(count)
    return f"{amount(1000 * count)}\u00a0ms"


def tuning_space(record: Record) -> str:
    """What was searched: as the record's settings declare it under `tuning_space`, else all values that were tried."""
    declared = record.settings.get("tuning_space")
    if isinstance(declared, Mapping) and declared:
        return "; ".join(f"{name}: {value}" for name, value in flatten(declared).items())
    tried: dict[str, dict[str, None]] = {}
    for model in record.models:
        for trial in model.tuning:
            for name, value in flatten(trial.settings).items():
                tried.setdefault(name, {})[_short(value)] = None
    return "; ".join(f"{name}: {', '.join(values)}" for name, values in tried.items()) or NONE


def tuning_summary(record: Record) -> Grid:
    """How every model was tuned, and to what."""
    heads = ("col.model", "tuning.trials", "tuning.seconds", "tuning.valid", "tuning.chosen")
    columns = tuple(Column(message(key), numeric=0 < k < 4) for k, key in enumerate(heads))
    lines = tuple(Line((model.name, *_tuned(record, model)), model.name) for model in ranked(record) if model.tuning)
    return Grid("tuned", columns, lines)


def _tuned(record: Record, model: Model) -> tuple[str | Message, ...]:
    chosen = next((trial for trial in model.tuning if trial.chosen), None)
    known = [trial.seconds for trial in model.tuning if trial.seconds is not None]
    seconds = amount(sum(known)) if len(known) == len(model.tuning) else NONE
    if chosen is None:
        return str(len(model.tuning)), seconds, NONE, NONE
    settings = flatten(chosen.settings)
    text = ", ".join(f"{name}\u00a0{_short(value)}" for name, value in settings.items())
    valid = value_text(chosen.valid, record.headline.kind)
    return str(len(model.tuning)), seconds, valid, text or message("tuning.recipe")


def tuning_grids(record: Record) -> tuple[tuple[str, Grid], ...]:
    """All trials of every model, the best on validation items first."""
    return tuple((model.name, _trials(record, model, k)) for k, model in enumerate(ranked(record)) if model.tuning)


def _trials(record: Record, model: Model, number: int) -> Grid:
    names = list(dict.fromkeys(name for trial in model.tuning for name in trial.settings))
    columns = tuple(Column(name) for name in names)
    columns = (Column(message("tuning.valid"), numeric=False), *columns, Column(message("tuning.seconds")))
    order = sorted(model.tuning, key=lambda trial: -trial.valid)
    return Grid(f"trials-{number}", columns, tuple(_trial(record, trial, names) for trial in order))


def _trial(record: Record, trial: TuningTrial, names: list[str]) -> Line:
    settings = flatten(_known(trial.settings))
    valid: str | Message = value_text(trial.valid, record.headline.kind)
    if trial.chosen:
        valid = message("tuning.is_chosen", value=str(valid))
    values = [_short(settings[name]) if name in settings else NONE for name in names]
    return Line((valid, *values, NONE if trial.seconds is None else amount(trial.seconds)))


def _known(settings: Mapping[str, object]) -> Mapping[str, object]:
    """Settings with nested ones as one value, so that every name is a column."""
    return {name: str(value) if isinstance(value, Mapping) else value for name, value in settings.items()}


def _short(value: str) -> str:
    """A number that was drawn, in three digits."""
    try:
        return f"{float(value):.3g}" if "." in value or "e" in value else value
    except ValueError:
        return value
