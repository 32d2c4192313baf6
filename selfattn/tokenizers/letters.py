"""Letters as tokens: characters taken apart, so that a Hangul syllable is two or three tokens instead of a rare one."""

from collections.abc import Iterable
from unicodedata import normalize

from selfattn.tokenizers.char import CharTokenizer
from selfattn.tokenizers.protocol import Unit


class LetterTokenizer(CharTokenizer):
    """One token for each letter of a character: its canonical decomposition, Unicode's form NFD.

    A Hangul syllable is its consonants and vowel, ``が`` is ``か`` and the mark of voicing, ``é`` is ``e`` and its
    accent; what has no parts is itself. `decode` puts letters together again (NFC), so it gives every text in NFC back
    whose letters are known, and texts are in NFC when a model reads them. Ids 0 to 3 are the special tokens.

    Args:
        texts: whose letters are the vocabulary; ids follow the code points.

    Attributes:
        characters: the letters as a text.

    Example:
        >>> tokenizer = LetterTokenizer(["각", "난"])
        >>> [f"{ord(letter):X}" for letter in tokenizer.characters]
        ['1100', '1102', '1161', '11A8', '11AB']
        >>> tokenizer.encode("낙"), tokenizer.decode([5, 6, 7]), tokenizer.spans("낙a")
        ([5, 6, 7], '낙', [(0, 1), (0, 1), (0, 1), (1, 2)])
    """

    unit: Unit = "letters"
    kind = "letters"

    def __init__(self, texts: Iterable[str]) -> None:
        super().__init__(self.parts(text) for text in texts)

    def parts(self, text: str) -> str:
        """Take each character apart. Marks keep the order of the characters, so that each has a place in the text."""
        return "".join(normalize("NFD", character) for character in text)

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Return the half-open range of characters of each id of ``encode(text)``: letters share their character's."""
        return [(place, place + 1) for place, character in enumerate(text) for _ in normalize("NFD", character)]

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of the ids, put together; without special tokens, ``<unk>`` becomes U+FFFD.

        Raises:
            ValueError: an id outside the vocabulary.
        """
        return normalize("NFC", super().decode(ids))
