"""Masks, each written out by hand."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from selfattn.attention import attend, causal_mask, key_mask, padding_mask, sliding_window_mask
from selfattn.attention.masks import HIDDEN, allowed_mask, check_broadcasts, hide_keys


def drawn(picture: str) -> Tensor:
    """``"x.. xx."``: a row for each word, ``x`` = may attend."""
    return torch.tensor([[sign == "x" for sign in row] for row in picture.split()])


def test_padding() -> None:
    assert torch.equal(padding_mask(torch.tensor([3, 0, 5, 1]), 5), drawn("xxx.. ..... xxxxx x...."))
    assert padding_mask(torch.tensor([], dtype=torch.int64), 5).shape == (0, 5)


def test_tokens_become_keys() -> None:
    tokens = padding_mask(torch.tensor([2, 3]), 3)
    mask = key_mask(tokens)
    assert mask.shape == (2, 1, 1, 3)
    assert torch.equal(mask[:, 0, 0], tokens)


@pytest.mark.parametrize(
    ("i", "j", "picture"),
    [
        (3, 3, "x.. xx. xxx"),
        (1, 4, "xxxx"),
        (2, 4, "xxx. xxxx"),
        (4, 2, ".. .. x. xx"),
    ],
)
def test_causal(i: int, j: int, picture: str) -> None:
    assert torch.equal(causal_mask(i, j), drawn(picture))


@pytest.mark.parametrize("sizes", [(0, 3), (3, 0), (0, 0)])
def test_causal_of_nothing(sizes: tuple[int, int]) -> None:
    assert causal_mask(*sizes).shape == sizes
    assert sliding_window_mask(*sizes, window=2).shape == sizes


@pytest.mark.parametrize(
    ("i", "j", "window", "picture"),
    [
        (4, 4, 1, "x... .x.. ..x. ...x"),
        (4, 4, 2, "x... xx.. .xx. ..xx"),
        (4, 4, 9, "x... xx.. xxx. xxxx"),
        (2, 5, 3, ".xxx. ..xxx"),  # a cache: the queries are the last two positions
        (1, 5, 2, "...xx"),
        (3, 2, 1, ".. x. .x"),
    ],
)
def test_sliding_window(i: int, j: int, window: int, picture: str) -> None:
    assert torch.equal(sliding_window_mask(i, j, window), drawn(picture))


@pytest.mark.parametrize("window", [0, -3])
def test_a_window_that_shows_nothing(window: int) -> None:
    with pytest.raises(ValueError, match=f"window must be at least 1, got {window}"):
        sliding_window_mask(3, 3, window)


def test_masks_combine_with_and() -> None:
    both = key_mask(drawn("xxx xx.")) & sliding_window_mask(3, 3, 2)
    assert both.shape == (2, 1, 3, 3)
    assert torch.equal(both[0, 0], drawn("x.. xx. .xx"))
    assert torch.equal(both[1, 0], drawn("x.. xx. .x."))


def test_a_mask_and_causal_are_one_mask() -> None:
    mask = drawn("x.x")
    assert allowed_mask(2, 3, mask=None, causal=False) is None
    assert allowed_mask(2, 3, mask=mask, causal=False) is mask
    assert torch.equal(allowed_mask(2, 3, mask=mask, causal=True), drawn("x.. x.x"))  # type: ignore[arg-type]  # may be None for mypy
    assert torch.equal(allowed_mask(2, 3, mask=None, causal=True), drawn("xx. xxx"))  # type: ignore[arg-type]  # may be None for mypy
    # The one query of a cached step is the last: nothing to hide, nothing to build.
    assert allowed_mask(1, 3, mask=None, causal=True) is None
    assert allowed_mask(1, 3, mask=mask, causal=True) is mask


def test_true_means_may_attend() -> None:
    zeros, value = torch.zeros(1, 1, 3, 1), torch.tensor([2.0, 4.0, 8.0]).reshape(1, 1, 3, 1)
    assert attend(zeros, zeros, value, mask=drawn("xx. x.x ..x")).output.flatten().tolist() == [3.0, 5.0, 8.0]


def test_a_mask_is_said_in_the_cheapest_way_that_is_true() -> None:
    """All real: nothing; every row has a real token: a bias; a row without any: the mask itself."""
    assert hide_keys(drawn("xx xx")) == (None, None)
    mask, bias = hide_keys(drawn("x. xx"))
    assert mask is None
    assert bias is not None
    assert torch.equal(bias, torch.tensor([[0.0, HIDDEN], [0.0, 0.0]])[:, None, None])
    mask, bias = hide_keys(drawn(".. xx"))
    assert bias is None
    assert mask is not None
    assert torch.equal(mask, drawn(".. xx")[:, None, None])


def test_five_axes_are_one_too_many() -> None:
    check_broadcasts("mask", torch.ones(2, 3, 5, 7), (2, 3, 5, 7))
    with pytest.raises(ValueError, match="expected a mask that broadcasts"):
        check_broadcasts("mask", torch.ones(1, 1, 1, 1, 1), (2, 3, 5, 7))
