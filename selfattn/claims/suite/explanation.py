"""Claims on attention as an explanation, and as a cause.

Other weights with the same answers, what weights are worth alone, and other weights in the place of those that a
trained model computed.
"""

import math
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from selfattn.attention import MultiHeadAttention
from selfattn.claims import small
from selfattn.claims.claim import Blocks, Claim, Setup, number, share
from selfattn.claims.rules import MARGIN, Contrasts, Trials, contrast, minus
from selfattn.data.batches import Batch
from selfattn.layers import RecurrentStack, initialise
from selfattn.models.inside import attention_layers, edited, reweigh
from selfattn.models.protocol import Seq2Seq
from selfattn.registry import register
from selfattn.report.blocks import Spot
from selfattn.streams import generator

NAMES = 5
VALUES = 5  # all different within a source, so that no other token has the answer
WIDTH = 32
QUITE_DIFFERENT = math.log(2) / 2  # Jensen-Shannon divergence of two distributions: half of the largest one
EQUAL = 0.05  # most that the probabilities of the answers may move, as total variation distance
PUSH = 0.3  # weight of being different in the adversary's loss


def questions(rows: int, draws: torch.Generator) -> Batch:
    """Make sources of names with their values, in any order; the last token asks for the value of one name.

    A token is a name and its value together, so that the answer stands at a single place.
    """
    names = torch.rand(rows, NAMES, generator=draws).argsort(dim=1)
    values = torch.rand(rows, VALUES, generator=draws).argsort(dim=1)
    place = torch.randint(0, NAMES, (rows, 1), generator=draws)
    query = small.FIRST + NAMES * VALUES + names.gather(1, place)
    source = torch.cat([small.FIRST + VALUES * names + values, query], dim=1)
    return small.labels(source, small.FIRST + values.gather(1, place))


class Attender(small.Classifier):
    """Answers by what the last token attends to: embeddings, or states of an LSTM that reads both ways.

    Args:
        reads: whether an LSTM reads the source before.
        seed: of the first weights.
    """

    def __init__(self, reads: bool, seed: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(small.vocabulary(NAMES * VALUES + NAMES), WIDTH)
        self.read = RecurrentStack(WIDTH, WIDTH // 2, direction="both") if reads else None
        self.attend = MultiHeadAttention(WIDTH, num_heads=1)
        self.output = nn.Linear(WIDTH, small.vocabulary(VALUES))
        initialise(self, generator(seed, "init"))

    def vectors(self, source: Tensor) -> Tensor:
        """Return what is attended to ``[b s d]``."""
        x: Tensor = self.embed(source)
        if self.read is not None:
            x = self.read.read(x, torch.ones_like(source, dtype=torch.bool))[0]
        return x

    def weights(self, source: Tensor) -> Tensor:
        """Return the attention of the last token ``[b s]``."""
        x = self.vectors(source)
        weights = self.attend(x[:, -1:], x, need_weights=True).weights
        assert weights is not None
        return weights[:, 0, 0]

    def answers(self, source: Tensor, weights: Tensor) -> Tensor:
        """Return log-probabilities ``[b q v]`` under any attention ``[b q s]``."""
        values = self.attend.v_proj(self.vectors(source))
        logits: Tensor = self.output(self.attend.out_proj(weights @ values))
        return logits.log_softmax(dim=-1)

    def features(self, source: Tensor) -> Tensor:
        """Return what the last token attends to, ``[b 1 d]``."""
        x = self.vectors(source)
        return self.attend(x[:, -1:], x).output


class Guided(small.Classifier):
    """A simpler model that attends as it is told: each token alone goes through a layer, and weights add them up."""

    def __init__(self, guide: Callable[[Tensor], Tensor], seed: int) -> None:
        super().__init__()
        self.guide = guide
        self.embed = nn.Embedding(small.vocabulary(NAMES * VALUES + NAMES), WIDTH)
        self.inner = nn.Linear(WIDTH, WIDTH)
        self.output = nn.Linear(WIDTH, small.vocabulary(VALUES))
        initialise(self, generator(seed, "init"))

    def features(self, source: Tensor) -> Tensor:
        """Return the weighted sum ``[b 1 d]``."""
        with torch.no_grad():
            weights = self.guide(source)
        values: Tensor = self.inner(self.embed(source)).tanh()
        return weights[:, None] @ values


def divergence(weights: Tensor, other: Tensor) -> Tensor:
    """Return the Jensen-Shannon divergence of distributions along the last axis, 0 to ln 2."""
    middle = (weights + other) / 2
    apart: Tensor = entropy(middle) - (entropy(weights) + entropy(other)) / 2
    return apart


def entropy(weights: Tensor) -> Tensor:
    """Return the entropy along the last axis, in nats; its gradient is finite where a weight is 0."""
    nats: Tensor = torch.special.entr(weights.clamp(min=1e-9)).sum(-1)
    return nats


@torch.inference_mode()
def replaceable(model: Attender, batch: Batch) -> float:
    """Return the share of sources that have quite different weights with nearly the same answers.

    The other weights look at one place alone, each place in turn.
    """
    weights = model.weights(batch.source)[:, None]
    others = torch.eye(batch.source.shape[1]).expand(len(batch.source), -1, -1)
    before = model.answers(batch.source, weights).exp()
    after = model.answers(batch.source, others).exp()
    moved = (after - before).abs().sum(-1) / 2
    counts = (divergence(weights, others) > QUITE_DIFFERENT) & (moved < EQUAL)
    return float(counts.any(dim=1).double().mean())


def adversary(setup: Setup, model: Attender) -> Attender:
    """Train a second model to answer as the first one does, with attention as different as can be.

    It begins as a copy of the first one that has to learn anew where to look.

    Its loss is the total variation distance of the answers, less the divergence of the weights.
    """
    other = deepcopy(model)
    initialise(nn.ModuleList([other.attend.q_proj, other.attend.k_proj]), generator(setup.seed, "adversary"))
    optimizer = torch.optim.Adam(other.parameters(), lr=3e-3)
    batches = small.stream(partial(questions, setup["rows"]), seed=setup.seed, name="adversary")
    for batch in islice(batches, setup["guided"]):
        source = batch.source
        with torch.no_grad():
            weights = model.weights(source)
            before = model.answers(source, weights[:, None]).exp()
        changed = other.weights(source)
        after = other.answers(source, changed[:, None]).exp()
        loss = (after - before).abs().sum(-1).mean() / 2 - PUSH * divergence(changed, weights).mean()
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]  # PyTorch has no types for it
        optimizer.step()
    return other.eval()


@register.claim("explanation")
class Explanation(Claim):
    """Counterfactual attention, a trained adversary, and a simpler model that is guided by the weights of each."""

    source = "Jain and Wallace 2019, section 4.2; Wiegreffe and Pinter 2019, sections 3 and 4"
    seconds = (0, 60)
    points = ("replaceable", "adversary", "guide")
    kinds = {"embeddings": {"reads": False}, "states": {"reads": True}}
    rates = (2e-2,)
    learned = dict.fromkeys(kinds, ("right", 0.8))
    weaker = {"answers": ("replaceable", "adversary", "apart")}  # not what the weights are worth elsewhere
    sizes = {"steps": 700, "guided": 250, "rows": 32, "tested": 300}
    shows = {"embeddings": ("embeddings", "replaceable"), "states": ("states", "replaceable")}
    shows |= {"adversary": ("states", "adversary"), "own": ("states", "guide-own")}
    shows |= {"other": ("states", "guide-adversary")}
    columns = {"right": share, "replaceable": share, "adversary": share, "apart": number}
    columns |= dict.fromkeys(("guide-own", "guide-adversary", "guide-uniform"), share)

    def measure(self, setup: Setup) -> dict[str, float]:
        """Train; look for other weights with the same answers; train an adversary; guide a simpler model by each."""
        model = Attender(setup["reads"], setup.seed)
        make = partial(questions, setup["rows"])
        small.train(setup, model, small.stream(make, seed=setup.seed))
        unseen = partial(questions, setup["tested"])
        test = small.held_out(unseen, seed=setup.seed)
        other = adversary(setup, model)
        with torch.inference_mode():
            apart = float(divergence(model.weights(test.source), other.weights(test.source)).mean())
        figures = small.graded(setup, model, unseen)
        figures |= {"replaceable": replaceable(model, test), "apart": apart}
        figures["adversary"] = small.forced_accuracy(other, test)
        guides = {"own": model.weights, "adversary": other.weights, "uniform": uniform}
        for name, guide in guides.items():
            guided = Guided(guide, setup.seed)
            short = replace(setup, arm=replace(setup.arm, settings={"steps": setup["guided"]}))
            small.train(short, guided, small.stream(make, seed=setup.seed, name="guided"))
            figures[f"guide-{name}"] = small.forced_accuracy(guided, test)
        return figures

    def contrasts(self, trials: Trials) -> Contrasts:
        """Over an LSTM's states other weights give the same answers, and are worth as much to a simpler model.

        Most sources have other weights, and the adversary answers as well with weights that are far apart.
        """
        items = self.size["tested"]
        right = trials.values("states", "right")
        adversary = trials.values("states", "adversary")
        error = trials.share_error(("states", "states"), "adversary", items)
        error_of_guide = trials.share_error(("states", "states"), "guide-adversary", items)
        worth = minus(trials.values("states", "guide-adversary"), trials.values("states", "guide-own"))
        replaced = trials.values("states", "replaceable")
        error_of_replaced = trials.share_error(["states"], "replaceable", items)
        return (
            contrast("replaceable", replaced, "above", 0.5, least_error=error_of_replaced),
            contrast("adversary", minus(adversary, right), "above", -MARGIN, least_error=error),
            contrast("apart", trials.values("states", "apart"), "above", QUITE_DIFFERENT),
            contrast("guide", worth, "within", MARGIN, least_error=error_of_guide),
        )

    def blocks(self, trials: Trials) -> Blocks:
        """Right answers of a simpler model by whose weights guide it."""
        places = {0: "guide-uniform", 1: "guide-adversary", 2: "guide-own"}
        lines = {}
        for arm in trials.arms:
            means = {place: trials.mean(arm, figure) for place, figure in places.items()}
            lines[arm] = [Spot(place, mean.mean, mean.low, mean.high) for place, mean in means.items()]
        return self.chart("explanation", lines), self.means(trials)


def uniform(source: Tensor) -> Tensor:
    """Return equal weights for all tokens ``[b s]``."""
    return torch.full(source.shape, 1 / source.shape[1])


SYMBOLS = 16
MARK = small.FIRST + SYMBOLS  # stands behind every symbol of a target
LOST = 0.2  # a fifth of the tokens
KEPT = 0.02


@register.claim("cause")
class Cause(Claim):
    """Models as trained, and with other weights; at tokens that have to be looked up, and at others."""

    source = "Jain and Wallace 2019, section 4.2; Serrano and Smith 2019, section 3; Vig et al. 2020, section 2"
    seconds = (4, 90)
    points = ("rnn", "transformer", "rnn-marks", "transformer-marks")
    kinds: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "rnn": {"preset": "luong-dot", "parts": {"hidden_dim": 32}},
        "transformer": {"preset": "transformer", "parts": {"dim": 64, "ffn_dim": 128}},
    }
    rates = (3e-3, 1e-2, 3e-2)
    learned: ClassVar[Mapping[str, tuple[str, float]]] = {"rnn": ("looked_up", 0.9), "transformer": ("looked_up", 0.9)}
    sizes = {"steps": 400, "tested": 400, "length": 8}
    quick_sizes = {"steps": 200, "tested": 200, "length": 5}
    shows = {
        "rnn": ("rnn", "looked_up"),
        "rnn_uniform": ("rnn", "looked_up.uniform"),
        "transformer": ("transformer", "looked_up"),
        "transformer_uniform": ("transformer", "looked_up.uniform"),
    }
    columns = dict.fromkeys(
        ("looked_up", "looked_up.uniform", "looked_up.permuted", "mark", "mark.uniform", "mark.permuted"), share
    )

    def measure(self, setup: Setup) -> dict[str, float]:
        """Learn to write a sequence from its end, each symbol with a mark behind it; then change the weights."""
        make = partial(marked, length=setup["length"])
        config = small.resized(setup["preset"], **setup["parts"])
        model = small.trained(setup, config, partial(make, 64), symbols=SYMBOLS + 1)
        validation, test = small.validation_and_test(partial(make, setup["tested"]), seed=setup.seed)
        layers = [name for name in attention_layers(model) if name.endswith("cross_attn")]
        figures = {"valid": small.loss_of(model, validation)} | grades(model, test, "")
        for weights in ("uniform", "permuted"):
            changed = edited(model, *(reweigh(layer, weights) for layer in layers))
            figures |= grades(changed, test, f".{weights}")
        return figures

    def contrasts(self, trials: Trials) -> Contrasts:
        """Uniform weights cost accuracy at what is looked up, and nothing at the marks."""
        lost_symbols = []
        lost_marks = []
        for arm in self.kinds:
            looked_up = minus(trials.values(arm, "looked_up"), trials.values(arm, "looked_up.uniform"))
            marks = minus(trials.values(arm, "mark"), trials.values(arm, "mark.uniform"))
            items = self.size["tested"] * self.size["length"]
            errors = [trials.share_error([arm, arm], figure, items) for figure in ("looked_up", "mark")]
            lost_symbols.append(contrast(arm, looked_up, "above", LOST, least_error=errors[0]))
            lost_marks.append(contrast(f"{arm}-marks", marks, "within", KEPT, least_error=errors[1]))
        return (*lost_symbols, *lost_marks)

    def blocks(self, trials: Trials) -> tuple[Any, ...]:
        """The accuracy of each model, as trained and changed."""
        return (self.means(trials),)


def marked(rows: int, draws: torch.Generator, *, length: int) -> Batch:
    """Make sources whose target is the source from its end, with a mark behind each symbol."""
    source = small.random_symbols(rows, length, symbols=SYMBOLS, generator=draws)
    symbols = source.flip(1)
    target = torch.stack([symbols, torch.full_like(symbols, MARK)], dim=2)
    return small.batch_of(source, target.flatten(1))


def grades(model: Seq2Seq, batch: Batch, suffix: str) -> dict[str, float]:
    """Return the shares of right symbols, which have to be looked up, and of right marks, which do not."""
    hits: Tensor = small.forced_hits(model, batch)[:, :-1].double()
    return {f"looked_up{suffix}": float(hits[:, 0::2].mean()), f"mark{suffix}": float(hits[:, 1::2].mean())}
