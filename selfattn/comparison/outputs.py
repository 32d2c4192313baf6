"""Judge outputs of systems that were trained anywhere: from files of lines to the same record and report."""

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, combinations
from pathlib import Path
from typing import Any, ClassVar, Self, TypeAlias

from selfattn.codec import Plain, line_of, read, short
from selfattn.comparison import report
from selfattn.comparison.analysis import measure
from selfattn.comparison.options import OutputsOptions
from selfattn.comparison.tested import Prediction, RunOutputs, RunTable, by_model
from selfattn.data.pairs import Pair
from selfattn.data.readers.lines import checked_encoding, inner_name, read_text_lines
from selfattn.data.readers.rows import read_column
from selfattn.errors import SettingError, UserError, number_of, say
from selfattn.evaluation.buckets import ngram_differences, score_words
from selfattn.evaluation.metrics import Metric, WordAccuracy, decomposed_note, make_metric
from selfattn.evaluation.translation_metrics import Bleu, missing_tokeniser, script_warning
from selfattn.registry import is_name
from selfattn.report.blocks import Outputs
from selfattn.results.quality import BucketGroup, NgramGroup
from selfattn.results.record import Recomputation, Record
from selfattn.runs.task import TaskData
from selfattn.settings import command_line, divide, non_default
from selfattn.words.messages import SOURCE, message

TextSource: TypeAlias = str | Path | Sequence[str]
"""A file with a text a line, ``FILE:COLUMN`` of a table, or the texts themselves."""
KIND = "outputs"  # the task of a record
ADVICE = "take the report from where it was published, or compare the outputs again"
_COUNTED = "by how often {where} shows the word; accuracy: F-measure of the words of outputs and references"
_TABLES = (".tsv", ".tab", ".csv", ".json", ".jsonl", ".ndjson")  # table formats: a line holds several columns


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
) -> report.Published:
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
    texts = {"reference": reference, "source": source, "tags": tags, "train": train}
    given = {"metric": metric, "out": out, "language": language, "margin": margin, "encoding": encoding, "lang": lang}
    given |= {name: _label(text) for name, text in texts.items()} | {"system": tuple(_systems(systems))}
    options = OutputsOptions(**divide(given, OutputsOptions)[0])
    command = command_line("compare outputs", non_default(options))
    report.check_report_place(options.out, command)
    used = checked_encoding(encoding)
    files: dict[str, Any] = {name: _read(text, used) for name, text in texts.items() if text is not None}
    training = files.pop("train", None)
    judged = Judged(
        **report.made_now(command),
        **{name: getattr(options, name) for name in ("metric", "language", "margin", "encoding", "train")},
        **files,
        systems={name: tuple(_read(run, used) for run in runs) for name, runs in systems.items()},
    )
    judged.check()
    counts = {"systems": len(systems), "files": len(judged.runs), "items": len(judged.reference.texts)}
    say(message("progress.outputs", **{name: f"{count:,}" for name, count in counts.items()}).say(options.lang))
    if training is not None:
        judged = replace(judged, words=judged.word_counts(training))
    return report.publish(judged.record(), judged.pack(), options.out, options.lang, judged.outputs())


@dataclass(frozen=True)
class TextFile(Plain):
    """A file, or texts that were handed over.

    Attributes:
        label: its name for messages.
        texts: one a line, as they are.
    """

    label: str
    texts: tuple[str, ...]


@dataclass(frozen=True)
class Judged(Plain):
    """Outputs and what they are judged by: the record is a function of it. Line k of each file belongs to item k.

    Attributes:
        command: that judges them.
        created: ISO 8601 date and time with offset.
        environment: versions of the programs.
        metric: names of the metrics; the first decides.
        reference: the right outputs.
        systems: outputs of each training, by system.
        source: the inputs; None where they are unknown.
        tags: kind of each item; None without.
        language: that the user stated; None without.
        margin: smallest difference that matters.
        encoding: of the files.
        train: label of the training text.
        words: how often the training text has the words of references and outputs.
    """

    FILE: ClassVar[str] = "outputs.json"  # in which they are packed

    command: str
    created: str
    environment: Mapping[str, str]
    metric: tuple[str, ...]
    reference: TextFile
    systems: Mapping[str, tuple[TextFile, ...]]
    source: TextFile | None = None
    tags: TextFile | None = None
    language: str | None = None
    margin: float | None = None
    encoding: str | None = None
    train: str | None = None
    words: Mapping[str, int] = field(default_factory=dict)

    @property
    def runs(self) -> list[TextFile]:
        """The outputs of all trainings."""
        return list(chain.from_iterable(self.systems.values()))

    @property
    def metrics(self) -> list[Metric]:
        """The metrics, the one that decides first, and those that stand beside it.

        Raises:
            UserError: a metric is named twice, or there is no such metric or language.
        """
        if not self.metric or len(set(self.metric)) < len(self.metric):
            raise SettingError(f"`metric` {','.join(self.metric)}: expected different names")
        first = make_metric(self.metric[0], self.language or "")
        return [make_metric(name, self.language or "") for name in dict.fromkeys([*self.metric, *first.beside])]

    def check(self) -> None:
        """Check that the files can be compared by these metrics.

        Raises:
            UserError: a file has another number of lines, an empty reference or the lines of another file, or the
                references need their language.
        """
        right = self.reference
        metrics = self.metrics
        for file in (self.source, self.tags, *self.runs):
            if file is not None and len(file.texts) != len(right.texts):
                counts = f"{number_of(len(file.texts), 'line')}, but {right.label} has {len(right.texts):,}"
                raise UserError(f"{file.label}: {counts}; line k of every file has to belong to item k")
        for number, text in enumerate(right.texts, 1):
            if not text.strip():
                raise UserError(f"{right.label}:{number}: an empty reference; leave this line out of every file")
        self._refuse_copies(metrics[0])
        if any(metric.name == Bleu.name for metric in metrics):
            self._check_script()

    def _refuse_copies(self, metric: Metric) -> None:
        """Refuse outputs that are the reference, or those of another training.

        Answers that are all right are equal by themselves, and a share of right answers may well reach 100 %.
        """
        right = self.reference
        runs = [(f"{name}: {run.label}", run.texts) for name, several in self.systems.items() for run in several]
        for label, texts in runs:
            if texts == right.texts:
                if not metric.is_mean:
                    raise UserError(f"{label}: equals {right.label} in every line; give what the system wrote")
                say(f"{label}: equals {right.label} in every line; make sure that the system wrote it")
        for (first, texts), (second, other_texts) in combinations(runs, 2):
            if texts == other_texts != right.texts:
                raise UserError(f"{second}: has the same lines as {first}; give each training's own outputs")

    def _check_script(self) -> None:
        """Refuse text that BLEU would cut wrongly because nobody named its language; only say it where somebody did."""
        if missing := missing_tokeniser(self.language or ""):
            say(missing)
        warning = script_warning(self.reference.texts, self.language or "")
        if warning and self.language is None:
            advice = "`language`; und leaves it as it is"
            raise UserError(f"{self.reference.label}: {warning.removeprefix('targets: ')} ({advice})")
        if warning:
            say(warning)

    def word_counts(self, training: TextFile) -> dict[str, int]:
        """Count in the training text the words that references and outputs have."""
        first = self.metrics[0]
        task = JudgedOutputs(first.language, first.name)
        texts = list(chain.from_iterable(file.texts for file in (self.reference, *self.runs)))
        counts = Counter(chain.from_iterable(task.words(training.texts)))
        return {word: counts[word] for word in chain.from_iterable(task.words(texts))}

    def table(self) -> RunTable[RunOutputs]:
        """Return the outputs in the form in which a comparison has those of its runs; files count from 1."""
        nothing = [""] * len(self.reference.texts)
        inputs = self.source.texts if self.source else nothing
        kinds = self.tags.texts if self.tags else nothing
        systems: dict[str, list[RunOutputs]] = {}
        for name, runs in self.systems.items():
            systems[name] = []
            for number, run in enumerate(runs, 1):
                items = zip(inputs, self.reference.texts, kinds, run.texts, strict=True)
                answers = [Prediction(source, target, tag, (), output, True) for source, target, tag, output in items]
                systems[name].append(RunOutputs(number, False, answers, words=self.words))
        return RunTable({1.0: systems})

    def record(self) -> Record:
        """Score the outputs."""
        metrics = self.metrics
        first = metrics[0]
        files = {name: file.label for name in ("reference", "source", "tags") if (file := getattr(self, name))}
        settings = files | {"train": self.train, "language": self.language}
        given = {name: value for name, value in settings.items() if value is not None}
        runs = {name: [run.label for run in runs] for name, runs in self.systems.items()}
        made = {name: getattr(self, name) for name in ("command", "created", "environment", "margin")}
        frame = report.external_record(KIND, runs, given, **made)
        task = JudgedOutputs(first.language, first.name)
        outputs = self.table()
        record = measure(frame, task, outputs, metrics)
        words, ngrams = word_analyses(task, outputs, [task.repeats(pair) for pair in outputs.first.pairs])
        return replace(record, buckets=(*record.buckets, words), ngrams=ngrams)

    def pack(self) -> dict[str, bytes]:
        """Return everything as one file."""
        return {self.FILE: line_of(self).encode()}

    @classmethod
    def unpack(cls, folder: Path) -> Self:
        """Read what was packed, and is unpacked in a directory.

        Raises:
            UserError: what is there is damaged.
        """
        return read(cls, folder / cls.FILE, advice=ADVICE)

    def outputs(self) -> Outputs:
        """Return the texts for sections of plugins."""
        return report.outputs_for_sections(self.table())

    def files_again(self) -> Iterator[Recomputation]:
        """Read the files again that are where the command had them, and compare."""
        for file in filter(None, (self.reference, self.source, self.tags, *self.runs)):
            if not Path(file.label).exists() and not Path(file.label.rpartition(":")[0] or file.label).is_file():
                continue
            try:
                texts = read_given(file.label, checked_encoding(self.encoding))
                count = sum(was != now for was, now in zip(file.texts, texts, strict=False))
                count += abs(len(file.texts) - len(texts))
                problems = (f"not as packed: {number_of(count, 'line')}",) if count else ()
            except UserError as error:
                problems = (str(error),)
            yield Recomputation(f"lines of {file.label}", problems, len(file.texts))
        if self.train and Path(self.train).is_file():
            now = self.word_counts(_read(self.train, checked_encoding(self.encoding)))
            problems = () if now == self.words else ("counts of words not as packed",)
            yield Recomputation(f"words of {self.train}", problems, len(now))


class JudgedOutputs(TaskData):
    """Outputs of models that were trained elsewhere.

    Args:
        language: of the references; empty where it is unknown.
        metric: that decides.
    """

    name = KIND

    def __init__(self, language: str, metric: str) -> None:
        super().__init__()
        self.language = language
        self.metric = metric

    def repeats(self, pair: Pair) -> Hashable:
        """Return the source, or the reference where no sources were given."""
        return pair.source or pair.target

    def words(self, texts: Sequence[str]) -> list[list[str]]:
        """Return the words of texts as the metric cuts them, or else as BLEU does for the language."""
        metric: Any = make_metric(self.metric, self.language)
        if not hasattr(metric, "words"):
            metric = Bleu(self.language)
        words: list[list[str]] = metric.words(texts)
        return words


def read_given(label: str, encoding: str | None) -> Sequence[str]:
    """Read one text a line, as it is.

    Args:
        label: a file, or ``FILE:COLUMN`` of a table.
        encoding: of the file; None for UTF-8, or what a byte order mark says.

    Raises:
        UserError: it cannot be read, or is a table without a column.
    """
    path = Path(label)
    name, colon, column = label.rpartition(":")
    if colon and not path.exists() and Path(name).exists():
        return read_column(Path(name), column, encoding)
    if inner_name(path).suffix.lower() in _TABLES:
        raise UserError(f"{path}: a table; name a column of a TSV or CSV file, as in {path}:2 or {path}:output")
    lines = read_text_lines(path, encoding)
    if all("\t" in line for line in lines):
        raise UserError(f"{path}: has a tab in every line; name the column, as in {path}:2")
    return lines


def word_analyses(
    task: JudgedOutputs, outputs: RunTable[RunOutputs], clusters: Sequence[Hashable]
) -> tuple[BucketGroup, tuple[NgramGroup, ...]]:
    """Score words by how often training shows them, and find the n-grams that tell the first model from each other.

    Without a training text words are counted in the references, as compare-mt does.

    Args:
        task: cuts texts into words.
        outputs: of all runs.
        clusters: a label for each item, shared by those that repeat one another.
    """
    references = task.words([pair.target for pair in outputs.first.pairs])
    cut = by_model(outputs.main, lambda run: task.words(run.texts))
    training = outputs.first.words
    where = "the training text" if training else "the set of references"
    counts = training or Counter(chain.from_iterable(references))
    buckets = score_words(cut, references, counts, WordAccuracy(), clusters=clusters)
    group = BucketGroup("words", buckets, WordAccuracy.name, note=_COUNTED.format(where=where))
    first, *others = cut
    ngrams = (ngram_differences((first, cut[first]), (other, cut[other]), references) for other in others)
    return group, tuple(ngrams)


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


def _read(texts: TextSource, encoding: str | None) -> TextFile:
    """Read one text a line, as it is."""
    label = str(_label(texts))
    if isinstance(texts, str | Path):
        lines = read_given(label, encoding)
        if note := decomposed_note(label, lines):
            say(note)
        return TextFile(label, tuple(lines))
    if not texts or not all(isinstance(text, str) for text in texts):
        raise SettingError(f"{label}: expected a file, or a list of texts")
    for number, text in enumerate(texts, 1):
        try:
            text.encode()
        except UnicodeEncodeError:
            raise SettingError(f"{label}: text {number} has half of a character (a surrogate); mend it") from None
    return TextFile(label, tuple(texts))
