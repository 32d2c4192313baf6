"""Time a training step of the sentences' Transformer against the plain way, by turns; median of the ratio over pairs.

`python benchmarks/training_step.py` prints a table; nothing is written. The plain way has all logits at once in
float32: `cross_entropy(model(...))`. With R-Drop every pair is in the batch twice, and both ways add the divergence.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from by_turns import by_turns
from torch import Tensor

from selfattn.data.batches import Batch, collate
from selfattn.data.examples import Example
from selfattn.models.build import build
from selfattn.models.presets import PRESETS
from selfattn.models.protocol import Seq2Seq
from selfattn.tasks.translation import size_for_sentences
from selfattn.training.config import TrainingConfig
from selfattn.training.objective.loss import batch_loss, logits_loss, token_loss
from selfattn.training.optim.optimizer import make_optimizer

Way = Callable[[Seq2Seq, Batch], Tensor]

PAIRS, ROWS, LENGTH, VOCABULARY = 7, 256, 15, 8000


def plain(model: Seq2Seq, batch: Batch) -> Tensor:
    logits = model(batch.source, batch.target_in, source_mask=batch.source_mask)
    return token_loss(logits, batch.target_out, batch.target_mask, label_smoothing=0.1)


def plain_r_drop(model: Seq2Seq, batch: Batch) -> Tensor:
    logits = model(batch.source, batch.target_in, source_mask=batch.source_mask)
    return logits_loss(logits, batch, label_smoothing=0.1, r_drop=5.0)


def plain_r_drop_bfloat16(model: Seq2Seq, batch: Batch) -> Tensor:
    with torch.autocast("cpu", torch.bfloat16):
        return plain_r_drop(model, batch)


def ours_r_drop_bfloat16(model: Seq2Seq, batch: Batch) -> Tensor:
    with torch.autocast("cpu", torch.bfloat16):
        return batch_loss(model, batch, label_smoothing=0.1, r_drop=5.0)


def ours(model: Seq2Seq, batch: Batch) -> Tensor:
    return batch_loss(model, batch, label_smoothing=0.1)


def ours_bfloat16(model: Seq2Seq, batch: Batch) -> Tensor:
    with torch.autocast("cpu", torch.bfloat16):
        return batch_loss(model, batch, label_smoothing=0.1)


def stepper(name: str, loss: Callable[[Seq2Seq, Batch], Tensor], batch: Batch) -> Callable[[], float]:
    config = size_for_sentences(PRESETS[name].config)
    model = build(config, vocab_size=VOCABULARY, pad_id=0, seed=0).train()
    optimizer = make_optimizer(model, TrainingConfig())

    def step() -> float:
        started = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        loss(model, batch).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return time.perf_counter() - started

    return step


def main() -> None:
    draw = torch.Generator().manual_seed(0)
    ids = torch.randint(4, VOCABULARY, (ROWS, 2, LENGTH), generator=draw).tolist()
    pairs = [Example([*source, 2], [*target, 2]) for source, target in ids]
    batch, twice = (collate(rows, 0, 1, range(len(rows))) for rows in (pairs, pairs + pairs))
    tokens = int(batch.target_mask.sum())
    threads = torch.get_num_threads()
    print(f"torch {torch.__version__}, {threads} threads, {tokens:,} target tokens, {PAIRS} pairs by turns")
    print("| model | way | against the plain way: plain, ms | this, ms | ratio | this, target tokens/s |")
    print("| --- | --- | ---: | ---: | ---: | ---: |")
    ways: list[tuple[str, str, Way, Way, Batch]] = [
        (name, precision, plain, loss, batch)
        for name in ("transformer", "luong-general", "decoder-only")
        for precision, loss in (("float32", ours), ("bfloat16", ours_bfloat16))
    ]
    ways += [
        ("transformer", "R-Drop, bfloat16", plain_r_drop, ours_r_drop_bfloat16, twice),
        ("transformer", "R-Drop, both in bfloat16", plain_r_drop_bfloat16, ours_r_drop_bfloat16, twice),
    ]
    for name, way, plainly, loss, rows in ways:
        before, after, ratio = by_turns(stepper(name, plainly, rows), stepper(name, loss, rows), pairs=PAIRS, warm_up=3)
        print(
            f"| {name} | {way} | {1000 * before:.0f} | {1000 * after:.0f} | {ratio:.2f} | {tokens / after:,.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
