"""The options of the translation task: where pairs come from, how they are cut, and how models are tested."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge, Le

from selfattn.data.readers.lines import checked_encoding
from selfattn.errors import SettingError
from selfattn.settings import (
    MAX_NUMBER,
    Condition,
    Count,
    CountOrZero,
    Seed,
    Share,
    check,
    check_options,
    excludes,
    needs,
    shown,
)
from selfattn.tokenizers.load import SUBWORDS, TokenizerKind

_LARGEST_WEIGHT = 1_000_000
_BPE = "`tokenizer` bpe, or `source_tokenizer` or `target_tokenizer` bpe"
_EACH_SIDE = "a tokenizer for each side (`source_tokenizer`, `target_tokenizer`)"
_CLEANING = ("held_out", "split_seed", "max_characters", "max_ratio", "keep_overlap", "keep_duplicates")


@dataclass(frozen=True, kw_only=True)
class TranslationOptions:
    """Where pairs come from, and what tokens they are cut into.

    Attributes:
        source: Source language, such as en. Code or English name; for CLDR phrases, any locale.
        target: Target language, such as ko. Decides how BLEU cuts words.
        data: Files of pairs (TSV, CSV, JSON lines), or source and target files in turn, plain or packed.
        weights: Weights of the corpora in --data, such as 3,1: shares of the pairs of an epoch. Default: their sizes.
        temperature: Draw corpora of n pairs in proportion to n^(1/T): 1 leaves the sizes, 5 favours small ones.
        valid: Validation files. Default: sentences held out from --data.
        test: Test files; several sets as NAME=FILE, of which the first decides. Default: held out from --data.
        tag: Column, by name or number, that divides test pairs into groups, such as cases or languages.
        hub: Dataset on the Hugging Face Hub, or its directory, instead of files.
        hub_config: Configuration of the Hub dataset.
        columns: Source and target column, by name or number, separated by a comma.
        encoding: Encoding of the files, such as latin-1 or cp949. Default: UTF-8, or what a byte order mark says.
        streaming: Read the training data during the training, in constant memory.
        held_out: Pairs per held-out part. Default: 5 % of all, at most 2,000.
        split_seed: Seed of the held-out split. Independent of --seed.
        max_characters: Longest training text, in characters. 0: no limit.
        max_ratio: Largest length ratio of a training pair, relative to the usual ratio. 0: no limit.
        keep_overlap: Keep training pairs that share a text with validation or test.
        keep_duplicates: Keep repeated training pairs.
        tokenizer: Token type (letters: characters taken apart, words: divided at spaces), or the directory of a
            tokenizer or a SentencePiece model. Default: characters for CLDR phrases, else BPE.
        source_tokenizer: Token type of the sources; that of the targets stays --tokenizer, if it is not given too.
        target_tokenizer: Token type of the targets, such as words for phones with spaces between; see the sources'.
        vocab_size: Subword vocabulary size. Default: 8,000, or 2,000 below 10,000 pairs; more for many characters.
        separate: Learn one vocabulary per language instead of a joint one.
        keep_symbols: File of symbols that are never divided, one a line. A /pattern/ between slashes is copied.
        sampling: Subword regularisation while training (BPE-dropout or unigram sampling). 0: none.
    """

    groups: ClassVar[Mapping[str, Sequence[str]]] = {
        "Data (default: CLDR phrases)": (
            *("valid", "test", "tag", "hub", "hub_config", "columns", "encoding", "streaming"),
            *("weights", "temperature"),
        ),
        "Cleaning and splitting of files and Hub datasets": _CLEANING,
        "Tokens": (
            *("tokenizer", "source_tokenizer", "target_tokenizer", "vocab_size", "separate"),
            *("keep_symbols", "sampling"),
        ),
    }
    conditions: ClassVar[tuple[Condition, ...]] = (
        excludes("`data`", lambda options: options.data, "hub"),
        needs("`data`", lambda options: options.data, "valid", "test", "tag", "encoding"),
        needs("several corpora as `data`", lambda options: len(options.data) > 1, "weights", "temperature"),
        needs("`hub`", lambda options: options.hub is not None, "hub_config"),
        needs("`data` or `hub`", lambda options: not options.is_cldr, "columns", "streaming", *_CLEANING),
        needs(_BPE, lambda options: set(options.kinds) & set(SUBWORDS), "vocab_size"),
        needs(_BPE, lambda options: set(options.kinds) - {"characters", "letters", "words"}, "sampling"),
        excludes("a directory as `tokenizer`", lambda options: isinstance(options.tokenizer, Path), "separate"),
        excludes("a directory as `tokenizer`", lambda options: options.opens_tokenizer, "keep_symbols"),
        excludes(_EACH_SIDE, lambda options: None not in options.of_sides, "tokenizer"),
        excludes(_EACH_SIDE, lambda options: options.of_sides != (None, None), "separate"),
        excludes("`streaming`", lambda options: options.streaming, "keep_duplicates", "weights", "temperature"),
        excludes("`keep_duplicates`", lambda options: options.keep_duplicates, "weights", "temperature"),
        excludes("`weights`", lambda options: options.weights, "temperature"),
    )

    source: str = "en"
    target: str = "ko"
    data: tuple[Path, ...] = ()
    weights: tuple[float, ...] = ()
    temperature: Annotated[float, Ge(1), Le(1000)] | None = None
    valid: tuple[Path, ...] = ()
    test: tuple[Path, ...] = ()
    tag: str | None = None
    hub: str | None = None
    hub_config: str | None = None
    columns: tuple[str, ...] = ()
    encoding: str | None = None
    streaming: bool = False
    held_out: Count | None = None
    split_seed: Seed = 0
    max_characters: CountOrZero = 1000
    max_ratio: float = 3.0
    keep_overlap: bool = False
    keep_duplicates: bool = False
    tokenizer: TokenizerKind | Path | None = None
    source_tokenizer: TokenizerKind | Path | None = None
    target_tokenizer: TokenizerKind | Path | None = None
    vocab_size: Count | None = None
    separate: bool = False
    keep_symbols: Path | None = None
    sampling: Share = 0.0

    @property
    def is_mixed(self) -> bool:
        """Whether the corpora have shares of their own in the training."""
        return bool(self.weights) or self.temperature is not None

    @property
    def is_cldr(self) -> bool:
        """Whether the data are the generated phrases."""
        return not self.data and self.hub is None

    @property
    def of_sides(self) -> tuple[TokenizerKind | Path | None, TokenizerKind | Path | None]:
        """The tokenizers that were chosen for one side: of the sources, of the targets."""
        return self.source_tokenizer, self.target_tokenizer

    @property
    def opens_tokenizer(self) -> bool:
        """Whether a tokenizer is opened that is there."""
        return any(isinstance(kind, Path) for kind in self.kinds)

    @property
    def is_separate(self) -> bool:
        """Whether sources and targets have vocabularies of their own."""
        return self.separate or self.of_sides != (None, None)

    @property
    def kinds(self) -> tuple[TokenizerKind | Path, TokenizerKind | Path]:
        """The kinds of tokens of sources and targets, or the paths of tokenizers."""
        usual = self.tokenizer or ("characters" if self.is_cldr else "bpe")
        return self.source_tokenizer or usual, self.target_tokenizer or usual

    def __post_init__(self) -> None:
        from selfattn.data.languages import read_language

        for name in ("source", "target"):
            try:
                read_language(getattr(self, name))
            except SettingError as error:
                raise SettingError(f"`{name}`: {error}") from None
        check_options(self)
        checked_encoding(self.encoding)
        for weight in self.weights:
            if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 < weight <= _LARGEST_WEIGHT:
                raise SettingError(f"`weights`: expected numbers in (0, {_LARGEST_WEIGHT:,}], got {shown(weight)}")
        expected = f"a number in [1, {MAX_NUMBER:g}], or 0 for no limit"
        check(self, "max_ratio", float, lambda x: x == 0 or 1 <= x <= MAX_NUMBER, expected)


@dataclass(frozen=True, kw_only=True)
class TranslationTests:
    """How compared models are tested.

    Attributes:
        beam: Beam size for the test. Default: 1 (greedy) for CLDR phrases, else 5.
        length_penalty: Length penalty for the test. Default: 0 for CLDR phrases, else 1.
        gold: Word alignments to score attention against, as in `selfattn align --gold`.
        sentences: Tokenised sentences of --gold: one file of source ||| target, or two parallel files.
        base: First word index in --gold, 0 or 1. Default: detected.
        baseline: Published baseline as metric=value, such as bleu=30. Runs below it are reported.
        baseline_source: Source of the baseline, for the report.
    """

    groups: ClassVar[Mapping[str, Sequence[str]]] = {
        "Test": ("beam", "length_penalty", "gold", "sentences", "base", "baseline", "baseline_source")
    }
    conditions: ClassVar[tuple[Condition, ...]] = (
        needs("`gold`", lambda options: options.gold is not None, "sentences", "base"),
        needs("`baseline`", lambda options: options.baseline is not None, "baseline_source"),
    )

    beam: int | None = None
    length_penalty: float | None = None
    gold: Path | None = None
    sentences: tuple[Path, ...] = ()
    base: Literal[0, 1] | None = None
    baseline: str | None = None
    baseline_source: str | None = None

    def __post_init__(self) -> None:
        check_options(self)
