from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Semaphore, Thread
from types import SimpleNamespace

import pytest

from selfattn.data.corpus.corpus import PairStream, read_corpus
from selfattn.data.corpus.hub import hub_sources, quiet
from selfattn.data.pairs import Pair
from selfattn.data.readers.records import RawPair
from selfattn.errors import UserError

datasets = pytest.importorskip("datasets")

PAIRS = [(f"sentence {number}", f"문장 {number}") for number in range(60)]


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")


@pytest.fixture
def nested(tmp_path: Path) -> Path:
    """A directory with three splits of JSON lines, each record a nested translation."""
    folder = tmp_path / "captions"
    folder.mkdir()
    for split, pairs in (("train", PAIRS[:47]), ("validation", PAIRS[47:53]), ("test", PAIRS[53:])):
        records = [{"id": n, "translation": {"en": en, "ko": ko}} for n, (en, ko) in enumerate(pairs)]
        text = "".join(json.dumps(record) + "\n" for record in records)
        (folder / f"{split}.jsonl").write_text(text, encoding="utf-8")
    return folder


@pytest.fixture
def flat(tmp_path: Path) -> Path:
    """A directory with two configurations, each one Parquet file with flat columns."""
    folder = tmp_path / "phrases"
    for language in ("ko", "fr"):
        (folder / language).mkdir(parents=True)
        columns = {"en": [en for en, _ in PAIRS], language: [f"{language} {ko}" for _, ko in PAIRS]}
        datasets.Dataset.from_dict(columns).to_parquet(folder / language / "train-00000.parquet")
    configs = "".join(
        f"- config_name: {language}\n  data_files: {language}/train-*.parquet\n" for language in ("ko", "fr")
    )
    (folder / "README.md").write_text(f"---\nconfigs:\n{configs}---\n")
    return folder


@pytest.mark.parametrize("streaming", [False, True])
def test_splits_with_a_nested_translation(nested: Path, streaming: bool) -> None:
    parts = read_corpus(hub_sources(str(nested), columns=("en", "ko"), streaming=streaming), streaming=streaming)
    assert [(pair.source, pair.target) for pair in parts.train] == PAIRS[:47]
    assert [(pair.source, pair.target) for pair in parts.valid] == PAIRS[47:53]
    assert [(pair.source, pair.target) for pair in parts.test] == PAIRS[53:]
    assert isinstance(parts.train, PairStream) == streaming
    assert [(pair.source, pair.target) for pair in parts.train] == PAIRS[:47]  # again
    json.dumps(parts.settings)


def test_a_configuration_with_flat_columns_is_held_out_from(flat: Path) -> None:
    parts = read_corpus(hub_sources(str(flat), "fr", ("fr", "en")), held_out=7)
    assert (len(parts.train), len(parts.valid), len(parts.test)) == (46, 7, 7)
    assert parts.train[0] == Pair("fr 문장 0", "sentence 0")
    assert parts.settings["sources"]["train"]["fingerprint"]


def test_columns_may_be_swapped(nested: Path) -> None:
    sources = hub_sources(str(nested), columns=("ko", "en"), streaming=True)
    assert list(sources) == ["train", "valid", "test"]
    assert next(sources["train"].rows()) == RawPair(1, "문장 0", "sentence 0")


@pytest.mark.parametrize("streaming", [False, True])
def test_what_is_not_there_is_said_in_a_line(nested: Path, flat: Path, tmp_path: Path, streaming: bool) -> None:
    (tmp_path / "nothing").mkdir()
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "train.jsonl").write_text('{"en": "a", "ko": "b"}\n{"en": \n')
    en_ko = ("en", "ko")
    for name, config, columns, message in (
        (nested, None, ("a", "b"), "no columns 'a' and 'b'; choose two of en, ko with `columns`"),
        (flat, None, en_ko, "Config name is missing"),
        (flat, "de", en_ko, "'de' not found. Available: "),
        (tmp_path / "none" / "where", None, en_ko, "Couldn't find any data file"),
        (tmp_path / "nothing", None, en_ko, "nothing"),
        (tmp_path / "broken", None, en_ko, "JSON"),
    ):
        with pytest.raises(UserError) as error:
            read_everything(str(name), config, columns, streaming)
        assert message in str(error.value)
        assert str(name) in str(error.value)
        assert "\n" not in str(error.value)


def read_everything(name: str, config: str | None, columns: tuple[str, str], streaming: bool) -> None:
    for source in hub_sources(name, config, columns, streaming=streaming).values():
        list(source.rows())


def test_nothing_is_written_to_the_terminal(nested: Path, capfd: pytest.CaptureFixture[str]) -> None:
    read_corpus(hub_sources(str(nested), columns=("en", "ko")))
    assert capfd.readouterr() == ("", "")


def read_elsewhere(name: str, cache: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Read a dataset in a process of its own: the libraries look at the environment once, when they are imported."""
    program = (
        "import sys, time\n"
        "from selfattn.data.corpus.corpus import read_corpus\n"
        "from selfattn.data.corpus.hub import hub_sources\n"
        "from selfattn.errors import UserError\n"
        "time.sleep = None  # nothing is tried again\n"
        "try:\n"
        "    parts = read_corpus(hub_sources(sys.argv[1], columns=('en', 'ko')))\n"
        "except UserError as error:\n"
        "    sys.exit(str(error))\n"
        "print(len(parts.train), len(parts.valid), len(parts.test), parts.train[3].target)\n"
    )
    empty = cache / "elsewhere"  # a directory of the dataset's name would be taken for it
    empty.mkdir(exist_ok=True)
    return subprocess.run(
        [sys.executable, "-c", program, name],
        env={**os.environ, "HF_HOME": str(cache), "HF_DATASETS_CACHE": str(cache), "PYTHONUTF8": "1", **environment},
        cwd=empty,
        capture_output=True,
        text=True,
    )


def test_without_a_network_the_cache_is_used(nested: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # What lies in the cache after loading a directory of this name is what lies there after loading it from the Hub.
    with quiet():
        datasets.load_dataset(str(nested))
    (tmp_path / "elsewhere").mkdir()  # a directory of the dataset's name would be taken for it
    monkeypatch.chdir(tmp_path / "elsewhere")
    monkeypatch.setattr("selfattn.data.corpus.hub.is_reachable", lambda url, *, seconds: False)
    parts = read_corpus(hub_sources("captions", columns=("en", "ko")))
    assert (len(parts.train), len(parts.valid), len(parts.test), parts.train[3].target) == (47, 6, 7, "문장 3")


class SlowHub(BaseHTTPRequestHandler):
    """A Hub that answers nobody before it is connected to a second time, and knows no dataset."""

    connected = Semaphore(0)

    def setup(self) -> None:
        super().setup()
        self.connected.release()

    def answer(self) -> None:
        for _ in range(2):
            self.connected.acquire()
        self.connected.release(2)
        self.send_response(404)
        self.send_header("X-Error-Code", "RepoNotFound")
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_HEAD = do_GET = answer  # noqa: N815 (the names that the base class looks for)

    def log_message(self, format: str, *arguments: object) -> None:
        pass


@pytest.fixture
def slow_hub() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), SlowHub) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.slow
def test_a_hub_that_answers_slowly_is_waited_for(slow_hub: str, tmp_path: Path) -> None:
    found = read_elsewhere(
        "someone/captions", tmp_path, HF_ENDPOINT=slow_hub, NO_PROXY="127.0.0.1", HF_HUB_ETAG_TIMEOUT="60"
    )
    assert found.stderr == (
        "someone/captions: Dataset 'someone/captions' doesn't exist on the Hub or cannot be accessed. Check the name; "
        "for a private or gated dataset log in with `hf auth login`\n"
    )


def test_the_libraries_are_offline_only_while_nothing_can_be_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    asked = []

    def unreachable(url: str, *, seconds: float) -> bool:
        asked.append((url, seconds))
        return False

    monkeypatch.setattr("selfattn.data.corpus.hub.is_reachable", unreachable)
    monkeypatch.setattr(datasets.config, "HF_ENDPOINT", "https://hub.example")
    assert not datasets.config.HF_HUB_OFFLINE
    assert not constants.HF_HUB_OFFLINE
    monkeypatch.delenv("HF_HUB_ETAG_TIMEOUT", raising=False)
    with pytest.raises(UserError) as error:
        hub_sources("someone/captions")
    assert str(error.value) == (
        "someone/captions: the Hugging Face Hub cannot be reached and no copy is in the cache; check the network (and "
        "HF_HUB_OFFLINE), load it once where there is a network and copy that cache (HF_DATASETS_CACHE), or give files "
        "with `train`"
    )
    assert not datasets.config.HF_HUB_OFFLINE
    assert not constants.HF_HUB_OFFLINE
    for given in ("30", "0", "soon"):
        monkeypatch.setenv("HF_HUB_ETAG_TIMEOUT", given)
        with pytest.raises(UserError, match="cannot be reached"):
            hub_sources("captions", streaming=True)
    assert asked == [("https://hub.example", seconds) for seconds in (4.0, 30.0, 4.0, 4.0)]


def test_nobody_is_asked_about_a_directory(nested: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("selfattn.data.corpus.hub.is_reachable", None)
    for name in (str(nested), "captions"):
        monkeypatch.chdir(nested.parent)
        assert list(hub_sources(name, columns=("en", "ko"), streaming=True)) == ["train", "valid", "test"]
    with pytest.raises(UserError, match="Couldn't find any data file"):
        hub_sources(str(nested / "none" / "where"))


@pytest.mark.parametrize(
    ("status", "advice"), [(403, "log in with"), (429, "try again later"), (503, "try again later")]
)
def test_the_status_of_the_hub_is_said(nested: Path, monkeypatch: pytest.MonkeyPatch, status: int, advice: str) -> None:
    class RefusedError(Exception):
        response = SimpleNamespace(status_code=status)

    def refuse(*arguments: object, **options: object) -> None:
        try:
            raise RefusedError
        except RefusedError as error:
            raise ConnectionError("Couldn't reach it on the Hub") from error

    monkeypatch.setattr(datasets, "load_dataset", refuse)
    with pytest.raises(UserError, match=f"the Hub answered with status {status}; .*{advice}"):
        hub_sources(str(nested))
