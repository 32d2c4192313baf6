"""Fairness: gates, sizes, every setting that differs, tuning; and how to make the comparison again."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence

from selfattn.evaluation.statistics.design import expected_best
from selfattn.registry import register
from selfattn.report import blocks as b
from selfattn.report.drawing.numbers import NONE, amount, compact, value_text
from selfattn.report.drawing.scale import Scale
from selfattn.report.verdict.comparability import matched_statement, tuning_badge
from selfattn.report.verdict.conditions import SPENT, share
from selfattn.report.verdict.ranking import headline_name, headline_unit, named, ranked, record_scale
from selfattn.results.gates import Gate
from selfattn.results.record import Model, Record, TuningTrial
from selfattn.words.messages import Message, TextLike, message


@register.section("gates")
class Gates:
    """Every gate with its finding."""

    title = message("head.gates")

    def blocks(self, record: Record) -> tuple[b.Block, ...]:
        """Return a row for each gate, those that failed first."""
        if not record.gates:
            return (b.Paragraph(message("gates.none")),)
        heads = ("gates.gate", "col.model", "gates.result", "gates.value", "gates.limit", "gates.reason")
        columns = tuple(b.Column(message(key), numeric=k in (3, 4)) for k, key in enumerate(heads))
        rows = tuple(_gate(record, gate) for gate in sorted(record.gates, key=lambda gate: gate.passed))
        shown = max(10, sum(not gate.passed for gate in record.gates))
        return b.Paragraph(message("gates.text")), b.Table("gates", columns, rows, shown=shown)


def _gate(record: Record, gate: Gate) -> b.Row:
    model: TextLike = gate.model or message("gates.all")
    if gate.seed is not None and gate.model:
        model = message("gates.seed", model=gate.model, seed=gate.seed)
    result = message("gates.passed" if gate.passed else "gates.failed")
    value, limit = (NONE if number is None else f"{number:.3g}" for number in (gate.value, gate.limit))
    cells = (named(record, "gate", gate.name), model, result, value, limit, gate.reason)
    return b.Row(cells, tone="" if gate.passed else "bad")


@register.section("fairness")
class Fairness:
    """Whether every model had the same chance."""

    title = message("head.fairness")

    def blocks(self, record: Record) -> tuple[b.Block, ...]:
        """Return sizes, settings, tuning, the models, and what all share."""
        differing = differing_settings(record)
        differ = (b.Heading(message("settings.differ"), "differing"), b.Paragraph(message("settings.text")), differing)
        models = (
            (model.name, (b.Styled(model.summary or NONE, f"({model.source})" if model.source else ""),))
            for model in ranked(record)
        )
        return (
            b.Heading(message("fairness.matching"), "size"),
            b.Paragraph(_matched(record)),
            _sizes(record),
            *(differ if differing.rows else ()),
            b.Heading(message("tuning.head"), "tuning"),
            *_tuning(record),
            b.Heading(message("fairness.models"), "models"),
            b.model_table("models", [message("fairness.model")], models, words=1),
            b.Heading(message("settings.shared")),
            b.Facts(tuple(shared_settings(record))),
        )


def _matched(record: Record) -> Message:
    """Return how near the models are in size, with the target that they were sized for."""
    matching, statement = record.matching, matched_statement(record)
    if matching.target is None:
        return message("fairness.statement", statement=statement)
    return message("fairness.target", statement=statement, target=compact(matching.target))


def _sizes(record: Record) -> b.Table:
    """Return what every model had of all that models can be matched by, and the most beside the least."""
    counts, matched_by = record.matching.counts, record.matching.budget
    columns: list[tuple[Message, Callable[[Model], float | None], Callable[[float], str]]] = [
        (message("col.parameters"), lambda model: model.parameters, "{:,}".format),
        (message("col.non_embedding"), lambda model: model.parameters_non_embedding, "{:,}".format),
        (message("col.body"), lambda model: model.parameters_body, "{:,}".format),
        (message("parity.tokens"), SPENT["tokens"], compact),
        (message("parity.flops"), SPENT["flops"], compact),
        (message(f"short.train.{record.times}"), SPENT["seconds"], amount),
    ]
    if counts and matched_by == "flops":
        columns.append((message("budget.flops"), lambda model: counts.get(model.name), compact))
    order, rows = ranked(record), []
    amounts = [[of(model) for model in order] for _, of, _ in columns]
    for k, model in enumerate(order):
        known = zip((column[k] for column in amounts), columns, strict=True)
        cells = (NONE if value is None else show(value) for value, (_, _, show) in known)
        rows.append(b.Row((model.name, *cells), model.name))
    if len(order) > 1:
        nonzero = ([value for value in column if value] for column in amounts)
        ratios = (f"{max(values) / min(values):.2f}" if len(values) == len(order) else NONE for values in nonzero)
        rows.append(b.Row((message("parity.ratio"), *ratios)))
    heads = (b.Column(head) for head, *_ in columns)
    return b.Table("matching", (b.Column(message("col.model"), numeric=False), *heads), tuple(rows))


# settings


def flatten(config: Mapping[str, object], prefix: str = "") -> dict[str, str]:
    """Return nested settings as one level of dotted names with their values as text.

    Example:
        >>> flatten({"encoder": {"layers": 2}, "tied": True, "dropout": None})
        {'encoder.layers': '2', 'tied': 'yes', 'dropout': 'none'}
    """
    flat: dict[str, str] = {}
    for name, value in config.items():
        if isinstance(value, Mapping) and value:
            flat |= flatten(value, f"{prefix}{name}.")
        else:
            flat[prefix + name] = setting_text(value)
    return flat


def setting_text(value: object) -> str:
    """Return a value as a reader wants it: yes and no, lists with commas, numbers as written."""
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    if isinstance(value, (list, tuple)):
        return ", ".join(setting_text(item) for item in value) or "none"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def differing_settings(record: Record) -> b.Table:
    """Return every setting that is not the same for all models, those of training first."""
    order = ranked(record)
    configs = [flatten(model.config) for model in order]

    def place(name: str) -> tuple[bool, int]:
        return not name.startswith("training."), -sum(name in config for config in configs)

    models = (b.Column(model.name, numeric=False, model=True) for model in order)
    columns = (b.Column(message("col.setting"), numeric=False), *models)
    names = sorted(dict.fromkeys(name for config in configs for name in config), key=place)
    rows = [b.Row((name, *(config.get(name, NONE) for config in configs))) for name in names]
    return b.Table("differing", columns, tuple(row for row in rows if len(set(row.cells[1:])) > 1), "dense", shown=24)


def shared_settings(record: Record) -> list[tuple[str, str]]:
    """Return the settings of the comparison, then those of the models that all share."""
    configs = [flatten(model.config) for model in record.models]
    shared = flatten({name: value for name, value in record.settings.items() if name != "tuning_space"})
    if len(configs) > 1:
        common = {k: v for k, v in configs[0].items() if all(config.get(k) == v for config in configs)}
        return [*shared.items(), *common.items()]
    return [*shared.items()]


# tuning


def _tuning(record: Record) -> tuple[b.Block, ...]:
    """Return how every model was tuned and to what, then all trials of every model."""
    tuned = [model for model in ranked(record) if model.tuning]
    if not tuned:
        return (b.Paragraph(message("tuning.none")),)
    heads = (message(f"tuning.{key}") for key in ("trials", "seconds", "valid", "chosen"))
    table = b.model_table("tuned", heads, ((model.name, _tuned(record, model)) for model in tuned), words=1)
    trials = [
        b.Folded(message("tuning.all", model=model.name), f"trials-{k}", (_trials(record, model, f"trials-{k}"),))
        for k, model in enumerate(tuned)
    ]
    edge = ", ".join(model.name for model in tuned if _at_edge(model))
    warning = message("tuning.edge", names=edge) if edge else None
    budgets = message("tuning.budgets") if any(trial.budget for model in tuned for trial in model.tuning) else None
    return (
        b.Paragraph(message("tuning.text", space=tuning_space(record)), budgets, warning),
        table,
        *_expected_best(record, tuned),
        *trials,
    )


def _expected_best(record: Record, tuned: Sequence[Model]) -> tuple[b.Block, ...]:
    """Return what the best of n trials is expected to reach on validation items, as a chart."""
    better, lines = record.headline.better, []
    for model in tuned:
        values = [trial.valid for trial in model.tuning if trial.budget is None]
        spots = (b.Spot(n, expected_best(values, n, better)) for n in range(1, len(values) + 1))
        lines.append(b.ChartLine(model.name, tuple(spots)))
    most = max(len(line.spots) for line in lines)
    if most < 2:
        return ()
    counts = [*(2**k for k in range((most - 1).bit_length())), most]  # 1, 2, 4, ... and all
    across = Scale(None, most, "number", 1.0, powers=True, marks=tuple((n, str(n)) for n in counts))
    caption = message("tuning.best.caption", metric=headline_name(record), scale=headline_unit(record))
    unit = message("tuning.number")
    chart = b.Chart("expected-best", caption, tuple(lines), record_scale(record), unit, across=across)
    return chart, b.Paragraph(message("tuning.best"), note=True)


def _at_edge(model: Model) -> bool:
    """Return whether the chosen learning rate is the lowest or the highest that was tried."""
    rates: dict[float | None, list[tuple[float, bool]]] = {}
    for trial in model.tuning:
        if isinstance(rate := trial.settings.get("lr"), float):
            rates.setdefault(trial.budget, []).append((rate, trial.chosen))
    return any(len(tried) > 2 and (min(tried)[1] or max(tried)[1]) for tried in rates.values())


def tuning_space(record: Record) -> str:
    """Return what was searched, as the record's settings declare it."""
    declared = record.settings.get("tuning_space")
    space = flatten(declared) if isinstance(declared, Mapping) else {}
    return "; ".join(f"{name}: {value}" for name, value in space.items()) or NONE


def _tuned(record: Record, model: Model) -> tuple[TextLike, ...]:
    known = [trial.seconds for trial in model.tuning if trial.seconds is not None]
    seconds = amount(sum(known)) if len(known) == len(model.tuning) else NONE
    chosen = next((trial for trial in model.tuning if trial.chosen), None)
    if chosen is None:
        return str(len(model.tuning)), seconds, NONE, NONE
    text: TextLike = _settings(chosen) or message("tuning.recipe")
    for trial in model.tuning:
        if trial.chosen and trial.budget:
            text = message("tuning.also", chosen=text, budget=share(trial.budget), settings=_settings(trial))
    return str(len(model.tuning)), seconds, value_text(chosen.valid, record.headline.kind), text


def _settings(trial: TuningTrial) -> str:
    return ", ".join(f"{name}\u00a0{_short(value)}" for name, value in flatten(trial.settings).items())


def _trials(record: Record, model: Model, name: str) -> b.Table:
    """Return all trials of a model, the best on validation items first."""
    names = dict.fromkeys(name for trial in model.tuning for name in flatten(trial.settings))
    most = record.budgets.cells[-1].budget if record.budgets else 1.0
    budgets = any(trial.budget for trial in model.tuning)
    rows = []
    for trial in sorted(model.tuning, key=lambda trial: trial.valid, reverse=record.headline.better == "higher"):
        text, settings = value_text(trial.valid, record.headline.kind), flatten(trial.settings)
        cells = (
            message("tuning.is_chosen", value=text) if trial.chosen else text,
            *(_short(settings.get(name, NONE)) for name in names),
            *([share(trial.budget or most)] if budgets else []),
            NONE if trial.loss is None else f"{trial.loss:.3f}",
            NONE if trial.seconds is None else amount(trial.seconds),
        )
        rows.append(b.Row(cells))
    heads: list[TextLike] = [*names, *([message("tuning.budget")] if budgets else [])]
    heads += [message("tuning.loss"), message("tuning.seconds")]
    columns = (b.Column(message("tuning.valid"), numeric=False), *map(b.Column, heads))
    return b.Table(name, columns, tuple(rows))


def _short(value: str) -> str:
    """Return a drawn number in three digits, any other value as it is."""
    try:
        return f"{float(value):.3g}" if "." in value or "e" in value else value
    except ValueError:
        return value


@register.section("reproduce")
class Reproduce:
    """The command with everything that decides its result."""

    title = message("head.reproduce")

    def blocks(self, record: Record) -> tuple[b.Block, ...]:
        """Return the command, its conditions, and where the runs lie."""
        runs = "\n".join(run for model in record.models for run in model.run_dirs)
        return (
            b.Code(record.command, "command", message("reproduce.command")),
            b.Facts(_reproduction(record)),
            *([b.Folded(message("reproduce.runs"), "runs", (b.Code(runs, "run-list", message("reproduce.runs")),))]
              if runs else ()),
            b.Paragraph(message("reproduce.note"), note=True),
        )  # fmt: skip


def _reproduction(record: Record) -> tuple[tuple[TextLike, TextLike], ...]:
    """Return signature, seeds, tuning, time, versions and machine."""
    signature, seeds = record.headline.signature, sorted({seed for model in record.models for seed in model.seeds})
    facts: list[tuple[TextLike, TextLike]] = [(message("reproduce.signature"), signature)] if signature else []
    facts.append((message("reproduce.seeds"), ", ".join(map(str, seeds))))
    facts.append((message("reproduce.tuning"), tuning_badge(record).text))
    timings = [model.timing.train_seconds for model in record.models]
    spent = [sum(time.runs) if time.runs else time.mean for time in timings if time]
    if len(spent) == len(timings):
        seconds = message("reproduce.seconds", seconds=amount(sum(spent)))
        facts.append((message(f"reproduce.time.{record.times}"), seconds))
    facts += [(name, NONE if value is None else str(value)) for name, value in record.environment.items()]
    return tuple(facts)
