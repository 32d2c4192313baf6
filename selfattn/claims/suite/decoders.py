"""Claims on what a decoder learns: where its attention points, the future mask, and what it reads in training."""

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache, partial
from itertools import chain, islice, product
from itertools import count as count_up
from statistics import linear_regression
from typing import Any

import torch

from selfattn.claims import small
from selfattn.claims.claim import Arm, Blocks, Claim, Setup, number, share
from selfattn.claims.rules import MARGIN, Contrasts, Trials, contrast, control, exact, minus
from selfattn.data.batches import Batch, batches, collate
from selfattn.data.pairs import Example, Pair
from selfattn.data.phrases import CldrSource
from selfattn.data.splits import Split
from selfattn.decoding.beam import beam_search
from selfattn.decoding.greedy import sample
from selfattn.evaluation.attention import AttentionReading, gold_from_spans, linked_examples, word_links
from selfattn.evaluation.gates import causal
from selfattn.evaluation.links import GoldPair, Link, Links, count_alignment, diagonal
from selfattn.models.build import build
from selfattn.models.config import ModelConfig
from selfattn.models.protocol import Seq2Seq
from selfattn.registry import register
from selfattn.report.numbers import number_scale
from selfattn.streams import generator
from selfattn.tokenizers.subword import SubwordSettings, SubwordTokenizer

WIDTH = 64
SCORES = ("dot", "scaled_dot", "general", "additive", "concat", "location")
READERS = (*SCORES, "heads")
BLIND = ("shuffled-rnn", "shuffled-heads")
BASELINES = ("diagonal", "untrained", "shuffled")
MODELS = {"rnn": "general", "transformer": "heads"}
WEIGHTS = {"plain": None, "light": 0.1, "strong": 1.0}
DROPOUT = 0.2
MOVED = 0.1  # share of attention that guidance has to bring to the linked tokens, or it shows nothing
SHARED = {"share_embeddings": True, "tie_output": True}
RNN = {"encoder.hidden_dim": WIDTH // 2, "encoder.direction": "both", "decoder.hidden_dim": WIDTH}
RNN |= {"decoder.initial_state": "project", "decoder.max_source_length": 64, **SHARED}


@register.claim("alignment")
class Alignment(Claim):
    """Alignment error rate of attention, for every score and for a Transformer's heads, against what knows nothing."""

    source = "Bahdanau et al. 2015, section 5.2.1; Luong et al. 2015, section 5.4; Chen et al. 2020, section 3.1"
    seconds = (0, 330)
    points = tuple(f"{name}-{baseline}" for name, baseline in product(READERS, BASELINES))
    # Where the score looks at the words; where the decoder is an RNN; where it is a Transformer.
    weaker = {
        "content": tuple(name for name in points if not name.startswith("location")),
        "rnn": tuple(name for name in points if not name.startswith(("location", "heads"))),
        "heads": tuple(name for name in points if name.startswith("heads")),
    }
    kinds = {name: {"reader": name, "shuffled": False} for name in READERS}
    kinds |= {"shuffled-rnn": {"reader": "general", "shuffled": True}}  # trained on the sources of other phrases
    kinds |= {"shuffled-heads": {"reader": "heads", "shuffled": True}}
    rates = (1e-2, 2e-2, 4e-2)
    sizes = {"steps": 600, "pairs": 4096, "tested": 200}
    columns = dict.fromkeys(("error", "writes", "reads", "untrained"), share)
    shows = {"general": ("general", "error")} | {name: ("general", name) for name in ("diagonal", "untrained")}

    def arms(self) -> tuple[Arm, ...]:
        """Every score in an RNN, a Transformer, and one of each that is blind; these have nothing to tune for."""
        return tuple(replace(arm, rates=(2e-2,)) if arm.name in BLIND else arm for arm in super().arms())

    def measure(self, setup: Setup) -> dict[str, float]:
        """Train on phrases; choose head and step on validation; give errors on the test, also of what knows nothing."""
        tokenizer = subwords()
        tested = setup["tested"]
        validation, batch = unseen("valid", tested)
        test, _ = unseen("test", tested)
        model = build(model_of(setup["reader"]), vocab_size=len(tokenizer), seed=setup.seed)
        before = errors(model, tokenizer, test)[chosen(errors(model, tokenizer, validation))]
        small.train(setup, model, training(setup.seed, setup["pairs"], shuffled=setup["shuffled"]))
        after = errors(model, tokenizer, test)
        aside = errors(model, tokenizer, validation)
        along = [diagonal(len(pair.source), len(pair.target)) for pair in test]
        return {
            "valid": small.loss_of(model, batch),
            "error": after[chosen(aside)],
            "writes": after[chosen(aside, shifted=False)],
            "reads": after[chosen(aside, shifted=True)],
            "untrained": before,
            "diagonal": count_alignment(along, [pair.links for pair in test]).aer or 0.0,
        }

    def contrasts(self, trials: Trials) -> Contrasts:
        """Each reader's error is below that of all three by the margin."""
        rules = []
        for name, baseline in product(READERS, BASELINES):
            error = trials.values(name, "error")
            nothing = (BLIND[name == "heads"], "error") if baseline == "shuffled" else (name, baseline)
            least = trials.share_error([name], "error", self.size["tested"])
            lead = minus(error, trials.values(*nothing))
            rules.append(contrast(f"{name}-{baseline}", lead, "below", -MARGIN, least_error=least))
        return tuple(rules)

    def blocks(self, trials: Trials) -> Blocks:
        """The error of every reader beside what knows nothing, and which step is read."""
        places = dict(enumerate(trials.arms, 1))
        lines = {line: trials.spots_across(places, line) for line in ("error", "untrained", "diagonal")}
        return self.chart("alignment-error", lines, of="line", across=number_scale([len(places)])), self.means(trials)


def model_of(reader: str, *, dropout: float = 0.0) -> ModelConfig:
    """An LSTM that reads both ways with Luong's attention and one score; or a Transformer's heads."""
    if reader == "heads":
        return small.resized("transformer", SHARED, dim=WIDTH, ffn_dim=2 * WIDTH, dropout=dropout)
    return small.resized("luong-general", {**RNN, "decoder.score": reader}, embed_dim=WIDTH, dropout=dropout)


def errors(model: Seq2Seq, tokenizer: SubwordTokenizer, pairs: list[GoldPair]) -> dict[AttentionReading, float]:
    """Return the alignment error rate of every layer, head and step."""
    right = [pair.links for pair in pairs]
    links = word_links(model, tokenizer, pairs)
    return {way: count_alignment(linked, right).aer or 0.0 for way, linked in links.items()}


def chosen(figures: dict[AttentionReading, float], *, shifted: bool | None = None) -> AttentionReading:
    """Return the way with the least error, of all or of one step."""
    return min((way for way in figures if shifted in (None, way.shifted)), key=figures.__getitem__)


@cache
def subwords() -> SubwordTokenizer:
    """Subwords of both languages, from phrases of a seed of their own."""
    texts = []
    for pair in CldrSource(seed=99).pairs(8000):
        texts += [pair.source, pair.target]
    return SubwordTokenizer.train(texts, SubwordSettings("bpe", 1000, byte_fallback=False, split_digits=False))


def phrases(part: Split, seed: int, count: int) -> list[Pair]:
    """Draw phrases of at least three words on both sides: with fewer there is little to link wrongly."""
    source = CldrSource(seed=seed, split=part)
    drawn = chain.from_iterable(source.pairs(500, start) for start in count_up(0, 500))
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
    examples = list(linked_examples(figures, subwords(), {}))
    return [gold(pair) for pair in figures], collate(examples, 0, 1, range(count))


def training(seed: int, count: int, *, shuffled: bool) -> Iterator[Batch]:
    """Go through a number of phrases again and again, each time in another order; they have their links.

    Args:
        seed: of the phrases and of their order.
        count: of different phrases.
        shuffled: whether every target stands beside the source of another phrase.
    """
    examples = list(linked_examples(phrases("train", seed, count), subwords(), {}))
    if shuffled:
        order = torch.randperm(count, generator=generator(seed, "claims/shuffled")).tolist()
        examples = [Example(examples[k].source, pair.target) for k, pair in zip(order, examples, strict=True)]
    draws = generator(seed, "claims/data")
    while True:
        yield from batches(examples, batch_size=32, max_tokens=None, generator=draws)


@register.claim("guided-alignment")
class GuidedAlignment(Claim):
    """Phrases written right after few training phrases, with and without links that one head learns."""

    source = "Chen et al. 2016, section 3.2; Garg et al. 2019, section 4.2"
    seconds = (0, 900)
    points = tuple(MODELS)
    weaker = {model: (model,) for model in MODELS}
    kinds = {
        f"{model}-{name}": {"reader": reader, "weight": weight}
        for (model, reader), (name, weight) in product(MODELS.items(), WEIGHTS.items())
    }
    rates = (5e-3, 1e-2, 2e-2)
    sizes = {"steps": 1500, "pairs": 512, "tested": 1000}
    shows = {f"{model}_{name}": (f"{model}-{name}", "exact") for model, name in product(MODELS, ("plain", "strong"))}
    figure = "exact"
    lines = {model: {place: f"{model}-{name}" for place, name in enumerate(WEIGHTS)} for model in MODELS}
    columns = dict.fromkeys(("exact", "links", "error"), share)

    def measure(self, setup: Setup) -> dict[str, float]:
        """Train on few phrases, all with dropout; write those of the test, and see where the attention is."""
        tokenizer = subwords()
        validation, aside = unseen("valid", setup["tested"])
        test, batch = unseen("test", setup["tested"])
        model = build(model_of(setup["reader"], dropout=DROPOUT), vocab_size=len(tokenizer), seed=setup.seed)
        small.train(setup, model, training(setup.seed, setup["pairs"], shuffled=False), guided=setup["weight"])
        reading = chosen(errors(model, tokenizer, validation))
        return {
            "valid": 1 - small.exact_share(model, aside),
            "exact": small.exact_share(model, batch),
            "links": on_links(model, batch),
            "error": errors(model, tokenizer, test)[reading],
        }

    def contrasts(self, trials: Trials) -> Contrasts:
        """Links with the larger weight gain more than the margin in both models."""
        return self.gains(trials, MARGIN)

    def conditions(self, trials: Trials) -> dict[str, Contrasts]:
        """Only in one of the models; or in both, but by less than the margin."""
        return {**super().conditions(trials), "slight": self.gains(trials, 0.0)}

    def gains(self, trials: Trials, bound: float) -> Contrasts:
        """Hold what each model gains by links against a bound."""
        items = self.size["tested"]
        arms = {model: (f"{model}-strong", f"{model}-plain") for model in MODELS}
        return tuple(trials.lead(model, *pair, "exact", items, bound=bound) for model, pair in arms.items())

    def controls(self, trials: Trials) -> Contrasts:
        """Guidance has moved the attention of the head that it trains."""
        arms = {f"{model}-strong": f"{model}-plain" for model in MODELS}
        return tuple(control(arm, trials.differences(arm, plain, "links"), MOVED) for arm, plain in arms.items())


@torch.inference_mode()
def on_links(model: Seq2Seq, batch: Batch) -> float:
    """Return the mean share of attention on linked tokens, of the first head of the only layer."""
    assert batch.links is not None
    maps = model.attention_maps(batch.source, batch.target_in, source_mask=batch.source_mask)
    shares = (maps.cross[0][:, 0] * batch.links).sum(dim=-1)  # [b t]
    return float(shares[batch.links.any(dim=-1)].double().mean())


LENGTH = 12


def transformer(setup: Setup, symbols: int) -> Any:
    """Build a small Transformer."""
    config = small.resized("transformer", dim=setup["dim"], ffn_dim=2 * setup["dim"])
    return build(config, vocab_size=small.vocabulary(symbols), seed=setup.seed)


SYMBOLS = 16
NOISE = 0.2


def noisy_copies(rows: int, generator: torch.Generator) -> Batch:
    """Make sources whose target is the source with every fifth symbol, at random, drawn anew: nobody can foresee it."""
    source, other = (small.random_symbols(rows, LENGTH, symbols=SYMBOLS, generator=generator) for _ in range(2))
    return small.batch_of(source, torch.where(torch.rand(source.shape, generator=generator) < NOISE, other, source))


@register.claim("future-mask")
class FutureMask(Claim):
    """The same Transformer trained with the decoder's mask and without it."""

    source = "Vaswani et al. 2017, section 3.2.3"
    seconds = (2, 90)
    points = ("forced", "free")
    kinds = {"mask-on": {"mask": True}, "mask-off": {"mask": False}}
    rates = (1e-2, 3e-2, 9e-2)
    sizes = {"steps": 400, "rows": 64, "tested": 1000, "dim": 32}
    quick_sizes = {"steps": 100, "rows": 32, "tested": 200}
    shows = {"free": ("mask-off", "free"), "forced": ("mask-off", "forced"), "masked": ("mask-on", "free")}
    columns = {"loss": number, "forced": share, "free": share}

    def measure(self, setup: Setup) -> dict[str, float]:
        """Train with the right tokens before each; test so, and by greedy decoding; ask the causal gate."""
        tested = setup["tested"]
        seed = setup.seed
        model = transformer(setup, SYMBOLS)
        if not setup["mask"]:
            for block in model.decoder.layers:
                block.self_attn.register_forward_pre_hook(_unmasked, with_kwargs=True)
        loss = small.train(setup, model, small.stream(partial(noisy_copies, setup["rows"]), seed=seed))
        valid, test = (
            small.held_out(partial(noisy_copies, tested), seed=seed, name=name) for name in ("valid", "test")
        )
        hits = {"forced": small.forced_hits(model, test), "free": small.greedy_hits(model, test)}
        leaks = not causal(model, test.changed(lambda part: part[:8], list(range(min(8, tested))))).passed
        return {
            "valid": small.loss_of(model, valid),
            "loss": loss,
            "leaks": float(leaks),
            **{kind: float(hit.double().mean()) for kind, hit in hits.items()},
            **{f"{k}@{at + 1}": float(hits[k][:, at].double().mean()) for k, at in product(hits, range(LENGTH))},
        }

    def contrasts(self, trials: Trials) -> Contrasts:
        """Teacher-forced better without the mask, free-running worse, and the gate tells the two apart every time."""
        off_on = ("mask-off", "mask-on")
        items = self.size["tested"] * (LENGTH + 1)
        wrong = [*trials.values("mask-on", "leaks"), *(1 - fired for fired in trials.values("mask-off", "leaks"))]
        return (
            trials.lead("forced", *off_on, "forced", items),
            trials.lead("free", *off_on, "free", items, "below", -MARGIN),
            exact("gate", max(wrong), 0.5),
        )

    def blocks(self, trials: Trials) -> Blocks:
        """Accuracy by position, and in a table with the loss."""
        lines = {f"{arm}.{kind}": trials.spots(arm, kind) for arm, kind in product(trials.arms, ("forced", "free"))}
        return self.chart("future-mask", lines, of="line"), self.means(trials)


def _unmasked(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Call self-attention without its mask."""
    return args, kwargs | {"mask": None, "causal": False}  # targets of one length: there is no padding to hide


PLACES = 16
ERROR = 2
WRONG = (0, 1, 2, 4)  # tokens of the prefix that are replaced


def walks(rows: int, draws: torch.Generator) -> Batch:
    """Make walks on a ring, each step -1, 0 or 1; the source is the places as read, up to two away from the truth."""
    start = torch.randint(0, PLACES, (rows, 1), generator=draws)
    places = start + torch.randint(-1, 2, (rows, LENGTH), generator=draws).cumsum(dim=1)
    readings = places + torch.randint(-ERROR, ERROR + 1, (rows, LENGTH), generator=draws)
    return small.batch_of(small.FIRST + readings % PLACES, small.FIRST + places % PLACES)


def with_errors(batch: Batch, count: int, draws: torch.Generator) -> torch.Tensor:
    """Return what the decoder reads with some tokens of each row, never the first, replaced by others."""
    target_in = batch.target_in
    where = torch.rand(len(target_in), LENGTH, generator=draws).argsort(dim=1)[:, :count] + 1
    shift = torch.randint(1, PLACES, where.shape, generator=draws)
    return target_in.scatter(1, where, small.FIRST + (target_in.gather(1, where) - small.FIRST + shift) % PLACES)


@register.claim("exposure")
class Exposure(Claim):
    """The same Transformer trained on right tokens, on its own now and then, and on its own alone."""

    source = "Bengio et al. 2015; Ranzato et al. 2016, section 1"
    seconds = (11, 200)
    points = ("gap", "grows", "shrinks", "gain")
    kinds = {  # from which probability of the right token to which
        "teacher-forcing": {"forcing": (1.0, 1.0)},
        "scheduled-sampling": {"forcing": (1.0, 0.0)},
        "free-running": {"forcing": (0.0, 0.0)},
    }
    rates = (3e-3, 1e-2, 3e-2)
    sizes = {"steps": 300, "rows": 64, "tested": 1000, "dim": 32}
    quick_sizes = {"steps": 150, "tested": 800}
    not_quick = ("free-running",)
    shows = {"forced": ("teacher-forcing", "forced@0"), "greedy": ("teacher-forcing", "greedy")}
    shows |= {"sampling": ("scheduled-sampling", "greedy")}
    figure = "forced"
    columns = dict.fromkeys(("forced@0", "greedy", "sampled", "beam"), share)

    def measure(self, setup: Setup) -> dict[str, float]:
        """Train; test with right tokens before each, with wrong ones among them, and on the model's own."""
        start, last = setup["forcing"]
        seed = setup.seed
        model = transformer(setup, PLACES)
        batches = small.stream(partial(walks, setup["rows"]), seed=seed)
        small.train(setup, model, batches, teacher_forcing=start, teacher_forcing_end=last)
        valid, test = small.validation_and_test(partial(walks, setup["tested"]), seed=seed)
        ends: dict[str, Any] = {"bos_id": small.BOS, "eos_id": small.EOS, "max_length": LENGTH + 1}
        drawn = sample(model, test.source, test.source_mask, **ends, generator=generator(seed, "claims/sampling"))
        best = [first for first, *_ in beam_search(model, test.source, test.source_mask, **ends, beam_size=4)]
        hits = {"sampled": small.written_hits(drawn, test), "beam": small.written_hits(best, test)}
        hits["greedy"] = small.greedy_hits(model, test)
        for count in WRONG:
            target_in = with_errors(test, count, generator(seed, f"claims/errors/{count}"))
            hits[f"forced@{count}"] = small.forced_hits(model, test, target_in)
        wrong = 1 - _share(small.greedy_hits(model, valid))
        return {"valid": wrong} | {name: _share(hit) for name, hit in hits.items()}

    def contrasts(self, trials: Trials) -> Contrasts:
        """The gap, how it grows with wrong tokens, by how much scheduled sampling is nearer, and what it writes."""
        ours = "teacher-forcing"
        other = "scheduled-sampling"
        forced, sampled = (minus(trials.values(arm, "forced@0"), trials.values(arm, "greedy")) for arm in (ours, other))
        by_seed = zip(*(trials.values(ours, f"forced@{count}") for count in WRONG), strict=True)
        lost = [-linear_regression(WRONG, shares).slope for shares in by_seed]  # with each wrong token
        error = trials.share_error((ours, ours), "greedy", self.size["tested"] * LENGTH)
        return (
            contrast("gap", forced, "above", MARGIN, least_error=error),
            contrast("grows", lost, "above", 0.0),
            contrast("shrinks", minus(forced, sampled), "above", 0.0, least_error=error),
            contrast("gain", trials.differences(other, ours, "greedy"), "above", 0.0, least_error=error),
        )


def _share(hits: torch.Tensor) -> float:
    """Return the share of right tokens, without the end, which is always at the same place."""
    return float(hits[:, :LENGTH].double().mean())
