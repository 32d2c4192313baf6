"""The derivatives of a score and of a position of one's own, against finite differences in float64."""

from collections.abc import Iterator

import pytest
import torch
from third_party import laws

from selfattn import registry

pytestmark = pytest.mark.usefixtures("plugins")

_PATH = "gradients/test_gradcheck.py"
globals().update(laws(_PATH, about="name", SCORES=["cosine"]))
globals().update(laws(_PATH, about="score", SCORES=["cosine"]))
globals().update(laws(_PATH, about="position", POSITIONS={"kerple": lambda: registry.POSITIONS["kerple"](2)}))


@pytest.fixture(autouse=True)
def _float64() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)
