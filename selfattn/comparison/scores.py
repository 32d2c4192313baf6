"""Judge scores that others computed: from a table to the same record and report; and plan how many it takes."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, combinations, islice
from pathlib import Path
from textwrap import shorten
from typing import Any, ClassVar, NamedTuple, Self, TypeAlias, get_args
from unicodedata import category, normalize

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import compute, csv, json, parquet

from selfattn.codec import Plain, line_of, read
from selfattn.comparison.analysis import measure_scores
from selfattn.comparison.options import ScoresOptions
from selfattn.comparison.report import Published, check_report_place, external_record, made_now, publish
from selfattn.data.readers.lines import inner_name, likely_encoding
from selfattn.errors import SettingError, UserError, all_visible, number_of, say
from selfattn.evaluation.buckets import ItemScores
from selfattn.evaluation.design import MOST_RUNS, Spread, runs_needed
from selfattn.evaluation.metrics import Array, Metric
from selfattn.evaluation.variances import POWER
from selfattn.files import read_bytes, reading
from selfattn.registry import METRICS
from selfattn.report.ranking import difference_unit
from selfattn.report.sections.quality import summary
from selfattn.report.write import latex_of
from selfattn.results.quality import Better, Estimate, PairTest, Unit, Word
from selfattn.results.record import Recomputation, Record
from selfattn.settings import command_line, divide, non_default
from selfattn.words.messages import SOURCE, message

KIND = "scores"  # the task of a record
_LABELS = ("system", "run", "item", "cluster", "group", "metric")
_NEEDED = ("system", "item", "score")
_TABULAR = {".csv": ",", ".tsv": "\t", ".tab": "\t"}
_JSON = (".jsonl", ".ndjson", ".json")
_ADVICE = "give a CSV, TSV, JSON lines or Parquet file with the columns system, item and score"
_SPARSEST = 20  # cells for each score; a table with more has other items for every run
NOT_A_FILE = "<scores>"
_LARGEST = 1e70  # score; fourth powers of larger ones are infinite, and 0 where all are below its inverse
_FEW = 10_000  # runs, which no table has too many of
_BLOCKS = 64  # of a text file, of 1 MB each, that are read before their names are put together
_ROWS = 1_000_000  # of a Parquet file
Codes: TypeAlias = npt.NDArray[np.int32]
"""For each row the number of its name."""
Scores: TypeAlias = Any
"""A file, a mapping of columns, or a data frame of pandas, Polars or Arrow."""

_TABLE = "given.parquet"
_JUDGED_ADVICE = "take the report from where it was published, or compare the scores again"
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
) -> Published:
    """Compare systems by their scores on each item, whoever computed them, and write the report.

    Args:
        scores: a file, a mapping of columns, or a data frame; see `selfattn.score_table`.
        out: directory for the report; an older one of the same comparison is replaced.
        better: see `selfattn.score_table`.
        unit: see `selfattn.score_table`.
        leave_out: see `selfattn.score_table`.
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
    label = label_of(scores)
    command = command_line(f"compare scores {shlex.quote(label)}", non_default(options))
    check_report_place(options.out, command)
    read_as = {name: getattr(options, name) for name in ("better", "unit", "leave_out", "margin")}
    judged = JudgedScores(**made_now(command), label=label, **read_as, content=as_parquet(scores))
    systems = judged.table.cells.systems
    counts = {"systems": len(systems), "files": sum(map(len, systems.values())), "items": len(judged.table.cells.items)}
    say(message("progress.outputs", **{name: f"{count:,}" for name, count in counts.items()}).say(options.lang))
    return publish(judged.record(), judged.pack(), options.out, options.lang)


@dataclass(frozen=True)
class JudgedScores(Plain):
    """A table of scores, and what it is judged by: the record is a function of it.

    Attributes:
        command: that judges them.
        created: ISO 8601 date and time with offset.
        environment: versions of the programs.
        label: of the file of scores.
        better: see `selfattn.score_table`.
        unit: see `selfattn.score_table`.
        leave_out: see `selfattn.score_table`.
        margin: smallest difference that matters.
        content: the table as a Parquet file, which is packed as one.
    """

    FILE: ClassVar[str] = "given.json"  # in which all but the table is packed

    command: str
    created: str
    environment: Mapping[str, str]
    label: str
    better: tuple[str, ...] = ()
    unit: Unit | None = None
    leave_out: bool = False
    margin: float | None = None
    content: bytes | None = None

    @cached_property
    def table(self) -> ScoreTable:
        """The scores, checked."""
        return self.read(self.content)

    def read(self, scores: Scores) -> ScoreTable:
        """Read scores as these are read, and check them."""
        return _table(scores, self.label, self.better, self.unit, leave_out=self.leave_out)

    def record(self) -> Record:
        """Judge the scores."""
        made = {name: getattr(self, name) for name in ("command", "created", "environment", "margin")}
        return replace(self.table.record, **made)

    def pack(self) -> dict[str, bytes]:
        """Return the files from which the same is made again, by name."""
        return {self.FILE: line_of(replace(self, content=None)).encode(), _TABLE: self.content or b""}

    @classmethod
    def unpack(cls, folder: Path) -> Self:
        """Read what was packed, and is unpacked in a directory.

        Raises:
            UserError: what is there is damaged.
        """
        judged = read(cls, folder / cls.FILE, advice=_JUDGED_ADVICE)
        return replace(judged, content=read_bytes(folder / _TABLE, advice=_JUDGED_ADVICE))

    def outputs(self) -> None:
        """Return nothing: the texts are not known."""

    def files_again(self) -> Iterator[Recomputation]:
        """Read the file of scores again where it still is where the command had it, and compare."""
        if not Path(self.label).is_file():
            return
        cells = self.table.cells
        try:
            problems = () if self.read(self.label).cells.equals(cells) else ("scores not as packed",)
        except UserError as error:
            problems = (str(error),)
        yield Recomputation(f"scores of {self.label}", problems, cells.values.size)


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
    size = detect / (100 if table.metrics[0].unit == "share" else 1)
    items = len(table.cells.items)
    sizes = {"systems": f"{len(runs)}", "runs": f"{min(runs)}", "items": f"{items:,}"}
    unit = difference_unit(table.record)
    yield message("power.head", difference=f"{detect:g}", unit=unit, power=f"{100 * POWER:g}", **sizes).say(given.lang)
    yield message("power.columns").say(given.lang)
    more = message("power.more", most=MOST_RUNS).say(given.lang)
    for times in _TIMES:
        number, clusters = (max(2, round(times * count)) for count in (items, spread.items))
        needed = [runs_needed(assumed, size, clusters) or more for assumed in (spread, spread.cautious())]
        yield " | ".join([f"{number:,}", *map(str, needed)])
    yield message("power.note").say(given.lang)
    if spread.items < items:
        yield message("power.clusters", clusters=f"{spread.items:,}").say(given.lang)


class _Given(Metric):
    """The metric of scores that others computed: the score of many items is the mean of the given ones."""

    is_mean = True

    def __init__(self, name: str, unit: Unit, better: Better, signature: str) -> None:
        super().__init__()
        lowest = float("-inf") if unit == "number" else 0.0
        vars(self).update(name=name, unit=unit, better=better, signature=signature, lowest=lowest)

    def counts(self, outputs: Sequence[str], references: Sequence[str]) -> Array:
        raise UserError(f"{self.name}: scores were given; nothing is known of outputs")

    def score(self, sums: Array) -> Array:
        return sums[..., 0]


class Cells(NamedTuple):
    """The scores of a table, complete.

    Attributes:
        metrics: their names, the one that decides first.
        systems: the names of the runs of each system.
        items: the names of the items.
        values: ``[m r i]``, runs in the order of `systems`.
        clusters: ``[i]`` a label for each item, shared by those that depend on one another; None without.
        groups: ``[i]`` the part of the test that each item belongs to; None without.
        left_out: how many items were left out, because not every run has a score on them.
    """

    metrics: tuple[str, ...]
    systems: Mapping[str, tuple[str, ...]]
    items: pa.Array
    values: Array
    clusters: pa.Array | None = None
    groups: pa.Array | None = None
    left_out: int = 0

    def equals(self, other: Cells) -> bool:
        """Return whether another table has the same scores."""
        parts = zip(self, other, strict=True)
        return all(np.array_equal(np.asarray(mine), np.asarray(theirs)) for mine, theirs in parts)


@dataclass(frozen=True, eq=False)
class ScoreTable:
    """Scores of systems by run and item, judged as a comparison judges those of its models.

    Attributes:
        label: name of the file, for messages.
        cells: the scores.
        metrics: what they are; the first decides.

    Example:
        >>> right = {"A": [1, 1, 1, 0], "B": [1, 0, 0, 0]}
        >>> rows = [(name, item, score) for name, scores in right.items() for item, score in enumerate(scores)]
        >>> columns = dict(zip(("system", "item", "score"), zip(*rows), strict=True))
        >>> table = score_table(columns)
        >>> {name: estimate.mean for name, estimate in table.estimates.items()}, table.words
        ({'A': 0.75, 'B': 0.25}, {('A', 'B'): 'not told apart'})
    """

    label: str
    cells: Cells
    metrics: tuple[Metric, ...]

    def scores(self) -> Iterator[ItemScores]:
        """Yield what the statistics judge, for each metric."""
        cells = self.cells
        clusters = None if cells.clusters is None else cells.clusters.to_pylist()
        groups = [] if cells.groups is None else sorted({*cells.groups.unique().to_pylist()} - {""})
        tags = {name: np.flatnonzero(compute.equal(cells.groups, name)).tolist() for name in groups}
        ends = np.cumsum([len(runs) for runs in cells.systems.values()])[:-1]
        for metric, values in zip(self.metrics, cells.values, strict=True):
            parts = zip(cells.systems, np.split(values[:, :, None], ends), strict=True)
            yield ItemScores(metric, dict(parts), clusters, tags)

    @cached_property
    def record(self) -> Record:
        """The record of a comparison of these scores, without command and time."""
        settings: dict[str, object] = {"scores": self.label}
        if self.cells.left_out:
            settings["left_out"] = self.cells.left_out
        runs = {name: [f"{name}: {run}" for run in runs] for name, runs in self.cells.systems.items()}
        frame = external_record(KIND, runs, settings, command="", created="", environment={})
        return measure_scores(frame, self.scores(), "kind")

    @property
    def estimates(self) -> dict[str, Estimate]:
        """The score of each system in the metric that decides, with its interval."""
        return {model.name: model.metrics[self.metrics[0].name] for model in self.record.models}

    @property
    def pairs(self) -> tuple[PairTest, ...]:
        """The tests of every two systems, in every metric."""
        return self.record.pairs

    @property
    def words(self) -> dict[tuple[str, str], Word]:
        """The verdict on the first of every two systems, in the metric that decides."""
        name = self.metrics[0].name
        return {(test.first, test.second): test.word for test in self.pairs if test.metric == name}

    def to_latex(self, lang: str = SOURCE) -> str:
        """Return the first table of the report as LaTeX."""
        return latex_of(summary(all_visible(self.record)), lang)

    def to_frame(self) -> Any:
        """Return the scores of the systems in the metric that decides as a pandas data frame."""
        import pandas as pd

        rows = [(name, len(score.runs), score.mean, score.low, score.high) for name, score in self.estimates.items()]
        return pd.DataFrame(rows, columns=["system", "runs", "mean", "low", "high"]).set_index("system")


def score_table(
    scores: Scores, *, better: str | Sequence[str] = (), unit: Unit | None = None, leave_out: bool = False
) -> ScoreTable:
    """Read scores, and check them.

    Args:
        scores: a CSV, TSV, JSON lines or Parquet file, a mapping of columns, or a data frame. A row for each score,
            with the columns ``system``, ``item`` and ``score`` (true or false, or a number), and, where wanted, ``run``
            (of a training, such as its seed; without it there is one run), ``metric`` (the first decides), ``cluster``
            (items that depend on one another) and ``group`` (a part of the test).
        better: ``higher`` or ``lower``, or ``METRIC=lower`` for one of several. Default: that of a registered metric;
            ``higher`` for a table without metrics.
        unit: ``share`` (0 to 1, shown in percent), ``points`` (0 to 100) or ``number``. Default: that of a registered
            metric; ``share`` for true and false, else ``number``.
        leave_out: whether items on which not every run has a score are left out; default they are refused.

    Raises:
        UserError: the file cannot be read, a column is missing or unknown, a score is missing, given twice or no
            number, or it is not known whether higher or lower is better.
    """
    texts = (better,) if isinstance(better, str) else tuple(better)
    return _table(scores, label_of(scores), texts, unit, leave_out=leave_out)


def _table(scores: Scores, label: str, better: Sequence[str], unit: Unit | None, *, leave_out: bool) -> ScoreTable:
    if unit is not None and unit not in get_args(Unit):
        raise SettingError(f"`unit` {unit}: expected one of {', '.join(get_args(Unit))}")
    cells = _cells(scores, label, leave_out=leave_out)
    pa.default_memory_pool().release_unused()
    return ScoreTable(label, cells, tuple(_metrics(cells, label, better, unit)))


def label_of(scores: Scores) -> str:
    """Return the name of a file of scores."""
    return str(scores) if isinstance(scores, str | Path) else NOT_A_FILE


def as_parquet(scores: Scores) -> bytes:
    """Return a table of scores as a Parquet file, as it is.

    Raises:
        UserError: it cannot be read.
    """
    content = pa.BufferOutputStream()
    parquet.write_table(_arrow(scores, label_of(scores)), content, compression="zstd")
    pa.default_memory_pool().release_unused()
    return bytes(content.getvalue())


def _arrow(scores: Scores, label: str) -> pa.Table:
    """Read a file, or convert columns."""
    try:
        if isinstance(scores, str | Path):
            with reading(Path(scores), _ADVICE):
                table = _read(Path(scores))
                table.validate(full=True)  # every text is UTF-8
                table.column_names  # noqa: B018  # decodes the headings, which may not be UTF-8
                return table
        if isinstance(scores, bytes):
            return _read_parquet(scores)
        return pa.table(scores)
    except (pa.ArrowException, TypeError, ValueError) as error:
        is_text = isinstance(scores, str | Path) and inner_name(Path(scores)).suffix.lower() != ".parquet"
        if is_text and (encoding := likely_encoding(Path(scores))):
            raise UserError(f"{label}: looks like {encoding}, not UTF-8; save the file as UTF-8") from None
        reason = " ".join("; ".join(map(str, error.args)).split())
        raise UserError(f"{label}: is no table that can be read ({reason}); {_ADVICE}") from None


def _read(path: Path) -> pa.Table:
    ending = inner_name(path).suffix.lower()
    if ending in _TABULAR:
        parse = csv.ParseOptions(delimiter=_TABULAR[ending], newlines_in_values=ending == ".csv")
        try:
            return _read_csv(path, parse, pa.float64())
        except pa.ArrowInvalid:  # true and false, or no scores
            table = _read_csv(path, parse, pa.string())
        with suppress(ValueError, KeyError):
            table = table.set_column(table.column_names.index("score"), "score", table["score"].cast(pa.bool_()))
        return table
    if ending in _JSON:
        return _read_json(path)
    if ending != ".parquet":
        raise UserError(f"{path}: unknown ending; {_ADVICE}")
    return _read_parquet(path)


def _read_parquet(source: Path | bytes) -> pa.Table:
    def open_file() -> Any:
        return pa.BufferReader(source) if isinstance(source, bytes) else source

    with parquet.ParquetFile(open_file(), read_dictionary=_texts(parquet.read_schema(open_file()))) as file:
        # A worker of Arrow that frees the bytes while Python ends aborts the program, so none is used.
        numbers = range(file.num_row_groups)
        step = 1 + _ROWS * len(numbers) // (file.metadata.num_rows + 1)
        parts = (file.read_row_groups(numbers[first : first + step], use_threads=False) for first in numbers[::step])
        return _gather(chain([file.schema_arrow.empty_table()], parts))


def _texts(schema: pa.Schema) -> list[str]:
    """Return the names of the columns of labels that are texts."""
    return [field.name for field in schema if field.name in _LABELS and field.type in (pa.string(), pa.large_string())]


def _read_json(path: Path) -> pa.Table:
    """Read JSON lines in blocks, or as a whole if columns or their types change after the first block."""
    for score in ([], [("score", pa.float64())]):  # whole numbers may come first
        parse = json.ParseOptions(explicit_schema=pa.schema(score))
        with suppress(pa.ArrowInvalid), pa.input_stream(path) as file:
            return _gather(_groups(json.open_json(file, parse_options=parse)))
    with pa.input_stream(path) as file:
        return json.read_json(file)


def _read_csv(path: Path, parse: csv.ParseOptions, score: pa.DataType) -> pa.Table:
    types = dict.fromkeys(_LABELS, pa.dictionary(pa.int32(), pa.string())) | {"score": score}
    blocks = csv.open_csv(path, parse_options=parse, convert_options=csv.ConvertOptions(column_types=types))
    tables = _groups(blocks)
    # Other columns are refused by their names, so the rest of the file is not read.
    return _gather(tables) if set(blocks.schema.names) <= {*types} else next(tables)


def _groups(blocks: Any) -> Iterator[pa.Table]:
    """Yield tables of several blocks of a text file each, first an empty one."""
    with blocks:
        yield blocks.schema.empty_table()
        while group := list(islice(blocks, _BLOCKS)):
            yield pa.Table.from_batches(group)


def _gather(parts: Iterator[pa.Table]) -> pa.Table:
    """Put parts of a table together, with one list of names: those of all blocks would fill the memory."""
    tables: list[pa.Table] = []
    for part in parts:
        table = part.unify_dictionaries().combine_chunks()
        for name in _texts(table.schema):
            table = table.set_column(table.column_names.index(name), name, table[name].dictionary_encode())
        tables = [pa.concat_tables([*tables, table]).unify_dictionaries()]
        pa.default_memory_pool().release_unused()
    return tables[0]


def _cells(source: Scores, label: str, *, leave_out: bool) -> Cells:
    """Put the scores in their cells; every row belongs to one, and every cell needs one."""
    table = _arrow(source, label)
    if missing := [name for name in _NEEDED if name not in table.column_names]:
        found = shorten(", ".join(map(repr, table.column_names)), 100) or "none"
        raise UserError(f"{label}: no column {', '.join(missing)}, found {found}; {_ADVICE}")
    names = table.column_names
    if unknown := [name for name in names if name not in (*_LABELS, "score") or names.count(name) > 1]:
        expected = ", ".join((*_LABELS, "score"))
        raise UserError(f"{label}: columns {', '.join(unknown)}: expected some of {expected}, each once")
    if not table.num_rows:
        raise UserError(f"{label}: no scores; {_ADVICE}")
    # By column, a number for each row and the name of each number; one name where there is no such column.
    codes: dict[str, Codes] = dict.fromkeys(("run", "metric"), np.broadcast_to(np.int32(0), table.num_rows))
    labels: dict[str, pa.Array] = {"run": pa.array(["1"]), "metric": pa.array(["score"])}
    for name in _LABELS:
        if name in names:
            codes[name], labels[name] = _coded(table[name], name, label)
            table = table.drop_columns(name)
            pa.default_memory_pool().release_unused()

    def labels_of(**numbers: int) -> str:
        """Return what numbers of labels stand for; a column that is not there is not named."""
        return ", ".join(f"{name} {labels[name][number]}" for name, number in numbers.items() if name in names)

    def place(row: int) -> str:
        return f"{label}: {labels_of(**{name: codes[name][row] for name in ('system', 'run', 'item')})}"

    scores = _numbers(table["score"], place)
    del table
    pa.default_memory_pool().release_unused()
    systems, runs, metrics = (labels[name].to_pylist() for name in ("system", "run", "metric"))
    _refuse_twins(systems, label)
    if len(systems) * len(runs) > max(_FEW, len(scores)):
        counts = f"{len(systems):,} systems and {len(runs):,} runs"
        raise UserError(f"{label}: {counts}; name the runs of every system alike")
    run_of = codes["system"] * np.int32(len(runs)) + codes["run"]
    trained = np.flatnonzero(np.bincount(run_of))  # by system
    shape = len(metrics), len(trained), len(labels["item"])
    if np.prod(shape, dtype=float) > _SPARSEST * len(scores):
        counts = f"{len(trained):,} runs, {shape[2]:,} items, {len(scores):,} scores"
        raise UserError(f"{label}: {counts}: hardly any item has a score of every run; name the same items in all runs")
    cells = np.ravel_multi_index((codes["metric"], np.searchsorted(trained, run_of), codes["item"]), shape)
    values = np.full(shape, np.nan)
    values.ravel()[cells] = scores
    missing = np.isnan(values)
    if values.size - np.count_nonzero(missing) < len(scores):
        first = np.flatnonzero(np.bincount(cells)[cells] > 1)[0]
        raise UserError(f"{place(int(first))}: two scores; give each system a name, and each of its trainings a run")
    complete = ~missing.any(axis=(0, 1))
    kept = pa.array(complete)
    of_items = {}
    for name in ("cluster", "group"):
        if name in codes:
            of_item = np.zeros(shape[2], dtype=np.int64)
            of_item[codes["item"]] = codes[name]
            if (other := of_item[codes["item"]] != codes[name]).any():
                raise UserError(f"{place(int(np.argmax(other)))}: more than one {name}")
            of_items[f"{name}s"] = labels[name].take(pa.array(of_item)).filter(kept)
    if not (leave_out or complete.all()):
        gaps = []
        for metric, run, item in np.argwhere(missing)[:3].tolist():
            system, number = divmod(int(trained[run]), len(runs))
            gaps.append(labels_of(system=system, run=number, item=item, metric=metric))
        count = number_of(int(missing.sum()), "missing score")
        raise UserError(f"{label}: {count}, such as {'; '.join(gaps)}: add them, or `leave_out` such items for all")
    if np.count_nonzero(complete) < 2:
        raise UserError(f"{label}: fewer than two items have a score of every run; name the same items in all runs")
    by_system: dict[str, tuple[str, ...]] = {}
    for code in trained.tolist():
        name = systems[code // len(runs)]
        by_system[name] = (*by_system.get(name, ()), runs[code % len(runs)])
    return Cells(
        tuple(metrics),
        by_system,
        labels["item"].filter(kept),
        values if complete.all() else values[:, :, complete],
        left_out=int(np.count_nonzero(~complete)),
        **of_items,
    )


def _refuse_twins(systems: Sequence[str], label: str) -> None:
    """Refuse names that differ in blanks, signs without width or Unicode form alone."""
    by_form: dict[str, str] = {}
    for name in systems:
        seen = "".join(sign for sign in normalize("NFC", name) if category(sign) != "Cf")
        twin = by_form.setdefault(" ".join(seen.split()), name)
        if twin != name:
            raise UserError(f"{label}: systems {twin!r} and {name!r} look alike; give each another name")


def _coded(column: pa.ChunkedArray, name: str, label: str) -> tuple[Codes, pa.Array]:
    """Return a number for each row of a column of names, and the name of each number."""
    try:
        whole = column.unify_dictionaries().combine_chunks()
        whole = whole if pa.types.is_dictionary(whole.type) else whole.dictionary_encode()
        names = whole.dictionary.cast(pa.string()).fill_null("")
        if pa.types.is_floating(whole.dictionary.type):
            names = compute.replace_substring_regex(names, "^nan$", "")
    except pa.ArrowException:
        raise UserError(f"{label}: {name}: expected names or numbers, found {column.type}") from None
    is_empty = compute.equal(names, "").take(whole.indices)
    is_missing = is_empty.is_null() if name == "group" else is_empty.fill_null(True)
    if (row := compute.index(is_missing, True).as_py()) >= 0:
        raise UserError(f"{label}: no {name} in row {row + 1:,}; every row needs it")
    return np.asarray(whole.indices.cast(pa.int32())), names


def _numbers(column: pa.ChunkedArray, place: Any) -> Array:
    """Return scores as numbers; none is missing or infinite."""
    is_number = (pa.types.is_boolean, pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    if not any(test(column.type) for test in is_number):
        values = ((row, value.as_py()) for row, value in enumerate(column))
        row, value = next((cell for cell in values if not _is_number(cell[1])), (0, column[0].as_py()))
        raise UserError(f"{place(row)}: expected true, false or a number as its score, found {value!r}")
    scores = np.asarray(column.cast(pa.float64(), safe=False).to_numpy(), dtype=np.float64)
    if not (finite := np.abs(scores) <= _LARGEST).all():
        row = int(np.argmin(finite))
        found = "none" if np.isnan(scores[row]) else scores[row]
        expected = f"expected a finite number as its score, up to {_LARGEST:g}"
        raise UserError(f"{place(row)}: {expected}, found {found}; leave the row out")
    return scores


def _is_number(value: object) -> bool:
    with suppress(ValueError):
        return float(str(value)) is not None
    return False


def _metrics(cells: Cells, label: str, better: Iterable[str], unit: Unit | None) -> Iterator[Metric]:
    """Say what each metric is: as it is registered, as the options say, or as its scores show."""
    said: dict[str, Any] = {}
    for text in better:
        name, _, way = text.rpartition("=")
        if way not in get_args(Better):
            raise SettingError(f"`better` {text}: expected higher or lower, or METRIC=higher or METRIC=lower")
        said[name] = way
    if unknown := set(said) - {"", *cells.metrics}:
        raise SettingError(f"`better` {min(unknown)}: {label} has no such metric, but {', '.join(cells.metrics)}")
    for name, values in zip(cells.metrics, cells.values, strict=True):
        registered = METRICS[name] if name in METRICS else None  # noqa: SIM401  # it has no such `get`
        usual = "higher" if cells.metrics == ("score",) else ""
        way = said.get(name, said.get("", registered.better if registered else usual))
        if not way:
            raise SettingError(f"`better`: {name}: say whether higher or lower is better, as in {name}=lower")
        if registered and way != registered.better:
            raise SettingError(f"`better` {way}: {registered.better} values of {name} are better")
        if 0 < (largest := np.abs(values).max()) < 1 / _LARGEST:
            raise UserError(f"{label}: {name}: no score is larger than {largest:g}; multiply all, or give logarithms")
        usual_unit: Unit = "share" if ((values == 0) | (values == 1)).all() else "number"
        kind = unit or (registered.unit if registered else usual_unit)
        top = {"share": 1.0, "points": 100.0}.get(kind, np.inf)
        if kind != "number" and (values.min() < 0 or (values.max() > top and way == "higher")):
            span = f"{values.min():g} to {values.max():g}"
            raise UserError(f"{label}: {name}: a {kind} goes from 0 to {top:g}, found {span}; give `unit` number")
        yield _Given(name, kind, way, "" if registered is None or registered.is_mean else "mean over items")
