"""Gates on a model itself: is the future hidden, does padding, batching or stepwise reading change it, can it learn?

A gate measures a number and compares it with a limit. Gates on outputs and data: `output_gates`.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import repeat

import torch
from torch import Tensor

from selfattn.data.batches import Batch, collate
from selfattn.data.pairs import Example
from selfattn.decoding.common import evaluating
from selfattn.decoding.greedy import greedy
from selfattn.errors import DivergedError, number_of
from selfattn.models.protocol import Seq2Seq, stepped_logits
from selfattn.results.record import Gate
from selfattn.streams import seed_for, seeded
from selfattn.tokenizers.protocol import BOS, EOS, PAD
from selfattn.training.config import TrainingConfig
from selfattn.training.distributed import Replica
from selfattn.training.step import Stepper, make_optimizer, take_steps

# What rounding may change, as a share of the largest logit, where the same numbers are added in another order.
_ROUNDING = {torch.float64: 1e-9, torch.float32: 1e-4, torch.float16: 2e-2, torch.bfloat16: 1e-1}
_CUTS = 8  # places at which the future is changed
_EXTRA = 3  # columns of padding that are added
EXAMPLES = 64
LIMIT = 0.98  # 63 of 64
_WARM_UP = 20  # steps
_LOOK_EVERY = 20  # steps between two looks at what is known
_KNOWN = 0.1  # nats a token: above it there is nothing to see yet


def model_gates(model: Seq2Seq, batch: Batch, *, source_vocab_size: int | None = None) -> list[Gate]:
    """Run the gates of this file on a model, but for :func:`overfitting`.

    Args:
        model: on any device, in any mode; left as it was.
        batch: some rows of the data, best of different lengths; eight are enough.
        source_vocab_size: number of source tokens; default as many as target tokens.

    Example:
        >>> from selfattn.data.batches import collate
        >>> from selfattn.data.pairs import Example
        >>> from selfattn.models.build import build
        >>> from selfattn.models.presets import PRESETS
        >>> model = build(PRESETS["transformer"].config, vocab_size=11, pad_id=0, seed=0)
        >>> batch = collate([Example([5, 6, 7, 2], [8, 9, 2]), Example([5, 2], [9, 2])], 0, 1, [0, 1])
        >>> [(gate.name, gate.passed) for gate in model_gates(model, batch)]
        [('causal', True), ('padding', True), ('batch', True), ('forward = step', True)]
    """
    return [causal(model, batch), *same_logits(model, batch, source_vocab_size=source_vocab_size)]


def causal(model: Seq2Seq, batch: Batch) -> Gate:
    """Check that changing later target tokens leaves the logits before them the same, bit for bit.

    Checked in evaluation mode and, with the same dropout for both, in training mode, where a leak teaches copying.

    Args:
        model: see :func:`model_gates`.
        batch: with at least two target positions.

    Raises:
        ValueError: there is only one target position, so nothing is later than another.
    """
    batch = batch.to(model.device)
    length = batch.target_in.shape[1]
    if length < 2:
        raise ValueError("the causal gate needs targets of at least two tokens")
    places = sorted({1 + number * (length - 2) // (_CUTS - 1) for number in range(_CUTS)})
    worst = 0.0
    for training in (False, True):
        with evaluating(model), torch.no_grad():
            model.train(training)
            before = _logits(model, batch)
            for place in places:
                target = batch.target_in.clone()
                target[:, place:] = _other(target[:, place:], before.shape[-1])
                after = _logits(model, replace(batch, target_in=target))
                worst = max(worst, _difference(after[:, :place], before[:, :place]))
    held = "no logit moved when later target tokens changed"
    checked = "places, evaluation and training mode"
    reason = f"logits move by up to {worst:.3g} when later target tokens change" if worst else held
    return Gate.at_most("causal", worst, 0.0, f"{reason} ({len(places)} {checked})")


def same_logits(model: Seq2Seq, batch: Batch, *, source_vocab_size: int | None = None) -> list[Gate]:
    """Check that the logits stay the same, but for rounding, however a batch is read.

    ==============  ================================================================================================
    padding         with wider padding of the sources, and other tokens in it
    batch           each row alone (with its padding), and all rows in reverse order
    forward = step  by ``step``, token by token, which decoding uses, instead of ``forward``, which is trained
    ==============  ================================================================================================

    Args:
        model: see :func:`model_gates`.
        batch: see :func:`model_gates`.
        source_vocab_size: see :func:`model_gates`.
    """
    batch = batch.to(model.device)
    rows = torch.arange(len(batch.source), device=batch.source.device)
    extra = batch.source.new_zeros(len(rows), _EXTRA)
    mask = torch.cat([batch.source_mask, extra.bool()], dim=1)
    wider = replace(batch, source=torch.cat([batch.source, extra], dim=1), source_mask=mask)
    with evaluating(model), torch.no_grad():
        before = _logits(model, batch)
        other = _other(wider.source, source_vocab_size or before.shape[-1])
        refilled = replace(wider, source=torch.where(mask, wider.source, other))
        padded = {"with more padding": _logits(model, wider)}
        padded["with other tokens in the padding"] = _logits(model, refilled)
        alone = torch.cat([_logits(model, _pick(batch, row)) for row in rows[:, None]])
        reordered = {"read alone": alone, "in reverse order": _logits(model, _pick(batch, rows.flip(0))).flip(0)}
        state = model.start(model.encode(batch.source, batch.source_mask))
        by_step = {"token by token": stepped_logits(model, batch.target_in, state)}
    return [
        _judge("padding", padded, before, "padding changes nothing"),
        _judge("batch", reordered, before, "a row's neighbours change nothing"),
        _judge("forward = step", by_step, before, "token by token the logits are those of the whole target"),
    ]


def overfitting(
    make: Callable[[], Seq2Seq],
    examples: Sequence[Example],
    *,
    lr: float = 3e-3,
    steps: int = 1500,
) -> Gate:
    """Train a fresh model on a few examples, until it writes them all greedily or the steps are used up; 98 % pass.

    A model that cannot has a fault (missing gradients, an unstable learning rate, shifted targets), and comparing it
    with a sound model says nothing about architectures.

    Args:
        make: builds the model, with first values, on the device where it is to be trained.
        examples: the first 64 with different sources are used; fewer are enough where there are not so many.
        lr: learning rate of AdamW, constant after 20 steps of warm-up; default 0.003.
        steps: at most; default 1500. They decide, never the clock: what a gate finds does not depend on how busy the
            machine is.

    Example:
        >>> from selfattn.models.build import build
        >>> from selfattn.models.decoder_only.config import DecoderOnlyConfig
        >>> from selfattn.models.transformer_config import TransformerConfig
        >>> config = DecoderOnlyConfig(stack=TransformerConfig(dim=16, num_heads=2, ffn_dim=16))
        >>> examples = [Example([3, 4, 2], [4, 3, 2]), Example([4, 4, 2], [3, 2])]
        >>> make = lambda: build(config, vocab_size=5, pad_id=0, seed=0)
        >>> overfitting(make, examples, lr=0.01).passed
        True
    """
    first: dict[tuple[int, ...], Example] = {}
    for example in examples:
        first.setdefault(tuple(example.source), example)  # one source with two targets cannot be known by heart
    chosen = list(first.values())[:EXAMPLES]
    model = make().train()
    batch = collate(chosen, PAD, BOS, range(len(chosen))).to(model.device)
    config = TrainingConfig(lr=lr, weight_decay=0.0, schedule="constant", warmup_steps=_WARM_UP)
    stepper = Stepper(Replica(model), make_optimizer(model, config), config, torch.Generator())

    def count_known() -> int:
        longest = batch.target_out.shape[1]
        written = greedy(model, batch.source, batch.source_mask, bos_id=BOS, eos_id=EOS, max_length=longest)
        ends = zip(written, chosen, strict=True)
        return sum(reason.finished and [*reason.ids, EOS] == example.target for reason, example in ends)

    step = 0
    known = 0
    loss = math.inf
    started = time.perf_counter()
    stepper.chance.seed(seed_for(0, "dropout"))
    training_steps = take_steps(stepper, repeat([batch], steps), total_steps=max(steps, _WARM_UP))
    with torch.enable_grad():
        try:
            for taken in training_steps:
                step += 1  # one that diverges counts too
                loss = taken.loss
                if step == steps or (step % _LOOK_EVERY == 0 and loss < _KNOWN):
                    known = count_known()
                if known == len(chosen):
                    break
        except DivergedError:
            step += 1
            known = 0
            loss = math.nan
    share = known / len(chosen)
    used = f"{number_of(step, 'step')} in {time.perf_counter() - started:.0f} seconds"
    used += f", at a loss of {loss:.2g} nats a token"
    reason = f"a fresh model writes {known} of {len(chosen)} pairs after {used}"
    return Gate.at_least("overfitting", share, LIMIT, reason)


def _judge(name: str, readings: dict[str, Tensor], before: Tensor, held: str) -> Gate:
    """Compare the logits of several readings with those before; the largest difference counts."""
    limit = _ROUNDING[before.dtype]
    largest = before.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0).abs().max().item()
    shares = {how: _difference(logits, before) / max(1.0, largest) for how, logits in readings.items()}
    how, worst = max(shares.items(), key=lambda item: item[1])
    figures = f"{worst:.1e} of the largest logit, at most {limit:.0e} is rounding"
    reason = f"{held} ({figures})" if worst <= limit else f"{how}, logits change by {figures}"
    return Gate.at_most(name, worst, limit, reason)


def _logits(model: Seq2Seq, batch: Batch) -> Tensor:
    """Run the model, with the same dropout every time."""
    with seeded(0, batch.source.device):
        logits: Tensor = model(batch.source, batch.target_in, source_mask=batch.source_mask)
    return logits


def _other(ids: Tensor, vocab_size: int) -> Tensor:
    """Replace every id by another one, always by the same."""
    draw = torch.Generator().manual_seed(0)
    shift = torch.randint(1, vocab_size, ids.shape, generator=draw).to(ids.device)
    return (ids + shift) % vocab_size


def _pick(batch: Batch, rows: Tensor) -> Batch:
    return batch.changed(lambda tensor: tensor[rows], [batch.indices[row] for row in rows.tolist()])


def _difference(actual: Tensor, expected: Tensor) -> float:
    """Return the largest distance: 0 between equal infinities, infinite where something is not a number."""
    apart = torch.where(actual == expected, 0.0, (actual.double() - expected.double()).abs())
    return apart.nan_to_num(nan=math.inf, posinf=math.inf).max().item()
