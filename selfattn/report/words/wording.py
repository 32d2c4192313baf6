"""Words in a page that can change its language: every text on it is registered here in all languages under an id."""

from __future__ import annotations

from markupsafe import Markup, escape

from selfattn.report.render.grid import Cell, Noted
from selfattn.report.words.catalogue import LANGS
from selfattn.report.words.messages import Message


class Wording:
    """Puts messages into HTML in one language and remembers them in every language, for the page's own switch.

    Args:
        lang: the language that the page opens in.

    Example:
        >>> w = Wording("en")
        >>> print(w("col.items"))
        <span data-w="0">items</span>
        >>> w.table
        [('items', '항목 수')]
    """

    def __init__(self, lang: str) -> None:
        self.lang = lang
        self._ids: dict[tuple[str, ...], int] = {}

    def __call__(self, key: str, **values: str | int | Message) -> Markup:
        """A message by its key, as a span."""
        return self.say(Message(key, values))

    def say(self, message: Message) -> Markup:
        """A message as a span."""
        return Markup('<span data-w="{}">{}</span>').format(self.id(message), self.raw(message))

    def attr(self, name: str, key: str) -> Markup:
        """An attribute whose value is a message without values."""
        return self._attribute(name, Message(key))

    def title(self, message: Message) -> Markup:
        """A `title` attribute."""
        return self._attribute("title", message)

    def text(self, value: str | Message) -> Markup:
        """A message as a span; any other text as it is."""
        return self.say(value) if isinstance(value, Message) else escape(value)

    def cell(self, cell: Cell) -> Markup:
        """What stands in a cell of a table, with the reason on hover where there is one."""
        if isinstance(cell, Noted):
            return Markup('<span class="missing" {}>{}</span>').format(self.title(cell.reason), cell.text)
        return self.text(cell)

    def label(self, head: str | Message) -> Markup:
        """The head of a column as the label of a cell, for narrow pages on which a row is a card."""
        if isinstance(head, Message):
            return self._attribute("data-label", head)
        return Markup('data-label="{}"').format(head)

    def raw(self, message: Message) -> str:
        """The text alone, in the language that the page opens in."""
        return message.say(self.lang)

    def id(self, message: Message) -> int:
        """The id under which the page finds the message in every language."""
        texts = tuple(message.say(lang) for lang in LANGS)
        return self._ids.setdefault(texts, len(self._ids))

    @property
    def table(self) -> list[tuple[str, ...]]:
        """All registered messages by id, one text a language in the order of `LANGS`."""
        return list(self._ids)

    def _attribute(self, name: str, message: Message) -> Markup:
        return Markup('{}="{}" data-wa="{} {}"').format(
            Markup(name), escape(self.raw(message)), Markup(name), self.id(message)
        )
