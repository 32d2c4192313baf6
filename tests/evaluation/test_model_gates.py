"""What the gates on a model measure, by hand; tests/properties/test_gates.py asks honest models and cheats."""

from __future__ import annotations

import math

import pytest
import torch

from selfattn.data.batches import Batch, collate
from selfattn.data.examples import Example
from selfattn.evaluation.gates import model_gates
from selfattn.models.build import build
from selfattn.models.presets import PRESETS


@pytest.mark.parametrize(
    ("actual", "expected", "share"),
    [
        ([2.0, -3.0], [2.0, -4.0], 0.25),  # 1 of 4
        ([0.25], [0.5], 0.25),  # small logits are held against 1
        ([math.inf, -math.inf, 5.0], [math.inf, -math.inf, 4.0], 0.25),
        ([-math.inf], [-math.inf], 0.0),
        ([math.inf], [-math.inf], math.inf),
        ([1.0, math.nan], [1.0, 1.0], math.inf),
    ],
)
def test_distances_are_shares_of_the_largest_finite_logit(
    actual: list[float], expected: list[float], share: float
) -> None:
    assert model_gates._share(torch.tensor(actual), torch.tensor(expected)) == share


def test_rounding_is_passed_up_to_its_limit() -> None:
    at, above = (model_gates._judge("x", {"b": worst, "c": 0.0}, torch.float32, "held") for worst in (1e-4, 1.1e-4))
    assert (at.passed, at.value, at.reason) == (
        True,
        1e-4,
        "held (1.0e-04 of the largest logit, at most 1e-04 is rounding)",
    )
    assert (above.passed, above.limit) == (False, 1e-4)
    assert above.reason.startswith("b, logits change by 1.1e-04")


def batch_of(length: int) -> Batch:
    return collate([Example([5, 6, 2], [3 + place % 5 for place in range(length)])], 0, 1, [0])


def test_nothing_is_later_than_one_token() -> None:
    model = build(PRESETS["rnn-plain"].config, vocab_size=11, pad_id=0, seed=0)
    with pytest.raises(ValueError, match="needs targets of at least two tokens"):
        model_gates.causal(model, batch_of(1))
