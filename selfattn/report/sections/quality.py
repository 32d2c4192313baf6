"""Quality: the first screen, parts of the test, words and items on which models differ, tests of every pair.

The first screen has question, answer, badges and a row for each model. In a comparison by target it has what each model
needs, and the share right against examples read.
"""

import math
import re
from collections.abc import Sequence
from itertools import chain
from statistics import fmean

from selfattn.report import blocks as b
from selfattn.report.numbers import (
    NONE,
    Scale,
    amount,
    bare_p_text,
    compact,
    difference_text,
    flatten,
    interval_text,
    mean_text,
    p_text,
    quality_scale,
    ratio_text,
    value_text,
)
from selfattn.report.ranking import (
    comparable,
    headline_name,
    headline_unit,
    in_task_words,
    is_one_file,
    is_single,
    metric_kind,
    named,
    pair_test,
    quality,
    ranked,
    record_scale,
)
from selfattn.report.sections.training import trial_charts
from selfattn.report.verdict import best_of, limits, standing, standing_word, times_text, verdict
from selfattn.results.quality import (
    BucketGroup,
    Estimate,
    ModelArrivals,
    NgramGroup,
    PairOrRatio,
    PairTest,
    Point,
    RatioTest,
    Target,
    is_estimable,
)
from selfattn.results.record import MeanOverRuns, Model, Record
from selfattn.words.messages import SOURCE, Message, TextLike, message, name_key

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
        unit = message(f"unit.{group.kind}")
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
    tells_runs = not is_single(record)
    for number, group in enumerate(record.ngrams):
        if group.ngrams:
            name = f"ngrams-{number}"
            heading = b.Heading(message("ngrams.pair", first=group.first, second=group.second), name)
            blocks += [heading, _ngram_table(group, name, tells_runs=tells_runs)]
    every = message("ngrams.every") if tells_runs else None
    return (b.Paragraph(message("ngrams.text"), every), *blocks) if blocks else ()


def _ngram_table(group: NgramGroup, name: str, *, tells_runs: bool) -> b.Table:
    columns = [b.Column(message("ngrams.words"), numeric=False)]
    columns += [b.Column(name, model=True) for name in (group.first, group.second)]
    columns.append(b.Column(message("ngrams.reference")))
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
    columns = [b.Column(message(side), numeric=False) for side in sides]
    columns += [b.Column(name, numeric=False, model=True) for name in names]
    rows = []
    for item in record.differences:
        part = _part(item.format)
        texts = [b.Styled(item.target, part, quoted=True)]
        if has_sources:
            texts = [b.Styled(item.source, part, quoted=True), b.Styled(item.target, quoted=True)]
        answers = [b.MarkedAnswer(item.predictions.get(name), item.target) for name in names]
        rows.append(b.Row((*texts, *answers)))
    text = message("differences.text", count=len(rows))
    return b.Paragraph(text), b.Table("differences", tuple(columns), tuple(rows), "differences", shown=12)


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
        if not is_single(record):
            blocks.append(b.Paragraph(message("further.note"), note=True))
    for metric, signature in signatures.items():
        blocks += _cited(record, metric, signature)
    words = _WORDS_ON_ITEMS if is_one_file(record) else _WORDS
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
    of_metric = [test for test in (record.pairs if pairs is None else pairs) if test.metric == metric]
    tests = _in_order(record, of_metric, best_first=True)
    kind = metric_kind(record, metric) or "number"
    has_odds = any(test.odds for test in tests)
    measured = [f"pairs.difference.{kind}", *(["pairs.odds"] if has_odds else [])]
    rows = tuple(_pair(record, test, has_odds) for test in tests)
    return b.Table(name or f"pairs-{metric}", _pair_columns(measured), rows, shown=24)


def _in_order(record: Record, tests: Sequence[PairOrRatio], *, best_first: bool) -> list[PairOrRatio]:
    """Return the tests of pairs from the side of the better model or of the other, those of the best models first."""
    place = {model.name: k for k, model in enumerate(ranked(record))}
    turned = [test if (place[test.first] < place[test.second]) == best_first else test.swapped() for test in tests]
    return sorted(turned, key=lambda test: sorted([place[test.first], place[test.second]]))


def _pair_columns(measured: Sequence[str]) -> tuple[b.Column, ...]:
    """Return the heads of a table of pairs: the models, what was measured, two p, and the word of the test."""
    heads = ("pairs.first", "pairs.second", *measured, "pairs.p", "pairs.holm", "pairs.word")
    return tuple(b.Column(message(key), numeric=1 < k < len(heads) - 1) for k, key in enumerate(heads))


def _with_role(word: Message, test: PairTest | RatioTest, tests: Sequence[PairTest | RatioTest]) -> Message:
    """Say of the word of a test whether it was named before training, where one of the tests was."""
    if not any(other.primary for other in tests):
        return word
    return message("word.primary" if test.primary else "word.exploratory", word=word)


def _pair(record: Record, test: PairTest, has_odds: bool) -> b.Row:
    kind = metric_kind(record, test.metric) or "number"
    models = [model for model in record.models if model.name in (test.first, test.second)]
    difference: TextLike = difference_text(test, kind)
    ratio = ratio_text(test.odds) if test.odds else NONE
    if not is_estimable(test, kind):
        ratio = NONE
        difference = message("gap.wide.cell", count=min(len(model.seeds) for model in models))
    word = standing_word(record, test) if comparable(record, *models) else message("standing.stopped")
    figures = [difference, *([ratio] if has_odds else []), bare_p_text(test.p), bare_p_text(test.p_holm)]
    return b.Row((test.first, test.second, *figures, _with_role(word, test, record.pairs)), test.first)


def method_note(record: Record) -> Message:
    """Return how pairs were tested, in one sentence, and what the intervals are."""
    pairs = sum(test.metric == record.pairs[0].metric for test in record.pairs) if record.pairs else 0
    intervals = interval_note(record) or ""
    primary = next((test for test in record.pairs if test.primary), None)
    if primary and pairs > 1:
        names = {"first": primary.first, "second": primary.second}
        return message("statistics.method.primary", **names, count=pairs - 1, intervals=intervals)
    key = "statistics.method.alone" if pairs == 1 else "statistics.method"
    return message(key if pairs else "statistics.none", count=pairs, intervals=intervals)


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
        counts = {"items": record.test_items, "clusters": record.test_items - record.interval.repeated}
        method = message("interval.repeated", method=method, **{name: f"{count:,}" for name, count in counts.items()})
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
    mean, lowest, highest = (
        value_text(value, kind) if kind else amount(value)
        for value in (estimate.mean, min(estimate.runs, default=0), max(estimate.runs, default=0))
    )
    return f"{mean}\u00a0({lowest}–{highest})" if len(estimate.runs) > 1 else mean


_POINTS = 24  # of a line
_COSTS: tuple[str, ...] = ("short.parameters", "unit.flops", "cost.train_seconds", "short.predict")


def _target_columns(record: Record, target: Target) -> tuple[b.Column, ...]:
    return (
        b.Column(in_task_words(record, "target.col.examples", percent=amount(100 * target.share))),
        b.Column(message("target.col.strip"), axis=_examples_scale(target)),
        b.Column(message("target.col.times")),
        b.Column(message("target.col.arrived"), numeric=False),
        b.Column(message("target.col.test")),
    )


def _target_cells(record: Record, target: Target, model: Model) -> tuple[b.Cell, ...]:
    """Return what a model needs, how many times as much as the best, and its test score."""
    best = ranked(record)[0]
    arrivals = target.models[model.name]
    score = quality(record, model)
    kind = record.headline.kind
    return (
        b.Styled(_examples_text(arrivals.median, target), _examples_range(arrivals, target), strong=True),
        b.Strip(((model.name, _drawn(arrivals, target)),)),
        "1" if model is best else times_text(target.pair(model.name, best.name)),
        message("target.arrived", count=arrivals.arrived, total=len(arrivals.examples)),
        b.Styled(mean_text(score, kind), interval_text(score, kind)),
    )


def _costs(model: Model) -> tuple[str, ...]:
    """Return parameters, operations for each token in training, seconds of a training, milliseconds of an answer."""
    flops = compact(model.cost.training_flops_per_token)
    return compact(model.parameters), flops, _mean(model.timing.train_seconds), _mean(model.timing.predict_ms)


def _examples_range(arrivals: ModelArrivals, target: Target) -> str:
    """Return the range of the runs."""
    if arrivals.low is None:
        return ""
    return f"({arrivals.low:,}–{_examples_text(arrivals.high, target)})"


def _drawn(arrivals: ModelArrivals, target: Target) -> Estimate:
    """Return median and range as something to draw; what is above the cap stands at the end of the axis."""
    counts = (arrivals.median, arrivals.low, arrivals.high)
    median, low, high = (float(target.cap if count is None else count) for count in counts)
    return Estimate(median, low, high)


def _examples_scale(target: Target) -> Scale:
    """Return a logarithmic axis of examples, from half of the fewest to the cap."""
    counts = [count for arrivals in target.models.values() for count in arrivals.examples if count is not None]
    low = max(1.0, min(counts, default=target.cap / 2) / 2)
    marks: list[tuple[float, str]] = []
    for power in range(math.floor(math.log10(low)), math.ceil(math.log10(target.cap)) + 1):
        marks += [(digit * 10.0**power, compact(digit * 10**power)) for digit in (1, 2, 5)]
    inside = tuple((value, text) for value, text in marks if low <= value <= target.cap)
    return Scale(None, float(target.cap), "number", low, powers=True, marks=inside)


def target_chart(record: Record, target: Target) -> b.Chart:
    """Draw the share right on validation items against examples read, the target as a line, arrivals ringed."""
    percent = amount(100 * target.share)
    marks = ((0.0, "0"), (0.25, "25"), (0.5, "50"), (0.75, "75"), (target.share, percent))
    scale = Scale(
        top=1.0, marks=tuple(mark for mark in marks if mark[0] == target.share or mark[0] < target.share - 0.1)
    )
    return b.Chart(
        "target",
        in_task_words(record, "target.chart", percent=percent),
        tuple(b.ChartLine(model.name, _line(model, target)) for model in record.models),
        scale,
        in_task_words(record, "target.unit"),
        show=compact,
        across=_examples_scale(target),
    )


def _line(model: Model, target: Target) -> tuple[b.Spot, ...]:
    """Return the mean over the runs with their range, up to the median arrival, which is ringed."""
    arrivals = target.models[model.name]
    curves = [[point for point in curve.points if point.examples and point.valid is not None] for curve in model.curves]
    places = sorted({point.examples for point in chain.from_iterable(curves) if point.examples})
    scale = _examples_scale(target)
    end = arrivals.median or target.cap
    places = [place for place in places if scale.low <= place < end]
    thinned: dict[int, int] = {}
    for place in places:
        thinned.setdefault(round(_POINTS * scale.place(place)), place)
    spots = []
    for place in thinned.values():
        values = [value for curve in curves if (value := _valid_at(curve, place)) is not None]
        if values:
            spots.append(b.Spot(float(place), fmean(values), min(values), max(values)))
    if arrivals.median is not None:
        spots.append(b.Spot(float(arrivals.median), target.share, chosen=True))
    return tuple(spots)


def _valid_at(curve: list[Point], place: int) -> float | None:
    """Return the last score of a run up to a place; a run that arrived before keeps its last one."""
    earlier = [point.valid for point in curve if point.examples and point.examples <= place]
    return earlier[-1] if earlier else None


@b.section("target", "head.target", after="rates")
def target_section(record: Record) -> tuple[b.Block, ...]:
    """Return how the target was measured, the tests of all pairs, and what every run read."""
    target = record.target
    if target is None:
        return ()
    rule = message(
        "target.rule",
        percent=amount(100 * target.share),
        look=target.look_items,
        confirm=f"{target.confirm_items:,}",
        every=in_task_words(record, "pairs", count=f"{target.look_every:,}"),
        cap=in_task_words(record, "pairs", count=f"{target.cap:,}"),
    )
    trials = record.tuning.trials if record.tuning else 1
    return (
        b.Paragraph(rule, message("target.best", count=trials) if trials > 1 else None),
        _runs_table(target, record),
        _pairs_table(target, record),
        b.Paragraph(message("target.statistics"), note=True),
    )


def _runs_table(target: Target, record: Record) -> b.Table:
    count = max(len(arrivals.examples) for arrivals in target.models.values())
    heads = [message("target.col.run", number=number) for number in range(1, count + 1)]
    rows = []
    for model in ranked(record):
        cells = [_examples_text(examples, target) for examples in target.models[model.name].examples]
        rows.append((model.name, cells + [NONE] * (count - len(cells))))
    return b.model_table("arrivals", heads, rows)


def _examples_text(count: int | None, target: Target) -> str:
    return f">\u00a0{target.cap:,}" if count is None else f"{count:,}"


def _pairs_table(target: Target, record: Record) -> b.Table:
    rows = []
    for test in _in_order(record, target.pairs, best_first=False):
        word = _with_role(message(f"standing.{test.word}"), test, target.pairs)
        figures = (times_text(test), bare_p_text(test.p), bare_p_text(test.p_holm), word)
        rows.append(b.Row((test.first, test.second, *figures), test.first))
    return b.Table("ratios", _pair_columns(["target.col.times"]), tuple(rows))


_WIDTHS = ("dim", "hidden_dim")


@b.section("limits", "head.limits", after="rates")
def limits_section(record: Record) -> tuple[b.Block, ...]:
    """Return a sentence each; nothing where there is no answer."""
    return (b.Items(limits(record)),) if limits(record) else ()


def first_screen(record: Record) -> tuple[b.Block, ...]:
    """Return what the first screen shows below the verdict."""
    tables: tuple[b.Block, ...] = (summary(record), *made_of(record))
    if record.target is not None:
        return target_chart(record, record.target), *tables
    nines = message("note.nines") if record_scale(record).floor else None
    return *tables, b.Paragraph(interval_note(record, brief=True), nines, _words_of_tests(record), note=True)


def _words_of_tests(record: Record) -> Message | None:
    """Explain the words beside the models, which say nothing of tests where each was trained once."""
    if is_one_file(record):
        return message("note.standing.items") if len(record.models) > 1 else None
    return None if is_single(record) else message("note.standing")


def brief(record: Record) -> tuple[b.Block, ...]:
    """Return the same with the verdict and its limits, for the terminal."""
    blocks: tuple[b.Block, ...] = (verdict(record), summary(record), *made_of(record))
    open_points = limits(record)
    if record.target is not None:
        return *blocks, b.Items(open_points)
    return (
        *blocks,
        *trial_charts(record)[:1],
        b.Paragraph(interval_note(record, brief=True), _words_of_tests(record), note=True),
        b.Paragraph(message("terminal.limits") if open_points else None),
        b.Items(open_points),
    )


def summary(record: Record) -> b.Table:
    """Return a row for each model, the best one first."""
    target = record.target
    columns = _columns(record) if target is None else _target_columns(record, target)
    costs = _COSTS if target is None else _COSTS[:-1]
    if not record.trained:
        costs = ()
    heads = (b.Column(message("col.model"), numeric=False), *columns, *(b.Column(message(key)) for key in costs))
    rows = []
    for model in ranked(record):
        cells = _cells(record, model) if target is None else _target_cells(record, target, model)
        rows.append(b.Row((model.name, *cells, *_costs(model)[: len(costs)]), model.name))
    return b.Table("summary", heads, tuple(rows), "summary")


def _columns(record: Record) -> tuple[b.Column, ...]:
    metric = headline_name(record)
    return (
        b.Column(message("col.quality", metric=metric, unit=headline_unit(record))),
        b.Column(message("col.strip", metric=metric), axis=record_scale(record)),
        b.Column(message("col.standing"), numeric=False),
    )


def made_of(record: Record) -> tuple[b.Table, ...]:
    """Return layers and width of each model beside the first table, and steps, batch and epochs of its trainings."""
    rows = [(model.name, _made_of(record, model)) for model in ranked(record)]
    if all(cell == NONE for cell in chain.from_iterable(cells for _, cells in rows)):
        return ()
    heads = map(message, ("made.layers", "made.width", "made.steps", "made.batch", "made.epochs"))
    return (b.model_table("made", heads, rows),)


def _made_of(record: Record, model: Model) -> tuple[str, ...]:
    config = flatten(model.config)
    layers = [value for name, value in config.items() if name.endswith("num_layers")]
    widths = [value for name, value in config.items() if name.rpartition(".")[2] in _WIDTHS]
    ends = [curve.points[-1] for curve in model.curves if curve.points]
    chosen = [trial.settings for trial in model.trials if trial.chosen and trial.budget is None]
    sizes = [settings["batch_size"] for settings in chosen if "batch_size" in settings]
    usual = record.settings.get("batch_size")
    return (
        " + ".join(layers) or NONE,
        " + ".join(dict.fromkeys(widths)) or NONE,
        _range([end.step for end in ends]),
        _range([size for size in sizes or [usual] if isinstance(size, int | float)]),
        _range([end.epoch for end in ends]),
    )


def _range(values: Sequence[float]) -> str:
    ends = dict.fromkeys(f"{value:,g}" for value in (min(values), max(values))) if values else {NONE: None}
    return "–".join(ends)


def _cells(record: Record, model: Model) -> tuple[b.Cell, ...]:
    best = best_of(record)
    p = ""
    is_tested = is_one_file(record) or not is_single(record, model, best)
    if model is not best and is_tested and comparable(record, model, best):
        p = f"p\u00a0{p_text(pair_test(record, model, best).p_holm)}"
    return (
        b.quality_cell(quality(record, model), record.headline.kind),
        b.Strip(((model.name, quality(record, model)),)),
        b.Styled(standing(record, model), p),
    )


def _mean(measure: MeanOverRuns | None) -> str:
    return NONE if measure is None else amount(measure.mean)
