"""The plugins of docs/how-to/extend.md, and none."""

import pytest
from third_party import Made, isolated_registries, plugins
from zoo import Zoo

__all__ = ["plugins"]


@pytest.fixture(scope="session")
def zoo():
    return Zoo(Made())


@pytest.fixture
def isolated():
    """No plugin is loaded before the test, and none stays behind it."""
    with isolated_registries():
        yield
