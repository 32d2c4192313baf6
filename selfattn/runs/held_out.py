"""The test part of the corpus that a translation run was trained on, made again from the run's settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from selfattn.cli.given_options import chosen_columns
from selfattn.data.corpus.cleaning import CleaningOptions
from selfattn.data.corpus.corpus import read_corpus
from selfattn.data.corpus.hub import HubCorpus
from selfattn.data.corpus.sources import CorpusFiles
from selfattn.data.pairs import Pair
from selfattn.data.readers.lines import file_sha256
from selfattn.errors import UserError

_ADVICE = "name pairs to test on: --data SOURCE TARGET, or one file of pairs"


def held_out_test(settings: Mapping[str, Any]) -> tuple[list[Pair], str]:
    """Read the test part of a run's own corpus.

    Args:
        settings: of the run's data, as `selfattn.tasks.translation_data.CorpusPairs.settings` gives them.

    Returns:
        The pairs, and where they are from.

    Raises:
        UserError: the settings are broken, or the corpus is no longer there or no longer what it was.
    """
    try:
        corpus, cleaning = _corpus(settings), CleaningOptions(**settings["cleaning"])
        streaming, held_out = bool(settings["streaming"]), settings.get("held_out")
    except (KeyError, TypeError, ValueError):
        raise UserError(f"evaluate: the settings of the run's data are broken; {_ADVICE}") from None
    seed = int(settings.get("split_seed", 0))
    try:
        parts = read_corpus(corpus, cleaning=cleaning, streaming=streaming, held_out=held_out, split_seed=seed)
    except UserError as error:
        raise UserError(f"evaluate: the run's own test part cannot be read: {error}; or {_ADVICE}") from None
    if _identity(parts.settings) != _identity(settings):
        raise UserError(
            f"evaluate: {_name(settings)} has changed since this run was trained, so its test part is no longer known; "
            f"{_ADVICE}"
        )
    return list(parts.test), f"{_name(settings)}, test part"


def is_trained_on(settings: Mapping[str, Any], data: Sequence[Path]) -> bool:
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
