"""Messages in no language yet, and the gettext catalogues (`.po`, one a language) that have their texts by key.

A record holds names of metrics, gates, parts of the test and models alone (`overlap`). The text of a name stands in the
catalogues under the kind of name, a point and the name (`gate.overlap`). No other key begins like this.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Literal, TypeAlias

from selfattn.errors import UserError

SOURCE = "en"  # the language in which messages are written first; what another one lacks is said in it
_HOME = Path(__file__).parent / "catalogues"
LANGS: tuple[str, ...] = (SOURCE, *sorted(d.name for d in _HOME.iterdir() if d.is_dir() and d.name != SOURCE))
Lang: TypeAlias = Literal[LANGS]  # type: ignore[valid-type]  # one for each folder of catalogues
_PLACE = re.compile(r"{(\w+)}")
_PLURAL = re.compile(r"{(\w+)\?([^{}|]*)\|([^{}|]*)}")  # such as {count} {count?line|lines}
_WRITTEN_PERCENT = re.compile(r"(?<=[\d}])[ \u00a0]%(?!p)")  # in the words of a message
_FORMATTED_PERCENT = re.compile(r"(?<=\d)\u00a0%")  # as numbers are formatted; a value that is data may have a space
_TIGHT_PERCENT = frozenset({"ko"})  # languages that write 90%, not 90 %


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
        """Return the message as text. Of ``{count?line|lines}``, the first is said where the value is 1.

        Example:
            >>> Message("badge.seeds", {"count": 3}).say("en"), Message("badge.seeds", {"count": 3}).say("ko")
            ('3 runs each', '실행 3번씩')
        """
        values = {name: text_of(value, lang) for name, value in self.values.items()}
        text = self.texts.get(lang) or catalogue(lang).get(self.key) or self.texts.get(SOURCE)
        if text is None:
            raise KeyError(self.key)
        if lang in _TIGHT_PERCENT:
            text = _WRITTEN_PERCENT.sub("%", text)
        text = _PLURAL.sub(lambda noun: noun[2] if values.get(noun[1]) == "1" else noun[3], text)
        return text_of(_PLACE.sub(lambda place: values.get(place[1], place[0]), text), lang)


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
    """Return a message, a text or a number in a language: a formatted percentage gets the language's spacing.

    Example:
        >>> text_of("25.16\u00a0%", "en").replace("\u00a0", " "), text_of("25.16\u00a0%", "ko")
        ('25.16 %', '25.16%')
    """
    if isinstance(value, Message):
        return value.say(lang)
    return _FORMATTED_PERCENT.sub("%", str(value)) if lang in _TIGHT_PERCENT else str(value)


def texts_of(value: TextLike) -> TextLike:
    """Return a text as a message where languages write it differently, else as it is.

    Example:
        >>> texts_of("25.16\u00a0%").texts["ko"], texts_of("25.16")
        ('25.16%', '25.16')
    """
    if isinstance(value, Message):
        return value
    texts = {lang: text_of(value, lang) for lang in LANGS}
    return phrase(**texts) if len(set(texts.values())) > 1 else value


@cache
def catalogue(lang: str) -> Mapping[str, str]:
    """Return the texts of the report in a language, by message key.

    Raises:
        UserError: there is no catalogue of this language.

    Example:
        >>> catalogue("en")["badge.seeds"], catalogue("ko")["badge.seeds"]
        ('{count} runs each', '실행 {count}번씩')
    """
    if lang not in LANGS:
        raise UserError(f"language {lang!r}: there is no catalogue of it; choose one of {', '.join(LANGS)}")
    return read_catalogue(_HOME / lang / "report.po")


def read_catalogue(path: Path) -> dict[str, str]:
    """Read one catalogue: the text of every message by its key, in the source language where it is not translated."""
    from babel.messages.pofile import read_po  # takes 0.1 s, so not before words are needed

    with path.open("rb") as file:
        return {str(entry.context): str(entry.string or entry.id) for entry in read_po(file) if entry.context}


def read_words(folder: Path, name: str) -> dict[str, dict[str, str]]:
    """Read the catalogues of a part that brings its own words, such as a task.

    Args:
        folder: holds a folder for each language.
        name: of the catalogue, without `.po`.

    Returns:
        By language, texts by message key; a language without the file is left out.
    """
    paths = {lang: folder / lang / f"{name}.po" for lang in LANGS}
    return {lang: read_catalogue(path) for lang, path in paths.items() if path.is_file()}


NameKind = Literal["metric", "gate", "bucket", "bucket.part", "bucket.note", "name", "full name", "scores", "preset"]


def name_key(kind: NameKind, name: str) -> str:
    """Return the key of a name in a record.

    Args:
        kind: of what it is the name.
        name: in the record. The catalogues need not have it: a task brings texts for names of its own.

    Example:
        >>> name_key("gate", "overlap")
        'gate.overlap'
    """
    return f"{kind}.{name}"


def has_text(key: str) -> bool:
    """Return whether the catalogues have a text for a key.

    Example:
        >>> has_text(name_key("gate", "overlap")), has_text(name_key("gate", "my gate"))
        (True, False)
    """
    return key in catalogue(SOURCE)
