"""A corpus of real text in three parts, and its test part made again from the settings of a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from selfattn.data.corpus.cleaning import CleaningOptions
from selfattn.data.corpus.corpus import CleanCorpus, read_corpus
from selfattn.data.corpus.hub import HubCorpus
from selfattn.data.corpus.sources import CorpusFiles
from selfattn.data.corpus.stream import PairStream
from selfattn.data.pairs import Pair
from selfattn.data.readers.lines import file_sha256
from selfattn.data.readers.pair_files import chosen_columns
from selfattn.data.shuffling import shuffled_passes
from selfattn.data.splits import Splits
from selfattn.errors import SettingError, UserError

_LOOKED_THROUGH = 1_000_000  # pairs of a corpus that subwords are made of
_ADVICE = "name pairs to test on: `data` SOURCE TARGET, or one file of pairs"


class CorpusPairs(Splits):
    """A corpus of real text, cleaned, in three parts.

    Args:
        parts: the corpus as it was read.
        languages: of source and target.
        seed: of the order in which an epoch that is not the whole corpus goes through it.
    """

    def __init__(self, parts: CleanCorpus, languages: tuple[str, str], seed: int) -> None:
        where = {"kind": "corpus", "source_language": languages[0], "target_language": languages[1]}
        super().__init__(where | parts.settings, f"{_name(parts.settings)}, test part", parts.report.lines())
        self.parts, self.seed = parts, seed

    def sample(self) -> Sequence[Pair]:
        """The first training pairs: enough to make subwords of."""
        return list(islice(self.parts.train, _LOOKED_THROUGH))

    def train(self, epoch: int, count: int | None) -> Iterable[Pair]:
        """All of the training part, or the next `count` of an endless run through it in ever new order."""
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
        """The first pairs of the validation part."""
        return list(islice(self.parts.valid, count))

    def test(self, count: int | None) -> list[Pair]:
        """The test part."""
        return list(islice(self.parts.test, count))


def read_again(settings: Mapping[str, Any]) -> CorpusPairs:
    """Read the corpus of a run, for its test part.

    Args:
        settings: of the run's data, as :attr:`CorpusPairs.settings` gave them.

    Raises:
        UserError: the settings are broken, or the corpus is no longer there or no longer what it was.
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
    """Say whether these are the files that a run was trained on, and a test part was held out of them.

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
        splits = {part: found["split"] for part, found in sources.items()}
        return HubCorpus(settings["hub"], settings["config"], (source, target), revision=settings["revision"], **splits)
    columns = chosen_columns(settings["columns"] or ())
    files = {part: tuple(Path(file["path"]) for file in source["files"]) for part, source in sources.items()}
    return CorpusFiles(files["train"], files.get("valid"), files.get("test"), columns)


def _identity(settings: Mapping[str, Any]) -> Any:
    """What tells one test part from another: its texts, or of a stream, which does not count them, its files."""
    return settings["parts"]["test"] if "parts" in settings else settings["sources"]["test"]


def _name(settings: Mapping[str, Any]) -> str:
    if "hub" in settings:
        return str(settings["hub"])
    sources = settings["sources"]
    return " ".join(file["path"] for file in sources["test" if "test" in sources else "train"]["files"])
