"""Claim: attention learns which word comes from which, though nobody tells it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import accumulate

import torch

from selfattn.claims.claim import Arm, Claim, Found
from selfattn.claims.rules import MARGIN, contrast, share_error
from selfattn.claims.sequences import loss_of
from selfattn.claims.training import train_for
from selfattn.data.batches import Batch, batches
from selfattn.data.examples import Example, encode_pairs
from selfattn.data.pairs import Pair
from selfattn.data.phrases.source import CldrSource
from selfattn.decoding.alignment import Link
from selfattn.evaluation.alignment.error_rate import count_alignment, diagonal
from selfattn.evaluation.alignment.links import GoldPair, Links
from selfattn.evaluation.alignment.word_alignment import Way, word_links
from selfattn.figures.claims import Contrast
from selfattn.models.build import build
from selfattn.models.encoder_decoder.config import EncoderDecoderConfig
from selfattn.models.encoder_decoder.rnn_config import RNNDecoderConfig, RNNEncoderConfig
from selfattn.models.protocol import Seq2Seq
from selfattn.models.transformer_config import TransformerConfig
from selfattn.registry import register
from selfattn.report.blocks import Block, Chart, ChartLine, Column, Row, Spot, Table
from selfattn.report.drawing.scale import Scale, number_scale
from selfattn.streams import generator
from selfattn.tokenizers.subword import SubwordTokenizer
from selfattn.tokenizers.subword_training import SubwordSettings

WIDTH, BATCH, TRAINED_ON, JUDGED = 64, 32, 4096, 200
SCORES = ("dot", "scaled_dot", "general", "additive", "concat", "location")
READERS = (*SCORES, "heads")
BLIND = ("shuffled-rnn", "shuffled-heads")
RATES = (1e-2, 2e-2)
FLOORS = ("diagonal", "untrained", "shuffled")


@register.claim("alignment")
class Alignment(Claim):
    """Alignment error rate of attention, for every score and for a Transformer's heads, against what knows nothing."""

    name = "alignment"
    source = "Bahdanau et al. 2015, section 5.2.1; Luong et al. 2015, section 5.4; Chen et al. 2020, section 3.1"
    seconds = (40.0, 300.0)
    points = tuple(f"{name}-{floor}" for name in READERS for floor in FLOORS)

    def arms(self, quick: bool) -> tuple[Arm, ...]:
        """Every score in an RNN, a Transformer; and one of each that was trained on the sources of other phrases."""
        readers = (Arm(name, {"reader": name, "shuffled": False}, RATES) for name in READERS)
        blind = (
            Arm(name, {"reader": own, "shuffled": True}, RATES[-1:])
            for name, own in zip(BLIND, ("general", "heads"), strict=True)
        )
        return *readers, *blind

    def measure(
        self, arm: Arm, *, seed: int, rate: float | None, quick: bool, steps: int = 600, pairs: int = TRAINED_ON
    ) -> dict[str, float]:
        """Train on phrases; choose head and step on validation; give errors on the test, also of what knows nothing."""
        assert rate is not None
        tokenizer, judged = vocabulary_of(), min(JUDGED, pairs)
        examples = encode_pairs(phrases("train", seed, pairs), tokenizer)
        if arm.settings["shuffled"]:
            order = torch.randperm(len(examples), generator=generator(seed, "claims/shuffled")).tolist()
            examples = [Example(examples[k].source, own.target) for k, own in zip(order, examples, strict=True)]
        unseen = phrases("valid", 0, judged)
        validation, test = ([gold(pair) for pair in some] for some in (unseen, phrases("test", 0, judged)))
        model = build(model_of(arm.settings["reader"]), vocab_size=len(tokenizer), seed=seed)
        before = errors(model, tokenizer, test)
        untrained = before[chosen(errors(model, tokenizer, validation))]
        train_for(model, forever(examples, seed), steps=steps // 3 if quick else steps, lr=rate, seed=seed)
        after, aside = errors(model, tokenizer, test), errors(model, tokenizer, validation)
        along = [diagonal(len(pair.source), len(pair.target)) for pair in test]
        best, (writes, reads) = chosen(aside), (chosen(aside, shifted=one) for one in (False, True))
        batch = next(
            batches(
                encode_pairs(unseen, tokenizer), batch_size=judged, max_tokens=None, pad_id=0, bos_id=1, generator=None
            )
        )
        return {
            "valid": loss_of(model, batch),
            "error": after[best],
            "writes": after[writes],
            "reads": after[reads],
            "step-later": float(best.shifted),
            "untrained": untrained,
            "diagonal": count_alignment(along, [pair.links for pair in test]).aer or 0.0,
        }

    def contrasts(self, found: Found) -> tuple[Contrast, ...]:
        """Each reader's error is below that of all three by the margin."""
        return self.below(found, READERS)

    def conditions(self, found: Found) -> dict[str, tuple[Contrast, ...]]:
        """Where the score looks at the words; where the decoder is an RNN; where it is a Transformer."""
        content = tuple(name for name in READERS if name != "location")
        rnn = tuple(name for name in SCORES if name != "location")
        return {
            "content": self.below(found, content),
            "rnn": self.below(found, rnn),
            "heads": self.below(found, ("heads",)),
        }

    @staticmethod
    def below(found: Found, readers: tuple[str, ...]) -> tuple[Contrast, ...]:
        """Hold the errors of some readers against those of what knows nothing."""
        rules = []
        for name in readers:
            own = found.values(name, "error")
            blind = found.values(BLIND[name == "heads"], "error")
            least = share_error([min(1.0, max(0.0, error)) for error in own], JUDGED)
            floors = found.values(name, "diagonal"), found.values(name, "untrained"), blind
            for floor, values in zip(FLOORS, floors, strict=True):
                lead = [a - b for a, b in zip(own, values, strict=True)]
                rules.append(contrast(f"{name}-{floor}", lead, "below", -MARGIN, least_error=least))
        return tuple(rules)

    def blocks(self, found: Found) -> tuple[Block, ...]:
        """The error of every reader beside what knows nothing, and which step is read."""
        columns = [Column(self.say("column.arm"), numeric=False)]
        columns += [Column(self.say(f"column.{key}")) for key in ("error", "writes", "reads", "untrained")]
        rows: list[Row] = []
        spots: dict[str, list[Spot]] = {"error": [], "untrained": []}
        for place, name in enumerate((*READERS, *BLIND), 1):
            for key, own in spots.items():
                one = found.mean(name, key)
                own.append(Spot(place, one.mean, one.low, one.high))
            cells = (f"{100 * found.mean(name, key).mean:.1f}" for key in ("error", "writes", "reads", "untrained"))
            rows.append(Row((self.say("row", place=place, arm=self.say(f"arm.{name}")), *cells)))
        along = found.mean(READERS[0], "diagonal").mean
        level = tuple(Spot(place, along) for place in range(1, len(rows) + 1))
        lines = [ChartLine(key, tuple(own), self.say(f"line.{key}")) for key, own in spots.items()]
        lines.append(ChartLine("diagonal", level, self.say("line.diagonal")))
        across = number_scale([len(rows)])
        chart = Chart("alignment-error", self.say("caption"), tuple(lines), Scale(), self.say("axis"), across=across)
        return chart, Table("alignment-errors", tuple(columns), tuple(rows))


def model_of(reader: str) -> EncoderDecoderConfig:
    """An LSTM that reads both ways with Luong's attention and one score; or a Transformer's heads."""
    if reader == "heads":
        stack = TransformerConfig(dim=WIDTH, num_heads=4, ffn_dim=2 * WIDTH)
        return EncoderDecoderConfig(encoder=stack, decoder=stack, share_embeddings=True, tie_output=True)
    encoder = RNNEncoderConfig(embed_dim=WIDTH, hidden_dim=WIDTH // 2, direction="both")
    decoder = RNNDecoderConfig(
        embed_dim=WIDTH,
        hidden_dim=WIDTH,
        initial_state="project",
        attention="luong",
        score=reader,
        max_source_length=64,
    )
    return EncoderDecoderConfig(encoder=encoder, decoder=decoder, share_embeddings=True, tie_output=True)


@cache
def vocabulary_of(size: int = 1000) -> SubwordTokenizer:
    """Subwords of both languages, from phrases of a seed of their own."""
    texts = [text for pair in CldrSource(seed=99).pairs(8000) for text in (pair.source, pair.target)]
    return SubwordTokenizer.train(texts, SubwordSettings("bpe", size, byte_fallback=False, split_digits=False))


def phrases(part: str, seed: int, count: int) -> list[Pair]:
    """Draw phrases of at least three words on both sides: with fewer there is little to link wrongly."""
    source = CldrSource(seed=seed, split=part)  # type: ignore[arg-type]
    found: list[Pair] = []
    for start in range(0, 1_000_000, 500):
        found += [p for p in source.pairs(500, start) if min(p.source.count(" "), p.target.count(" ")) >= 2]
        if len(found) >= count:
            break
    return found[:count]


def gold(pair: Pair) -> GoldPair:
    """Link words that stand for the same field: surely where it is one word on each side, else possibly."""
    sides = [tuple(text.split(" ")) for text in (pair.source, pair.target)]
    ends = [list(accumulate(len(word) + 1 for word in words)) for words in sides]
    sure: set[Link] = set()
    possible: set[Link] = set()
    for span in pair.spans:
        places = [
            [k for k, end in enumerate(of) if max(end - len(words[k]) - 1, start) < min(end - 1, stop)]
            for words, of, (start, stop) in zip(sides, ends, (span.source, span.target), strict=True)
        ]
        links = {(i, j) for i in places[0] for j in places[1]}
        (sure if len(links) == 1 else possible).update(links)
    return GoldPair(sides[0], sides[1], Links(frozenset(sure), frozenset(possible)))


def errors(model: Seq2Seq, tokenizer: SubwordTokenizer, pairs: list[GoldPair]) -> dict[Way, float]:
    """Return the alignment error rate of every layer, head and step."""
    right = [pair.links for pair in pairs]
    found = word_links(model, tokenizer, pairs)
    return {way: count_alignment(links, right).aer or 0.0 for way, links in found.items()}


def chosen(found: dict[Way, float], shifted: bool | None = None) -> Way:
    """Return the way with the least error, of all or of one step."""
    return min((way for way in found if shifted in (None, way.shifted)), key=found.__getitem__)


def forever(examples: list[Example], seed: int) -> Iterator[Batch]:
    """Go through the examples again and again, each time in another order."""
    draws = generator(seed, "claims/data")
    while True:
        yield from batches(examples, batch_size=BATCH, max_tokens=None, pad_id=0, bos_id=1, generator=draws)
