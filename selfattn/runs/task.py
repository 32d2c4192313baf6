"""What a task hands to a comparison: what models are trained on, tested on and judged by."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from selfattn.data.pairs import Pair
from selfattn.decoding.options import GREEDY, DecodingOptions
from selfattn.evaluation.alignment.gold_files import GoldPair
from selfattn.evaluation.gates.overlap import overlap
from selfattn.evaluation.metrics.word_recall import words_of
from selfattn.figures.gates import Floor, Gate
from selfattn.figures.quality import Headline
from selfattn.runs.fit import Material
from selfattn.training.config import TrainingConfig


@dataclass(frozen=True)
class Known:
    """What training shows of the test.

    Attributes:
        overlap: the gate on shared sentences.
        words: how often training's targets have each word of the test's targets; empty where words do not matter.
        pairs: how many training pairs were gone through: a file's once, of endless data all.
    """

    overlap: Gate
    words: Mapping[str, int]
    pairs: int


@dataclass(frozen=True)
class Lesson:
    """What all models of one seed are trained and tested on.

    Attributes:
        training: how, with the seed.
        material: ready to be used by one model after the other.
        max_length: most tokens of an output, ``<eos>`` counted.
        settings: what makes the same data again, as plain JSON values.
        test: unseen pairs, the same for every seed.
        validation: unseen pairs that settings and weights are chosen by.
        trained_on: gives every training pair, in any order, perhaps several times.
        probes: further unseen pairs by name, such as years that training never showed.
        has_words: whether targets are made of words, rare ones among them.
        gold: sentences with hand-made links between their words, where spans are not known by construction.
        notes: lines on the data, to be said when the first training begins.
    """

    training: TrainingConfig
    material: Material
    max_length: int
    settings: Mapping[str, Any]
    test: Sequence[Pair]
    validation: Sequence[Pair]
    trained_on: Callable[[], Iterable[Pair]]
    probes: Mapping[str, Sequence[Pair]] = field(default_factory=dict)
    has_words: bool = False
    gold: Sequence[GoldPair] = ()
    notes: Sequence[str] = ()

    @cached_property
    def known(self) -> Known:
        """What training shows of the test; found by going through all of it once."""
        counts = dict.fromkeys((word for pair in self.test for word in words_of(pair.target)), 0)
        pairs = 0

        def counted() -> Iterator[Pair]:
            nonlocal pairs
            for pair in self.trained_on():
                pairs += 1
                for word in words_of(pair.target) if self.has_words else ():
                    if word in counts:
                        counts[word] += 1
                yield pair

        shared = overlap(counted(), self.test)
        return Known(shared.gate(), counts if self.has_words else {}, pairs)


class Task(ABC):
    """A task that models are compared on.

    Attributes:
        name: such as ``dates``.
        headline: the metric that the verdict is about.
        decoding: how outputs are decoded.
        training: how models are trained, with seed 0.
        floor: what others reached, where the user has said so.
    """

    name: str
    headline = Headline()
    decoding: DecodingOptions = GREEDY
    training: TrainingConfig
    floor: Floor | None = None

    @abstractmethod
    def lesson(self, training: TrainingConfig, *, first: int | None = None) -> Lesson:
        """Prepare what models are trained on.

        Args:
            training: how, with the seed.
            first: train on so many pairs only; default all there are.
        """

    @abstractmethod
    def scores(self, predictions: Sequence[str], pairs: Sequence[Pair]) -> dict[str, float]:
        """Score outputs: every metric by name, the headline's among them."""
