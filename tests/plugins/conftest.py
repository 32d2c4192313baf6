"""Each file here that is no test is a plugin."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from third_party import Made, isolated_registries, plugins
from zoo import Zoo

__all__ = ["plugins"]
HERE = Path(__file__).parent
collect_ignore = [path.name for path in HERE.glob("*.py") if not path.name.startswith(("test_", "conftest"))]


@pytest.fixture(scope="session")
def zoo() -> Zoo:
    return Zoo(Made())


@pytest.fixture
def isolated() -> Iterator[None]:
    """No plugin is loaded before the test, and none stays behind it."""
    with isolated_registries():
        yield
