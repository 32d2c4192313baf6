"""Claim: self-attention matters most in the encoder."""

from __future__ import annotations

from functools import partial

import torch

from selfattn.claims import small
from selfattn.claims.claim import Arm, Blocks, Claim, Contrasts, Trials, contrast, minus
from selfattn.claims.suite.by_length import BATCH
from selfattn.data.batches import Batch
from selfattn.models.config import ModelConfig, config_from_dict
from selfattn.models.sizing import body
from selfattn.registry import register
from selfattn.report.drawing.numbers import estimate_text

KINDS, SENSES = 12, 4
ROWS = 300  # sources of a test
RATES = (2e-3, 4e-3, 8e-3)
SELF = {"kind": "transformer", "dim": 48, "num_layers": 1}
ATTENTION = {"score": "scaled_dot", "num_heads": 4, "project": True}  # on the source, as the Transformer has it
ENCODERS = {
    "rnn": {"kind": "rnn-encoder", "hidden_dim": 32, "embed_dim": 32, "direction": "both"},
    "self": SELF | {"ffn_dim": 96},
}
DECODERS = {
    "rnn": {"kind": "rnn-decoder", "hidden_dim": 44, "embed_dim": 32, "initial_state": "project", **ATTENTION},
    "self": SELF | {"ffn_dim": 82},
}


def make(rows: int, draws: torch.Generator) -> Batch:
    """Make sources in which every kind of word stands once with its sense and once without, in any order.

    The target names kind and sense at either place, so that the second has to be looked up at the first.
    """
    kinds = torch.arange(KINDS).expand(rows, KINDS)
    full = small.FIRST + SENSES * kinds + torch.randint(0, SENSES, kinds.shape, generator=draws)
    bare = small.FIRST + SENSES * KINDS + kinds
    order = torch.rand(rows, 2 * KINDS, generator=draws).argsort(dim=1)
    return small.batch_of(
        torch.cat([full, bare], dim=1).gather(1, order), torch.cat([full, full], dim=1).gather(1, order)
    )


@register.claim("hybrids")
class Hybrids(Claim):
    """Two encoders by two decoders, bodies matched: what self-attention is worth on either side."""

    name = "hybrids"
    source = "Chen et al. 2018, section 5; Domhan 2018, section 5"
    seconds = (30.0, 280.0)
    points = ("encoder", "encoder-minus-decoder")

    def arms(self, quick: bool) -> tuple[Arm, ...]:
        """All four combinations, encoder first."""
        return tuple(
            Arm(f"{encoder}-{decoder}", {"encoder": encoder, "decoder": decoder}, RATES)
            for encoder in ENCODERS
            for decoder in DECODERS
        )

    def config(self, arm: Arm) -> ModelConfig:
        """What the model of an arm is made of."""
        parts = {"encoder": ENCODERS[arm.settings["encoder"]], "decoder": DECODERS[arm.settings["decoder"]]}
        made: ModelConfig = config_from_dict({"kind": "encoder-decoder", **parts})
        return made

    def measure(self, arm: Arm, *, seed: int, rate: float | None, quick: bool, steps: int = 500) -> dict[str, float]:
        """Train, and measure the share of right words, the right ones before being given, and of right sentences."""
        config, steps, size = self.config(arm), 200 if quick else steps, small.vocabulary((SENSES + 1) * KINDS)
        model = small.trained(config, partial(make, BATCH), vocab_size=size, steps=steps, seed=seed, rate=rate)
        valid, test = small.validation_and_test(partial(make, ROWS), seed=seed)
        right = {"accuracy": small.forced_accuracy(model, test), "exact": small.exact_share(model, test)}
        return {"valid": small.loss_of(model, valid)} | right

    def contrasts(self, trials: Trials) -> Contrasts:
        """What self-attention in the encoder is worth, whatever the decoder; and how much more than in the decoder."""
        values = (trials.values(f"{encoder}-{decoder}", "accuracy") for encoder in ENCODERS for decoder in DECODERS)
        by_seed = tuple(zip(*values, strict=True))  # encoder first: recurrent both, recurrent and self, ...
        encoder = [(sr + ss - rr - rs) / 2 for rr, rs, sr, ss in by_seed]
        decoder = [(rs + ss - rr - sr) / 2 for rr, rs, sr, ss in by_seed]
        return (
            contrast("encoder", encoder, "above", 0.0),
            contrast("encoder-minus-decoder", minus(encoder, decoder), "above", 0.0),
        )

    def blocks(self, trials: Trials) -> Blocks:
        """Right words by the decoder, a line for each encoder; and every arm with its size."""
        figures = ("accuracy", "exact")
        by_decoder = {e: {float(place): f"{e}-{d}" for place, d in enumerate(DECODERS)} for e in ENCODERS}
        lines = {encoder: trials.spots_across(arms, "accuracy") for encoder, arms in by_decoder.items()}
        configs = {arm.name: self.config(arm) for arm in self.arms(trials.quick) if arm.name in trials.arms}
        rows = {
            arm: (f"{body(config):,}", *(estimate_text(trials.mean(arm, figure)) for figure in figures))
            for arm, config in configs.items()
        }
        return self.chart("hybrids", lines, of="line"), self.table("hybrid-models", ("body", *figures), rows)
