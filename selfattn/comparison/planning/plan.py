"""What a comparison is going to do, written down before it begins, so that it can go on where it was
stopped. Imports no torch.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Ge, Gt, Le, MinLen

from selfattn.codec import Plain, decode, encode, read_json, refuse_newer, short, write
from selfattn.comparison.planning.options import MOST_SEEDS, BudgetIn
from selfattn.errors import SettingError, UserError
from selfattn.files import writing
from selfattn.models.config import ModelConfig, config_from_dict, config_to_dict
from selfattn.registry import check_plugins, is_name
from selfattn.results.gates import Baseline
from selfattn.results.protocol import Seal
from selfattn.results.quality import Headline
from selfattn.results.record import UNMATCHED, Matching, TuningTrial
from selfattn.training.config import TrainingConfig

PLAN = "comparison.json"
SCHEMA = 1
_ADVICE = "choose another --out and compare again"


@dataclass(frozen=True)
class Planned(Plain):
    """One model of a comparison.

    Attributes:
        preset: the named model that its settings began from.
        config: what it is made of, as plain values.
        training: settings of the training that are its own, after tuning.
        trials: of its tuning.
    """

    preset: str
    config: Mapping[str, object]
    training: Mapping[str, Any] = field(default_factory=dict)
    trials: tuple[TuningTrial, ...] = ()

    @property
    def model(self) -> ModelConfig:
        """What it is made of."""
        found: ModelConfig = config_from_dict(dict(self.config), PLAN)
        return found

    def resized(self, config: ModelConfig) -> Planned:
        """Return the same with another configuration."""
        return replace(self, config=config_to_dict(config))


@dataclass(frozen=True)
class Variant:
    """How much a run is trained.

    Attributes:
        pairs: the number of different pairs; default all.
        share: of the recipe's steps, with a whole schedule over them; default all.
    """

    pairs: int | None = None
    share: float = 1.0

    def applied_to(self, recipe: TrainingConfig, steps: int) -> TrainingConfig:
        """Return how a run is trained: the share of all steps, and of what is a number of steps or of validations.

        Example:
            >>> Variant(share=0.25).applied_to(TrainingConfig(warmup_steps=100), 2000).max_steps
            500
        """
        if self.share == 1:
            return recipe
        warmup = None if recipe.warmup_steps is None else round(self.share * recipe.warmup_steps)
        last = max(1, round(self.share * recipe.average_last)) if recipe.average == "last" else recipe.average_last
        return replace(recipe, max_steps=max(1, round(self.share * steps)), warmup_steps=warmup, average_last=last)


WHOLE = Variant()


@dataclass(frozen=True)
class Plan(Plain):
    """A comparison.

    Attributes:
        task: its name.
        command: makes the same again.
        quick: whether the trainings are small ones.
        seeds: how many.
        models: by name, in their order.
        first_seed: the seeds are this one and those after it.
        test_draw: which draw of the test pairs.
        budgets: shares of the training.
        budget_in: what they are shares of.
        steps: of the whole training; 0 where that is not known before it begins.
        examples: different pairs that it sees; 0 where nobody has to know.
        pilot: whether it explores.
        primary: the two models that the comparison is about; None where it is about all.
        margin: the smallest difference worth having, in points; None where none was stated.
        seal: what was fixed before training; None in a plan of before there was one.
        headline: what the verdict is about.
        matching: what the models were sized for.
        space: what tuning searches, setting by setting; empty where nothing is tuned.
        baseline: what others reached, where the user has said so.
        declared: settings of the training in which runs differ on purpose; the report says so.
        tuned: whether the trials are done.
        threads: of each training, on which the bits of its weights may depend.
        plugins: that brought parts of it.
    """

    task: str
    command: str
    quick: bool
    seeds: Annotated[int, Ge(1), Le(MOST_SEEDS)]
    models: Annotated[Mapping[str, Planned], MinLen(1)]
    first_seed: Annotated[int, Ge(0)] = 0
    test_draw: Annotated[int, Ge(0)] = 0
    budgets: Annotated[tuple[Annotated[float, Gt(0), Le(1)], ...], MinLen(1)] = (1.0,)
    budget_in: BudgetIn = "steps"
    steps: int = 0
    examples: int = 0
    pilot: bool = False
    primary: tuple[str, str] | None = None
    margin: Annotated[float, Gt(0)] | None = None
    seal: Seal | None = None
    headline: Headline = field(default_factory=Headline)
    matching: Matching = UNMATCHED
    space: Mapping[str, str] = field(default_factory=dict)
    baseline: Baseline | None = None
    declared: tuple[str, ...] = ()
    tuned: bool = True
    threads: Annotated[int, Ge(1)] = 1
    plugins: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in self.models:
            if not is_name(name):  # runs lie in directories that are named after it
                raise SettingError(
                    f"the name of a model is made of at most 100 letters, digits, - and _, found {short(name)}"
                )

    @property
    def seed_numbers(self) -> range:
        """All seeds."""
        return range(self.first_seed, self.first_seed + self.seeds)

    @property
    def variants(self) -> dict[float, Variant]:
        """What is trained for each budget, the largest first: the figures of the report are about that one."""
        shares = sorted(self.budgets, reverse=True)
        if self.budget_in == "steps":
            return {share: Variant(share=share) for share in shares}
        return {share: WHOLE if share == 1 else Variant(max(1, round(share * self.examples))) for share in shares}

    @property
    def main(self) -> Variant:
        """What is trained for the largest budget."""
        return self.variants[max(self.budgets)]

    def planned(self, name: str, variant: Variant) -> Planned:
        """Return a model with the settings of a budget: a smaller one has the learning rate of its own chosen trial.

        Args:
            name: of the model.
            variant: how much it is trained.
        """
        model, budgets = self.models[name], {own: share for share, own in self.variants.items()}
        for trial in model.trials:
            if trial.chosen and trial.budget and trial.budget == budgets.get(variant):
                return replace(model, training=dict(model.training) | dict(trial.settings))
        return model

    def runs(self) -> list[tuple[str, int, Variant]]:
        """List every run: model, seed, and how much it is trained; seed after seed."""
        which = product(self.seed_numbers, self.variants.values())
        return [(name, seed, variant) for seed, variant in which for name in self.models]

    def save(self, out: Path) -> Plan:
        """Write the plan, and return it."""
        with writing(out):
            out.mkdir(parents=True, exist_ok=True)
            write(out / PLAN, {"schema": SCHEMA} | encode(self), checksum=True)
        return self


def read_plan(out: Path, *, exact: bool = False) -> Plan:
    """Read the plan of a comparison.

    Args:
        out: its directory.
        exact: refuse plugins that have changed; default: say so on standard error.

    Raises:
        UserError: there is none, it is broken, or a plugin is missing that it needs.
    """
    path = out / PLAN
    data = read_json(path, advice=_ADVICE)
    refuse_newer(data, SCHEMA, file=path)
    if not isinstance(data, dict) or data.pop("schema", None) != SCHEMA:
        raise UserError(f"{path}: not the plan of a comparison that this version can read; {_ADVICE}")
    plugins = decode(dict[str, str], data.get("plugins", {}), file=path, advice=_ADVICE)
    check_plugins(plugins, str(path), exact=exact)
    plan = decode(Plan, data, file=path, advice=_ADVICE)
    for model in plan.models.values():
        config_from_dict(dict(model.config), str(path))
    return plan


def read_to_resume(out: Path, command: str) -> Plan:
    """Read the plan of a comparison that was stopped, to go on with it: by whoever holds its directory.

    Args:
        out: its directory.
        command: what is asked for now; must be what the comparison was begun with, but for the language.

    Raises:
        UserError: there is another comparison, or its plan is missing or broken.
    """
    plan = read_plan(out, exact=True)
    if _what_it_decides(plan.command) != _what_it_decides(command):
        raise SettingError(
            f"{out}: holds another comparison, made by: {plan.command}; give the same settings to go on "
            "with it, or choose another `out`"
        )
    return plan if plan.command == command else replace(plan, command=command).save(out)


def _what_it_decides(command: str) -> list[list[str]]:
    """The options of a command with their values, in any order, without the language."""
    try:
        words = shlex.split(command)
    except ValueError:  # nothing that this program has written
        return [[command]]
    options: list[list[str]] = [[]]
    for word in words:
        if word.startswith("--"):
            options.append([])
        options[-1].append(word)
    plugins = [words for one in options if one[:1] == ["--plugin"] for words in one[2:]]
    return [options[0] + plugins, *sorted(one for one in options[1:] if one[0] not in ("--lang", "--plugin"))]


def run_name(name: str, seed: int, variant: Variant = WHOLE) -> str:
    """Return the directory of a run, seen from the comparison.

    Example:
        >>> run_name("transformer", 0), run_name("transformer", 0, Variant(300))
        ('runs/transformer-seed0', 'runs/transformer-seed0-first300')
        >>> run_name("transformer", 1, Variant(share=0.25))
        'runs/transformer-seed1-budget0.25'
    """
    first = "" if variant.pairs is None else f"-first{variant.pairs}"
    return f"runs/{name}-seed{seed}{first}" + ("" if variant.share == 1 else f"-budget{variant.share!r}")
