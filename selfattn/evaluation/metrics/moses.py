"""Lowercased text in Moses tokens, as the tokenised files of Multi30k have it.

Those files are made by three scripts of Moses in this order: ``lowercase.perl``, ``normalize-punctuation.perl -l L``
and ``tokenizer.perl -l L``, with no further options: hyphens stay inside words, and quotation marks are written as XML
entities (https://github.com/multi30k/dataset, ``scripts/task1-tokenize.sh``). Here sacremoses does the last two; on
Multi30k it gives as many tokens as the files have, but for one line of French.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from importlib.metadata import version


def moses_tokens(texts: Iterable[str], *, language: str) -> list[str]:
    """Lowercase, normalise punctuation, tokenise.

    Args:
        texts: plain text, one sentence each.
        language: ISO 639 code; one that Moses has no rules for is treated as English, which is what Moses does.

    Returns:
        Each text as its tokens with a space between.

    Example:
        >>> moses_tokens(["Ein U-Bahn-Schild: „Nicht rauchen“."], language="de")
        ['ein u-bahn-schild : &quot; nicht rauchen &quot; .']
    """
    prepare = _preparation(language)
    return [prepare(text) for text in texts]


def moses_name(language: str) -> str:
    """Return what was done to a text as a word for a signature.

    Example:
        >>> moses_name("de").startswith("moses-de-norm-sacremoses")
        True
    """
    return f"moses-{language}-norm-sacremoses{version('sacremoses')}"


@lru_cache(maxsize=8)
def _preparation(language: str) -> Callable[[str], str]:
    from sacremoses import MosesPunctNormalizer, MosesTokenizer

    normaliser, tokeniser = MosesPunctNormalizer(lang=language), MosesTokenizer(lang=language)

    def prepare(text: str) -> str:
        tokens: list[str] = tokeniser.tokenize(normaliser.normalize(text.lower()))
        return " ".join(tokens)

    return prepare
