"""The first screen of a comparison by target: a row for each model, and the share right against examples read."""

import math
from itertools import chain
from statistics import fmean

from selfattn.report import blocks as b
from selfattn.report.drawing.numbers import NONE, amount, bare_p_text, compact, interval_text, mean_text
from selfattn.report.drawing.scale import Scale
from selfattn.report.verdict.ranking import in_task_words, quality, ranked
from selfattn.report.verdict.target import ratio_text, rounded
from selfattn.results.quality import Estimate, ModelArrivals, Point, Target, Word
from selfattn.results.record import Model, Record
from selfattn.words.messages import message

_POINTS = 24  # of a line
_STANDINGS: dict[Word, str] = {
    "better": "standing.better",
    "worse": "standing.worse",
    "not told apart": "standing.not told apart",
}


def target_summary(record: Record, target: Target) -> b.Table:
    """Return a row for each model: what it needs, how many times as much as the best, and what that costs."""
    percent = amount(100 * target.share)
    scale = _examples_scale(target)
    columns = (
        b.Column(message("col.model"), numeric=False),
        b.Column(in_task_words(record, "target.col.examples", percent=percent)),
        b.Column(message("target.col.strip"), axis=scale),
        b.Column(message("target.col.times")),
        b.Column(message("target.col.arrived"), numeric=False),
        b.Column(message("target.col.test")),
        b.Column(message("short.parameters")),
        b.Column(message("unit.flops")),
        b.Column(message("cost.train_seconds")),
    )
    best, *_ = ranked(record)
    rows = tuple(b.Row(_cells(record, target, model, best), model.name) for model in ranked(record))
    return b.Table("summary", columns, rows, "summary")


def _cells(record: Record, target: Target, model: Model, best: Model) -> tuple[b.Cell, ...]:
    arrivals = target.models[model.name]
    score = quality(record, model)
    kind = record.headline.kind
    times = "1" if model is best else ratio_text(target.pair(model.name, best.name))
    seconds = model.timing.train_seconds
    return (
        model.name,
        b.Styled(_examples(arrivals.median, target), _range(arrivals, target), strong=True),
        b.Strip(((model.name, _drawn(arrivals, target)),)),
        times,
        message("target.arrived", count=arrivals.arrived, total=len(arrivals.examples)),
        b.Styled(mean_text(score, kind), interval_text(score, kind)),
        compact(model.parameters),
        compact(model.cost.training_flops_per_token),
        NONE if seconds is None else amount(seconds.mean),
    )


def _examples(count: int | None, target: Target) -> str:
    return f">\u00a0{target.cap:,}" if count is None else f"{rounded(count):,}"


def _range(arrivals: ModelArrivals, target: Target) -> str:
    """Return the range of the runs."""
    if arrivals.low is None:
        return ""
    return f"({rounded(arrivals.low):,}–{_examples(arrivals.high, target)})"


def _drawn(arrivals: ModelArrivals, target: Target) -> Estimate:
    """Return median and range as something to draw; what is above the cap stands at the end of the axis."""
    median, low, high = (
        float(target.cap if count is None else count) for count in (arrivals.median, arrivals.low, arrivals.high)
    )
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
        message("target.chart", percent=percent),
        tuple(b.ChartLine(model.name, _line(model, target)) for model in record.models),
        scale,
        in_task_words(record, "target.unit"),
        show=compact,
        across=_examples_scale(target),
    )


def _line(model: Model, target: Target) -> tuple[b.Spot, ...]:
    """Return the mean over the runs that are still on their way, with their range; the median arrival is ringed."""
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
    seen = [point.valid for point in curve if point.examples and point.examples <= place]
    return seen[-1] if seen else None


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
        cells = [_examples_exact(each, target) for each in target.models[model.name].examples]
        rows.append((model.name, cells + [NONE] * (count - len(cells))))
    return b.model_table("arrivals", heads, rows)


def _examples_exact(count: int | None, target: Target) -> str:
    return f">\u00a0{target.cap:,}" if count is None else f"{count:,}"


def _pairs_table(target: Target, record: Record) -> b.Table:
    place = {model.name: k for k, model in enumerate(ranked(record))}
    tests = [test if place[test.first] > place[test.second] else test.swapped() for test in target.pairs]
    tests.sort(key=lambda test: (place[test.second], place[test.first]))
    heads = ("pairs.first", "pairs.second", "target.col.times", "pairs.p", "pairs.holm", "pairs.word")
    columns = tuple(b.Column(message(key), numeric=1 < k < len(heads) - 1) for k, key in enumerate(heads))
    rows = []
    for test in tests:
        word = message(_STANDINGS[test.word])
        if any(other.primary for other in target.pairs):
            word = message("word.primary" if test.primary else "word.exploratory", word=word)
        figures = (ratio_text(test), bare_p_text(test.p), bare_p_text(test.p_holm), word)
        rows.append(b.Row((test.first, test.second, *figures), test.first))
    return b.Table("ratios", columns, tuple(rows))
