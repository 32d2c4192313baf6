"""Additive and concat scores never hold ``[b h i j a]`` whole, forward or backward: measured, not believed."""

import pytest
import torch
from memory import Memory

from selfattn.attention import Additive, Concat, attend
from selfattn.attention.scores import summed_tanh

# All of [b h i j a] in float32, and a block that is a 64th part of it.
BATCH, HEADS, QUERIES, KEYS, WIDTH = 1, 2, 127, 131, 64
WHOLE = 4 * BATCH * HEADS * QUERIES * KEYS * WIDTH
BLOCK_ELEMENTS = WHOLE // 4 // 64


def forward_and_backward(score):
    query, key = (torch.randn(BATCH, HEADS, length, WIDTH, requires_grad=True) for length in (QUERIES, KEYS))
    mask = torch.rand(KEYS) < 0.8
    with Memory() as memory:
        attend(query, key, key, score=score, mask=mask).output.square().sum().backward()
    assert query.grad is not None
    assert key.grad is not None
    return memory


@pytest.mark.parametrize("kind", [Additive, Concat])
def test_the_largest_tensor_and_the_peak_stay_far_below_the_whole(kind):
    score = kind(WIDTH)
    score.block_elements = BLOCK_ELEMENTS
    memory = forward_and_backward(score)
    scores, inputs = WHOLE // WIDTH, 4 * BATCH * HEADS * (QUERIES + KEYS) * WIDTH
    assert memory.largest <= max(4 * BLOCK_ELEMENTS, scores, inputs) < WHOLE / 60
    # One block, and what attention holds anyway: a few tensors like the scores, a few like the inputs.
    assert memory.peak <= 4 * BLOCK_ELEMENTS + 4 * scores + 4 * inputs < WHOLE / 6


def test_a_query_of_one_head_is_the_smallest_block(close):
    query, key, v = torch.randn(2, 3, 5, 7), torch.randn(2, 3, 11, 7), torch.randn(7)
    with Memory(ignore=(query, key, v)) as memory:
        scores = summed_tanh(query, key, v, block_elements=1)
    assert memory.largest == 4 * max(11 * 7, 2 * 3 * 5 * 11)
    close(scores, (query.unsqueeze(-2) + key.unsqueeze(-3)).tanh() @ v)


def test_a_block_that_is_one_of_many_has_a_million_elements_and_is_written_anew(close):
    """Eight heads of 64 queries, 64 keys and width 64 are 2**21 elements: two blocks of four heads, in one memory."""
    query, key, v = torch.randn(1, 8, 64, 64), torch.randn(1, 8, 64, 64), torch.randn(64)
    with Memory(ignore=(query, key, v)) as memory:
        scores = summed_tanh(query, key, v, block_elements=2**21 - 1)
    assert memory.largest == 4 * 2**20
    assert memory.peak < 2.1 * memory.largest
    close(scores, (query.unsqueeze(-2) + key.unsqueeze(-3)).tanh() @ v)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_gradients_of_many_blocks_are_summed_in_float32(dtype):
    # 1024 queries, each of which adds 1/4 to the gradient of one key: 256. In bfloat16 the sum would stop at 64.
    query, key = torch.zeros(1, 1, 1024, 1, dtype=dtype), torch.zeros(1, 1, 1, 1, dtype=dtype, requires_grad=True)
    v = torch.full((1,), 1 / 4, dtype=dtype)
    summed_tanh(query, key, v, block_elements=1).sum().backward()
    assert key.grad.item() == 256
