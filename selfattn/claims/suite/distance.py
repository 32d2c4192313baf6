"""Interaction distance: what reaches an output from a token far away, through an RNN and through self-attention."""

from __future__ import annotations

from functools import partial
from itertools import cycle
from typing import Any

import torch
from torch import Tensor, nn

from selfattn.attention import MultiHeadAttention
from selfattn.claims import small
from selfattn.claims.claim import Blocks, Claim, Contrasts, Setup, Trials
from selfattn.claims.rules import contrast
from selfattn.data.batches import Batch
from selfattn.layers import RecurrentStack, initialise
from selfattn.models.protocol import EncoderMemory, Seq2Seq
from selfattn.registry import register
from selfattn.report.blocks import Spot
from selfattn.report.drawing.scale import number_scale
from selfattn.streams import generator

FLAT = 0.1  # powers of ten in a hundred tokens: over 512 tokens less than a factor of 3.3
RECALLED = 0.95


@register.claim("distance")
class Distance(Claim):
    """Gradient by distance at first weights, and recall after training, at distances up to 512."""

    source = "Vaswani et al. 2017, section 4 and table 1; Hochreiter and Schmidhuber 1997; Jozefowicz et al. 2015"
    seconds = (25, 90)
    points = ("recall",)
    kinds = {"attention": {"forget": None}, "lstm": {"forget": 1.0}, "lstm-open": {"forget": 6.0}}
    rates = (1e-2, 3e-2, 9e-2)
    sizes = {"steps": 400, "rows": 32, "tested": 400, "dim": 32, "distances": (8, 32, 128, 512)}
    quick_sizes = {"steps": 120, "tested": 200, "distances": (8, 32, 128)}
    quick_rates = {"lstm": 1e-2}
    shows = {"attention": ("attention", "longest"), "lstm": ("lstm", "longest"), "open": ("lstm-open", "longest")}

    def measure(self, setup: Setup) -> dict[str, float]:
        """Take the gradient at the first weights; train at all distances in turn, and test at each."""
        dim, distances, forget, seed = setup["dim"], setup["distances"], setup["forget"], setup.seed
        read: Any = MultiHeadAttention(dim, num_heads=4) if forget is None else RecurrentStack(dim, dim)
        model = Reader(read, dim)
        initialise(model, generator(seed, "init"))
        if forget is not None:
            read.layers[0][0].bias_ih_l0.data[dim : 2 * dim] = forget
        slope, powers = self._gradient(model, max(distances), seed)
        turns, rows, tested = cycle(distances), setup["rows"], setup["tested"]
        small.train(setup, model, small.stream(lambda draws: recalls(rows, next(turns), draws), seed=seed))
        valid, test = (
            {n: small.held_out(partial(recalls, tested, n), seed=seed, name=f"{name}/{n}") for n in distances}
            for name in ("validation", "test")
        )
        recall = {n: small.forced_accuracy(model, batch) for n, batch in test.items()}
        return {
            "valid": sum(small.loss_of(model, batch) for batch in valid.values()) / len(valid),
            "slope": slope,
            "longest": recall[distances[-1]],
            **{f"gradient@{n}": power for n, power in powers.items()},
            **{f"recall@{n}": share for n, share in recall.items()},
        }

    def _gradient(self, model: Reader, longest: int, seed: int) -> tuple[float, dict[int, float]]:
        """Return the slope of the gradient's power of ten in a hundred tokens, and the power at some distances."""
        model.double()
        x = model.embed(recalls(8, longest, generator(seed, "claims/gradient")).source).detach().requires_grad_()
        direction = torch.randn(x.shape[-1], generator=generator(seed, "claims/asked"), dtype=x.dtype)
        (gradient,) = torch.autograd.grad((model.last(x) @ direction).sum(), x)
        model.float()
        powers = gradient.norm(dim=-1).clamp(min=1e-300).log10().mean(dim=0).flip(0)[1:]  # of distance 1, 2, ...
        at = torch.arange(1, longest + 1, dtype=x.dtype)
        centred = at - at.mean()
        slope = 100 * float((centred * powers).sum() / centred.square().sum())
        return slope, {2**k: float(powers[2**k - 1]) for k in range(longest.bit_length())}

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
        """The gradient by distance as a share of that at distance 1, and in a table recall."""
        lines = {arm: self._relative(trials, arm) for arm in trials.arms}
        heads = [figure for figure in trials.figures(trials.arms[0]) if figure.startswith("recall@")]
        rows = {arm: [f"{100 * trials.mean(arm, head).mean:.0f}" for head in heads] for arm in trials.arms}
        across = number_scale([1, max(self.size["distances"])], powers=True)
        return self.chart("distance", lines, scale="powers", across=across), self.table("recall", heads, rows)

    def _relative(self, trials: Trials, arm: str) -> tuple[Spot, ...]:
        """The gradient by distance as a share of the mean one at distance 1; figures are powers of ten."""
        first = trials.mean(arm, "gradient@1").mean
        return trials.spots(arm, "gradient", lambda power: float(10 ** (power - first)))


KINDS, NOISE = 16, 8  # symbols that are to be recalled, and others that stand between


class Reader(Seq2Seq):
    """Reads ids, and says one symbol of what its last token knows: of a recurrent state, or by attending to all."""

    def __init__(self, read: RecurrentStack | MultiHeadAttention, dim: int) -> None:
        super().__init__()
        self.embed, self.read = nn.Embedding(small.vocabulary(KINDS + NOISE), dim), read
        self.output = nn.Linear(dim, small.vocabulary(KINDS))

    def last(self, x: Tensor) -> Tensor:
        """Map embedded tokens ``[b s d]`` to the last one's vector ``[b 1 d]``."""
        attends = hasattr(self.read, "project_context")
        known: Tensor = self.read(x[:, -1:], x).output if attends else self.read(x)[0][:, -1:]
        return known

    def encode(self, source: Tensor, source_mask: Tensor) -> EncoderMemory:
        """Read sources without padding."""
        return EncoderMemory(self.last(self.embed(source)), source_mask[:, -1:])

    def forward(self, source: Tensor, target_in: Tensor, *, source_mask: Tensor) -> Tensor:
        """Return logits ``[b 1 v]``."""
        logits: Tensor = self.output(self.last(self.embed(source)))
        return logits


def recalls(rows: int, distance: int, draws: torch.Generator) -> Batch:
    """Make sources that begin with the symbol to be said, so many tokens before the last."""
    wanted = small.random_symbols(rows, 1, symbols=KINDS, generator=draws)
    others = KINDS + small.random_symbols(rows, distance, symbols=NOISE, generator=draws)
    source = torch.cat([wanted, others], dim=1)
    every = torch.ones_like(source, dtype=torch.bool)
    return Batch(source, every, torch.full_like(wanted, small.BOS), wanted, every[:, :1], list(range(rows)))
