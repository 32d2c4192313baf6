import json
import socket

import huggingface_hub
import pytest

from selfattn.data.corpus import CleaningOptions, PairStream, read_corpus
from selfattn.data.hub import hub_access, hub_sources, is_reachable
from selfattn.data.pairs import Pair
from selfattn.errors import UserError

datasets = pytest.importorskip("datasets")

PAIRS = [(f"sentence {number}", f"문장 {number}") for number in range(60)]


@pytest.fixture(autouse=True)
def _cache(tmp_path, monkeypatch):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")


@pytest.fixture
def nested(tmp_path):
    """A directory with three splits of JSON lines, each record a nested translation."""
    folder = tmp_path / "captions"
    folder.mkdir()
    for split, pairs in (("train", PAIRS[:47]), ("validation", PAIRS[47:53]), ("test", PAIRS[53:])):
        records = [{"id": n, "translation": {"en": en, "ko": ko}} for n, (en, ko) in enumerate(pairs)]
        text = "".join(json.dumps(record) + "\n" for record in records)
        (folder / f"{split}.jsonl").write_text(text, encoding="utf-8")
    return folder


@pytest.fixture
def flat(tmp_path):
    """A directory with two configurations, each one Parquet file with flat columns."""
    folder = tmp_path / "phrases"
    for language in ("ko", "fr"):
        (folder / language).mkdir(parents=True)
        columns = {"en": [en for en, _ in PAIRS], language: [f"{language} {ko}" for _, ko in PAIRS]}
        datasets.Dataset.from_dict(columns).to_parquet(folder / language / "train-00000.parquet")
    configs = "".join(f"- config_name: {name}\n  data_files: {name}/train-*.parquet\n" for name in ("ko", "fr"))
    (folder / "README.md").write_text(f"---\nconfigs:\n{configs}---\n")
    return folder


def read(name, columns, config=None, **options):
    sources = hub_sources(str(name), config, columns, streaming=options.get("streaming", False))
    return read_corpus(sources, columns, cleaning=CleaningOptions(), **options)


@pytest.mark.parametrize("streaming", [False, True])
def test_splits_with_a_nested_translation(nested, streaming):
    corpus = read(nested, ("en", "ko"), streaming=streaming)
    expected = {"train": PAIRS[:47], "valid": PAIRS[47:53], "test": PAIRS[53:]}
    for _ in range(2):  # again
        parts = {name: [(pair.source, pair.target) for pair in part] for name, part in corpus.parts.items()}
        assert parts == expected
    assert isinstance(corpus.parts["train"], PairStream) == streaming
    json.dumps(corpus.settings)


def test_a_configuration_with_flat_columns_is_held_out_from(flat):
    corpus = read(flat, ("fr", "en"), "fr", held_out=7)
    assert {name: len(part) for name, part in corpus.parts.items()} == {"train": 46, "valid": 7, "test": 7}
    assert corpus.parts["train"][0] == Pair("fr 문장 0", "sentence 0")
    assert corpus.settings["sources"]["train"]["fingerprint"]


@pytest.mark.parametrize("streaming", [False, True])
def test_what_is_not_there_is_said_in_a_line(nested, flat, tmp_path, streaming):
    (tmp_path / "nothing").mkdir()
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "train.jsonl").write_text('{"en": "a", "ko": "b"}\n{"en": \n')
    en_ko = ("en", "ko")
    for name, config, columns, message in (
        (nested, None, ("a", "b"), "no columns 'a' and 'b'; choose with `columns`: 'en', 'ko'"),
        (flat, "de", en_ko, "'de' not found. Available: "),
        (tmp_path / "none" / "where", None, en_ko, "Couldn't find any data file"),
        (tmp_path / "nothing", None, en_ko, "nothing"),
        (tmp_path / "broken", None, en_ko, "JSON"),
    ):
        with pytest.raises(UserError) as error:
            [list(source.rows()) for source in hub_sources(str(name), config, columns, streaming=streaming).values()]
        assert message in str(error.value)
        assert str(name) in str(error.value)
        assert "\n" not in str(error.value)


def test_without_a_network_the_cache_is_used(nested, tmp_path, monkeypatch):
    # What lies in the cache after loading a directory of this name is what lies there after loading it from the Hub.
    with hub_access(str(nested)):
        datasets.load_dataset(str(nested))
    (tmp_path / "elsewhere").mkdir()  # a directory of the dataset's name would be taken for it
    monkeypatch.chdir(tmp_path / "elsewhere")
    for module in (datasets.config, huggingface_hub.constants):
        monkeypatch.setattr(module, "HF_HUB_OFFLINE", True)
    corpus = read("captions", ("en", "ko"))
    assert (len(corpus.parts["train"]), corpus.parts["train"][3].target) == (47, "문장 3")
    with pytest.raises(UserError, match="someone/captions: the Hub cannot be reached and no copy is in the cache"):
        read("someone/captions", ("en", "ko"))


def test_a_server_that_says_nothing_is_reachable_and_a_closed_port_is_not():
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        assert is_reachable(url, seconds=0.2)
    assert not is_reachable(url)
    assert is_reachable("nowhere"), "the library says what is wrong with the address"
