"""Safe access to the Hub: is the server reachable at all, and are the names that it sends harmless?"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from selfattn.errors import UserError

_FILE_NAME = re.compile(r"\w[\w.-]*")
_PORTS = {"http": 80, "https": 443, "socks5": 1080, "socks5h": 1080}


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
