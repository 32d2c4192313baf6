"""Corpora of real text: files or a dataset of the Hub, cleaned, in three parts that share no sentence with training.

The test part of a run is made again from its settings.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from selfattn.codec import encode
from selfattn.data.corpus.cache import HELD_OUT, open_cached, write_corpus
from selfattn.data.corpus.cleaning import CleaningOptions
from selfattn.data.corpus.hub import HubCorpus, hub_sources
from selfattn.data.corpus.sources import CorpusFiles, file_sources
from selfattn.data.corpus.stream import PairStream, open_stream
from selfattn.data.pairs import Pair
from selfattn.data.readers.lines import file_sha256
from selfattn.data.readers.pair_files import chosen_columns
from selfattn.data.shuffling import shuffled_passes
from selfattn.data.splits import Splits
from selfattn.errors import SettingError, UserError

_LOOKED_THROUGH = 1_000_000  # pairs of a corpus that subwords are made of
_ADVICE = "name pairs to test on: `data` SOURCE TARGET, or one file of pairs"


@dataclass(frozen=True)
class CleanCorpus:
    """A clean corpus.

    Attributes:
        train: pairs for training, mapped into memory; or a stream, which can be gone through again and again.
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
    corpus: CorpusFiles | HubCorpus,
    *,
    cleaning: CleaningOptions | None = None,
    streaming: bool = False,
    held_out: int | None = None,
    split_seed: int = 0,
) -> CleanCorpus:
    """Read and clean a corpus.

    Not streaming, the clean pairs are written to the cache of `datasets` (``HF_DATASETS_CACHE``) and mapped from
    there; the next call with the same files and options finds them. Streaming, training pairs are read and cleaned
    again in every epoch and nothing is written; repeated pairs then stay in (a stream does not remember), the length
    ratio is that of the first 10,000 pairs, and valid and test must be given, which are kept in memory.

    Args:
        corpus: files, or a dataset.
        cleaning: default `CleaningOptions()`.
        streaming: see above; default False.
        held_out: pairs to hold out from train for each missing part; default: a twentieth, at most 2,000. No
            sentence is in two parts then, on either side; case, spaces and punctuation are ignored.
        split_seed: of the held-out parts; default 0.

    Raises:
        UserError: something cannot be read, or nothing is left of a part; the message says what to do.
    """
    options = cleaning or CleaningOptions()
    if held_out is not None and held_out < 1:
        raise UserError(f"{held_out} pairs cannot be held out; give 1 or more")
    settings: dict[str, Any] = {"cleaning": asdict(options), "streaming": streaming}
    if isinstance(corpus, HubCorpus):
        sources = hub_sources(corpus, streaming=streaming)
        settings |= {"hub": corpus.name, "config": corpus.config, "revision": corpus.revision}
    else:
        sources = file_sources(corpus)
    settings |= {"columns": corpus.columns and list(corpus.columns)}
    settings |= {"sources": {name: source.settings for name, source in sources.items()}}
    if len(sources) == 3 and (held_out is not None or split_seed):
        raise SettingError(
            "valid and test are both there, so nothing is held out: leave `held_out` and `split_seed` out"
        )
    if streaming:
        if missing := [name for name in HELD_OUT if name not in sources]:
            raise SettingError(
                f"nothing can be held out from a stream: give {' and '.join(missing)} too, or leave `streaming` out"
            )
        train, held, notes = open_stream(sources, options)
        settings["length_ratio"] = train.length_ratio
        return CleanCorpus(train, held["valid"], held["test"], notes, settings)
    if len(sources) < 3:
        settings["held_out"] = held_out
    if split_seed:
        settings["split_seed"] = split_seed
    parts, record = open_cached(settings, lambda folder: write_corpus(folder, sources, options, held_out, split_seed))
    settings |= {"length_ratio": record.length_ratio, "parts": encode(record.parts)}
    return CleanCorpus(parts["train"], parts["valid"], parts["test"], record.notes, settings)


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
        return list(islice(shuffled_passes(train, self.seed, start=epoch * count), count))

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
        corpus, cleaning = _corpus(settings), CleaningOptions(**settings["cleaning"])
        streaming, held_out = bool(settings["streaming"]), settings.get("held_out")
        languages = str(settings["source_language"]), str(settings["target_language"])
    except (KeyError, TypeError, ValueError):
        raise SettingError(f"evaluate: the settings of the run's data are broken; {_ADVICE}") from None
    seed = int(settings.get("split_seed", 0))
    try:
        parts = read_corpus(corpus, cleaning=cleaning, streaming=streaming, held_out=held_out, split_seed=seed)
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


def _corpus(settings: Mapping[str, Any]) -> CorpusFiles | HubCorpus:
    sources = settings["sources"]
    if "hub" in settings:
        source, target = settings["columns"]
        splits = {part: source_settings["split"] for part, source_settings in sources.items()}
        return HubCorpus(settings["hub"], settings["config"], (source, target), revision=settings["revision"], **splits)
    columns = chosen_columns(settings["columns"] or ())
    files = {part: tuple(Path(file["path"]) for file in source["files"]) for part, source in sources.items()}
    return CorpusFiles(files["train"], files.get("valid"), files.get("test"), columns)


def _identity(settings: Mapping[str, Any]) -> Any:
    """Return what identifies the test part: the checksum of its texts, or for a stream its files."""
    return settings["parts"]["test"] if "parts" in settings else settings["sources"]["test"]


def _name(settings: Mapping[str, Any]) -> str:
    if "hub" in settings:
        return str(settings["hub"])
    sources = settings["sources"]
    return " ".join(file["path"] for file in sources["test" if "test" in sources else "train"]["files"])
