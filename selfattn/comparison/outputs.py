"""Judge outputs of systems that were trained anywhere: from files of lines to the same record and report."""

import platform
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain, combinations
from pathlib import Path
from typing import NamedTuple, TypeAlias

from selfattn import __version__
from selfattn.codec import short
from selfattn.command_lines import command_line
from selfattn.comparison.archive import ARCHIVE, archive_sha256, read_archive, write_archive
from selfattn.comparison.judged import KIND, JudgedOutputs, read_given
from selfattn.comparison.measured import measure, signatures_beside
from selfattn.comparison.options import OutputsOptions
from selfattn.comparison.report import check_free_of_others, outputs_for_sections
from selfattn.comparison.run_table import RunTable
from selfattn.comparison.tested import Answer, Answered
from selfattn.comparison.verify import RESULTS
from selfattn.data.readers.lines import checked_encoding
from selfattn.errors import SettingError, UserError, number_of, say
from selfattn.evaluation.metrics.exact import decomposed_note
from selfattn.evaluation.metrics.metric import Metric, make_metric
from selfattn.evaluation.metrics.translation import Bleu, missing_tokeniser, script_warning
from selfattn.experiments.plan import PLAN
from selfattn.files import make_directory
from selfattn.registry import is_name
from selfattn.report.write import ReportFiles, write_report
from selfattn.results.reading import read_record
from selfattn.results.record import ANALYSIS, SCHEMA, Model, Record
from selfattn.settings import changed, divide
from selfattn.words.messages import SOURCE, message

TextSource: TypeAlias = str | Path | Sequence[str]
"""A file with a text a line, ``FILE:COLUMN`` of a table, or the texts themselves."""


def compare_outputs(
    reference: TextSource,
    systems: Mapping[str, Sequence[TextSource]],
    *,
    metric: str | Sequence[str],
    out: str | Path,
    source: TextSource | None = None,
    language: str | None = None,
    tags: TextSource | None = None,
    train: TextSource | None = None,
    margin: float | None = None,
    encoding: str | None = None,
    lang: str = SOURCE,
) -> tuple[Record, ReportFiles]:
    """Compare systems by their outputs alone, and write the report.

    With several files of each system, one for each training, intervals and tests are over trainings and items. With one
    file each they are over the items alone.

    Args:
        reference: the right outputs: a file with one a line, ``FILE:COLUMN`` of a TSV or CSV file, or a list of texts.
        systems: for each system, by its name, the outputs of each of its trainings.
        metric: name of a metric, or of several, of which the first decides.
        out: directory for the report; an older one of the same comparison is replaced.
        source: the inputs; default unknown. Items with the same input count as repeats.
        language: of the references, a code or an English name; default unknown.
        tags: kind of each item; default none.
        train: the training's targets, to count how often training shows a word; default the references are counted.
        margin: smallest difference that matters, in points; default none.
        encoding: of the files; default UTF-8, or what a byte order mark says.
        lang: language of the report.

    Returns:
        The record, and the paths of the report's files.

    Raises:
        UserError: a file cannot be read, has another number of lines, or is given twice; or a setting is not allowed.

    Example:
        >>> import tempfile
        >>> right = ["a b", "c d", "e f", "g h"]
        >>> outputs = {"A": [["a b", "c d", "e x", "g h"]], "B": [["a b", "c x", "x x", "g x"]]}
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     record, files = compare_outputs(right, outputs, out=folder, metric="exact_match")
        >>> [model.metrics["exact_match"].mean for model in record.models], record.interval.over
        ([0.75, 0.25], 'items')
    """
    values = {
        "reference": _label(reference),
        "system": tuple(_systems(systems)),
        "metric": metric,
        "out": out,
        "source": _label(source),
        "language": language,
        "tags": _label(tags),
        "train": _label(train),
        "margin": margin,
        "encoding": encoding,
        "lang": lang,
    }
    options = OutputsOptions(**divide(values, OutputsOptions)[0])
    command = command_line("compare outputs", changed(options))
    _check_out(options.out, command)
    metrics = _metrics(options)
    used = checked_encoding(encoding)
    files = JudgedFiles(
        _read(reference, used),
        {name: [_read(run, used) for run in runs] for name, runs in systems.items()},
        None if source is None else _read(source, used),
        None if tags is None else _read(tags, used),
    )
    files.check(metrics, options.language)
    counts = {"systems": len(systems), "files": len(files.runs), "items": len(files.right.texts)}
    written = {name: f"{count:,}" for name, count in counts.items()}
    say(message("progress.outputs", **written).say(options.lang))
    task = JudgedOutputs(metrics[0].language, metrics[0].name)
    table = files.table({} if train is None else files.word_counts(task, _read(train, used)))
    data = {"kind": KIND, "language": metrics[0].language, "metric": metrics[0].name}
    record = measure(files.frame(options, command, metrics), data, table)
    make_directory(options.out)
    record = replace(record, outputs_sha256=write_archive(options.out / ARCHIVE, data, table))
    return record, write_report(record, options.out, options.lang, outputs_for_sections(table))


def is_judged(folder: Path) -> bool:
    """Return whether a directory holds a comparison of outputs, which has no plan and no runs."""
    results = folder / RESULTS
    return not (folder / PLAN).exists() and results.is_file() and not read_record(results).trained


def rewrite_outputs(folder: Path, out: Path, lang: str = SOURCE) -> tuple[Record, ReportFiles]:
    """Write the report of a comparison of outputs again, from its record and its archive.

    Args:
        folder: of the comparison.
        out: directory for the report; an older one of the same comparison is replaced.
        lang: language of the report.

    Raises:
        UserError: the archive is not that of the record, or the report cannot be written.
    """
    record = read_record(folder / RESULTS)
    data, table = read_archive(folder / ARCHIVE)
    _check_out(out, record.command)
    if archive_sha256(folder / ARCHIVE) != record.outputs_sha256:
        raise UserError(f"{folder / ARCHIVE}: is not the archive of {folder / RESULTS}; compare the outputs again")
    make_directory(out)
    write_archive(out / ARCHIVE, data, table)
    return record, write_report(record, out, lang, outputs_for_sections(table))


class TextFile(NamedTuple):
    """A file, or texts that were handed over.

    Attributes:
        label: its name for messages.
        texts: one a line, as they are.
    """

    label: str
    texts: Sequence[str]


@dataclass(frozen=True)
class JudgedFiles:
    """The files of a comparison of outputs; line k of each belongs to item k.

    Attributes:
        right: the references.
        outputs: of each training, by system.
        sources: the inputs; None where they are unknown.
        tags: kind of each item; None without.
    """

    right: TextFile
    outputs: Mapping[str, Sequence[TextFile]]
    sources: TextFile | None
    tags: TextFile | None

    @property
    def runs(self) -> list[TextFile]:
        """The outputs of all trainings."""
        return list(chain.from_iterable(self.outputs.values()))

    def check(self, metrics: Sequence[Metric], language: str | None) -> None:
        """Check that the files can be compared by these metrics.

        Args:
            metrics: the one that decides first.
            language: that the user stated; None without.

        Raises:
            UserError: a file has another number of lines, an empty reference or the lines of another file, or the
                references need their language.
        """
        expected = len(self.right.texts)
        for file in (self.sources, self.tags, *self.runs):
            if file is not None and len(file.texts) != expected:
                counts = f"{number_of(len(file.texts), 'line')}, but {self.right.label} has {expected:,}"
                raise UserError(f"{file.label}: {counts}; line k of every file has to belong to item k")
        for number, text in enumerate(self.right.texts, 1):
            if not text.strip():
                raise UserError(f"{self.right.label}:{number}: an empty reference; leave this line out of every file")
        self._refuse_copies(metrics[0])
        if any(metric.name == Bleu.name for metric in metrics):
            self._check_script(language)

    def _refuse_copies(self, metric: Metric) -> None:
        """Refuse outputs that are the reference, or those of another training.

        Answers that are all right are equal by themselves, and a share of right answers may well reach 100 %.
        """
        right = self.right
        runs: list[TextFile] = []
        for name, several in self.outputs.items():
            runs += [TextFile(f"{name}: {run.label}", run.texts) for run in several]
        for run in runs:
            if run.texts == right.texts:
                if not metric.is_mean:
                    raise UserError(f"{run.label}: equals {right.label} in every line; give what the system wrote")
                say(f"{run.label}: equals {right.label} in every line; make sure that the system wrote it")
        for first, second in combinations(runs, 2):
            if first.texts == second.texts and first.texts != right.texts:
                raise UserError(
                    f"{second.label}: has the same lines as {first.label}; give each training's own outputs"
                )

    def _check_script(self, language: str | None) -> None:
        """Refuse text that BLEU would cut wrongly because nobody named its language; only say it where somebody did."""
        if missing := missing_tokeniser(language or ""):
            say(missing)
        warning = script_warning(self.right.texts, language or "")
        if warning and language is None:
            advice = "`language`; und leaves it as it is"
            raise UserError(f"{self.right.label}: {warning.removeprefix('targets: ')} ({advice})")
        if warning:
            say(warning)

    def word_counts(self, task: JudgedOutputs, training: TextFile) -> dict[str, int]:
        """Count in the training text the words that references and outputs have."""
        texts = list(chain.from_iterable(file.texts for file in (self.right, *self.runs)))
        counts = Counter(chain.from_iterable(task.words(training.texts)))
        return {word: counts[word] for word in chain.from_iterable(task.words(texts))}

    def table(self, counts: Mapping[str, int]) -> RunTable[Answered]:
        """Return the outputs in the form in which a comparison has those of its runs; files count from 1.

        Args:
            counts: of words in the training text.
        """
        nothing = [""] * len(self.right.texts)
        inputs = self.sources.texts if self.sources else nothing
        kinds = self.tags.texts if self.tags else nothing
        rows: list[tuple[float, str, Answered]] = []
        for name, runs in self.outputs.items():
            for number, run in enumerate(runs, 1):
                items = zip(inputs, self.right.texts, kinds, run.texts, strict=True)
                answers = [Answer(source, target, tag, (), output, True) for source, target, tag, output in items]
                rows.append((1.0, name, Answered(number, False, answers, {}, counts)))
        return RunTable.gather(rows)

    def frame(self, options: OutputsOptions, command: str, metrics: Sequence[Metric]) -> Record:
        """Return the record without what follows from the outputs."""
        settings = {name: getattr(options, name) for name in ("reference", "source", "tags", "train", "language")}
        models = []
        for name, runs in self.outputs.items():
            seeds = tuple(range(1, len(runs) + 1))
            models.append(Model(name, False, 0, seeds, {}, run_dirs=tuple(run.label for run in runs)))
        return Record(
            schema=SCHEMA,
            task=KIND,
            created=datetime.now().astimezone().isoformat(timespec="seconds"),
            command=command,
            environment={"selfattn": __version__, "python": platform.python_version()},
            settings={name: value for name, value in settings.items() if value is not None},
            test_items=len(self.right.texts),
            models=tuple(models),
            headline=metrics[0].headline,
            units={metric.name: metric.unit for metric in metrics},
            signatures=signatures_beside(metrics[0].headline, metrics),
            margin=options.margin,
            analysis=ANALYSIS,
            trained=False,
        )


def _label(texts: TextSource | None) -> str | None:
    """Return the name of a file; of texts their number."""
    if texts is None:
        return None
    if isinstance(texts, str | Path):
        return str(texts)
    if not isinstance(texts, Sequence):
        raise SettingError(f"expected the file of outputs, or a list of texts, got {short(texts)}")
    return f"<{number_of(len(texts), 'text')}>"


def _systems(systems: Mapping[str, Sequence[TextSource]]) -> Iterator[str]:
    """Check systems, and yield each as the command line has it."""
    if not systems or not isinstance(systems, Mapping):
        raise SettingError("`system`: expected one or more, each as NAME=FILE,FILE,... (in Python {name: [outputs]})")
    for name, runs in systems.items():
        if not isinstance(name, str) or not is_name(name):
            raise SettingError(f"`system`: a name has at most 100 letters, digits, - and _, found {short(name)}")
        if isinstance(runs, str | Path) or not isinstance(runs, Sequence) or not runs:
            raise SettingError(f"`system` {name}: expected a list of outputs, one for each training")
        yield f"{name}={','.join(str(_label(run)) for run in runs)}"


def _check_out(out: Path, command: str) -> None:
    """Refuse a directory with another experiment, or with the report of another comparison."""
    check_free_of_others(out)
    advice = "choose another `out`"
    if (out / PLAN).exists():
        raise SettingError(f"{out}: holds an experiment with its plan; {advice}")
    results = out / RESULTS
    if results.exists() and read_record(results).command != command:
        raise SettingError(f"{out}: holds the report of another comparison; {advice}")


def _metrics(options: OutputsOptions) -> list[Metric]:
    """Return the metrics, the one that decides first, and those that stand beside it."""
    if not options.metric or len(set(options.metric)) < len(options.metric):
        raise SettingError(f"`metric` {','.join(options.metric)}: expected different names")
    language = options.language or ""
    first = make_metric(options.metric[0], language)
    names = dict.fromkeys([*options.metric, *first.beside])
    return [make_metric(name, language) for name in names]


def _read(texts: TextSource, encoding: str | None) -> TextFile:
    """Read one text a line, as it is."""
    label = str(_label(texts))
    if isinstance(texts, str | Path):
        lines = read_given(label, encoding)
        if note := decomposed_note(label, lines):
            say(note)
        return TextFile(label, lines)
    if not texts or not all(isinstance(text, str) for text in texts):
        raise SettingError(f"{label}: expected a file, or a list of texts")
    return TextFile(label, list(texts))
