"""Claim: self-attention in the encoder learns sooner than self-attention in the decoder."""

from __future__ import annotations

from functools import partial

import torch

from selfattn.claims import small
from selfattn.claims.claim import Blocks, Claim, Contrasts, Setup, Trials, share
from selfattn.claims.rules import contrast, minus
from selfattn.data.batches import Batch
from selfattn.models.config import ModelConfig, config_from_dict
from selfattn.models.sizing import body
from selfattn.registry import register

SENSES = 4
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
PAIRS = {f"{encoder}-{decoder}": (encoder, decoder) for encoder in ENCODERS for decoder in DECODERS}


def make(kinds: int, rows: int, draws: torch.Generator) -> Batch:
    """Make sources in which every kind of word stands once with its sense and once without, in any order.

    The target names kind and sense at either place, so that the second has to be looked up at the first.
    """
    each = torch.arange(kinds).expand(rows, kinds)
    full = small.FIRST + SENSES * each + torch.randint(0, SENSES, each.shape, generator=draws)
    bare = small.FIRST + SENSES * kinds + each
    order = torch.rand(rows, 2 * kinds, generator=draws).argsort(dim=1)
    return small.batch_of(
        torch.cat([full, bare], dim=1).gather(1, order), torch.cat([full, full], dim=1).gather(1, order)
    )


def config(encoder: str, decoder: str) -> ModelConfig:
    """What the model of an arm is made of."""
    parts = {"kind": "encoder-decoder", "encoder": ENCODERS[encoder], "decoder": DECODERS[decoder]}
    model: ModelConfig = config_from_dict(parts)
    return model


@register.claim("hybrids")
class Hybrids(Claim):
    """Two encoders by two decoders, bodies matched: what self-attention is worth on either side."""

    source = "Chen et al. 2018, section 5; Domhan 2018, section 5"
    seconds = (30.0, 280.0)
    points = ("encoder", "encoder-minus-decoder", "longer")
    kinds = {arm: {"parts": parts} for arm, parts in PAIRS.items()}
    kinds |= {"rnn-self-long": {"parts": ("rnn", "self"), "times": 4}}
    rates = (4e-3, 8e-3, 1.6e-2)
    sizes = {"steps": 500, "kinds": 12, "tested": 300, "batch": 64}
    quick_sizes = {"steps": 150, "kinds": 4, "batch": 32}
    shows = {"encoder": ("self-rnn", "accuracy"), "decoder": ("rnn-self", "accuracy")}
    shows |= {"longer": ("rnn-self-long", "accuracy")}
    columns = {"accuracy": share, "exact": share}

    def measure(self, setup: Setup) -> dict[str, float]:
        """Train, and measure the share of right words, the right ones before being given, and of right sentences."""
        count = setup["kinds"]
        batches = partial(make, count, setup["batch"])
        model = small.trained(setup, config(*setup["parts"]), batches, symbols=(SENSES + 1) * count)
        valid, test = small.validation_and_test(partial(make, count, setup["tested"]), seed=setup.seed)
        right = {"accuracy": small.forced_accuracy(model, test), "exact": small.exact_share(model, test)}
        return {"valid": small.loss_of(model, valid)} | right

    def contrasts(self, trials: Trials) -> Contrasts:
        """The worth of self-attention in the encoder, how much more than in the decoder; and more training helps."""
        by_seed = tuple(zip(*(trials.values(arm, "accuracy") for arm in PAIRS), strict=True))
        encoder = [(sr + ss - rr - rs) / 2 for rr, rs, sr, ss in by_seed]
        decoder = [(rs + ss - rr - sr) / 2 for rr, rs, sr, ss in by_seed]
        return (
            contrast("encoder", encoder, "above", 0.0),
            contrast("encoder-minus-decoder", minus(encoder, decoder), "above", 0.0),
            contrast("longer", trials.differences("rnn-self-long", "rnn-self", "accuracy"), "above", 0.0),
        )

    def blocks(self, trials: Trials) -> Blocks:
        """Right words by the decoder, a line for each encoder; and every arm with its size."""
        lines = {
            encoder: trials.spots_across({k: f"{encoder}-{decoder}" for k, decoder in enumerate(DECODERS)}, "accuracy")
            for encoder in ENCODERS
        }
        rows = {
            arm: [f"{body(config(*self.kinds[arm]['parts'])):,}", *cells] for arm, cells in self.rows(trials).items()
        }
        return self.chart("hybrids", lines, of="line"), self.table("hybrid-models", ("body", *self.columns), rows)
