"""The ledger of a comparison: one line for each look at the test set, written when it is looked at."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from selfattn.codec import line_of, read_jsonl
from selfattn.files import append_line, writing
from selfattn.results.protocol import Look, Seal

LEDGER = "ledger.jsonl"
_ADVICE = "restore the file, or compare again"


def begin_ledger(comparison: Path, seal: Seal, command: str) -> None:
    """Write the first line: the plan, under which nothing was looked at yet.

    Args:
        comparison: its directory.
        seal: the plan.
        command: that made it.
    """
    with writing(comparison):
        append_line(comparison / LEDGER, line_of(Look(seal.created, "", command, seal.sha256), checksum=True))


def note_look(run: Path, command: str, *, plan: str = "", answers: str = "") -> None:
    """Write down that a run was tested on the test set of the comparison that it lies in; nothing outside of one.

    Args:
        run: its directory.
        command: that does it.
        plan: SHA-256 of the plan by which it is done; default none.
        answers: SHA-256 of what the run answered; default they are not kept.
    """
    place = run.resolve()
    ledger = place.parent.parent / LEDGER
    if ledger.is_file():
        when = datetime.now(UTC).isoformat(timespec="seconds")
        with writing(ledger):
            append_line(ledger, line_of(Look(when, place.name, command, plan, answers), checksum=True))


def read_looks(comparison: Path) -> tuple[Look, ...]:
    """Return the first line, which is the plan, and all looks in their order; nothing where there is no ledger.

    Raises:
        UserError: it is broken.
    """
    ledger = comparison / LEDGER
    return tuple(read_jsonl(Look, ledger, advice=_ADVICE)) if ledger.is_file() else ()
