"""The report as Markdown: the same words and figures as the page, for places that show no HTML."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from selfattn.report.numbers import NONE, percent_text
from selfattn.report.record import Record
from selfattn.report.settings import config_table, own_settings, shared_settings
from selfattn.report.summary import (
    COSTS,
    cost_cells,
    further_metrics,
    gaps,
    interval_note,
    metric_name,
    metric_text,
    origin,
    rows,
)
from selfattn.report.training import LEVELS, reached
from selfattn.report.verdict import Outcomes, badges, interval_outcomes, question, ranked, verdict
from selfattn.report.words import Lang, Message, message

_SHOWN_DIFFERENCES = 12
# What Markdown could read as markup; an interval such as [99.1, 99.9] stays readable in the source of the document.
_SPECIAL = re.compile(r"[\\`*<>|~&]|^[#>+=-]|(?<![^\W_])_|_(?![^\W_])|\[(?![\d.,–\s]*\](?![\[(:]))")


def render_markdown(record: Record, lang: Lang = "en", outcomes: Outcomes | None = None) -> str:
    """Render a record as Markdown (GitHub's tables); the same record gives the same text.

    Args:
        record: the comparison.
        lang: the language of the text.
        outcomes: how every model stands to every other; by default decided by the intervals of the record.

    Returns:
        The document.
    """
    outcomes = interval_outcomes(record) if outcomes is None else outcomes

    def say(one: Message) -> str:
        return one.say(lang)

    def word(key: str, **values: str | int | Message) -> str:
        return message(key, **values).say(lang)

    first, *others = verdict(record, outcomes)
    blocks = [
        f"# {plain(say(question(record)))}",
        f"**{plain(say(first))}**",
        plain(" ".join(map(say, others))),
        plain(" · ".join(say(badge.text) for badge in badges(record))),
        plain(" · ".join(origin(record))),
        _summary(record, outcomes, lang),
        plain(f"{say(interval_note(record))} {word('note.standing')}"),
        "\n".join(f"- {plain(say(gap.text))}" for gap in gaps(record)),
        f"## {word('reached.head')}",
        _reached(record, lang),
        plain(word("reached.note")),
        plain(word("markdown.full")),
        f"## {word('head.formats')}",
        _formats(record, lang) or plain(word("formats.none")),
        _further(record, lang),
        f"## {word('head.differences')}",
        _differences(record, lang) or plain(word("differences.none")),
        f"## {word('head.cost')}",
        _costs(record, lang),
        plain(word("cost.note")),
        f"## {word('head.settings')}",
        _models(record, lang),
        _table(
            [word("col.setting"), *(model.name for model in ranked(record))],
            [[row["name"], *row["values"]] for row in config_table(record)],
        ),
        f"### {word('settings.shared')}",
        "\n".join(f"- {plain(name)}: {plain(value)}" for name, value in shared_settings(record)),
        f"## {word('head.reproduce')}",
        _code_block(record.command),
        "\n".join(
            f"- {plain(name)}: {plain(NONE if value is None else str(value))}"
            for name, value in record.environment.items()
        ),
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


def _summary(record: Record, outcomes: Outcomes, lang: Lang) -> str:
    heads = ("col.model", "col.exact", "col.standing", "col.parameters", "short.train", "short.rate", "short.predict")
    body = [
        [
            row.name,
            f"{row.mean} {row.interval}",
            row.standing.say(lang),
            row.parameters,
            row.train_seconds,
            row.tokens_per_second,
            row.predict_ms,
        ]
        for row in rows(record, outcomes)
    ]
    return _table([message(key).say(lang) for key in heads], body, right_from=3)


def _reached(record: Record, lang: Lang) -> str:
    body = []
    for model in ranked(record):
        if model.curves:
            cells = [reached(model, level) for level in LEVELS]
            body.append([model.name, *(cell.say(lang) if cell else NONE for cell in cells)])
    return _table([message("col.model").say(lang), *(f"{100 * level:g} %" for level in LEVELS)], body, right_from=1)


def _formats(record: Record, lang: Lang) -> str:
    order = ranked(record)
    body = []
    for name in dict.fromkeys(name for model in order for name in model.by_format):
        scores = [model.by_format.get(name) for model in order]
        items = max(score.items for score in scores if score)
        body.append([name, f"{items:,}", *(percent_text(score.exact_match) if score else NONE for score in scores)])
    heads = [message("col.format").say(lang), message("col.items").say(lang), *(model.name for model in order)]
    return _table(heads, body, right_from=1)


def _further(record: Record, lang: Lang) -> str:
    names = further_metrics(record)
    if not names:
        return ""
    body = [[m.name, *(metric_text(name, m.metrics.get(name)) for name in names)] for m in ranked(record)]
    heads = [message("col.model").say(lang), *(metric_name(name).say(lang) for name in names)]
    note = plain(message("further.note").say(lang))
    return f"### {message('head.further').say(lang)}\n\n{_table(heads, body, right_from=1)}\n\n{note}"


def _differences(record: Record, lang: Lang) -> str:
    order = ranked(record)
    body = []
    for one in record.differences[:_SHOWN_DIFFERENCES]:
        answers = [one.predictions.get(model.name) for model in order]
        marked = [NONE if said is None else f"{'✓' if said == one.target else '✗'} {said}" for said in answers]
        body.append([one.source, one.target, *marked])
    return _table([message("col.source").say(lang), message("col.target").say(lang), *(m.name for m in order)], body)


def _costs(record: Record, lang: Lang) -> str:
    heads = ["col.model", "col.parameters", "col.non_embedding", *(f"cost.{name}" for name in COSTS)]
    body = []
    for model in ranked(record):
        bare = NONE if model.parameters_non_embedding is None else f"{model.parameters_non_embedding:,}"
        body.append([model.name, f"{model.parameters:,}", bare, *cost_cells(model).values()])
    return _table([message(key).say(lang) for key in heads], body, right_from=1)


def _models(record: Record, lang: Lang) -> str:
    own = own_settings(record)
    lines = []
    for model in ranked(record):
        line = f"- **{plain(model.name)}**: {plain(model.summary or NONE)}" + (
            plain(f" ({model.source})") if model.source else ""
        )
        if own[model.name]:
            values = ", ".join(f"{name} {value}" for name, value in own[model.name])
            line += plain(f"; {message('settings.own').say(lang)} {values}")
        lines.append(line)
    return "\n".join(lines)


def _table(heads: Sequence[str], body: Sequence[Iterable[str]], right_from: int | None = None) -> str:
    """A table, cells escaped; columns from `right_from` on are aligned right. Empty without rows."""
    if not body:
        return ""
    rule = ["---:" if right_from is not None and k >= right_from else "---" for k in range(len(heads))]
    lines = [map(plain, heads), rule, *(map(plain, row) for row in body)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _code_block(text: str) -> str:
    fence = "`" * max(3, *(len(run) + 1 for run in re.findall("`+", text)), 3)
    return f"{fence}\n{text}\n{fence}"
