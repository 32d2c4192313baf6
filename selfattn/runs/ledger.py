"""The ledger of a comparison: one line for each access to the test set."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from selfattn.codec import line_of, read_jsonl
from selfattn.files import append_line, writing
from selfattn.results.protocol import Look, Seal

LEDGER = "ledger.jsonl"
_ADVICE = "restore the file, or compare again"


def begin_ledger(comparison: Path, seal: Seal, command: str) -> None:
    """Write the first line, which is the plan.

    Args:
        comparison: its directory.
        seal: of the plan.
        command: that made the plan.
    """
    with writing(comparison):
        append_line(comparison / LEDGER, line_of(Look(seal.created, "", command, seal.sha256), checksum=True))


def note_look(run: Path, command: str, *, plan: str = "", answers: str = "") -> None:
    """Note that a run of a comparison was tested on its test set; outside a comparison nothing is written.

    Args:
        run: its directory.
        command: that tests the run.
        plan: SHA-256 of the plan; default none.
        answers: SHA-256 of the answers; default they are not kept.
    """
    place = run.resolve()
    ledger = place.parent.parent / LEDGER
    if ledger.is_file():
        when = datetime.now(UTC).isoformat(timespec="seconds")
        with writing(ledger):
            append_line(ledger, line_of(Look(when, place.name, command, plan, answers), checksum=True))


def read_looks(comparison: Path) -> tuple[Look, ...]:
    """Return the lines of the ledger, the plan first; none without a ledger.

    Raises:
        UserError: the ledger is broken.
    """
    ledger = comparison / LEDGER
    return tuple(read_jsonl(Look, ledger, advice=_ADVICE)) if ledger.is_file() else ()
