"""A language model on plain text."""

from __future__ import annotations

import math
import runpy
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from selfattn.data.pairs import Pair
from selfattn.data.readers.containers import file_sha256
from selfattn.data.readers.groups import refuse_repeats
from selfattn.data.readers.lines import checked_encoding, read_texts
from selfattn.data.readers.records import Columns
from selfattn.data.splits import Splits, hold_out, repeated
from selfattn.decoding.options import GREEDY, DecodingOptions
from selfattn.errors import SettingError, UserError
from selfattn.models.config import ModelConfig
from selfattn.runs.task import Task
from selfattn.settings import Condition, Count, changed, check_bounds, check_conditions, excludes, needs
from selfattn.tokenizers.load import TokenizerKind, train_tokenizer
from selfattn.training.config import TrainingConfig

if TYPE_CHECKING:
    from selfattn.data.pairs import Example
    from selfattn.decoding.texts import Output
    from selfattn.runs.trained import TrainedModel
    from selfattn.runs.training_set import TrainingSet


@dataclass(frozen=True, kw_only=True)
class TextOptions:
    """Which texts are read.

    Attributes:
        data: Text file, one text per line; plain or packed.
        valid: Validation text. Default: a tenth of the distinct lines, at most --validation-items.
        encoding: Encoding of the files, such as latin-1 or cp949. Default: UTF-8, or what a byte order mark says.
        context: Longest training window, in tokens. Longer lines are split.
        tokenizer: Token type: characters, or subwords by unigram or BPE. Default: characters.
        vocab_size: Subword vocabulary size. Default: 8,000; fewer for few texts, more for many characters.
    """

    conditions: ClassVar[tuple[Condition, ...]] = (
        needs("`tokenizer` bpe", lambda options: options.tokenizer not in (None, "characters"), "vocab_size"),
    )

    data: Path
    valid: Path | None = None
    encoding: str | None = None
    context: Count = 256
    tokenizer: TokenizerKind | None = None
    vocab_size: Count | None = None

    def __post_init__(self) -> None:
        checked_encoding(self.encoding)
        check_bounds(self)
        check_conditions(changed(self), self, self.conditions)


class LanguageModel(Task):
    """Predict the next token of a text."""

    name = "lm"
    Options = TextOptions
    train_help = """Train a language model on the characters or subwords of a text file.

    The model must be decoder-only. The weights with the lowest validation perplexity are kept.
    """
    model = "decoder-only"
    takes_pairs = False
    max_input = 65_536  # it reads only the end of a beginning
    options: TextOptions

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any], where: str) -> Self:
        """Return the task of a run."""
        match settings:
            case {"path": str(path), "context": int(context)}:
                return cls(data=Path(path), context=context, encoding=settings.get("encoding"))
        raise UserError(f"{where}: data: not the settings of a language model; restore the file or train again")

    def recipe(self, quick: bool) -> TrainingConfig:
        """Return a recipe with batches by tokens."""
        recipe = TrainingConfig(epochs=10, batch_size=64, max_tokens=16_384, lr=4e-3, schedule="cosine")
        return replace(recipe, epochs=2, items_per_epoch=2_000, validation_items=200) if quick else recipe

    def training_conditions(self) -> tuple[Condition, ...]:
        """Return that a validation text is read completely."""
        return (excludes("`valid`", lambda config: self.options.valid is not None, "validation_items"),)

    def check_model(self, config: ModelConfig, name: str) -> None:
        """Raise unless the model is a causal decoder."""
        if not config.reads_one_sequence:
            raise SettingError(f"`model` {name}: does not read in one direction only; take decoder-only")

    def training_set(
        self, training: TrainingConfig, splits: Splits | None = None, *, first: int | None = None, keep: bool = False
    ) -> TrainingSet:
        """Cut the lines into windows. The lowest perplexity chooses the best weights."""
        from selfattn.decoding.scoring import text_examples
        from selfattn.runs.training_set import TrainingSet
        from selfattn.training.validation import Criterion

        if training.target_exact_match is not None:
            raise SettingError("`target_exact_match`: a language model has no exact match; leave it out")
        options = self.options
        encoding = checked_encoding(options.encoding)
        if options.valid is None:
            train, valid = hold_out(read_texts(options.data, encoding), lambda line: line, training.validation_items)
        else:
            refuse_repeats((options.data, options.valid))
            train = read_texts(options.data, encoding)
            valid = read_texts(options.valid, encoding)
        if not valid:
            raise SettingError(f"{options.data}: fewer than 10 different lines; give more, or a file with `valid`")
        tokenizer = self._tokenizer or train_tokenizer(options.tokenizer or "characters", train, options.vocab_size)
        windows, validation = (text_examples(lines, tokenizer, options.context) for lines in (train, valid))

        sides = [[Pair("", line) for line in lines] for lines in (train, valid)]
        notes = self.unknown_notes(tokenizer, *sides)

        def epoch(number: int) -> Sequence[Example]:
            count = training.items_per_epoch
            return windows if count is None else repeated(windows, count, start=number * count, seed=training.seed)

        return TrainingSet(
            tokenizer,
            epoch,
            validation,
            Criterion(lambda model, loss, _: {"perplexity": math.exp(loss)}, "perplexity", higher_is_better=False),
            longest=max([*windows, *validation], key=lambda example: len(example.target)),
            max_length=options.context,
            settings={
                "kind": "text",
                "path": str(options.data.resolve()),
                "sha256": file_sha256(options.data),
                "valid": None if options.valid is None else str(options.valid.resolve()),
                "lines": len(train),
                "valid_lines": len(valid),
                "context": options.context,
            }
            | ({} if encoding is None else {"encoding": encoding}),
            notes=notes,
        )

    def evaluate(
        self,
        run: TrainedModel,
        data: Sequence[Path],
        options: DecodingOptions,
        columns: Columns,
        against: TrainedModel | None = None,
        encoding: str | None = None,
    ) -> dict[str, Any]:
        """Measure the perplexity of a run on a text.

        Args:
            run: a language model.
            data: a text file, one text a line; must be given.
            options: how to decode: greedily, for nothing is decoded.
            columns: none.
            against: none.
            encoding: of the file; see `selfattn.data.readers.lines.lines_of`.

        Returns:
            Plain JSON values: ``task``, ``run``, ``model``, ``data``, ``items`` (lines), ``characters``, ``tokens``,
            ``context``, ``metrics`` (``perplexity`` a token, ``bits_per_character`` and ``loss`` in nats a token) and
            ``unknown_characters``.

        Raises:
            UserError: the file is missing or not usable, or something is asked for that only pairs have.
        """
        from selfattn.decoding.scoring import score_texts

        if columns is not None or options != GREEDY:
            raise SettingError("evaluate: a language model reads no pairs and decodes nothing; leave the option out")
        if len(data) != 1:
            raise SettingError("evaluate: a language model is measured on one file of texts; give it with `data`")
        lines = read_texts(data[0], encoding)
        scores = score_texts(run.model, run.tokenizer, lines, context=run.config.max_length)
        metrics = {
            "perplexity": scores.perplexity,
            "bits_per_character": scores.bits_per_character,
            "loss": -scores.per_token,
        }
        return run.about(data[0]) | {
            "items": len(lines),
            "characters": scores.characters,
            "tokens": scores.tokens,
            "context": run.config.max_length,
            "metrics": metrics,
            "unknown_characters": run.unknown(lines).total(),
        }

    @classmethod
    def decode(
        cls, run: TrainedModel, texts: Sequence[str], options: DecodingOptions, first: int
    ) -> list[list[Output]]:
        """Continue each text; see `selfattn.decoding.texts.continue_texts`."""
        from selfattn.decoding.texts import continue_texts

        length = run.config.max_length
        return continue_texts(run.model, run.tokenizer, texts, options, context=length, first=first)


if __name__ == "__main__":  # `python -m tasks.lm` is `selfattn train lm`
    sys.argv[1:1] = ["train", LanguageModel.name]
    runpy.run_module("selfattn.cli", run_name="__main__")
