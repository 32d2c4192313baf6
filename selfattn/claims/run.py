"""Run claims: all their units as one queue, several at once, each kept as soon as it is done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

from joblib import cpu_count
from joblib.externals.loky import get_reusable_executor

from selfattn.claims.claim import Claim
from selfattn.claims.progress import Shown
from selfattn.claims.record import make_record
from selfattn.claims.units import Unit, Work
from selfattn.comparison.running.side_by_side import packed, stopping, unpacked
from selfattn.errors import UserError
from selfattn.files import in_use, writing
from selfattn.registry import CLAIMS
from selfattn.results.claims import ClaimsRecord, Trial
from selfattn.settings import command_line

_STOPPING = "stopping: units that are begun come to their end and are kept; once more stops at once"
_LOST = 2  # times that a unit's process may die before the unit counts as failed


def chosen(names: Sequence[str], everything: bool = False) -> tuple[Claim, ...]:
    """Return claims by name or by number, in the order of the suite.

    Args:
        names: such as ``bottleneck`` or ``1``.
        everything: all there are, of plugins too; then no names.

    Raises:
        UserError: a claim is not known, or nothing is chosen, or both names and everything.
    """
    known = CLAIMS.names()
    if everything == bool(names):
        raise UserError(f"claims: name those to run, or give `all`; there are {', '.join(known)}")
    wanted = {known[int(one) - 1] if one.isdigit() and 0 < int(one) <= len(known) else one for one in names}
    for name in wanted:
        CLAIMS[name]  # or the line that says which are near
    return tuple(CLAIMS[name]() for name in known if everything or name in wanted)


def run_claims(
    claims: Sequence[Claim], out: Path, *, quick: bool = False, jobs: int | None = None, everything: bool = False
) -> ClaimsRecord:
    """Run claims, or what is left of them, and return their record; units that ``out`` has are not made again.

    Arms that take times are measured alone, after all others. A unit that fails is told, and the others go on. A first
    interrupt lets the units that are begun come to their end; the record then names in ``not_run`` what is left.

    Args:
        claims: in the order in which they are begun.
        out: the directory that keeps every unit; made where there is none.
        quick: two seeds, learning rates untuned, and whatever a claim makes smaller: a look, no confirmation.
        jobs: units at once; default one on each core that this process may use.
        everything: whether these are all there are, for the command in the record.

    Raises:
        UserError: the directory cannot be written or is in use.
        KeyboardInterrupt: a second interrupt; what is done is kept.
    """
    given = {"quick": quick} if quick else {}
    names = () if everything else (claim.name for claim in claims)
    command = command_line(" ".join(["claims run", *names]), {"all": True, **given} if everything else given)
    works = [Work(claim, quick) for claim in claims]
    stop = out / "stop"
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
        stop.unlink(missing_ok=True)
    with in_use(out):
        with Shown(works) as shown:
            try:
                with stopping(stop, lambda _: shown.say(_STOPPING)):
                    _Queue(works, out, jobs or cpu_count(), shown, stop).run()
            finally:
                stop.unlink(missing_ok=True)
        return make_record(works, command)


class _Queue:
    """Sends units out, those of a claim after those of the one before as far as there is something to send.

    Args:
        works: of the claims.
        out: keeps the units.
        jobs: units at once.
        shown: tells the user.
        stop: a file that asks to begin nothing more.
    """

    def __init__(self, works: Sequence[Work], out: Path, jobs: int, shown: Shown, stop: Path) -> None:
        self.works, self.out, self.jobs, self.shown, self.stop = works, out, jobs, shown, stop
        self.looked: set[str] = set()
        self.lost: Counter[str] = Counter()
        self.running: dict[Future[Trial], tuple[Work, Unit]] = {}

    def run(self) -> None:
        """Do all that is left, in this process where there is one at once."""
        if self.jobs == 1:
            while found := self._next():
                self._end(*found, found[1].measured)
            return
        try:
            self._send_out()
        except BaseException:
            get_reusable_executor(max_workers=self.jobs).shutdown(wait=False, kill_workers=True)
            raise

    def _send_out(self) -> None:
        while True:
            while len(self.running) < self.jobs and (found := self._next()):
                executor = get_reusable_executor(max_workers=self.jobs)  # a new one where the last one broke
                self.running[executor.submit(_in_worker, packed(found[1]))] = found
            if not self.running:
                return
            self.shown.running = len(self.running)
            for future in wait(self.running, timeout=0.5, return_when=FIRST_COMPLETED).done:
                self._end(*self.running.pop(future), future.result)

    def _next(self) -> tuple[Work, Unit] | None:
        """The next unit that can begin now; one that takes times only where nothing else runs or can begin."""
        begun = {unit.label for _, unit in self.running.values()}
        if self.stop.exists() or any(unit.arm.alone for _, unit in self.running.values()):
            return None
        for alone in (False,) if self.running else (False, True):
            for work in self.works:
                for unit in work.units():
                    self._look(work, unit)
                    if unit.arm.alone == alone and not work.has(unit) and unit.label not in begun:
                        return work, unit
        return None

    def _look(self, work: Work, unit: Unit) -> None:
        """Take a unit that the directory has."""
        if unit.label in self.looked:
            return
        self.looked.add(unit.label)
        kept = unit.kept(self.out)
        if kept is not None:
            work.done[unit.label] = kept
        elif unit.file(self.out).exists():
            self.shown.say(f"{unit.label}: was kept with other settings or code; measured anew")

    def _end(self, work: Work, unit: Unit, result: Callable[[], Trial]) -> None:
        """Keep what became of a unit."""
        try:
            work.done[unit.label] = unit.keep(result(), self.out)
        except Exception as error:
            known = isinstance(error, UserError)
            reason = str(error) if known else f"{type(error).__name__}: {error}".splitlines()[0]
            if isinstance(error, BrokenProcessPool):
                self.lost[unit.label] += 1
                if self.lost[unit.label] < _LOST:
                    return
                reason = "its process died"
            work.failed[unit.label] = reason
            self.shown.say(f"{unit.label}: failed: {reason}")
        self.shown.ended(work)


def _in_worker(parcel: bytes) -> Trial:
    unit: Unit = unpacked(parcel)[0]
    return unit.measured()
