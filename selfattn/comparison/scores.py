"""Judge scores that others computed: from a table to the same record and report; and plan how many it takes."""

import platform
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import combinations
from pathlib import Path
from typing import Self

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from selfattn import __version__
from selfattn.codec import Plain, line_of, read
from selfattn.comparison.options import ScoresOptions
from selfattn.comparison.report import check_out, publish
from selfattn.comparison.score_table import KIND, Cells, GivenMetric, Scores, ScoreTable, score_table
from selfattn.errors import UserError, number_of, say
from selfattn.evaluation.statistics.design import POWER
from selfattn.evaluation.statistics.pilot import MOST_RUNS, Spread, runs_needed
from selfattn.report.ranking import difference_unit
from selfattn.report.write import ReportFiles
from selfattn.results.quality import Unit
from selfattn.results.record import SCHEMA, Model, Recomputation, Record
from selfattn.settings import changed, command_line, divide
from selfattn.words.messages import SOURCE, message

JUDGED = "scores.json"
_VALUES = "scores.parquet"
_ADVICE = "take the report from where it was published, or compare the scores again"
_TIMES = (0.25, 0.5, 1, 2, 4)  # of the pilot's items


def compare_scores(
    scores: Scores,
    *,
    out: str | Path = ScoresOptions.out,
    better: str | Sequence[str] = (),
    unit: Unit | None = None,
    leave_out: bool = False,
    margin: float | None = None,
    lang: str = SOURCE,
) -> tuple[Record, ReportFiles]:
    """Compare systems by their scores on each item, whoever computed them, and write the report.

    Args:
        scores: a file, a mapping of columns, or a data frame; see `selfattn.score_table`, also for the options that are
            not named here.
        out: directory for the report; an older one of the same comparison is replaced.
        margin: smallest difference that matters, in points of a share, else in the unit of the scores; default none.
        lang: language of the report.

    Returns:
        The record, and the paths of the report's files.

    Raises:
        UserError: see `selfattn.score_table`; or the report cannot be written.

    Example:
        >>> import tempfile
        >>> columns = {"system": ["A", "A", "B", "B"], "item": [1, 2, 1, 2], "score": [0.5, 0.75, 0.25, 0.5]}
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     record, files = compare_scores(columns, out=folder)
        >>> [model.metrics["score"].mean for model in record.models], record.interval.over
        ([0.625, 0.375], 'items')
    """
    given = {"out": out, "better": better, "unit": unit, "leave_out": leave_out, "margin": margin, "lang": lang}
    options = ScoresOptions(**divide(given, ScoresOptions)[0])
    table = score_table(scores, better=options.better, unit=options.unit, leave_out=options.leave_out)
    command = command_line(f"compare scores {shlex.quote(table.label)}", changed(options))
    check_out(options.out, command)
    cells = table.cells
    runs = sum(map(len, cells.systems.values()))
    counts = {"systems": len(cells.systems), "files": runs, "items": len(cells.items)}
    say(message("progress.outputs", **{name: f"{count:,}" for name, count in counts.items()}).say(options.lang))
    judged = JudgedScores(
        command,
        datetime.now().astimezone().isoformat(timespec="seconds"),
        {"selfattn": __version__, "python": platform.python_version()},
        table.label,
        table.metrics,
        cells.systems,
        cells.left_out,
        options.margin,
    )
    return publish(WithCells(judged, cells), options.out, options.lang)


@dataclass(frozen=True)
class JudgedScores(Plain):
    """Everything but the scores themselves that the record follows from.

    Attributes:
        command: that judges them.
        created: ISO 8601 date and time with offset.
        environment: versions of the programs.
        label: of the file of scores.
        metrics: the first decides.
        systems: the names of the runs of each system.
        left_out: how many items were left out, because not every run has a score on them.
        margin: smallest difference that matters.
    """

    command: str
    created: str
    environment: Mapping[str, str]
    label: str
    metrics: tuple[GivenMetric, ...]
    systems: Mapping[str, tuple[str, ...]]
    left_out: int = 0
    margin: float | None = None


@dataclass(frozen=True, eq=False)
class WithCells:
    """Scores and what they are judged by: the record is a function of it."""

    judged: JudgedScores
    cells: Cells

    def record(self) -> Record:
        """Judge the scores."""
        judged = self.judged
        frame = Record(
            SCHEMA,
            KIND,
            judged.created,
            judged.command,
            judged.environment,
            {},
            1,
            (Model("-", False, 0, (1,), {}),),
            margin=judged.margin,
        )
        return ScoreTable(judged.label, self.cells, judged.metrics).judge(frame)

    def packed(self) -> dict[str, bytes]:
        """Return the scores as one file, and all else as another."""
        cells = self.cells
        columns = {"item": cells.items, "cluster": cells.clusters, "group": cells.groups}
        columns = {name: column for name, column in columns.items() if column is not None}
        columns |= {str(number): run for number, run in enumerate(cells.values.reshape(-1, len(cells.items)))}
        content = pa.BufferOutputStream()
        parquet.write_table(pa.table(columns), content, compression="zstd")
        return {JUDGED: line_of(self.judged).encode(), _VALUES: content.getvalue().to_pybytes()}

    @classmethod
    def unpacked(cls, folder: Path) -> Self:
        """Read what was packed, and is unpacked in a directory.

        Raises:
            UserError: what is there is damaged.
        """
        judged = read(JudgedScores, folder / JUDGED, advice=_ADVICE)
        names = tuple(metric.name for metric in judged.metrics)
        runs = sum(map(len, judged.systems.values()))
        try:
            table = parquet.read_table(folder / _VALUES).combine_chunks()
            columns = {name: table[name].combine_chunks() for name in table.column_names}
            values = np.stack([columns[str(number)].to_numpy() for number in range(len(names) * runs)])
        except (pa.ArrowException, OSError, KeyError) as error:
            raise UserError(f"{_VALUES}: is damaged ({error}); {_ADVICE}") from None
        values = values.reshape(len(names), runs, -1)
        clusters, groups = columns.get("cluster"), columns.get("group")
        return cls(judged, Cells(names, judged.systems, columns["item"], values, clusters, groups, judged.left_out))

    def outputs(self) -> None:
        """Return nothing: the texts are not known."""

    def files_again(self) -> Iterator[Recomputation]:
        """Read the file of scores again where it still is where the command had it, and compare."""
        label = self.judged.label
        if not Path(label).is_file():
            return
        was = self.cells
        try:
            better = tuple(f"{metric.name}={metric.better}" for metric in self.judged.metrics)
            now = score_table(label, better=better, unit="number", leave_out=was.left_out > 0).cells
            same = (now.metrics, now.systems, now.left_out) == (was.metrics, was.systems, was.left_out)
            same = same and all(
                _equal(getattr(was, name), getattr(now, name)) for name in ("items", "clusters", "groups")
            )
            problems = () if same and np.array_equal(was.values, now.values) else ("scores not as packed",)
        except UserError as error:
            problems = (str(error),)
        yield Recomputation(f"scores of {label}", problems, was.values.size)


def _equal(first: pa.Array | None, second: pa.Array | None) -> bool:
    return second is None if first is None else second is not None and first.equals(second)


def plan_scores(pilot: Scores, detect: float, **options: object) -> Iterator[str]:
    """Say how many runs and items it takes to see a difference, by the variances of a pilot.

    Args:
        pilot: scores of two systems or more with two runs each or more; see `selfattn.score_table`.
        detect: the difference, in points of a share, else in the unit of the scores.
        options: those of `compare_scores` but `out` and `margin`.

    Yields:
        Lines of a table.

    Raises:
        UserError: see `selfattn.score_table`; or the pilot has too few systems or runs.
    """
    given = ScoresOptions(**divide(options, ScoresOptions)[0])
    table = score_table(pilot, better=given.better, unit=given.unit, leave_out=given.leave_out)
    scores = next(table.scores())
    runs = [len(values) for values in scores.counts.values()]
    if len(runs) < 2 or min(runs) < 2:
        counts = f"{number_of(len(runs), 'system')}, the fewest runs {min(runs)}"
        raise UserError(f"{table.label}: {counts}; a pilot needs two systems with two runs each, better five")
    pairs = list(combinations((values[:, :, 0] for values in scores.counts.values()), 2))
    spread = Spread.of(pairs, scores.clusters)
    unit = difference_unit(table.record)
    size = detect / (100 if table.metrics[0].unit == "share" else 1)
    yield message(
        "power.head",
        difference=f"{detect:g}",
        unit=unit,
        power=f"{100 * POWER:g}",
        systems=len(runs),
        runs=min(runs),
        items=f"{spread.items:,}",
    ).say(given.lang)
    yield message("power.columns").say(given.lang)
    more = message("power.more", most=MOST_RUNS)
    for times in _TIMES:
        number = max(2, round(times * spread.items))
        needed = (runs_needed(each, size, number) for each in (spread, spread.cautious()))
        yield " | ".join([f"{number:,}", *(more.say(given.lang) if count is None else str(count) for count in needed)])
    yield message("power.note").say(given.lang)
