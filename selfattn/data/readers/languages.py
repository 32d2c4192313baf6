"""Codes and names of languages, as they stand in the names of files and columns."""

from functools import cache
from typing import Literal

from selfattn.data.languages import read_language
from selfattn.errors import SettingError

SOURCES = {"src", "source"}
"""Names of sources that name no language."""
TARGETS = {"tgt", "trg", "target", "ref", "hyp"}
"""Names of targets that name no language."""
LONGEST_NAME = 30
"""Characters that no name of a language exceeds. To read them all takes half a second, which longer texts spare."""


def is_language(code: str) -> bool:
    """Return whether a lower-case text is the code of a language, with a script or a territory perhaps.

    Example:
        >>> [is_language(code) for code in ("en", "kor", "zh-hant", "pt_br", "en-ko0", "txt")]
        [True, True, True, True, False, False]
    """
    from babel.core import get_global
    from babel.localedata import exists

    language, *further = code.replace("_", "-").split("-")
    is_known = language != "root" and (exists(language) or language in get_global("language_aliases"))
    return is_known and subtags().issuperset(further)


@cache
def subtags() -> frozenset[str]:
    """Return what may follow the code of a language: scripts, territories and variants, in lower case.

    Example:
        >>> {"hant", "kr", "419"} <= subtags(), "ko0" in subtags()
        (True, False)
    """
    from babel import Locale

    english = Locale("en")
    names = (*english.scripts, *english.territories, *english.variants)
    return frozenset(map(str.lower, names))


@cache
def language_names() -> frozenset[str]:
    """Return the names of languages in English and in the language itself, in lower case.

    Example:
        >>> {"korean", "한국어", "deutsch"} <= language_names()
        True
    """
    from babel import Locale
    from babel.localedata import exists

    languages = dict(Locale("en").languages)
    names = set(map(str.casefold, languages.values()))
    for code in filter(exists, map(str, languages)):
        names.add((Locale(code).language_name or "").casefold())
    return frozenset(names - {""})


def is_language_name(name: str) -> bool:
    """Return whether a text in lower case is the name of a language, in English or in the language itself.

    Example:
        >>> is_language_name("deutsch"), is_language_name("a")
        (True, False)
    """
    return len(name) <= LONGEST_NAME and name in language_names()


def turned_side(
    source: str | None, target: str | None, languages: tuple[str, str] | None
) -> tuple[str, Literal["source", "target"], Literal["source", "target"]] | None:
    """Return which of two names says that it is the other side; None where neither does.

    Args:
        source: what the sources are called, such as the ending of a file or a column; None where it says nothing.
        target: likewise, of the targets.
        languages: of the sources and of the targets; None where they are unknown.

    Returns:
        The name, the side that it was given as, and the side that it is.

    Example:
        >>> turned_side("kor", None, ("en", "ko")), turned_side("en", "de", ("en", "ko"))
        (('kor', 'source', 'target'), None)
    """
    source_language = target_language = ""
    if languages is not None:
        source_language, target_language = map(_code, languages)
    is_apart = source_language != target_language
    if source is not None and (source.lower() in TARGETS or (is_apart and target_language == _code(source) != "")):
        return source, "source", "target"
    if target is not None and (target.lower() in SOURCES or (is_apart and source_language == _code(target) != "")):
        return target, "target", "source"
    return None


def _code(name: str) -> str:
    """Return the code of a language, without script and country; empty where the name means none."""
    if not is_language(name.strip().lower()) and not is_language_name(name.strip().casefold()):
        return ""
    try:
        return read_language(name).code
    except SettingError:
        return ""
