from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from selfattn.data.batches import Batch, batches, padding_of, stream_batches
from selfattn.data.examples import Example
from selfattn.data.pairs import Pair
from selfattn.data.shuffling import permuted, shuffled

PAD, BOS, EOS = 0, 1, 2


def example(number: int) -> Example:
    """An example whose lengths jump about as the numbers go on."""
    return Example([5] * (number * 7919 % 31) + [EOS], [6] * (number * 104_729 % 37) + [EOS])


def examples(count: int) -> Iterator[Example]:
    return map(example, range(count))


def chance(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def order(stream: Iterator[Batch]) -> list[list[int]]:
    return [batch.indices for batch in stream]


def test_every_example_comes_once_and_no_batch_exceeds_its_bounds() -> None:
    stream = list(
        stream_batches(
            examples(1009), batch_size=23, max_tokens=500, buffer=211, pad_id=PAD, bos_id=BOS, generator=chance()
        )
    )
    assert sorted(index for batch in stream for index in batch.indices) == list(range(1009))
    for batch in stream:
        assert len(batch.indices) <= 23
        assert batch.source.numel() + batch.target_out.numel() <= 500
        for row, index in enumerate(batch.indices):
            assert batch.source[row][batch.source_mask[row]].tolist() == example(index).source
            assert batch.target_out[row][batch.target_mask[row]].tolist() == example(index).target
        assert max(batch.indices) // 211 == min(batch.indices) // 211  # of one window


def test_without_a_generator_the_batches_are_those_of_a_list() -> None:
    for bounds in ((7, None), (None, 200), (5, 150)):
        options = {"batch_size": bounds[0], "max_tokens": bounds[1], "pad_id": PAD, "bos_id": BOS, "generator": None}
        whole = order(batches(list(examples(307)), **options))  # type: ignore[arg-type]  # options of several types
        for buffer in (13, 100, 1000):
            assert order(stream_batches(examples(307), buffer=buffer, **options)) == whole  # type: ignore[arg-type]  # options of several types


@pytest.mark.parametrize("seed", [None, 0])
def test_no_more_than_the_window_is_read_ahead(seed: int | None) -> None:
    read = 0

    def counted() -> Iterator[Example]:
        nonlocal read
        for one in examples(10**9):  # without end, as far as memory and patience go
            read += 1
            yield one

    generator = None if seed is None else chance(seed)
    dealt = 0
    stream = stream_batches(counted(), max_tokens=400, buffer=101, pad_id=PAD, bos_id=BOS, generator=generator)
    for batch in stream:
        assert read - dealt <= 101
        dealt += len(batch.indices)
        if dealt > 2000:
            break


def padding_share(some: Iterator[Batch]) -> float:
    padding, places = map(sum, zip(*map(padding_of, some), strict=True))
    return padding / places


def test_sorting_within_windows_saves_padding() -> None:
    # Targets are about as long as their sources, as in real text.
    lengths = [(2 + number * 7919 % 31, number * 104_729 % 3) for number in range(5003)]
    like_text = [Example([5] * length, [6] * (length + more)) for length, more in lengths]
    shares = [
        padding_share(stream_batches(like_text, max_tokens=2000, pad_id=PAD, bos_id=BOS, generator=generator))
        for generator in (None, chance())
    ]
    assert shares[0] > 0.4
    assert shares[1] < 0.06


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "batch_size, max_tokens or both"),
        ({"batch_size": 0}, "batch_size"),
        ({"max_tokens": 9, "buffer": 0}, "buffer"),
    ],
)
def test_bad_bounds(options: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        stream_batches([], pad_id=PAD, bos_id=BOS, generator=None, **options)  # type: ignore[arg-type]  # options of several types


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 65, 1009])
def test_a_permutation_has_every_place_once(size: int) -> None:
    for seed in (0, 1, 2**62):
        assert sorted(permuted(place, size, seed) for place in range(size)) == list(range(size))


def test_shuffling_goes_on_where_it_was_left() -> None:
    pairs = [Pair(str(number), "") for number in range(53)]
    whole = list(shuffled(pairs, seed=3))
    assert sorted(whole, key=lambda pair: int(pair.source)) == pairs
    assert list(shuffled(pairs, seed=3, start=17)) == whole[17:]
    assert list(shuffled(pairs, seed=4)) != whole != pairs
    assert list(shuffled([], seed=0)) == []
