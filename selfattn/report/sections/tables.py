"""All tables of a report that hold no drawings, by section; the page and Markdown show the same ones."""

from __future__ import annotations

from dataclasses import dataclass

from selfattn.figures.record import Record
from selfattn.report.render.grid import Grid
from selfattn.report.sections.alignment import alignment_grid, all_heads
from selfattn.report.sections.cost import cost_grid, decoding_grid, size_grid
from selfattn.report.sections.judged import (
    PairTables,
    gates_grid,
    matching_grid,
    pair_tables,
    tuning_grids,
    tuning_summary,
)
from selfattn.report.sections.settings import differing_settings
from selfattn.report.sections.summary import further_metrics
from selfattn.report.sections.training import reached_grid


@dataclass(frozen=True)
class Tables:
    """The tables; one without lines, or an empty tuple, is not shown."""

    reached: Grid
    further: Grid
    pairs: tuple[PairTables, ...]
    gates: Grid
    matching: Grid
    differing: Grid
    tuned: Grid
    trials: tuple[tuple[str, Grid], ...]
    times: Grid
    sizes: Grid
    decoding: Grid
    alignment: tuple[Grid, ...]
    heads: tuple[tuple[str, Grid], ...]


def tables(record: Record) -> Tables:
    """Make them all."""
    return Tables(
        reached=reached_grid(record),
        further=further_metrics(record),
        pairs=pair_tables(record),
        gates=gates_grid(record),
        matching=matching_grid(record),
        differing=differing_settings(record),
        tuned=tuning_summary(record),
        trials=tuning_grids(record),
        times=cost_grid(record),
        sizes=size_grid(record),
        decoding=decoding_grid(record),
        alignment=alignment_grid(record),
        heads=all_heads(record),
    )
