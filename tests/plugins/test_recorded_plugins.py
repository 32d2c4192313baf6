"""Which plugins a run records, and what happens when they are missing or have changed."""

import hashlib
import importlib
import shutil
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

import selfattn
from selfattn import registry
from selfattn.errors import UserError
from selfattn.registry import version_of

SCORE = Path(__file__).with_name("cosine_score.py")
SETTINGS = {"model": "rnn-attention", "epochs": 1, "items_per_epoch": 16, "validation_items": 2}
SETTINGS["set"] = ("decoder.score=cosine", "encoder.hidden_dim=8", "decoder.hidden_dim=8")


@pytest.fixture(autouse=True)
def _my_score(isolated, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    shutil.copy(SCORE, tmp_path / "my_score.py")
    yield
    sys.modules.pop("my_score", None)


def trained(folder, **changes):
    return selfattn.train("dates", out=folder / "run", **SETTINGS | changes)


def test_an_imported_module_counts_and_is_recorded_with_its_hash(tmp_path):
    importlib.import_module("my_score")
    run = trained(tmp_path)
    ((name, version),) = run.config.plugins.items()
    assert (name, version[:7], len(version)) == ("my_score", "sha256:", 71)
    assert selfattn.load(tmp_path / "run").config.plugins == run.config.plugins


def test_a_run_records_what_it_uses_not_what_is_loaded(train, tmp_path):
    selfattn.load_plugin(str(SCORE))
    assert train("rnn-plain", tmp_path / "plain").config.plugins == {}
    assert list(trained(tmp_path).config.plugins) == [str(SCORE)]


def test_without_the_plugin_the_message_names_it(tmp_path):
    selfattn.load_plugin(str(tmp_path / "my_score.py"))
    trained(tmp_path)
    registry._loaded.clear()
    with pytest.raises(UserError, match=r"needs plugins that are not loaded .*; give `plugin` .*my_score\.py$"):
        selfattn.load(tmp_path / "run")


def test_a_changed_plugin_is_told_and_refused_on_resuming(tmp_path, capsys):
    path = tmp_path / "my_score.py"
    selfattn.load_plugin(str(path))
    trained(tmp_path)
    registry._loaded[str(path)] = "sha256:another"
    capsys.readouterr()
    assert selfattn.load(tmp_path / "run").predict(["1 May 1999"])
    assert "my_score.py is not the same as when this was made" in capsys.readouterr().err
    with pytest.raises(UserError, match=r"my_score\.py is not the same .*; restore it, or start anew"):
        trained(tmp_path, resume=True)


def test_a_plugin_is_known_by_its_own_file(tmp_path):
    (tmp_path / "bare.py").write_text("import near\n")
    digest = hashlib.sha256((tmp_path / "bare.py").read_bytes()).hexdigest()
    for text in ("", "# changed\n"):
        (tmp_path / "near.py").write_text(text)
        assert version_of("bare", str(tmp_path / "bare.py")) == f"sha256:{digest}"


def test_installed_plugins_are_read_by_load(tmp_path, monkeypatch, train):
    """A run that needs an installed plugin loads without another word."""
    importlib.import_module("my_score")
    trained(tmp_path)
    registry._loaded.clear()

    point = EntryPoint("mine", "my_score", "selfattn.plugins")
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [point])
    monkeypatch.setattr(registry, "_installed", False)
    assert selfattn.load(tmp_path / "run").predict(["1 May 1999"])
