"""Claims on sources of many lengths and on recall.

The bottleneck, attention against it, a reversed source, where attention sits; what reaches an output from far away, and
how much a state of fixed size holds.
"""

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from functools import partial
from itertools import cycle, pairwise, product
from statistics import fmean
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from selfattn.attention import DeltaAttention, LinearAttention, MultiHeadAttention
from selfattn.claims import small
from selfattn.claims.claim import Blocks, Claim, Setup, number, share
from selfattn.claims.rules import Contrasts, Trials, contrast, control, minus
from selfattn.data.batches import Batch
from selfattn.layers import RecurrentStack, initialise
from selfattn.models.config import ModelConfig
from selfattn.registry import register
from selfattn.report.numbers import number_scale
from selfattn.results.claims import Contrast, Need
from selfattn.streams import generator
from selfattn.tasks.recall import multiquery_ar

NOISE = 8  # symbols that stand around the one to find


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
        vector: Tensor = self.read(x[:, -1:], x).output if attends else self.read(x)[0][:, -1:]
        return vector

    def features(self, source: Tensor) -> Tensor:
        """Return the last token's vector ``[b 1 d]``."""
        return self.last(self.embed(source))


def distant(rows: int, distance: int, draws: torch.Generator) -> Batch:
    """Make sources that begin with the symbol to be said, so many tokens before the last."""
    symbol = small.random_symbols(rows, 1, symbols=KINDS, generator=draws)
    others = KINDS + small.random_symbols(rows, distance, symbols=NOISE, generator=draws)
    return small.labels(torch.cat([symbol, others], dim=1), symbol)


@register.claim("distance")
class Distance(Claim):
    """Gradient by distance at first weights, and recall after training, at distances up to 512."""

    source = "Vaswani et al. 2017, section 4 and table 1; Hochreiter and Schmidhuber 1997; Jozefowicz et al. 2015"
    seconds = (3, 90)
    points = ("recall",)
    kinds = {"attention": {"forget": None}, "lstm": {"forget": 1.0}, "lstm-open": {"forget": 6.0}}
    rates = (1e-2, 3e-2, 9e-2)
    learned = dict.fromkeys(kinds, ("recall@8", 0.9))
    weaker = {"gate": ("recall", "attention", "lstm")}  # without the RNN whose forget gates begin open
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
        error = trials.share_error(["attention"], "longest", self.size["tested"])
        return (
            contrast("recall", trials.values("attention", "longest"), "above", RECALLED, least_error=error),
            contrast("attention", trials.values("attention", "slope"), "within", FLAT),
            contrast("lstm", trials.values("lstm", "slope"), "below", -FLAT),
            contrast("open", trials.values("lstm-open", "slope"), "below", -FLAT),
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

    def features(self, source: Tensor) -> Tensor:
        """Return what the queries attend to, ``[b t d]``."""
        queries, pairs = self.inputs(source)
        return self.attend(queries, pairs).output


def associations(rows: int, pairs: int, draws: torch.Generator) -> Batch:
    """Make keys, values and the keys again in the order in which they are asked for, as MQAR draws them."""
    seed = int(torch.randint(2**31, (1,), generator=draws))
    inputs, labels = (torch.from_numpy(part) for part in multiquery_ar(VOCABULARY, rows, 4 * pairs, seed, pairs))
    asked = labels >= 0
    context = inputs[:, : 2 * pairs]
    queries = inputs[asked].view(rows, pairs)
    source = torch.cat([context[:, 0::2], context[:, 1::2], queries], dim=1) + small.FIRST
    return small.labels(source, labels[asked].view(rows, pairs) + small.FIRST)


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


LEARNED = 0.9  # of the shortest sources
LEAD = 0.10  # that attention must have at the longest sources
copies = partial(small.copies, symbols=8)


def by_length(
    setup: Setup, config: ModelConfig, make: Callable[[int, int, torch.Generator], Batch], *, symbols: int
) -> dict[str, float]:
    """Train on sources of 2 symbols to the longest length, and measure exact match at each length.

    Args:
        setup: of the trial; its settings ``lengths`` are those of the test, rising, ``tested`` the sources of each,
            ``batch`` the sources of a training step.
        config: of the model.
        make: makes a number of rows of one source length; every training batch has one length, drawn evenly.
        symbols: number of symbols.

    Returns:
        ``exact@LENGTH``, the share of exact targets on unseen sources of each length; ``exact``, their mean;
        ``longest``, the share at the last length; ``halving``, the length at which it falls to one half; ``valid``,
        the mean loss on validation data.
    """
    lengths = setup["lengths"]

    def mixed(draws: torch.Generator) -> Batch:
        return make(setup["batch"], int(torch.randint(2, lengths[-1] + 1, (1,), generator=draws)), draws)

    model = small.trained(setup, config, mixed, symbols=symbols)
    unseen = [small.validation_and_test(partial(make, setup["tested"], n), seed=setup.seed) for n in lengths]
    exact = [small.exact_share(model, test) for _, test in unseen]
    return {
        "valid": fmean(small.loss_of(model, validation) for validation, _ in unseen),
        "exact": fmean(exact),
        "longest": exact[-1],
        "halving": halving_length(exact, lengths),
        **{f"exact@{n}": share for n, share in zip(lengths, exact, strict=True)},
    }


def halving_length(exact: Sequence[float], lengths: Sequence[int]) -> float:
    """Return the length at which exact match falls to one half, interpolated; at least the first, at most the last.

    Example:
        >>> halving_length([1.0, 0.75, 0.25], [4, 8, 12]), halving_length([0.2, 0.1], [4, 8])
        (10.0, 4.0)
    """
    for k, (here, there) in enumerate(pairwise(exact)):
        if here < 0.5:
            return float(lengths[k])
        if there < 0.5:
            return lengths[k] + (lengths[k + 1] - lengths[k]) * (here - 0.5) / (here - there)
    return float(lengths[0] if exact[-1] < 0.5 else lengths[-1])


class ByLength(Claim):
    """A claim on the share of exact targets by length; every arm has to have learned the shortest sources."""

    figure = "exact"

    def controls(self, trials: Trials) -> Contrasts:
        """Nine tenths of the shortest sources."""
        shortest = f"exact@{self.size['lengths'][0]}"
        return tuple(control(arm, trials.values(arm, shortest), LEARNED) for arm in trials.arms)


@register.claim("bottleneck")
class Bottleneck(ByLength):
    """Exact match by source length: narrow, four times as wide, four times as long trained, and with attention."""

    source = "Cho et al. 2014 (SSST-8), section 4; Bahdanau et al. 2015, sections 1 and 5.2.2"
    seconds = (8, 250)
    points = ("lead", "lead-wide")
    kinds = {
        "plain": {"model": "rnn-plain", "width": 32},
        "plain-wide": {"model": "rnn-plain", "width": 128},
        "plain-long": {"model": "rnn-plain", "width": 32, "times": 4},
        "attention": {"model": "rnn-attention", "width": 32},
    }
    rates = (5e-3, 1e-2, 2e-2, 4e-2)
    sizes = {"steps": 1000, "lengths": (4, 8, 12, 16, 20), "tested": 200, "batch": 64}
    quick_sizes = {"batch": 32, "steps": 300, "lengths": (2, 4, 6, 8)}
    quick_rates = {"plain-wide": 1e-2}
    shows = {"plain": ("plain", "longest"), "attention": ("attention", "longest")}
    shows |= {name: (arm, "halving") for name, arm in zip(("before", "wide", "longer"), kinds, strict=False)}

    def measure(self, setup: Setup) -> dict[str, float]:
        """Train on copies of all lengths."""
        return by_length(setup, small.resized(setup["model"], hidden_dim=setup["width"]), copies, symbols=8)

    def contrasts(self, trials: Trials) -> Contrasts:
        """Width and training move the length; attention leads at the longest, over the wide vector as well."""
        items = self.size["tested"]
        return (
            contrast("halving", trials.differences("plain-wide", "plain", "halving"), "above", 0.0),
            contrast("longer", trials.differences("plain-long", "plain", "halving"), "above", 0.0),
            trials.lead("lead", "attention", "plain", "longest", items, bound=LEAD),
            trials.lead("lead-wide", "attention", "plain-wide", "longest", items, bound=LEAD),
        )

    def blocks(self, trials: Trials) -> Blocks:
        """Exact match by length, and the length at which it falls to one half."""
        longest = self.size["lengths"][-1]
        rows = {}
        for arm in trials.arms:
            beyond = min(trials.values(arm, "halving")) >= longest  # it never falls so low
            rows[arm] = [f"> {longest}" if beyond else number(trials.mean(arm, "halving"))]
        return *super().blocks(trials), self.table("means", ["halving"], rows)


def permutations(rows: int, length: int, draws: torch.Generator, *, symbols: int) -> Batch:
    """Make sources of different symbols in any order, which are to be copied."""
    source = small.FIRST + torch.rand(rows, symbols, generator=draws).argsort(dim=1)[:, :length]
    return small.batch_of(source, source)


@register.claim("attention-removes")
class AttentionRemoves(ByLength):
    """Three ways to the source, with bodies of one size and the same steps."""

    source = "Bahdanau et al. 2015, sections 3 and 5.2.2; Luong et al. 2015, section 5.2"
    seconds = (4, 150)
    kinds = {  # the peeky decoder is narrower, since it reads the vector at every step
        "plain": {"model": "rnn-plain", "width": 64},
        "peeky": {"model": "rnn-peeky", "width": 54},
        "attention": {"model": "rnn-attention", "width": 64},
    }
    points = ("lead-plain", "lead-peeky")
    rates = (1e-2, 2e-2, 4e-2)
    sizes = {"steps": 1000, "lengths": (4, 8, 12, 16, 20, 24), "tested": 200, "batch": 64}
    quick_sizes = {"batch": 32, "steps": 300, "lengths": (2, 8)}
    shows = {arm: (arm, "longest") for arm in ("peeky", "attention")}

    def measure(self, setup: Setup) -> dict[str, float]:
        """Train on copies of all lengths."""
        config = small.resized(setup["model"], hidden_dim=setup["width"])
        return by_length(setup, config, partial(permutations, symbols=26), symbols=26)

    def contrasts(self, trials: Trials) -> Contrasts:
        """Attention leads over either at the longest."""
        items = self.size["tested"]
        others = ("plain", "peeky")
        return tuple(trials.lead(f"lead-{name}", "attention", name, "longest", items, bound=LEAD) for name in others)


TASKS = {"monotone": copies, "reversed": partial(small.reversals, symbols=8)}
READINGS = {"forward": "forward", "reversing": "backward"}


@register.claim("reversal")
class Reversal(ByLength):
    """Both models read both ways, on a task whose order is the source's and on one whose order is the opposite."""

    source = "Sutskever et al. 2014, section 3.3"
    seconds = (0, 330)
    points = ("plain-monotone", "attention-monotone", "attention-reversed", "by-task", "by-model")
    kinds = {
        f"{model}-{task}-{reading}": {"model": f"rnn-{model}", "task": task, "direction": READINGS[reading]}
        for model, task, reading in product(("plain", "attention"), ("monotone", "reversed"), ("forward", "reversing"))
    }
    rates = (6e-3, 1.2e-2, 2.4e-2)
    sizes = {"steps": 1000, "lengths": (4, 6, 8, 10, 12), "tested": 200, "batch": 64}
    shows = {reading: (f"plain-monotone-{reading}", "exact") for reading in READINGS}
    shows |= {f"attention_{reading}": (f"attention-monotone-{reading}", "exact") for reading in READINGS}
    columns = {"exact": share}

    def measure(self, setup: Setup) -> dict[str, float]:
        """Train on all lengths."""
        config = small.resized(setup["model"], {"encoder.direction": setup["direction"]}, hidden_dim=64)
        return by_length(setup, config, TASKS[setup["task"]], symbols=8)

    def contrasts(self, trials: Trials) -> Contrasts:
        """The gain on the monotone task; none with attention on either; and more than on the reversed task."""
        items = self.size["tested"] * len(self.size["lengths"])
        names = [f"{model}-{task}" for model, task in product(("plain", "attention"), TASKS)]
        on_monotone, on_reversed, with_attention, _ = (
            trials.differences(f"{name}-reversing", f"{name}-forward", "exact") for name in names
        )

        def gain(name: str, need: Need) -> Contrast:
            return trials.lead(name, f"{name}-reversing", f"{name}-forward", "exact", items, need)

        return (
            gain("plain-monotone", "above"),
            gain("attention-monotone", "within"),
            gain("attention-reversed", "within"),
            contrast("by-task", minus(on_monotone, on_reversed), "above", 0.0),
            contrast("by-model", minus(on_monotone, with_attention), "above", 0.0),
        )

    def blocks(self, trials: Trials) -> Blocks:
        """Exact match by length of the monotone task, and the mean over lengths of every arm."""
        chart, _ = super().blocks(Trials(trial for trial in trials.trials if "-monotone-" in trial.arm))
        return chart, self.means(trials)


STOPS = 5  # of a chain
VALUES = 2  # so few that one does not say which stop it was
COPIED = 4


def chains(rows: int, length: int, draws: torch.Generator) -> Batch:
    """Make sources of stops in any order, each a name, a value and the name of the stop that follows.

    The target is the values along the chain from the first name on. The values say nothing about the way, so where to
    look next stands only where the decoder looked last.

    Args:
        rows: of the batch.
        length: number of stops.
        draws: of the batch.
    """
    order = torch.rand(rows, length, generator=draws).argsort(dim=1)  # the chain; it begins at its first name
    order = torch.where(order == order[:, :1], 0, torch.where(order == 0, order[:, :1], order))
    following = torch.empty_like(order).scatter_(1, order, order.roll(-1, dims=1))
    values = torch.randint(0, VALUES, (rows, length), generator=draws)
    names = torch.arange(length).expand(rows, length)
    first = small.FIRST
    stops = torch.stack([first + VALUES + names, first + values, first + VALUES + STOPS + following], dim=2)
    places = torch.rand(rows, length, generator=draws).argsort(dim=1)
    source = stops.gather(1, places[:, :, None].expand(-1, -1, 3)).flatten(1)
    return small.batch_of(source, first + values.gather(1, order))


ROUTES: dict[str, Callable[[int, int, torch.Generator], Batch]] = {
    "copying": partial(small.copies, symbols=COPIED),  # so few that one does not say where it stands
    "chains": chains,
}


@register.claim("placement")
class Placement(Claim):
    """Luong's attention with input feeding and without, where the next place can be counted and where it cannot."""

    source = "Luong et al. 2015, sections 3.3 and 4; Tu et al. 2016 (coverage), section 1"
    seconds = (4, 60)
    points = tuple(ROUTES)
    kinds = {
        f"{name}-{route}": {"route": route, "width": width, "fed": name == "fed"}
        for route, (name, width) in product(("copying", "chains"), {"after": 48, "fed": 44}.items())
    }
    rates = (1e-2, 2e-2, 4e-2)
    learned = dict.fromkeys(kinds, ("first", 0.8))
    weaker = {"chains": ("chains",)}  # where the next place is known only from where the decoder looked
    sizes = {"steps": 250, "length": 6, "stops": STOPS, "tested": 300, "batch": 32}
    quick_sizes = {"steps": 120}
    shows = {arm.replace("-", "_"): (arm, "right") for arm in kinds}
    figure = "right"
    columns = {"first": share, "right": share}
    lines = {name: {k: f"{name}-{route}" for k, route in enumerate(ROUTES)} for name in ("after", "fed")}

    def measure(self, setup: Setup) -> dict[str, float]:
        """Train, and measure the share of right symbols behind the first one, the right ones before being given."""
        changes = {
            "decoder.input_feeding": setup["fed"],
            "encoder.direction": "both",
            "decoder.initial_state": "project",
        }
        width = setup["width"]
        changes |= {"encoder.hidden_dim": width // 2, "decoder.hidden_dim": width}
        config = small.resized("luong-general", changes, embed_dim=32)
        make = ROUTES[setup["route"]]
        length = setup["stops"] if setup["route"] == "chains" else setup["length"]
        symbols = VALUES + 2 * STOPS
        model = small.trained(setup, config, lambda draws: make(setup["batch"], length, draws), symbols=symbols)
        valid, test = small.validation_and_test(partial(make, setup["tested"], length), seed=setup.seed)
        hits = small.forced_hits(model, test)[:, :length].double()  # without the end
        return {
            "valid": small.loss_of(model, valid),
            "first": float(hits[:, 0].mean()),
            "right": float(hits[:, 1:].mean()),
        }

    def contrasts(self, trials: Trials) -> Contrasts:
        """Input feeding gains on both tasks."""
        items = self.size["tested"]
        return tuple(trials.lead(route, f"fed-{route}", f"after-{route}", "right", items) for route in ROUTES)
