"""Corpora of real text: files or a dataset of the Hub, cleaned, in three parts that share no sentence with training."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from selfattn.data.corpus.building import HELD_OUT, build
from selfattn.data.corpus.cleaning import CleaningOptions
from selfattn.data.corpus.cleaning_report import CleaningReport
from selfattn.data.corpus.hub import HubCorpus, hub_sources, quiet
from selfattn.data.corpus.mapped import MappedPairs
from selfattn.data.corpus.pair_stream import PairStream, open_stream
from selfattn.data.corpus.sources import CorpusFiles, Source, file_sources
from selfattn.data.pairs import Pair
from selfattn.errors import UserError

_VERSION = 2  # of what lies in the cache; another one for every change of cleaning or of the deal


@dataclass(frozen=True)
class Parts:
    """A clean corpus.

    Attributes:
        train: pairs for training, mapped into memory; or a stream, which can be gone through again and again.
        valid: pairs for validation.
        test: pairs for the test.
        report: what cleaning did. A stream tells what became of train itself, once it is at its end (`report`).
        settings: where the pairs come from and what was done to them, as values for JSON.
    """

    train: Sequence[Pair] | PairStream
    valid: Sequence[Pair]
    test: Sequence[Pair]
    report: CleaningReport
    settings: dict[str, Any]


def read_corpus(
    corpus: CorpusFiles | HubCorpus,
    *,
    cleaning: CleaningOptions | None = None,
    streaming: bool = False,
    held_out: int | None = None,
    split_seed: int = 0,
) -> Parts:
    """Read and clean a corpus.

    Not streaming, the clean pairs are written to the cache of `datasets` (``HF_DATASETS_CACHE``) and mapped from
    there; the next call with the same files and options finds them. Streaming, training pairs are read and cleaned
    again in every epoch and nothing is written; repeated pairs then stay in (a stream does not remember), the length
    ratio is that of the first 10,000 pairs, and valid and test must be given, which are kept in memory.

    Args:
        corpus: files, or a dataset.
        cleaning: default `CleaningOptions()`.
        streaming: see above; default False.
        held_out: how many pairs to hold out from train for each of valid and test that is not given; default: a
            twentieth of them, at most 2,000. No sentence is in two parts then, on either side, even if case, spaces
            and punctuation are ignored.
        split_seed: that they are dealt by; default 0. Another one gives other parts, the same one the same for ever.

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
        raise UserError("valid and test are both there, so nothing is held out: leave --held-out and --split-seed out")
    if streaming:
        return _stream(sources, options, settings)
    if len(sources) < 3:
        settings["held_out"] = held_out
    if split_seed:
        settings["split_seed"] = split_seed
    return _cached(sources, options, settings, held_out, split_seed)


def _stream(sources: Mapping[str, Source], options: CleaningOptions, settings: dict[str, Any]) -> Parts:
    missing = [name for name in HELD_OUT if name not in sources]
    if missing:
        raise UserError(
            f"nothing can be held out from a stream: give {' and '.join(missing)} too, or leave --streaming out"
        )
    train, held, report = open_stream(sources, options)
    return Parts(train, held["valid"], held["test"], report, settings | {"length_ratio": report.length_ratio})


def _cached(
    sources: Mapping[str, Source],
    options: CleaningOptions,
    settings: dict[str, Any],
    held_out: int | None,
    split_seed: int,
) -> Parts:
    import datasets

    key = json.dumps([_VERSION, unicodedata.unidata_version, settings], sort_keys=True)
    cache = Path(datasets.config.HF_DATASETS_CACHE).expanduser() / "selfattn"
    folder = cache / hashlib.sha256(key.encode()).hexdigest()[:32]
    record = folder / "corpus.json"
    if not record.is_file():
        try:
            _fill(folder, sources, options, held_out, split_seed)
        except OSError as error:
            raise UserError(
                f"{folder.parent}: cannot be written ({error.strerror or error}); "
                "set HF_DATASETS_CACHE to a folder with room"
            ) from None
    found = json.loads(record.read_text(encoding="utf-8"))
    report = CleaningReport.from_dict(found["report"])
    with quiet():
        train, valid, test = (MappedPairs.open(folder / f"{name}.arrow") for name in ("train", *HELD_OUT))
    return Parts(train, valid, test, report, settings | {"length_ratio": report.length_ratio, "parts": found["parts"]})


def _fill(
    folder: Path, sources: Mapping[str, Source], options: CleaningOptions, held_out: int | None, split_seed: int
) -> None:
    """Write the folder: first under another name, so that it is there with everything in it or not at all."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(prefix="building-", dir=folder.parent))
    try:
        report, parts = build(beside, sources, options, held_out, split_seed)
        (beside / "corpus.json").write_text(json.dumps({"report": report.to_dict(), "parts": parts}), encoding="utf-8")
        os.chmod(beside, 0o755)
        try:
            beside.rename(folder)
        except OSError:
            if not (folder / "corpus.json").is_file():  # else another process was first, with the same
                raise
    finally:
        shutil.rmtree(beside, ignore_errors=True)
