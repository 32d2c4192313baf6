"""Each file here that is no test is a plugin."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_runs import cli
from third_party import Made, plugins
from zoo import Zoo

__all__ = ["cli", "plugins"]
HERE = Path(__file__).parent
collect_ignore = [path.name for path in HERE.glob("*.py") if not path.name.startswith(("test_", "conftest"))]


@pytest.fixture(scope="session")
def zoo() -> Zoo:
    return Zoo(Made())
