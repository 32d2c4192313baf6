"""The best of each row, whatever the ties and the neighbours."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from selfattn.decoding.probabilities import chosen_log_probabilities, log_probabilities, top


@settings(max_examples=60, deadline=None)
@given(data=st.data(), count=st.integers(1, 14))
def test_top_is_the_beginning_of_a_stable_sort(data: st.DataObject, count: int) -> None:
    few_values = st.sampled_from((-math.inf, -1.0, 0.0, 2.0, 3.0))
    row = st.lists(few_values, min_size=11, max_size=11)
    scores = torch.tensor(data.draw(st.lists(row, min_size=1, max_size=5)))
    values, ids = top(scores, count)
    for row_values, row_ids, row_scores in zip(values.tolist(), ids.tolist(), scores.tolist(), strict=True):
        assert row_ids == sorted(range(11), key=lambda place: -row_scores[place])[:count]
        assert row_values == [row_scores[place] for place in row_ids]


def test_many_ties_in_a_wide_row() -> None:
    scores = torch.zeros(3, 8009)
    scores[1, 7001] = 1.0
    assert top(scores, 5)[1].tolist() == [[0, 1, 2, 3, 4], [7001, 0, 1, 2, 3], [0, 1, 2, 3, 4]]
    assert top(torch.arange(70.0).repeat(2, 1), 3)[1].tolist() == [[69, 68, 67]] * 2  # wider than one block only


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**16), count=st.integers(1, 9), width=st.integers(600, 2000), values=st.sampled_from((5, 900))
)
def test_top_of_long_rows_is_the_beginning_of_a_stable_sort(seed: int, count: int, width: int, values: int) -> None:
    draw = torch.Generator().manual_seed(seed)
    scores = torch.randint(values, (3, width), generator=draw).float()
    scores[0] = -math.inf
    expected = scores.sort(dim=-1, descending=True, stable=True)
    found, ids = top(scores, count)
    assert torch.equal(ids, expected.indices[:, :count])
    assert torch.equal(found, expected.values[:, :count])


def test_what_is_chosen_has_the_log_probability_of_the_whole_row() -> None:
    logits = torch.randn(41, 8009, generator=torch.Generator().manual_seed(0))  # in several parts
    ids = torch.randint(8009, (41, 3), generator=torch.Generator().manual_seed(1))
    found = chosen_log_probabilities(logits, ids)
    torch.testing.assert_close(found, log_probabilities(logits).gather(-1, ids))
    assert torch.equal(found[7:8], chosen_log_probabilities(logits[7:8], ids[7:8]))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_log_probabilities_are_float32_or_wider(dtype: torch.dtype) -> None:
    found = log_probabilities(torch.tensor([[0.0, 0.0, 0.0, -math.inf]], dtype=dtype))
    assert found.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    torch.testing.assert_close(found[0, :3], torch.full((3,), -math.log(3), dtype=found.dtype))
    assert found[0, 3] == -math.inf


def test_a_row_wider_than_what_is_exponentiated_at_once() -> None:
    logits = torch.zeros(2, 2**17 + 1)
    assert (
        chosen_log_probabilities(logits, torch.tensor([[0], [5]])).tolist()
        == [[pytest.approx(-math.log(2**17 + 1), abs=1e-4)]] * 2
    )
