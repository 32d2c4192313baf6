"""A task: the data that models are trained and tested on, and its metrics. Imports no torch.

One file makes a task: a class with a name, the options of its commands, and either a function that draws pairs or
its splits. Everything else has a default.

>>> import random
>>> from selfattn.data.pairs import Pair
>>> class Doubling(Task):
...     "Write every letter twice."
...     def pair(self, chance: random.Random) -> Pair:
...         text = "".join(chance.choices("abc", k=8))
...         return Pair(text, "".join(letter * 2 for letter in text))
>>> len(Doubling().splits(seed=0).test(3))
3
"""

from __future__ import annotations

import copy
import random
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from selfattn.codec import decode, encode
from selfattn.data.pairs import Pair
from selfattn.data.readers.pairs import read_pairs
from selfattn.data.readers.records import Columns
from selfattn.data.splits import GeneratedSplits, Splits, seen, split_pairs
from selfattn.data.text import clean_pair
from selfattn.decoding.options import GREEDY, DecodingOptions
from selfattn.errors import SettingError, UserError, say
from selfattn.models.config import ModelConfig
from selfattn.models.presets import USUAL
from selfattn.registry import TASKS
from selfattn.results.quality import Headline
from selfattn.results.record import NO_SUBJECT, Baseline, Subject
from selfattn.settings import Condition, changed, divide, shown
from selfattn.training.config import TrainingConfig

if TYPE_CHECKING:
    from selfattn.decoding.texts import Output
    from selfattn.evaluation.alignment.links import GoldPair
    from selfattn.runs.trained import TrainedModel
    from selfattn.runs.training_set import TrainingSet
    from selfattn.tokenizers.protocol import Tokenizer

Budget = Literal["parameters", "body", "flops"]

# One recipe for every architecture, so that a comparison differs in nothing but the model.
RECIPE = TrainingConfig(epochs=5, items_per_epoch=40_000, batch_size=64, lr=4e-3, schedule="cosine")


@dataclass(frozen=True, kw_only=True)
class NoOptions:
    """No options."""


@dataclass(frozen=True)
class HeldOut:
    """Pairs to test a run on.

    Attributes:
        pairs: unseen pairs.
        name: where they come from.
        known: all pairs of the training, where test pairs may repeat them.
    """

    pairs: Sequence[Pair]
    name: str
    known: Sequence[Pair] | None = None


class Task:
    """A task, with its options.

    Attributes:
        Options: a frozen dataclass of the task's options. The commands of the task have an option for each field; its
            help is the text under ``Attributes`` of the docstring.
        TestOptions: a frozen dataclass of further options of a comparison.
        train_help, compare_help: help of ``train NAME`` and ``compare NAME``; default the docstring of the class.
        model: default model of a training.
        models: default models of a comparison.
        match: default quantity in which compared models are equal.
        budgets: default shares of the training in a comparison.
        suggested: command that is suggested after a training.
        takes_pairs: whether runs answer inputs; if not, they continue texts.
        max_input: most tokens of an input, for models without a limit.
        tag_name: name of the tags of the pairs, such as kinds.
        has_words: whether targets consist of words, rare ones among them.
        decoding: of the outputs of a comparison; default greedy.
        language: of the targets, a code of ISO 639 or an English name, for metrics that cut texts into words; default
            unknown.
        stated_baseline: what others reached on the same data, as the user states it; default nothing.
        validated: number of metrics, from the first on, that every validation measures.

    Args:
        settings: values of the options by name.

    Raises:
        SettingError: an option is unknown, or values contradict each other.
    """

    name: ClassVar[str] = ""
    Options: ClassVar[type[Any]] = NoOptions
    TestOptions: ClassVar[type[Any]] = NoOptions
    train_help: ClassVar[str] = ""
    compare_help: ClassVar[str] = ""
    model: ClassVar[str] = USUAL[-1]
    models: ClassVar[tuple[str, ...]] = USUAL
    match: ClassVar[Budget | None] = "parameters"
    budgets: ClassVar[tuple[float, ...]] = (1.0,)
    suggested: ClassVar[str] = "predict"
    takes_pairs: ClassVar[bool] = True
    max_input: ClassVar[int] = 1024
    tag_name: ClassVar[str] = "kind"
    has_words: ClassVar[bool] = False
    decoding: DecodingOptions = GREEDY
    language: str = ""
    stated_baseline: Baseline | None = None
    validated: int = 1
    _deciding: tuple[str, ...] = ()
    _tokenizer: Tokenizer | None = None
    _allow_unknown: bool = False

    def __init__(self, **settings: Any) -> None:
        options, tests = divide(settings, self.Options, self.TestOptions)
        self.options = self.Options(**options)
        self.test_options = self.TestOptions(**tests)

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any], where: str) -> Self:
        """Return the task of a run.

        Args:
            settings: of the run's data, as the splits returned them.
            where: name of the place for error messages.

        Raises:
            UserError: they are not settings of this task.
        """
        options = decode(cls.Options, settings.get("options", {}), file=where, advice="restore the file or train again")
        return cls(**vars(options))

    def given(self) -> dict[str, Any]:
        """Return the options that differ from their defaults."""
        return changed(self.options) | changed(self.test_options)

    def pair(self, chance: random.Random) -> Pair:
        """Draw a pair, for a task with generated pairs.

        Args:
            chance: the source of random numbers.
        """
        raise NotImplementedError(f"{type(self).__name__}: has none of pair(), pairs() and splits()")

    def pairs(self) -> Sequence[Pair] | None:
        """Return all pairs, for a task with a finite list of 100 or more; default None: there is no such list."""
        return None

    def splits(self, seed: int, validation_items: int = 1000) -> Splits:
        """Return the pairs in three parts that share no source; default: the list of :meth:`pairs`, or endless
        draws of :meth:`pair`.

        Args:
            seed: of the training pairs; validation and test are the same for every seed.
            validation_items: number of validation pairs of finite data.
        """
        listed = self.pairs()
        if listed is not None:
            settings = {"kind": "listed", "options": encode(self.options)}
            pairs = [clean_pair(pair) for pair in listed]
            return split_pairs(pairs, seed, validation_items, settings, f"pairs of {self.name}")
        return GeneratedSplits(self.pair, seed, {"kind": "generated", "options": encode(self.options)})

    def tokenizer(self, splits: Splits) -> Tokenizer:
        """Return the tokenizer, the same for every seed; default: the characters of the sample."""
        from selfattn.tokenizers.char import CharTokenizer

        return CharTokenizer(text for pair in splits.sample() for text in (pair.source, pair.target))

    def recipe(self, quick: bool) -> TrainingConfig:
        """Return the default configuration of a training.

        Args:
            quick: a training of seconds.
        """
        return replace(RECIPE, epochs=2, items_per_epoch=8_000, validation_items=200) if quick else RECIPE

    def training_conditions(self) -> tuple[Condition, ...]:
        """Return when settings of a training have an effect with these options; default always."""
        return ()

    def size(self, config: ModelConfig) -> ModelConfig:
        """Return a named model in the size for this task, by the same rule for all; default unchanged."""
        return config

    def check_model(self, config: ModelConfig, name: str) -> None:
        """Check, before any work, that a model can be trained on the task; default: any can.

        Raises:
            UserError: it cannot.
        """

    def usual_comparison(self) -> dict[str, Any]:
        """Return the default settings of a comparison."""
        usual = {"models": self.models, "out": Path("compare") / self.name, "match": self.match}
        return usual | {"budgets": self.budgets}

    def test_items(self, quick: bool) -> int | None:
        """Return the default number of test pairs; None for all."""
        return 1000 if quick else 2000

    @classmethod
    def subject(cls) -> Subject:
        """Return the question of a comparison: its two models, and the task's words for the report."""
        return NO_SUBJECT

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of the metrics; the first decides. Default exact match."""
        from selfattn.evaluation.metrics.exact import EXACT_MATCH

        return (EXACT_MATCH,)

    def decided_by(self, metric: str) -> Self:
        """Return the task with another deciding metric.

        Raises:
            UserError: the metric is unknown.
        """
        from selfattn.evaluation.metrics.metric import make_metric

        make_metric(metric, self.language)
        task = copy.copy(self)
        task._deciding = (metric,)
        return task

    def with_tokenizer(self, tokenizer: Tokenizer, *, allow_unknown: bool = False) -> Self:
        """Return the task with the tokenizer of another training.

        Args:
            tokenizer: of that training.
            allow_unknown: accept targets with many characters that the tokenizer does not know. Default False.
        """
        task = copy.copy(self)
        task._tokenizer = tokenizer
        task._allow_unknown = allow_unknown
        return task

    def unknown_notes(self, tokenizer: Tokenizer, train: Sequence[Pair], validation: Sequence[Pair]) -> list[str]:
        """Return lines about the characters of the data that the vocabulary does not have.

        Args:
            tokenizer: of the training; where it is that of another training, the training pairs are looked through too.
            train: pairs; those of a vocabulary made from them have nothing unknown.
            validation: pairs.

        Raises:
            UserError: too many tokens of the targets are unknown, see `selfattn.runs.vocabulary`.
        """
        from selfattn.runs.vocabulary import refuse_unknown, unknown_characters

        parts = {"validation": validation} if self._tokenizer is None else {"training": train, "validation": validation}
        notes = []
        for part, pairs in parts.items():
            notes += unknown_characters(f"{part} sources", [pair.source for pair in pairs], tokenizer.source)
            notes += unknown_characters(f"{part} targets", [pair.target for pair in pairs], tokenizer.target)
        if self._tokenizer is not None and not self._allow_unknown:
            refuse_unknown([pair.target for pair in train], tokenizer.target)
        return notes

    @property
    def headline(self) -> Headline:
        """The metric of the verdict."""
        from selfattn.evaluation.metrics.metric import make_metric

        return make_metric(self.metric_names()[0], self.language).headline

    def scores(self, outputs: Sequence[str], targets: Sequence[str]) -> dict[str, float]:
        """Score outputs with every metric."""
        from selfattn.evaluation.metrics.metric import score_outputs

        return score_outputs(self.metric_names(), outputs, targets, self.language)

    def metric_names(self) -> tuple[str, ...]:
        """Return the names of the metrics of a test, the deciding one first."""
        return tuple(dict.fromkeys([*self._deciding, *self.metrics]))

    def validation_names(self) -> tuple[str, ...]:
        """Return the names of the metrics of a validation, the deciding one first."""
        return tuple(dict.fromkeys([*self._deciding, *self.metrics[: self.validated]]))

    def repeats(self, pair: Pair) -> Hashable:
        """Return a key that dependent test items share; default their source."""
        return pair.source

    def published(self, settings: Mapping[str, Any]) -> Mapping[str, Baseline]:
        """Return what others reached, for each architecture; default nothing.

        Args:
            settings: of the run's data.
        """
        return {}

    @property
    def gold(self) -> Sequence[GoldPair]:
        """Sentences with hand-made links between their words; default none."""
        return ()

    def training_set(
        self, training: TrainingConfig, splits: Splits | None = None, *, first: int | None = None, keep: bool = False
    ) -> TrainingSet:
        """Return the training set.

        Args:
            training: configuration, with the seed.
            splits: of that seed, if they are open already.
            first: train on this number of pairs again and again; default all pairs.
            keep: cache the examples of every epoch for further models; default False.

        Raises:
            UserError: a setting or the data are not usable.
        """
        from selfattn.runs.training_set import make_training_set

        opened = splits or self.splits(training.seed, training.validation_items)
        tokenizer = self._tokenizer or self.tokenizer(opened)
        return make_training_set(self, opened, training, tokenizer, first=first, keep=keep)

    def sampling(self) -> float:
        """Return the strength of subword sampling; default 0, none."""
        return 0.0

    def held_out(self, data: Sequence[Path] = (), columns: Columns = None, encoding: str | None = None) -> HeldOut:
        """Return the pairs to test a run on.

        Args:
            data: see `selfattn.data.readers.pairs.read_pairs`; default the test part of the run's data.
            columns: see there.
            encoding: see there.

        Raises:
            UserError: the files, or the run's own data, are not usable.
        """
        if data:
            return HeldOut(read_pairs(*data, columns=columns, encoding=encoding), " ".join(map(str, data)))
        splits = self.splits(0)
        return HeldOut(splits.test(self.test_items(quick=False)), splits.name, splits.known())

    def evaluate(
        self,
        run: TrainedModel,
        data: Sequence[Path],
        options: DecodingOptions,
        columns: Columns,
        against: TrainedModel | None = None,
        encoding: str | None = None,
    ) -> dict[str, Any]:
        """Test a run on unseen data; see `selfattn.runs.evaluate.evaluate_run`.

        Returns:
            Plain JSON values: ``task``, ``run``, ``model``, ``data``, ``beam``, ``length_penalty``, ``items``,
            ``metrics``, ``signatures``, ``intervals``, ``interval``, ``by_format`` (where pairs have kinds),
            ``unknown_characters`` of the inputs, ``cut_off`` outputs (at the longest length allowed). Where test pairs
            may repeat training pairs, also the results of those that do not: ``unseen``, and ``unseen_casefold`` with
            case ignored. With another run ``against``: its ``run``, ``model``, ``metrics`` and ``intervals``, ``p`` of
            each metric, and how many outputs are ``equal``.
        """
        from selfattn.evaluation.metrics.evaluate import evaluate_outputs, evaluate_part
        from selfattn.evaluation.metrics.exact import CharacterErrorRate, ExactMatch
        from selfattn.evaluation.metrics.metric import make_metric
        from selfattn.evaluation.metrics.translation import script_warning
        from selfattn.runs.vocabulary import unknown_characters

        test = self.held_out(data, columns, encoding)
        pairs = test.pairs
        sources = [pair.source for pair in test.pairs]
        if self.language and (warning := script_warning((pair.target for pair in pairs), self.language)):
            say(warning)
        best = [candidates[0] for candidates in run.decode(sources, options)]
        outputs = [output.text for output in best]
        names = dict.fromkeys((ExactMatch.name, CharacterErrorRate.name, *self.metric_names()))
        metrics = [make_metric(name, self.language) for name in names]
        results = run.about(test.name) | {"beam": options.beam, "length_penalty": options.length_penalty}
        others = None if against is None else against.predict(sources, options)
        results |= evaluate_outputs(outputs, pairs, metrics, others)
        if against is not None:
            results["against"] |= {"run": str(against.path), "model": against.config.preset}
        results["unknown_characters"] = run.unknown(sources).total()
        for line in unknown_characters("targets", [pair.target for pair in pairs], run.tokenizer.target):
            say(line)
        results["cut_off"] = sum(not output.finished for output in best)
        for name, casefold in (("unseen", False), ("unseen_casefold", True)) if test.known is not None else ():
            was_seen = seen(pairs, test.known or (), casefold=casefold)
            places = [k for k in range(len(pairs)) if not was_seen[k]]
            if places:
                results[name] = evaluate_part(outputs, pairs, metrics, places)
        return results

    @classmethod
    def decode(
        cls, run: TrainedModel, texts: Sequence[str], options: DecodingOptions, first: int
    ) -> list[list[Output]]:
        """Return a run's outputs for each text; see `selfattn.decoding.texts.decode_texts`."""
        from selfattn.decoding.texts import decode_texts

        length = run.config.max_length
        return decode_texts(run.model, run.tokenizer, texts, options, max_length=length, first=first)


def check_same_reading(
    columns: Columns, trained: Columns, encoding: str | None = None, trained_encoding: str | None = None
) -> None:
    """Check how a run's own file is to be read for a test, whose parts are those of the training.

    Args:
        columns: as requested; None where nothing was.
        trained: columns of the training.
        encoding: as requested; None where nothing was.
        trained_encoding: of the training; None for UTF-8.

    Raises:
        SettingError: columns or encoding are others.
    """
    if encoding is not None and encoding != trained_encoding:
        used = trained_encoding or "UTF-8"
        raise SettingError(f"`encoding` {encoding}: the run was trained on this file with {used}; leave it out")
    if columns is not None and columns != trained:
        used = "the usual columns" if trained is None else ",".join(trained)
        raise SettingError(f"`columns` {','.join(columns)}: the run was trained on this file with {used}; leave it out")


def _problem(task: type[Task]) -> str | None:
    for kind in (task.Options, task.TestOptions):
        if not is_dataclass(kind):
            return (
                f"{kind.__name__}: options are a frozen dataclass; put @dataclass(frozen=True, kw_only=True) above it"
            )
    if all(getattr(task, name) is getattr(Task, name) for name in ("pair", "pairs", "splits", "training_set")):
        return f"{task.__name__} has none of pair(), pairs() and splits()"
    return None


TASKS.expect(Task, _problem)


def task_class(task: str | Task) -> type[Task]:
    """Return the class of a task.

    Raises:
        UserError: the name is unknown, or it is neither a name nor a task.
    """
    if isinstance(task, Task):
        return type(task)
    if not isinstance(task, str):
        hint = f"; write {task.__name__}()" if isinstance(task, type) else ""
        raise SettingError(f"`task`: expected a name such as 'dates', or a task, got {shown(task)}{hint}")
    kind: type[Task] = TASKS[task]
    return kind


def make_task(task: str | Task, settings: Mapping[str, Any] | None = None) -> Task:
    """Return a task by its name, with options; a task object unchanged.

    Raises:
        UserError: the name is unknown, or there are options for a task object.
    """
    if isinstance(task, Task):
        if settings:
            raise UserError(f"{', '.join(settings)}: the task has its options already; set them where it is made")
        return task
    built: Task = TASKS[task](**(settings or {}))
    return built
