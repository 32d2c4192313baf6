"""A small comparison to be damaged and forged."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from selfattn.comparison.compare import compare


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small comparison of one model; do not change it."""
    out = tmp_path_factory.mktemp("comparison") / "whole"
    training = {"epochs": 1, "items_per_epoch": 64, "validation_items": 5}
    settings = ("encoder.hidden_dim=8", "decoder.hidden_dim=8")
    compare("dates", models=("plain=rnn-plain",), quick=True, out=out, test_items=4, set=settings, **training)
    return out


@pytest.fixture
def copy(whole: Path, tmp_path: Path) -> Path:
    """A copy of the comparison, to be changed."""
    return Path(shutil.copytree(whole, tmp_path / "comparison"))
