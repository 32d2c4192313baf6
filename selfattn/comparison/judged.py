"""Outputs that were made elsewhere, as a task: how they are scored, what repeats, and which words are right."""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Self

from selfattn.comparison.run_table import RunTable
from selfattn.comparison.tested import Answered
from selfattn.data.pairs import Pair
from selfattn.evaluation.metrics.exact import WordAccuracy
from selfattn.evaluation.metrics.metric import make_metric
from selfattn.evaluation.metrics.translation import Bleu
from selfattn.evaluation.statistics.words import ngram_differences, score_words
from selfattn.results.parts import BucketGroup, NgramGroup
from selfattn.runs.task import TaskData, task_of_settings

KIND = "outputs"  # of the data of a record, as of an archive
_COUNTED = "by how often {where} shows the word; accuracy: F-measure of the words of outputs and references"


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
        """Make the task of an archive again."""
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
    """Return the task of a record or an archive.

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
