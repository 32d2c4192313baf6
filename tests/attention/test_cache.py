"""A cache that grows into room of its own is what joining its keys and values would give."""

import math
from dataclasses import replace

import pytest
import torch

from selfattn.attention import KeyValue
from selfattn.attention.cache import Cache


def drawn(length: int) -> KeyValue:
    return KeyValue(torch.randn(2, 3, length, 5), torch.randn(2, 3, length, 7))


def joined(*parts: KeyValue) -> KeyValue:
    return KeyValue(torch.cat([part.key for part in parts], -2), torch.cat([part.value for part in parts], -2))


def same(cache: Cache, expected: KeyValue) -> bool:
    return torch.equal(cache.entries.key, expected.key) and torch.equal(cache.entries.value, expected.value)


@torch.no_grad()
def test_it_grows_in_place_until_its_memory_is_used_up() -> None:
    parts = [drawn(1), drawn(1)]
    cache = Cache(parts[0]).append(parts[1])
    store = cache.store
    assert store is not None
    assert len(store.memory) == 18  # twice what is there, and 14
    for length in range(3, 20):
        parts.append(drawn(1))
        cache = cache.append(parts[-1])
        assert (cache.store is store) == (length <= 18)
        assert (same(cache, joined(*parts)), cache.length) == (True, length)


@torch.no_grad()
def test_two_that_go_on_from_one_leave_each_other_alone() -> None:
    start = Cache(drawn(2)).append(drawn(1))
    before = joined(start.entries)
    ends = [drawn(2), drawn(2)]
    grown = [start.append(end) for end in ends]
    assert grown[0].store is not grown[1].store
    assert all(same(cache, joined(before, end)) for cache, end in zip(grown, ends, strict=True))
    assert same(start, before)


@torch.no_grad()
def test_rows_are_picked_with_their_memory() -> None:
    parts, index = [drawn(3), drawn(1), drawn(1)], torch.tensor([1, 1, 0])
    picked = [KeyValue(part.key[index], part.value[index]) for part in parts]
    for cache in (Cache(parts[0]).append(parts[1]), Cache(joined(*parts[:2]))):
        assert same(cache.reorder(index), joined(*picked[:2]))
        assert same(cache.reorder(index).append(picked[2]), joined(*picked))


def test_with_gradients_nothing_is_written_in_place() -> None:
    first, second = drawn(2), drawn(3)
    cache = Cache(first).append(second)
    assert cache.store is None
    assert same(cache, joined(first, second))


@pytest.mark.parametrize("shapes", [((2, 4), (1,)), ((4,), (2, 1)), ((2, 4), (2, 1)), ((4,), (1,))])
def test_positions_of_all_rows_meet_those_of_each(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    parts = [
        replace(drawn(shape[-1]), positions=torch.arange(10 * place, 10 * place + math.prod(shape)).view(shape))
        for place, shape in enumerate(shapes)
    ]
    joint = Cache(parts[0]).append(parts[1]).entries.positions
    assert joint is not None
    rows = [part.positions.expand(2, -1) for part in parts if part.positions is not None]
    assert torch.equal(joint.expand(2, -1), torch.cat(rows, dim=-1))
    assert joint.dim() == max(map(len, shapes))
