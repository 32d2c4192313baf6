"""A cache that grows into room of its own is what joining its keys and values would give."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from selfattn.attention.layer import KeyValue


def drawn(length: int) -> KeyValue:
    return KeyValue(torch.randn(2, 3, length, 5), torch.randn(2, 3, length, 7))


def joined(*parts: KeyValue) -> KeyValue:
    return KeyValue(torch.cat([part.key for part in parts], -2), torch.cat([part.value for part in parts], -2))


def same(one: KeyValue, other: KeyValue) -> bool:
    return torch.equal(one.key, other.key) and torch.equal(one.value, other.value)


@torch.no_grad()
def test_it_grows_in_place_until_the_room_is_used_up() -> None:
    first = drawn(1)
    parts, cache = [first], first.append(part := drawn(1))
    parts.append(part)
    room = cache.room
    assert room is not None
    assert len(room.store) == 18  # twice what is there, and 14
    for _ in range(16):
        parts.append(part := drawn(1))
        cache = cache.append(part)
        assert cache.room is room
        assert same(cache, joined(*parts))
    parts.append(part := drawn(1))
    cache = cache.append(part)
    assert cache.room is not room
    assert same(cache, joined(*parts))


@torch.no_grad()
def test_two_that_go_on_from_one_leave_each_other_alone() -> None:
    start = drawn(2).append(drawn(1))
    before = joined(start)
    ends = [drawn(2), drawn(2)]
    grown = [start.append(end) for end in ends]
    assert grown[0].room is not grown[1].room
    assert all(same(one, joined(before, end)) for one, end in zip(grown, ends, strict=True))
    assert same(start, before)


@torch.no_grad()
def test_rows_are_picked_with_their_room() -> None:
    parts, index = [drawn(4), drawn(1), drawn(1)], torch.tensor([1, 1, 0])
    picked = [KeyValue(part.key[index], part.value[index]) for part in parts]
    for cache in (parts[0].append(parts[1]), joined(*parts[:2])):
        assert same(cache.reorder(index), joined(*picked[:2]))
        assert same(cache.reorder(index).append(picked[2]), joined(*picked))


def test_with_gradients_nothing_is_written_in_place() -> None:
    first, second = drawn(2), drawn(3)
    cache = first.append(second)
    assert cache.room is None
    assert same(cache, joined(first, second))


@pytest.mark.parametrize("shapes", [((2, 4), (1,)), ((4,), (2, 1)), ((2, 4), (2, 1)), ((4,), (1,))])
def test_positions_of_all_rows_meet_those_of_each(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    parts = [
        replace(drawn(shape[-1]), positions=torch.arange(10 * place, 10 * place + math.prod(shape)).view(shape))
        for place, shape in enumerate(shapes)
    ]
    found = parts[0].append(parts[1]).positions
    assert found is not None
    for row in range(2):
        assert (found if found.dim() == 1 else found[row]).tolist() == [
            at
            for part in parts
            if part.positions is not None
            for at in (part.positions if part.positions.dim() == 1 else part.positions[row]).tolist()
        ]
