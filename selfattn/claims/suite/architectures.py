"""Claims on what a model is made of, and what it costs.

Encoders that read both ways, hybrids, and the learning rate against both; an RNN's steps against self-attention's
square, and decoding with fewer key-value heads.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice, product
from statistics import median
from typing import Any

import torch
from torch import Tensor

from selfattn.attention import MultiHeadAttention
from selfattn.claims import small
from selfattn.claims.claim import Arm, Blocks, Claim, Setup, number, share
from selfattn.claims.rules import MARGIN, Contrasts, Trials, contrast, exact, minus
from selfattn.data.batches import Batch
from selfattn.decoding.common import evaluating
from selfattn.evaluation.cost import peak_memory
from selfattn.layers import RecurrentStack
from selfattn.models.build import build, count_parameters
from selfattn.models.config import ModelConfig, config_from_dict
from selfattn.models.families import DecoderOnlyConfig, EncoderDecoderConfig, TransformerConfig
from selfattn.models.protocol import Seq2Seq
from selfattn.registry import register
from selfattn.report.numbers import Scale, number_scale
from selfattn.results.claims import Contrast
from selfattn.streams import generator

WIDTH = 64
COUNTED = (16, 32, 64)
LENGTHS = (16, 32, 64, 128, 256, 512, 1024)
SHORT = 16  # between these the two have to cross
LONG = 1024
WAYS = ("rnn", "rnn-unfused", "attention", "attention-unfused")


@register.claim("parallelism")
class Parallelism(Claim):
    """Steps that wait for one another, times of a training step at a constant number of symbols, and memory."""

    source = "Vaswani et al. 2017, section 4, table 1"
    seconds = (0, 40)
    sizes = {"tokens": 2048, "turns": 3}
    shows = {"short": ("layers", f"speed-up@{SHORT}"), "long": ("layers", f"speed-up@{LONG}")}
    unit = "number"

    def arms(self) -> tuple[Arm, ...]:
        """One arm, in which all ways are timed by turns."""
        return (Arm("layers", self.size, alone=True),)

    def measure(self, setup: Setup) -> dict[str, float]:
        """Count ``steps@N``, take ``ms@N`` by turns in processor time and ``bytes@N`` of one sequence, for each way."""
        ways = layers(WIDTH, setup.seed)
        draws = torch.Generator().manual_seed(setup.seed)
        figures: dict[str, float] = {}
        tokens = setup["tokens"]
        turns = setup["turns"]
        lengths = [n for n in LENGTHS if n <= tokens]
        for n in COUNTED:
            x = torch.randn(1, n, WIDTH, generator=draws)
            figures |= {f"{way}-steps@{n}": float(longest_chain(layer(x))) for way, layer in ways.items()}
        for n in lengths:  # the first turn warms up
            x = torch.randn(tokens // n, n, WIDTH, generator=draws)
            rounds = [[seconds(layer, x) for layer in ways.values()] for _ in range(1 + turns)][1:]
            times = [1000 * median(column) for column in zip(*rounds, strict=True)]
            figures |= {f"{way}-ms@{n}": taken for way, taken in zip(WAYS, times, strict=True)}
            figures[f"speed-up@{n}"] = figures[f"rnn-ms@{n}"] / figures[f"attention-ms@{n}"]
        for n in lengths[-2:]:
            single = torch.randn(1, n, WIDTH, generator=draws)
            for way in ("rnn", "attention", "attention-unfused"):
                figures[f"{way}-bytes@{n}"] = float(peak_memory(partial(seconds, ways[way], single)))
        return figures

    def contrasts(self, trials: Trials) -> Contrasts:
        """Steps are counted; attention is the faster of the two on short sequences, the RNN on long ones."""

        def doublings(figure: str, other: str) -> list[float]:
            """Return how many doublings a figure is above another, by seed."""
            pairs = zip(trials.values("layers", figure), trials.values("layers", other), strict=True)
            return [math.log2(a / b) for a, b in pairs]

        def lead(kind: str, n: int) -> list[float]:
            return doublings(f"rnn{kind}-ms@{n}", f"attention{kind}-ms@{n}")

        def grown(figure: str) -> list[float]:
            return doublings(f"{figure}@{LENGTHS[-1]}", f"{figure}@{LENGTHS[-2]}")

        ways = ("rnn-unfused", "attention-unfused")
        rnn, attention = ([trials.values("layers", f"{way}-steps@{n}")[0] for n in COUNTED] for way in ways)
        first = rnn[1] - rnn[0]
        second = rnn[2] - rnn[1]
        return (
            exact("rnn-steps", abs(second / first - 2) if first > 0 else math.inf, 1e-9),
            exact("attention-steps", max(attention) - min(attention), 0.5),
            contrast("short", lead("", SHORT), "above", 0.0),
            contrast("short-unfused", lead("-unfused", SHORT), "above", 0.0),
            contrast("long", lead("", LONG), "below", 0.0),
            contrast("growth", grown("attention-ms"), "above", 0.5),
            exact("memory-attention", abs(grown("attention-unfused-bytes")[0] - 2), 0.2),
            exact("memory-rnn", abs(grown("rnn-bytes")[0] - 1), 0.2),
        )

    def blocks(self, trials: Trials) -> Blocks:
        """Times by length, and what was counted."""
        lines = {way: trials.spots("layers", f"{way}-ms") for way in WAYS}
        heads = ("steps@16", "steps@64", "ms@16", "ms@128", "ms@1024")
        rows = {way: [f"{trials.mean('layers', f'{way}-{head}').mean:.3g}" for head in heads] for way in WAYS}
        plot = self.chart("step-time", lines, of="way", scale="powers", across=number_scale(LENGTHS, powers=True))
        return plot, self.table("steps-counted", heads, rows, of="way")


Layer = Callable[[Tensor], Tensor]


def layers(width: int, seed: int) -> dict[str, Layer]:
    """Make an LSTM layer and a self-attention layer; each in one kernel, and in pieces."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        rnn = RecurrentStack(width, width)
        attention = MultiHeadAttention(width, num_heads=4)

    def one_by_one(x: Tensor) -> Tensor:
        state = None
        outputs = []
        for symbol in torch.split(x, 1, dim=1):
            output, state = rnn(symbol, state)
            outputs.append(output)
        return torch.cat(outputs, dim=1)

    return {
        "rnn": lambda x: rnn(x)[0],
        "rnn-unfused": one_by_one,
        "attention": lambda x: attention(x).output,
        "attention-unfused": lambda x: attention(x, need_weights=True).output,  # scores, softmax and sum written out
    }


def seconds(layer: Layer, x: Tensor) -> float:
    """Take the processor time of a training step: forward and backward."""
    started = time.process_time()
    layer(x).square().mean().backward()  # type: ignore[no-untyped-call]  # PyTorch has no types for it
    return max(time.process_time() - started, 1e-6)


def longest_chain(output: Tensor) -> int:
    """Count the operations of the longest chain in which each waits for the one before, in the gradient's graph.

    Example:
        >>> x = torch.ones(2, requires_grad=True)
        >>> longest_chain((x + 1) * 2)  # the leaf, a sum, a product
        3
    """
    depth: dict[object, int] = {}
    stack = [(output.grad_fn, False)]
    while stack:
        node, is_done = stack.pop()
        before = [parent for parent, _ in getattr(node, "next_functions", ()) if parent is not None]
        if is_done:
            depth[node] = 1 + max((depth[parent] for parent in before), default=0)
        elif node not in depth:
            stack += [(node, True), *((parent, False) for parent in before)]
    return depth[output.grad_fn]


HEADS = 4
FEWER = (2, 1)
TIMED_HEADS = 8
PREFIXES = (64, 256, 1000)
LARGEST_SIZE_ERROR = 0.005
SYMBOLS = 16
BATCH = 16
WRITTEN = 12


@register.claim("key-value-heads")
class KeyValueHeads(Claim):
    """Right tokens at equal size with as many key-value heads as heads, and with fewer; cache and time of decoding.

    Measured while the models still learn: where all of them know everything, nothing could be lost. A model of half the
    width shows that a loss would be seen.
    """

    source = "Shazeer 2019, sections 2.4 and 3; Ainslie et al. 2023, sections 2.2 and 3"
    seconds = (0, 80)
    points = (*(f"kv-{kv}" for kv in FEWER), "sensitive")
    kinds = {
        "kv-4": {"num_kv_heads": 4, "dim": 64},
        "kv-2": {"num_kv_heads": 2, "dim": 64},
        "kv-1": {"num_kv_heads": 1, "dim": 64},
        "half": {"num_kv_heads": 4, "dim": 32},
    }
    rates = (1e-2,)
    learned = {f"kv-{kv}": ("first", 0.8) for kv in (4, 2, 1)}
    sizes = {"steps": 110, "rows": 32, "length": 10, "tested": 300, "turns": 3}
    shows = {"all": ("kv-4", "right"), "single": ("kv-1", "right"), "half": ("half", "right")}
    shows |= {"speed": ("decoding", f"speed-up@{PREFIXES[-1]}")}
    columns = {"first": share, "right": share, "size": number}

    def arms(self) -> tuple[Arm, ...]:
        """Trained models with 4, 2 and 1 key-value heads of 4; one arm that takes times."""
        return *super().arms(), Arm("decoding", {**self.size, "num_kv_heads": TIMED_HEADS}, alone=True)

    def measure(self, setup: Setup) -> dict[str, float]:
        """Train on reversals; or decode by turns with 8 and with 1 key-value heads, after prefixes of three lengths."""
        kv = setup["num_kv_heads"]
        if setup.arm.alone:
            return one_against_all(kv, PREFIXES, setup.seed, turns=setup["turns"])
        make = partial(small.reversals, symbols=SYMBOLS)
        length = setup["length"]
        config = of_equal_size(kv, setup["dim"])
        model = small.trained(setup, config, partial(make, setup["rows"], length), symbols=SYMBOLS)
        valid, test = small.validation_and_test(partial(make, setup["tested"], length), seed=setup.seed)
        hits = small.forced_hits(model, test)[:, :length].double()  # without the end
        return {
            "valid": small.loss_of(model, valid),
            "first": float(hits[:, 0].mean()),
            "right": float(hits.mean()),
            "size": float(count_parameters(model)[1]),
        }

    def contrasts(self, trials: Trials) -> Contrasts:
        """Not worse than the margin at equal size; a cache as much smaller as there are fewer heads; faster."""
        longest = PREFIXES[-1]
        cache = trials.values("decoding", f"cache@{longest}")
        speed_up = trials.values("decoding", f"speed-up@{longest}")
        sizes = [trials.values(f"kv-{kv}", "size")[0] for kv in (HEADS, *FEWER)]
        items = self.size["tested"]
        full = f"kv-{HEADS}"
        return (
            *(trials.lead(f"kv-{kv}", f"kv-{kv}", full, "right", items, bound=-MARGIN) for kv in FEWER),
            trials.lead("sensitive", "half", full, "right", items, "below", -MARGIN),
            exact("size", max(sizes) / min(sizes) - 1, LARGEST_SIZE_ERROR),
            exact("cache", abs(cache[0] - TIMED_HEADS), 1e-12),
            contrast("speed-up", speed_up, "above", 1.0),
        )

    def blocks(self, trials: Trials) -> Blocks:
        """How many times as fast, by the length of the prefix; exact match and size."""
        lines = {"speed-up": trials.spots("decoding", "speed-up")}
        across = number_scale([10, PREFIXES[-1]], powers=True)
        return self.chart("kv-speed-up", lines, of="line", scale="number", across=across), self.means(trials)


def of_equal_size(num_kv_heads: int, dim: int = 64) -> EncoderDecoderConfig:
    """What the key and value projections of missing heads would weigh goes into the feed-forward blocks."""
    saved = 2 * (dim * dim + dim) * (1 - num_kv_heads / HEADS) / (2 * dim + 1)  # units inside, for one attention
    parts = (
        TransformerConfig(dim=dim, num_heads=HEADS, num_kv_heads=num_kv_heads, ffn_dim=2 * dim + round(count * saved))
        for count in (1, 2)  # an encoder's layer has one attention, a decoder's two
    )
    return EncoderDecoderConfig(encoder=next(parts), decoder=next(parts))


def one_against_all(num_heads: int, prefixes: Sequence[int], seed: int, *, turns: int) -> dict[str, float]:
    """Let both write by turns after prefixes of some lengths; the first turn warms up.

    Returns:
        ``speed-up@LENGTH``, how many times as fast a token is written with one key-value head, in median over turns;
        ``cache@LENGTH``, how many times as many numbers are kept of what was read with all of them.
    """
    figures = {}
    stacks = (
        TransformerConfig(dim=128, num_heads=num_heads, num_kv_heads=kv, num_layers=2, ffn_dim=256)
        for kv in (num_heads, 1)
    )
    size = small.vocabulary(SYMBOLS)
    models = [build(DecoderOnlyConfig(stack=stack), vocab_size=size, seed=seed).eval() for stack in stacks]
    for length in prefixes:
        draws = torch.Generator().manual_seed(seed)
        source = small.random_symbols(BATCH, length, symbols=SYMBOLS, generator=draws)
        rounds = zip(*(seconds_a_token(model, source) for model in models), strict=True)
        figures[f"speed-up@{length}"] = median(full / single for full, single in islice(rounds, 1, turns + 1))
        full, single = (cached_numbers(model, source) for model in models)
        figures[f"cache@{length}"] = full / single
    return figures


@torch.inference_mode()
def seconds_a_token(model: Seq2Seq, source: Tensor) -> Iterator[float]:
    """Read a prefix, write some tokens and give their processor time; then go on from there."""
    state = model.start(model.encode(source, torch.ones_like(source, dtype=torch.bool)))
    token = torch.full((len(source),), small.BOS)
    with evaluating(model) as stepper:
        while True:
            started = time.process_time()
            for _ in range(WRITTEN):
                logits, state = stepper.step(token, state)
                token = logits.argmax(dim=-1)
            yield (time.process_time() - started) / WRITTEN


@torch.inference_mode()
def cached_numbers(model: Any, source: Tensor) -> int:
    """Count the numbers that a decoder keeps of what it has read: keys and values of every layer."""
    memory = model.encode(source, torch.ones_like(source, dtype=torch.bool))
    return sum(cache.entries.key.numel() + cache.entries.value.numel() for cache in memory.caches)


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
    all_kinds = torch.arange(kinds).expand(rows, kinds)
    full = small.FIRST + SENSES * all_kinds + torch.randint(0, SENSES, all_kinds.shape, generator=draws)
    bare = small.FIRST + SENSES * kinds + all_kinds
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
    weaker = {"choice": ("choice-rnn", "choice-transformer")}  # as long as both models have attention
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
        rules = []
        for name, other in {"choice": "transformer", "attention": "plain"}.items():
            apart = [abs(difference) for difference in trials.differences("attention", other, "best")]
            for family, arm in {"rnn": "attention", "transformer": "transformer"}.items():
                cost = minus(trials.values(arm, "best"), trials.values(arm, "wrong"))
                rules.append(contrast(f"{name}-{family}", minus(cost, apart), "above", MARGIN))
        return tuple(rules)

    def blocks(self, trials: Trials) -> Blocks:
        """Right tokens by learning rate, as a multiple of the best one."""
        lines = {arm: trials.spots(arm, "right") for arm in trials.arms}
        return self.chart("rates", lines, across=number_scale([0.25, 4], powers=True)), self.means(trials)
