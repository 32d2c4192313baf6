"""The report's twin in the terminal: the same verdict, the same table and the path of the page, in 80 columns."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from selfattn.figures.quality import Estimate
from selfattn.figures.record import Record
from selfattn.report.drawing.palette import ANSI, Sign
from selfattn.report.drawing.scale import Scale
from selfattn.report.drawing.tokens import width
from selfattn.report.render.grid import cell_text
from selfattn.report.sections.judged import pair_tables
from selfattn.report.sections.summary import Row, gaps, interval_note, record_scale, rows, standing_note
from selfattn.report.verdict.comparability import badges, obstacles
from selfattn.report.verdict.names import metric_name
from selfattn.report.verdict.verdict import LISTED, question, verdict
from selfattn.report.words.messages import message

_STRIP = 14
_PROSE = 90  # columns; longer lines are hard to read
_PAIRS = 10  # of models, with their tests; more are in the report
_BADGES = {"ok": ("●", "green"), "note": ("○", "dim"), "warn": ("▲", "yellow"), "bad": ("✗", "red")}


def print_summary(
    record: Record,
    console: Console,
    report: str | Path | None = None,
    lang: str = "en",
) -> None:
    """Print question, verdict, badges, table, gates that did not pass, tests of pairs and the report's path.

    Args:
        record: the comparison.
        console: where to print; 80 columns are enough for names of up to 15 characters.
        report: path of `report.html`; default none, and no path is printed.
        lang: the language.
    """
    answer = verdict(record)

    def say(text: str, style: str = "") -> None:
        console.print(Text(_wrapped(text, min(console.width, _PROSE)), style=style))

    console.print()
    say(question(record).say(lang), "bold")
    console.print()
    say(answer.lead.say(lang), "bold red" if answer.stopped else "")
    say(" ".join(sentence.say(lang) for sentence in answer.others), "dim")
    for sentence in answer.aside:
        say(f"✗ {sentence.say(lang)}", "red")
    console.print()
    line = Text()
    for badge in badges(record):
        glyph, style = _BADGES[badge.kind]
        line.append(f"{glyph} ", style=style).append(f"{badge.text.say(lang)}   ")
    console.print(line)
    console.print(Padding(_table(record, rows(record), lang), (1, 0)))
    say(f"{interval_note(record).say(lang)} {standing_note(record).say(lang)}", "dim")
    for pair in _pairs(record, lang):
        say(pair)
    for obstacle in obstacles(record)[LISTED:]:
        say(f"✗ {obstacle.say(lang)}", "red")
    for gap in gaps(record):
        say(gap.text.say(lang), "dim")
    if report is not None:
        console.print(Text(message("report.at", path=str(report)).say(lang)), soft_wrap=True)


def _pairs(record: Record, lang: str) -> list[str]:
    """The tests of the headline metric, a line each."""
    tests = pair_tables(record)[0].grid.lines if record.pairs else ()
    lines = [message("terminal.pairs").say(lang)] if tests else []
    for line in tests[:_PAIRS]:
        first, second, difference, _, p, word = map(cell_text, line.cells)
        lines.append(
            message("terminal.pair", first=first, second=second, difference=difference, p=p, word=word).say(lang)
        )
    if len(tests) > _PAIRS:
        lines.append(message("terminal.pairs.more", count=len(tests) - _PAIRS).say(lang))
    return lines


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


def _table(record: Record, lines: tuple[Row, ...], lang: str) -> Table:
    scale = record_scale(record)
    metric, unit = metric_name(record), message(f"unit.{record.headline.kind}")
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="dim")
    table.add_column(message("col.model").say(lang), overflow="fold")
    table.add_column(message("col.quality", metric=metric, unit=unit).say(lang), no_wrap=True)
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
    end = scale.ticks[-1][1] if scale.floor is None else "100"
    return Text("0".ljust(_STRIP - len(end)) + end)


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


def _cell(scale: Scale, quality: float) -> int:
    return min(_STRIP - 1, int(scale.place(quality) * _STRIP))


def _style(sign: Sign) -> str:
    return ANSI[sign.colour]
