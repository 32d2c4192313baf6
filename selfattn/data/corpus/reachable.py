"""Whether a server can be reached at all, found out within seconds and whatever name service and firewall do."""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Sequence
from contextlib import ExitStack
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

_PORTS = {"http": 80, "https": 443, "socks5": 1080, "socks5h": 1080}


def is_reachable(url: str, *, seconds: float) -> bool:
    """Try to connect to the server of a URL, or to the proxy that leads there.

    Nothing is asked of the server, so that one which answers slowly is not taken for one that is not there. All its
    addresses are tried at once: one that does not work, as IPv6 often, does not hold up the others.

    Args:
        url: such as ``"https://huggingface.co"``.
        seconds: to wait at most, for its addresses and for a connection together.

    Returns:
        True also for a URL in which no server can be made out: that is not for this function to judge.

    Example:
        >>> with socket.create_server(("127.0.0.1", 0)) as server:
        ...     is_reachable(f"http://127.0.0.1:{server.getsockname()[1]}", seconds=5)
        True
    """
    server = _server(url)
    if server is None:
        return True
    answers: SimpleQueue[bool] = SimpleQueue()
    # Looking up a name cannot be given a time limit; a daemon thread that still does so holds up nobody.
    Thread(target=lambda: answers.put(_connects(*server, seconds)), daemon=True).start()
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


def _connects(host: str, port: int, seconds: float) -> bool:
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):  # a name that cannot even be encoded
        return False
    return _any_connects(addresses, seconds)


def _any_connects(addresses: Sequence[tuple[Any, ...]], seconds: float) -> bool:
    end = time.monotonic() + seconds
    with ExitStack() as stack, selectors.DefaultSelector() as waiting:
        for family, kind, protocol, _, address in addresses:
            try:
                begun = stack.enter_context(socket.socket(family, kind, protocol))
                begun.setblocking(False)
                begun.connect_ex(address)  # whatever it says: the selector tells when it is decided
            except OSError:  # a family that this machine does not have
                continue
            waiting.register(begun, selectors.EVENT_WRITE)
        while waiting.get_map() and (left := end - time.monotonic()) > 0:
            for key, _ in waiting.select(left):
                if _is_connected(key.fileobj):
                    return True
                waiting.unregister(key.fileobj)
    return False


def _is_connected(decided: Any) -> bool:
    try:
        decided.getpeername()  # somebody is at the other end
    except OSError:
        return False
    return True
