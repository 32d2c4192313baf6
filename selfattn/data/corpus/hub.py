"""Datasets of the Hugging Face Hub, or of a directory that is laid out like one, read by the `datasets` library."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from selfattn.data.readers.records import BadRecord, PairSource, RawPair, check_columns, pair_of
from selfattn.errors import SettingError, UserError

if TYPE_CHECKING:
    from datasets import Dataset, IterableDataset

_NO_ANSWER = {"ConnectionError", "ConnectError", "TimeoutException", "OfflineModeIsEnabled", "LocalEntryNotFoundError"}
_SPLITS = {"train": ("train",), "valid": ("validation", "valid", "val", "dev"), "test": ("test",)}
# Enough for two lost packets of a connection; `datasets` would try for half a minute, with a firewall for more.
_SECONDS = 4.0
_FILE_NAME = re.compile(r"\w[\w.-]*")
_PORTS = {"http": 80, "https": 443, "socks5": 1080, "socks5h": 1080}


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


def is_reachable(url: str, *, seconds: float) -> bool:
    """Try to connect to the server of a URL, or to its proxy. A slow server counts as reachable.

    Args:
        url: such as ``"https://huggingface.co"``.
        seconds: longest wait, for the addresses of the server and the connection together.

    Returns:
        Whether there is a connection; also True for a URL that names no server.

    Example:
        >>> with socket.create_server(("127.0.0.1", 0)) as server:
        ...     is_reachable(f"http://127.0.0.1:{server.getsockname()[1]}", seconds=5)
        True
    """
    server = _server(url)
    if server is None:
        return True
    answers: SimpleQueue[bool] = SimpleQueue()

    def connect() -> None:
        # A third of the time for each address, as IPv6 often leads nowhere. UnicodeError: the name cannot be encoded.
        with suppress(OSError, UnicodeError), socket.create_connection(server, timeout=seconds / 3):
            answers.put(True)
        answers.put(False)

    Thread(target=connect, daemon=True).start()  # looking up a name has no time limit, so it must not hold up the rest
    try:
        return answers.get(timeout=seconds)
    except Empty:
        return False


def _server(url: str) -> tuple[str, int] | None:
    """Host and port to connect to."""
    try:
        parts = urlsplit(url)
        proxies = getproxies()
        proxy = proxies.get(parts.scheme) or proxies.get("all")
        if proxy and parts.hostname and not proxy_bypass(parts.hostname):
            parts = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
        port = parts.port or _PORTS.get(parts.scheme)
    except ValueError:
        return None
    return (parts.hostname, port) if parts.hostname and port else None


@contextmanager
def checked_answers() -> Iterator[None]:
    """Refuse commit hashes and ETags of the Hub that would lead `huggingface_hub` out of its cache.

    The library uses both as names of files, so that ``../`` from a hostile server makes it write elsewhere.

    Raises:
        UserError: inside the block, when the server sends such a name.
    """
    from huggingface_hub import HfApi, file_download

    def checked(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            answer = function(*args, **options)
            names = [getattr(answer, attribute, None) for attribute in ("commit_hash", "sha", "etag")]
            if bad := [name for name in names if name and not _FILE_NAME.fullmatch(name)]:
                raise UserError(f"the Hub server sent {bad[0][:80]!r} as a name of a file; do not use this server")
            return answer

        return call

    owners: list[Any] = [file_download, HfApi, HfApi]
    with ExitStack() as stack:
        for owner, name in zip(owners, ("get_hf_file_metadata", "model_info", "dataset_info"), strict=True):
            stack.callback(setattr, owner, name, getattr(owner, name))
            setattr(owner, name, checked(getattr(owner, name)))
        yield
