"""Options of a training of one model, besides those of its task and of how it is trained. Imports no torch."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from annotated_types import Ge, Le

from selfattn.settings import Condition, Count, Seed, check_options, excludes, needs
from selfattn.training.config import MOST_THREADS, TrainingSettings


@dataclass(frozen=True, kw_only=True)
class TrainOptions:
    """Settings of every training of one model, besides those of the task and of how it is trained.

    Attributes:
        model: Model to train, by name. `selfattn models` lists them.
        out: Directory for the run. Must not contain a run yet, except with --resume.
        seed: Seed of all random streams.
        quick: Train briefly, for a first try.
        init_from: Run to start from, or a Marian model of Hugging Face (opus-mt): model, weights and tokenizer. A
            directory or hf://USER/NAME.
        allow_unknown: With --init-from: accept targets with many characters that the run does not know.
        embeddings: Pretrained embeddings, a text file of word2vec or GloVe, as first values of the tables.
        source_embeddings: The same for the sources alone.
        target_embeddings: The same for the targets alone.
        freeze: Weights that stay as they are: encoder, decoder, embeddings, or a pattern such as *.fc1.*.
        links: Word links i-j of training pairs, for --guided: a file of source, target and links, or three files,
            LINKS SOURCES TARGETS, line by line.
        set: Model setting as name=value, such as encoder.dim=128. A wrong name lists the right ones. May be repeated.
        metric: Metric that chooses the best weights, by name, or loss for the lowest validation loss. Default: the
            first metric of the task.
        keep: Keep the weights of the last N validations too, for `selfattn average`.
        resume: Continue the training in --out, to the same result. A larger --epochs lengthens a finished training.
        device: Device to compute on, such as cpu, cuda or cuda:1. auto takes a GPU if there is one.
        threads: CPU threads. Default: 1, or 2 for a model of at least 10 million parameters.
        tensorboard: Directory for TensorBoard learning curves.
    """

    repeated: ClassVar[tuple[str, ...]] = ("set",)
    conditions: ClassVar[tuple[Condition, ...]] = (
        excludes("`embeddings`", lambda options: options.embeddings, "source_embeddings", "target_embeddings"),
        needs("`init_from`", lambda options: options.init_from is not None, "allow_unknown"),
    )
    groups: ClassVar[Mapping[str, Sequence[str]]] = {"Run": ("resume", "device", "threads", "tensorboard")}

    model: str = ""
    out: Path
    seed: Seed = 0
    quick: bool = False
    init_from: Path | None = None
    allow_unknown: bool = False
    embeddings: Path | None = None
    source_embeddings: Path | None = None
    target_embeddings: Path | None = None
    freeze: tuple[str, ...] = ()
    links: tuple[Path, ...] = ()
    set: tuple[str, ...] = ()
    metric: str | None = None
    keep: Count | None = None
    resume: bool = False
    device: str = "auto"
    threads: Annotated[int, Ge(1), Le(MOST_THREADS)] | None = None
    tensorboard: Path | None = None

    def __post_init__(self) -> None:
        check_options(self)


class TrainSettings(TrainingSettings, total=False):
    """Fields of :class:`TrainOptions` and of the training as keyword arguments."""

    model: str
    out: str | os.PathLike[str]
    seed: int
    quick: bool
    init_from: str | os.PathLike[str] | None
    allow_unknown: bool
    embeddings: str | os.PathLike[str] | None
    source_embeddings: str | os.PathLike[str] | None
    target_embeddings: str | os.PathLike[str] | None
    freeze: str | Sequence[str]
    links: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
    set: str | Sequence[str]
    metric: str | None
    keep: int | None
    resume: bool
    device: str
    threads: int | None
    tensorboard: str | os.PathLike[str] | None
