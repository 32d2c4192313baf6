"""The recall task: published problems on sequences that tell what a model can remember or compute.

Associative recall of several queries (MQAR) is that of Arora et al. 2024, "Zoology", token for token; the others are of
Delétang et al. 2023, "Neural Networks and the Chomsky Hierarchy", tested on longer texts than were trained.
"""

from __future__ import annotations

import math
import random
import threading
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from selfattn.codec import encode
from selfattn.data.pairs import Pair
from selfattn.data.splits import GeneratedSplits, Splits
from selfattn.errors import SettingError, UserError
from selfattn.runs.task import RECIPE, TaskData
from selfattn.settings import Condition, Count, check_options, needs
from selfattn.training.config import TrainingConfig

if TYPE_CHECKING:
    from selfattn.models.config import ModelConfig
    from selfattn.tokenizers.protocol import Tokenizer

LETTERS = "abcdefgh"  # of copy and reverse
MODULUS = 5


@dataclass(frozen=True, kw_only=True)
class RecallOptions:
    """Which problem.

    Attributes:
        problem: mqar (recall of values by their keys), copy, reverse, parity, or modular (arithmetic).
        length: Tokens of the longest training text; of every text in mqar.
        test_length: Tokens of the longest test text; of every test text in mqar.
        pairs: Keys and values of a text in mqar.
        vocabulary: Number of tokens in mqar, half of them keys.
    """

    conditions: ClassVar[tuple[Condition, ...]] = (
        needs("`problem` mqar", lambda options: options.problem == "mqar", "pairs", "vocabulary"),
    )

    problem: Literal["mqar", "copy", "reverse", "parity", "modular"] = "mqar"
    length: Count = 64
    test_length: Count = 128
    pairs: Count = 8
    vocabulary: Count = 256

    def __post_init__(self) -> None:
        check_options(self)
        if self.test_length < self.length:
            raise SettingError(f"`test_length`: expected at least `length` {self.length}, got {self.test_length}")
        if self.problem != "mqar":
            return
        if self.length % 2 or self.test_length % 2 or 4 * self.pairs > self.length:
            raise SettingError(f"`length`: expected even lengths of at least 4 tokens a pair, got {self.length}")
        if self.vocabulary <= self.test_length or self.vocabulary % 2 or self.vocabulary < 2 * self.pairs + 2:
            raise SettingError("`vocabulary`: expected an even number above `test_length` and twice the pairs")


class Recall(TaskData):
    """Remember and compute: associative recall, copy, reverse, parity, modular arithmetic; test texts are longer."""

    name = "recall"
    Options = RecallOptions
    match = "body"
    models = ("transformer", "transformer-linear", "transformer-delta", "rnn-plain")
    tag_name = "length"
    options: RecallOptions

    def splits(self, seed: int, validation_items: int = 1000) -> Splits:
        """Return endless pairs; those of the test are up to ``test_length`` long."""
        settings = {"kind": "generated", "options": encode(self.options)}
        return GeneratedSplits(self.pair, seed, settings, partial(self.pair, test=True))

    def pair(self, chance: random.Random, test: bool = False) -> Pair:
        """Draw a problem: words and their answer."""
        options = self.options
        longest = options.test_length if test else options.length
        if options.problem == "mqar":
            inputs, labels = multiquery_ar(options.vocabulary, 1, longest, chance.getrandbits(32), options.pairs)
            place = chance.choice((labels[0] >= 0).nonzero()[0].tolist())
            words = [str(token) for token in inputs[0, : place + 1]]
            answer = str(labels[0, place])
        elif options.problem == "modular":
            words, answer = _modular(chance, chance.randint(1, longest))
        else:
            words = chance.choices("01" if options.problem == "parity" else LETTERS, k=chance.randint(1, longest))
            answers = {"copy": words, "reverse": words[::-1], "parity": [str(words.count("1") % 2)]}
            answer = " ".join(answers[options.problem])
        tag = "as in training" if len(words) <= options.length else "longer than in training"
        return Pair(" ".join(words), answer, tag)

    def tokenizer(self, splits: Splits) -> Tokenizer:
        """Return one token for each word."""
        from selfattn.tokenizers.listed import WordTokenizer

        if self.options.problem == "mqar":
            return WordTokenizer(map(str, range(self.options.vocabulary)))
        return WordTokenizer(text for pair in splits.sample() for text in (pair.source, pair.target))

    def check_model(self, config: ModelConfig, name: str) -> None:
        """Refuse a model that has no positions for the longest test text, before any training."""
        longest = self.options.test_length + 1  # with its end
        answer = longest if self.options.problem in ("copy", "reverse") else 2
        try:
            config.limits().check(longest, answer)
        except ValueError as error:
            advice = "give it more by `set`, or shorter texts by `test_length`"
            raise UserError(f"{name}: test texts: {error}; {advice}") from None

    def recipe(self, quick: bool) -> TrainingConfig:
        """Return the recipe."""
        return replace(RECIPE, epochs=2 if quick else 10, items_per_epoch=20_000, lr=2e-3, validation_items=200)


def multiquery_ar(
    vocab_size: int, num_examples: int, length: int, seed: int, num_pairs: int, power: float = 0.01
) -> tuple[Any, Any]:
    """Draw multi-query associative recall as its authors do (Arora et al. 2024; HazyResearch/zoology).

    Keys and values in turn; then, at gaps that follow a power law, each key once more, whose label is its value. Other
    tokens are 0 (``random_non_queries=False`` there).

    Args:
        vocab_size: keys are from 1 on, values from its half on.
        num_examples: rows.
        length: tokens of a row.
        seed: of NumPy's legacy generator.
        num_pairs: keys of a row.
        power: of the law.

    Returns:
        Inputs and labels, int64 ``[num_examples length]``; a label is -100 where nothing is asked.

    Example:
        >>> inputs, labels = multiquery_ar(12, 1, 16, seed=0, num_pairs=2)
        >>> inputs[0].tolist(), labels[0].tolist().index(inputs[0, 1])
        ([3, 6, 1, 8, 0, 0, 1, 0, 3, 0, 0, 0, 0, 0, 0, 0], 8)
    """
    import numpy as np

    drawn = _generator(threading.get_ident())
    drawn.seed(seed)

    def rows(choices: Any, p: Any = None) -> Any:
        return np.stack([drawn.choice(choices, num_pairs, replace=False, p=p) for _ in range(num_examples)])

    keys = rows(np.arange(1, vocab_size // 2))
    values = rows(np.arange(vocab_size // 2, vocab_size))
    context = 2 * num_pairs
    space = (length - context) // 2
    law = power * np.arange(1, space + 1) ** (power - 1)
    gaps = rows(np.arange(space), law / law.sum())
    inputs = np.zeros((num_examples, length + 1), dtype=np.int64)
    inputs[:, 0:context:2] = keys
    inputs[:, 1:context:2] = values
    np.put_along_axis(inputs, context + 2 * gaps, keys, axis=1)
    labels = np.full((num_examples, length), -100, dtype=np.int64)
    np.put_along_axis(labels, context + 2 * gaps, values, axis=1)
    return inputs[:, :-1], labels


@cache
def _generator(thread: int) -> Any:
    """Return NumPy's legacy generator for a thread: to make one takes fifty times as long as to seed it."""
    import numpy as np

    return np.random.RandomState(0)


def _modular(chance: random.Random, length: int) -> tuple[list[str], str]:
    """Draw digits with + - * between them; products come first, the result is taken modulo 5."""
    words = [str(chance.randrange(MODULUS))]
    for _ in range(length // 2):
        words += [chance.choice("+-*"), str(chance.randrange(MODULUS))]
    products = "".join(words).replace("-", "+-").split("+")
    result = sum(math.prod(map(int, product.split("*"))) for product in products)
    return words, str(result % MODULUS)
