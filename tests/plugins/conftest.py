"""Each file here that is no test is a plugin."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_runs import cli
from third_party import MODELS, Made, Plugins
from zoo import Zoo

__all__ = ["cli"]
HERE = Path(__file__).parent
collect_ignore = [path.name for path in HERE.glob("*.py") if not path.name.startswith(("test_", "conftest"))]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "variant" in metafunc.fixturenames and not any(
        mark.args[0] == "variant" for mark in metafunc.definition.iter_markers("parametrize")
    ):
        metafunc.parametrize("variant", MODELS)
    if "decoder_only_variant" in metafunc.fixturenames:
        metafunc.parametrize("decoder_only_variant", [name for name in MODELS if name.startswith("decoder-only")])


@pytest.fixture(scope="session")
def zoo() -> Zoo:
    return Zoo(Made())


@pytest.fixture(scope="session")
def _plugins() -> Plugins:
    return Plugins(path for kind in ("score", "normalizer", "position", "family") for path in HERE.glob(f"*_{kind}.py"))


@pytest.fixture
def plugins(_plugins: Plugins, monkeypatch: pytest.MonkeyPatch) -> Plugins:
    """Load the score, the normalizer, the position and the family for one test."""
    _plugins.bring(monkeypatch)
    return _plugins
