"""Cost and fairness: gates, sizes, every setting that differs, tuning; and how to make the comparison again."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import chain

from selfattn.report import blocks as b
from selfattn.report.drawing.numbers import NONE, amount, compact, flatten, measure_text
from selfattn.report.ranking import matched_statement, named, ranked, target_tokens
from selfattn.report.sections.training import tuning_blocks
from selfattn.report.verdict import tuning_badge
from selfattn.results.record import Gate, Model, Record
from selfattn.words.messages import SOURCE, Message, TextLike, has_text, message, name_key

TIMES = {
    "train_seconds": "cost.train_seconds",
    "tokens_per_second": "cost.tokens_per_second",
    "predict_ms": "cost.predict_ms",
    "predict_batch_ms": "cost.predict_batch_ms",
}
SIZES = {
    "training_flops": "cost.training_flops",
    "training_flops_per_token": "cost.training_flops_per_token",
    "decoding_flops_per_token": "cost.decoding_flops_per_token",
    "training_bytes": "cost.training_bytes",
    "weights_bytes": "cost.weights_bytes",
    "run_bytes": "cost.run_bytes",
}


@b.section("cost", "head.cost")
def cost_section(record: Record) -> tuple[b.Block, ...]:
    """One table a kind of cost; those without any figure but the times are left out."""
    if not record.trained:
        return ()
    sizes: dict[str, str] = {}
    for name, key in SIZES.items():
        if any(getattr(model.cost, name) is not None for model in record.models):
            sizes[name] = key
    parts = (
        ("cost.time", _table(record, "times", TIMES), "cost.note"),
        ("cost.size", _table(record, "sizes", sizes), "cost.size.note"),
    )
    blocks: list[b.Block] = []
    for key, table, note in parts:
        if table.rows:
            blocks += [b.Heading(message(key), table.name), table, b.Paragraph(message(note), note=True)]
    return tuple(blocks)


def _table(record: Record, table: str, heads: Mapping[str, str]) -> b.Table:
    """One row a model; times are means over seeds with their range."""

    def cell(model: Model, name: str) -> str:
        if name in TIMES:
            return measure_text(getattr(model.timing, name))
        return compact(getattr(model.cost, name), "B" if name.endswith("bytes") else "")

    models = ranked(record) if heads else ()
    rows = [(model.name, [cell(model, name) for name in heads]) for model in models]
    return b.model_table(table, map(message, heads.values()), rows)


@b.section("gates", "head.gates")
def gates_section(record: Record) -> tuple[b.Block, ...]:
    """Return a row for each gate, those that failed first."""
    if not record.gates:
        return ()
    heads = ("gates.gate", "col.model", "gates.result", "gates.value", "gates.limit", "gates.reason")
    columns = tuple(b.Column(message(key), numeric=k in (3, 4)) for k, key in enumerate(heads))
    rows = tuple(_gate(record, gate) for gate in sorted(record.gates, key=lambda gate: gate.passed))
    shown = max(10, sum(not gate.passed for gate in record.gates))
    return b.Paragraph(message("gates.text")), b.Table("gates", columns, rows, shown=shown)


def _gate(record: Record, gate: Gate) -> b.Row:
    model: TextLike = gate.model or message("gates.all")
    if gate.seed is not None and gate.model:
        model = message("gates.seed", model=gate.model, seed=gate.seed)
    result = "gates.passed" if gate.passed else "gates.noted" if gate.note else "gates.failed"
    value, limit = (NONE if number is None else f"{number:.3g}" for number in (gate.value, gate.limit))
    says_numbers = gate.passed or gate.limit  # a gate without a limit names the runs that differ
    what = Message(name_key("gate", f"{gate.name}.what"), texts={SOURCE: gate.reason})
    finding = what if says_numbers else gate.reason
    cells = (named(record, "gate", gate.name), model, message(result), value, limit, finding)
    return b.Row(cells, tone="bad" if result == "gates.failed" else "")


@b.section("fairness", "head.fairness")
def fairness_section(record: Record) -> tuple[b.Block, ...]:
    """Return sizes, settings, tuning, the models, and what all share; of outputs from elsewhere nothing is known."""
    if not record.trained:
        return ()
    differing = differing_settings(record)
    differ = (b.Heading(message("settings.differ"), "differing"), b.Paragraph(message("settings.text")), differing)
    models = (
        (model.name, [b.Styled(_summary(model), f"({model.source})" if model.source else "")])
        for model in ranked(record)
    )
    return (
        b.Heading(message("fairness.matching"), "size"),
        b.Paragraph(message("fairness.statement", statement=matched_statement(record))),
        _sizes(record),
        *(differ if differing.rows else ()),
        b.Heading(message("tuning.head"), "tuning"),
        *tuning_blocks(record),
        b.Heading(message("fairness.models"), "models"),
        b.model_table("models", [message("fairness.model")], models, words=1),
        b.Heading(message("settings.shared")),
        b.Facts(tuple(shared_settings(record).items())),
    )


def _summary(model: Model) -> TextLike:
    """Return what a model is, in the reader's language where the catalogues have the summary that its record holds."""
    key = name_key("preset", model.preset or model.name)
    return message(key) if has_text(key) and message(key).say(SOURCE) == model.summary else model.summary or NONE


def _sizes(record: Record) -> b.Table:
    """Return what every model had of all that models can be matched by, and the most beside the least."""
    heads = ["col.parameters", "col.non_embedding", "col.body", "parity.tokens", "parity.flops", "cost.train_seconds"]
    shows: list[Callable[[float], str]] = [*["{:,}".format] * 3, compact, compact, amount]
    cells: list[list[float | None]] = []
    rows: list[tuple[str, list[str]]] = []
    for model in ranked(record):
        time = model.timing.train_seconds
        parameters = [model.parameters, model.parameters_non_embedding]
        spent = [target_tokens(model), model.cost.training_flops, time.mean if time else None]
        cells.append([*parameters, model.parameters_body, *spent])
        texts = [NONE if value is None else show(value) for value, show in zip(cells[-1], shows, strict=True)]
        rows.append((model.name, texts))
    table = b.model_table("matching", map(message, heads), rows)
    amounts = zip(*cells, strict=True)
    ratios = (f"{max(values) / min(values):.2f}" if all(values) else NONE for values in amounts)
    return replace(table, rows=(*table.rows, b.Row((message("parity.ratio"), *ratios))))


def differing_settings(record: Record) -> b.Table:
    """Return every setting that is not the same for all models, those of training first."""
    order = ranked(record)
    configs = [flatten(model.config) for model in order]
    every = dict.fromkeys(chain.from_iterable(configs))
    names = sorted(every, key=lambda name: not name.startswith("training."))
    rows = (b.Row((name, *(config.get(name, NONE) for config in configs))) for name in names)
    models = (b.Column(model.name, numeric=False, model=True) for model in order)
    columns = (b.Column(message("col.setting"), numeric=False), *models)
    return b.Table("differing", columns, tuple(row for row in rows if len(set(row.cells[1:])) > 1), "dense", shown=24)


def shared_settings(record: Record) -> dict[str, str]:
    """Return the settings of the comparison, then those of the models that all share."""
    shared = flatten({name: value for name, value in record.settings.items() if name != "tuning_space"})
    first, *further = (flatten(model.config) for model in record.models)
    return shared | {name: value for name, value in first.items() if all(other.get(name) == value for other in further)}


@b.section("reproduce", "head.reproduce")
def reproduce_section(record: Record) -> tuple[b.Block, ...]:
    """Return the command, its conditions, and where the runs lie."""
    runs = "\n".join(chain.from_iterable(model.run_dirs for model in record.models))
    name = message("reproduce.runs" if record.trained else "reproduce.files")
    return (
        b.Code(record.command, "command", message("reproduce.command")),
        b.Facts(_reproduction(record)),
        *([b.Folded(name, "runs", (b.Code(runs, "run-list", name),))] if runs else []),
        b.Paragraph(message("reproduce.note"), note=True),
    )


def _reproduction(record: Record) -> tuple[tuple[TextLike, TextLike], ...]:
    """Return signature, seeds, tuning, time, versions and machine."""
    signature = record.headline.signature
    seeds = record.seeds
    facts: list[tuple[TextLike, TextLike]] = [(message("reproduce.signature"), signature)] if signature else []
    if record.trained:
        facts.append((message("reproduce.seeds"), ", ".join(map(str, seeds))))
        facts.append((message("reproduce.tuning"), tuning_badge(record).text))
    else:
        facts += [(name, str(value)) for name, value in record.settings.items() if value]
    timings = [model.timing.train_seconds for model in record.models]
    if all(timings):
        total = amount(sum(sum(time.runs) if time.runs else time.mean for time in timings if time))
        facts.append((message("reproduce.time"), message("reproduce.seconds", seconds=total)))
    facts += [(name, NONE if value is None else str(value)) for name, value in record.environment.items()]
    return tuple(facts)
