"""A claim on finding a symbol: what reaches an output from far away."""

from functools import partial
from itertools import cycle
from statistics import fmean
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
    learned = dict.fromkeys(kinds, ("recall@8", 0.9))
    sizes = {"steps": 300, "rows": 32, "tested": 300, "dim": 32, "trained": (8, 32), "distances": (8, 32, 128, 512)}
    quick_sizes = {"steps": 200, "tested": 200, "distances": (8, 32, 128)}
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
        small.train(setup, model, small.stream(lambda draws: recalls(setup["rows"], next(turns), draws), seed=seed))

        def unseen(distance: int, name: str) -> Batch:
            return small.held_out(partial(recalls, setup["tested"], distance), seed=seed, name=f"{name}/{distance}")

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
    x = model.embed(recalls(8, longest, generator(seed, "claims/gradient")).source).detach().requires_grad_()
    direction = torch.randn(x.shape[-1], generator=generator(seed, "claims/asked"), dtype=x.dtype)
    (gradient,) = torch.autograd.grad((model.last(x) @ direction).sum(), x)
    model.float()
    powers = gradient.norm(dim=-1).clamp(min=1e-300).log10().mean(dim=0).flip(0)[1:]  # of distance 1, 2, ...
    at = torch.arange(1, longest + 1, dtype=x.dtype)
    centred = at - at.mean()
    slope = 100 * float((centred * powers).sum() / centred.square().sum())
    return {"slope": slope} | {f"gradient@{2**k}": float(powers[2**k - 1]) for k in range(longest.bit_length())}
