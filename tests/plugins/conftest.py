"""Each file here that is no test is a plugin."""

from pathlib import Path

import pytest
from third_party import Made, isolated_registries, plugins
from zoo import Zoo

__all__ = ["plugins"]
HERE = Path(__file__).parent
collect_ignore = [path.name for path in HERE.glob("*.py") if not path.name.startswith(("test_", "conftest"))]


@pytest.fixture(scope="session")
def zoo():
    return Zoo(Made())


@pytest.fixture
def isolated():
    """No plugin is loaded before the test, and none stays behind it."""
    with isolated_registries():
        yield
