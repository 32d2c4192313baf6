"""Words in a page that can change its language: every text on it is registered here in all languages under an id."""

from __future__ import annotations

from markupsafe import Markup, escape

from selfattn.report.words.catalogue import LANGS, catalogue
from selfattn.report.words.messages import Message, Said


class Translator:
    """Puts messages into HTML in one language and remembers them in every language, for the page's own switch.

    Args:
        lang: the language that the page opens in.

    Example:
        >>> w = Translator("en")
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
        return self.text(Message(key, values))

    def text(self, text: Said) -> Markup:
        """A message as a span; any other text as it is."""
        if not isinstance(text, Message):
            return escape(text)
        return Markup('<span data-w="{}">{}</span>').format(self.id(text), self.raw(text))

    def attr(self, name: str, text: Said) -> Markup:
        """An attribute whose value is a message, or any other text."""
        if not isinstance(text, Message):
            return Markup('{}="{}"').format(name, text)
        return Markup('{}="{}" data-wa="{} {}"').format(name, self.raw(text), name, self.id(text))

    def key(self, name: str, key: str) -> Markup:
        """An attribute whose value is a message without values, by its key."""
        return self.attr(name, Message(key))

    def raw(self, message: Message) -> str:
        """The text alone, in the language that the page opens in."""
        return message.say(self.lang)

    def id(self, message: Message) -> int:
        """The id under which the page finds the message in every language."""
        texts = tuple(message.say(lang) for lang in LANGS)
        return self._ids.setdefault(texts, len(self._ids))

    def name(self, lang: str) -> str:
        """What a language calls itself."""
        return catalogue(lang)["language"]

    @property
    def table(self) -> list[tuple[str, ...]]:
        """All registered messages by id, one text a language in the order of `LANGS`."""
        return list(self._ids)
