"""A glossary: words that an output must have where its input has a term."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from selfattn.data.pairs import clean_text
from selfattn.data.readers.lines import whole_lines_of
from selfattn.errors import UserError
from selfattn.settings import shown
from selfattn.tokenizers.protocol import Tokenizer


class Glossary:
    """Source terms, and the words that are required in the output of a text with such a term.

    A term or required words stand in a text where they are not part of a longer word: letters of a script with
    capitals, and digits, may not be next to them. (In Korean or Chinese, an ending may follow without a space.) Capital
    and small letters differ. Of terms that overlap in a text, the leftmost counts, and of those the longest.

    Args:
        terms: required words by term; both not empty.

    Raises:
        UserError: a term or its words are empty.

    Example:
        >>> glossary = Glossary({"dog": "Hund", "hot dog": "Hotdog"})
        >>> glossary.required("A dog eats a hot dog."), glossary.required("dogs")
        (['Hund', 'Hotdog'], [])
        >>> missing(["Hund"], "Ein Hund."), missing(["Hund"], "Hunde")
        ([], ['Hund'])
    """

    def __init__(self, terms: Mapping[str, str]) -> None:
        self.terms = {clean_text(term): clean_text(words) for term, words in terms.items()}
        for term, words in self.terms.items():
            if not term or not words:
                raise UserError(
                    f"glossary: {shown(term)} -> {shown(words)}: expected a term and its words; one is empty"
                )
        self._pattern = re.compile("|".join(map(re.escape, self.terms))) if self.terms else None

    def required(self, text: str) -> list[str]:
        """Return the words that the output of a text must have, in the order of their terms, each once."""
        text = clean_text(text)
        words: dict[str, None] = {}
        place = 0
        while self._pattern is not None and (match := self._pattern.search(text, place)) is not None:
            start = match.start()
            here = [term for term in self.terms if _stands_at(term, text, start)]
            term = max(here, key=len, default="")
            if term:
                words[self.terms[term]] = None
            place = start + max(1, len(term))
        return list(words)

    def check(self, tokenizer: Tokenizer) -> None:
        """Make sure that all required words can be written.

        Args:
            tokenizer: of the targets.

        Raises:
            UserError: the tokenizer has no tokens for some of them.
        """
        for term, words in self.terms.items():
            ids = tokenizer.encode(words)
            if tokenizer.unk_id in ids or tokenizer.decode(ids) != words:
                raise UserError(f"glossary: {shown(term)}: the model cannot write {shown(words)}; choose other words")


def read_glossary(path: Path) -> Glossary:
    """Read a glossary: a term and its words a line, with a tab between; empty lines count for nothing.

    Raises:
        UserError: the file cannot be read, a line has not two columns, one of them is empty, or a term stands twice.
    """
    terms: dict[str, str] = {}
    for number, line in enumerate(whole_lines_of(path), 1):
        if not line.strip():
            continue
        columns = [clean_text(column) for column in line.split("\t")]
        if len(columns) != 2 or not all(columns):
            raise UserError(f"{path}:{number}: expected a term, a tab, and required words; got {shown(line)}")
        term, words = columns
        if terms.get(term, words) != words:
            raise UserError(f"{path}:{number}: {shown(term)} has other words above; leave one of the lines out")
        terms[term] = words
    if not terms:
        raise UserError(f"{path}: no terms; write a term, a tab, and the words required for it on each line")
    return Glossary(terms)


def missing(words: Iterable[str], text: str) -> list[str]:
    """Return those of the required words that a text does not have."""
    return [phrase for phrase in words if not _stands_in(phrase, text)]


def joins(before: str, after: str) -> bool:
    """Say whether two texts would share a word: both meet in letters of a script with capitals, or in digits.

    Example:
        >>> joins("ca", "t"), joins("cat", " "), joins("고양이", "가"), joins("", "c")
        (True, False, False, False)
    """
    return bool(before and after) and _is_of_word(before[-1]) and _is_of_word(after[0])


def _is_of_word(character: str) -> bool:
    return character.isdigit() or character.lower() != character.upper()


def _stands_in(phrase: str, text: str) -> bool:
    place = text.find(phrase)
    while place >= 0:
        if _stands_at(phrase, text, place):
            return True
        place = text.find(phrase, place + 1)
    return False


def _stands_at(phrase: str, text: str, place: int) -> bool:
    end = place + len(phrase)
    return text.startswith(phrase, place) and not joins(text[:place], phrase) and not joins(phrase, text[end:])
