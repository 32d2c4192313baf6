"""What a comparison is asked for and is going to do, written down before it begins, so that it can go on where it was
stopped. Imports no torch.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from annotated_types import Ge, Gt, Le, MinLen

from selfattn.codec import Plain, decode, encode, read_json, refuse_newer, short, write
from selfattn.errors import SettingError, UserError, option
from selfattn.figures.gates import Floor
from selfattn.figures.protocol import Seal
from selfattn.figures.quality import Headline
from selfattn.figures.record import UNMATCHED, Matching, TuningTrial
from selfattn.files import writing
from selfattn.models.config import ModelConfig, config_from_dict, config_to_dict
from selfattn.models.presets import PRESETS, get_preset
from selfattn.registry import TASKS, check_plugins, is_name, loaded_plugins
from selfattn.report.words.catalogue import LANGS, SOURCE
from selfattn.runs.task import Budget, Task
from selfattn.runs.train import with_settings
from selfattn.settings import check
from selfattn.training.config import MOST_THREADS, DeviceName, TrainingConfig
from selfattn.training.distributed.launch import asked_threads

if TYPE_CHECKING:
    Lang = str
else:
    Lang = Literal[LANGS]

Backend = Literal["local", "dask", "ray"]
BudgetIn = Literal["steps", "examples"]
NOT_THE_RESULT = ("resume", "jobs", "backend", "address", "plan_only")  # settings that decide nothing of what comes out
SEEDS = 3  # of a comparison that is to say something; one is enough to try things out
MOST_SEEDS = 10_000

PLAN = "comparison.json"
SCHEMA = 1
_ADVICE = "choose another --out and compare again"


@dataclass(frozen=True, kw_only=True)
class CompareOptions:
    """Settings of every comparison, besides those of the task and of how models are trained.

    Attributes:
        models: which models, separated by commas; `all` for every one that `selfattn models` lists.
        seeds: how many times each is trained, with the seeds 0, 1, ...; 3, or 1 with --quick.
        quick: small trainings, to try things out.
        out: where report, results and runs are kept; must not hold anything yet.
        resume: go on with the comparison that --out holds; what is finished is not run again.
        lang: language in which the report opens, and of the summary in the terminal.
        test_items: unseen pairs that every model is tested on; of a file, at most its test part.
        set: a setting of the models as name=value, or of one of them as model:name=value; may be given several times.
        few: train also on so few pairs, with the first seed, and report it: numbers separated by commas.
        first_seed: the seeds are this one and those after it: fresh ones for what a pilot has suggested.
        budgets: shares of the training, such as 0.125,0.25,0.5,1: each with all models and seeds, in a training of its
            own whose whole schedule it has; the report says for which of them which model is better.
        budget_in: what they are shares of: the steps, on the same pairs, or the different pairs, in as many steps.
        pilot: this comparison explores: its report says so, and its runs are never put together with others.
        match: give the models widths with which they have the same of it: parameters (outside embeddings), body
            (without any axis over the vocabulary: an output matrix of its own left out, too), training FLOPs for each
            target token, or wall seconds of a training step, measured here.
        budget: how much of it; where not given, the median of what the models have as they are.
        match_limit: models further apart than this share are refused.
        apart: compare models of different size all the same; the report says so.
        tune: try so many settings for each model first (learning rate, warm-up, dropout, label smoothing), the same
            for all, and take the best on validation.
        metric: the metric that decides, by name; where not given, the first of the task.
        jobs: trainings side by side; where not given, one for each core, or for each GPU.
        backend: where they are done: processes of this machine, or the workers of a Dask or Ray cluster, which have to
            see --out under the same path.
        address: of the cluster, such as tcp://10.0.0.1:8786 for Dask or 10.0.0.1:6379 for Ray.
        threads: threads of each; where not given, as OMP_NUM_THREADS says, or 1.
        device: where to compute; auto takes a GPU where there is one.
        plan_only: say what there is to train, about how long it takes and how much disk; train nothing.
    """

    repeated: ClassVar[tuple[str, ...]] = ("set",)
    groups: ClassVar[Mapping[str, Sequence[str]]] = {
        "Fairness": ("match", "budget", "match_limit", "apart", "tune"),
        "Budgets": ("budgets", "budget_in", "first_seed", "pilot"),
        "Side by side": ("jobs", "backend", "address", "threads", "device"),
    }

    models: tuple[str, ...]
    seeds: int | None = None
    quick: bool = False
    out: Path
    resume: bool = False
    lang: Lang = SOURCE
    test_items: int | None = None
    set: tuple[str, ...] = ()
    few: tuple[int, ...] = ()
    first_seed: int = 0
    budgets: tuple[float, ...] = (1.0,)
    budget_in: BudgetIn = "steps"
    pilot: bool = False
    metric: str | None = None
    match: Budget | None = None
    budget: float | None = None
    match_limit: float = 0.02
    apart: bool = False
    tune: int = 0
    jobs: int | None = None
    backend: Backend = "local"
    address: str | None = None
    threads: int | None = None
    device: DeviceName = "auto"
    plan_only: bool = False

    @property
    def seed_count(self) -> int:
        """How many seeds there are."""
        return self.seeds if self.seeds is not None else 1 if self.quick else SEEDS

    @property
    def thread_count(self) -> int:
        """How many threads each training has: models this small gain nothing from a second."""
        return self.threads or asked_threads() or 1

    def __post_init__(self) -> None:
        check(self, "seeds test_items jobs threads", int, lambda x: x >= 1, "a whole number of at least 1")
        check(self, "tune first_seed", int, lambda x: x >= 0, "a whole number of at least 0")
        check(self, "seeds", int, lambda x: x <= MOST_SEEDS - self.first_seed, f"seeds below {MOST_SEEDS}")
        check(self, "threads", int, lambda x: x <= MOST_THREADS, f"at most {MOST_THREADS}")
        check(self, "match_limit", float, lambda x: 0 < x < 1, "a share between 0 and 1")
        if self.budget is not None and self.match is None:
            raise SettingError("`budget`: says how much of what? Give `match` parameters, flops or seconds as well")
        check(self, "budget", float, lambda x: x > 0, "a number above 0")
        if self.address is not None and self.backend == "local":
            raise SettingError("`address`: of what? Give `backend` dask or ray as well")
        if self.backend == "dask" and self.address is None:
            raise SettingError("`backend` dask: give the `address` of its scheduler, such as tcp://10.0.0.1:8786")
        if min(self.few, default=1) < 1:
            raise SettingError(f"`few` {min(self.few)}: expected whole numbers of at least 1, separated by commas")
        for share in self.budgets or (0.0,):
            if not 0 < share <= 1 or self.budgets.count(share) > 1:
                raise SettingError(f"`budgets` {share:g}: expected shares above 0 and up to 1, each once")


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
        few: on so many different pairs only, again and again; default all there are.
        share: of the recipe's steps, with a whole schedule over them; default all.
    """

    few: int | None = None
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
        few: further trainings on so few pairs.
        first_seed: the seeds are this one and those after it.
        budgets: shares of the training.
        budget_in: what they are shares of.
        steps: of the whole training; 0 where that is not known before it begins.
        examples: different pairs that it sees; 0 where nobody has to know.
        pilot: whether it explores.
        primary: the two models that the comparison is about; None where it is about all.
        seal: what was fixed before training; None in a plan of before there was one.
        headline: what the verdict is about.
        matching: what the models were sized for.
        space: what tuning searches, setting by setting; empty where nothing is tuned.
        floor: what others reached, where the user has said so.
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
    few: tuple[Annotated[int, Ge(1)], ...]
    first_seed: Annotated[int, Ge(0)] = 0
    budgets: Annotated[tuple[Annotated[float, Gt(0), Le(1)], ...], MinLen(1)] = (1.0,)
    budget_in: BudgetIn = "steps"
    steps: int = 0
    examples: int = 0
    pilot: bool = False
    primary: tuple[str, str] | None = None
    seal: Seal | None = None
    headline: Headline = field(default_factory=Headline)
    matching: Matching = UNMATCHED
    space: Mapping[str, str] = field(default_factory=dict)
    floor: Floor | None = None
    declared: tuple[str, ...] = ()
    tuned: bool = True
    threads: Annotated[int, Ge(1)] = 1
    plugins: tuple[str, ...] = field(default_factory=loaded_plugins)

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

    def runs(self) -> list[tuple[str, int, Variant]]:
        """List every run: model, seed, and how much it is trained; seed after seed."""
        few = product([self.first_seed], map(Variant, self.few))
        which = [*product(self.seed_numbers, self.variants.values()), *few]
        return [(name, seed, variant) for seed, variant in dict.fromkeys(which) for name in self.models]

    def save(self, out: Path) -> Plan:
        """Write the plan, and return it."""
        with writing(out):
            out.mkdir(parents=True, exist_ok=True)
            write(out / PLAN, {"schema": SCHEMA} | encode(self), checksum=True)
        return self


def read_plan(out: Path) -> Plan:
    """Read the plan of a comparison.

    Raises:
        UserError: there is none, it is broken, or a plugin is missing that it needs.
    """
    path = out / PLAN
    data = read_json(path, advice=_ADVICE)
    refuse_newer(data, SCHEMA, file=path)
    if not isinstance(data, dict) or data.pop("schema", None) != SCHEMA:
        raise UserError(f"{path}: not the plan of a comparison that this version can read; {_ADVICE}")
    check_plugins(decode(tuple[str, ...], data.get("plugins", []), file=path, advice=_ADVICE), str(path))
    plan = decode(Plan, {"plugins": []} | data, file=path, advice=_ADVICE)
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
    plan = read_plan(out)
    if _what_it_decides(plan.command, plan.task) != _what_it_decides(command, plan.task):
        raise SettingError(
            f"{out}: holds another comparison, made by: {plan.command}; give the same settings to go on "
            "with it, or choose another `out`"
        )
    return plan if plan.command == command else replace(plan, command=command).save(out)


def _what_it_decides(command: str, task: str) -> list[list[str]]:
    """The options of a command as they are called now, with their values, in any order, without the language."""
    try:
        words = shlex.split(command)
    except ValueError:  # nothing that this program has written
        return [[command]]
    renamed = getattr(TASKS[task].Options, "renamed", {})
    now_called = {option(old): option(new) for old, new in renamed.items()}
    options: list[list[str]] = [[]]
    for word in words:
        if word.startswith("--"):
            options.append([])
        options[-1].append(now_called.get(word, word))
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
    few = "" if variant.few is None else f"-first{variant.few}"
    return f"runs/{name}-seed{seed}{few}" + ("" if variant.share == 1 else f"-budget{variant.share!r}")


def choose(task: Task, options: CompareOptions) -> dict[str, Planned]:
    """Look the models up and apply what is set, before any work is done.

    A model is named as a preset, or as ``name=preset`` to give a preset another name.

    Args:
        task: gives presets the size that it asks for, before what is set.
        options: of the comparison.

    Raises:
        UserError: a model is unknown or named twice, or a setting is not one of a model.
    """
    named = [_named(text) for text in (PRESETS if options.models == ("all",) else options.models)]
    if not named:
        raise SettingError("`models`: no model given; name at least one, or all")
    names = [name for name, _ in named]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise SettingError(f"`models`: {', '.join(twice)} is named twice; name each model once, or one as name=model")
    for setting in options.set:
        owner, colon, _ = setting.partition("=")[0].partition(":")
        if colon and owner not in names:
            raise SettingError(f"`set` {setting}: {owner!r} is not a model of this comparison: {', '.join(names)}")
    found = {}
    for name, preset in named:
        config = with_settings(task.size(get_preset(preset).config), options.set, name)
        task.check_model(config, preset)
        found[name] = Planned(preset, config_to_dict(config))
    return found


def primary_pair(task: Task, names: Sequence[str]) -> tuple[str, str] | None:
    """Return the two models that a comparison is about: those that the task asks about, or the only two."""
    asked = task.subject().pair
    if asked and set(asked) <= set(names):
        return asked
    return (names[0], names[1]) if len(names) == 2 else None


def _named(text: str) -> tuple[str, str]:
    name, equals, preset = text.partition("=")
    if not equals:
        return text, text
    if not is_name(name) or not name.isascii() or " " in name:
        raise SettingError(f"`models` {text}: expected name=model, the name of at most 100 letters, digits, - and _")
    return name, preset
