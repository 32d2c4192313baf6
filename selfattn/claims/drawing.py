"""A claim's plot and its table in a few lines: their words are the claim's, by keys that are fixed here.

A chart says ``caption``, ``axis`` and, where the claim has it, ``height``; each may be one chart's own, as
``caption.NAME``. Its lines, and the rows of a table, are called ``arm.NAME``, or what else stands before the name; a
table's columns ``column.arm`` and ``column.HEAD``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from selfattn.claims.claim import Claim, Found
from selfattn.report.blocks import Cell, Chart, ChartLine, Column, Row, Spot, Table
from selfattn.report.drawing.scale import Scale, number_scale
from selfattn.results.quality import Estimate


def at(figure: str, places: Iterable[float]) -> dict[float, str]:
    """Return the names of a figure along an axis, as :meth:`Found.spots` takes them.

    Example:
        >>> at("exact", (4, 8))
        {4: 'exact@4', 8: 'exact@8'}
    """
    return {place: f"{figure}@{place:g}" for place in places}


def across_arms(found: Found, arms: Mapping[int, str] | Mapping[float, str], figure: str) -> tuple[Spot, ...]:
    """Return spots of a line that goes from arm to arm.

    Args:
        found: the trials.
        arms: the arm at each place along the axis.
        figure: what is drawn of each.
    """
    return tuple(spot for place, arm in arms.items() for spot in found.spots(arm, {place: figure}))


def chart(
    claim: Claim,
    name: str,
    lines: Mapping[str, Sequence[Spot]],
    *,
    of: str = "arm",
    scale: Scale | Literal["share", "number", "powers"] = "share",
    across: Scale | None = None,
) -> Chart:
    """Draw lines with the words of a claim.

    Args:
        claim: whose words they are.
        name: of the chart, unlike that of any other of the claim.
        lines: spots by the name of their line.
        of: what the lines are; the words of each are those of ``OF.NAME``.
        scale: the axis of what is drawn: shares from 0 to 1; or numbers, evenly or by powers of ten, as far as the
            spots and their intervals go; or what is given.
        across: the other axis, where it does not go from 0 to the last spot.

    Raises:
        KeyError: the claim lacks some of the words.
    """
    if isinstance(scale, str):
        ends = [end for spots in lines.values() for spot in spots for end in (spot.y, spot.low, spot.high)]
        drawn = [end for end in ends if end is not None]
        scale = Scale() if scale == "share" else number_scale(drawn, powers=scale == "powers")
    keys = {key: f"{key}.{name}" if claim.says(f"{key}.{name}") else key for key in ("caption", "axis", "height")}
    return Chart(
        name,
        claim.say(keys["caption"]),
        tuple(ChartLine(line, tuple(spots), claim.say(f"{of}.{line}")) for line, spots in lines.items()),
        scale,
        claim.say(keys["axis"]),
        across=across,
        height=claim.say(keys["height"]) if claim.says(keys["height"]) else "",
    )


def table(
    claim: Claim, name: str, heads: Iterable[str], rows: Mapping[str, Iterable[Cell]], *, of: str = "arm"
) -> Table:
    """Make a table with the words of a claim.

    Args:
        claim: whose words they are.
        name: of the table, unlike that of any other of the claim.
        heads: of the columns after the first, all of numbers; of ``recall@8`` the words are those of
            ``column.recall``, with 8 in the place of ``{at}``.
        rows: what stands in them, by the name of what each is of.
        of: what the rows are; the words of each are those of ``OF.NAME``, those above them ``column.OF``.

    Raises:
        KeyError: the claim lacks some of the words.
    """
    parts = [head.partition("@") for head in heads]
    columns = (Column(claim.say(f"column.{key}", at=place)) for key, _, place in parts)
    body = (Row((claim.say(f"{of}.{row}"), *cells)) for row, cells in rows.items())
    return Table(name, (Column(claim.say(f"column.{of}"), numeric=False), *columns), tuple(body))


def percent(share: Estimate) -> str:
    """Return a mean share in percent, without sign and interval.

    Example:
        >>> percent(Estimate(0.9876, 0.97, 0.99))
        '98.8'
    """
    return f"{100 * share.mean:.1f}"
