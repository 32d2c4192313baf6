"""Attention against gold, as tables: best head and mean of heads of all models side by side, then every head."""

from __future__ import annotations

from selfattn.figures.alignment import HeadAlignment, ModelAlignment
from selfattn.figures.record import Model, Record
from selfattn.report.drawing.numbers import NONE, share_text
from selfattn.report.render.grid import Cell, Column, Grid, Line
from selfattn.report.verdict.ranking import ranked
from selfattn.report.words.messages import Message, message

_SHARES = ("gold_share", "aer", "shifted_gold_share", "shifted_aer", "eos_share")


def alignment_grid(record: Record) -> tuple[Grid, ...]:
    """Best head and mean of the heads of each layer, all models in one table; nothing where nothing was measured.

    Last in it stands what links along the diagonal reach, where that is known: the same for every model.
    """
    lines, diagonal = [], None
    for model in ranked(record):
        if model.alignment:
            lines += [_line(one, which, model) for which, one in _chosen(model.alignment)]
            diagonal = model.alignment.diagonal_aer if diagonal is None else diagonal
    if diagonal is not None:
        lines.append(Line((message("alignment.diagonal"), NONE, NONE, share_text(diagonal), *[NONE] * 4)))
    return (Grid("alignment", _columns("alignment.which", model=True), tuple(lines)),) if lines else ()


def all_heads(record: Record) -> tuple[tuple[str, Grid], ...]:
    """Every head of every model, a table a model, where there is more than one."""
    found = []
    for k, model in enumerate(ranked(record)):
        if model.alignment and len(model.alignment.heads) > 1:
            lines = tuple(_line(one, _name(one), None) for one in model.alignment.heads)
            found.append((model.name, Grid(f"heads-{k}", _columns("alignment.head", model=False), lines)))
    return tuple(found)


def _chosen(found: ModelAlignment) -> list[tuple[Message, HeadAlignment]]:
    """The best head, then the mean of each layer that has more than one."""
    rows = []
    best = next((one for one in found.heads if (one.layer, one.head) == found.best), None)
    if len(found.heads) == 1:
        return [(message("alignment.only"), found.heads[0])]
    if best:
        rows.append((message("alignment.best", layer=best.layer + 1, head=(best.head or 0) + 1), best))
    for mean in found.means:
        if sum(one.layer == mean.layer for one in found.heads) > 1:
            rows.append((message("alignment.mean", layer=mean.layer + 1), mean))
    return rows


def _columns(which: str, *, model: bool) -> tuple[Column, ...]:
    first = (Column(message("col.model"), numeric=False),) if model else ()
    heads = ("gold_share", "aer", "shifted_gold_share", "shifted_aer", "entropy", "eos_share")
    return (*first, Column(message(which), numeric=False), *(Column(message(f"alignment.{name}")) for name in heads))


def _line(one: HeadAlignment, which: Message, model: Model | None) -> Line:
    shares = {name: share_text(getattr(one, name)) for name in _SHARES}
    cells: list[Cell] = [shares[name] for name in _SHARES[:-1]]
    cells += [_entropy(one), shares["eos_share"]]
    if model is None:
        return Line((which, *cells))
    return Line((model.name, which, *cells), model.name)


def _entropy(one: HeadAlignment) -> str:
    if one.entropy is None:
        return share_text(one.entropy_share)
    part = "" if one.entropy_share is None else f"\u00a0({share_text(one.entropy_share, 0)})"
    return f"{one.entropy:.2f}{part}" if one.entropy is not None else NONE


def _name(one: HeadAlignment) -> Message:
    return message("alignment.one", layer=one.layer + 1, head=(one.head or 0) + 1)
