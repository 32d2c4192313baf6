"""Claim: fewer key-value heads cost little and make decoding cheaper."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

import torch
from torch import Tensor

from selfattn.attention import KeyValue
from selfattn.claims.claim import Arm, Claim, Found
from selfattn.claims.rules import MARGIN, contrast, exact, share_error
from selfattn.claims.sequences import BOS, exact_share, held_out, loss_of, random_symbols, reversals, stream, vocabulary
from selfattn.claims.training import train_for
from selfattn.data.batches import Batch
from selfattn.decoding.inputs import stepping
from selfattn.figures.claims import Contrast
from selfattn.models.build import build, count_parameters
from selfattn.models.decoder_only.config import DecoderOnlyConfig
from selfattn.models.encoder_decoder.config import EncoderDecoderConfig
from selfattn.models.protocol import Seq2Seq
from selfattn.models.transformer_config import TransformerConfig
from selfattn.registry import register
from selfattn.report.blocks import Block, Chart, ChartLine, Column, Row, Table
from selfattn.report.drawing.scale import number_scale

HEADS, FEWER, SYMBOLS, LENGTHS, ITEMS = 4, (2, 1), 16, (3, 7), 500
RATES = (5e-3, 1e-2, 2e-2)
TIMED_HEADS, PREFIXES, BATCH, WRITTEN, TURNS = 8, (64, 256, 1000), 16, 12, 5
LARGEST_SIZE_ERROR = 0.005


@register.claim("key-value-heads")
class KeyValueHeads(Claim):
    """Exact match at equal size with as many key-value heads as heads, and with fewer; cache and time of decoding."""

    name = "key-value-heads"
    source = "Shazeer 2019, sections 2.4 and 3; Ainslie et al. 2023, sections 2.2 and 3"
    seconds = (35.0, 270.0)
    points = tuple(f"kv-{kv}" for kv in FEWER)

    def arms(self, quick: bool) -> tuple[Arm, ...]:
        """Trained models with 4, 2 and 1 key-value heads of 4; one arm that takes times."""
        trained = (Arm(f"kv-{kv}", {"num_kv_heads": kv}, RATES) for kv in (HEADS, *FEWER))
        return (*trained, Arm("decoding", {"num_kv_heads": TIMED_HEADS}, alone=True))

    def measure(self, arm: Arm, *, seed: int, rate: float | None, quick: bool, steps: int = 600) -> dict[str, float]:
        """Train on reversals; or decode by turns with 8 and with 1 key-value heads, after prefixes of three lengths."""
        kv = arm.settings["num_kv_heads"]
        if not arm.rates:
            return decoding(kv, seed, turns=min(2 if quick else TURNS, steps))
        assert rate is not None
        model = build(of_equal_size(kv), vocab_size=vocabulary(SYMBOLS), seed=seed)
        train_for(
            model,
            stream(lambda d: drawn(64, *LENGTHS, d), seed=seed),
            steps=200 if quick else steps,
            lr=rate,
            seed=seed,
        )

        def unseen(name: str) -> Batch:
            return held_out(lambda d: drawn(ITEMS, LENGTHS[1], LENGTHS[1], d), seed=seed, name=name)

        total = float(count_parameters(model)[1])
        return {
            "valid": loss_of(model, unseen("validation")),
            "exact": exact_share(model, unseen("test")),
            "size": total,
        }

    def contrasts(self, found: Found) -> tuple[Contrast, ...]:
        """Not worse than the margin at equal size; a cache as much smaller as there are fewer heads; faster."""
        full = f"kv-{HEADS}"
        rules = []
        for arm in (f"kv-{kv}" for kv in FEWER):
            error = math.hypot(*(share_error(found.values(one, "exact"), ITEMS) for one in (arm, full)))
            rules.append(contrast(arm, found.differences(arm, full, "exact"), "above", -MARGIN, least_error=error))
        sizes = [found.values(f"kv-{kv}", "size")[0] for kv in (HEADS, *FEWER)]
        longest = PREFIXES[-1]
        cache = found.values("decoding", f"cache@{longest}")[0]
        return (
            *rules,
            exact("size", max(sizes) / min(sizes) - 1, LARGEST_SIZE_ERROR),
            exact("cache", abs(cache - TIMED_HEADS), 1e-12),
            contrast("speed-up", found.values("decoding", f"speed-up@{longest}"), "above", 1.0),
        )

    def blocks(self, found: Found) -> tuple[Block, ...]:
        """How many times as fast, by the length of the prefix; exact match and size."""
        places = {float(n): f"speed-up@{n}" for n in PREFIXES}
        line = ChartLine("speed-up", found.spots("decoding", places), self.say("line"))
        highest = [spot.high or spot.y for spot in line.spots]
        chart = Chart(
            "kv-speed-up",
            self.say("caption"),
            (line,),
            number_scale(highest),
            self.say("axis"),
            across=number_scale([10, PREFIXES[-1]], powers=True),
            height=self.say("height"),
        )
        columns = (
            Column(self.say("column.arm"), numeric=False),
            *(Column(self.say(f"column.{k}")) for k in ("exact", "size")),
        )
        rows = []
        for kv in (HEADS, *FEWER):
            one = found.mean(f"kv-{kv}", "exact")
            cells = f"{100 * one.mean:.1f} [{100 * (one.low or 0):.1f}, {100 * (one.high or 0):.1f}]"
            rows.append(Row((self.say(f"arm.kv-{kv}"), cells, f"{found.values(f'kv-{kv}', 'size')[0]:,.0f}")))
        return chart, Table("kv-quality", columns, tuple(rows))


def drawn(rows: int, shortest: int, longest: int, draws: torch.Generator) -> Batch:
    """Make sources of one length, to be reversed."""
    length = int(torch.randint(shortest, longest + 1, (1,), generator=draws))
    return reversals(rows, length, symbols=SYMBOLS, generator=draws)


def of_equal_size(num_kv_heads: int, dim: int = 64) -> EncoderDecoderConfig:
    """What the key and value projections of missing heads would weigh goes into the feed-forward blocks."""
    saved = 2 * (dim * dim + dim) * (1 - num_kv_heads / HEADS) / (2 * dim + 1)  # units inside, for one attention
    parts = (
        TransformerConfig(dim=dim, num_heads=HEADS, num_kv_heads=num_kv_heads, ffn_dim=2 * dim + round(count * saved))
        for count in (1, 2)  # an encoder's layer has one attention, a decoder's two
    )
    return EncoderDecoderConfig(encoder=next(parts), decoder=next(parts))


def decoding(num_heads: int, seed: int, *, turns: int) -> dict[str, float]:
    """Time a written token with all and with one key-value head, by turns; ``cache@N`` is how many times as large."""
    found = {}
    models = []
    for kv in (num_heads, 1):
        stack = TransformerConfig(dim=128, num_heads=num_heads, num_kv_heads=kv, num_layers=2, ffn_dim=256)
        models.append(build(DecoderOnlyConfig(stack=stack), vocab_size=vocabulary(SYMBOLS), seed=seed).eval())
    for length in PREFIXES:
        draws = torch.Generator().manual_seed(seed)
        source = random_symbols(BATCH, length, symbols=SYMBOLS, generator=draws)
        times = [seconds_a_token(model, source) for model in models]
        rounds = [[time_once() for time_once in times] for _ in range(turns + 1)][1:]  # the first warms up
        found[f"speed-up@{length}"] = median(full / one for full, one in rounds)
        sizes = [cached_numbers(model, source) for model in models]
        found[f"cache@{length}"] = sizes[0] / sizes[1]
    return found


def seconds_a_token(model: Seq2Seq, source: Tensor) -> Callable[[], float]:
    """Read a prefix, and return what writes the next tokens and takes their processor time; a call goes on from there.

    The first call also makes room for the cache to grow.
    """
    with torch.inference_mode():
        state = model.start(model.encode(source, torch.ones_like(source, dtype=torch.bool))).prepared()
    token = torch.full((len(source),), BOS)

    @torch.inference_mode()
    def seconds() -> float:
        nonlocal state, token
        with stepping(model):
            started = time.process_time()
            for _ in range(WRITTEN):
                logits, state = model.step(token, state)
                token = logits.argmax(dim=-1)
            return (time.process_time() - started) / WRITTEN

    return seconds


@torch.inference_mode()
def cached_numbers(model: Seq2Seq, source: Tensor) -> int:
    """Count the numbers that a decoder keeps of what it has read: keys and values."""
    state = model.start(model.encode(source, torch.ones_like(source, dtype=torch.bool)))
    return sum(one.key.numel() + one.value.numel() for one in caches(vars(state).values()))


def caches(parts: Any) -> Iterator[KeyValue]:
    """Find keys and values in a state, in tuples too."""
    for part in parts:
        if isinstance(part, KeyValue):
            yield part
        elif isinstance(part, tuple):
            yield from caches(part)
