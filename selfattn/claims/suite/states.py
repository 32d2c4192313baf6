"""A claim on states of fixed size: what they can recall, beside attention to all keys."""

from collections.abc import Mapping
from copy import deepcopy
from functools import partial
from itertools import cycle
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from selfattn.attention import DeltaAttention, LinearAttention, MultiHeadAttention
from selfattn.claims import small
from selfattn.claims.claim import Claim, Setup, number, share
from selfattn.claims.rules import Contrasts, Trials, contrast, minus
from selfattn.data.batches import Batch
from selfattn.layers import initialise
from selfattn.registry import register
from selfattn.streams import generator
from selfattn.tasks.recall import multiquery_ar

VOCABULARY = 256  # half of the tokens are keys
MOST = 64  # pairs
RECALLED = 0.9
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


def recalls(rows: int, pairs: int, draws: torch.Generator) -> Batch:
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
    seconds = (40, 400)
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
        make = partial(recalls, setup["rows"])
        small.train(setup, model, small.stream(lambda draws: make(next(turns), draws), seed=setup.seed))
        recall = {}
        losses = []
        for count in counts:
            held_out = partial(small.held_out, partial(recalls, setup["tested"], count), seed=setup.seed)
            losses.append(small.loss_of(model, held_out(name=f"validation/{count}")))
            recall[f"recall@{count}"] = small.forced_accuracy(model, held_out(name=f"test/{count}"))
        test = small.held_out(partial(recalls, 4, MOST), seed=setup.seed)
        return {"valid": sum(losses) / len(losses), "difference": difference(model, test), **recall}

    def contrasts(self, trials: Trials) -> Contrasts:
        """Attention recalls most pairs, narrow states do not, a wider state recalls more; both forms agree."""
        recall = {arm: trials.values(arm, f"recall@{MOST}") for arm in self.kinds}
        items = self.size["tested"] * MOST
        error = trials.share_error(["attention", "linear"], f"recall@{MOST}", items)
        return (
            contrast("attention", recall["attention"], "above", RECALLED, least_error=error),
            contrast("linear", minus(recall["attention"], recall["linear"]), "above", LOST, least_error=error),
            contrast("delta", minus(recall["attention"], recall["delta"]), "above", LOST, least_error=error),
            contrast("wide", minus(recall["delta-wide"], recall["delta"]), "above", LOST, least_error=error),
            contrast("forms-linear", trials.values("linear", "difference"), "below", EQUAL),
            contrast("forms-delta", trials.values("delta", "difference"), "below", EQUAL),
        )
