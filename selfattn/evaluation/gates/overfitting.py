"""The gate that checks whether a model can learn at all: a fresh one has to memorise 64 examples.

A model that cannot has a fault (missing gradients, an unstable learning rate, shifted targets), and comparing it with a
sound model says nothing about architectures.
"""

import math
import time
from collections.abc import Callable, Sequence

import torch

from selfattn.data.batches import collate
from selfattn.data.pairs import Example
from selfattn.decoding.greedy import greedy
from selfattn.errors import DivergedError
from selfattn.models.protocol import Seq2Seq
from selfattn.results.record import Gate
from selfattn.streams import seed_for
from selfattn.training.config import TrainingConfig
from selfattn.training.loss import batch_loss
from selfattn.training.optimizer import make_optimizer

EXAMPLES = 64
LIMIT = 0.98  # 63 of 64
_WARM_UP = 20  # steps
_LOOK_EVERY = 20  # steps between two looks at what is known
_KNOWN = 0.1  # nats a token: above it there is nothing to see yet


def overfitting(
    make: Callable[[], Seq2Seq],
    examples: Sequence[Example],
    *,
    pad_id: int,
    bos_id: int,
    eos_id: int,
    lr: float = 3e-3,
    steps: int = 1500,
) -> Gate:
    """Train a fresh model on a few examples, until it writes them all greedily or the steps are used up; 98 % pass.

    Args:
        make: builds the model, with first values, on the device where it is to be trained.
        examples: the first 64 with different sources are used; fewer are enough where there are not so many.
        pad_id: padding token.
        bos_id: what targets begin with.
        eos_id: what targets end with.
        lr: learning rate of AdamW, constant after 20 steps of warm-up; default 0.003.
        steps: at most; default 1500. They decide, never the clock: what a gate finds does not depend on how busy the
            machine is.

    Raises:
        ValueError: no examples.

    Example:
        >>> from selfattn.models.build import build
        >>> from selfattn.models.decoder_only.config import DecoderOnlyConfig
        >>> from selfattn.models.transformer_config import TransformerConfig
        >>> config = DecoderOnlyConfig(stack=TransformerConfig(dim=16, num_heads=2, ffn_dim=16))
        >>> examples = [Example([3, 4, 2], [4, 3, 2]), Example([4, 4, 2], [3, 2])]
        >>> make = lambda: build(config, vocab_size=5, pad_id=0, seed=0)
        >>> overfitting(make, examples, pad_id=0, bos_id=1, eos_id=2, lr=0.01).passed
        True
    """
    first: dict[tuple[int, ...], Example] = {}
    for example in examples:
        first.setdefault(tuple(example.source), example)  # one source with two targets cannot be known by heart
        if len(first) == EXAMPLES:
            break
    chosen = list(first.values())
    if not chosen:
        raise ValueError("the overfitting gate needs at least one example")
    model = make().train()
    batch = collate(chosen, pad_id, bos_id, range(len(chosen))).to(model.device)
    optimizer = make_optimizer(model, TrainingConfig(lr=lr, weight_decay=0.0))

    def count_known() -> int:
        longest = batch.target_out.shape[1]
        try:
            written = greedy(model, batch.source, batch.source_mask, bos_id=bos_id, eos_id=eos_id, max_length=longest)
        except DivergedError:
            return 0
        ends = zip(written, chosen, strict=True)
        return sum(reason.finished and [*reason.ids, eos_id] == example.target for reason, example in ends)

    known, started = 0, time.perf_counter()
    with torch.random.fork_rng(devices=[model.device] if model.device.type == "cuda" else []), torch.enable_grad():
        torch.manual_seed(seed_for(0, "dropout"))
        for step in range(1, steps + 1):
            optimizer.param_groups[0]["lr"] = optimizer.param_groups[1]["lr"] = lr * min(1.0, step / _WARM_UP)
            optimizer.zero_grad(set_to_none=True)
            summed = batch_loss(model, batch)
            summed.backward()  # type: ignore[no-untyped-call]  # PyTorch has no types for it
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            loss = summed.item()
            is_last = step == steps or not math.isfinite(loss)
            if is_last or (step % _LOOK_EVERY == 0 and loss < _KNOWN):
                known = count_known()
            if is_last or known == len(chosen):
                break
    share = known / len(chosen)
    used = f"{step} steps in {time.perf_counter() - started:.0f} seconds, at a loss of {loss:.2g} nats a token"
    reason = f"a fresh model writes {known} of {len(chosen)} pairs after {used}"
    return Gate("overfitting", share >= LIMIT, reason, value=share, limit=LIMIT)
