"""Quality: parts of the test, words and items on which models differ, tests of every pair, further metrics."""

import re
from collections.abc import Sequence
from itertools import chain

from selfattn.report import blocks as b
from selfattn.report.drawing.numbers import NONE, amount, bare_p_text, difference_text, ratio_text, value_text
from selfattn.report.drawing.scale import Scale, quality_scale
from selfattn.report.verdict import ranking
from selfattn.report.verdict.ranking import UNITS, comparable, metric_kind, named, ranked, record_scale
from selfattn.report.verdict.verdict import standing_word
from selfattn.results.quality import BucketGroup, Estimate, NgramGroup, PairTest, is_estimable
from selfattn.results.record import Record
from selfattn.words.messages import SOURCE, Message, TextLike, message
from selfattn.words.names import name_key

# The words of the tests, explained: of several runs each, and where each system has one file of outputs.
_WORDS = (
    *("statistics.mean.interval", "statistics.mean.better", "statistics.mean.failed", "statistics.mean.same"),
    "statistics.mean.identical",
)
_WORDS_ON_ITEMS = (
    *("statistics.mean.interval", "statistics.mean.ahead", "statistics.mean.close"),
    *("statistics.mean.identical", "statistics.mean.file"),
)


@b.section("buckets", "head.buckets")
def buckets_section(record: Record) -> tuple[b.Block, ...]:
    """A table a division; models stand with the best mean first."""
    blocks: list[b.Block] = []
    for k, group in enumerate(group for group in record.buckets if group.buckets):
        metric = named(record, "metric", group.metric)
        unit = message(UNITS[group.kind].unit)
        measured = message("col.quality", metric=metric, unit=unit)
        is_set = any(bucket.pairs for bucket in group.buckets)  # a further test set
        head = message("buckets.set", name=group.name) if is_set else named(record, "bucket", group.name)
        blocks.append(b.Heading(head, f"bucket-{k}", measured))
        note = Message(name_key("bucket.note", group.note), texts={SOURCE: group.note}) if group.note else ""
        blocks += [b.Paragraph(note, note=True), _table(record, group, f"bucket-{k}")]
        for bucket in group.buckets:
            if bucket.pairs:
                blocks.append(pair_table(record, group.metric, bucket.pairs, f"bucket-{k}-pairs"))
    return (b.Paragraph(message("buckets.text")), *blocks) if blocks else ()


def _table(record: Record, group: BucketGroup, name: str) -> b.Table:
    measured = set(chain.from_iterable(bucket.models for bucket in group.buckets))
    names = [model.name for model in ranked(record) if model.name in measured]
    columns = (
        b.Column(message("col.part"), numeric=False),
        b.Column(message("col.items")),
        b.Column(message("col.strip", metric=named(record, "metric", group.metric)), axis=_scale(record, group)),
        *(b.Column(name, model=True) for name in names),
    )
    rows = []
    for bucket in group.buckets:
        entries = tuple((name, bucket.models.get(name)) for name in names)
        means = (b.quality_cell(score, group.kind) for _, score in entries)
        rows.append(b.Row((_part(bucket.name), f"{bucket.items:,}", b.Strip(entries), *means)))
    return b.Table(name, columns, tuple(rows), "formats")


def _part(name: str) -> TextLike:
    """Return the name of a part: a range of numbers, a field, or the data's own name; nothing for an item of none."""
    if not name:
        return ""
    if size := re.fullmatch(r"(\d+) (?:to (\d+)|and more)", name):
        key = "buckets.range" if size[2] else "buckets.more"
        return Message(key, {"low": size[1], "high": size[2] or ""}, {SOURCE: name})
    return Message(name_key("bucket.part", name), texts={SOURCE: name})


def _scale(record: Record, group: BucketGroup) -> Scale:
    """The axis of the headline metric where the parts are of that metric and lie on it, else one of their own."""
    scores = list(chain.from_iterable(bucket.models.values() for bucket in group.buckets))
    own = quality_scale([score.mean if score.high is None else score.high for score in scores], 0, group.kind)
    if group.metric != record.headline.metric:
        return own
    shared = record_scale(record, [score.mean for score in scores])
    return shared if shared.top >= own.top else own


@b.section("ngrams", "head.ngrams", after="buckets")
def ngrams_section(record: Record) -> tuple[b.Block, ...]:
    """Return a table for each pair."""
    blocks: list[b.Block] = []
    tells_runs = not ranking.is_single(record)
    for number, group in enumerate(record.ngrams):
        if group.ngrams:
            head = message("ngrams.pair", first=group.first, second=group.second)
            blocks += [
                b.Heading(head, f"ngrams-{number}"),
                _ngram_table(group, f"ngrams-{number}", tells_runs=tells_runs),
            ]
    every = message("ngrams.every") if tells_runs else None
    return (b.Paragraph(message("ngrams.text"), every), *blocks) if blocks else ()


def _ngram_table(group: NgramGroup, name: str, *, tells_runs: bool) -> b.Table:
    columns = [
        b.Column(message("ngrams.words"), numeric=False),
        b.Column(group.first, model=True),
        b.Column(group.second, model=True),
        b.Column(message("ngrams.reference")),
    ]
    if tells_runs:
        columns.append(b.Column(message("ngrams.separated"), numeric=False))
    rows = []
    for gram in group.ngrams:
        every = [message("ngrams.yes" if gram.separated else "ngrams.no")] if tells_runs else []
        counts = (f"{count:.3g}" for count in (gram.first, gram.second, gram.reference))
        rows.append(b.Row((b.Styled(gram.text, quoted=True), *counts, *every)))
    return b.Table(name, tuple(columns), tuple(rows), shown=20)


@b.section("differences", "head.differences")
def differences_section(record: Record) -> tuple[b.Block, ...]:
    """One row an item; models stand with the best mean first."""
    if not record.differences:
        return ()
    names = [model.name for model in ranked(record)]
    has_sources = any(item.source for item in record.differences)
    sides = ("col.source", "col.target") if has_sources else ("col.target",)
    columns = (
        *(b.Column(message(side), numeric=False) for side in sides),
        *(b.Column(name, numeric=False, model=True) for name in names),
    )
    rows = tuple(
        b.Row(
            (
                *([b.Styled(item.source, _part(item.format), quoted=True)] if has_sources else []),
                b.Styled(item.target, "" if has_sources else _part(item.format), quoted=True),
                *(b.MarkedAnswer(item.predictions.get(name), item.target) for name in names),
            )
        )
        for item in record.differences
    )
    text = message("differences.text", count=len(rows))
    return b.Paragraph(text), b.Table("differences", columns, rows, "differences", shown=12)


@b.section("statistics", "head.statistics", after="differences")
def statistics_section(record: Record) -> tuple[b.Block, ...]:
    """Return the tests of pairs by metric, the headline's first; further metrics; the meaning of the words."""
    blocks: list[b.Block] = [b.Paragraph(method_note(record), link=(message("statistics.link"), "#words"))]
    signatures = {record.headline.metric: record.headline.signature, **record.signatures}
    for metric in dict.fromkeys([record.headline.metric, *(test.metric for test in record.pairs)]):
        table = pair_table(record, metric)
        if table.rows:
            head = message("statistics.metric", metric=named(record, "metric", metric))
            blocks += [b.Heading(head, table.name), table, *_cited(record, metric, signatures.pop(metric, ""))]
    further = further_table(record)
    if further.rows:
        blocks += [b.Heading(message("head.further"), "further"), further]
        if not ranking.is_single(record):
            blocks.append(b.Paragraph(message("further.note"), note=True))
    for metric, signature in signatures.items():
        blocks += _cited(record, metric, signature)
    words = _WORDS_ON_ITEMS if ranking.is_one_file(record) else _WORDS
    return *blocks, b.Heading(message("statistics.link"), "words"), b.Items(tuple(map(message, words)))


def _cited(record: Record, metric: str, signature: str) -> tuple[b.Block, ...]:
    """Say how a metric was computed, where something is left open."""
    text = message("statistics.signature", metric=named(record, "metric", metric))
    return (b.Paragraph(text, note=True, code=signature),) if signature else ()


def pair_table(record: Record, metric: str, pairs: Sequence[PairTest] | None = None, name: str = "") -> b.Table:
    """Return the tests of all pairs on a metric; the model with the better mean stands first.

    Args:
        record: of the comparison.
        metric: its name.
        pairs: the tests; default those of the test set that decides.
        name: of the table; default that of the metric.
    """
    place = {model.name: k for k, model in enumerate(ranked(record))}
    tests = [test for test in (record.pairs if pairs is None else pairs) if test.metric == metric]
    tests = [test if place[test.first] < place[test.second] else test.turned() for test in tests]
    tests.sort(key=lambda test: (place[test.first], place[test.second]))
    kind = metric_kind(record, metric) or "number"
    has_odds = any(test.odds for test in tests)
    heads = [
        "pairs.first",
        "pairs.second",
        UNITS[kind].column,
        *(["pairs.odds"] if has_odds else []),
        "pairs.p",
        "pairs.holm",
        "pairs.word",
    ]
    columns = tuple(b.Column(message(key), numeric=1 < k < len(heads) - 1) for k, key in enumerate(heads))
    rows = tuple(_pair(record, test, has_odds) for test in tests)
    return b.Table(name or f"pairs-{metric}", columns, rows, shown=24)


def _pair(record: Record, test: PairTest, has_odds: bool) -> b.Row:
    kind = metric_kind(record, test.metric) or "number"
    p, p_holm = (bare_p_text(value) for value in (test.p, test.p_holm))
    models = [model for model in record.models if model.name in (test.first, test.second)]
    difference: TextLike = difference_text(test, kind)
    ratio = ratio_text(test.odds) if test.odds else NONE
    if not is_estimable(test, kind):
        ratio = NONE
        difference = message("gap.wide.cell", count=min(len(model.seeds) for model in models))
    word = standing_word(record, test) if comparable(record, *models) else message("standing.stopped")
    if any(other.primary for other in record.pairs):
        word = message("word.primary" if test.primary else "word.exploratory", word=word)
    figures = [difference, *([ratio] if has_odds else []), p, p_holm]
    return b.Row((test.first, test.second, *figures, word), test.first)


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
    over = message("over.items" if record.interval.over == "items" else "over.seeds")
    level = record.interval.level
    if brief:
        return message("note.interval.brief", level=f"{100 * level:g}", over=over)
    is_closed = record.interval.method == "closed form"
    method = message("interval.closed form" if is_closed else "interval.bootstrap")
    if record.interval.repeated:
        method = message("interval.repeated", method=method, count=f"{record.interval.repeated:,}")
    return message("note.interval", level=f"{100 * level:g}", method=method, over=over)


def further_table(record: Record) -> b.Table:
    """Return what was measured beside the headline metric."""
    names = dict.fromkeys(chain.from_iterable(model.metrics for model in record.models))
    names.pop(record.headline.metric, None)
    # Nobody knows of outputs that were made elsewhere whether they were cut off.
    counts_cut_off = record.trained and any(model.cut_off is not None for model in record.models)
    heads: list[TextLike] = [named(record, "metric", name) for name in names]
    rows = []
    for model in ranked(record) if names or counts_cut_off else ():
        cells = [_measured(record, name, model.metrics.get(name)) for name in names]
        if counts_cut_off:
            cells.append(NONE if model.cut_off is None else f"{model.cut_off:,}")
        rows.append((model.name, cells))
    return b.model_table("further", [*heads, message("further.cut_off")] if counts_cut_off else heads, rows)


def _measured(record: Record, name: str, estimate: Estimate | None) -> str:
    """Return the mean over runs with their range."""
    kind = metric_kind(record, name)
    if estimate is None:
        return NONE
    mean, least, most = (
        value_text(value, kind) if kind else amount(value)
        for value in (estimate.mean, min(estimate.runs, default=0), max(estimate.runs, default=0))
    )
    return f"{mean}\u00a0({least}–{most})" if len(estimate.runs) > 1 else mean
