"""Languages as users name them (`ja`, `jpn`, `kor_Hang`, `Japanese`), and the scripts that texts are written in.

Codes, names and the usual script of each language are those of the Unicode CLDR, through Babel.
"""

import difflib
import unicodedata
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from selfattn.errors import SettingError

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
    is_known &= script is None or script in english.scripts
    is_known &= territory is None or territory in english.territories
    is_known &= variant is None or variant.upper() in english.variants
    if not is_known:
        raise _unknown(name, codes)
    usual = likely.get(f"{language}_{territory}") or likely.get(language) or ""
    scripts = [part for part in usual.split("_") if len(part) == 4 and language != "und"]
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
    return SettingError(
        f"unknown language {name!r}: expected a code of ISO 639 or an English name ({hint}); und for none"
    )


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
