"""Attention: which source tokens each model looks at, and how that agrees with the gold alignment."""

import math
from itertools import chain

from selfattn.evaluation.statistics.variances import ALPHA
from selfattn.report import blocks as b
from selfattn.report.drawing.numbers import NONE, share_text, value_text
from selfattn.report.ranking import named, ranked
from selfattn.results.attention import HeadAlignment, ModelAlignment
from selfattn.results.quality import Estimate
from selfattn.results.record import Record
from selfattn.words.messages import Message, message

DEMO = "demo.html"  # beside the report, where the models can run in a page
_AGREEMENT = {
    "blocking": "agreement.blocking",
    "gradient": "agreement.gradient",
    "between": "agreement.between",
}
_ALIGNMENT = {
    "gold_share": "alignment.gold_share",
    "aer": "alignment.aer",
    "shifted_gold_share": "alignment.shifted_gold_share",
    "shifted_aer": "alignment.shifted_aer",
    "entropy": "alignment.entropy",
    "eos_share": "alignment.eos_share",
}
# Spans have no sure links, so that the error rate against them is one minus precision.
_AGAINST_SPANS = {"aer": "alignment.aer.spans", "shifted_aer": "alignment.shifted_aer.spans"}


@b.section("attention", "head.attention")
def attention_section(record: Record) -> tuple[b.Block, ...]:
    """Return the maps, and which models have none."""
    shown: set[str] = set()
    for example in record.attention.examples:
        shown |= {name for name, model in example.models.items() if model.maps}
    names = tuple(model.name for model in ranked(record) if model.name in shown)
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
    return b.Paragraph(text), b.model_table("agreement", map(message, _AGREEMENT.values()), rows)


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
        most = max(scores.heads, key=lambda head: abs(head.difference))
        needed = sum(head.p < ALPHA for head in scores.heads)
        values = [value_text(value, scores.unit) for value in (scores.score, most.score)]
        place = message("heads.place", layer=most.layer, head=most.head)
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
    keys = _ALIGNMENT | _AGAINST_SPANS if spans else _ALIGNMENT
    return (b.Column(message(which), numeric=False), *(b.Column(message(key)) for key in keys.values()))


def _row(head: HeadAlignment) -> tuple[str, ...]:
    cells = {name: share_text(getattr(head, name)) for name in _ALIGNMENT}
    if head.entropy is not None:
        cells["entropy"] = f"{head.entropy:.2f}\u00a0({share_text(head.entropy_share, 0)})"
    return tuple(cells.values())
