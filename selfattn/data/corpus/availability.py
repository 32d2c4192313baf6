"""Whether a server can be reached at all, found out within seconds and whatever name service and firewall do."""

from __future__ import annotations

import socket
from contextlib import suppress
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
    Thread(target=_connect, args=(*server, seconds, answers), daemon=True).start()
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


def _connect(host: str, port: int, seconds: float, answers: SimpleQueue[bool]) -> None:
    """Answer True once one address takes a connection, and False when all have been tried."""

    def try_one(family: int, kind: int, protocol: int, _: str, address: Any) -> None:
        # A family that this machine does not have fails as a connection does.
        with suppress(OSError), socket.socket(family, kind, protocol) as attempt:
            attempt.settimeout(seconds)
            attempt.connect(address)
            answers.put(True)

    addresses: list[Any] = []
    with suppress(OSError, UnicodeError):  # a name that is not known, or cannot even be encoded
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    attempts = [Thread(target=try_one, args=address, daemon=True) for address in addresses]
    for attempt in attempts:
        attempt.start()
    for attempt in attempts:
        attempt.join()
    answers.put(False)
