"""Strangers' parts: each file here that is no test is somebody's own, and comes in as a plugin while a test runs."""

from __future__ import annotations

from pathlib import Path

HERE = Path(__file__).parent
collect_ignore = [path.name for path in HERE.glob("*.py") if not path.name.startswith(("test_", "conftest"))]
