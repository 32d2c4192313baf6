"""Message catalogues: gettext files (`.po`), one a language, in which the context of a message is its key."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable

from selfattn.errors import UserError

SOURCE = "en"  # the language in which messages are written first; what another one lacks is said in it
_HOME = resources.files("selfattn.words") / "catalogues"
LANGS: tuple[str, ...] = (SOURCE, *sorted(d.name for d in _HOME.iterdir() if d.is_dir() and d.name != SOURCE))


@cache
def catalogue(lang: str) -> Mapping[str, str]:
    """Return the texts of the report in a language, by message key.

    Raises:
        UserError: there is no catalogue of this language.

    Example:
        >>> catalogue("en")["badge.seeds"], catalogue("ko")["badge.seeds"]
        ('{count} runs each', '시드 {count}개')
    """
    if lang not in LANGS:
        raise UserError(f"language {lang!r}: there is no catalogue of it; choose one of {', '.join(LANGS)}")
    return read_catalogue(_HOME / lang / "report.po")


def read_catalogue(path: Traversable) -> dict[str, str]:
    """Read one catalogue: the text of every message by its key, in the source language where it is not translated."""
    from babel.messages.pofile import read_po  # takes 0.1 s, so not before words are asked for

    with path.open("rb") as file:
        return {str(entry.context): str(entry.string or entry.id) for entry in read_po(file) if entry.context}


def read_words(folder: Traversable, name: str) -> dict[str, dict[str, str]]:
    """Read the catalogues of a part that brings its own words, such as a task.

    Args:
        folder: holds a folder for each language.
        name: of the catalogue, without `.po`.

    Returns:
        By language, texts by message key; a language without the file is left out.
    """
    paths = {lang: folder / lang / f"{name}.po" for lang in LANGS}
    return {lang: read_catalogue(path) for lang, path in paths.items() if path.is_file()}
