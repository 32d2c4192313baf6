"""Claims on recall: what reaches an output from far away, and how much a state of fixed size holds."""

from collections.abc import Mapping
from copy import deepcopy
from functools import partial
from itertools import cycle
from statistics import fmean
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from selfattn.attention import DeltaAttention, LinearAttention, MultiHeadAttention
from selfattn.claims import small
from selfattn.claims.claim import Blocks, Claim, Setup, number, share
from selfattn.claims.rules import Contrasts, Trials, contrast, minus
from selfattn.data.batches import Batch
from selfattn.layers import RecurrentStack, initialise
from selfattn.registry import register
from selfattn.report.drawing.numbers import number_scale
from selfattn.streams import generator
from selfattn.tasks.recall import multiquery_ar

NOISE = 8  # symbols that stand around the one to find


def question(source: Tensor, wanted: Tensor) -> Batch:
    """Make a batch of sources ``[b s]`` whose target is one symbol ``[b 1]``."""
    every = torch.ones_like(source, dtype=torch.bool)
    return Batch(source, every, torch.full_like(wanted, small.BOS), wanted, every[:, :1], list(range(len(source))))


KINDS = 16  # symbols that are to be recalled
FLAT = 0.1  # powers of ten in a hundred tokens: over 512 tokens less than a factor of 3.3
RECALLED = 0.95


class Reader(small.Classifier):
    """Says one symbol of what its last token knows: of a recurrent state, or by attending to all."""

    def __init__(self, read: RecurrentStack | MultiHeadAttention, dim: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(small.vocabulary(KINDS + NOISE), dim)
        self.read = read
        self.output = nn.Linear(dim, small.vocabulary(KINDS))

    def last(self, x: Tensor) -> Tensor:
        """Map embedded tokens ``[b s d]`` to the last one's vector ``[b 1 d]``."""
        attends = hasattr(self.read, "project_context")
        known: Tensor = self.read(x[:, -1:], x).output if attends else self.read(x)[0][:, -1:]
        return known

    def classify(self, source: Tensor, source_mask: Tensor) -> Tensor:
        """Return logits ``[b 1 v]``."""
        logits: Tensor = self.output(self.last(self.embed(source)))
        return logits


def distant(rows: int, distance: int, draws: torch.Generator) -> Batch:
    """Make sources that begin with the symbol to be said, so many tokens before the last."""
    wanted = small.random_symbols(rows, 1, symbols=KINDS, generator=draws)
    others = KINDS + small.random_symbols(rows, distance, symbols=NOISE, generator=draws)
    return question(torch.cat([wanted, others], dim=1), wanted)


@register.claim("distance")
class Distance(Claim):
    """Gradient by distance at first weights, and recall after training, at distances up to 512."""

    source = "Vaswani et al. 2017, section 4 and table 1; Hochreiter and Schmidhuber 1997; Jozefowicz et al. 2015"
    seconds = (3, 90)
    points = ("recall",)
    kinds = {"attention": {"forget": None}, "lstm": {"forget": 1.0}, "lstm-open": {"forget": 6.0}}
    rates = (1e-2, 3e-2, 9e-2)
    learned = dict.fromkeys(kinds, ("recall@8", 0.9))
    sizes = {"steps": 300, "rows": 32, "tested": 300, "dim": 32, "trained": (8, 32), "distances": (8, 32, 128, 512)}
    quick_sizes = {"steps": 250, "tested": 200, "distances": (8, 32, 128)}
    quick_rates = {"lstm": 9e-2}
    columns = dict.fromkeys(("recall@8", "recall@32", "recall@128", "longest"), share)
    shows = {"attention": ("attention", "longest"), "lstm": ("lstm", "longest"), "open": ("lstm-open", "longest")}

    def measure(self, setup: Setup) -> dict[str, float]:
        """Take the gradient at the first weights; train at two short distances in turn, and test at longer ones too."""
        dim = setup["dim"]
        distances = setup["distances"]
        forget = setup["forget"]
        seed = setup.seed
        read: Any = MultiHeadAttention(dim, num_heads=4) if forget is None else RecurrentStack(dim, dim)
        model = Reader(read, dim)
        initialise(model, generator(seed, "init"))
        if forget is not None:
            read.layers[0][0].bias_ih_l0.data[dim : 2 * dim] = forget
        gradient = gradient_by_distance(model, max(distances), seed)
        turns = cycle(setup["trained"])
        small.train(setup, model, small.stream(lambda draws: distant(setup["rows"], next(turns), draws), seed=seed))

        def unseen(distance: int, name: str) -> Batch:
            return small.held_out(partial(distant, setup["tested"], distance), seed=seed, name=f"{name}/{distance}")

        recall = {distance: small.forced_accuracy(model, unseen(distance, "test")) for distance in distances}
        return {
            "valid": fmean(small.loss_of(model, unseen(distance, "validation")) for distance in setup["trained"]),
            "longest": recall[distances[-1]],
            **gradient,
            **{f"recall@{n}": share for n, share in recall.items()},
        }

    def contrasts(self, trials: Trials) -> Contrasts:
        """The gradient falls in both RNNs and stays level in self-attention, which recalls over any distance."""
        return (*self._rule(trials), contrast("open", trials.values("lstm-open", "slope"), "below", -FLAT))

    def conditions(self, trials: Trials) -> dict[str, Contrasts]:
        """The same without the RNN whose forget gates begin open."""
        return {"gate": self._rule(trials)}

    def _rule(self, trials: Trials) -> Contrasts:
        error = trials.share_error(["attention"], "longest", self.size["tested"])
        return (
            contrast("recall", trials.values("attention", "longest"), "above", RECALLED, least_error=error),
            contrast("attention", trials.values("attention", "slope"), "within", FLAT),
            contrast("lstm", trials.values("lstm", "slope"), "below", -FLAT),
        )

    def blocks(self, trials: Trials) -> Blocks:
        """The gradient by distance as a share of the mean one at distance 1, and in a table recall."""
        first = {arm: trials.mean(arm, "gradient@1").mean for arm in trials.arms}
        lines = {arm: trials.spots(arm, "gradient", partial(power_difference, first[arm])) for arm in trials.arms}
        across = number_scale([1, 512], powers=True)
        return self.chart("distance", lines, scale="powers", across=across), self.means(trials)


def power_difference(first: float, power: float) -> float:
    """Return a power of ten as a share of the first one."""
    return float(10 ** (power - first))


def gradient_by_distance(model: Reader, longest: int, seed: int) -> dict[str, float]:
    """Return the power of ten of the gradient at some distances, and its ``slope`` in a hundred tokens."""
    model.double()
    x = model.embed(distant(8, longest, generator(seed, "claims/gradient")).source).detach().requires_grad_()
    direction = torch.randn(x.shape[-1], generator=generator(seed, "claims/asked"), dtype=x.dtype)
    (gradient,) = torch.autograd.grad((model.last(x) @ direction).sum(), x)
    model.float()
    powers = gradient.norm(dim=-1).clamp(min=1e-300).log10().mean(dim=0).flip(0)[1:]  # of distance 1, 2, ...
    at = torch.arange(1, longest + 1, dtype=x.dtype)
    centred = at - at.mean()
    slope = 100 * float((centred * powers).sum() / centred.square().sum())
    return {"slope": slope} | {f"gradient@{2**k}": float(powers[2**k - 1]) for k in range(longest.bit_length())}


VOCABULARY = 256  # half of the tokens are keys
MOST = 64  # pairs
ENOUGH = 0.9
LOST = 0.2
EQUAL = 1e-4  # of outputs around 1
LAYERS: dict[str, type[MultiHeadAttention]] = {
    "attention": MultiHeadAttention,
    "linear": LinearAttention,
    "delta": DeltaAttention,
}


class Recaller(small.Classifier):
    """Reads pairs of a key and its value as one token each, and answers keys by one layer of attention."""

    def __init__(self, kind: str, dim: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY + small.FIRST, dim)
        self.attend = LAYERS[kind](dim, num_heads=1)
        self.output = nn.Linear(dim, VOCABULARY + small.FIRST)

    def inputs(self, source: Tensor) -> tuple[Tensor, Tensor]:
        """Return queries ``[b t d]`` and pairs ``[b s d]`` of keys, values and queries behind each other."""
        keys, values, queries = self.embed(source).chunk(3, dim=1)
        return queries, keys + values

    def classify(self, source: Tensor, source_mask: Tensor) -> Tensor:
        """Return logits ``[b t v]``."""
        queries, pairs = self.inputs(source)
        logits: Tensor = self.output(self.attend(queries, pairs).output)
        return logits


def associations(rows: int, pairs: int, draws: torch.Generator) -> Batch:
    """Make keys, values and the keys again in the order in which they are asked for, as MQAR draws them."""
    seed = int(torch.randint(2**31, (1,), generator=draws))
    inputs, labels = (torch.from_numpy(part) for part in multiquery_ar(VOCABULARY, rows, 4 * pairs, seed, pairs))
    asked = labels >= 0
    context = inputs[:, : 2 * pairs]
    queries = inputs[asked].view(rows, pairs)
    source = torch.cat([context[:, 0::2], context[:, 1::2], queries], dim=1) + small.FIRST
    wanted = labels[asked].view(rows, pairs) + small.FIRST
    every = torch.ones_like(wanted, dtype=torch.bool)
    return Batch(source, torch.ones_like(source, dtype=torch.bool), wanted, wanted, every, list(range(rows)))


@torch.inference_mode()
def difference(model: Recaller, batch: Batch) -> float:
    """Return the largest difference between the layer as attention and, of the same weights, as an RNN.

    In double precision: a division by a small sum of weights would make much of rounding in single precision.
    """
    exact = deepcopy(model).double()
    layer = exact.attend
    if not isinstance(layer, LinearAttention):
        return 0.0
    queries, pairs = exact.inputs(batch.source)
    x = torch.cat([pairs, queries], dim=1)
    state = None
    outputs = []
    for token in torch.split(x, 1, dim=1):
        attended, state = layer.advance(token, state, causal=True)
        outputs.append(attended.output)
    return float((torch.cat(outputs, dim=1) - layer(x, causal=True).output).abs().max())


@register.claim("state-size")
class StateSize(Claim):
    """Recall of 4 to 64 pairs by attention to all keys, and by states of two sizes."""

    source = "Arora et al. 2024, section 3; Katharopoulos et al. 2020, section 3.4; Schlag et al. 2021, section 4.1"
    seconds = (13, 400)
    points = ("linear", "delta", "wide")
    kinds: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "attention": {"kind": "attention", "dim": 16},
        "linear": {"kind": "linear", "dim": 16},
        "delta": {"kind": "delta", "dim": 16},
        "delta-wide": {"kind": "delta", "dim": 64},
    }
    rates = (1e-2, 3e-2, 9e-2)
    learned: ClassVar[Mapping[str, tuple[str, float]]] = {
        "attention": ("recall@4", 0.9),
        "linear": ("recall@4", 0.5),
        "delta": ("recall@4", 0.5),
    }
    sizes = {"steps": 600, "rows": 32, "tested": 100}
    quick_sizes = {"steps": 300, "tested": 50}
    figure = "recall"
    columns = {"recall@4": share, "recall@16": share, "recall@64": share, "difference": number}
    shows = {arm: (arm, "recall@64") for arm in ("attention", "linear", "delta")}

    def measure(self, setup: Setup) -> dict[str, float]:
        """Train on all numbers of pairs in turn, and test each."""
        model = Recaller(setup["kind"], setup["dim"])
        initialise(model, generator(setup.seed, "init"))
        counts = (MOST // 16, MOST // 4, MOST)
        turns = cycle(counts)
        make = partial(associations, setup["rows"])
        small.train(setup, model, small.stream(lambda draws: make(next(turns), draws), seed=setup.seed))
        recall = {}
        losses = []
        for count in counts:
            held_out = partial(small.held_out, partial(associations, setup["tested"], count), seed=setup.seed)
            losses.append(small.loss_of(model, held_out(name=f"validation/{count}")))
            recall[f"recall@{count}"] = small.forced_accuracy(model, held_out(name=f"test/{count}"))
        test = small.held_out(partial(associations, 4, MOST), seed=setup.seed)
        return {"valid": sum(losses) / len(losses), "difference": difference(model, test), **recall}

    def contrasts(self, trials: Trials) -> Contrasts:
        """Attention recalls most pairs, narrow states do not, a wider state recalls more; both forms agree."""
        recall = {arm: trials.values(arm, f"recall@{MOST}") for arm in self.kinds}
        items = self.size["tested"] * MOST
        error = trials.share_error(["attention", "linear"], f"recall@{MOST}", items)
        return (
            contrast("attention", recall["attention"], "above", ENOUGH, least_error=error),
            contrast("linear", minus(recall["attention"], recall["linear"]), "above", LOST, least_error=error),
            contrast("delta", minus(recall["attention"], recall["delta"]), "above", LOST, least_error=error),
            contrast("wide", minus(recall["delta-wide"], recall["delta"]), "above", LOST, least_error=error),
            contrast("forms-linear", trials.values("linear", "difference"), "below", EQUAL),
            contrast("forms-delta", trials.values("delta", "difference"), "below", EQUAL),
        )
