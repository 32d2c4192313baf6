"""The report's twin in the terminal: the same verdict, the same table and the path of the page, in 80 columns."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from selfattn.report.palette import ANSI, Sign
from selfattn.report.record import Estimate, Record
from selfattn.report.scale import Scale
from selfattn.report.summary import Row, gaps, interval_note, record_scale, rows
from selfattn.report.tokens import width
from selfattn.report.verdict import Outcomes, badges, interval_outcomes, question, verdict
from selfattn.report.words import Lang, message

_STRIP = 14
_PROSE = 90  # columns; longer lines are hard to read
_BADGES = {"ok": ("●", "green"), "note": ("○", "dim"), "warn": ("▲", "yellow")}


def print_summary(
    record: Record,
    console: Console,
    report: str | Path | None = None,
    lang: Lang = "en",
    outcomes: Outcomes | None = None,
) -> None:
    """Print question, verdict, badges, table and the report's path.

    Args:
        record: the comparison.
        console: where to print; 80 columns are enough for names of up to 15 characters.
        report: path of `report.html`; default none, and no path is printed.
        lang: the language.
        outcomes: how every model stands to every other; by default decided by the intervals of the record.
    """
    outcomes = interval_outcomes(record) if outcomes is None else outcomes
    first, *others = verdict(record, outcomes)

    def say(text: str, style: str = "") -> None:
        console.print(Text(_wrapped(text, min(console.width, _PROSE)), style=style))

    console.print()
    say(question(record).say(lang), "bold")
    console.print()
    say(first.say(lang))
    say(" ".join(sentence.say(lang) for sentence in others), "dim")
    console.print()
    line = Text()
    for badge in badges(record):
        glyph, style = _BADGES[badge.kind]
        line.append(f"{glyph} ", style=style).append(f"{badge.text.say(lang)}   ")
    console.print(line)
    console.print(Padding(_table(record, rows(record, outcomes), lang), (1, 0)))
    say(f"{interval_note(record).say(lang)} {message('note.standing').say(lang)}", "dim")
    for gap in gaps(record):
        say(gap.text.say(lang), "dim")
    if report is not None:
        console.print(Text(message("report.at", path=str(report)).say(lang)), soft_wrap=True)


def _wrapped(text: str, columns: int) -> str:
    """Lines of at most so many columns, broken at spaces but, unlike rich does it, not at no-break spaces."""
    lines = [""]
    for word in text.split(" "):
        longer = f"{lines[-1]} {word}" if lines[-1] else word
        if width(longer) <= columns:
            lines[-1] = longer
        else:
            lines.append(word)
    return "\n".join(lines)


def _table(record: Record, lines: tuple[Row, ...], lang: Lang) -> Table:
    scale = record_scale(record)
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="dim")
    table.add_column(message("col.model").say(lang), overflow="fold")
    table.add_column(message("col.exact").say(lang), no_wrap=True)
    table.add_column(_axis(scale), no_wrap=True, width=_STRIP)
    table.add_column(message("terminal.parameters").say(lang), justify="right", no_wrap=True)
    table.add_column(message("terminal.train").say(lang), justify="right", no_wrap=True)
    table.add_column(message("terminal.predict").say(lang), justify="right", no_wrap=True)
    for row in lines:
        name = Text(row.sign.glyph, style=_style(row.sign)).append(f" {row.name}", style="default")
        quality = Text(row.mean, style="bold").append(f" {row.interval}", style="not bold dim")
        quality.append(f"\n{row.standing.say(lang)}", style="not bold italic dim")
        strip = _strip(scale, row.sign, row.estimate)
        table.add_row(name, quality, strip, row.parameters, row.train_seconds, row.predict_ms)
    return table


def _axis(scale: Scale) -> Text:
    return Text("0".ljust(_STRIP - 3) + "100")


def _strip(scale: Scale, sign: Sign, estimate: Estimate | None) -> Text:
    """Dot and interval in characters."""
    cells = Text("·" * _STRIP, style="dim")
    if estimate is None:
        return cells
    places = [_cell(scale, one) for one in (estimate.low, estimate.mean, estimate.high) if one is not None]
    text = list("·" * _STRIP)
    for place in range(min(places), max(places) + 1):
        text[place] = "━"
    text[_cell(scale, estimate.mean)] = sign.glyph
    drawn = Text("".join(text), style="dim")
    drawn.stylize(f"not dim {_style(sign)}", min(places), max(places) + 1)
    return drawn


def _cell(scale: Scale, share: float) -> int:
    return min(_STRIP - 1, int(scale.place(share) * _STRIP))


def _style(sign: Sign) -> str:
    return ANSI[sign.colour]
