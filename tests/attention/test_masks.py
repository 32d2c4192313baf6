"""Masks and positions by hand and by formula, and a cache that grows in place."""

import math
from dataclasses import replace

import pytest
import torch

from selfattn.attention import (
    Alibi,
    KeyValue,
    RelativeBias,
    Retention,
    Rotary,
    Sinusoidal,
    attend,
    key_mask,
    padding_mask,
)
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


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("need_weights", [False, True])
def test_what_is_known_of_a_mask_changes_no_output(need_weights, causal, close):
    query, key, value = torch.randn(2, 3, 5, 7), torch.randn(2, 3, 5, 7), torch.randn(2, 3, 5, 11)
    tokens = padding_mask(torch.tensor([3, 5]), 5)
    for bias in (None, torch.randn(3, 5, 5)):
        options = {"bias": bias, "causal": causal, "need_weights": need_weights}
        known, plain = (
            attend(query, key, value, mask=one, **options) for one in (Mask.of_keys(tokens), key_mask(tokens))
        )
        close(known.output, plain.output)


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


def test_the_first_positions_behind_no_key_count_from_zero():
    """Without a branch on the length, so that an exported step starts from an empty cache, too."""
    vectors = torch.zeros(2, 1, 0, 4)
    empty = Cache(KeyValue(vectors, vectors, positions=torch.zeros(0, dtype=torch.int64)))
    assert empty.next_positions(3).tolist() == [0, 1, 2]
    placed = torch.zeros(2, 1, 2, 4)
    filled = Cache(KeyValue(placed, placed, positions=torch.tensor([[3, 5], [0, 1]])))
    assert filled.next_positions(2).tolist() == [[6, 7], [2, 3]]


# Positions


@pytest.mark.parametrize("dim", [2, 6, 128])
def test_sinusoidal_by_formula(dim, close):
    positions = [0, 1, 5, 49, 97]
    expected = [
        [
            (math.cos if column % 2 else math.sin)(position / 10000 ** ((column - column % 2) / dim))
            for column in range(dim)
        ]
        for position in positions
    ]
    close(Sinusoidal(dim)(torch.tensor(positions)), torch.tensor(expected))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize(("width", "base"), [(2, 10000.0), (6, 10000.0), (10, 500.0)])
def test_turning_is_a_complex_product(width, base, dtype, close):
    # bfloat16 holds no 1001: the angle would be wrong by more than half a turn.
    x, positions = torch.randn(2, 3, 5, width, dtype=dtype), torch.tensor([0, 1, 2, 17, 1001])
    frequencies = torch.tensor([base ** (-2 * k / width) for k in range(width // 2)], dtype=torch.float64)
    turns = torch.polar(torch.ones(5, width // 2).double(), torch.outer(positions.double(), frequencies))
    expected = torch.view_as_real(torch.view_as_complex(x.double().unflatten(-1, (-1, 2))) * turns).flatten(-2)
    close(Rotary(width, base).rotate(x, positions), expected.to(dtype))


def test_alibi_and_retention_by_hand(close):
    """Slopes of 8 heads, then every other one of those of 16 heads: 2^-0.5, 2^-1.5, ..."""
    extra = [math.sqrt(1 / 2), math.sqrt(1 / 8), math.sqrt(1 / 32), math.sqrt(1 / 128)]
    close(Alibi(12).slopes, torch.tensor([2.0**-k for k in range(1, 9)] + extra))
    bias = Alibi(2).bias(torch.tensor([2, 3]), torch.tensor([0, 1, 2, 3]))
    steps = [[2, 1, 0, 1], [3, 2, 1, 0]]
    assert bias.tolist() == [[[slope * step for step in row] for row in steps] for slope in (-1 / 16, -1 / 256)]
    close(Retention(2).slopes, -torch.tensor([1 - 1 / 32, 1 - 1 / 64]).log())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize(("num_buckets", "max_distance"), [(32, 128), (16, 50), (8, 20), (4, 3)])
def test_buckets_of_transformers(num_buckets, max_distance, bidirectional):
    t5 = pytest.importorskip("transformers.models.t5.modeling_t5")
    distances = torch.arange(-300, 301)
    theirs = t5.T5Attention._relative_position_bucket(distances, bidirectional, num_buckets, max_distance)
    ours = RelativeBias(1, num_buckets=num_buckets, max_distance=max_distance, bidirectional=bidirectional)
    assert torch.equal(ours.bucket(distances), theirs)


def test_each_head_reads_its_own_column():
    layer = RelativeBias(3, num_buckets=4, max_distance=8)
    bias = layer.bias(torch.tensor([4, 5]), torch.tensor([0, 1, 4, 5, 6]))
    assert bias.shape == (3, 2, 5)
    buckets = torch.tensor([[3, 2, 0, 0, 0], [3, 3, 1, 0, 0]])
    assert torch.equal(bias, layer.table.weight[buckets].permute(2, 0, 1))
