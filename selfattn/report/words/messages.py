"""What the report says, in English and Korean: a message is a key with values, and becomes text as late as possible."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from selfattn.report.words.wordlist import WORDS

Lang = Literal["en", "ko"]
LANGS: tuple[Lang, ...] = ("en", "ko")


@dataclass(frozen=True)
class Message:
    """Something to say, in no language yet.

    Args:
        key: its entry in `wordlist.WORDS`.
        values: what fills the places of the entry; a value may itself be a message.
    """

    key: str
    values: Mapping[str, str | int | Message] = field(default_factory=dict)

    def say(self, lang: Lang) -> str:
        """The message as text.

        Example:
            >>> Message("badge.seeds", {"count": 3}).say("en"), Message("badge.seeds", {"count": 3}).say("ko")
            ('3 seeds', '시드 3개')
        """
        values = {key: value.say(lang) if isinstance(value, Message) else value for key, value in self.values.items()}
        return WORDS[self.key][LANGS.index(lang)].format(**values)


def message(key: str, **values: str | int | Message) -> Message:
    """A message from its key and values."""
    return Message(key, values)
