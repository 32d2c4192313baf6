"""Outputs that were made elsewhere, as a task: how they are read and scored, what repeats, which words are right."""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from selfattn.comparison.run_table import RunTable
from selfattn.comparison.tested import Answered
from selfattn.data.pairs import Pair
from selfattn.data.readers.lines import inner_name, read_text_lines
from selfattn.data.readers.rows import read_column
from selfattn.errors import UserError
from selfattn.evaluation.metrics.basic import WordAccuracy
from selfattn.evaluation.metrics.metric import make_metric
from selfattn.evaluation.metrics.translation import Bleu
from selfattn.evaluation.statistics.buckets import ngram_differences, score_words
from selfattn.results.quality import BucketGroup, NgramGroup
from selfattn.runs.task import TaskData, task_of_settings

KIND = "outputs"  # of the data of a record
_COUNTED = "by how often {where} shows the word; accuracy: F-measure of the words of outputs and references"
_TABLES = (".tsv", ".tab", ".csv", ".json", ".jsonl", ".ndjson")  # files that a line of does not have one text in


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

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any], where: str) -> Self:
        """Make the task of packed outputs again."""
        return cls(str(settings.get("language", "")), str(settings.get("metric", "")))

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


def task_of(name: str, data: Mapping[str, Any], where: str) -> TaskData:
    """Return the task of a record.

    Args:
        name: of the task.
        data: settings of the data.
        where: name of the place for error messages.

    Raises:
        UserError: they are not settings of this task.
    """
    if data.get("kind") == KIND:
        return JudgedOutputs.from_settings(data, where)
    return task_of_settings(name, data, where)


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
    task: JudgedOutputs, outputs: RunTable[Answered], clusters: Sequence[Hashable]
) -> tuple[BucketGroup, tuple[NgramGroup, ...]]:
    """Score words by how often training shows them, and find the n-grams that tell the first model from each other.

    Without a training text words are counted in the references, as compare-mt does.

    Args:
        task: cuts texts into words.
        outputs: of all runs.
        clusters: a label for each item, shared by those that repeat one another.
    """
    references = task.words([pair.target for pair in outputs.first.pairs])
    cut = {name: [task.words(run.outputs) for run in runs] for name, runs in outputs.main.items()}
    training = outputs.first.words
    where = "the training text" if training else "the set of references"
    counts = training or Counter(word for words in references for word in words)
    texts = {name: [_joined(run) for run in runs] for name, runs in cut.items()}
    buckets = score_words(texts, _joined(references), counts, clusters)
    group = BucketGroup("words", buckets, WordAccuracy.name, note=_COUNTED.format(where=where))
    first, *others = cut
    ngrams = (ngram_differences((first, cut[first]), (other, cut[other]), references) for other in others)
    return group, tuple(ngrams)


def _joined(texts: Sequence[Sequence[str]]) -> list[str]:
    return [" ".join(words) for words in texts]
