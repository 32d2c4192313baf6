"""Claims on finding a symbol: what reaches an output from far away, and whether attention explains what it found."""

from functools import partial
from itertools import cycle
from typing import Any

import torch
from torch import Tensor, nn

from selfattn.attention import MultiHeadAttention
from selfattn.claims import small
from selfattn.claims.claim import Blocks, Claim, Setup, share
from selfattn.claims.rules import Contrasts, Trials, contrast
from selfattn.data.batches import Batch
from selfattn.layers import RecurrentStack, initialise
from selfattn.registry import register
from selfattn.report.drawing.scale import number_scale
from selfattn.streams import generator

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
        self.embed, self.read = nn.Embedding(small.vocabulary(KINDS + NOISE), dim), read
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


def recalls(rows: int, distance: int, draws: torch.Generator) -> Batch:
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
    sizes = {"steps": 400, "rows": 32, "tested": 400, "dim": 32, "distances": (8, 32, 128, 512)}
    quick_sizes = {"steps": 120, "tested": 200, "distances": (8, 32, 128)}
    quick_rates = {"lstm": 1e-2}
    columns = dict.fromkeys(("recall@8", "recall@32", "recall@128", "longest"), share)
    shows = {"attention": ("attention", "longest"), "lstm": ("lstm", "longest"), "open": ("lstm-open", "longest")}

    def measure(self, setup: Setup) -> dict[str, float]:
        """Take the gradient at the first weights; train at all distances in turn, and test at each."""
        dim, distances, forget, seed = setup["dim"], setup["distances"], setup["forget"], setup.seed
        read: Any = MultiHeadAttention(dim, num_heads=4) if forget is None else RecurrentStack(dim, dim)
        model = Reader(read, dim)
        initialise(model, generator(seed, "init"))
        if forget is not None:
            read.layers[0][0].bias_ih_l0.data[dim : 2 * dim] = forget
        gradient = gradient_by_distance(model, max(distances), seed)
        turns, rows, tested = cycle(distances), setup["rows"], setup["tested"]
        small.train(setup, model, small.stream(lambda draws: recalls(rows, next(turns), draws), seed=seed))
        valid, test = (
            {n: small.held_out(partial(recalls, tested, n), seed=seed, name=f"{name}/{n}") for n in distances}
            for name in ("validation", "test")
        )
        recall = {n: small.forced_accuracy(model, batch) for n, batch in test.items()}
        return {
            "valid": sum(small.loss_of(model, batch) for batch in valid.values()) / len(valid),
            "longest": recall[distances[-1]],
            **gradient,
            **{f"recall@{n}": share for n, share in recall.items()},
        }

    def contrasts(self, trials: Trials) -> Contrasts:
        """The gradient falls in both RNNs, stays level in self-attention; and self-attention recalls."""
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
    x = model.embed(recalls(8, longest, generator(seed, "claims/gradient")).source).detach().requires_grad_()
    direction = torch.randn(x.shape[-1], generator=generator(seed, "claims/asked"), dtype=x.dtype)
    (gradient,) = torch.autograd.grad((model.last(x) @ direction).sum(), x)
    model.float()
    powers = gradient.norm(dim=-1).clamp(min=1e-300).log10().mean(dim=0).flip(0)[1:]  # of distance 1, 2, ...
    at = torch.arange(1, longest + 1, dtype=x.dtype)
    centred = at - at.mean()
    slope = 100 * float((centred * powers).sum() / centred.square().sum())
    return {"slope": slope} | {f"gradient@{2**k}": float(powers[2**k - 1]) for k in range(longest.bit_length())}


NEEDLES, WIDTH = 8, 32  # symbols to find


class Attender(small.Classifier):
    """Says one symbol of what the last token attends to: embeddings, or states of an LSTM that reads both ways."""

    def __init__(self, reads: bool, seed: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(small.vocabulary(NEEDLES + NOISE), WIDTH)
        self.read = RecurrentStack(WIDTH, WIDTH // 2, direction="both") if reads else None
        self.attend, self.output = MultiHeadAttention(WIDTH, num_heads=1), nn.Linear(WIDTH, small.vocabulary(NEEDLES))
        initialise(self, generator(seed, "init"))

    def find(self, source: Tensor) -> tuple[Tensor, Tensor]:
        """Return logits ``[b 1 v]`` and weights ``[b s]``."""
        x = self.embed(source)
        x = x if self.read is None else self.read.read(x, torch.ones_like(source, dtype=torch.bool))[0]
        attended = self.attend(x[:, -1:], x, need_weights=True)
        assert attended.weights is not None
        return self.output(attended.output), attended.weights[:, 0, 0]

    def classify(self, source: Tensor, source_mask: Tensor) -> Tensor:
        """Return logits ``[b 1 v]``."""
        return self.find(source)[0]


def needles(rows: int, length: int, draws: torch.Generator) -> Batch:
    """Make sources of noise with one symbol at a random place, which is to be said after the last token."""
    wanted = small.random_symbols(rows, 1, symbols=NEEDLES, generator=draws)
    noise = NEEDLES + small.random_symbols(rows, length, symbols=NOISE, generator=draws)
    place = torch.randint(0, length - 1, (rows, 1), generator=draws)
    return question(noise.scatter(1, place, wanted), wanted)


@torch.inference_mode()
def agreement(model: Attender, batch: Batch, draws: torch.Generator) -> float:
    """Return the share of sources whose most attended token is the one whose replacement costs most."""
    right = batch.target_out[..., None]
    before = model.find(batch.source)[0].log_softmax(-1).gather(-1, right)
    costs = []
    for place in range(batch.source.shape[1]):
        other = NEEDLES + small.random_symbols(len(batch.source), 1, symbols=NOISE, generator=draws)
        changed = batch.source.index_copy(1, torch.tensor([place]), other)
        costs.append((before - model.find(changed)[0].log_softmax(-1).gather(-1, right)).flatten())
    most = torch.stack(costs, dim=1).argmax(1)
    return float((most == model.find(batch.source)[1].argmax(1)).double().mean())


@register.claim("explanation")
class Explanation(Claim):
    """Attention on embeddings and on an LSTM's states: does the most attended token matter most?"""

    source = "Jain and Wallace 2019, section 4.1; Wiegreffe and Pinter 2019, section 3"
    seconds = (3, 40)
    points = ("lead", "right")
    kinds = {"embeddings": {"reads": False}, "states": {"reads": True}}
    rates = (3e-3, 1e-2, 3e-2)
    sizes = {"steps": 400, "tested": 400, "length": 12}
    quick_sizes = {"steps": 200, "tested": 200, "length": 16}
    shows = {"embeddings": ("embeddings", "agreement"), "states": ("states", "agreement"), "right": ("states", "right")}
    columns = {"right": share, "agreement": share}

    def measure(self, setup: Setup) -> dict[str, float]:
        """Train to find a symbol among noise; replace each token by noise, and compare with the attention."""
        model, make = Attender(setup["reads"], setup.seed), partial(needles, setup["tested"], setup["length"])
        small.train(setup, model, small.stream(partial(needles, 64, setup["length"]), seed=setup.seed))
        test = small.held_out(make, seed=setup.seed)
        agrees = agreement(model, test, generator(setup.seed, "claims/replaced"))
        return small.graded(setup, model, make) | {"agreement": agrees}

    def contrasts(self, trials: Trials) -> Contrasts:
        """Both models are right; attention names the token that matters more often on embeddings than on states."""
        items = self.size["tested"]
        return (
            trials.lead("lead", "embeddings", "states", "agreement", items),
            trials.lead("right", "states", "embeddings", "right", items, "within"),
        )

    def blocks(self, trials: Trials) -> Blocks:
        """Right answers and agreement of both models."""
        arms = dict(enumerate(self.kinds))
        lines = {figure: trials.spots_across(arms, figure) for figure in self.columns}
        return self.chart("explanation", lines, of="line"), self.means(trials)
