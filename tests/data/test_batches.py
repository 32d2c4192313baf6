import random
import tracemalloc

import pytest
import torch

from selfattn.data.batches import batches, collate, stream_batches
from selfattn.data.pairs import Example, Examples, Pair, encode_pairs, encode_together
from selfattn.data.splits import next_items
from selfattn.tokenizers.listed import CharTokenizer
from selfattn.tokenizers.subword import SubwordSettings, SubwordTokenizer

PAD, BOS, EOS = 0, 1, 2


def lengths(*sizes):
    return [Example([5] * source, [6] * target) for source, target in sizes]


def dealt(examples, **bounds):
    return [batch.indices for batch in batches(examples, **{"batch_size": None, "max_tokens": None} | bounds)]


def test_the_token_bound_counts_padding_on_both_sides():
    # Two rows of (3 + 2) ids: 10. A third row would make three of (4 + 2): 18.
    examples = lengths((3, 2), (1, 1), (4, 2), (4, 1), (1, 2))
    assert dealt(examples, max_tokens=10) == [[0, 1], [2], [3], [4]]
    assert dealt(examples, max_tokens=17) == [[0, 1], [2, 3], [4]]
    assert dealt(examples, max_tokens=18) == [[0, 1, 2], [3, 4]]
    assert dealt(examples, max_tokens=18, batch_size=2) == [[0, 1], [2, 3], [4]]


@pytest.mark.parametrize("bounds", [{}, {"batch_size": 0}, {"max_tokens": -1}, {"batch_size": 4, "max_tokens": 0}])
def test_bad_bounds_and_a_target_without_an_id_are_refused_at_once(bounds):
    with pytest.raises(ValueError, match=r"batch_size|max_tokens"):
        dealt(lengths((1, 1)), **bounds)
    with pytest.raises(ValueError, match="at least one id"):
        collate(lengths((1, 0)), PAD, BOS, [0])


def example(number):
    """An example whose lengths jump about as the numbers go on."""
    return Example([5] * (number * 7919 % 31) + [EOS], [6] * (number * 104_729 % 37) + [EOS])


def examples(count):
    return map(example, range(count))


def chance_of(seed):
    return torch.Generator().manual_seed(seed)


def test_every_example_comes_once_and_no_batch_exceeds_its_bounds():
    stream = list(stream_batches(examples(1009), batch_size=23, max_tokens=500, buffer=211, generator=chance_of(0)))
    assert sorted(index for batch in stream for index in batch.indices) == list(range(1009))
    for batch in stream:
        assert len(batch.indices) <= 23
        assert batch.source.numel() + batch.target_out.numel() <= 500
        for row, index in enumerate(batch.indices):
            assert batch.source[row][batch.source_mask[row]].tolist() == example(index).source
            assert batch.target_out[row][batch.target_mask[row]].tolist() == example(index).target
        assert max(batch.indices) // 211 == min(batch.indices) // 211  # of one window


def test_no_more_than_the_window_is_read_ahead():
    read = 0

    def counted():
        nonlocal read
        for item in examples(10**9):  # without end, as far as memory and patience go
            read += 1
            yield item

    dealt = 0
    stream = stream_batches(counted(), max_tokens=400, buffer=101, generator=chance_of(0))
    for batch in stream:
        assert read - dealt <= 101
        dealt += len(batch.indices)
        if dealt > 2000:
            break


def test_passes_have_every_item_once_and_go_on_where_they_were_left():
    items = range(53)
    passes = next_items(items, 106, start=0, seed=3)
    assert sorted(passes[:53]) == sorted(passes[53:]) == [*items]
    assert passes[:53] != passes[53:]
    parts = (next_items(items, 17, start=start, seed=3) for start in range(0, 106, 17))
    assert [number for part in parts for number in part][:106] == passes
    assert next_items(items, 53, start=0, seed=4) != passes[:53]


def test_examples_in_arrays_give_the_same_batches_in_less_memory():
    chance = random.Random(0)
    pairs = [
        Pair("".join(chance.choices("abcdeфñ한", k=chance.randint(1, 60))), "ab" * (k % 9 + 1)) for k in range(900)
    ]
    tokenizers = [CharTokenizer("abcd")]
    tokenizers.append(SubwordTokenizer.train((pair.source for pair in pairs), SubwordSettings("bpe", 300)))
    for tokenizer in tokenizers:
        plain = encode_pairs([*pairs, Pair("a\u2581b", "")], tokenizer)
        tracemalloc.start()
        together = encode_together([*pairs, Pair("a\u2581b", "")], tokenizer)
        size = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        ids = sum(len(example.source) + len(example.target) for example in plain)
        assert size < 5 * ids + 40 * len(plain) + 10_000
        assert list(together) == plain == list(Examples.of(plain))
        assert (together[-1], together[7:3:-2]) == (plain[-1], plain[7:3:-2])
        with pytest.raises(IndexError):
            together[len(plain)]
        options = {"batch_size": 32, "max_tokens": 900}
        ways = (batches(examples, **options, generator=chance_of(1)) for examples in (plain, together))
        for before, after in zip(*ways, strict=True):
            assert before.indices == after.indices
            assert torch.equal(before.source, after.source)
            assert torch.equal(before.target_out, after.target_out)
