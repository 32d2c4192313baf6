"""What a run records: the settings that decide it, and how it was made."""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from selfattn import registry
from selfattn.codec import Plain, encode
from selfattn.models.config import ModelConfig
from selfattn.training.config import TrainingConfig


@dataclass(frozen=True)
class RunConfig(Plain):
    """Everything that decides a run: the same code makes the same weights from it.

    Attributes:
        task: name, such as ``dates``.
        preset: named model that the settings started from.
        model: configuration of the model.
        training: configuration of the training.
        data: where the pairs come from, as plain JSON values that the task understands.
        max_length: most tokens of an output, ``<eos>`` included, for a source of up to `longest_source` tokens.
        plugins: plugins that the run uses, with their versions, see :func:`selfattn.registry.plugins_of`.
        init_from: SHA-256 of the weights that the training started from; None for weights drawn at random.
        embeddings: SHA-256 of the files of pretrained embeddings by side; None if none.
        freeze: weights that the training left as they were, see :func:`selfattn.training.freeze.freeze`; None if none.
        metric: that chose the best weights, see `TrainOptions.metric`; None: the first of the task.
        links: SHA-256 of the files of links for guided alignment; None if none.
        longest_source: tokens of the longest source of the training; 0 where `max_length` holds for every source, as in
            runs that do not name it.
    """

    task: str
    preset: str
    model: ModelConfig
    training: TrainingConfig
    data: Mapping[str, Any]
    max_length: int
    plugins: Mapping[str, str] = field(default_factory=dict)
    init_from: str | None = None
    longest_source: int = 0
    freeze: tuple[str, ...] | None = None
    embeddings: Mapping[str, str] | None = None
    metric: str | None = None
    links: tuple[str, ...] | None = None

    def output_limit(self, source: int, target: int = 0) -> int:
        """Return the most tokens of an output, ``<eos>`` included.

        For a source longer than all of the training they grow in proportion; and an output may always be twice as long
        as the longest right one, where these are known. The positions of the model end both.

        Args:
            source: number of tokens of the source.
            target: number of tokens of the longest right output; default unknown.

        Example:
            >>> from selfattn.models.presets import PRESETS
            >>> model = PRESETS["transformer"].config
            >>> config = RunConfig("dates", "rnn", model, TrainingConfig(), {}, max_length=22, longest_source=11)
            >>> config.output_limit(8), config.output_limit(33), config.output_limit(8, target=40)
            (22, 66, 80)
        """
        if not self.longest_source:
            return self.max_length
        longer = math.ceil(self.max_length * source / self.longest_source)
        wanted = max(longer, 2 * target)
        positions = self.model.limits()
        if positions.target is not None:
            wanted = min(wanted, positions.target)
        if positions.together is not None:
            wanted = min(wanted, positions.together - source)
        return max(self.max_length, wanted)


@dataclass(frozen=True)
class RunRecord(Plain):
    """How a run was made, and its progress.

    Attributes:
        status: ``running``, ``failed``, or one of :data:`selfattn.training.loop.Status`.
        created: start, ISO 8601.
        command: that made it.
        seed: of every random stream.
        parameters: of the model.
        parameters_non_embedding: parameters outside embeddings.
        train_seconds: of training so far.
        versions: of libraries, by name.
        machine: description of the machine.
        commit: of the checkout, if any.
        resumed: times when the training was resumed, ISO 8601.
        averaged: steps whose kept weights were averaged, see :mod:`selfattn.runs.kept`; None for a training.
        files: SHA-256 of each file by its path: of the present content, and of the content before, because a process
            may be killed between writing the record and the file.
    """

    status: str
    created: str
    command: str
    seed: int
    parameters: int
    parameters_non_embedding: int
    train_seconds: float
    versions: Mapping[str, str]
    machine: Mapping[str, str | int | None]
    commit: str | None = None
    resumed: tuple[str, ...] = ()
    files: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    averaged: tuple[int, ...] | None = None


def used_plugins(task: str, metrics: Iterable[str], *models: ModelConfig) -> dict[str, str]:
    """Return the plugins that a task, its metrics and models use, with their versions.

    Args:
        task: name of the task.
        metrics: names of the metrics.
        models: configurations.
    """
    names = {task, *metrics}
    for model in models:
        names |= {value for _, value in flat(encode(model)) if isinstance(value, str)}
    parts = registry.SCORES, registry.NORMALIZERS, registry.POSITIONS, registry.ATTENTIONS, registry.FAMILIES
    return registry.plugins_of(names, *parts, registry.TASKS, registry.METRICS)


def flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Iterate over nested values, by names such as ``training.lr``."""
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value
