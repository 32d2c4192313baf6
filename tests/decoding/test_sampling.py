"""Sampling against its distribution, and the best of each row, whatever the ties and the neighbours."""

import math

import pytest
import torch
from fake_models import Writer
from hypothesis import given, settings
from hypothesis import strategies as st

from selfattn.decoding.common import chosen_log_probabilities, log_probabilities, top
from selfattn.decoding.greedy import sample, token_distribution
from selfattn.decoding.options import DecodingOptions
from selfattn.streams import generator

BOS, EOS = 1, 2


PROBABILITIES = torch.tensor([[0.30, 0.05, 0.10, 0.20, 0.05, 0.30]], dtype=torch.float64)


def fixed(logits):
    """A model with the same logits ``[sentence v]`` at every step."""
    return Writer(lambda source, read: logits[source[:, 0]])


def drawing(**settings):
    return DecodingOptions(sample=True, **settings)


def draw(logits, sentences, chance, max_length=7):
    source, ids = torch.tensor(sentences)[:, None], {"bos_id": BOS, "eos_id": EOS, "options": drawing()}
    return sample(fixed(logits), source, source >= 0, max_length=max_length, generator=chance, **ids)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, [0.30, 0.05, 0.10, 0.20, 0.05, 0.30]),
        ({"top_k": 1}, [1, 0, 0, 0, 0, 0]),  # of equally probable ones the lower id
        ({"top_k": 3}, [3 / 8, 0, 0, 2 / 8, 0, 3 / 8]),
        ({"top_k": 5}, [6 / 19, 1 / 19, 2 / 19, 4 / 19, 0, 6 / 19]),
        ({"top_k": 99}, [0.30, 0.05, 0.10, 0.20, 0.05, 0.30]),
        ({"top_p": 0.29}, [1, 0, 0, 0, 0, 0]),
        ({"top_p": 0.31}, [1 / 2, 0, 0, 0, 0, 1 / 2]),
        ({"top_p": 0.61}, [3 / 8, 0, 0, 2 / 8, 0, 3 / 8]),
        ({"top_p": 0.92}, [6 / 19, 1 / 19, 2 / 19, 4 / 19, 0, 6 / 19]),
        ({"top_p": 1.0}, [0.30, 0.05, 0.10, 0.20, 0.05, 0.30]),
        ({"top_k": 3, "top_p": 0.70}, [1 / 2, 0, 0, 0, 0, 1 / 2]),  # 3/8 + 3/8 reach 0.7; 0.3 + 0.3 would not
        ({"top_k": 2, "top_p": 1.0}, [1 / 2, 0, 0, 0, 0, 1 / 2]),
        ({"temperature": 0.5}, [0.09, 0.0025, 0.01, 0.04, 0.0025, 0.09]),  # squares, not yet summing to 1
        ({"temperature": 1e-310}, [1 / 2, 0, 0, 0, 0, 1 / 2]),  # no power overflows
        ({"temperature": 1e300}, [1 / 6] * 6),
        ({"temperature": 0.5, "top_k": 3}, [9 / 22, 0, 0, 4 / 22, 0, 9 / 22]),
        ({"temperature": 0.5, "top_p": 0.80}, [9 / 22, 0, 0, 4 / 22, 0, 9 / 22]),  # 9/23.5 twice is less
    ],
)
def test_the_distribution_by_hand(settings, expected):
    row = torch.tensor(expected, dtype=torch.float64)
    found = token_distribution(PROBABILITIES.log() + 3.0, drawing(**settings))  # a constant in the logits plays no part
    torch.testing.assert_close(found, (row / row.sum())[None])
    assert found.dtype == torch.float64
    assert ((found > 0) == (row > 0)).all()


def test_a_number_in_double_precision_chooses_the_first_token_whose_sum_is_above_it():
    logits = torch.randn(1, 997, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    (hypothesis,) = draw(logits, [0], generator(5, "sampling"), max_length=50)
    numbers = torch.rand(50, generator=generator(5, "sampling"), dtype=torch.float64)
    sums = logits.softmax(dim=-1)[0].cumsum(dim=0)
    expected = [int((sums <= number).sum()) for number in numbers]
    assert hypothesis.ids == expected[: len(hypothesis.ids)]
    assert len(hypothesis.ids) > 20


def test_what_has_no_probability_is_never_drawn_not_even_at_zero(monkeypatch):
    monkeypatch.setattr(torch, "rand", lambda count, **_: torch.zeros(count, dtype=torch.float64))
    never_first = torch.tensor([[0.0, 0.0, 0.0, 0.5, 0.5]]).log()
    (found,) = draw(never_first, [0], generator(0, "sampling"), max_length=2)
    assert found.ids == [3, 3]


# The best of each row, whatever the ties and the neighbours


@settings(max_examples=100, deadline=None)
@given(
    seed=st.integers(0, 2**16),
    count=st.integers(1, 14),
    rows=st.integers(1, 5),
    width=st.sampled_from((11, 70, 650, 12_000)),  # shorter than one block, of some, and of too many for one call
    values=st.sampled_from((4, 900)),
)
def test_top_is_the_beginning_of_a_stable_sort(seed, count, rows, width, values):
    scores = torch.randint(values, (rows, width), generator=torch.Generator().manual_seed(seed)).float()
    scores[scores == 1] = -math.inf
    if rows > 3:
        scores[0] = -math.inf
    expected = scores.sort(dim=-1, descending=True, stable=True)
    found, ids = top(scores, count)
    assert torch.equal(ids, expected.indices[:, :count])
    assert torch.equal(found, expected.values[:, :count])


def test_sums_in_parts_have_the_bits_of_torch_logsumexp():
    logits = 9 * torch.randn(41, 8009, generator=torch.Generator().manual_seed(0))
    logits[3] = -math.inf
    logits[5, 7] = math.inf
    logits[6, 8] = math.nan
    ids = torch.tensor([[7, 8]]).expand(41, 2)
    expected = logits[:, 7:9] - logits.logsumexp(dim=-1, keepdim=True)
    alone = chosen_log_probabilities(logits[7:8], ids[7:8])
    assert torch.equal(chosen_log_probabilities(logits, ids)[7:8], alone)  # its neighbours are not felt
    for largest in (None, logits.amax(dim=-1, keepdim=True)):
        found = chosen_log_probabilities(logits, ids, largest)
        torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_log_probabilities_are_float32_or_wider(dtype):
    found = log_probabilities(torch.tensor([[0.0, 0.0, 0.0, -math.inf]], dtype=dtype))
    assert found.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    torch.testing.assert_close(found[0, :3], torch.full((3,), -math.log(3), dtype=found.dtype))
    assert found[0, 3] == -math.inf
