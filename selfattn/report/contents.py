"""The sections of a report in their order: the project's own, and between or after them those of others."""

from __future__ import annotations

from dataclasses import dataclass

from selfattn.errors import UserError
from selfattn.figures.record import Record
from selfattn.registry import SECTIONS
from selfattn.report.blocks import Block
from selfattn.report.words.messages import Said


@dataclass(frozen=True)
class Part:
    """A section with what it shows of a record; `own` is one of the project."""

    key: str
    title: Said
    blocks: tuple[Block, ...]
    own: bool

    @property
    def id(self) -> str:
        """The key as an identifier, which has no spaces."""
        return self.key.replace(" ", "-")


def contents(record: Record) -> tuple[Part, ...]:
    """Every section that shows something of a record.

    Raises:
        UserError: a section that is not the project's does not make its blocks.
    """
    order: list[str] = []
    for key in SECTIONS:
        after = getattr(SECTIONS[key], "after", "")
        order.insert(order.index(after) + 1 if after in order else len(order), key)
    return tuple(part for part in (_part(record, key) for key in order) if part.blocks)


def _part(record: Record, key: str) -> Part:
    section = SECTIONS[key]
    own = section.__module__.startswith("selfattn.report.")
    try:
        made = section() if isinstance(section, type) else section
        return Part(key, made.title, tuple(made.blocks(record)), own)
    except Exception as error:
        if own:
            raise
        raise UserError(f"section {key!r}: shows nothing ({type(error).__name__}: {error}); mend its file") from error
