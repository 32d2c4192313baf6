"""Whether a server can be reached: refused, silent, slow, behind a proxy, without a name."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from selfattn.data.corpus.hub import checked_answers, is_reachable
from selfattn.errors import UserError

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
def test_what_names_no_server_is_left_to_others(url: str) -> None:
    assert is_reachable(url, seconds=LONG)


@pytest.mark.parametrize(
    ("commit", "etag"), [("../../../../evil", "0" * 40), ("0" * 40, "../../evil"), ("0" * 40, "ab")]
)
def test_a_hostile_server_cannot_choose_where_files_are_written(commit: str, etag: str, tmp_path: Path) -> None:
    from huggingface_hub import hf_hub_download

    class Hub(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.send_response(200)
            headers = {"X-Repo-Commit": commit, "ETag": f'"{etag}"', "Content-Length": "4"}
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()

        def do_GET(self) -> None:
            self.do_HEAD()
            self.wfile.write(b"text")

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    cache = tmp_path / "a/b/c/cache"
    with ThreadingHTTPServer(("127.0.0.1", 0), Hub) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        options = {"cache_dir": cache, "endpoint": url_of(server.socket)}
        if "evil" in commit + etag:
            with pytest.raises(UserError, match=r"sent '.*evil' as a name of a file"), checked_answers():
                hf_hub_download("someone/run", "run.json", **options)  # type: ignore[arg-type]  # options of two types
        else:
            with checked_answers():
                hf_hub_download("someone/run", "run.json", **options)  # type: ignore[arg-type]  # options of two types
        server.shutdown()
    assert not [path for path in tmp_path.rglob("*") if "evil" in str(path.relative_to(tmp_path))]
