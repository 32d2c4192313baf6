"""Languages as users, files and columns name them (`ja`, `jpn`, `kor_Hang`, `Japanese`), and the scripts of texts.

Codes, names and the usual script of each language are those of the Unicode CLDR, through Babel.
"""

import difflib
import unicodedata
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Literal

from selfattn.errors import SettingError

SOURCES = {"src", "source"}
"""Names of sources that name no language."""
TARGETS = {"tgt", "trg", "target", "ref", "hyp"}
"""Names of targets that name no language."""
LONGEST_NAME = 30
"""Characters that no name of a language exceeds. To read them all takes half a second, which longer texts spare."""
NO_LANGUAGE = "und"  # ISO 639: text in no particular language
NO_SCRIPT = "Zzzz"  # ISO 15924: unknown
# The first word of a character's Unicode name, for scripts that are not divided into words by spaces, or by MeCab.
_SCRIPTS = {
    "HANGUL": "Hang",
    "HIRAGANA": "Hira",
    "KATAKANA": "Kana",
    "CJK": "Hani",
    "THAI": "Thai",
    "LAO": "Laoo",
    "KHMER": "Khmr",
    "MYANMAR": "Mymr",
    "TIBETAN": "Tibt",
}


@dataclass(frozen=True)
class Language:
    """A language, with the script and the country of its text.

    Attributes:
        code: ISO 639, of two letters where there is such a code.
        script: ISO 15924: the one in the name, else the usual one; ``Zzzz`` where the language has no usual script.
        locale: code, script and country, as far as the name gives them, such as ``pt_BR``.
    """

    code: str
    script: str
    locale: str


@cache
def read_language(name: str) -> Language:
    """Return the language that a name means.

    Args:
        name: a code of ISO 639 of two or three letters, with or without script and country (`ko`, `kor`, `kor_Hang`,
            `zh-Hans`, `pt_BR`); or the English name. ``und`` stands for text in no particular language.

    Raises:
        SettingError: the name is none of these; the message names the closest.

    Example:
        >>> read_language("kor_Hang").code, read_language("Japanese").code, read_language("zh-TW").script
        ('ko', 'ja', 'Hant')
    """
    from babel import Locale
    from babel.core import get_global, parse_locale

    english = Locale("en")
    codes = {text.casefold(): code for code, text in english.languages.items()}
    tag = codes.get(name.strip().casefold(), name.strip())
    likely = get_global("likely_subtags")
    try:
        language, territory, script, variant = parse_locale(tag.replace("-", "_"))[:4]
    except ValueError:
        raise _unknown(name, codes) from None
    # The code of two letters; a few old codes, such as sh, say the script or the country as well.
    language, *more = get_global("language_aliases").get(language, language).split("_")
    script = script or next((part for part in more if len(part) == 4), None)
    territory = territory or next((part for part in more if len(part) == 2), None)
    is_known = language in english.languages or language in likely
    if not is_known or not subtags().issuperset(part.lower() for part in (script, territory, variant) if part):
        raise _unknown(name, codes)
    usual = likely.get(f"{language}_{territory}") or likely.get(language) or ""
    scripts = [part for part in usual.split("_") if len(part) == 4 and language != NO_LANGUAGE]
    locale = "_".join(filter(None, (language, script, territory)))
    return Language(language, script or next(iter(scripts), NO_SCRIPT), locale)


def _unknown(name: str, codes: dict[str, str]) -> SettingError:
    """Return the error for a name that is no language: of a country it names the language."""
    from babel.core import get_global

    country = get_global("likely_subtags").get(f"und_{name.strip().upper()}")
    if country is not None:
        hint = f"as a country, its language is {country.partition('_')[0]}"
    else:
        close = difflib.get_close_matches(name.strip().casefold(), codes, n=3)
        hint = f"did you mean {', '.join(codes[text] for text in close)}?" if close else "such as de, ko, zh_Hans"
    expected = "a code of ISO 639 or an English name"
    return SettingError(f"unknown language {name!r}: expected {expected} ({hint}); und for none")


def scripts_of(texts: Iterable[str]) -> Counter[str]:
    """Count the letters of texts by script: those without spaces between words, Korean, and ``Zzzz`` for all others.

    Example:
        >>> scripts_of(["서울 is big"])
        Counter({'Zzzz': 5, 'Hang': 2})
    """
    counts = Counter[str]()
    for character, count in Counter("".join(texts)).items():
        if unicodedata.category(character).startswith("L"):
            first = unicodedata.name(character, "").partition(" ")[0]
            counts[_SCRIPTS.get(first, NO_SCRIPT)] += count
    return counts


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
        >>> any(map(str.isdigit, "".join(language_names())))
        False
    """
    # As no name has a digit, a table of dates needs none of them: to collect them takes half a second.
    return len(name) <= LONGEST_NAME and not any(map(str.isdigit, name)) and name in language_names()


def turned_side(
    source: str | None, target: str | None, languages: tuple[str, str] | None
) -> tuple[str, Literal["source", "target"], Literal["source", "target"]] | None:
    """Return which of two names says that it is the other side; None where neither does.

    Args:
        source: what the sources are called, such as the ending of a file or a column; None where it says nothing.
        target: what the targets are called; None where it says nothing.
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
