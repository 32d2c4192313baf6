"""A claim on what causal stacks learn: to go on from a name as the sequence did before."""

from functools import partial

import torch
from torch import Tensor

from selfattn.claims import small
from selfattn.claims.claim import Blocks, Claim, Setup, share
from selfattn.claims.rules import Contrasts, Trials, contrast
from selfattn.data.batches import Batch
from selfattn.models.transformer_config import TransformerConfig
from selfattn.registry import register

FIXED = 2  # names whose value is always the same
FRESH = 6  # names whose value is drawn anew for each sequence
VALUES = 6
SYMBOLS = FIXED + FRESH + VALUES
FRESH_DRAWN = 3  # different fresh names in a sequence; each of them and of the fixed ones stands twice
PAIRS = 2 * (FIXED + FRESH_DRAWN)


def pairs(rows: int, draws: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Draw sequences of names, each followed by its value.

    A fixed name has the same value in all sequences, which can be learned by heart. A fresh name has a value of this
    sequence alone: where it stands for the second time, what followed it the first time has to be looked up.

    Returns:
        Tokens ``[b 2n]``, names and values in turn; for each pair ``[b n]`` the place of the earlier value of the same
        name, -1 where it stands for the first time; and whether its name is fixed.
    """
    fixed = torch.arange(FIXED).expand(rows, FIXED)
    fresh = FIXED + torch.rand(rows, FRESH, generator=draws).argsort(dim=1)[:, :FRESH_DRAWN]
    names = torch.cat([fixed, fresh], dim=1)
    drawn = torch.randint(0, VALUES, names.shape, generator=draws)
    values = torch.cat([fixed, drawn[:, FIXED:]], dim=1)  # a fixed name's value is its number
    order = torch.rand(rows, PAIRS, generator=draws).argsort(dim=1) % (FIXED + FRESH_DRAWN)
    names = names.gather(1, order)
    values = values.gather(1, order)
    same = names[:, :, None] == names[:, None, :]
    earlier = same & torch.ones(PAIRS, PAIRS, dtype=torch.bool).tril(-1)
    places = torch.where(earlier.any(dim=-1), 2 * earlier.long().argmax(dim=-1) + 1, -1)
    tokens = torch.stack([small.FIRST + names, small.FIRST + FIXED + FRESH + values], dim=2).flatten(1)
    return tokens, places, names < FIXED


def next_values(rows: int, draws: torch.Generator) -> Batch:
    """Make sequences that begin with a mark, in which every name that can be known is labelled by its value."""
    tokens, places, is_fixed = pairs(rows, draws)
    begin = torch.full((rows, 1), small.BOS)
    source = torch.cat([begin, tokens], dim=1)
    wanted = torch.cat([tokens, begin], dim=1)  # what comes next
    known = torch.stack([is_fixed | (places >= 0), torch.zeros_like(is_fixed)], dim=2).flatten(1)
    return small.labels(source, wanted, torch.cat([torch.zeros_like(begin, dtype=torch.bool), known], dim=1))


def causal(setup: Setup) -> small.Labeller:
    """Build a causal stack of the setting ``layers`` and of width ``dim``."""
    dim = setup["dim"]
    config = TransformerConfig(
        dim=dim, num_heads=4, num_layers=setup["layers"], ffn_dim=2 * dim, position=setup["position"]
    )
    return small.Labeller(config, setup.seed, symbols=SYMBOLS, causal=True)


@torch.inference_mode()
def shares(model: small.Labeller, batch: Batch, mask: Tensor | None = None) -> tuple[float, float]:
    """Return the shares of right values of fixed names, and of fresh names that stand for the second time.

    Args:
        model: in evaluation mode.
        batch: of :func:`next_values`.
        mask: which keys may be seen; default all.
    """
    hits = model.output(model.read(batch.source, mask=mask).x).argmax(dim=-1) == batch.target_out
    is_fixed = (batch.source >= small.FIRST) & (batch.source < small.FIRST + FIXED)
    fixed = hits[batch.target_mask & is_fixed]
    fresh = hits[batch.target_mask & ~is_fixed]
    return float(fixed.double().mean()), float(fresh.double().mean())


@torch.inference_mode()
def matching(model: small.Labeller, rows: int, draws: torch.Generator) -> float:
    """Return how much a head of the last layer attends, from a name, to what followed it before: of the best head."""
    tokens, places, is_fixed = pairs(rows, draws)
    source = torch.cat([torch.full((rows, 1), small.BOS), tokens], dim=1)
    weights = model.read(source, need_weights=True).self_weights[-1]  # [b h i j]
    at_names = weights[:, :, 1::2]  # [b h n j]
    repeated = (places >= 0) & ~is_fixed
    where = (1 + places.clamp(min=0))[:, None, :, None].expand(-1, weights.shape[1], -1, 1)
    attended = at_names.gather(-1, where)[..., 0]  # [b h n]
    return max(float(attended[:, head][repeated].mean()) for head in range(weights.shape[1]))


@register.claim("induction")
class Induction(Claim):
    """Causal stacks of one layer and of two, equally large: which can go on from a name as the sequence did before?"""

    source = "Olsson et al. 2022, argument 2 and section on mechanics; Elhage et al. 2021"
    seconds = (10, 80)
    points = ("lead", "matching")
    kinds = {
        "one": {"layers": 1, "dim": 48},  # as many weights as the other, to a tenth
        "two": {"layers": 2, "dim": 32},
    }
    rates = (1e-2,)
    learned = dict.fromkeys(kinds, ("fixed", 0.9))
    sizes = {"steps": 600, "rows": 32, "tested": 200, "position": "rotary"}
    shows = {"one": ("one", "fresh"), "two": ("two", "fresh"), "matching": ("two", "matching")}
    columns = {"fixed": share, "fresh": share, "matching": share}

    def measure(self, setup: Setup) -> dict[str, float]:
        """Train; measure both kinds of names, and how much the best head attends to what followed before."""
        model = causal(setup)
        small.train(setup, model, small.stream(partial(next_values, setup["rows"]), seed=setup.seed))
        valid, test = small.validation_and_test(partial(next_values, setup["tested"]), seed=setup.seed)
        fixed, fresh = shares(model, test)
        found = matching(model, setup["tested"], torch.Generator().manual_seed(setup.seed))
        return {"valid": small.loss_of(model, valid), "fixed": fixed, "fresh": fresh, "matching": found}

    def contrasts(self, trials: Trials) -> Contrasts:
        """Two layers lead over one, and a head of the second attends to what followed the name before."""
        return (
            trials.lead("lead", "two", "one", "fresh", self.size["tested"]),
            contrast("matching", trials.values("two", "matching"), "above", 0.5),
        )

    def blocks(self, trials: Trials) -> Blocks:
        """Right values of both kinds of names, by the number of layers."""
        arms = {1: "one", 2: "two"}
        lines = {figure: trials.spots_across(arms, figure) for figure in ("fixed", "fresh")}
        return self.chart("induction", lines, of="line"), self.means(trials)
