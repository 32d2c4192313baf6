"""A run as tasks see it."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol

from selfattn.decoding.options import DecodingOptions
from selfattn.decoding.texts import Output
from selfattn.models.protocol import Seq2Seq
from selfattn.runs.record import RunConfig
from selfattn.tokenizers.protocol import Tokenizer


class TrainedModel(Protocol):
    """A trained model with its tokenizer and settings; :class:`selfattn.runs.run.Run` is one.

    Attributes:
        path: the run directory.
        config: settings of the run.
        model: in evaluation mode.
        tokenizer: of the training.
    """

    path: Path
    config: RunConfig
    model: Seq2Seq
    tokenizer: Tokenizer

    def predict(self, texts: Iterable[str], options: DecodingOptions | None = None) -> list[str]:
        """Return the output for each text."""

    def decode(
        self,
        texts: Iterable[str],
        options: DecodingOptions | None = None,
        *,
        first: int = 0,
        targets: Iterable[str] = (),
    ) -> list[list[Output]]:
        """Return outputs for each text, with their scores."""

    def unknown(self, texts: Iterable[str]) -> Counter[str]:
        """Count the characters of texts that are not in the vocabulary."""

    def about(self, data: object) -> dict[str, Any]:
        """Return run and data as plain JSON values, for the head of results."""
