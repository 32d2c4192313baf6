"""Corpora of real text: files or a dataset of the Hub, cleaned, in three parts that share no sentence with training.

The test part of a run is made again from its settings.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from selfattn.codec import encode
from selfattn.data.corpus.cache import HELD_OUT, open_cached, write_corpus
from selfattn.data.corpus.cleaning import CleaningOptions, Tally, clean_rows, median_ratio, unlikely
from selfattn.data.corpus.components import digest
from selfattn.data.corpus.hub import hub_sources
from selfattn.data.pairs import Pair
from selfattn.data.readers.lines import file_sha256
from selfattn.data.readers.records import PairSource, chosen_columns, file_sources
from selfattn.data.splits import Splits, repeated
from selfattn.errors import SettingError, UserError

_LOOKED_THROUGH = 1_000_000  # pairs of a corpus that subwords are made of
_SAMPLE = 10_000  # pairs of a stream whose median ratio of lengths is used for all
_ADVICE = "name pairs to test on: `data` SOURCE TARGET, or one file of pairs"


@dataclass(frozen=True, eq=False)
class PairStream:
    """Clean training pairs in the order of the source, read and cleaned again on every pass.

    Attributes:
        source: read from the start by every iterator.
        options: what to clean; `duplicates` does not apply.
        length_ratio: expected characters of target for one of source; None without a limit.
        held_out: digests of the sources, and of the targets, that are left out (`components.digest`).
    """

    source: PairSource
    options: CleaningOptions
    length_ratio: float | None
    held_out: tuple[frozenset[int], frozenset[int]] = (frozenset(), frozenset())

    def __iter__(self) -> Iterator[Pair]:
        """Read the pairs from the start."""
        rows = clean_rows(self.source.rows(), self.options, Tally("train", self.source.label), limited=True)
        for _, source, target in rows:
            expected, limit = self.length_ratio, self.options.max_ratio
            if expected and limit and unlikely(len(source), len(target), expected, limit):
                continue
            if digest(source) not in self.held_out[0] and digest(target) not in self.held_out[1]:
                yield Pair(source, target)


@dataclass(frozen=True)
class CleanCorpus:
    """A clean corpus.

    Attributes:
        train: pairs for training, mapped into memory; or a stream, which can be read repeatedly.
        valid: pairs for validation.
        test: pairs for the test.
        notes: what cleaning did, in lines; for a stream, to valid and test.
        settings: where the pairs come from and what was done to them, as values for JSON.
    """

    train: Sequence[Pair] | PairStream
    valid: Sequence[Pair]
    test: Sequence[Pair]
    notes: Sequence[str]
    settings: dict[str, Any]


def read_corpus(
    sources: Mapping[str, PairSource],
    *,
    cleaning: CleaningOptions | None = None,
    streaming: bool = False,
    held_out: int | None = None,
    split_seed: int = 0,
) -> CleanCorpus:
    """Read and clean a corpus.

    Not streaming, the clean pairs are written to the cache of `datasets` (``HF_DATASETS_CACHE``) and mapped from
    there; the next call with the same files and options reads them from there. Streaming, training pairs are read and
    cleaned again in every epoch and nothing is written. Repeated pairs then stay in, the length ratio is that of the
    first 10,000 pairs, and valid and test must be given; they are kept in memory.

    Args:
        sources: from `file_sources` or `hub_sources`.
        cleaning: default `CleaningOptions()`.
        streaming: see above; default False.
        held_out: pairs to hold out from train for each missing part; default: a twentieth, at most 2,000. No
            sentence is in two parts then, on either side; case, spaces and punctuation are ignored.
        split_seed: of the held-out parts; default 0.

    Raises:
        UserError: something cannot be read, or nothing is left of a part; the message says what to do.
    """
    options = cleaning or CleaningOptions()
    settings: dict[str, Any] = {"cleaning": asdict(options), "streaming": streaming}
    settings["sources"] = {name: source.settings for name, source in sources.items()}
    if len(sources) == 3 and (held_out is not None or split_seed):
        raise SettingError(
            "valid and test are both there, so nothing is held out: leave `held_out` and `split_seed` out"
        )
    if streaming:
        if missing := [name for name in HELD_OUT if name not in sources]:
            raise SettingError(
                f"nothing can be held out from a stream: give {' and '.join(missing)} too, or leave `streaming` out"
            )
        return _open_stream(sources, options, settings)
    if len(sources) < 3:
        settings |= {"held_out": held_out, "split_seed": split_seed}
    parts, record = open_cached(settings, lambda folder: write_corpus(folder, sources, options, held_out, split_seed))
    settings |= {"length_ratio": record.length_ratio, "parts": encode(record.parts)}
    return CleanCorpus(parts["train"], parts["valid"], parts["test"], record.notes, settings)


def _open_stream(sources: Mapping[str, PairSource], options: CleaningOptions, settings: dict[str, Any]) -> CleanCorpus:
    """Read the held-out parts into memory, and the start of train for the ratio of lengths."""
    parts: dict[str, list[Pair]] = {}
    notes, expected = [], None
    for name, source in sources.items():
        tally, limited = Tally(name, source.label), name == "train"
        rows = islice(clean_rows(source.rows(), options, tally, limited=limited), _SAMPLE if limited else None)
        parts[name] = [Pair(source, target) for _, source, target in rows]
        tally.refuse_empty(len(parts[name]))
        notes += [] if limited else tally.lines(len(parts[name]))
    if options.max_ratio is not None:
        expected = median_ratio(*np.array([(len(pair.source), len(pair.target)) for pair in parts["train"]]).T)
        notes.append(f"target length expected: {expected:.2f} characters for one of the source")
    held = [*parts["valid"], *parts["test"]] if options.overlap else []
    digests = frozenset(digest(pair.source) for pair in held), frozenset(digest(pair.target) for pair in held)
    train = PairStream(sources["train"], options, expected, digests)
    return CleanCorpus(train, parts["valid"], parts["test"], notes, settings | {"length_ratio": expected})


class CorpusPairs(Splits):
    """A corpus of real text, cleaned, in three parts.

    Args:
        parts: the clean corpus.
        languages: of source and target.
        seed: of the order in which an epoch that is not the whole corpus goes through it.
    """

    def __init__(self, parts: CleanCorpus, languages: tuple[str, str], seed: int) -> None:
        where = {"kind": "corpus", "source_language": languages[0], "target_language": languages[1]}
        super().__init__(where | parts.settings, f"{_name(parts.settings)}, test part", parts.notes)
        self.parts, self.seed = parts, seed

    def sample(self) -> Sequence[Pair]:
        """Return the first training pairs, for the vocabulary."""
        return list(islice(self.parts.train, _LOOKED_THROUGH))

    def train(self, epoch: int, count: int | None) -> Iterable[Pair]:
        """Return the training part, or the next `count` pairs of an endless run through it in ever new order."""
        train = self.parts.train
        if count is None:
            return train
        if isinstance(train, PairStream):
            raise SettingError(
                "`items_per_epoch` (which `quick` sets): a stream is read as a whole; leave it out, and give "
                "`max_steps` and `validate_every`"
            )
        return repeated(train, count, start=epoch * count, seed=self.seed)

    def validation(self, count: int) -> list[Pair]:
        """Return the first pairs of the validation part."""
        return list(islice(self.parts.valid, count))

    def test(self, count: int | None) -> list[Pair]:
        """Return the test part, at most `count` pairs."""
        return list(islice(self.parts.test, count))


def read_again(settings: Mapping[str, Any]) -> CorpusPairs:
    """Read the corpus of a run again, for its test part.

    Args:
        settings: of the run's data, as :attr:`CorpusPairs.settings` gave them.

    Raises:
        UserError: the settings are broken, or the corpus is missing or has changed.
    """
    try:
        sources, cleaning = settings["sources"], CleaningOptions(**settings["cleaning"])
        streaming, held_out = bool(settings["streaming"]), settings.get("held_out")
        languages = str(settings["source_language"]), str(settings["target_language"])
        hub, columns = sources["train"].get("hub"), chosen_columns(sources["train"]["columns"] or ())
        files = {name: [Path(file["path"]) for file in source.get("files", ())] for name, source in sources.items()}
        seed = int(settings.get("split_seed", 0))
    except (KeyError, TypeError, ValueError, AttributeError):
        raise SettingError(f"evaluate: the settings of the run's data are broken; {_ADVICE}") from None
    try:
        if hub and columns:
            opened = hub_sources(hub, sources["train"].get("config"), columns, streaming=streaming)
        else:
            opened = file_sources(files, columns)
        parts = read_corpus(opened, cleaning=cleaning, streaming=streaming, held_out=held_out, split_seed=seed)
    except UserError as error:
        raise SettingError(f"evaluate: the run's own test part cannot be read: {error}; or {_ADVICE}") from None
    if _identity(parts.settings) != _identity(settings):
        raise SettingError(
            f"evaluate: {_name(settings)} has changed since this run was trained, so its test part is no longer known; "
            f"{_ADVICE}"
        )
    return CorpusPairs(parts, languages, 0)


def is_held_out_of(settings: Mapping[str, Any], data: Sequence[Path]) -> bool:
    """Return whether a run was trained on these files, with a test part held out of them.

    Raises:
        UserError: a file cannot be read.
    """
    sources = settings.get("sources", {})
    if "test" in sources or "files" not in sources.get("train", {}):
        return False
    return [file_sha256(path) for path in data] == [file["sha256"] for file in sources["train"]["files"]]


def _identity(settings: Mapping[str, Any]) -> Any:
    """Return what identifies the test part: the checksum of its texts, or for a stream its files."""
    return settings["parts"]["test"] if "parts" in settings else settings["sources"]["test"]


def _name(settings: Mapping[str, Any]) -> str:
    sources = settings["sources"]
    source = sources.get("test", sources["train"])
    return str(source["hub"]) if "hub" in source else " ".join(file["path"] for file in source["files"])
