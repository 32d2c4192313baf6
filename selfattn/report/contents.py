"""What a page has: a first screen, and the sections of the project and of plugins in order."""

from __future__ import annotations

from dataclasses import dataclass
from inspect import signature

from selfattn.console import all_visible
from selfattn.errors import UserError
from selfattn.registry import SECTIONS
from selfattn.report.blocks import Block, Outputs, Verdict
from selfattn.report.sections.first_screen import first_screen
from selfattn.report.verdict.verdict import verdict
from selfattn.results.record import Record
from selfattn.words.messages import TextLike


@dataclass(frozen=True)
class Part:
    """A section with what it shows.

    Args:
        key: of the section.
        title: its heading.
        blocks: what it shows.
        is_plugin: whether a plugin brought it.
        names: whose signs are drawn in it, where they are not those of the whole page.
    """

    key: str
    title: TextLike
    blocks: tuple[Block, ...]
    is_plugin: bool = False
    names: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """The key as an identifier, which has no spaces."""
        return self.key.replace(" ", "-")


@dataclass(frozen=True)
class Document:
    """A page in no language and no format yet: what every renderer draws.

    Args:
        verdict: the question and its answer.
        first: what else the first screen shows.
        parts: the sections.
        names: whose signs are drawn, such as models.
        version: of the package that made what is shown.
        has_contents: whether a line of links to the sections is needed; no where the first screen has them.
    """

    verdict: Verdict
    first: tuple[Block, ...]
    parts: tuple[Part, ...]
    names: tuple[str, ...] = ()
    version: str = ""
    has_contents: bool = True


def document(record: Record, outputs: Outputs | None = None) -> Document:
    """Return a comparison as a page; without the outputs of the test, sections that need them are left out.

    Raises:
        UserError: a section that is not the project's does not make its blocks.
    """
    record = all_visible(record)
    names, version = tuple(model.name for model in record.models), str(record.environment.get("selfattn", ""))
    return Document(verdict(record), first_screen(record), contents(record, outputs), names, version)


def contents(record: Record, outputs: Outputs | None = None) -> tuple[Part, ...]:
    """Every section that shows something of a record.

    Raises:
        UserError: a section that is not the project's does not make its blocks.
    """
    order: list[str] = []
    for key in sorted(SECTIONS, key=lambda key: bool(getattr(SECTIONS[key], "after", ""))):
        after = getattr(SECTIONS[key], "after", "")
        if after and after not in SECTIONS:
            known = ", ".join(SECTIONS)
            raise UserError(f"section {key!r}: `after` {after!r} is no section; choose one of {known}")
        order.insert(order.index(after) + 1 if after in order else len(order), key)
    return tuple(part for part in (_part(record, key, outputs) for key in order) if part.blocks)


def _part(record: Record, key: str, outputs: Outputs | None) -> Part:
    section = SECTIONS[key]
    is_plugin = not section.__module__.startswith("selfattn.report.")
    try:
        instance = section() if isinstance(section, type) else section
        more = (outputs,) if "outputs" in signature(instance.blocks).parameters else ()
        blocks = () if more == (None,) else tuple(instance.blocks(record, *more))
    except Exception as error:
        if not is_plugin:
            raise
        raise UserError(f"section {key!r}: shows nothing ({type(error).__name__}: {error}); mend its file") from error
    return Part(key, instance.title, blocks, is_plugin)
