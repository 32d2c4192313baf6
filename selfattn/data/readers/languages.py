"""Codes and names of languages, as they stand in the names of files and columns."""

from functools import cache


def is_language(code: str) -> bool:
    """Return whether a lower-case text is the code of a language, with a script or a territory perhaps.

    Example:
        >>> [is_language(code) for code in ("en", "kor", "zh-hant", "pt_br", "txt")]
        [True, True, True, True, False]
    """
    from babel.core import get_global
    from babel.localedata import exists

    language = code.replace("_", "-").partition("-")[0]
    return language != "root" and (exists(language) or language in get_global("language_aliases"))


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
