"""Messages in no language yet: a key with values, which becomes text as late as possible."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from selfattn.words.catalogue import SOURCE, catalogue

_PLACE = re.compile(r"{(\w+)}")


@dataclass(frozen=True)
class Message:
    """Something to say, in no language yet.

    Attributes:
        key: its key in the catalogues; empty for one that brings its texts.
        values: what fills the places (`{name}`) of the text; a value may itself be a message.
        texts: its texts by language, which override those of the catalogues.
    """

    key: str
    values: Mapping[str, str | int | Message] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)

    def say(self, lang: str) -> str:
        """Return the message as text.

        Example:
            >>> Message("badge.seeds", {"count": 3}).say("en"), Message("badge.seeds", {"count": 3}).say("ko")
            ('3 runs each', '시드 3개')
        """
        values = {name: text_of(value, lang) for name, value in self.values.items()}
        text = self.texts.get(lang) or catalogue(lang).get(self.key) or self.texts.get(SOURCE)
        if text is None:
            raise KeyError(self.key)
        return _PLACE.sub(lambda place: values.get(place[1], place[0]), text)


TextLike = str | Message


def message(key: str, **values: str | int | Message) -> Message:
    """Return a message of the catalogues by its key, with its values."""
    return Message(key, values)


def phrase(**texts: str) -> Message:
    """Return a message from its texts by language; a language without a text gets the English one.

    Example:
        >>> phrase(en="Calibration", ko="보정").say("ko")
        '보정'
    """
    return Message("", texts=texts)


def text_of(value: int | TextLike, lang: str) -> str:
    """Return a message in a language; any other text or number as it is."""
    return value.say(lang) if isinstance(value, Message) else str(value)
