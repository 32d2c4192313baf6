"""Sections on the models: their attention; cost and fairness; and how to make the comparison again.

Fairness: gates, sizes, every setting that differs, tuning.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain

from selfattn.evaluation.variances import ALPHA
from selfattn.report import blocks as b
from selfattn.report.numbers import NONE, amount, compact, flatten, measure_text, share_text, value_text
from selfattn.report.ranking import matched_statement, named, ranked, target_tokens
from selfattn.report.sections.training import tuning_blocks
from selfattn.report.verdict import tuning_badge
from selfattn.results.quality import Estimate
from selfattn.results.record import Gate, HeadAlignment, Model, ModelAlignment, Record
from selfattn.words.messages import SOURCE, Message, TextLike, has_text, message, name_key

DEMO = "demo.html"  # beside the report, where the models can run in a page
_AGREEMENT = ("blocking", "gradient", "between")
_ALIGNMENT = ("gold_share", "aer", "shifted_gold_share", "shifted_aer", "entropy", "eos_share")
# Spans have no sure links, so that the error rate against them is one minus precision.
_AGAINST_SPANS = {"aer": "aer.spans", "shifted_aer": "shifted_aer.spans"}


@b.section("attention", "head.attention", after="learning")
def attention_section(record: Record) -> tuple[b.Block, ...]:
    """Return the maps, and which models have none."""
    with_maps: set[str] = set()
    for example in record.attention.examples:
        with_maps |= {name for name, model in example.models.items() if model.maps}
    names = tuple(model.name for model in ranked(record) if model.name in with_maps)
    if not names:
        return ()
    page = (message("attention.demo"), DEMO) if record.demo else None
    text = b.Paragraph(message("attention.text"), without_maps(record), link=page)
    return text, b.AttentionExplorer(record.attention.examples, names), *_agreement(record)


def _agreement(record: Record) -> tuple[b.Block, ...]:
    """Return how far attention agrees with what outputs depend on, for each model that was asked."""
    agreements = [(model.name, model.agreement) for model in ranked(record) if model.agreement]
    if not agreements:
        return ()
    rows = [(name, [_correlation(getattr(values, key)) for key in _AGREEMENT]) for name, values in agreements]
    text = message("agreement.text", items=agreements[0][1].items, seed=record.models[0].seeds[0])
    return b.Paragraph(text), b.model_table("agreement", [message(f"agreement.{name}") for name in _AGREEMENT], rows)


def _correlation(estimate: Estimate | None) -> b.Cell:
    """Return two decimals, the ends of the interval rounded outward."""
    if estimate is None or estimate.low is None or estimate.high is None:
        return NONE
    low = math.floor(100 * estimate.low) / 100
    high = math.ceil(100 * estimate.high) / 100
    return b.Styled(f"{estimate.mean:.2f}", f"[{low:.2f},\u00a0{high:.2f}]", strong=True)


@b.section("heads", "head.heads", after="attention")
def heads_section(record: Record) -> tuple[b.Block, ...]:
    """Return what each attention head is worth: a table, and a picture for each model that has several heads."""
    measured = [(model.name, model.heads) for model in ranked(record) if model.heads]
    if not measured:
        return ()
    _, first = measured[0]
    name = named(record, "metric", first.metric)
    text = message("heads.text", items=first.items, seed=record.models[0].seeds[0], metric=name)
    rows: list[tuple[str, list[b.Cell]]] = []
    pictures: list[b.Block] = []
    for number, (model, scores) in enumerate(measured):
        strongest = max(scores.heads, key=lambda head: abs(head.difference))
        needed = sum(head.p < ALPHA for head in scores.heads)
        values = [value_text(value, scores.unit) for value in (scores.score, strongest.score)]
        place = message("heads.place", layer=strongest.layer, head=strongest.head)
        rows.append((model, [values[0], f"{len(scores.heads)}", f"{needed}", b.Styled(place), values[1]]))
        if len(scores.heads) > 1:
            caption = message("heads.caption", model=model, metric=name)
            pictures.append(b.HeatMap(f"without-{number}", caption, *scores.changes()))
    heads = map(message, ("heads.score", "heads.count", "heads.needed", "heads.most", "heads.without"))
    return b.Paragraph(text), b.model_table("heads", heads, rows), *pictures


def without_maps(record: Record) -> Message | None:
    """Name the models that have no attention to show."""
    names = [model.name for model in record.models if not model.attention]
    return message("attention.none", names=", ".join(names)) if names else None


@b.section("alignment", "head.alignment", after="cost")
def alignment_section(record: Record) -> tuple[b.Block, ...]:
    """Return one table for all models, and folded away the heads of each."""
    measured = [(model.name, model.alignment) for model in ranked(record) if model.alignment]
    if not measured:
        return ()
    rows: list[b.Row] = []
    for name, alignment in measured:
        rows += [b.Row((name, which, *_row(head)), name) for which, head in _chosen(alignment)]
    diagonals = (alignment.diagonal_aer for _, alignment in measured if alignment.diagonal_aer is not None)
    diagonal = next(diagonals, None)
    if diagonal is not None:  # the same for every model
        rows.append(b.Row((message("alignment.diagonal"), NONE, NONE, share_text(diagonal), *[NONE] * 4)))
    heads = chain.from_iterable(alignment.heads for _, alignment in measured)
    spans = any(head.gold_share is not None for head in heads)
    columns = (b.Column(message("col.model"), numeric=False), *_columns("alignment.which", spans))
    note = message("alignment.note", error=message("alignment.error.spans" if spans else "alignment.error.links"))
    return (
        b.Paragraph(message("alignment.text", seed=record.models[0].seeds[0])),
        b.Table("alignment", columns, tuple(rows)),
        b.Paragraph(note, without_maps(record), note=True),
        *(_all_heads(*pair, f"heads-{k}", spans) for k, pair in enumerate(measured) if len(pair[1].heads) > 1),
    )


def _all_heads(name: str, alignment: ModelAlignment, table: str, spans: bool) -> b.Folded:
    rows = tuple(b.Row((_at("alignment.one", head), *_row(head))) for head in alignment.heads)
    return b.Folded(
        message("alignment.all", model=name), table, (b.Table(table, _columns("alignment.head", spans), rows),)
    )


def _chosen(alignment: ModelAlignment) -> list[tuple[Message, HeadAlignment]]:
    """Return the best head, then the mean of each layer that has more than one."""
    if len(alignment.heads) == 1:
        return [(message("alignment.only"), alignment.heads[0])]
    by_place = {(head.layer, head.head): head for head in alignment.heads}
    places = {"alignment.best": alignment.best, "alignment.best.shifted": alignment.best_shifted}
    if alignment.best == alignment.best_shifted:
        places = {"alignment.best.both": alignment.best}
    best = [(_at(key, by_place[place]), by_place[place]) for key, place in places.items() if place]
    layers = [head.layer for head in alignment.heads]
    return best + [(_at("alignment.mean", mean), mean) for mean in alignment.means if layers.count(mean.layer) > 1]


def _at(key: str, head: HeadAlignment) -> Message:
    return message(key, layer=head.layer, head=head.head or 0)


def _columns(which: str, spans: bool) -> tuple[b.Column, ...]:
    names = [_AGAINST_SPANS.get(name, name) if spans else name for name in _ALIGNMENT]
    return (b.Column(message(which), numeric=False), *(b.Column(message(f"alignment.{name}")) for name in names))


def _row(head: HeadAlignment) -> tuple[str, ...]:
    cells = {name: share_text(getattr(head, name)) for name in _ALIGNMENT}
    if head.entropy is not None:
        cells["entropy"] = f"{head.entropy:.2f}\u00a0({share_text(head.entropy_share, 0)})"
    return tuple(cells.values())


TIMES = ("train_seconds", "tokens_per_second", "predict_ms", "predict_batch_ms")
SIZES = (
    *("training_flops", "training_flops_per_token", "decoding_flops_per_token"),
    *("training_bytes", "weights_bytes", "run_bytes"),
)


@b.section("cost", "head.cost")
def cost_section(record: Record) -> tuple[b.Block, ...]:
    """One table a kind of cost; those without any figure but the times are left out."""
    if not record.trained:
        return ()
    sizes = [name for name in SIZES if any(getattr(model.cost, name) is not None for model in record.models)]
    times = b.Heading(message("cost.time"), "times"), _table(record, "times", TIMES)
    blocks: tuple[b.Block, ...] = (*times, b.Paragraph(message("cost.note"), note=True))
    if sizes:
        blocks += b.Heading(message("cost.size"), "sizes"), _table(record, "sizes", sizes)
        blocks += (b.Paragraph(message("cost.size.note"), note=True),)
    return blocks


def _table(record: Record, table: str, names: Sequence[str]) -> b.Table:
    """One row a model; times are means over seeds with their range."""

    def cell(model: Model, name: str) -> str:
        if name in TIMES:
            return measure_text(getattr(model.timing, name))
        return compact(getattr(model.cost, name), "B" if name.endswith("bytes") else "")

    rows = [(model.name, [cell(model, name) for name in names]) for model in ranked(record)]
    return b.model_table(table, [message(f"cost.{name}") for name in names], rows)


@b.section("gates", "head.gates")
def gates_section(record: Record) -> tuple[b.Block, ...]:
    """Return a row for each gate, those that failed first."""
    if not record.gates:
        return ()
    heads = ("gates.gate", "col.model", "gates.result", "gates.value", "gates.limit", "gates.reason")
    columns = tuple(b.Column(message(key), numeric=k in (3, 4)) for k, key in enumerate(heads))
    rows = tuple(_gate(record, gate) for gate in sorted(record.gates, key=lambda gate: gate.passed))
    num_rows = max(10, sum(not gate.passed for gate in record.gates))
    return b.Paragraph(message("gates.text")), b.Table("gates", columns, rows, shown=num_rows)


def _gate(record: Record, gate: Gate) -> b.Row:
    model: TextLike = gate.model or message("gates.all")
    if gate.seed is not None and gate.model:
        model = message("gates.seed", model=gate.model, seed=gate.seed)
    result = "gates.passed" if gate.passed else "gates.noted" if gate.note else "gates.failed"
    value, limit = (NONE if number is None else f"{number:.3g}" for number in (gate.value, gate.limit))
    says_numbers = gate.passed or gate.limit  # a gate without a limit names the runs that differ
    description = Message(name_key("gate", f"{gate.name}.what"), texts={SOURCE: gate.reason})
    finding = description if says_numbers else gate.reason
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
