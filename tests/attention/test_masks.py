"""Masks, each written out by hand, and a cache that grows in place."""

import math
from dataclasses import replace

import pytest
import torch

from selfattn.attention import Alibi, KeyValue, MultiHeadAttention, RelativeBias, Rotary, attend, key_mask, padding_mask
from selfattn.attention.cache import Cache
from selfattn.attention.masks import Mask, unread


def drawn(picture):
    """``"x.. xx."``: a row for each word, ``x`` = may attend."""
    return torch.tensor([[sign == "x" for sign in row] for row in picture.split()])


@pytest.mark.parametrize(
    ("mask", "i", "picture", "is_safe"),
    [
        (None, 2, "xx. xxx", True),
        (None, 4, "... x.. xx. xxx", False),  # a query before all keys sees none
        ("x.x", 2, "x.. x.x", False),
        ("x.x", 1, "x.x", True),  # the one query of a cached step is the last: nothing to hide
    ],
)
def test_a_mask_and_causal_are_one_mask(mask, i, picture, is_safe):
    written = Mask(causal=True) if mask is None else replace(Mask.safe(drawn(mask)), causal=True)
    written = written.for_sizes(i, 3)
    assert not written.causal
    assert torch.equal(written.allowed, drawn(picture))
    assert (written.additive is not None) == is_safe
    assert Mask(causal=True).for_sizes(1, 3).allowed is None


def test_a_key_mask_knows_what_it_hides():
    """All real: nothing; a real token in every row: numbers to add; a row without any: the mask alone."""
    assert Mask.of_keys(drawn("xx xx")) == Mask()
    hiding = Mask.of_keys(drawn("x. xx"))
    assert torch.equal(hiding.allowed, drawn("x. xx")[:, None, None])
    assert hiding.additive.tolist() == [[[[0.0, -math.inf]]], [[[0.0, 0.0]]]]
    blind = Mask.of_keys(drawn(".. xx"))
    assert blind.additive is None
    assert torch.equal(blind.allowed, drawn(".. xx")[:, None, None])
    with unread():
        assert Mask.of_keys(drawn("xx xx")).allowed is not None
    assert Mask.of_keys(drawn("xx xx")) == Mask()  # values are read again
    picked = hiding.reorder(torch.tensor([1, 0, 0]))
    expected = Mask.of_keys(drawn("xx x. x."))
    assert torch.equal(picked.allowed, expected.allowed)
    assert torch.equal(picked.additive, expected.additive)


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("causal", [False, True])
def test_what_is_known_of_a_mask_changes_no_output(need_weights, causal):
    query, key, value = torch.randn(2, 3, 5, 7), torch.randn(2, 3, 5, 7), torch.randn(2, 3, 5, 11)
    tokens, bias = padding_mask(torch.tensor([3, 5]), 5), torch.randn(3, 5, 5)
    for added in (None, bias):
        shared = {"bias": added, "causal": causal, "need_weights": need_weights}
        known = attend(query, key, value, mask=Mask.of_keys(tokens), **shared)
        plain = attend(query, key, value, mask=key_mask(tokens), **shared)
        torch.testing.assert_close(known.output, plain.output)
        if plain.weights is not None and known.weights is not None:
            torch.testing.assert_close(known.weights, plain.weights)


# A cache that grows into memory of its own is what joining its keys and values would give


def entries(length):
    return KeyValue(torch.randn(2, 3, length, 5), torch.randn(2, 3, length, 7))


def joined(*parts):
    return KeyValue(torch.cat([part.key for part in parts], -2), torch.cat([part.value for part in parts], -2))


def same(cache, expected):
    return torch.equal(cache.entries.key, expected.key) and torch.equal(cache.entries.value, expected.value)


@torch.no_grad()
def test_it_grows_in_place_until_its_memory_is_used_up():
    parts = [entries(1), entries(1)]
    cache = Cache(parts[0]).append(parts[1])
    store = cache.store
    assert len(store.memory) == 18  # twice what is there, and 14
    for length in range(3, 20):
        parts.append(entries(1))
        cache = cache.append(parts[-1])
        assert (cache.store is store) == (length <= 18)
        assert (same(cache, joined(*parts)), cache.length) == (True, length)


@torch.no_grad()
def test_two_that_go_on_from_one_leave_each_other_alone():
    start = Cache(entries(2)).append(entries(1))
    before = joined(start.entries)
    ends = [entries(2), entries(2)]
    grown = [start.append(end) for end in ends]
    assert grown[0].store is not grown[1].store
    assert all(same(cache, joined(before, end)) for cache, end in zip(grown, ends, strict=True))
    assert same(start, before)


@torch.no_grad()
def test_rows_are_picked_with_their_memory():
    parts, index = [entries(3), entries(1), entries(1)], torch.tensor([1, 1, 0])
    picked = [KeyValue(part.key[index], part.value[index]) for part in parts]
    for cache in (Cache(parts[0]).append(parts[1]), Cache(joined(*parts[:2]))):
        assert same(cache.reorder(index), joined(*picked[:2]))
        assert same(cache.reorder(index).append(picked[2]), joined(*picked))


def test_with_gradients_nothing_is_written_in_place():
    first, second = entries(2), entries(3)
    cache = Cache(first).append(second)
    assert cache.store is None
    assert same(cache, joined(first, second))


@pytest.mark.parametrize("shapes", [((2, 4), (1,)), ((4,), (2, 1)), ((2, 4), (2, 1)), ((4,), (1,))])
def test_positions_of_all_rows_meet_those_of_each(shapes):
    parts = [
        replace(entries(shape[-1]), positions=torch.arange(10 * place, 10 * place + math.prod(shape)).view(shape))
        for place, shape in enumerate(shapes)
    ]
    joint = Cache(parts[0]).append(parts[1]).entries.positions
    rows = [part.positions.expand(2, -1) for part in parts if part.positions is not None]
    assert torch.equal(joint.expand(2, -1), torch.cat(rows, dim=-1))
    assert joint.dim() == max(map(len, shapes))
    for part in parts:
        bare = replace(part, positions=None)
        for first, second in ((part, bare), (bare, part)):
            with pytest.raises(ValueError, match="must both have positions, or neither"):
                Cache(first).append(second)


def test_positions_follow_those_of_the_past():
    for position in (Rotary(4), Alibi(2), RelativeBias(2)):
        layer = MultiHeadAttention(8, num_heads=2, position=position).eval()
        x = torch.randn(2, 5, 8)
        for first in (None, torch.arange(7, 10), torch.tensor([[0, 1, 2], [4, 5, 6]])):
            begun, past = layer.advance(x[:, :3], None, causal=True, positions=first)
            rest, _ = layer.advance(x[:, 3:], past, causal=True)
            every = None if first is None else torch.cat([first, first[..., -1:] + 1, first[..., -1:] + 2], dim=-1)
            whole = layer(x, causal=True, positions=every).output
            torch.testing.assert_close(torch.cat([begun.output, rest.output], dim=1), whole, rtol=1e-5, atol=1e-6)
