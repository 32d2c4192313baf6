"""Datasets of the Hugging Face Hub, or of a directory that is laid out like one, read by the `datasets` library."""

import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from selfattn.data.readers.rows import BadRecord, RawPair, RawRecord, check_columns, pair_of
from selfattn.errors import UserError

if TYPE_CHECKING:
    from datasets import Dataset, IterableDataset


_NO_CONNECTION = {"ConnectError", "ConnectTimeout", "OfflineModeIsEnabled"}
_NO_ANSWER = _NO_CONNECTION | {"ConnectionError", "TimeoutException", "LocalEntryNotFoundError"}
_SPLITS = {"train": ("train",), "valid": ("validation", "valid", "val", "dev"), "test": ("test",)}
_OUT_OF_REACH = "the Hub cannot be reached and no copy is in the cache; check the network, or give files with `data`"


@dataclass(frozen=True)
class HubPairs:
    """Raw pairs of a split; see `selfattn.data.readers.pairs.PairSource`.

    Attributes:
        label: name of the dataset and of the split.
        settings: JSON values from which the split can be opened again.
        rows: reads the pairs from the beginning.
    """

    label: str
    settings: dict[str, Any]
    rows: Callable[[], Iterator[RawRecord]]

    def about(self) -> Sequence[str]:
        """Return nothing: the dataset names its columns."""
        return ()


def hub_sources(name: str, config: str | None, columns: tuple[str, str], *, streaming: bool) -> dict[str, HubPairs]:
    """Open the splits of a dataset: train, validation (or valid, val, dev) and test.

    Args:
        name: on the Hub, such as ``"bentrevett/multi30k"``, or the path of a directory with data files.
        config: its configuration, where there are several; None for the only one.
        columns: of source and target: flat columns, or keys of a nested ``translation``.
        streaming: read over the network while training, instead of fetching all of it first.

    Returns:
        A source for each of ``"train"``, ``"valid"`` and ``"test"`` that is there, in this order.

    Raises:
        UserError: the dataset cannot be reached or loaded, or has no such configuration or column.
    """
    import datasets

    with hub_access(name):
        splits: dict[str, Dataset | IterableDataset] = datasets.load_dataset(name, config, streaming=streaming)
    if "train" not in splits:
        raise UserError(f"{name}: no split 'train', only {', '.join(splits)}")
    sources = {}
    for part, names in _SPLITS.items():
        if split := next((split for split in names if split in splits), None):
            sources[part] = _source(name, config, columns, split, splits[split])
    return sources


def _source(
    name: str, config: str | None, columns: tuple[str, str], split: str, dataset: "Dataset | IterableDataset"
) -> HubPairs:
    label = f"{name}[{split}]"
    with hub_access(name):
        names = dataset.column_names or list(next(iter(dataset), {}))  # a stream may not know them before it is read
        # No other column is read: there may be pictures in them.
        needed = columns if set(columns) <= set(names) else ["translation"]
        if set(needed) <= set(names):
            dataset = dataset.select_columns(list(dict.fromkeys(needed)))
        first: dict[str, Any] = next(iter(dataset), {})
    check_columns(label, first, columns)

    def rows() -> Iterator[RawPair | BadRecord]:
        with hub_errors(name):
            for number, record in enumerate(dataset, 1):
                yield pair_of(number, record, columns)

    settings = {"hub": name, "config": config, "columns": list(columns), "split": split}
    return HubPairs(label, settings | {"fingerprint": getattr(dataset, "_fingerprint", None)}, rows)


def is_reachable(url: str, *, seconds: float = 4.0) -> bool:
    """Ask the server of a URL for an answer. A slow server counts as reachable.

    Args:
        url: such as ``"https://huggingface.co"``.
        seconds: longest wait for a connection.
    """
    from huggingface_hub import get_session

    try:
        get_session().head(url, timeout=seconds, headers={"Connection": "close"})
    except Exception as error:  # of its HTTP client, or because it is offline
        return not _NO_CONNECTION & {kind.__name__ for kind in type(error).__mro__}
    return True


@contextmanager
def hub_access(name: str, out_of_reach: str = _OUT_OF_REACH) -> Iterator[None]:
    """Make calls of `datasets` and `huggingface_hub` silent inside a ``with`` block, and their errors one line.

    Args:
        name: of what is loaded, for messages.
        out_of_reach: the message where there is no connection.

    Raises:
        UserError: for any error of the libraries.
    """
    from huggingface_hub import utils as shown

    utils: Any = shown  # its exports are not typed
    with hub_errors(name, out_of_reach), ExitStack() as before:
        for library in (utils, *filter(None, [sys.modules.get("datasets")])):
            before.callback(library.logging.set_verbosity, library.logging.get_verbosity())
            library.logging.set_verbosity(logging.CRITICAL)
            if not library.are_progress_bars_disabled():
                before.callback(library.enable_progress_bars)
                library.disable_progress_bars()
        yield


@contextmanager
def hub_errors(name: str, out_of_reach: str = _OUT_OF_REACH) -> Iterator[None]:
    """Turn the errors of the libraries, of a dozen classes, into one line that says what to do."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        chain: list[BaseException] = [error]
        while (cause := chain[-1].__cause__ or chain[-1].__context__) and cause not in chain:
            chain.append(cause)
        if status := next(filter(None, (getattr(getattr(e, "response", None), "status_code", 0) for e in chain)), 0):
            advice = "check the name and `hf auth login` (or HF_TOKEN), or try again later"
            raise UserError(f"{name}: the Hub answered with status {status}; {advice}") from None
        if any(_NO_ANSWER & {kind.__name__ for kind in type(cause).__mro__} for cause in chain):
            raise UserError(f"{name}: {out_of_reach}") from None
        # "An error occurred while generating the dataset" says less than its cause.
        cause = error.__cause__ if type(error).__name__ == "DatasetGenerationError" and error.__cause__ else error
        line = " ".join((str(cause) or type(cause).__name__).split())[:300]
        raise UserError(f"{name}: cannot be loaded: {line}") from None
