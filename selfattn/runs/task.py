"""A task: the data that models are trained and tested on, and its metrics. Imports no torch.

One file makes a task: a class with a name, the options of its commands, and either a function that draws pairs or
its splits. Everything else has a default.

>>> import random
>>> from selfattn.data.pairs import Pair
>>> class Doubling(TaskData):
...     "Write every letter twice."
...     def pair(self, chance: random.Random) -> Pair:
...         text = "".join(chance.choices("abc", k=8))
...         return Pair(text, "".join(letter * 2 for letter in text))
>>> len(Doubling().splits(seed=0).test(3))
3
"""

from __future__ import annotations

import copy
import hashlib
import os
import random
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from selfattn.codec import encode, fingerprint
from selfattn.data.pairs import Pair, clean_pair
from selfattn.data.readers.pairs import PairFiles, recorded_files
from selfattn.data.splits import FiniteSplits, GeneratedSplits, Splits, hold_out, split_pairs
from selfattn.decoding.options import GREEDY, DecodingOptions
from selfattn.errors import SettingError, UserError
from selfattn.files import reading, sha256_of
from selfattn.models.config import ModelConfig
from selfattn.models.families import USUAL
from selfattn.registry import TASKS
from selfattn.results.subject import NO_SUBJECT, Baseline, Subject
from selfattn.runs.record import RunConfig, contents_in, options_of_data
from selfattn.settings import Condition, divide, non_default, shown
from selfattn.training.config import TrainingConfig

if TYPE_CHECKING:
    from selfattn.evaluation.links import GoldPair
    from selfattn.results.quality import Headline
    from selfattn.tokenizers.protocol import Tokenizer


Resource = Literal["parameters", "body", "flops"]
Match = Literal[Resource, "none"]

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


NO_FILES = PairFiles(())
"""No files of pairs: the test part of the run's own data."""
LEARNED = "learned from the training data"
"""Where a vocabulary comes from that no option names."""


class TaskData:
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
        tuning_space: space of a tuning where none is usual; default around the recipe.
        suggested: command that is suggested after a training.
        takes_pairs: whether runs answer inputs; if not, they continue texts.
        max_input: most tokens of an input, for models without a limit.
        tag_name: name of the tags of the pairs, such as kinds.
        has_words: whether targets consist of words, rare ones among them.
        decoding: of the outputs of a comparison; default greedy.
        is_stream: whether training pairs are read during the training, so that nobody knows their number; default
            False.
        language: of the targets, a code of ISO 639 or an English name, for metrics that cut texts into words; default
            unknown.
        stated_baseline: what others reached on the same data, as the user states it; default nothing.
        validated: number of metrics, from the first on, that every validation measures.
        needs: names of methods of which a subclass defines one at least.
        chosen_metric: metric that decides in place of the first, as the user chose, see
            `selfattn.runs.task.decided_by`; default none.
        further_metrics: metrics that are measured besides those of the task; default none.
        trained_on: what the data of a run were, as its splits described them, where the task is that of a run.

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
    match: ClassVar[Resource | None] = "parameters"
    budgets: ClassVar[tuple[float, ...]] = (1.0,)
    tuning_space: ClassVar[tuple[str, ...]] = ()
    suggested: ClassVar[str] = "predict"
    takes_pairs: ClassVar[bool] = True
    needs: ClassVar[tuple[str, ...]] = ("pair", "pairs", "splits")
    max_input: ClassVar[int] = 1024
    tag_name: ClassVar[str] = "kind"
    has_words: ClassVar[bool] = False
    decoding: DecodingOptions = GREEDY
    is_stream: bool = False
    language: str = ""
    stated_baseline: Baseline | None = None
    validated: int = 1
    chosen_metric: str | None = None
    further_metrics: tuple[str, ...] = ()
    trained_on: Mapping[str, Any] | None = None

    def __init__(self, **settings: Any) -> None:
        options, tests = divide(settings, self.Options, self.TestOptions)
        self.options = self.Options(**options)
        self.test_options = self.TestOptions(**tests)

    def changed_options(self) -> dict[str, Any]:
        """Return the options that differ from their defaults."""
        return non_default(self.options) | non_default(self.test_options)

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
        from selfattn.tokenizers.listed import CharTokenizer

        return CharTokenizer(text for pair in splits.sample() for text in (pair.source, pair.target))

    def vocabulary_origin(self) -> str:
        """Say where the tokenizer has its vocabulary from; default the training data."""
        return LEARNED

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

    def check_languages(self, source: str, target: str) -> None:
        """Check that a model for these languages can be trained on the task; default: any can.

        Args:
            source: code or name of the source language; empty if unknown.
            target: of the target language.

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
        from selfattn.evaluation.metrics import EXACT_MATCH

        return (EXACT_MATCH,)

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

    def other_files(self, described: Mapping[str, Any]) -> dict[str, Any]:
        """Return the checksums of files that options name, such as tokenizers, where the data do not have them yet.

        Args:
            described: settings of the data.

        Returns:
            Path and SHA-256 of each file or directory, by the name of its option.

        Raises:
            UserError: a file cannot be read.
        """
        recorded = {name for _, name in contents_in(described)}
        files: dict[str, Any] = {}
        for name, value in {**vars(self.options), **vars(self.test_options)}.items():
            for path in value if isinstance(value, tuple) else [value]:
                if isinstance(path, Path) and str(path) not in recorded and path.exists():
                    files.setdefault(name, []).append({"path": str(path), "sha256": _content_of(path)})
        return files

    def sampling(self) -> float:
        """Return the strength of subword sampling; default 0, none."""
        return 0.0

    def held_out(self, files: PairFiles = NO_FILES) -> HeldOut:
        """Return the pairs to test a run on.

        Args:
            files: of pairs; default the test part of the run's data.

        Raises:
            UserError: the files, or the run's own data, are not usable.
        """
        trained_on = self.trained_on or {}
        own = _test_source(trained_on)
        if files.paths and not _are_own(files, own):
            return HeldOut(files.read(), " ".join(map(str, files.paths)))
        task = self
        if files.paths:
            trained = PairFiles.from_settings(own)
            for name in ("columns", "encoding"):
                value = getattr(files, name)
                used = getattr(trained, name)
                if value not in (None, used):
                    reason = f"the run was trained on this file with {_listed(used)}; leave it out"
                    raise SettingError(f"`{name}` {_listed(value)}: {reason}")
            if own is not trained_on.get("sources", {}).get("test"):  # the test part was held out of them
                task = type(self)(**self.changed_options() | {"data": files.paths})  # the files may have moved
        splits = task.splits(0)
        if trained_on and _test_part(splits.settings) != _test_part(trained_on):
            advice = "name pairs to test on: `data` SOURCE TARGET, or one file of pairs"
            raise SettingError(f"{splits.name} has changed since this run was trained; {advice}")
        return HeldOut(splits.test(self.test_items(quick=False)), splits.name, splits.known())


def _test_source(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return how settings of data describe the files that the test part is read from, or held out of."""
    sources = data.get("sources", {})
    source: Mapping[str, Any] = sources.get("test") or sources.get("train") or data
    return source


def _test_part(data: Mapping[str, Any]) -> object:
    """Return what tells whether the test part is the same: the SHA-256 of its texts, or else of its files."""
    if "parts" in data:
        return data["parts"]["test"]["sha256"]
    return [file["sha256"] for file in recorded_files(_test_source(data))]


def _are_own(files: PairFiles, own: Mapping[str, Any]) -> bool:
    """Return whether files are those that settings describe: by their paths, or by their contents."""
    paths = [os.path.realpath(file["path"]) for file in recorded_files(own)]
    return bool(paths) and ([*map(os.path.realpath, files.paths)] == paths or files.are_those_of(own))


def _listed(value: tuple[str, str] | str | None) -> str:
    if value is None:
        return "the default"
    return value if isinstance(value, str) else ",".join(value)


def _content_of(path: Path) -> str:
    """Return the SHA-256 of a file, or of all files of a directory with their names."""
    with reading(path, "name another with the option"):
        if path.is_dir():
            from selfattn.runs.directory import files_in  # imports safetensors

            files = {name: hashlib.sha256(data).hexdigest() for name, data in files_in(path).items()}
            return fingerprint(files)
        return sha256_of(path)


def _problem(task: type[TaskData]) -> str | None:
    for kind in (task.Options, task.TestOptions):
        if not is_dataclass(kind):
            return (
                f"{kind.__name__}: options are a frozen dataclass; put @dataclass(frozen=True, kw_only=True) above it"
            )
    base = next(kind for kind in task.__mro__ if "needs" in vars(kind))
    if all(getattr(task, name) is getattr(base, name) for name in task.needs):
        *names, last = (f"{name}()" for name in task.needs)
        return f"{task.__name__} has " + (f"none of {', '.join(names)} and {last}" if names else f"no {last}")
    return None


TASKS.expect(TaskData, _problem)


def task_class(task: str | TaskData) -> type[TaskData]:
    """Return the class of a task.

    Raises:
        UserError: the name is unknown, or it is neither a name nor a task.
    """
    if isinstance(task, TaskData):
        return type(task)
    if not isinstance(task, str):
        hint = f"; write {task.__name__}()" if isinstance(task, type) else ""
        raise SettingError(f"`task`: expected a name such as 'dates', or a task, got {shown(task)}{hint}")
    kind: type[TaskData] = TASKS[task]
    return kind


def make_task(task: str | TaskData, settings: Mapping[str, Any] | None = None) -> TaskData:
    """Return a task by its name, with options; a task object unchanged.

    Raises:
        UserError: the name is unknown, or there are options for a task object.
    """
    if isinstance(task, TaskData):
        if settings:
            raise UserError(f"{', '.join(settings)}: the task has its options already; set them where it is made")
        return task
    return task_class(task)(**(settings or {}))


def task_of_run(config: RunConfig, where: str) -> TaskData:
    """Return the task of a run, made from the options that the run keeps.

    Args:
        config: settings of the run.
        where: name of the place for error messages.

    Raises:
        UserError: they are not options of this task.
    """
    task = _made_again(config.task, config.task_options, f"{where}: task_options")
    task.trained_on = config.data
    return task


def task_of_settings(name: str, settings: Mapping[str, Any], where: str) -> TaskData:
    """Return the task of an archive of outputs, which has the settings of the data alone.

    Args:
        name: of the task.
        settings: of the data, as the splits returned them.
        where: name of the place for error messages.

    Raises:
        UserError: they are not settings of this task.
    """
    return _made_again(name, options_of_data(settings, where), f"{where}: data")


def _made_again(name: str, options: Mapping[str, Any], where: str) -> TaskData:
    kind: type[TaskData] = TASKS[name]
    try:
        return kind(**options)
    except (UserError, TypeError) as error:
        raise UserError(f"{where}: {error}; restore the file or train again") from error


@dataclass(frozen=True)
class Texts:
    """What a language model is trained on.

    Attributes:
        train: training texts.
        validation: unseen texts; at least one.
        settings: where they come from, as plain JSON values.
        test: texts to compare models on; where there are none, a comparison holds out a tenth of the training texts.
    """

    train: Sequence[str]
    validation: Sequence[str]
    settings: Mapping[str, Any]
    test: Sequence[str] = ()


class TextData(TaskData):
    """A task of texts without sources: models learn to continue a text, and are measured by their perplexity.

    Attributes:
        context: longest training window, in tokens.
    """

    takes_pairs = False
    needs = ("texts",)
    match = "body"
    context: int = 256

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of the metrics. Bits per character decide."""
        from selfattn.evaluation.metrics import BITS_PER_CHARACTER, PERPLEXITY

        return BITS_PER_CHARACTER, PERPLEXITY

    def repeats(self, pair: Pair) -> Hashable:
        """Return the text."""
        return pair.target

    def splits(self, seed: int, validation_items: int = 1000) -> Splits:
        """Return the texts of a comparison in three parts, as pairs without a source.

        Raises:
            SettingError: too few different texts for a test part.
        """
        texts = self.texts(validation_items)
        train = texts.train
        test = texts.test
        if not test:
            train, test = hold_out(train, lambda text: text)
        if not test:
            raise SettingError("`data`: fewer than 10 different texts are left for training and test; give more")
        parts = {"train": train, "valid": texts.validation, "test": test}
        pairs = {name: [Pair("", text) for text in part] for name, part in parts.items()}
        return FiniteSplits(pairs, seed, texts.settings, self.name)

    def texts(self, validation_items: int) -> Texts:
        """Return the texts in two parts.

        Args:
            validation_items: most validation texts, where they are held out from the training texts.
        """
        raise NotImplementedError(f"{type(self).__name__}: has no texts()")

    def text_tokenizer(self, texts: Sequence[str]) -> Tokenizer:
        """Return the tokenizer; default: the characters of the training texts."""
        from selfattn.tokenizers.listed import CharTokenizer

        return CharTokenizer(texts)


def decided_by(task: TaskData, metric: str) -> TaskData:
    """Return the task with another deciding metric.

    Raises:
        UserError: the metric is unknown, or is not one of a language model's.
    """
    from selfattn.evaluation.metrics import make_metric

    make_metric(metric, task.language)
    if not task.takes_pairs and metric not in task.metrics:
        raise SettingError(f"`metric` {metric}: a language model is measured by {' or '.join(task.metrics)}")
    changed = copy.copy(task)
    changed.chosen_metric = metric
    return changed


def metric_names(task: TaskData) -> tuple[str, ...]:
    """Return the names of the metrics of a test, the deciding one first."""
    return _chosen_first(task, (*task.further_metrics, *task.metrics))


def validation_names(task: TaskData) -> tuple[str, ...]:
    """Return the names of the metrics of a validation, the deciding one first."""
    return _chosen_first(task, task.metrics[: task.validated])


def _chosen_first(task: TaskData, names: Sequence[str]) -> tuple[str, ...]:
    chosen = () if task.chosen_metric is None else (task.chosen_metric,)
    return tuple(dict.fromkeys([*chosen, *names]))


def headline(task: TaskData) -> Headline:
    """Return the metric of the verdict."""
    from selfattn.evaluation.metrics import make_metric

    return make_metric(metric_names(task)[0], task.language).headline
