"""The pairs of the translation task in three parts: embedded phrases, files, or a dataset on the Hub."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any

from selfattn.cli.given_options import chosen_columns
from selfattn.cli.translation_options import TranslationData
from selfattn.data.corpus.cleaning import CleaningOptions
from selfattn.data.corpus.corpus import read_corpus
from selfattn.data.corpus.hub import HubCorpus
from selfattn.data.corpus.sources import CorpusFiles
from selfattn.data.corpus.stream import PairStream
from selfattn.data.pairs import Pair
from selfattn.data.phrases.source import CldrSource
from selfattn.data.shuffling import shuffled_passes
from selfattn.errors import UserError
from selfattn.runs.splits import PairData

_LOOKED_THROUGH = 1_000_000  # pairs of a corpus that subwords are made of
_SAMPLE = 20_000  # embedded phrases that the vocabulary and the longest output are taken from


class EmbeddedPhrases(PairData):
    """Phrases of CLDR, without end: every epoch is new; no two parts share a source or a target.

    Args:
        source: locale of the sources.
        target: locale of the targets.
        seed: of the training pairs; validation and test are the same for every seed.
    """

    def __init__(self, source: str, target: str, seed: int) -> None:
        self.source, self.target = source, target
        self._train = CldrSource(source, target, seed=seed, split="train")

    @property
    def settings(self) -> dict[str, Any]:
        """The locales."""
        return {"kind": "cldr", "source_language": self.source, "target_language": self.target}

    def sample(self) -> Sequence[Pair]:
        """Training pairs of seed 0."""
        return _sample(self.source, self.target)

    def train(self, epoch: int, count: int | None) -> list[Pair]:
        """Pairs that no epoch before had by design; `count` must be given."""
        if count is None:
            raise UserError("the embedded phrases are endless: give --items-per-epoch")
        return self._train.pairs(count, start=epoch * count)

    def validation(self, count: int) -> list[Pair]:
        """The first different pairs of the part ``valid``."""
        return _different(CldrSource(self.source, self.target, seed=0, split="valid"), count)

    def test(self, count: int | None) -> list[Pair]:
        """The first different pairs of the part ``test``; `count` must be given."""
        if count is None:
            raise UserError("the embedded phrases are endless: say how many to test on")
        return _different(CldrSource(self.source, self.target, seed=0, split="test"), count)

    def known(self) -> Sequence[Pair] | None:
        """Nothing: the parts share no sentence."""
        return None


class CorpusPairs(PairData):
    """A corpus of real text, cleaned, in three parts.

    Args:
        options: say where it lies.
        seed: of the order in which an epoch that is not the whole corpus goes through it.
    """

    def __init__(self, options: TranslationData, seed: int) -> None:
        columns = chosen_columns(options.columns)
        corpus: CorpusFiles | HubCorpus
        if options.hub is not None:
            corpus = HubCorpus(options.hub, options.hub_config, columns or (options.source, options.target))
        else:
            corpus = CorpusFiles(options.train, options.valid or None, options.test or None, columns)
        self.parts = read_corpus(
            corpus,
            cleaning=_cleaning(options),
            streaming=options.streaming,
            held_out=options.held_out,
            split_seed=options.split_seed,
        )
        self.options, self.seed = options, seed

    @property
    def settings(self) -> dict[str, Any]:
        """Where it lies, what was done to it, and the languages."""
        languages = {"source_language": self.options.source, "target_language": self.options.target}
        return {"kind": "corpus"} | languages | self.parts.settings

    @property
    def notes(self) -> Sequence[str]:
        """What cleaning and splitting did."""
        return self.parts.report.lines()

    def sample(self) -> Sequence[Pair]:
        """The first training pairs: enough to make subwords of."""
        return list(islice(self.parts.train, _LOOKED_THROUGH))

    def train(self, epoch: int, count: int | None) -> Iterable[Pair]:
        """All of the training part, or the next `count` of an endless run through it in ever new order."""
        train = self.parts.train
        if count is None:
            return train
        if isinstance(train, PairStream):
            raise UserError(
                "--items-per-epoch (which --quick sets): a stream is read as a whole; leave it out, and give "
                "--max-steps and --validate-every"
            )
        return list(islice(shuffled_passes(train, self.seed, start=epoch * count), count))

    def validation(self, count: int) -> list[Pair]:
        """The first pairs of the validation part."""
        return list(islice(self.parts.valid, count))

    def test(self, count: int | None) -> list[Pair]:
        """The test part."""
        return list(islice(self.parts.test, count))

    def known(self) -> Sequence[Pair] | None:
        """The training part; None where it is a stream."""
        return None if isinstance(self.parts.train, PairStream) else self.parts.train


def _cleaning(options: TranslationData) -> CleaningOptions:
    usual = CleaningOptions()
    return CleaningOptions(
        spaces=options.plain_spaces,
        max_characters=usual.max_characters if options.max_characters is None else options.max_characters or None,
        max_ratio=usual.max_ratio if options.max_ratio is None else options.max_ratio or None,
        duplicates=not options.keep_duplicates,
        overlap=not options.keep_overlap,
    )


def _different(source: CldrSource, count: int) -> list[Pair]:
    """Draw until there are so many pairs with different sources: an item that comes twice would count twice."""
    found: dict[str, Pair] = {}
    start = 0
    while len(found) < count:
        for pair in source.pairs(count, start=start):
            found.setdefault(pair.source, pair)
        start += count
    return list(found.values())[:count]


@lru_cache(maxsize=8)
def _sample(source: str, target: str) -> list[Pair]:
    return CldrSource(source, target, seed=0, split="train").pairs(_SAMPLE)
