"""The plan of an experiment: sealed before its first trial, read again to resume, checked at the end; its tuning."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from selfattn.codec import Plain, decode, encode, fingerprint, read_json, refuse_newer, write
from selfattn.errors import SettingError, UserError
from selfattn.files import in_use, names_in, writing
from selfattn.registry import check_plugins
from selfattn.results.plan import Axis, Departure, Seal
from selfattn.runs.ledger import begin_ledger, first_lines, is_chained, read_ledger, record_access

PLAN = "plan.json"
SCHEMA = 1
_ADVICE = "name the directory of a comparison or of claims, or start again in a new one"
UNSEALED = Seal("", "")
_DECIDE_NOTHING = ("--lang", "--plugin", "--out")  # options that may differ on --resume
P = TypeVar("P", bound="Plan")
K = TypeVar("K")
Q = TypeVar("Q")
Rank = tuple[float, float]  # lower is better; the second number breaks ties


@dataclass(frozen=True, kw_only=True)
class Plan(Plain):
    """What every plan has, and all that the plan of a run of claims has.

    Attributes:
        command: command line that makes the experiment again.
        seal: of the plan; empty before it is fixed.
        plugins: that it needs, with their versions.
    """

    gone: ClassVar[tuple[str, ...]] = ()  # fields that plans of before have, and nothing reads any more

    command: str
    seal: Seal = UNSEALED
    plugins: Mapping[str, str] = field(default_factory=dict)


def write_plan(out: Path, plan: P) -> P:
    """Write a plan into the directory of its experiment, and return it."""
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
        write(out / PLAN, {"schema": SCHEMA} | encode(plan), checksum=True)
    return plan


def read_plan(kind: type[P], out: Path, *, exact: bool = False) -> P:
    """Read the plan of an experiment.

    Args:
        kind: its dataclass.
        out: directory of the experiment.
        exact: refuse plugins that have changed; default: say so on standard error.

    Raises:
        UserError: there is no plan, it is broken or of another kind, or it needs a plugin that is not loaded.
    """
    path = out / PLAN
    data = read_json(path, advice=_ADVICE)
    refuse_newer(data, SCHEMA, file=path)
    if not isinstance(data, dict) or data.pop("schema", None) != SCHEMA or "seal" not in data:
        raise UserError(f"{path}: not a plan that this version can read; {_ADVICE}")
    plugins = decode(dict[str, str], data.get("plugins", {}), file=path, advice=_ADVICE)
    check_plugins(plugins, str(path), exact=exact)
    settings = {name: value for name, value in data.items() if name not in kind.gone}
    return decode(kind, settings, file=path, advice=_ADVICE)


@contextmanager
def begin(out: Path, plan: P, decides: Mapping[str, Any]) -> Iterator[P]:
    """Seal a new plan, write it and begin the ledger; the directory is held meanwhile.

    Args:
        out: directory of the experiment, new or empty.
        plan: without a seal.
        decides: everything that the results depend on.

    Returns:
        The sealed plan.

    Raises:
        SettingError: the directory holds something, or cannot be written.
    """
    check_out(out)
    with in_use(out):
        check_out(out)  # another process may have been faster
        seal = Seal(fingerprint(decides), datetime.now(UTC).isoformat(timespec="seconds"), decides)
        sealed = write_plan(out, replace(plan, seal=seal))
        begin_ledger(out, seal, sealed.command)
        yield sealed


@contextmanager
def resume(kind: type[P], out: Path, command: str) -> Iterator[P]:
    """Read the plan of an experiment that was stopped; the directory is held meanwhile.

    Args:
        kind: of the plan.
        out: directory of the experiment.
        command: of now; it must decide the same as the command of the plan.

    Raises:
        SettingError: the plan is of another command, or a plugin has changed.
        UserError: the plan is broken, or another process works here.
    """
    read_plan(kind, out, exact=True)  # before anything is touched: it may be a directory of somebody else
    with in_use(out):
        plan = read_plan(kind, out, exact=True)
        if not decide_alike(plan.command, command):
            advice = "give the same settings to resume it, or choose another `out`"
            raise SettingError(f"{out}: holds another experiment, made by: {plan.command}; {advice}")
        yield plan if plan.command == command else write_plan(out, replace(plan, command=command))


def backfill_ledger(out: Path, plan: Plan, tested: Mapping[Path, Mapping[str, str]]) -> None:
    """Record what a killed experiment had tested, but had not recorded yet.

    Args:
        out: directory of the experiment.
        plan: sealed.
        tested: by the path of the tested trial, what the ledger has of it, see `record_access`.
    """
    recorded = {entry.run for entry in read_ledger(out)}
    if not (tested or recorded):
        begin_ledger(out, plan.seal, plan.command)
    for run, digests in tested.items() if recorded else ():
        if run.name not in recorded:
            record_access(run, plan.command, plan=plan.seal.sha256, **digests)


def decide_alike(first: str, second: str) -> bool:
    """Whether two commands decide the same: they may differ in language, plugins' paths and directory.

    Example:
        >>> decide_alike("selfattn compare dates --seeds 2 --out a", "selfattn compare dates --out b --seeds 2")
        True
    """
    return _options(first) == _options(second)


def _options(command: str) -> list[str]:
    """The options of a command that decide something, with their values, sorted."""
    try:
        words = shlex.split(command)
    except ValueError:  # of a record that was changed: no command that is typed can equal it
        return [command]
    for name in _DECIDE_NOTHING:
        while name in words:
            place = words.index(name)
            del words[place : place + 2]
    return sorted(" ".join(words).split(" --"))


def check_out(out: Path) -> None:
    """Check that the directory of a new experiment is new or empty.

    Raises:
        SettingError: it holds something, or cannot be read.
    """
    try:
        names = names_in(out)
    except FileNotFoundError:
        return
    except OSError as error:
        raise SettingError(f"{out}: cannot be used ({error.strerror}); choose another `out`") from None
    if names:
        advice = ", or go on with it: `resume`" if (out / PLAN).is_file() else ""
        raise SettingError(f"{out}: holds something already, such as another experiment; choose another `out`{advice}")


def check_ledger(out: Path, seal: Seal, changed: Sequence[str], trials: Mapping[str, str]) -> Iterator[Departure]:
    """Check the tested trials of an experiment against its plan and its ledger.

    Args:
        out: directory of the experiment.
        seal: of the plan.
        changed: fields of the plan that are not as they were sealed.
        trials: SHA-256 of the answers of each trial, by its label.

    Returns:
        The departures that say something.

    Raises:
        UserError: a line of the ledger is broken.
    """
    entries = read_ledger(out)
    broken = [] if fingerprint(encode(dict(seal.decides))) == seal.sha256 else ["sha256"]
    broken += ["created"] if any(entry.when != seal.created for entry in first_lines(entries)) else []
    others = [entry.run or "ledger" for entry in entries if entry.plan not in ("", seal.sha256)]
    tested = [entry.run for entry in entries if entry.run]
    recorded = {(entry.run, entry.answers) for entry in entries}
    yield from departures(
        plan=(*changed, *broken, *others),
        ledger=() if is_chained(out, entries) else ("ledger.jsonl",),
        again=[run for run in tested if tested.count(run) > 1],
        unrecorded=[label for label, answers in trials.items() if (label, answers) not in recorded],
    )


def departures(**kinds: Sequence[str]) -> Iterator[Departure]:
    """Return a departure for each kind that names something."""
    for kind, names in kinds.items():
        if names:
            yield Departure(kind, tuple(dict.fromkeys(names)))  # type: ignore[arg-type]  # kinds by name


def draw_points(axes: Sequence[Axis], count: int, seed: int) -> list[dict[str, float]]:
    """Draw points of a space from one quasi-random sequence (Sobol 1967), which covers it more evenly than chance.

    Args:
        axes: of the space.
        count: number of points. A larger number adds points and does not change the first ones.
        seed: of the scrambling (Owen 1998).

    Example:
        >>> from selfattn.results.plan import parse_axis
        >>> points = draw_points([parse_axis("lr=1e-3..1e-1:log"), parse_axis("batch_size=8,16")], 4, seed=0)
        >>> sorted(point["batch_size"] for point in points), sum(point["lr"] < 0.01 for point in points)
        ([8.0, 8.0, 16.0, 16.0], 2)
    """
    import numpy as np
    from scipy.stats import qmc

    sequence = qmc.Sobol(len(axes), scramble=True, seed=np.random.default_rng(seed))
    places = sequence.random_base2(max(0, math.ceil(math.log2(count))))[:count].tolist()
    return [{axis.name: axis.at(place) for axis, place in zip(axes, row, strict=True)} for row in places]


def search(
    points: Mapping[K, Sequence[Q]],
    measure: Callable[[Mapping[K, Sequence[Q]]], Mapping[K, Sequence[Rank]]],
    beyond: Callable[[K, Sequence[Q], Q], Sequence[Q]] | None = None,
    *,
    widenings: int = 0,
) -> tuple[Mapping[K, Sequence[Q]], Mapping[K, Q]]:
    """Find the best point of each arm by trials; with ``beyond``, widen the search where it is needed.

    Args:
        points: to try for each arm: settings, or values of one setting.
        measure: returns the rank of each point, lower is better. After a widening it gets all points again, the earlier
            ones included.
        beyond: returns further points for an arm, given its points so far and the best of them, for example where the
            best lies at an edge; default none.
        widenings: most times that the search is widened.

    Returns:
        The points of each arm in the order in which they were tried, and the best point of each arm.

    Example:
        >>> def measure(tried): return {arm: [(abs(rate - 4), 0) for rate in rates] for arm, rates in tried.items()}
        >>> def beyond(arm, rates, best): return [2 * best] if best == max(rates) else []
        >>> search({"a": [1, 2]}, measure, beyond, widenings=3)
        ({'a': [1, 2, 4, 8]}, {'a': 4})
    """
    tried = {arm: list(arm_points) for arm, arm_points in points.items()}
    while True:
        ranks = measure(tried)
        best = {arm: tried[arm][arm_ranks.index(min(arm_ranks))] for arm, arm_ranks in ranks.items()}
        more: dict[K, Sequence[Q]] = {}
        if beyond is not None and widenings:
            more = {arm: beyond(arm, arm_points, best[arm]) for arm, arm_points in tried.items()}
        if not any(more.values()):
            return tried, best
        tried = {arm: [*arm_points, *more[arm]] for arm, arm_points in tried.items()}
        widenings = widenings - 1
