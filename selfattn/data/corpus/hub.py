"""Datasets of the Hugging Face Hub, or of a directory that is laid out like one, read by the `datasets` library."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from selfattn.data.corpus.availability import checked_answers, is_reachable
from selfattn.data.corpus.sources import PairSource
from selfattn.data.readers.records import BadRecord, RawPair, check_columns, pair_of
from selfattn.errors import SettingError, UserError

if TYPE_CHECKING:
    from datasets import Dataset, IterableDataset

_NO_ANSWER = {"ConnectionError", "ConnectError", "TimeoutException", "OfflineModeIsEnabled", "LocalEntryNotFoundError"}
_SPLITS = {"train": ("train",), "valid": ("validation", "valid", "val", "dev"), "test": ("test",)}
# Enough for two lost packets of a connection; `datasets` would try for half a minute, with a firewall for more.
_SECONDS = 4.0


def hub_sources(
    name: str, config: str | None = None, columns: tuple[str, str] = ("source", "target"), *, streaming: bool = False
) -> dict[str, PairSource]:
    """Open the splits of a dataset: train, validation (or valid, val, dev) and test.

    Args:
        name: on the Hub, such as ``"bentrevett/multi30k"``, or the path of a directory with data files.
        config: its configuration, where there are several; default the only one.
        columns: of source and target: flat columns, or keys of a nested ``translation``.
        streaming: read over the network while training, instead of fetching all of it first.

    Returns:
        A source for each of ``"train"``, ``"valid"`` and ``"test"`` that is there, in this order.

    Raises:
        UserError: the dataset cannot be reached or loaded, or has no such configuration or column.
    """
    import datasets

    with quiet(), _errors_named(name), checked_answers(), _offline_if_out_of_reach(name):
        splits: dict[str, Dataset | IterableDataset] = datasets.load_dataset(name, config, streaming=streaming)
    if "train" not in splits:
        raise UserError(f"{name}: no split 'train', only {', '.join(splits)}")
    sources = {}
    for part, names in _SPLITS.items():
        if split := next((split for split in names if split in splits), None):
            sources[part] = _source(name, config, columns, split, splits[split])
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

    wait = os.environ.get("HF_HUB_ETAG_TIMEOUT", "")
    seconds = float(wait) if wait.isdecimal() and int(wait) else _SECONDS
    on_the_hub = re.fullmatch(r"[\w.-]+(/[\w.-]+)?", name) and not Path(name).exists()
    with ExitStack() as before:
        if on_the_hub and not (
            datasets.config.HF_HUB_OFFLINE or is_reachable(datasets.config.HF_ENDPOINT, seconds=seconds)
        ):
            modules: tuple[Any, ...] = (datasets.config, constants)
            for module in modules:
                before.callback(setattr, module, "HF_HUB_OFFLINE", module.HF_HUB_OFFLINE)
                module.HF_HUB_OFFLINE = True
        yield


def _source(
    name: str, config: str | None, columns: tuple[str, str], split: str, dataset: Dataset | IterableDataset
) -> PairSource:
    label = f"{name}[{split}]"
    with quiet(), _errors_named(name):
        names = dataset.column_names or list(next(iter(dataset), {}))  # a stream may not know them before it is read
        # No other column is read: there may be pictures in them.
        needed = columns if set(columns) <= set(names) else ["translation"]
        if set(needed) <= set(names):
            dataset = dataset.select_columns(list(dict.fromkeys(needed)))
        first: dict[str, Any] = next(iter(dataset), {})
    if not first:
        raise UserError(f"{label}: the split is empty; choose another dataset")
    check_columns(label, first, columns)

    def rows() -> Iterator[RawPair | BadRecord]:
        with _errors_named(name):
            for number, record in enumerate(dataset, 1):
                yield pair_of(number, record, columns)

    settings = {"hub": name, "config": config, "columns": list(columns), "split": split}
    return PairSource(label, rows, settings | {"fingerprint": getattr(dataset, "_fingerprint", None)})


@contextmanager
def _errors_named(name: str) -> Iterator[None]:
    """Turn the errors of the libraries, of a dozen classes, into one line that says what to do."""
    from datasets.exceptions import DatasetGenerationError, DatasetNotFoundError

    try:
        yield
    except UserError:
        raise
    except DatasetNotFoundError as error:
        raise UserError(
            f"{name}: {_first_line(error)} Check the name; for a private or gated dataset log in with `hf auth login`"
        ) from None
    except Exception as error:
        chain: list[BaseException] = [error]
        while (cause := chain[-1].__cause__ or chain[-1].__context__) and cause not in chain:
            chain.append(cause)
        if status := next(filter(None, (getattr(getattr(e, "response", None), "status_code", 0) for e in chain)), 0):
            advice = "log in with `hf auth login`" if status in (401, 403) else "check the name, or try again later"
            raise UserError(f"{name}: the Hub answered with status {status}; {advice}") from None
        if any(_NO_ANSWER & {kind.__name__ for kind in type(cause).__mro__} for cause in chain):
            raise SettingError(
                f"{name}: the Hugging Face Hub cannot be reached and no copy is in the cache; check the network "
                "(and HF_HUB_OFFLINE), load it once where there is a network and copy that cache (HF_DATASETS_CACHE), "
                "or give files with `train`"
            ) from None
        # "An error occurred while generating the dataset" says less than its cause.
        told = error.__cause__ if isinstance(error, DatasetGenerationError) and error.__cause__ else error
        raise UserError(f"{name}: cannot be loaded: {_first_line(told)}") from None


def _first_line(error: BaseException) -> str:
    return " ".join((str(error) or type(error).__name__).split())[:300]
