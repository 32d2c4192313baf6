"""The translation task: generated phrases of CLDR, files, or a dataset of the Hub."""

import runpy
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from annotated_types import Ge, Le

from selfattn.data.readers.groups import named_sets, refuse_repeats, refuse_swapped
from selfattn.data.readers.lines import checked_encoding, read_kept
from selfattn.data.readers.pairs import PairFiles, PairSource
from selfattn.data.readers.rows import chosen_columns
from selfattn.data.splits import Mixture, Splits
from selfattn.decoding.options import DecodingOptions
from selfattn.errors import SettingError, number_of
from selfattn.evaluation.links import GoldPair, read_gold
from selfattn.models.config import ModelConfig, override
from selfattn.results.subject import Baseline, Subject
from selfattn.runs.task import LEARNED, NO_FILES, RECIPE, HeldOut, TaskData
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
from selfattn.tasks import baselines
from selfattn.tokenizers.kept import KeptTokenizer, without_kept
from selfattn.tokenizers.listed import ListedTokenizer
from selfattn.tokenizers.load import SUBWORDS, SeparateTokenizer, TokenizerKind, open_tokenizer, train_tokenizer
from selfattn.tokenizers.protocol import Tokenizer
from selfattn.training.config import TrainingConfig

_LARGEST_WEIGHT = 1_000_000
_BPE = "`tokenizer` bpe, or `source_tokenizer` or `target_tokenizer` bpe"
_EACH_SIDE = "a tokenizer for each side (`source_tokenizer`, `target_tokenizer`)"
_CLEANING = ("held_out", "split_seed", "max_characters", "max_ratio", "keep_overlap", "keep_duplicates")
SENTENCES = TrainingConfig(
    epochs=60,
    batch_size=1024,
    max_tokens=4096,
    lr=4e-3,
    schedule="cosine",
    label_smoothing=0.1,
    average="last",
    average_last=10,
)
# Fewer pairs give too few steps and too few repetitions of a subword: measured in docs/log.md, "Small corpora".
SMALL = 10_000
FEW_SENTENCES = replace(SENTENCES, max_tokens=1024)
_FEW_SUBWORDS = 2000
# The comparison on phrases, by the pilot in docs/log.md, whose seeds are others. Each model has a range of the same
# width, a factor of three, around its best rate in the pilot; models that the pilot did not try have the first one.
UNTIL = 0.9
AT_MOST = 80_000
SPACE = (
    "lr=2e-3..6e-3:log",
    "rnn-attention:lr=6e-3..1.8e-2:log",
    "transformer:lr=1.2e-3..3.6e-3:log",
    "transformer-rope:lr=1.6e-3..4.8e-3:log",
)
FIRST_SEED = 540
# Where data are few, dropout matters too.
SMALL_SPACE = ("lr=1e-3..1.6e-2:log", "max_tokens=512,1024,2048", "warmup=0.05..0.4", "dropout=0.1..0.4")
_PHRASES = """Without --data, models translate phrases that are generated from the Unicode CLDR: dates, times, units,
prices and lists. Nothing is downloaded."""


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


class Translation(TaskData):
    """Translate phrases or sentences from one language into another."""

    name = "translation"
    Options = TranslationOptions
    TestOptions = TranslationTests
    train_help = f"Train one model to translate.\n\n{_PHRASES}"
    compare_help = f"Compare models: train each, test on unseen sentences, write the report.\n\n{_PHRASES}"
    models = ()
    match = "parameters"
    has_words = True
    options: TranslationOptions
    test_options: TranslationTests

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        options = self.options
        tests = self.test_options
        self.is_stream = options.streaming
        self.language = options.target
        self.stated_baseline = baselines.stated_baseline(tests.baseline, tests.baseline_source, options.target)
        self.validated = 1 if options.is_cldr else 2  # exact match, and of sentences BLEU
        beam = tests.beam
        if beam is None:  # greedy for phrases, a beam for sentences
            beam = 1 if options.is_cldr else 5
        usual = 0.0 if options.is_cldr or beam == 1 else 1.0
        penalty = usual if tests.length_penalty is None else tests.length_penalty
        self.decoding = DecodingOptions(beam=beam, length_penalty=penalty)

    def splits(self, seed: int, validation_items: int = 1000) -> Splits:
        """Return the phrases, or read the corpus."""
        options = self.options
        if options.is_cldr:
            from selfattn.data.phrases import EmbeddedPhrases

            return EmbeddedPhrases(options.source, options.target, seed)
        from selfattn.data.corpus import CleaningOptions, read_corpus
        from selfattn.data.hub import hub_sources

        columns = chosen_columns(options.columns)
        languages = (options.source, options.target)
        tests = named_sets(options.test, "test")
        for paths in (options.data, options.valid, *tests.values()):
            refuse_swapped(paths, columns, languages)
        cleaning = CleaningOptions(
            max_characters=options.max_characters or None,
            max_ratio=options.max_ratio or None,
            duplicates=not options.keep_duplicates,
            overlap=not options.keep_overlap,
        )
        deciding = next(iter(tests), "")
        sources: Mapping[str, PairSource]
        further: dict[str, PairFiles] = {}
        mixture = None
        if options.hub is None:
            if options.is_mixed:
                mixture = self._mixture()
            further = {name: self._files(paths) for name, paths in tests.items()}
            files = {"train": self._training_files, "valid": self._files(options.valid)}
            files["test"] = further.pop(deciding, self._files(()))
            held_out = [files["valid"], files["test"], *further.values()]
            learned = list(chain.from_iterable(of_part.files for of_part in held_out))
            contents = {file.path: file.content_sha256 for file in learned}
            refuse_repeats([file.path for file in learned], contents.__getitem__)
            for part in ("train", "valid") if options.test else ("valid",):
                # Parts that no test pair comes from may lack the column of tags.
                if options.tag is not None and files[part].paths and not files[part].has_tags():
                    files[part] = replace(files[part], tag=None)
            sources = {part: of_part for part, of_part in files.items() if of_part.paths}
        else:
            sources = hub_sources(options.hub, options.hub_config, columns or languages, streaming=options.streaming)
        splitting: dict[str, Any] = {name: getattr(options, name) for name in ("streaming", "held_out", "split_seed")}
        splitting |= {"cleaning": cleaning, "test_set": deciding, "further": further, "mixture": mixture}
        return read_corpus(sources, languages, seed, **splitting)

    def _files(self, paths: Sequence[Path]) -> PairFiles:
        options = self.options
        return PairFiles(tuple(paths), chosen_columns(options.columns), options.encoding, options.tag)

    @cached_property
    def _training_files(self) -> PairFiles:
        return self._files(self.options.data)

    def _mixture(self) -> Mixture:
        """Return the shares of the corpora: each is a file of pairs, or a source file with its target file."""
        options = self.options
        labels = self._training_files.corpora
        if len(labels) < 2:
            name = "weights" if options.weights else "temperature"
            raise SettingError(f"`{name}`: there is one corpus, {labels[0]}; give several, or leave it out")
        if options.weights and len(options.weights) != len(labels):
            wrong = f"{number_of(len(options.weights), 'weight')} for {len(labels)} corpora ({'; '.join(labels)})"
            raise SettingError(f"`weights`: {wrong}; give one for each")
        for label in labels:
            if labels.count(label) > 1:
                raise SettingError(f"`data` {label}: two corpora have this name; rename one, so that reports tell them")
        return Mixture(tuple(labels), options.weights, options.temperature)

    def tokenizer(self, splits: Splits) -> Tokenizer:
        """Make the vocabulary from the training texts, or open one that is there."""
        options = self.options
        sample = splits.sample()
        train = partial(train_tokenizer, vocab_size=options.vocab_size)
        if self._is_small:
            train = partial(train, most=_FEW_SUBWORDS)
        lines = None if options.keep_symbols is None else read_kept(options.keep_symbols)

        def tokenizer_of(kind: TokenizerKind | Path, texts: Iterable[str], side: str) -> Tokenizer:
            if not isinstance(kind, Path):
                if lines is None:
                    return train(kind, texts)
                rest = without_kept(texts, lines, of_words=kind == "words")
                return KeptTokenizer(train(kind, rest), lines)
            option = "tokenizer" if getattr(options, f"{side}_tokenizer") is None else f"{side}_tokenizer"
            tokenizer = open_tokenizer(kind, option)
            if options.sampling and isinstance(tokenizer.target, ListedTokenizer):
                raise SettingError(f"`sampling`: the tokens of {kind} have one segmentation; leave it out")
            return tokenizer

        source, target = options.kinds
        if options.is_separate:
            sources = tokenizer_of(source, (pair.source for pair in sample), "source")
            targets = tokenizer_of(target, (pair.target for pair in sample), "target")
            return SeparateTokenizer(sources.source, targets.target)
        return tokenizer_of(source, chain.from_iterable((pair.source, pair.target) for pair in sample), "source")

    def vocabulary_origin(self) -> str:
        """Say where the vocabulary comes from, of each side if they differ."""
        origins = [f"of {kind}" if isinstance(kind, Path) else LEARNED for kind in self.options.kinds]
        source, target = origins
        return source if source == target else f"source: {source}, target: {target}"

    @cached_property
    def _is_small(self) -> bool:
        """Whether the training files, before cleaning, have fewer than `SMALL` lines."""
        options = self.options
        if options.streaming or not options.data:
            return False
        return self._training_files.num_lines < SMALL

    def sampling(self) -> float:
        """Return the strength of subword sampling."""
        return self.options.sampling

    def recipe(self, quick: bool) -> TrainingConfig:
        """Return the recipe for phrases or for sentences."""
        sentences = FEW_SENTENCES if self._is_small else SENTENCES
        recipe = RECIPE if self.options.is_cldr else sentences
        return replace(recipe, epochs=2, items_per_epoch=8_000, validation_items=200) if quick else recipe

    def size(self, config: ModelConfig) -> ModelConfig:
        """Return the preset unchanged for phrases, enlarged for sentences, by one rule for all models.

        Blocks and embeddings get width 128 (the Transformer-Tiny of Wu et al. 2021) and dropout 0.3. Embeddings and
        output share one table, except in RNNs whose output reads state and context side by side. RNN states are three
        times as wide with the shared table. With vocabularies of their own, source and target have a table each.

        Example:
            >>> from selfattn.models.families import get_preset
            >>> large = Translation(data="pairs.tsv").size(get_preset("transformer").config)
            >>> large.encoder.dim, large.decoder.num_layers, large.tie_output
            (128, 4, True)
        """
        if not self.options.is_cldr:
            config = config.enlarged(width=128, dropout=0.3, longest=512)
        shares = self.options.is_separate and getattr(config, "share_embeddings", False)
        return override(config, {"share_embeddings": False}) if shares else config

    def check_languages(self, source: str, target: str) -> None:
        """Check that the languages of a model are those of the options; names of several languages say nothing."""
        from selfattn.data.languages import read_language

        for side, language in (("source", source), ("target", target)):
            chosen = getattr(self.options, side)
            try:
                is_other = read_language(language) != read_language(chosen)
            except SettingError:  # such as "mul" or "deu+eng"
                continue
            if language and is_other:
                raise SettingError(f"`{side}` {chosen}: the model of `init_from` is for {language}; give that")

    def usual_comparison(self) -> dict[str, Any]:
        """Return the default models, budgets, space of the tuning and seeds, for phrases or for sentences.

        Raises:
            SettingError: corpora are mixed; shares of their training would be other data in each budget.
        """
        if self.options.is_mixed:
            name = "weights" if self.options.weights else "temperature"
            raise SettingError(f"`{name}`: is for `selfattn train`, not for comparisons; leave it out")
        usual = super().usual_comparison()
        if self.options.is_cldr:
            usual["models"] = ("rnn-attention", "transformer", "transformer-rope")
            return usual | {"until": UNTIL, "at_most": AT_MOST, "space": SPACE, "first_seed": FIRST_SEED}
        usual["models"] = ("luong-bidirectional", "transformer")
        return usual | ({"space": SMALL_SPACE} if self._is_small else {})

    def test_items(self, quick: bool) -> int | None:
        """Return the default number of phrases; None (the full test part) for a corpus."""
        return super().test_items(quick) if self.options.is_cldr else None

    @classmethod
    def subject(cls) -> Subject:
        """Return the question: Transformer or RNN with attention?"""
        return baselines.subject_of(cls.name)

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of the metrics. Exact match decides for phrases, BLEU for sentences."""
        from selfattn.evaluation.metrics import EXACT_MATCH
        from selfattn.evaluation.translation_metrics import translation_metrics

        scores = translation_metrics(self.options.target)
        return (EXACT_MATCH, *scores) if self.options.is_cldr else (scores[0], EXACT_MATCH, *scores[1:])

    @property
    def gold(self) -> Sequence[GoldPair]:
        """The sentences with word alignments from the option `gold`."""
        if self.test_options.gold is None:
            return ()
        refuse_swapped(self.test_options.sentences, languages=(self.options.source, self.options.target))
        return read_gold(self.test_options.gold, sentences=self.test_options.sentences, base=self.test_options.base)

    def published(self, settings: Mapping[str, Any]) -> Mapping[str, Baseline]:
        """Return the published baselines on these test pairs."""
        test = settings.get("parts", {}).get("test", {})
        return baselines.TRANSLATION.get(test.get("sha256", ""), {})

    def held_out(self, files: PairFiles = NO_FILES) -> HeldOut:
        """Return the pairs to test a run on; cleaning has left out training pairs that share a text with them."""
        refuse_swapped(files.paths, files.columns, (self.options.source, self.options.target))
        return replace(super().held_out(files), known=None)


if __name__ == "__main__":  # `python -m tasks.translation` is `selfattn train translation`
    sys.argv[1:1] = ["train", Translation.name]
    runpy.run_module("selfattn.cli", run_name="__main__")
