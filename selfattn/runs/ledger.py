"""The ledger of an experiment: a line for each access to the test set, each with the SHA-256 of the line before."""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from filelock import FileLock

from selfattn.codec import line_of, read_jsonl
from selfattn.errors import UserError
from selfattn.files import append_line, check_no_link, writing
from selfattn.ownership import is_ours
from selfattn.results.plan import LedgerEntry, Seal

LEDGER = "ledger.jsonl"
_LOCK = f".{LEDGER}.lock"
_ADVICE = "restore the file, or start again"


def begin_ledger(experiment: Path, seal: Seal, command: str) -> None:
    """Write the first line: the plan.

    Args:
        experiment: its directory.
        seal: of the plan.
        command: that started the experiment.
    """
    with writing(experiment):
        append_line(experiment / LEDGER, line_of(LedgerEntry(seal.created, "", command, seal.sha256), checksum=True))


def record_access(run: Path, command: str, *, plan: str = "", answers: str = "", outputs: str = "") -> None:
    """Record that a run was tested, in the ledger of its experiment; a run outside of one is not recorded.

    The content of its plan or its ledger tells an experiment, not their names.

    Args:
        run: its directory or file, two levels below that of the experiment.
        command: that tested it.
        plan: SHA-256 of the plan that the run belongs to; default none.
        answers: SHA-256 of what was tested; default it is not kept.
        outputs: SHA-256 of the outputs of a model; default none.
    """
    place = run.resolve()
    _append(place.parent.parent, LedgerEntry("", place.name, command, plan, answers, outputs=outputs))


def seal_step(experiment: Path, step: str, command: str, *, plan: str, digest: str) -> None:
    """Record what a step of an experiment has decided, such as its tuning, so that it cannot be changed later.

    Args:
        experiment: its directory.
        step: its name.
        command: that made it.
        plan: SHA-256 of the plan.
        digest: SHA-256 of what the step left.
    """
    _append(experiment.resolve(), LedgerEntry("", "", command, plan, digest, sealed=step))


def is_sealed(entries: Sequence[LedgerEntry], step: str, digest: str) -> bool:
    """Whether a ledger has a step, with this digest in every line of it; an empty digest needs no line.

    A step that was sealed twice with different digests was done again: whoever did it may have kept what suits.
    """
    digests = {entry.answers for entry in entries if entry.sealed == step}
    return digests == ({digest} if digest else set())


def _append(experiment: Path, entry: LedgerEntry) -> None:
    ledger = experiment / LEDGER
    if ledger.is_file() and (is_ours(experiment) or is_ours(ledger)):
        with writing(ledger):
            check_no_link(ledger)
            check_no_link(ledger.with_name(_LOCK))
        if not is_ours(ledger):
            raise UserError(f"{ledger}: is not the ledger of this experiment; {_ADVICE}")
        when = datetime.now(UTC).isoformat(timespec="seconds")
        with writing(ledger), FileLock(ledger.with_name(_LOCK)):
            # A worker that outlived a killed program may note what the resumed program has noted in its stead.
            if entry.answers and any(_is_same(entry, noted) for noted in read_ledger(experiment)):
                return
            *_, last = ledger.read_bytes().splitlines() or [b""]
            entry = replace(entry, when=when, previous=hashlib.sha256(last).hexdigest())
            append_line(ledger, line_of(entry, checksum=True))


def _is_same(entry: LedgerEntry, noted: LedgerEntry) -> bool:
    """Whether two lines are of one access: a test writes when it was into what its digest is made of."""
    return replace(entry, when=noted.when, command=noted.command, previous=noted.previous) == noted


def read_ledger(experiment: Path) -> tuple[LedgerEntry, ...]:
    """Return the first line, which is the plan, and all accesses in their order; nothing where there is no ledger.

    Raises:
        UserError: a line is broken.
    """
    ledger = experiment / LEDGER
    return tuple(read_jsonl(LedgerEntry, ledger, advice=_ADVICE)) if ledger.is_file() else ()


def first_lines(entries: Sequence[LedgerEntry]) -> list[LedgerEntry]:
    """Return the line of the plan, if the ledger still begins with it."""
    return [entry for entry in entries[:1] if not entry.run and not entry.sealed]


def is_chained(experiment: Path, entries: Sequence[LedgerEntry]) -> bool:
    """Whether the ledger begins with the plan, and every line has the SHA-256 of the line before."""
    lines = (experiment / LEDGER).read_bytes().splitlines() if entries else []
    before = ["", *(hashlib.sha256(line).hexdigest() for line in lines[:-1])]
    return bool(first_lines(entries)) and [entry.previous for entry in entries] == before
