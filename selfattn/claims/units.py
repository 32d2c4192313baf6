"""Units: the smallest pieces of a claim's work, each a function of its settings, kept as a file when it is done."""

from __future__ import annotations

import ast
import hashlib
import inspect
import math
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from statistics import fmean

import torch

from selfattn.claims.claim import Arm, Claim
from selfattn.codec import Plain, encode, read, write
from selfattn.comparison.running.jobs import threads
from selfattn.errors import UserError
from selfattn.figures.claims import Rate, Trial
from selfattn.files import writing
from selfattn.streams import seed_for

TUNING_SEED = 900
_NO_MEASUREMENT = ("blocks", "contrasts", "conditions", "seconds", "points", "source", "words")


@dataclass(frozen=True)
class Done(Plain):
    """A unit that is done, as its file has it.

    Args:
        claim: whose it is.
        settings: of its arm.
        quick: whether it was measured for a quick run.
        code: see :func:`measuring_code`.
        trial: what was measured.
        ended: ISO 8601 date and time.
    """

    claim: str
    settings: Mapping[str, object]
    quick: bool
    code: str
    trial: Trial
    ended: str


@dataclass(frozen=True)
class Unit:
    """One trial of a claim that is to be made.

    Args:
        claim: whose it is.
        arm: what is measured.
        seed: of every random stream.
        rate: the learning rate; None where nothing is trained.
        quick: whether this is a quick run.
    """

    claim: Claim
    arm: Arm
    seed: int
    rate: float | None
    quick: bool

    @property
    def label(self) -> str:
        """What it is called, such as ``bottleneck/attention-seed0``; a tuning unit has its learning rate behind it."""
        tuning = f"-lr{self.rate:g}" if self.seed == TUNING_SEED else ""
        return f"{self.claim.name}/{self.arm.name}-seed{self.seed}{tuning}".replace(" ", "_")

    def file(self, out: Path) -> Path:
        """Return where it is kept."""
        return out / "units" / f"{self.label}{'-quick' if self.quick else ''}.json"

    def measured(self) -> Trial:
        """Measure it with one thread, an arm that takes times on one core, and leave the global random state as it was.

        Raises:
            UserError: the claim gives no figures, or one that is not a finite number.
        """
        begun = time.perf_counter()
        on_core: AbstractContextManager[bool | None] = pinned() if self.arm.alone else nullcontext()
        with threads(1), torch.random.fork_rng(devices=[]), on_core as is_pinned:
            torch.manual_seed(seed_for(self.seed, f"claims/{self.claim.name}"))
            figures = self.claim.measure(self.arm, seed=self.seed, rate=self.rate, quick=self.quick)
        seconds = time.perf_counter() - begun
        bad = [name for name, value in figures.items() if not math.isfinite(value)]
        if bad or not figures:
            raise UserError(f"measure gave {f'no finite number for {bad[0]!r}' if bad else 'no figures'}")
        figures = {name: float(value) for name, value in figures.items()}
        return Trial(self.arm.name, self.seed, self.rate, figures, seconds, is_pinned)

    def kept(self, out: Path) -> Done | None:
        """Return what is kept of it; None where there is nothing, or what other settings or other code have made."""
        path = self.file(out)
        if not path.is_file():
            return None
        try:
            done = read(Done, path, advice="delete it")
        except UserError:
            return None
        same = (
            done.claim == self.claim.name
            and done.code == measuring_code(type(self.claim))
            and done.settings == encode(dict(self.arm.settings))
            and (done.trial.arm, done.trial.seed, done.trial.rate) == (self.arm.name, self.seed, self.rate)
            and done.quick == self.quick
        )
        return done if same else None

    def keep(self, trial: Trial, out: Path) -> Done:
        """Keep what was measured."""
        ended = datetime.now().astimezone().isoformat(timespec="seconds")
        code = measuring_code(type(self.claim))
        done = Done(self.claim.name, dict(self.arm.settings), self.quick, code, trial, ended)
        path = self.file(out)
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            write(path, done)
        return done


class Work:
    """What is to be done for one claim: learning rates first, then every arm with every seed.

    Args:
        claim: of which.
        quick: two seeds, and of several learning rates the middle one, untuned.
    """

    def __init__(self, claim: Claim, quick: bool) -> None:
        self.claim, self.quick = claim, quick
        self.arms = claim.arms(quick)
        self.seeds = tuple(range(min(2, claim.seeds) if quick else claim.seeds))
        self.done: dict[str, Done] = {}
        self.failed: dict[str, str] = {}

    def rates(self, arm: Arm) -> tuple[float, ...]:
        """Return the learning rates that are tried for an arm; one alone needs no trial."""
        return (arm.rates[len(arm.rates) // 2],) if self.quick and arm.rates else arm.rates

    def tuning(self, arm: Arm) -> list[Unit]:
        """Return the units that choose an arm's learning rate."""
        rates = self.rates(arm)
        return [Unit(self.claim, arm, TUNING_SEED, rate, self.quick) for rate in rates] if len(rates) > 1 else []

    def has(self, unit: Unit) -> bool:
        """Whether a unit was tried, with whatever end."""
        return unit.label in self.done or unit.label in self.failed

    def rate(self, arm: Arm) -> Rate | None:
        """Return the learning rate of an arm, the one whose ``valid`` is lowest; None where every rate failed."""
        rates = self.rates(arm)
        if len(rates) < 2:
            return Rate(arm.name, rates[0], rates) if rates else None
        tried = [self.done[unit.label].trial for unit in self.tuning(arm) if unit.label in self.done]
        if not tried:
            return None
        best = min(tried, key=lambda trial: trial.figures["valid"])
        assert best.rate is not None
        return Rate(arm.name, best.rate, rates, best.rate in (min(rates), max(rates)))

    def confirming(self, arm: Arm) -> list[Unit]:
        """Return the units of an arm with the fresh seeds; none before its learning rate is chosen."""
        if not all(map(self.has, self.tuning(arm))):
            return []
        rate = self.rate(arm)
        if rate is None and arm.rates:
            return []
        value = None if rate is None else rate.chosen
        return [Unit(self.claim, arm, seed, value, self.quick) for seed in self.seeds]

    def units(self) -> Iterator[Unit]:
        """Go through the units that can be done by now, done or not: those that choose learning rates first."""
        for arm in self.arms:
            yield from self.tuning(arm)
        for arm in self.arms:
            yield from self.confirming(arm)

    @property
    def total(self) -> int:
        """How many units there are in all."""
        return sum(len(self.tuning(arm)) + len(self.seeds) for arm in self.arms)

    @property
    def is_over(self) -> bool:
        """Whether nothing is left that can be done."""
        return all(map(self.has, self.units()))

    def trials(self, *, tuning: bool = False) -> tuple[Trial, ...]:
        """Return what was measured, arm by arm and seed by seed."""
        units = [unit for arm in self.arms for unit in (self.tuning(arm) if tuning else self.confirming(arm))]
        return tuple(self.done[unit.label].trial for unit in units if unit.label in self.done)

    @property
    def expected(self) -> float:
        """Seconds that one more unit takes: the mean of those that are done, else what the claim's budget says."""
        seconds = [done.trial.seconds for done in self.done.values()]
        return fmean(seconds) if seconds else 2 * self.claim.seconds[0 if self.quick else 1] / max(1, self.total)


@contextmanager
def pinned() -> Iterator[bool]:
    """Keep this thread on one core for a while, where the system can; gives whether it does.

    Example:
        >>> with pinned() as is_pinned:
        ...     isinstance(is_pinned, bool)
        True
    """
    before: set[int] = set()
    with suppress(AttributeError, OSError):  # no such call, or not allowed
        cores = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {max(cores)})
        before = cores
    try:
        yield bool(before)
    finally:
        if before:
            os.sched_setaffinity(0, before)


def code_of(claim: type[Claim]) -> str:
    """Return the SHA-256 of the file that a claim stands in; of nothing where it was typed in."""
    return hashlib.sha256(_source(claim).encode()).hexdigest()


@cache
def measuring_code(claim: type[Claim]) -> str:
    """Return a hash of what a claim's measurements come from: its file but for rules, pictures and comments.

    A better picture then does not throw away what was measured.
    """
    tree = ast.parse(_source(claim))
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.Module):
            kept = [
                one for one in node.body if not (isinstance(node, ast.ClassDef) and _names(one) & {*_NO_MEASUREMENT})
            ]
            if kept and isinstance(kept[0], ast.Expr) and isinstance(kept[0].value, ast.Constant):
                kept = kept[1:]  # the docstring
            node.body = kept or [ast.Pass()]
    return hashlib.sha256(ast.unparse(tree).encode()).hexdigest()


def _names(statement: ast.stmt) -> set[str]:
    """What a statement of a class gives a name to."""
    if isinstance(statement, ast.FunctionDef):
        return {statement.name}
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return {one.id for target in targets for one in ast.walk(target) if isinstance(one, ast.Name)}


def _source(claim: type[Claim]) -> str:
    try:
        return Path(inspect.getfile(claim)).read_text(encoding="utf-8")
    except (OSError, TypeError):
        return ""
