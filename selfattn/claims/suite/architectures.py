"""Claims on what a model is made of: encoders that read both ways, hybrids, and the learning rate against both."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import torch

from selfattn.claims import small
from selfattn.claims.claim import Blocks, Claim, Setup, share
from selfattn.claims.rules import MARGIN, Contrasts, Trials, contrast, minus
from selfattn.data.batches import Batch
from selfattn.models.config import ModelConfig, config_from_dict
from selfattn.registry import register
from selfattn.report.drawing.numbers import Scale, number_scale
from selfattn.results.claims import Contrast
from selfattn.streams import generator

WORDS = 4  # kinds of words
CLAUSES = 2  # of a source


def clauses(rows: int, length: int, draws: torch.Generator) -> tuple[Batch, torch.Tensor]:
    """Make sources of clauses, and return how far each target word's evidence is: int64 ``[b t]``, left below 0.

    A clause is words and a sign that says how all of them are translated: as themselves, or as the other word of their
    pair. The sign stands before or after them, each as probable as the other.
    """
    shape = (rows, CLAUSES)
    words = torch.randint(0, WORDS, (*shape, length), generator=draws)
    swapped = torch.randint(0, 2, (*shape, 1), generator=draws)
    right = torch.randint(0, 2, (*shape, 1), generator=draws)
    symbols = small.FIRST + words
    sign = small.FIRST + WORDS + 2 * right + swapped
    source = torch.where(right.bool(), torch.cat([symbols, sign], -1), torch.cat([sign, symbols], -1))
    away = torch.where(right.bool(), length - torch.arange(length), -1 - torch.arange(length))
    return small.batch_of(source.flatten(1), (small.FIRST + (words ^ swapped)).flatten(1)), away.flatten(1)


def directed(settings: Mapping[str, Any]) -> ModelConfig:
    """Return the configuration of an arm: a direction and two widths."""
    encoder, decoder = settings["widths"]
    changes = {"encoder.hidden_dim": encoder, "decoder.hidden_dim": decoder, "encoder.direction": settings["direction"]}
    return small.resized("rnn-attention", changes)


@register.claim("bidirectional")
class Bidirectional(Claim):
    """Attention on encoders of three directions, by the side on which the evidence for a word stands."""

    source = "Schuster and Paliwal 1997, section II; Bahdanau et al. 2015, section 3.2"
    seconds = (0, 240)
    points = ("gain", "forward", "backward")
    kinds = {  # widths of encoder and decoder: bodies within 3 %
        "forward": {"direction": "forward", "widths": (48, 48)},
        "backward": {"direction": "backward", "widths": (48, 48)},
        "both": {"direction": "both", "widths": (27, 54)},
        "forward-long": {"direction": "forward", "widths": (48, 48), "times": 4},
    }
    rates = (1e-2, 2e-2, 4e-2)
    sizes = {"steps": 1200, "clause": 8, "tested": 500, "batch": 64}
    shows = {"forward": ("forward", "right"), "both": ("both", "right"), "longer": ("forward-long", "right")}

    def measure(self, setup: Setup) -> dict[str, float]:
        """Train, and measure the share of right words by side, the right words before them being given."""
        length = setup["clause"]
        tested = setup["tested"]
        config = directed(setup.arm.settings)
        model = small.trained(setup, config, lambda draws: clauses(setup["batch"], length, draws)[0], symbols=WORDS + 4)
        valid, _ = clauses(tested, length, generator(setup.seed, "claims/validation"))
        batch, away = clauses(tested, length, generator(setup.seed, "claims/test"))
        hits = small.forced_hits(model, batch)[:, :-1]  # their end is no word
        masks = {"left": away < 0, "right": away > 0}
        masks |= {f"word@{place}": away == place for place in range(-length, length + 1) if place}
        shares = {name: float(hits[mask].double().mean()) for name, mask in masks.items()}
        return {"valid": small.loss_of(model, valid)} | shares

    def contrasts(self, trials: Trials) -> Contrasts:
        """Reading both ways gains more on the side that is read too late, for either direction; by more than δ."""

        def more(arm: str, late: str, early: str) -> Contrast:
            gains = minus(trials.differences("both", arm, late), trials.differences("both", arm, early))
            return contrast(arm, gains, "above", 0.0)

        gain = trials.lead("gain", "both", "forward", "right", self.size["tested"] * CLAUSES // 2)
        return gain, more("forward", "right", "left"), more("backward", "left", "right")

    def blocks(self, trials: Trials) -> Blocks:
        """Right words by the place of their evidence."""
        lines = {arm: trials.spots(arm, "word") for arm in trials.arms}
        length = self.size["clause"]
        return (self.chart("right-by-side", lines, across=Scale(None, length, "number", -length)),)


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
PAIRS = {f"{encoder}-{decoder}": (encoder, decoder) for encoder, decoder in product(ENCODERS, DECODERS)}


def senses(kinds: int, rows: int, draws: torch.Generator) -> Batch:
    """Make sources in which every kind of word stands once with its sense and once without, in any order.

    The target names kind and sense at either place, so that the second has to be looked up at the first.
    """
    each = torch.arange(kinds).expand(rows, kinds)
    full = small.FIRST + SENSES * each + torch.randint(0, SENSES, each.shape, generator=draws)
    bare = small.FIRST + SENSES * kinds + each
    order = torch.rand(rows, 2 * kinds, generator=draws).argsort(dim=1)
    source = torch.cat([full, bare], dim=1)
    target = torch.cat([full, full], dim=1)
    return small.batch_of(source.gather(1, order), target.gather(1, order))


def hybrid(encoder: str, decoder: str) -> ModelConfig:
    """Return the configuration of an arm: an encoder and a decoder."""
    parts = {"kind": "encoder-decoder", "encoder": ENCODERS[encoder], "decoder": DECODERS[decoder]}
    model: ModelConfig = config_from_dict(parts)
    return model


@register.claim("hybrids")
class Hybrids(Claim):
    """Two encoders by two decoders, bodies matched: what self-attention is worth on either side."""

    source = "Chen et al. 2018, section 5; Domhan 2018, section 5"
    seconds = (0, 280)
    points = ("encoder", "encoder-minus-decoder", "longer")
    kinds = {arm: {"parts": parts} for arm, parts in PAIRS.items()}
    kinds |= {"rnn-self-long": {"parts": ("rnn", "self"), "times": 4}}
    rates = (4e-3, 8e-3, 1.6e-2)
    sizes = {"steps": 500, "kinds": 12, "tested": 300, "batch": 64}
    shows = {"encoder": ("self-rnn", "accuracy"), "decoder": ("rnn-self", "accuracy")}
    shows |= {"longer": ("rnn-self-long", "accuracy")}
    figure = "accuracy"
    columns = {"accuracy": share, "exact": share}
    lines = {encoder: {k: f"{encoder}-{decoder}" for k, decoder in enumerate(DECODERS)} for encoder in ENCODERS}

    def measure(self, setup: Setup) -> dict[str, float]:
        """Train, and measure the share of right words, the right ones before being given, and of right sentences."""
        make = partial(senses, setup["kinds"])
        symbols = (SENSES + 1) * setup["kinds"]
        model = small.trained(setup, hybrid(*setup["parts"]), partial(make, setup["batch"]), symbols=symbols)
        valid, test = small.validation_and_test(partial(make, setup["tested"]), seed=setup.seed)
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


FACTORS = {"low": 0.25, "best": 1.0, "high": 4.0}
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "attention": ("rnn-attention", {"hidden_dim": 32}),
    "plain": ("rnn-plain", {"hidden_dim": 32}),
    "transformer": ("transformer", {"dim": 32, "ffn_dim": 64}),
}


@register.claim("learning-rate")
class LearningRate(Claim):
    """An RNN with attention, one without and a Transformer: at the best learning rate, a quarter and four times of it.

    The best rate is chosen with a seed of its own, on validation data, and its grid widens where the best is at an
    edge. What a wrong rate costs is then measured with fresh seeds.
    """

    source = "Greff et al. 2017, section 5 (LSTMs); measured here for two families"
    seconds = (0, 80)
    points = ("choice-rnn", "choice-transformer", "attention-rnn", "attention-transformer")
    kinds = {name: {"model": name} for name in MODELS}
    rates = (5e-3, 1e-2, 2e-2)
    learned = dict.fromkeys(kinds, ("first", 0.5))  # by chance 0.13
    sizes = {"steps": 120, "rows": 32, "length": 8, "symbols": 8, "tested": 300}
    shows = {name: (name, "best") for name in MODELS}
    shows |= {"attention_wrong": ("attention", "wrong"), "transformer_wrong": ("transformer", "wrong")}
    figure = "right"
    columns = {"low": share, "best": share, "high": share}

    def measure(self, setup: Setup) -> dict[str, float]:
        """Learn to reverse at three rates, and measure the share of right tokens at each."""
        preset, sizes = MODELS[setup["model"]]
        config = small.resized(preset, None, **sizes)
        symbols = setup["symbols"]
        make = partial(small.reversals, symbols=symbols)
        length = setup["length"]
        valid, test = small.validation_and_test(partial(make, setup["tested"], length), seed=setup.seed)
        figures = {}
        assert setup.rate is not None
        for name, factor in FACTORS.items():
            tried = replace(setup, rate=factor * setup.rate)
            model = small.trained(tried, config, partial(make, setup["rows"], length), symbols=symbols)
            hits = small.forced_hits(model, test)[:, :length].double()  # without the end
            figures[name] = float(hits.mean())
            figures[f"right@{factor:g}"] = figures[name]
            if name == "best":
                figures["valid"] = small.loss_of(model, valid)
                figures["first"] = float(hits[:, 0].mean())  # the symbol that was read last
        figures["wrong"] = (figures["low"] + figures["high"]) / 2
        return figures

    def contrasts(self, trials: Trials) -> Contrasts:
        """A wrong rate costs more than the choice between two models with attention, and than attention itself."""
        return *self.against(trials, "choice", "transformer"), *self.against(trials, "attention", "plain")

    def conditions(self, trials: Trials) -> dict[str, Contrasts]:
        """As long as both models have attention."""
        return {"choice": self.against(trials, "choice", "transformer")}

    def against(self, trials: Trials, name: str, other: str) -> Contrasts:
        """Hold the cost of a wrong rate in either family against the difference to another model at the best rates."""
        apart = [abs(difference) for difference in trials.differences("attention", other, "best")]
        rules = []
        for family, arm in {"rnn": "attention", "transformer": "transformer"}.items():
            cost = minus(trials.values(arm, "best"), trials.values(arm, "wrong"))
            rules.append(contrast(f"{name}-{family}", minus(cost, apart), "above", MARGIN))
        return tuple(rules)

    def blocks(self, trials: Trials) -> Blocks:
        """Right tokens by learning rate, as a multiple of the best one."""
        lines = {arm: trials.spots(arm, "right") for arm in trials.arms}
        return self.chart("rates", lines, across=number_scale([0.25, 4], powers=True)), self.means(trials)
