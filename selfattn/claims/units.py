"""Units: the smallest pieces of a claim's work, each a function of its settings, kept as a file when it is done."""

from __future__ import annotations

import ast
import hashlib
import inspect
import math
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from statistics import fmean

import torch

from selfattn.claims.claim import Arm, Claim
from selfattn.codec import Plain, encode, read, write
from selfattn.errors import UserError
from selfattn.files import writing
from selfattn.results.claims import Rate, Trial
from selfattn.streams import seed_for
from selfattn.training.device import use_threads

TUNING_SEED = 900
_WIDER = 4  # rates that are tried beyond the edges of an arm's grid, at most
_NO_MEASUREMENT = ("blocks", "contrasts", "conditions", "seconds", "points", "source", "words")
_NO_MEASURE = ("selfattn.report.", *(f"selfattn.claims.{name}." for name in ("claim", "rules", "drawing")))
_PACKAGE = Path(__file__).parents[1]


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
        with use_threads(1), torch.random.fork_rng(devices=[]), on_core as is_pinned:
            torch.manual_seed(seed_for(self.seed, f"claims/{self.claim.name}"))
            figures = self.claim.measure(self.arm, seed=self.seed, rate=self.rate, quick=self.quick)
        seconds = time.perf_counter() - begun
        bad = [name for name, value in figures.items() if not math.isfinite(value)]
        if self.seed == TUNING_SEED and "valid" not in figures:
            raise UserError("measure gave no `valid`, by which a learning rate is chosen")
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

    Where the best rate of an arm is the smallest or the largest, one more is tried beyond it, as far away as its
    neighbour is (their ratio): again and again, at most four times. A rate whose training fails was tried and is worst.

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
        self._grids = {arm.name: arm.rates[len(arm.rates) // 2 :][:1] if quick else arm.rates for arm in self.arms}

    def tuning(self, arm: Arm) -> list[Unit]:
        """Return the units that choose an arm's learning rate, as far as is known by now; one rate needs no trial."""
        first, grid = len(arm.rates), self._grids[arm.name]
        while 1 < len(grid) < first + _WIDER and (beyond := _beyond(grid, self._best(arm, grid))):
            grid = self._grids[arm.name] = (*grid, beyond)
        return self._units_of(arm, grid)

    def _units_of(self, arm: Arm, grid: Sequence[float]) -> list[Unit]:
        rates = grid if len(grid) > 1 else ()
        return [Unit(self.claim, arm, TUNING_SEED, rate, self.quick) for rate in rates]

    def _best(self, arm: Arm, grid: Sequence[float]) -> float | None:
        """The rate whose ``valid`` is lowest; None before all were tried, and where all have failed."""
        units = self._units_of(arm, grid)
        if not all(map(self.has, units)):
            return None
        tried = [self.done[unit.label].trial for unit in units if unit.label in self.done]
        return min(tried, key=lambda trial: trial.figures["valid"]).rate if tried else None

    def has(self, unit: Unit) -> bool:
        """Whether a unit was tried, with whatever end."""
        return unit.label in self.done or unit.label in self.failed

    def rate(self, arm: Arm) -> Rate | None:
        """Return the learning rate of an arm; None before it is chosen, and where there is none to choose."""
        tuning, grid = self.tuning(arm), self._grids[arm.name]
        if not tuning:
            return Rate(arm.name, grid[0], grid) if grid else None
        best = self._best(arm, grid)
        if best is None:
            return None
        failed = tuple(f"{unit.rate:g}: {self.failed[unit.label]}" for unit in tuning if unit.label in self.failed)
        return Rate(arm.name, best, grid, best in (min(grid), max(grid)), failed)

    def confirming(self, arm: Arm) -> list[Unit]:
        """Return the units of an arm with the fresh seeds; none before its learning rate is chosen."""
        rate = self.rate(arm)
        if rate is None and arm.rates:
            return []
        value = None if rate is None else rate.chosen
        return [Unit(self.claim, arm, seed, value, self.quick) for seed in self.seeds]

    def units(self) -> Iterator[Unit]:
        """Go through the units that can be done by now, done or not: those that choose learning rates first."""
        for arm in self.arms:
            number = 0
            while number < len(tuning := self.tuning(arm)):  # which may be more when the last one is found to be done
                yield tuning[number]
                number += 1
        for arm in self.arms:
            yield from self.confirming(arm)

    @property
    def total(self) -> int:
        """How many units there are in all, as far as is known by now."""
        count = 0
        for arm in self.arms:
            tuning = self._units_of(arm, self._grids[arm.name])
            is_lost = bool(tuning) and all(unit.label in self.failed for unit in tuning)
            count += len(tuning) + (0 if is_lost else len(self.seeds))
        return count

    @property
    def is_over(self) -> bool:
        """Whether nothing is left that can be done."""
        return all(map(self.has, self.units()))

    def trials(self, *, tuning: bool = False) -> tuple[Trial, ...]:
        """Return what was measured, arm by arm and seed by seed."""
        units = [unit for arm in self.arms for unit in (self.tuning(arm) if tuning else self.confirming(arm))]
        return tuple(self.done[unit.label].trial for unit in units if unit.label in self.done)

    @property
    def left(self) -> float:
        """Seconds that the rest takes: each as long as the mean of those that are done, else as the budget says."""
        seconds = [done.trial.seconds for done in tuple(self.done.values())]
        each = fmean(seconds) if seconds else 2 * self.claim.seconds[0 if self.quick else 1] / max(1, self.total)
        return each * (self.total - len(self.done) - len(self.failed))


def _beyond(grid: Sequence[float], best: float | None) -> float | None:
    """The next rate where the best of a grid is at its edge: the grid goes on by the ratio of the last two there."""
    for edge, neighbour, *_ in (sorted(grid), sorted(grid, reverse=True)):
        if best == edge:
            return float(f"{edge * edge / neighbour:.3g}")
    return None


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

    With it go the modules of the suite that it imports, and those that they import. A better picture then does not
    throw away what was measured.
    """
    left, found = [("", _source(claim))], list[tuple[str, str]]()
    seen = set[str]()
    while left:
        name, text = left.pop()
        tree = ast.parse(text)
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.Module):
                node.body = [one for one in node.body if not _measures_nothing(one, node)] or [ast.Pass()]
        found.append((name, ast.unparse(tree)))
        modules = {one for node in ast.walk(tree) for one in _imported(node)} - seen
        files = {module: _PACKAGE.parent.joinpath(*module.split(".")).with_suffix(".py") for module in modules}
        left += [(module, file.read_text(encoding="utf-8")) for module, file in files.items() if file.is_file()]
        seen |= modules
    return hashlib.sha256(repr(sorted(found)).encode()).hexdigest()


def _measures_nothing(statement: ast.stmt, parent: ast.AST) -> bool:
    """Whether it is a docstring, an import of what judges and draws, or a rule, a plot or a text of a class."""
    if isinstance(statement, ast.ImportFrom):
        return f"{statement.module}.".startswith(_NO_MEASURE)
    if isinstance(parent, ast.ClassDef) and isinstance(statement, ast.FunctionDef | ast.Assign | ast.AnnAssign):
        targets = getattr(statement, "targets", [getattr(statement, "target", statement)])
        return any({getattr(one, "name", ""), getattr(one, "id", "")} & {*_NO_MEASUREMENT} for one in targets)
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _imported(node: ast.AST) -> list[str]:
    """The modules of the suite that a statement may import."""
    if isinstance(node, ast.ImportFrom):
        names = [f"{node.module}", *(f"{node.module}.{one.name}" for one in node.names)]
    else:
        names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
    return [name for name in names if name.startswith("selfattn.claims.") and not f"{name}.".startswith(_NO_MEASURE)]


def _source(claim: type[Claim]) -> str:
    try:
        return Path(inspect.getfile(claim)).read_text(encoding="utf-8")
    except (OSError, TypeError):
        return ""
