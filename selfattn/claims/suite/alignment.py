"""Claim: attention learns which word comes from which, though nobody tells it."""

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import count as count_up
from itertools import islice

import torch

from selfattn.claims import small
from selfattn.claims.claim import Arm, Blocks, Claim, Setup, percent
from selfattn.claims.rules import MARGIN, Contrasts, Trials, contrast, minus, share_error
from selfattn.data.batches import Batch, batches, collate
from selfattn.data.pairs import Example, Pair, encode_pairs
from selfattn.data.phrases import CldrSource
from selfattn.data.splits import Split
from selfattn.evaluation.alignment.attention_scores import gold_from_spans
from selfattn.evaluation.alignment.links import GoldPair, Link, Links, count_alignment, diagonal
from selfattn.evaluation.alignment.word_alignment import Way, word_links
from selfattn.models.build import build
from selfattn.models.config import ModelConfig
from selfattn.models.protocol import Seq2Seq
from selfattn.registry import register
from selfattn.report.blocks import Spot
from selfattn.report.drawing.scale import number_scale
from selfattn.results.claims import Contrast
from selfattn.streams import generator
from selfattn.tokenizers.subword import SubwordSettings, SubwordTokenizer

WIDTH = 64
SCORES = ("dot", "scaled_dot", "general", "additive", "concat", "location")
READERS = (*SCORES, "heads")
BLIND = ("shuffled-rnn", "shuffled-heads")
BASELINES = ("diagonal", "untrained", "shuffled")
SHARED = {"share_embeddings": True, "tie_output": True}
RNN = {"encoder.hidden_dim": WIDTH // 2, "encoder.direction": "both", "decoder.hidden_dim": WIDTH}
RNN |= {"decoder.initial_state": "project", "decoder.max_source_length": 64, **SHARED}


@register.claim("alignment")
class Alignment(Claim):
    """Alignment error rate of attention, for every score and for a Transformer's heads, against what knows nothing."""

    source = "Bahdanau et al. 2015, section 5.2.1; Luong et al. 2015, section 5.4; Chen et al. 2020, section 3.1"
    seconds = (18, 330)
    points = tuple(f"{name}-{baseline}" for name in READERS for baseline in BASELINES)

    kinds = {name: {"reader": name, "shuffled": False} for name in READERS}
    kinds |= {"shuffled-rnn": {"reader": "general", "shuffled": True}}  # trained on the sources of other phrases
    kinds |= {"shuffled-heads": {"reader": "heads", "shuffled": True}}
    rates = (1e-2, 2e-2, 4e-2)
    sizes = {"steps": 600, "pairs": 4096, "tested": 200}
    quick_sizes = {"steps": 100, "pairs": 1024, "tested": 100}
    not_quick = ("dot", "scaled_dot", "concat", "location")
    quick_rates = {"heads": 1e-2, "shuffled-heads": 1e-2}
    shows = {"general": ("general", "error")} | {name: ("general", name) for name in ("diagonal", "untrained")}

    def arms(self) -> tuple[Arm, ...]:
        """Every score in an RNN, a Transformer, and one of each that is blind; these have nothing to tune for."""
        single = () if self.quick else BLIND
        return tuple(replace(arm, rates=(2e-2,)) if arm.name in single else arm for arm in super().arms())

    def measure(self, setup: Setup) -> dict[str, float]:
        """Train on phrases; choose head and step on validation; give errors on the test, also of what knows nothing."""
        tokenizer, tested = subwords(), setup["tested"]
        (validation, batch), (test, _) = unseen("valid", tested), unseen("test", tested)
        model = build(model_of(setup["reader"]), vocab_size=len(tokenizer), seed=setup.seed)
        before = errors(model, tokenizer, test)[chosen(errors(model, tokenizer, validation))]
        small.train(setup, model, training(setup.seed, setup["pairs"], shuffled=setup["shuffled"]))
        after, aside = errors(model, tokenizer, test), errors(model, tokenizer, validation)
        along = [diagonal(len(pair.source), len(pair.target)) for pair in test]
        return {
            "valid": small.loss_of(model, batch),
            "error": after[chosen(aside)],
            "writes": after[chosen(aside, shifted=False)],
            "reads": after[chosen(aside, shifted=True)],
            "step-later": float(chosen(aside).shifted),
            "untrained": before,
            "diagonal": count_alignment(along, [pair.links for pair in test]).aer or 0.0,
        }

    def contrasts(self, trials: Trials) -> Contrasts:
        """Each reader's error is below that of all three by the margin."""
        return self.below(trials, READERS)

    def conditions(self, trials: Trials) -> dict[str, Contrasts]:
        """Where the score looks at the words; where the decoder is an RNN; where it is a Transformer."""
        rnn = tuple(name for name in SCORES if name != "location")
        rules = {"content": (*rnn, "heads"), "rnn": rnn, "heads": ("heads",)}
        return {condition: self.below(trials, readers) for condition, readers in rules.items()}

    def below(self, trials: Trials, readers: tuple[str, ...]) -> Contrasts:
        """Hold the errors of some readers against those of what knows nothing."""

        def rule(name: str, baseline: str) -> Contrast:
            error = trials.values(name, "error")
            nothing = (BLIND[name == "heads"], "error") if baseline == "shuffled" else (name, baseline)
            least = share_error(error, self.size["tested"])
            lead = minus(error, trials.values(*nothing))
            return contrast(f"{name}-{baseline}", lead, "below", -MARGIN, least_error=least)

        readers = tuple(name for name in readers if not (self.quick and name in self.not_quick))
        return tuple(rule(name, baseline) for name in readers for baseline in BASELINES)

    def blocks(self, trials: Trials) -> Blocks:
        """The error of every reader beside what knows nothing, and which step is read."""
        places = dict(enumerate(trials.arms, 1))
        lines = {line: trials.spots_across(places, line) for line in ("error", "untrained")}
        along = trials.mean("general", "diagonal").mean
        lines["diagonal"] = tuple(Spot(place, along) for place in places)
        figures = ("error", "writes", "reads", "untrained")
        rows = {arm: (f"{place}", *(percent(trials.mean(arm, f)) for f in figures)) for place, arm in places.items()}
        plot = self.chart("alignment-error", lines, of="line", across=number_scale([len(places)]))
        return plot, self.table("alignment-errors", ("place", *figures), rows)


def model_of(reader: str) -> ModelConfig:
    """An LSTM that reads both ways with Luong's attention and one score; or a Transformer's heads."""
    if reader == "heads":
        return small.resized("transformer", SHARED, dim=WIDTH, ffn_dim=2 * WIDTH)
    return small.resized("luong-general", {**RNN, "decoder.score": reader}, embed_dim=WIDTH)


def errors(model: Seq2Seq, tokenizer: SubwordTokenizer, pairs: list[GoldPair]) -> dict[Way, float]:
    """Return the alignment error rate of every layer, head and step."""
    right = [pair.links for pair in pairs]
    links = word_links(model, tokenizer, pairs)
    return {way: count_alignment(linked, right).aer or 0.0 for way, linked in links.items()}


def chosen(figures: dict[Way, float], *, shifted: bool | None = None) -> Way:
    """Return the way with the least error, of all or of one step."""
    return min((way for way in figures if shifted in (None, way.shifted)), key=figures.__getitem__)


@cache
def subwords(size: int = 1000) -> SubwordTokenizer:
    """Subwords of both languages, from phrases of a seed of their own."""
    texts = [text for pair in CldrSource(seed=99).pairs(8000) for text in (pair.source, pair.target)]
    return SubwordTokenizer.train(texts, SubwordSettings("bpe", size, byte_fallback=False, split_digits=False))


def phrases(part: Split, seed: int, count: int) -> list[Pair]:
    """Draw phrases of at least three words on both sides: with fewer there is little to link wrongly."""
    source = CldrSource(seed=seed, split=part)
    drawn = (pair for start in count_up(0, 500) for pair in source.pairs(500, start))
    return list(islice((p for p in drawn if min(p.source.count(" "), p.target.count(" ")) >= 2), count))


def gold(pair: Pair) -> GoldPair:
    """Link words that stand for the same field: surely where it is one word on each side, else possibly."""
    source, target = ([word.span() for word in re.finditer("[^ ]+", text)] for text in (pair.source, pair.target))
    sure: set[Link] = set()
    possible: set[Link] = set()
    for field in pair.spans:
        links = {(i, j) for j, i in gold_from_spans([field], source, target).nonzero().tolist()}
        (sure if len(links) == 1 else possible).update(links)
    return GoldPair(tuple(pair.source.split()), tuple(pair.target.split()), Links(frozenset(sure), frozenset(possible)))


def unseen(part: Split, count: int) -> tuple[list[GoldPair], Batch]:
    """Return phrases that are not trained on, with their links, and the same as one batch."""
    figures = phrases(part, 0, count)
    return [gold(pair) for pair in figures], collate(encode_pairs(figures, subwords()), 0, 1, range(count))


def training(seed: int, count: int, *, shuffled: bool) -> Iterator[Batch]:
    """Go through so many phrases again and again, each time in another order.

    Args:
        seed: of the phrases and of their order.
        count: of different phrases.
        shuffled: whether every target stands beside the source of another phrase.
    """
    examples = encode_pairs(phrases("train", seed, count), subwords())
    if shuffled:
        order = torch.randperm(count, generator=generator(seed, "claims/shuffled")).tolist()
        examples = [Example(examples[k].source, pair.target) for k, pair in zip(order, examples, strict=True)]
    draws = generator(seed, "claims/data")
    while True:
        yield from batches(examples, batch_size=32, max_tokens=None, pad_id=0, bos_id=1, generator=draws)
