"""Cost: time, floating-point operations, memory, disk, and decoding by length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

from selfattn.registry import register
from selfattn.report.blocks import Block, Cell, Column, Heading, Paragraph, Row, Styled, Table, model_table
from selfattn.report.drawing.numbers import NONE, amount, compact, measure_text, share_text
from selfattn.report.sections.first_screen import TIMES
from selfattn.report.verdict.ranking import ranked
from selfattn.results.record import Cost, Model, Record
from selfattn.words.messages import message

_SIZES = tuple(field.name for field in fields(Cost) if field.name != "decoding")


@register.section("cost")
class CostSection:
    """What models cost."""

    title = message("head.cost")

    def blocks(self, record: Record) -> tuple[Block, ...]:
        """One table a kind of cost; those without any figure but the times are left out."""
        sizes = [name for name in _SIZES if any(getattr(model.cost, name) is not None for model in record.models)]
        parts = (
            ("time", _table(record, "times", TIMES), f"cost.note.{record.times}"),
            ("size", _table(record, "sizes", sizes), "cost.size.note"),
            ("decoding", _decoding(record), "cost.decoding.note"),
        )
        blocks: list[Block] = []
        for name, table, note in parts:
            if table.rows:
                head = Heading(message(f"cost.{name}"), table.name)
                blocks += [head, table, Paragraph(message(note), note=True)]
        return tuple(blocks)


def _table(record: Record, table: str, names: Sequence[str]) -> Table:
    """One row a model; times are means over seeds with their range."""
    rows = ((model.name, [_cell(model, name) for name in names]) for model in (ranked(record) if names else ()))
    heads = (f"cost.{name}" + (f".{record.times}" if name == "train_seconds" else "") for name in names)
    return model_table(table, map(message, heads), rows)


def _cell(model: Model, name: str) -> Cell:
    if name in TIMES:
        text = measure_text(getattr(model.timing, name))
    elif name == "peak_share":
        text = share_text(model.cost.peak_share)
    else:
        text = compact(getattr(model.cost, name), "B" if name.endswith("bytes") else "")
    return text if text != NONE else Styled(text, note=model.not_measured.get(name) or message("reason.none"))


def _decoding(record: Record) -> Table:
    """By method, batch and length, for each model the time to the first token and for each further one."""
    order = [model for model in ranked(record) if model.cost.decoding]
    times: dict[tuple[str, int, int], dict[str, str]] = {}
    for model in order:
        for cost in model.cost.decoding:
            key, time = (cost.method, cost.batch, cost.length), f"{amount(cost.first_ms)} + {amount(cost.token_ms)}"
            times.setdefault(key, {})[model.name] = time
    methods = list(dict.fromkeys(method for method, *_ in times))
    keys = sorted(times, key=lambda key: (methods.index(key[0]), *key[1:]))
    columns = [Column(message(f"decoding.{name}"), numeric=name != "method") for name in ("method", "batch", "length")]
    columns += [Column(model.name, model=True) for model in order]
    rows = (Row((*map(str, key), *(times[key].get(model.name, NONE) for model in order))) for key in keys)
    return Table("decoding", tuple(columns), tuple(rows), shown=12)
