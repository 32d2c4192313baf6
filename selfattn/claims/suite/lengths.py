"""Claims on sources of many lengths: the bottleneck, attention against it, a reversed source, where attention sits."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise, product
from statistics import fmean

import torch

from selfattn.claims import small
from selfattn.claims.claim import Blocks, Claim, Setup, number, share
from selfattn.claims.rules import Contrasts, Trials, contrast, control, minus
from selfattn.data.batches import Batch
from selfattn.models.config import ModelConfig
from selfattn.registry import register
from selfattn.results.claims import Contrast, Need

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
        most, on_reversed, with_attention, _ = (
            trials.differences(f"{name}-reversing", f"{name}-forward", "exact") for name in names
        )

        def gain(name: str, need: Need) -> Contrast:
            return trials.lead(name, f"{name}-reversing", f"{name}-forward", "exact", items, need)

        return (
            gain("plain-monotone", "above"),
            gain("attention-monotone", "within"),
            gain("attention-reversed", "within"),
            contrast("by-task", minus(most, on_reversed), "above", 0.0),
            contrast("by-model", minus(most, with_attention), "above", 0.0),
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
        return tuple(self.gain(trials, route) for route in ROUTES)

    def conditions(self, trials: Trials) -> dict[str, Contrasts]:
        """Where the next place is known only from where the decoder looked."""
        return {"chains": (self.gain(trials, "chains"),)}

    def gain(self, trials: Trials, route: str) -> Contrast:
        """Hold input feeding against attention alone on a task."""
        return trials.lead(route, f"fed-{route}", f"after-{route}", "right", self.size["tested"])
