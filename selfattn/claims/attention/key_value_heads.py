"""Claim: fewer key-value heads cost little and make decoding cheaper."""

from __future__ import annotations

from functools import partial

import torch

from selfattn.claims.attention.cached_decoding import SYMBOLS, one_against_all
from selfattn.claims.claim import Arm, Claim, Found
from selfattn.claims.drawing import at, chart, table
from selfattn.claims.rules import MARGIN, contrast, exact
from selfattn.claims.sequences import exact_share, loss_of, reversals, validation_and_test, vocabulary
from selfattn.claims.training import trained
from selfattn.data.batches import Batch
from selfattn.models.build import count_parameters
from selfattn.models.encoder_decoder.config import EncoderDecoderConfig
from selfattn.models.transformer_config import TransformerConfig
from selfattn.registry import register
from selfattn.report.blocks import Block
from selfattn.report.drawing.numbers import estimate_text
from selfattn.report.drawing.scale import number_scale
from selfattn.results.claims import Contrast

HEADS, FEWER, LENGTHS, ITEMS = 4, (2, 1), (3, 7), 500
RATES = (5e-3, 1e-2, 2e-2)
TIMED_HEADS, PREFIXES, TURNS = 8, (64, 256, 1000), 5
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
        learners = (Arm(f"kv-{kv}", {"num_kv_heads": kv}, RATES) for kv in (HEADS, *FEWER))
        return (*learners, Arm("decoding", {"num_kv_heads": TIMED_HEADS}, alone=True))

    def measure(self, arm: Arm, *, seed: int, rate: float | None, quick: bool, steps: int = 600) -> dict[str, float]:
        """Train on reversals; or decode by turns with 8 and with 1 key-value heads, after prefixes of three lengths."""
        kv = arm.settings["num_kv_heads"]
        if not arm.rates:
            return one_against_all(kv, PREFIXES, seed, turns=min(2 if quick else TURNS, steps))
        steps = 200 if quick else steps
        make, longest = partial(drawn, 64, *LENGTHS), partial(drawn, ITEMS, LENGTHS[1], LENGTHS[1])
        model = trained(of_equal_size(kv), make, vocab_size=vocabulary(SYMBOLS), steps=steps, seed=seed, rate=rate)
        validation, test = validation_and_test(longest, seed=seed)
        size = float(count_parameters(model)[1])
        return {"valid": loss_of(model, validation), "exact": exact_share(model, test), "size": size}

    def contrasts(self, found: Found) -> tuple[Contrast, ...]:
        """Not worse than the margin at equal size; a cache as much smaller as there are fewer heads; faster."""
        cache, speed_up = (found.values("decoding", f"{figure}@{PREFIXES[-1]}") for figure in ("cache", "speed-up"))
        sizes = [found.values(f"kv-{kv}", "size")[0] for kv in (HEADS, *FEWER)]
        full, fewer = f"kv-{HEADS}", [f"kv-{kv}" for kv in FEWER]
        return (
            *(found.share_difference(one, one, full, "exact", "above", -MARGIN, items=ITEMS) for one in fewer),
            exact("size", max(sizes) / min(sizes) - 1, LARGEST_SIZE_ERROR),
            exact("cache", abs(cache[0] - TIMED_HEADS), 1e-12),
            contrast("speed-up", speed_up, "above", 1.0),
        )

    def blocks(self, found: Found) -> tuple[Block, ...]:
        """How many times as fast, by the length of the prefix; exact match and size."""
        lines = {"speed-up": found.spots("decoding", at("speed-up", PREFIXES))}
        across = number_scale([10, PREFIXES[-1]], powers=True)
        sizes = {f"kv-{kv}": found.values(f"kv-{kv}", "size")[0] for kv in (HEADS, *FEWER)}
        rows = {arm: (estimate_text(found.mean(arm, "exact")), f"{size:,.0f}") for arm, size in sizes.items()}
        plot = chart(self, "kv-speed-up", lines, of="line", scale="number", across=across)
        return plot, table(self, "kv-quality", ("exact", "size"), rows)


def drawn(rows: int, shortest: int, longest: int, draws: torch.Generator) -> Batch:
    """Make sources of one length, to be reversed."""
    length = int(torch.randint(shortest, longest + 1, (1,), generator=draws))
    return reversals(rows, length, draws, symbols=SYMBOLS)


def of_equal_size(num_kv_heads: int, dim: int = 64) -> EncoderDecoderConfig:
    """What the key and value projections of missing heads would weigh goes into the feed-forward blocks."""
    saved = 2 * (dim * dim + dim) * (1 - num_kv_heads / HEADS) / (2 * dim + 1)  # units inside, for one attention
    parts = (
        TransformerConfig(dim=dim, num_heads=HEADS, num_kv_heads=num_kv_heads, ffn_dim=2 * dim + round(count * saved))
        for count in (1, 2)  # an encoder's layer has one attention, a decoder's two
    )
    return EncoderDecoderConfig(encoder=next(parts), decoder=next(parts))
