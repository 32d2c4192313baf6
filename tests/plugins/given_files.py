"""A task whose training, validation and test files are given: the letters of a word to its phones.

selfattn --plugin given_files.py compare pronunciation --folder data/2021 --word-language kor --seeds 5
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from selfattn.plugin import (
    FiniteSplits,
    LetterTokenizer,
    SeparateTokenizer,
    Splits,
    TaskData,
    TrainingConfig,
    WordTokenizer,
    encode,
    read_pairs,
    register,
)


@dataclass(frozen=True, kw_only=True)
class PronunciationOptions:
    """Which files are read.

    Attributes:
        folder: Folder with LANGUAGE_train.tsv, LANGUAGE_dev.tsv and LANGUAGE_test.tsv.
        word_language: Language of the words, as in the names of the files.
    """

    folder: Path = Path("data")
    word_language: str = "kor"


@register.task("pronunciation")
class Pronunciation(TaskData):
    """Write the phones of a word, with spaces between."""

    Options = PronunciationOptions
    metrics = ("word_error_rate", "phone_error_rate")

    def splits(self, seed: int, validation_items: int = 1000) -> Splits:
        """Read the three files; the pairs are cleaned as every input of a model is."""
        start = self.options.folder / self.options.word_language
        files = {"train": f"{start}_train.tsv", "valid": f"{start}_dev.tsv", "test": f"{start}_test.tsv"}
        parts = {part: read_pairs(file) for part, file in files.items()}
        settings = {"kind": "pronunciation", "options": encode(self.options)}
        return FiniteSplits(parts, seed, settings, self.options.word_language)

    def tokenizer(self, splits: Splits) -> SeparateTokenizer:
        """Divide sources into letters, so that 감 is three, and targets at their spaces."""
        pairs = splits.sample()
        sources = LetterTokenizer(pair.source for pair in pairs)
        return SeparateTokenizer(sources, WordTokenizer(pair.target for pair in pairs))

    def test_items(self, quick: bool) -> int | None:
        """Test on the complete file."""
        return None

    def recipe(self, quick: bool) -> TrainingConfig:
        """Train on all words in every epoch."""
        return replace(TrainingConfig(epochs=2 if quick else 40, batch_size=64, lr=2e-3), schedule="cosine")
