"""A guard on speed that counts work, not time: operators that a training step and a decoded token call."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from selfattn.data.batches import collate
from selfattn.data.examples import Example
from selfattn.models.build import build
from selfattn.models.presets import PRESETS
from selfattn.models.protocol import Seq2Seq
from selfattn.training.config import TrainingConfig
from selfattn.training.distributed import Replica
from selfattn.training.optimizer import make_optimizer
from selfattn.training.step import Stepper

# Operators of a step on a batch without padding, and of a greedily decoded token: a tenth above what was counted.
MOST = {"transformer": (520, 64), "rnn-attention": (167, 13)}


class Operators(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.count: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count[func.overloadpacket.__name__] += 1
        return func(*args, **(kwargs or {}))


def model_of(name: str) -> Seq2Seq:
    return build(PRESETS[name].config, vocab_size=13, pad_id=0, seed=0)


@pytest.mark.slow
@pytest.mark.parametrize("name", MOST)
def test_a_step_and_a_token_call_no_more_operators_than_they_need(name: str) -> None:
    model, config = model_of(name).train(), TrainingConfig(batch_size=4)
    stepper = Stepper(Replica(model), make_optimizer(model, config), config, torch.Generator())
    batch = collate([Example([5, 6, 7, 2], [8, 9, 2])] * 4, 0, 1, range(4))
    for number in (1, 2):  # the first makes what the optimizer keeps
        with Operators() as step:
            stepper.step([batch], number, total_steps=9, epoch=0)
    model.eval()
    with torch.inference_mode():
        state = model.start(model.encode(batch.source, batch.source_mask)).prepared()
        for token in torch.tensor([[1] * 4, [5] * 4]):
            with Operators() as decoded:
                _, state = model.step(token, state)
    counted = step.count.total(), decoded.count.total()
    assert all(found <= most for found, most in zip(counted, MOST[name], strict=True)), (counted, step.count)
    if name == "transformer":
        assert "masked_fill" not in step.count, "nothing is masked, yet something is filled in"
