"""A plugin's claim, written by `selfattn claims new`, and the command line called from inside."""

import pytest
from counted_claim import Counted
from third_party import Plugins

from selfattn.registry import CLAIMS


@pytest.fixture
def plugin(tmp_path, cli, monkeypatch):
    """The skeleton's file, which comes in as a plugin while a test runs."""
    monkeypatch.chdir(tmp_path)
    cli("claims", "new", "spread").success()
    path = tmp_path / "spread.py"
    Plugins([path]).bring(monkeypatch)
    return path


@pytest.fixture
def counted(monkeypatch):
    monkeypatch.setattr(CLAIMS, "_parts", {**dict(CLAIMS.items()), "counted": Counted})
    monkeypatch.setattr(Counted, "made", [])
    monkeypatch.setattr(Counted, "broken", ())
    return Counted()
