"""Operators of a decoded token and of a training step: what made them fast cannot be lost unseen. Nothing is timed."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from selfattn.data.batches import collate
from selfattn.data.pairs import Example
from selfattn.decoding.beam import beam_search
from selfattn.decoding.greedy import greedy
from selfattn.models.build import build
from selfattn.models.families import PRESETS, EncoderDecoderConfig, TransformerConfig
from selfattn.training.config import TrainingConfig
from selfattn.training.step import Stepper, make_optimizer, take_steps
from selfattn.training.weights import Replica

LAYERS, VOCAB = 4, 8000
HIDES = ("masked_fill", "where", "bitwise_not", "softmax")


class Counted(TorchDispatchMode):
    """Counts calls of operators, views among them, by name."""

    def __init__(self):
        super().__init__()
        self.calls = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.overloadpacket.__name__
        self.calls[name] = self.calls.get(name, 0) + 1
        return func(*args, **(kwargs or {}))


def per_token(decode):
    """Calls in each of 10 further tokens, in mean."""
    counts = []
    for length in (5, 15):
        with Counted() as counted:
            decode(length)
        counts.append(counted.calls)
    return {name: (calls - counts[0].get(name, 0)) / 10 for name, calls in counts[1].items()}


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize(("beam", "most"), [(1, 200), (5, 280)])
def test_operators_of_a_token(beam, most, padded):
    stack = TransformerConfig(dim=16, num_heads=2, num_layers=LAYERS, ffn_dim=32)
    model = build(EncoderDecoderConfig(encoder=stack, decoder=stack), vocab_size=VOCAB, pad_id=0, seed=0)
    source = torch.tensor([[5, 6, 2], [7, 2, 0]]) if padded else torch.tensor([[5, 6, 2], [7, 8, 2]])
    settings = {"bos_id": 1, "eos_id": -1}

    def decode(length):
        if beam == 1:
            return greedy(model, source, source > 0, max_length=length, **settings)
        return beam_search(model, source, source > 0, max_length=length, beam_size=beam, **settings)

    found = per_token(decode)
    assert sum(found.values()) <= most
    assert not any(name.startswith(HIDES) and calls for name, calls in found.items())
    assert found["linear"] == 8 * LAYERS + 1  # q, k, v and out; q and out; two of the feed-forward block
    assert found["scaled_dot_product_attention"] == 2 * LAYERS
    assert found.get("index_select", 0) == (LAYERS if beam > 1 else 0)  # of the source's keys and values none


@pytest.mark.slow
@pytest.mark.parametrize(("name", "most"), [("transformer", 520), ("rnn-attention", 167)])
def test_operators_of_a_training_step(name, most):
    """On a batch without padding; a tenth above what was counted."""
    model, config = build(PRESETS[name].config, vocab_size=13, pad_id=0, seed=0).train(), TrainingConfig(batch_size=4)
    stepper = Stepper(Replica(model), make_optimizer(model, config), config, torch.Generator())
    batch = collate([Example([5, 6, 7, 2], [8, 9, 2])] * 4, 0, 1, range(4))
    steps = take_steps(stepper, [[batch]] * 2, total_steps=9)
    next(steps)  # which makes what the optimizer keeps
    with Counted() as counted:
        next(steps)
    assert sum(counted.calls.values()) <= most
    if name == "transformer":
        assert "masked_fill" not in counted.calls, "nothing is masked, yet something is filled in"
