"""A language model on plain text."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from selfattn.data.readers.groups import refuse_repeats
from selfattn.data.readers.lines import checked_encoding, file_sha256, read_texts
from selfattn.data.splits import hold_out
from selfattn.errors import SettingError
from selfattn.models.config import ModelConfig
from selfattn.results.subject import Subject
from selfattn.runs.task import LEARNED, TextData, Texts
from selfattn.settings import Condition, Count, check_options, excludes, needs
from selfattn.tasks.baselines import subject_of
from selfattn.tasks.dates import Dates
from selfattn.tokenizers.load import SUBWORDS, TokenizerKind, open_tokenizer, train_tokenizer
from selfattn.tokenizers.protocol import Tokenizer
from selfattn.training.config import TrainingConfig

SPACE = ("lr=1e-3..1.6e-2:log", "batch_size=8,16,32,64", "warmup=0.05..0.4")
LINES = 5000  # generated texts for training, and for the test


@dataclass(frozen=True, kw_only=True)
class TextOptions:
    """Which texts are read.

    Attributes:
        data: Text file, one text per line; plain or packed. Default: 5,000 generated lines, each a date as people write
            it and in ISO form.
        valid: Validation text. Default: a tenth of the distinct lines, at most --validation-items.
        encoding: Encoding of the files, such as latin-1 or cp949. Default: UTF-8, or what a byte order mark says.
        context: Longest training window, in tokens. Longer lines are split.
        tokenizer: Token type (words: divided at spaces), or the directory of a tokenizer or a SentencePiece model.
            Default: characters.
        vocab_size: Subword vocabulary size. Default: 8,000; fewer for few texts, more for many characters.
    """

    conditions: ClassVar[tuple[Condition, ...]] = (
        needs("`data`", lambda options: options.data is not None, "valid", "encoding"),
        needs("`tokenizer` bpe", lambda options: options.tokenizer in SUBWORDS, "vocab_size"),
    )

    data: Path | None = None
    valid: Path | None = None
    encoding: str | None = None
    context: Count = 256
    tokenizer: TokenizerKind | Path | None = None
    vocab_size: Count | None = None

    def __post_init__(self) -> None:
        checked_encoding(self.encoding)
        check_options(self)


@dataclass(frozen=True, kw_only=True)
class TextTestOptions:
    """Which texts models are compared on.

    Attributes:
        test: Test text, for a comparison on your own data. Default: a tenth of the distinct training lines.
    """

    test: Path | None = None


class LanguageModel(TextData):
    """Predict the next token of a text."""

    name = "lm"
    Options = TextOptions
    TestOptions = TextTestOptions
    train_help = """Train a language model on the characters or subwords of a text file.

    The model must be decoder-only. The weights with the lowest validation perplexity are kept.
    """
    compare_help = """Compare language models by bits per character, on a text file or on generated lines.

    All models are decoder-only, have the same size, tokens, batches and tuning, and are tested on the same unseen
    lines.
    """
    model = "decoder-only"
    models = ("decoder-only", "decoder-only-rnn", "decoder-only-linear", "decoder-only-delta-hybrid")
    tuning_space = SPACE  # batches by lines: of short lines, the limit in tokens changes nothing
    max_input = 65_536  # it reads only the end of a beginning
    options: TextOptions
    test_options: TextTestOptions

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.context = self.options.context
        if self.test_options.test is not None and self.options.data is None:
            raise SettingError("`test`: give training texts with `data` as well")

    def recipe(self, quick: bool) -> TrainingConfig:
        """Return a recipe with batches by tokens."""
        recipe = TrainingConfig(epochs=10, batch_size=64, max_tokens=16_384, lr=4e-3, schedule="cosine")
        return replace(recipe, epochs=2, items_per_epoch=2_000, validation_items=200) if quick else recipe

    @classmethod
    def subject(cls) -> Subject:
        """Return the words of the report; the question is about all models."""
        return replace(subject_of(cls.name), pair=None)

    def training_conditions(self) -> tuple[Condition, ...]:
        """Return that a validation text is read completely."""
        return (excludes("`valid`", lambda config: self.options.valid is not None, "validation_items"),)

    def check_model(self, config: ModelConfig, name: str) -> None:
        """Raise unless the model is a causal decoder."""
        if not config.reads_one_sequence:
            raise SettingError(f"`model` {name}: does not read in one direction only; take decoder-only")

    def texts(self, validation_items: int) -> Texts:
        """Read the lines of the files, or hold out some of them."""
        options = self.options
        if options.data is None:
            return _generated(validation_items, options.context)
        encoding = checked_encoding(options.encoding)
        test_file = self.test_options.test
        train = read_texts(options.data, encoding)
        refuse_repeats([file for file in (options.data, options.valid, test_file) if file is not None])
        if options.valid is None:
            train, valid = hold_out(train, lambda line: line, validation_items)
        else:
            valid = read_texts(options.valid, encoding)
        if not valid:
            raise SettingError(f"{options.data}: fewer than 10 different lines; give more, or a file with `valid`")
        sources: dict[str, Any] = {}
        for part, file in (("train", options.data), ("valid", options.valid), ("test", test_file)):
            if file is not None:
                sources[part] = {"files": [{"path": str(file), "sha256": file_sha256(file)}]}
                if encoding is not None:
                    sources[part]["encoding"] = encoding
        settings = {
            "kind": "text",
            "sources": sources,
            "lines": len(train),
            "valid_lines": len(valid),
            "context": options.context,
        }
        return Texts(train, valid, settings, () if test_file is None else read_texts(test_file, encoding))

    def vocabulary_origin(self) -> str:
        """Say where the vocabulary comes from."""
        kind = self.options.tokenizer
        return f"of {kind}" if isinstance(kind, Path) else LEARNED

    def text_tokenizer(self, texts: Sequence[str]) -> Tokenizer:
        """Learn characters, words or subwords, or open a tokenizer that is there."""
        kind = self.options.tokenizer or "characters"
        if isinstance(kind, Path):
            return open_tokenizer(kind)
        return train_tokenizer(kind, texts, self.options.vocab_size)


def _generated(validation_items: int, context: int) -> Texts:
    """Write dates of the task dates as lines; validation and test have days of their own."""
    splits = Dates().splits(0)
    parts = (splits.train(0, LINES), splits.validation(validation_items), splits.test(LINES))
    train, valid, test = ([f"{pair.source} = {pair.target}" for pair in part] for part in parts)
    return Texts(train, valid, {"kind": "generated", "lines": LINES, "context": context}, test)


if __name__ == "__main__":  # `python -m tasks.lm` is `selfattn train lm`
    sys.argv[1:1] = ["train", LanguageModel.name]
    runpy.run_module("selfattn.cli", run_name="__main__")
