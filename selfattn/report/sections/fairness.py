"""Fairness: sanity gates, what the models were sized for, every setting that differs, how they were tuned."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence

from selfattn.evaluation.statistics.design import expected_best
from selfattn.registry import register
from selfattn.report import blocks as b
from selfattn.report.drawing.numbers import NONE, amount, compact, value_text
from selfattn.report.drawing.scale import Scale
from selfattn.report.verdict.comparability import matched_statement
from selfattn.report.verdict.conditions import SPENT, share
from selfattn.report.verdict.names import headline_name, headline_unit, named
from selfattn.report.verdict.ranking import ranked, record_scale
from selfattn.results.gates import Gate
from selfattn.results.record import Model, Record, TuningTrial
from selfattn.words.messages import Message, Said, message


@register.section("gates")
class Gates:
    """Every gate with its finding."""

    title = message("head.gates")

    def blocks(self, record: Record) -> tuple[b.Block, ...]:
        """One row a gate."""
        if not record.gates:
            return (b.Paragraph(message("gates.none")),)
        heads = ("gates.gate", "gates.whose", "gates.found", "gates.value", "gates.limit", "gates.reason")
        columns = tuple(b.Column(message(key), numeric=k in (3, 4)) for k, key in enumerate(heads))
        rows = tuple(_gate(record, gate) for gate in sorted(record.gates, key=lambda gate: gate.passed))
        shown = max(10, sum(not gate.passed for gate in record.gates))
        return b.Paragraph(message("gates.text")), b.Table("gates", columns, rows, shown=shown)


def _gate(record: Record, gate: Gate) -> b.Row:
    whose: Said = gate.model or message("gates.all")
    if gate.seed is not None and gate.model:
        whose = message("gates.seed", model=gate.model, seed=gate.seed)
    found = message("gates.passed" if gate.passed else "gates.failed")
    value, limit = (NONE if number is None else f"{number:.3g}" for number in (gate.value, gate.limit))
    cells = (named(record, "gate", gate.name), whose, found, value, limit, gate.reason)
    return b.Row(cells, tone="" if gate.passed else "bad")


@register.section("fairness")
class Fairness:
    """Whether every model had the same chance."""

    title = message("head.fairness")

    def blocks(self, record: Record) -> tuple[b.Block, ...]:
        """Sizes, settings, tuning, the models, and what all share."""
        differing = differing_settings(record)
        differ = (b.Heading(message("settings.differ"), "differing"), b.Paragraph(message("settings.text")), differing)
        models = tuple(
            (model.name, b.Stacked(model.summary or NONE, f"({model.source})" if model.source else ""))
            for model in ranked(record)
        )
        return (
            b.Heading(message("fairness.matching"), "size"),
            b.Paragraph(_matched(record)),
            _sizes(record),
            *(differ if differing.rows else ()),
            b.Heading(message("tuning.head"), "tuning"),
            *_tuning(record),
            b.Heading(message("fairness.models")),
            b.Facts(models, models=True),
            b.Heading(message("settings.shared")),
            b.Facts(tuple(shared_settings(record))),
        )


def _matched(record: Record) -> Message:
    """How near the models are in size, with the budget that they were sized for."""
    matching, statement = record.matching, matched_statement(record)
    if matching.target is None:
        return message("fairness.statement", statement=statement)
    return message("fairness.target", statement=statement, target=compact(matching.target))


def _sizes(record: Record) -> b.Table:
    """The parity card: what every model had of all that may be a budget, and the most beside the least."""
    counts, budget = record.matching.counts, record.matching.budget
    columns: list[tuple[Message, Callable[[Model], float | None], Callable[[float], str]]] = [
        (message("col.parameters"), lambda model: model.parameters, "{:,}".format),
        (message("col.non_embedding"), lambda model: model.parameters_non_embedding, "{:,}".format),
        (message("col.body"), lambda model: model.parameters_body, "{:,}".format),
        (message("parity.tokens"), SPENT["tokens"], compact),
        (message("parity.flops"), SPENT["flops"], compact),
        (message(f"short.train.{record.times}"), SPENT["seconds"], amount),
    ]
    if counts and budget == "flops":
        columns.append((message(f"budget.{budget}"), lambda model: counts.get(model.name), compact))
    found = [[(of(model), show) for _, of, show in columns] for model in ranked(record)]
    rows = [[NONE if had is None else show(had) for had, show in row] for row in found]
    named = [b.Row((model.name, *cells), model.name) for model, cells in zip(ranked(record), rows, strict=True)]
    if len(named) > 1:
        all_had = [[had for had, _ in column] for column in zip(*found, strict=True)]
        ratios = (f"{max(had) / min(had):.2f}" if all(had) else NONE for had in all_had)
        named.append(b.Row((message("parity.ratio"), *ratios)))
    heads = (b.Column(head) for head, *_ in columns)
    return b.Table("matching", (b.Column(message("col.model"), numeric=False), *heads), tuple(named))


# settings


def flatten(config: Mapping[str, object], prefix: str = "") -> dict[str, str]:
    """Nested settings as one level of dotted names and their values as text.

    Example:
        >>> flatten({"encoder": {"layers": 2}, "tied": True, "dropout": None})
        {'encoder.layers': '2', 'tied': 'yes', 'dropout': 'none'}
    """
    found: dict[str, str] = {}
    for name, value in config.items():
        if isinstance(value, Mapping) and value:
            found |= flatten(value, f"{prefix}{name}.")
        else:
            found[prefix + name] = setting_text(value)
    return found


def setting_text(value: object) -> str:
    """One value as a reader wants it: yes and no, lists with commas, numbers as written."""
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    if isinstance(value, (list, tuple)):
        return ", ".join(setting_text(item) for item in value) or "none"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def differing_settings(record: Record) -> b.Table:
    """Every setting that is not the same for all models, how they were trained first; "–" where a model has none such.

    Models stand with the best mean first.
    """
    order = ranked(record)
    configs = [flatten(model.config) for model in order]

    def place(name: str) -> tuple[bool, int]:
        """How they were trained, then settings that more models have."""
        return not name.startswith("training."), -sum(name in config for config in configs)

    models = (b.Column(model.name, numeric=False, model=True) for model in order)
    columns = (b.Column(message("col.setting"), numeric=False), *models)
    names = sorted(dict.fromkeys(name for config in configs for name in config), key=place)
    rows = [b.Row((name, *(config.get(name, NONE) for config in configs))) for name in names]
    differing = tuple(row for row in rows if len(set(row.cells[1:])) > 1)
    return b.Table("differing", columns, differing, "dense", shown=24)


def shared_settings(record: Record) -> list[tuple[str, str]]:
    """Settings of the comparison but for the space of the tuning, then settings of the models that all share."""
    configs = [flatten(model.config) for model in record.models]
    found = list(flatten({name: value for name, value in record.settings.items() if name != "tuning_space"}).items())
    if len(configs) > 1:
        found += [(k, v) for k, v in configs[0].items() if all(config.get(k) == v for config in configs)]
    return found


# tuning


def _tuning(record: Record) -> tuple[b.Block, ...]:
    """How every model was tuned and to what, then all trials of every model."""
    tuned = [model for model in ranked(record) if model.tuning]
    if not tuned:
        return (b.Paragraph(message("tuning.none")),)
    heads = (message(f"tuning.{key}") for key in ("trials", "seconds", "valid", "chosen"))
    table = b.model_table("tuned", heads, ((model.name, _tuned(record, model)) for model in tuned), words=1)
    trials = (_trials(record, model, f"trials-{k}") for k, model in enumerate(tuned))
    names = (message("tuning.all", model=model.name) for model in tuned)
    folded = (b.Folded(name, one.name, (one,)) for name, one in zip(names, trials, strict=True))
    edge = ", ".join(model.name for model in tuned if _at_edge(model))
    said = message("tuning.edge", names=edge) if edge else None
    over_budgets = message("tuning.budgets") if any(trial.budget for model in tuned for trial in model.tuning) else None
    text = b.Paragraph(message("tuning.text", space=tuning_space(record)), over_budgets, said)
    return text, table, *_expected_best(record, tuned), *folded


def _expected_best(record: Record, tuned: Sequence[Model]) -> tuple[b.Block, ...]:
    """What the best of so many trials is expected to reach on validation items, as a chart and a table."""
    kind, better = record.headline.kind, record.headline.better
    best = {}
    for model in tuned:
        values = [trial.valid for trial in model.tuning if trial.budget is None]
        best[model.name] = [expected_best(values, n, better) for n in range(1, len(values) + 1)]
    most = max(map(len, best.values()))
    if most < 2:
        return ()
    counts = [*(2**k for k in range((most - 1).bit_length())), most]  # 1, 2, 4, ... and all
    lines = (b.ChartLine(name, tuple(b.Spot(n, one) for n, one in enumerate(own, 1))) for name, own in best.items())
    texts = {name: [value_text(one, kind) for one in own] for name, own in best.items()}
    rows = (b.Row((str(n), *(own[n - 1] if n <= len(own) else NONE for own in texts.values()))) for n in counts)
    across = Scale(None, most, "number", 1.0, powers=True, marks=tuple((n, str(n)) for n in counts))
    unit = message("tuning.number")
    caption = message("tuning.best.caption", metric=headline_name(record), scale=headline_unit(record))
    columns = (b.Column(unit), *(b.Column(name, model=True) for name in best))
    return (
        b.Chart("expected-best", caption, tuple(lines), record_scale(record), unit, across=across),
        b.Table("expected", columns, tuple(rows)),
        b.Paragraph(message("tuning.best"), note=True),
    )


def _at_edge(model: Model) -> bool:
    """Whether the chosen learning rate is the lowest or the highest that was tried."""
    rates: dict[float | None, list[tuple[float, bool]]] = {}
    for trial in model.tuning:
        if isinstance(rate := trial.settings.get("lr"), float):
            rates.setdefault(trial.budget, []).append((rate, trial.chosen))
    return any(len(own) > 2 and (min(own)[1] or max(own)[1]) for own in rates.values())


def tuning_space(record: Record) -> str:
    """What was searched: as the record's settings declare it under `tuning_space`, else all values that were tried."""
    declared = record.settings.get("tuning_space")
    if isinstance(declared, Mapping) and declared:
        return "; ".join(f"{name}: {value}" for name, value in flatten(declared).items())
    tried: dict[str, dict[str, None]] = {}
    for trial in (trial for model in record.models for trial in model.tuning):
        for name, value in flatten(trial.settings).items():
            tried.setdefault(name, {})[_short(value)] = None
    return "; ".join(f"{name}: {', '.join(values)}" for name, values in tried.items()) or NONE


def _tuned(record: Record, model: Model) -> tuple[Said, ...]:
    known = [trial.seconds for trial in model.tuning if trial.seconds is not None]
    seconds = amount(sum(known)) if len(known) == len(model.tuning) else NONE
    chosen = next((trial for trial in model.tuning if trial.chosen), None)
    if chosen is None:
        return str(len(model.tuning)), seconds, NONE, NONE
    text: Said = _settings(chosen) or message("tuning.recipe")
    for trial in model.tuning:
        if trial.chosen and trial.budget:
            text = message("tuning.also", chosen=text, budget=share(trial.budget), settings=_settings(trial))
    valid = value_text(chosen.valid, record.headline.kind)
    return str(len(model.tuning)), seconds, valid, text


def _settings(trial: TuningTrial) -> str:
    return ", ".join(f"{name}\u00a0{_short(value)}" for name, value in flatten(trial.settings).items())


def _trials(record: Record, model: Model, name: str) -> b.Table:
    """All trials of a model, the best on validation items first."""
    names = dict.fromkeys(name for trial in model.tuning for name in trial.settings)
    further = [(message("tuning.budget"), "budget"), (message("tuning.loss"), "loss")]
    further = [one for one in further if any(getattr(trial, one[1]) is not None for trial in model.tuning)]
    valid, seconds = b.Column(message("tuning.valid"), numeric=False), b.Column(message("tuning.seconds"))
    most = record.budgets.found[-1].budget if record.budgets else 1.0
    rows = []
    for trial in sorted(model.tuning, key=lambda trial: trial.valid, reverse=record.headline.better == "higher"):
        text = value_text(trial.valid, record.headline.kind)
        settings = {
            key: str(one) if isinstance(one, Mapping) else setting_text(one) for key, one in trial.settings.items()
        }
        values = (_short(settings[name]) if name in settings else NONE for name in names)
        cells = (message("tuning.is_chosen", value=text) if trial.chosen else text, *values)
        shown = {"budget": share(trial.budget or most), "loss": NONE if trial.loss is None else f"{trial.loss:.3f}"}
        also = (shown[field] for _, field in further)
        rows.append(b.Row((*cells, *also, NONE if trial.seconds is None else amount(trial.seconds))))
    return b.Table(name, (valid, *map(b.Column, names), *(b.Column(head) for head, _ in further), seconds), tuple(rows))


def _short(value: str) -> str:
    """A number that was drawn, in three digits."""
    try:
        return f"{float(value):.3g}" if "." in value or "e" in value else value
    except ValueError:
        return value
