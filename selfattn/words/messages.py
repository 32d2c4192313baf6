"""What the report says, in no language yet: a message is a key with values, and becomes text as late as possible."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from selfattn.words.catalogue import SOURCE, catalogue

_PLACE = re.compile(r"{(\w+)}")


@dataclass(frozen=True)
class Message:
    """Something to say, in no language yet.

    Args:
        key: its key in the catalogues; empty for one that brings its texts.
        values: what fills the places (`{name}`) of the text; a value may itself be a message.
        own: its texts by language, which override those of the catalogues.
    """

    key: str
    values: Mapping[str, str | int | Message] = field(default_factory=dict)
    own: Mapping[str, str] = field(default_factory=dict)

    def say(self, lang: str) -> str:
        """The message as text.

        Example:
            >>> Message("badge.seeds", {"count": 3}).say("en"), Message("badge.seeds", {"count": 3}).say("ko")
            ('3 seeds', '시드 3개')
        """
        values = {name: said(value, lang) for name, value in self.values.items()}
        text = self.own.get(lang) or catalogue(lang).get(self.key) or self.own.get(SOURCE)
        if text is None:
            raise KeyError(self.key)
        return _PLACE.sub(lambda place: values.get(place[1], place[0]), text)


Said = str | Message


def message(key: str, **values: str | int | Message) -> Message:
    """A message of the catalogues from its key and values."""
    return Message(key, values)


def phrase(**own: str) -> Message:
    """A message that stands in no catalogue, from its texts by language; a language that lacks one gets the English.

    Example:
        >>> phrase(en="Calibration", ko="보정").say("ko")
        '보정'
    """
    return Message("", own=own)


def said(value: int | Said, lang: str) -> str:
    """A message in a language; any other text or number as it is."""
    return value.say(lang) if isinstance(value, Message) else str(value)
