"""Claim: the learning rate matters more than the architecture."""

from __future__ import annotations

from selfattn.claims import small
from selfattn.claims.claim import Arm, Blocks, Claim, Contrasts, Setup, Trials
from selfattn.claims.rules import MARGIN, contrast
from selfattn.data.batches import Batch, collate
from selfattn.data.dates.source import DateSource
from selfattn.data.examples import encode_pairs
from selfattn.data.splits import Split
from selfattn.models.build import build
from selfattn.models.config import ModelConfig
from selfattn.registry import register
from selfattn.report.drawing.scale import number_scale
from selfattn.tokenizers.char import CharTokenizer

RATES = (2e-3, 4e-3, 8e-3, 1.6e-2, 3.2e-2)
FAMILIES = ("rnn", "transformer")


def config(family: str, width: int) -> ModelConfig:
    """What the model of a family is made of."""
    if family == "rnn":
        return small.resized("rnn-attention", hidden_dim=width)
    return small.resized("transformer", dim=width, ffn_dim=2 * width)


def dates(split: Split, seed: int, count: int, rows: int) -> list[Batch]:
    """Return batches of English dates and their ISO form, as characters."""
    texts = (text for pair in DateSource(seed=99).pairs(2000) for text in (pair.source, pair.target))
    tokenizer = CharTokenizer.train(texts)
    examples = encode_pairs(DateSource(seed=seed, split=split).pairs(count), tokenizer)
    parts = (examples[start : start + rows] for start in range(0, count, rows))
    return [collate(part, 0, 1, range(len(part))) for part in parts]


@register.claim("learning-rate")
class LearningRate(Claim):
    """An RNN with attention and a Transformer on dates, at five learning rates each."""

    source = "Greff et al. 2017, section 5 (LSTMs); measured here for two families"
    seconds = (25.0, 200.0)
    points = ("more",)
    sizes = {"steps": 300, "tested": 500, "width": 64}
    quick_sizes = {"steps": 80, "tested": 100, "width": 32}
    shows = {"rnn": ("rnn", "best"), "transformer": ("transformer", "best")}
    shows |= {"rnn_worst": ("rnn", "worst"), "transformer_worst": ("transformer", "worst")}

    def arms(self) -> tuple[Arm, ...]:
        """The two families; each trains once with every rate."""
        return tuple(Arm(family, {**self.size, "rates": RATES}) for family in FAMILIES)

    def measure(self, setup: Setup) -> dict[str, float]:
        """Train on dates at every rate, and measure the share of right characters."""
        train = dates("train", setup.seed, 64 * setup["steps"], 64)
        (test,) = dates("test", setup.seed, setup["tested"], setup["tested"])
        right = {}
        for rate in setup["rates"]:
            model = build(config(setup.arm.name, setup["width"]), vocab_size=64, seed=setup.seed)
            small.train(Setup(setup.arm, setup.seed, rate), model, iter(train))
            right[rate] = small.forced_accuracy(model, test)
        ends = {"best": max(right.values()), "worst": min(right.values())}
        return ends | {f"right@{1000 * rate:g}": share for rate, share in right.items()}

    def contrasts(self, trials: Trials) -> Contrasts:
        """In each family the best rate gains more over the worst than one family's best over the other's."""
        ends = [trials.values(family, end) for family in FAMILIES for end in ("best", "worst")]
        more = [min(a - a_worst, b - b_worst) - abs(a - b) for a, a_worst, b, b_worst in zip(*ends, strict=True)]
        return (contrast("more", more, "above", MARGIN),)

    def blocks(self, trials: Trials) -> Blocks:
        """Right characters by learning rate."""
        lines = {family: trials.spots(family, "right") for family in trials.arms}
        return (self.chart("rates", lines, across=number_scale([1, 1000 * max(RATES)], powers=True)),)
