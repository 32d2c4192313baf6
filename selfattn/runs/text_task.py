"""A task of texts without sources, for language models. Imports no torch."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from selfattn.data.pairs import Pair
from selfattn.data.splits import FiniteSplits, Splits, hold_out
from selfattn.errors import SettingError
from selfattn.runs.task import TaskData

if TYPE_CHECKING:
    from selfattn.tokenizers.protocol import Tokenizer


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
        from selfattn.evaluation.metrics.basic import BITS_PER_CHARACTER, PERPLEXITY

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
