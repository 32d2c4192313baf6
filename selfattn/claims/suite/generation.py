"""Claims on writing one token after the other: the future mask, and what a model reads in training."""

from functools import partial
from statistics import linear_regression
from typing import Any

import torch

from selfattn.claims import small
from selfattn.claims.claim import Blocks, Claim, Setup, number, percent
from selfattn.claims.rules import MARGIN, Contrasts, Trials, contrast, exact, minus
from selfattn.data.batches import Batch
from selfattn.decoding.beam import beam_search
from selfattn.decoding.greedy import sample
from selfattn.evaluation.gates.model_gates import causal
from selfattn.models.build import build
from selfattn.registry import register
from selfattn.streams import generator

LENGTH = 12


def transformer(setup: Setup, symbols: int) -> Any:
    """Build a small Transformer."""
    config = small.resized("transformer", dim=setup["dim"], ffn_dim=2 * setup["dim"])
    return build(config, vocab_size=small.vocabulary(symbols), seed=setup.seed)


SYMBOLS, NOISE = 16, 0.2


def noisy_copies(rows: int, generator: torch.Generator) -> Batch:
    """Make sources whose target is the source with every fifth symbol, at random, drawn anew: nobody can foresee it."""
    source, other = (small.random_symbols(rows, LENGTH, symbols=SYMBOLS, generator=generator) for _ in range(2))
    return small.batch_of(source, torch.where(torch.rand(source.shape, generator=generator) < NOISE, other, source))


@register.claim("future-mask")
class FutureMask(Claim):
    """The same Transformer trained with the decoder's mask and without it."""

    source = "Vaswani et al. 2017, section 3.2.3"
    seconds = (8, 90)
    points = ("forced", "free")
    kinds = {"mask-on": {"mask": True}, "mask-off": {"mask": False}}
    rates = (1e-2, 3e-2, 9e-2)
    sizes = {"steps": 400, "rows": 64, "tested": 1000, "dim": 32}
    quick_sizes = {"steps": 200, "tested": 200}
    shows = {"free": ("mask-off", "free"), "forced": ("mask-off", "forced"), "masked": ("mask-on", "free")}
    columns = {"loss": number, "forced": percent, "free": percent}

    def measure(self, setup: Setup) -> dict[str, float]:
        """Train with the right tokens before each; test so, and by greedy decoding; ask the causal gate."""
        tested, seed, model = setup["tested"], setup.seed, transformer(setup, SYMBOLS)
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
            **{f"{k}@{at + 1}": float(h[:, at].double().mean()) for k, h in hits.items() for at in range(LENGTH)},
        }

    def contrasts(self, trials: Trials) -> Contrasts:
        """Teacher-forced better without the mask, free-running worse, and the gate tells the two apart every time."""
        off_on, items = ("mask-off", "mask-on"), self.size["tested"] * (LENGTH + 1)
        wrong = [*trials.values("mask-on", "leaks"), *(1 - fired for fired in trials.values("mask-off", "leaks"))]
        return (
            trials.lead("forced", *off_on, "forced", items),
            trials.lead("free", *off_on, "free", items, "below", -MARGIN),
            exact("gate", max(wrong), 0.5),
        )

    def blocks(self, trials: Trials) -> Blocks:
        """Accuracy by position, and in a table with the loss."""
        lines = {f"{arm}.{kind}": trials.spots(arm, kind) for arm in trials.arms for kind in ("forced", "free")}
        return self.chart("future-mask", lines, of="line"), self.table("figures", self.columns, self.rows(trials))


def _unmasked(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Call self-attention without its mask."""
    return args, kwargs | {"mask": None, "causal": False}  # targets of one length: there is no padding to hide


PLACES, ERROR = 16, 2
WRONG = (0, 1, 2, 4)  # tokens of the prefix that are replaced


def walks(rows: int, draws: torch.Generator) -> Batch:
    """Make walks on a ring, each step -1, 0 or 1; the source is the places as read, up to two away from the truth."""
    start = torch.randint(0, PLACES, (rows, 1), generator=draws)
    places = start + torch.randint(-1, 2, (rows, LENGTH), generator=draws).cumsum(dim=1)
    readings = places + torch.randint(-ERROR, ERROR + 1, (rows, LENGTH), generator=draws)
    return small.batch_of(small.FIRST + readings % PLACES, small.FIRST + places % PLACES)


def with_errors(batch: Batch, count: int, draws: torch.Generator) -> torch.Tensor:
    """Return what the decoder reads with some tokens of each row, never the first, replaced by others."""
    given = batch.target_in
    where = torch.rand(len(given), LENGTH, generator=draws).argsort(dim=1)[:, :count] + 1
    shift = torch.randint(1, PLACES, where.shape, generator=draws)
    return given.scatter(1, where, small.FIRST + (given.gather(1, where) - small.FIRST + shift) % PLACES)


@register.claim("exposure")
class Exposure(Claim):
    """The same Transformer trained on right tokens, on its own now and then, and on its own alone."""

    source = "Bengio et al. 2015; Ranzato et al. 2016, section 1"
    seconds = (14, 200)
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
    figure, columns = "forced", dict.fromkeys(("forced@0", "greedy", "sampled", "beam"), percent)

    def measure(self, setup: Setup) -> dict[str, float]:
        """Train; test with right tokens before each, with wrong ones among them, and on the model's own."""
        (start, last), seed, model = setup["forcing"], setup.seed, transformer(setup, PLACES)
        batches = small.stream(partial(walks, setup["rows"]), seed=seed)
        small.train(setup, model, batches, teacher_forcing=start, teacher_forcing_end=last)
        valid, test = small.validation_and_test(partial(walks, setup["tested"]), seed=seed)
        ends: dict[str, Any] = {"bos_id": small.BOS, "eos_id": small.EOS, "max_length": LENGTH + 1}
        drawn = sample(model, test.source, test.source_mask, **ends, generator=generator(seed, "claims/sampling"))
        best = [first for first, *_ in beam_search(model, test.source, test.source_mask, **ends, beam_size=4)]
        hits = {"sampled": small.written_hits(drawn, test), "beam": small.written_hits(best, test)}
        hits["greedy"] = small.greedy_hits(model, test)
        for count in WRONG:
            given = with_errors(test, count, generator(seed, f"claims/errors/{count}"))
            hits[f"forced@{count}"] = small.forced_hits(model, test, given)
        wrong = 1 - _share(small.greedy_hits(model, valid))
        return {"valid": wrong} | {name: _share(hit) for name, hit in hits.items()}

    def contrasts(self, trials: Trials) -> Contrasts:
        """The gap, how it grows with wrong tokens, by how much scheduled sampling is nearer, and what it writes."""
        ours, other = "teacher-forcing", "scheduled-sampling"
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
