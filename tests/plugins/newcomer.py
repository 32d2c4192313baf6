"""Eight plugins in one file, one of each kind, written from docs/how-to/extend.md alone."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from selfattn.plugin import (
    AttentionPosition,
    Claim,
    Decoded,
    DecoderState,
    HeatMap,
    Memory,
    Metric,
    ModelConfig,
    Normalizer,
    Pair,
    Preset,
    Score,
    Seq2Seq,
    TaskData,
    contrast,
    of_each,
    phrase,
    register,
)


@register.score("minus_distance")
class NegativeDistance(Score):
    equal_widths = True

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, query, key):
        return -self.scale * torch.cdist(query, key)


@register.normalizer("halves")
class Halves(Normalizer):
    def forward(self, scores):
        return scores.softmax(dim=-1) / 2


@register.position("nearby")
class Nearby(AttentionPosition):
    def bias(self, query_positions, key_positions):
        return -(query_positions[..., :, None] - key_positions[..., None, :]).abs().float().unsqueeze(-3)


@register.family("bag")
@dataclass(frozen=True, kw_only=True)
class BagConfig(ModelConfig):
    dim: int = 32

    def build(self, *, vocab_size, pad_id, source_vocab_size=None):
        return Bag(vocab_size, self.dim)


@dataclass(frozen=True)
class BagState(Memory, DecoderState):
    hidden: torch.Tensor  # [b d]


class Bag(Seq2Seq):
    def __init__(self, vocab_size, dim):
        super().__init__()
        self.tokens, self.output = nn.Embedding(vocab_size, dim), nn.Linear(dim, vocab_size)
        self.gru = nn.GRU(dim, dim, batch_first=True)

    def encode(self, source, source_mask):
        words = self.tokens(source) * source_mask[..., None]
        return BagState(words.sum(dim=1) / source_mask.sum(dim=1, keepdim=True).clamp(min=1))

    def advance(self, tokens, state, *, need_weights=False):
        x, hidden = self.gru(self.tokens(tokens), state.hidden[None].contiguous())
        return Decoded(x, self.output), BagState(hidden[0])


register.preset("bag")(Preset("bag of words into a GRU", "a newcomer", BagConfig))


@register.task("doubling")
class Doubling(TaskData):
    """Write every letter twice."""

    match = None

    def pairs(self):
        words = [a + b + c for a in "abcdef" for b in "abcdef" for c in "abcdef"]
        return [Pair(word, "".join(2 * letter for letter in word)) for word in words]


@register.metric("length_error")
class LengthError(Metric):
    better = "lower"

    def counts(self, outputs, references):
        pairs = zip(outputs, references, strict=True)
        return of_each([min(1.0, abs(len(output) - len(right)) / len(right)) for output, right in pairs])


@register.section("output lengths")
class OutputLengths:
    title = phrase(en="Length of outputs", ko="출력 길이")
    after = "differences"

    def blocks(self, record, outputs):
        sources = outputs.sources[:5]
        values = tuple(tuple(min(1.0, len(text) / 12) for text in runs[0][:5]) for runs in outputs.by_model.values())
        return (HeatMap("lengths", phrase(en="Length by input"), tuple(outputs.by_model), sources, values),)


@register.claim("larger-sums")
class LargerSums(Claim):
    source, seconds = "arithmetic", (0.1, 0.1)
    words = {  # noqa: RUF012
        "en": {
            "sentence": "Ten random numbers have a larger sum than one.",
            "explanation": "Numbers are drawn evenly from 0 to 1.",
            "varied": "how many numbers are added",
            "held": "the distribution",
            "rule": "The difference of the sums is above 1.",
            "arm.one": "one number",
            "arm.ten": "ten numbers",
            "contrast.more": "sum of ten minus one number",
            "caption": "Sum by arm.",
            "axis": "draw",
        }
    }

    kinds = {"one": {"count": 1}, "ten": {"count": 10}}  # noqa: RUF012

    def measure(self, setup):
        draws = torch.Generator().manual_seed(setup.seed)
        return {"sum@1": float(torch.rand(setup["count"], generator=draws).sum())}

    def contrasts(self, trials):
        return (contrast("more", trials.differences("ten", "one", "sum@1"), "above", 1.0),)

    def blocks(self, trials):
        lines = {arm: trials.spots(arm, "sum") for arm in trials.arms}
        return (self.chart("sums", lines, scale="number"),)
