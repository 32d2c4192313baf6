"""Statistics: the test of every pair of models on every metric, further metrics, and what the words mean."""

from __future__ import annotations

from selfattn.registry import register
from selfattn.report.blocks import Block, Column, Heading, Items, Paragraph, Row, Table, model_table
from selfattn.report.drawing.numbers import NONE, amount, difference_text, estimate_text, p_text, ratio_text, value_text
from selfattn.report.verdict.ranking import OUTCOMES, comparable, is_single, metric_kind, named, ranked
from selfattn.results.quality import Estimate, PairTest, is_estimable
from selfattn.results.record import Record
from selfattn.words.messages import Message, TextLike, message


@register.section("statistics")
class Statistics:
    """What the verdict rests on."""

    title = message("head.statistics")
    after = "differences"

    def blocks(self, record: Record) -> tuple[Block, ...]:
        """Return the tests of pairs by metric, the headline's first; further metrics; the meaning of the words."""
        blocks: list[Block] = [Paragraph(method_note(record), link=(message("statistics.link"), "#words"))]
        for metric in dict.fromkeys([record.headline.metric, *(test.metric for test in record.pairs)]):
            table = pair_table(record, metric)
            if table.rows:
                head = message("statistics.metric", metric=named(record, "metric", metric))
                blocks += [Heading(head, table.name), table]
        if record.headline.signature:
            blocks.append(Paragraph(message("statistics.signature"), note=True, code=record.headline.signature))
        further = further_table(record)
        if further.rows:
            note = Paragraph(message("further.note"), note=True)
            blocks += [Heading(message("head.further"), "further"), further, note]
        words = tuple(message(f"statistics.mean.{key}") for key in ("interval", "few", "better", "same"))
        return *blocks, Heading(message("statistics.link"), "words"), Items(words)


def pair_table(record: Record, metric: str) -> Table:
    """Return the tests of all pairs on a metric; the model with the better mean stands first."""
    place = {model.name: k for k, model in enumerate(ranked(record))}
    tests = [test for test in record.pairs if test.metric == metric]
    tests = [test if place[test.first] < place[test.second] else test.turned() for test in tests]
    tests.sort(key=lambda test: (place[test.first], place[test.second]))
    kind = metric_kind(record, metric) or "points"
    odds = ["pairs.odds"] if any(test.odds for test in tests) else []
    heads = ["pairs.first", "pairs.second", f"pairs.difference.{kind}", *odds, "pairs.p", "pairs.holm", "pairs.word"]
    columns = tuple(Column(message(key), numeric=1 < k < len(heads) - 1) for k, key in enumerate(heads))
    return Table(f"pairs-{metric}", columns, tuple(_pair(record, test, bool(odds)) for test in tests), shown=24)


def _pair(record: Record, test: PairTest, has_odds: bool) -> Row:
    kind = metric_kind(record, test.metric) or "points"
    p, p_holm = (p_text(value).removeprefix("=\u00a0") for value in (test.p, test.p_holm))
    models = [model for model in record.models if model.name in (test.first, test.second)]
    difference: TextLike = difference_text(test, kind)
    ratio = ratio_text(test.odds) if test.odds else NONE
    if not is_estimable(test, kind):
        ratio = NONE
        difference = message("gap.wide.cell", count=min(len(model.seeds) for model in models))
    word = message("standing.one" if is_single(record) else f"standing.{OUTCOMES[test.word]}")
    word = word if comparable(record, *models) else message("standing.stopped")
    if any(other.primary for other in record.pairs):
        word = message("word.primary" if test.primary else "word.exploratory", word=word)
    return Row((test.first, test.second, difference, *([ratio] if has_odds else []), p, p_holm, word), test.first)


def method_note(record: Record) -> Message:
    """Return how pairs were tested, in one sentence, and what the intervals are."""
    pairs = sum(test.metric == record.pairs[0].metric for test in record.pairs) if record.pairs else 0
    intervals = interval_note(record) or ""
    primary = next((test for test in record.pairs if test.primary), None)
    if primary and pairs > 1:
        names = {"first": primary.first, "second": primary.second}
        return message("statistics.method.primary", **names, count=pairs - 1, intervals=intervals)
    key = "statistics.none" if not pairs else "statistics.method.alone" if pairs == 1 else "statistics.method"
    return message(key, count=pairs, intervals=intervals)


def interval_note(record: Record, *, brief: bool = False) -> Message | None:
    """Return what the intervals of the report are, with their method or `brief`; None where they are not recorded."""
    if record.interval is None:
        return None
    over, level = message("over.items" if record.interval.over == "items" else "over.seeds"), record.interval.level
    if brief:
        return message("note.interval.brief", level=f"{100 * level:g}", over=over)
    method = message(f"interval.{record.interval.method}")
    if record.interval.repeated:
        method = message("interval.repeated", method=method, count=f"{record.interval.repeated:,}")
    return message("note.interval", level=f"{100 * level:g}", method=method, over=over)


def further_table(record: Record) -> Table:
    """Return what was measured beside the headline metric."""
    names = dict.fromkeys(name for model in record.models for name in model.metrics)
    names.pop(record.headline.metric, None)
    models = ranked(record) if names else ()
    rows = ((model.name, [_measured(record, name, model.metrics.get(name)) for name in names]) for model in models)
    return model_table("further", (named(record, "metric", name) for name in names), rows)


def _measured(record: Record, name: str, estimate: Estimate | None) -> str:
    """Return a value with its interval, or the range of the runs where there is none."""
    kind = metric_kind(record, name)
    if estimate is None:
        return NONE
    if kind and estimate.low is not None:
        return estimate_text(estimate, kind)
    mean, least, most = (
        value_text(value, kind) if kind else amount(value)
        for value in (estimate.mean, min(estimate.runs, default=0), max(estimate.runs, default=0))
    )
    return f"{mean}\u00a0({least}–{most})" if len(estimate.runs) > 1 else mean
