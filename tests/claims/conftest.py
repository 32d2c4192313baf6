"""A claim that notes what is measured, which is registered while a test runs."""

import pytest
from counted_claim import Counted

from selfattn.registry import CLAIMS


@pytest.fixture
def counted(monkeypatch):
    monkeypatch.setattr(CLAIMS, "_parts", {**dict(CLAIMS.items()), "counted": Counted})
    monkeypatch.setattr(Counted, "made", [])
    monkeypatch.setattr(Counted, "broken", ())
    return Counted()
