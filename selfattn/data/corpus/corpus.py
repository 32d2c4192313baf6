"""Corpora of real text: files or a dataset of the Hub, cleaned, in three parts that share no sentence with training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from selfattn.codec import encode
from selfattn.data.corpus.cache import HELD_OUT, open_cached, write_corpus
from selfattn.data.corpus.cleaning import CleaningOptions
from selfattn.data.corpus.cleaning_report import CleaningReport
from selfattn.data.corpus.hub import HubCorpus, hub_sources
from selfattn.data.corpus.sources import CorpusFiles, file_sources
from selfattn.data.corpus.stream import PairStream, open_stream
from selfattn.data.pairs import Pair
from selfattn.errors import SettingError, UserError


@dataclass(frozen=True)
class CleanCorpus:
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
        held_out: how many pairs to hold out from train for each of valid and test that is not given; default: a
            twentieth of them, at most 2,000. No sentence is in two parts then, on either side, even if case, spaces
            and punctuation are ignored.
        split_seed: decides which; default 0. Another one gives other parts, the same one the same for ever.

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
        train, held, report = open_stream(sources, options)
        settings["length_ratio"] = report.length_ratio
        return CleanCorpus(train, held["valid"], held["test"], report, settings)
    if len(sources) < 3:
        settings["held_out"] = held_out
    if split_seed:
        settings["split_seed"] = split_seed
    parts, cached = open_cached(settings, lambda folder: write_corpus(folder, sources, options, held_out, split_seed))
    report = cached.report
    settings |= {"length_ratio": report.length_ratio, "parts": encode(cached.parts)}
    return CleanCorpus(parts["train"], parts["valid"], parts["test"], report, settings)
