"""Datasets of the Hugging Face Hub, or of a directory that is laid out like one, read by the `datasets` library."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from selfattn.data.corpus.availability import checked_answers, is_reachable
from selfattn.data.corpus.sources import PairSource
from selfattn.data.readers.records import BadRecord, RawPair, columns_of, has_columns, missing_columns, pair_of
from selfattn.errors import SettingError, UserError

if TYPE_CHECKING:
    from datasets import Dataset, IterableDataset

_NO_ANSWER = {"ConnectionError", "ConnectError", "TimeoutException", "OfflineModeIsEnabled", "LocalEntryNotFoundError"}
_VALID = ("validation", "valid", "val", "dev")
# Enough for two lost packets of a connection; `datasets` would try for half a minute, with a firewall for more.
_SECONDS = 4.0


@dataclass(frozen=True)
class HubCorpus:
    """A dataset by its name.

    Args:
        name: on the Hub, such as ``"bentrevett/multi30k"``, or the path of a directory with data files.
        config: its configuration, where there are several; default the only one.
        columns: of source and target: flat columns, or keys of a nested ``translation``.
        train: name of the split for training.
        valid: name of the split for validation; default: validation, valid, val or dev, if there is one.
        test: name of the test split; default: test, if there is one.
        revision: branch, tag or commit; default the newest.
    """

    name: str
    config: str | None = None
    columns: tuple[str, str] = ("source", "target")
    train: str = "train"
    valid: str | None = None
    test: str | None = None
    revision: str | None = None


def hub_sources(corpus: HubCorpus, *, streaming: bool) -> dict[str, PairSource]:
    """Open the splits of a dataset.

    Args:
        corpus: which.
        streaming: read over the network while training, instead of fetching all of it first.

    Returns:
        A source for each of ``"train"``, ``"valid"`` and ``"test"`` that is there, in this order.

    Raises:
        UserError: the dataset cannot be reached or loaded, or has no such configuration, split or column.
    """
    import datasets

    with quiet(), _errors_named(corpus), checked_answers(), _offline_if_out_of_reach(corpus.name):
        splits: dict[str, Dataset | IterableDataset] = datasets.load_dataset(
            corpus.name, corpus.config, revision=corpus.revision, streaming=streaming
        )
    chosen = {
        "train": corpus.train,
        "valid": corpus.valid or next((name for name in _VALID if name in splits), None),
        "test": corpus.test or ("test" if "test" in splits else None),
    }
    sources = {}
    for part, split in chosen.items():
        if split is not None:
            if split not in splits:
                raise UserError(f"{corpus.name}: no split {split!r}; choose among {', '.join(splits)}")
            sources[part] = _source(corpus, split, splits[split])
    return sources


@contextmanager
def quiet() -> Iterator[None]:
    """Keep `datasets` and `huggingface_hub` from writing to the terminal, and put their settings back afterwards."""
    import datasets
    from huggingface_hub import utils as hub

    with ExitStack() as before:
        for library in (datasets, hub):
            before.callback(library.logging.set_verbosity, library.logging.get_verbosity())
            library.logging.set_verbosity(datasets.logging.CRITICAL)
            if not library.are_progress_bars_disabled():
                before.callback(library.enable_progress_bars)
                library.disable_progress_bars()
        yield


@contextmanager
def _offline_if_out_of_reach(name: str) -> Iterator[None]:
    """Let `datasets` go straight to its cache where the Hub cannot be reached, instead of trying again and again.

    This asks only for a connection: a Hub that answers slowly is waited for as long as the libraries wait.
    """
    import datasets
    from huggingface_hub import constants

    on_the_hub = re.fullmatch(r"[\w.-]+(/[\w.-]+)?", name) and not Path(name).exists()
    with ExitStack() as before:
        if on_the_hub and not (
            datasets.config.HF_HUB_OFFLINE or is_reachable(datasets.config.HF_ENDPOINT, seconds=_wait())
        ):
            modules: tuple[Any, ...] = (datasets.config, constants)
            for module in modules:
                before.callback(setattr, module, "HF_HUB_OFFLINE", module.HF_HUB_OFFLINE)
                module.HF_HUB_OFFLINE = True
        yield


def _wait() -> float:
    """Seconds to wait for a connection: what the user has told `huggingface_hub`, else few."""
    seconds = os.environ.get("HF_HUB_ETAG_TIMEOUT", "")
    return float(seconds) if seconds.isdecimal() and int(seconds) else _SECONDS


def _source(corpus: HubCorpus, split: str, dataset: Dataset | IterableDataset) -> PairSource:
    label = f"{corpus.name}[{split}]"
    with quiet(), _errors_named(corpus):
        names = dataset.column_names or list(next(iter(dataset), {}))  # a stream may not know them before it is read
        # No other column is read: there may be pictures in them.
        needed = corpus.columns if set(corpus.columns) <= set(names) else ["translation"]
        if set(needed) <= set(names):
            dataset = dataset.select_columns(list(dict.fromkeys(needed)))
        first: dict[str, Any] = next(iter(dataset), {})
    if not first:
        raise UserError(f"{label}: the split is empty; choose another")
    if not has_columns(first, corpus.columns):
        raise SettingError(missing_columns(label, corpus.columns, columns_of(first)))

    def rows() -> Iterator[RawPair | BadRecord]:
        with _errors_named(corpus):
            for number, record in enumerate(dataset, 1):
                yield pair_of(number, record, corpus.columns)

    fingerprint = getattr(dataset, "_fingerprint", None)  # a stream has none
    return PairSource(label, rows, {"split": split, "fingerprint": fingerprint})


@contextmanager
def _errors_named(corpus: HubCorpus) -> Iterator[None]:
    """Turn whatever the libraries raise into one line that says what to do.

    They raise errors of a dozen classes, of their own and of those beneath them, for what is all the same to the
    user: the dataset is out of reach, is not there, or is not right.
    """
    from datasets.exceptions import DatasetNotFoundError

    try:
        yield
    except UserError:
        raise
    except DatasetNotFoundError as error:
        raise UserError(
            f"{corpus.name}: {_first_line(error)} Check the name; for a private or gated dataset log in with "
            "`hf auth login`"
        ) from None
    except Exception as error:
        chain = _chain(error)
        if status := next(filter(None, (getattr(getattr(e, "response", None), "status_code", 0) for e in chain)), 0):
            advice = "log in with `hf auth login`" if status in (401, 403) else "check the name, or try again later"
            raise UserError(f"{corpus.name}: the Hub answered with status {status}; {advice}") from None
        if any(_NO_ANSWER & {kind.__name__ for kind in type(cause).__mro__} for cause in chain):
            raise SettingError(
                f"{corpus.name}: the Hugging Face Hub cannot be reached and no copy is in the cache; check the network "
                "(and HF_HUB_OFFLINE), load it once where there is a network and copy that cache (HF_DATASETS_CACHE), "
                "or give files with `train`"
            ) from None
        raise UserError(f"{corpus.name}: cannot be loaded: {_first_line(_root(error))}") from None


def _chain(error: BaseException | None) -> list[BaseException]:
    """Return an error with its causes."""
    chain: list[BaseException] = []
    while error is not None and error not in chain:
        chain.append(error)
        error = error.__cause__ or error.__context__
    return chain


def _root(error: BaseException) -> BaseException:
    """What `datasets` wraps says more than "an error occurred while generating the dataset"."""
    from datasets.exceptions import DatasetGenerationError

    return error.__cause__ if isinstance(error, DatasetGenerationError) and error.__cause__ else error


def _first_line(error: BaseException) -> str:
    return " ".join((str(error) or type(error).__name__).split())[:300]
