"""The report as Markdown: the same words and figures as the page, for places that show no HTML."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from selfattn.figures.record import Record
from selfattn.report.drawing.numbers import NONE
from selfattn.report.render.grid import Grid, cell_text
from selfattn.report.sections.buckets import part_grid, parts
from selfattn.report.sections.judged import method_note, tuning_space
from selfattn.report.sections.settings import reproduce_facts, shared_settings
from selfattn.report.sections.summary import gaps, interval_note, origin, rows, standing_note
from selfattn.report.sections.tables import Tables, tables
from selfattn.report.sections.training import threshold
from selfattn.report.verdict.comparability import badges, matched_sentence
from selfattn.report.verdict.names import metric_name
from selfattn.report.verdict.ranking import ranked
from selfattn.report.verdict.verdict import question, verdict
from selfattn.report.words.messages import Message, message

_SHOWN_DIFFERENCES = 12
# What Markdown could read as markup; an interval such as [99.1, 99.9] stays readable in the source of the document.
_SPECIAL = re.compile(r"[\\`*<>|~&]|^[#>+=-]|(?<![^\W_])_|_(?![^\W_])|\[(?![\d.,–+−\s]*\](?![\[(:]))")


def render_markdown(record: Record, lang: str = "en") -> str:
    """Render a record as Markdown (GitHub's tables); the same record gives the same text.

    Args:
        record: the comparison.
        lang: the language of the text.

    Returns:
        The document.
    """

    def say(one: Message) -> str:
        return plain(one.say(lang))

    def word(key: str, **values: str | int | Message) -> str:
        return plain(message(key, **values).say(lang))

    found, level, answer = tables(record), threshold(record), verdict(record)
    blocks = [
        f"# {say(question(record))}",
        f"**{say(answer.lead)}**",
        " ".join(map(say, answer.others)),
        " ".join(f"**{say(sentence)}**" for sentence in answer.aside),
        plain(" · ".join(badge.text.say(lang) for badge in badges(record))),
        plain(" · ".join(origin(record))),
        _summary(record, lang),
        f"{say(interval_note(record))} {say(standing_note(record))}",
        "\n".join(f"- {say(gap.text)}" for gap in gaps(record)),
        f"## {word('head.learning')}",
        word("markdown.full"),
        _headed(f"### {word('reached.head')}\n\n{say(level[1]) if level else ''}", found.reached, lang),
        *_buckets(record, lang),
        f"## {word('head.differences')}",
        _differences(record, lang) or word("differences.none"),
        f"## {word('head.statistics')}",
        *_statistics(record, found, lang),
        f"## {word('head.cost')}",
        _grid(found.times, lang),
        word("cost.note"),
        _grid(found.sizes, lang),
        word("cost.size.note") if found.sizes.lines else "",
        _headed(f"### {word('cost.decoding')}\n\n{word('cost.decoding.note')}", found.decoding, lang),
        *(_headed(f"## {word('head.alignment')}\n\n{word('alignment.note')}", one, lang) for one in found.alignment),
        f"## {word('head.gates')}",
        _grid(found.gates, lang) or word("gates.none"),
        f"## {word('head.fairness')}",
        say(matched_sentence(record)),
        _grid(found.matching, lang),
        _headed(f"### {word('settings.differ')}", found.differing, lang),
        f"### {word('tuning.head')}",
        word("tuning.text", space=tuning_space(record)) if found.tuned.lines else word("tuning.none"),
        _grid(found.tuned, lang),
        *(_headed(f"#### {word('tuning.all', model=name)}", grid, lang) for name, grid in found.trials),
        f"### {word('fairness.models')}",
        _models(record),
        f"### {word('settings.shared')}",
        "\n".join(f"- {plain(name)}: {plain(value)}" for name, value in shared_settings(record)),
        f"## {word('head.reproduce')}",
        _code_block(record.command),
        "\n".join(f"- {plain(_said(k, lang))}: {plain(_said(v, lang))}" for k, v in reproduce_facts(record)),
        "\n".join(f"- {plain(run)}" for model in record.models for run in model.run_dirs),
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def plain(text: str) -> str:
    """Text that Markdown shows as it is, in one line.

    Example:
        >>> print(plain("a|b *c* <d>"))
        a\\|b \\*c\\* \\<d\\>
    """
    return _SPECIAL.sub(lambda found: "\\" + found[0], " ".join(text.splitlines()))


def _summary(record: Record, lang: str) -> str:
    metric, unit = metric_name(record), message(f"unit.{record.headline.kind}")
    heads = [
        message("col.model"),
        message("col.quality", metric=metric, unit=unit),
        *map(message, ("col.standing", "col.parameters", "short.flops", "short.train", "short.predict")),
    ]
    body = [
        [
            row.name,
            f"{row.mean} {row.interval}",
            row.standing.say(lang) + (f", {row.p}" if row.p else ""),
            row.parameters,
            row.flops_per_token,
            row.train_seconds,
            row.predict_ms,
        ]
        for row in rows(record)
    ]
    return _table([head.say(lang) for head in heads], body, right_from=3)


def _said(cell: str | Message, lang: str) -> str:
    return cell.say(lang) if isinstance(cell, Message) else cell


def _grid(grid: Grid, lang: str) -> str:
    """A table of the report; empty without rows."""
    body = [[_said(cell_text(cell), lang) for cell in line.cells] for line in grid.lines]
    rule = ["---:" if column.numeric else "---" for column in grid.columns]
    return _table([_said(column.head, lang) for column in grid.columns], body, rule=rule)


def _headed(head: str, grid: Grid, lang: str) -> str:
    """A table under its heading; neither without rows."""
    return f"{head}\n\n{_grid(grid, lang)}" if grid.lines else ""


def _buckets(record: Record, lang: str) -> list[str]:
    groups = [group for group in record.buckets if group.buckets]
    blocks = [f"## {message('head.buckets').say(lang)}"] if groups else []
    for part, group in zip(parts(record), groups, strict=True):
        measured = message("col.quality", metric=part.metric, unit=part.unit).say(lang)
        blocks += [
            f"### {plain(part.title.say(lang))}",
            plain(f"{measured}. {part.note}"),
            _grid(part_grid(record, group), lang),
        ]
    return blocks


def _statistics(record: Record, found: Tables, lang: str) -> list[str]:
    blocks = [plain(method_note(record).say(lang))]
    for one in found.pairs:
        blocks.append(
            _headed(f"### {plain(message('statistics.metric', metric=one.metric).say(lang))}", one.grid, lang)
        )
    if record.headline.signature:
        blocks.append(f"{message('statistics.signature').say(lang)} {plain(record.headline.signature)}")
    note = plain(message("further.note").say(lang))
    further = _headed(f"### {message('head.further').say(lang)}", found.further, lang)
    return [*blocks, f"{further}\n\n{note}" if further else ""]


def _differences(record: Record, lang: str) -> str:
    order = ranked(record)
    body = []
    for one in record.differences[:_SHOWN_DIFFERENCES]:
        answers = [one.predictions.get(model.name) for model in order]
        marked = [NONE if said is None else f"{'✓' if said == one.target else '✗'} {said}" for said in answers]
        body.append([one.source, one.target, *marked])
    return _table([message("col.source").say(lang), message("col.target").say(lang), *(m.name for m in order)], body)


def _models(record: Record) -> str:
    return "\n".join(
        f"- **{plain(model.name)}**: {plain(model.summary or NONE)}"
        + (plain(f" ({model.source})") if model.source else "")
        for model in ranked(record)
    )


def _table(
    heads: Sequence[str],
    body: Sequence[Iterable[str]],
    right_from: int | None = None,
    rule: Sequence[str] | None = None,
) -> str:
    """A table, cells escaped; columns from `right_from` on, or as `rule` says, aligned right. Empty without rows."""
    if not body:
        return ""
    rule = rule or ["---:" if right_from is not None and k >= right_from else "---" for k in range(len(heads))]
    lines = [map(plain, heads), rule, *(map(plain, row) for row in body)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _code_block(text: str) -> str:
    fence = "`" * max(3, *(len(run) + 1 for run in re.findall("`+", text)), 3)
    return f"{fence}\n{text}\n{fence}"
