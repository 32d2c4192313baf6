"""Whether a server can be reached: refused, silent, slow, behind a proxy, without a name."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from selfattn.data.corpus import availability
from selfattn.data.corpus.availability import is_reachable

LONG = 20.0  # seconds that no test waits for


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture
def silent() -> Iterator[str]:
    """A server that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield url_of(server)


@pytest.fixture
def closed() -> str:
    """Nothing listens there any more."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return url_of(server)


def url_of(server: socket.socket) -> str:
    return f"http://127.0.0.1:{server.getsockname()[1]}"


def test_a_server_that_says_nothing_is_reachable_and_a_closed_port_is_not(silent: str, closed: str) -> None:
    assert is_reachable(silent, seconds=LONG)
    assert not is_reachable(closed, seconds=LONG)


def test_a_name_that_nobody_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    for error in (socket.gaierror(-2, "not known"), UnicodeError("label too long")):

        def unknown(*arguments: object, error: Exception = error, **options: object) -> None:
            raise error

        monkeypatch.setattr(socket, "getaddrinfo", unknown)
        assert not is_reachable("https://huggingface.co", seconds=LONG)


def test_a_name_service_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    from threading import Event

    asked, done = Event(), Event()

    def hang(*arguments: object, **options: object) -> list[object]:
        asked.set()
        done.wait(LONG)
        return []

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    assert not is_reachable("https://huggingface.co", seconds=0.05)
    assert asked.wait(LONG)
    done.set()


@pytest.mark.parametrize("scheme", ["http://", ""])
def test_a_proxy_is_asked_in_its_place(monkeypatch: pytest.MonkeyPatch, silent: str, closed: str, scheme: str) -> None:
    def through(proxy: str) -> str:
        return scheme + proxy.removeprefix("http://")

    monkeypatch.setenv("http_proxy", through(silent))
    assert is_reachable(closed, seconds=LONG)
    monkeypatch.setenv("http_proxy", through(closed))
    assert not is_reachable(silent, seconds=LONG)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    assert is_reachable(silent, seconds=LONG)
    monkeypatch.delenv("http_proxy")
    monkeypatch.delenv("no_proxy")
    monkeypatch.setenv("all_proxy", through(closed))
    assert not is_reachable(silent, seconds=LONG)


@pytest.mark.parametrize("url", ["", "nowhere", "http://", "https://huggingface.co:port", "ftp://host", "http://[::1"])
def test_what_names_no_server_is_left_to_others(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setattr(availability, "_connect", None)
    assert is_reachable(url, seconds=LONG)
