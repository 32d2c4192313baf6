"""Runs of words that one model gets right more often than another, where outputs were judged."""

from selfattn.report import blocks as b
from selfattn.report.verdict.ranking import is_single
from selfattn.results.parts import NgramGroup
from selfattn.results.record import Record
from selfattn.words.messages import message


@b.section("ngrams", "head.ngrams", after="buckets")
def ngrams_section(record: Record) -> tuple[b.Block, ...]:
    """Return a table for each pair."""
    blocks: list[b.Block] = []
    for number, group in enumerate(record.ngrams):
        if group.ngrams:
            head = message("ngrams.pair", first=group.first, second=group.second)
            blocks += [
                b.Heading(head, f"ngrams-{number}"),
                _table(group, f"ngrams-{number}", tells_runs=not is_single(record)),
            ]
    return (b.Paragraph(message("ngrams.text")), *blocks) if blocks else ()


def _table(group: NgramGroup, name: str, *, tells_runs: bool) -> b.Table:
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
