"""Tokens of a closed list, one for each part of a text: characters, letters or words."""

import json
import os
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, Self
from unicodedata import normalize

from selfattn.codec import read_json, refuse_newer
from selfattn.errors import UserError
from selfattn.files import write_text
from selfattn.tokenizers.protocol import BOS, EOS, PAD, SPECIALS, Tokenizer, Unit, checked_id, printable

_ADVICE = "restore the file of the run, or train again"


class ListedTokenizer(Tokenizer):
    """One token for each part of a text; ids 0 to 3 are ``<pad>``, ``<bos>``, ``<eos>``, ``<unk>``.

    Args:
        texts: whose parts are the vocabulary; ids follow the code points.

    Attributes:
        unit: what the parts are.
        kind: name of the tokenizer in its file.
        between: what stands between two parts of a text.
        known: the id of each part.
    """

    kind: ClassVar[str]
    between: ClassVar[str] = ""

    def __init__(self, texts: Iterable[str]) -> None:
        parts = sorted(set[str]().union(*map(self.parts, texts)))
        self.listed: Any = parts if self.between else "".join(parts)
        self.known = {part: number for number, part in enumerate(parts, len(SPECIALS))}

    @abstractmethod
    def parts(self, text: str) -> Sequence[str]:
        """Divide a text into parts, known or not."""

    def __len__(self) -> int:
        """Return the size of the vocabulary, with the four special tokens."""
        return len(SPECIALS) + len(self.listed)

    def encode(self, text: str) -> list[int]:
        """Return the id of each part; ``unk_id`` for unknown ones."""
        return [self.known.get(part, self.unk_id) for part in self.parts(text)]

    def sample(self, text: str, seed: int, alpha: float) -> list[int]:
        """Return the same as `encode`: there is one segmentation.

        Args:
            text: any.
            seed: ignored.
            alpha: ignored.
        """
        return self.encode(text)

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Return the half-open range of characters of each id of ``encode(text)``: what stands before it is its."""
        spans: list[tuple[int, int]] = []
        start = 0
        for part in self.parts(text):
            end = start + len(part) + (len(self.between) if spans else 0)
            spans.append((start, end))
            start = end
        return spans

    def unknown(self, *texts: str) -> Counter[str]:
        """Count the parts of the texts that are not in the vocabulary."""
        return Counter(part for text in texts for part in self.parts(text) if part not in self.known)

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of the ids without ``<pad>``, ``<bos>`` and ``<eos>``; ``<unk>`` becomes U+FFFD.

        Raises:
            ValueError: an id outside the vocabulary.
        """
        return self.between.join(self._part(number) for number in ids if number not in (PAD, BOS, EOS))

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Return a printable label for each id: ``␣`` for a space, the code of an invisible character.

        Raises:
            ValueError: an id outside the vocabulary.
        """
        return [SPECIALS[n] if 0 <= n < len(SPECIALS) else printable(self._part(n)) or "␣" for n in ids]

    def _part(self, number: int) -> str:
        place = checked_id(number, len(self)) - len(SPECIALS)
        return "\N{REPLACEMENT CHARACTER}" if number == self.unk_id else self.listed[place]

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Write the file atomically.

        Args:
            directory: created if it is missing.
        """
        path = Path(directory) / f"{self.kind}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        # In ASCII: UTF-8 cannot write a lone surrogate, which a text may have.
        write_text(path, json.dumps({"tokenizer": self.kind, "version": 1, self.unit: self.listed}) + "\n")

    @classmethod
    def load(cls, directory: str | os.PathLike[str]) -> Self:
        """Read the file that `save` wrote.

        Args:
            directory: of the file.

        Raises:
            UserError: the file is missing, or is not such a vocabulary in sorted order without repeats.
        """
        path = Path(directory) / f"{cls.kind}.json"
        values = read_json(path, advice=_ADVICE)
        refuse_newer(values, 1, file=path, key="version")
        match values:
            case {"tokenizer": cls.kind, "version": 1} if values.keys() == {"tokenizer", "version", cls.unit}:
                with suppress(TypeError):  # of values that are no texts
                    tokenizer = cls([cls.between.join(values[cls.unit])])
                    # Otherwise ids would differ from those of the training.
                    if tokenizer.listed == values[cls.unit]:
                        return tokenizer
        raise UserError(f"{path}: not a vocabulary of {cls.unit}, version 1; {_ADVICE}")


class CharTokenizer(ListedTokenizer):
    """One token for each character (Unicode code point); ids 0 to 3 are ``<pad>``, ``<bos>``, ``<eos>``, ``<unk>``.

    Example:
        >>> tokenizer = CharTokenizer(["cab"])
        >>> tokenizer.encode("abx"), tokenizer.decode([6, 4, 5])
        ([4, 5, 3], 'cab')
    """

    unit: Unit = "characters"
    kind = "char"

    @property
    def characters(self) -> str:
        """The vocabulary, in the order of the ids."""
        return str(self.listed)

    def parts(self, text: str) -> str:
        """Return the text itself, whose items are its characters."""
        return text


class LetterTokenizer(CharTokenizer):
    """One token for each letter of a character: its canonical decomposition, Unicode's form NFD.

    A Hangul syllable is its consonants and vowel, ``が`` is ``か`` and the mark of voicing, ``é`` is ``e`` and its
    accent; what has no parts is itself. `decode` puts letters together again (NFC), so it gives every text in NFC back
    whose letters are known, and texts are in NFC when a model reads them. Ids 0 to 3 are the special tokens.

    Example:
        >>> tokenizer = LetterTokenizer(["각", "난"])
        >>> [f"{ord(letter):X}" for letter in tokenizer.characters]
        ['1100', '1102', '1161', '11A8', '11AB']
        >>> tokenizer.encode("낙"), tokenizer.decode([5, 6, 7]), tokenizer.spans("낙a")
        ([5, 6, 7], '낙', [(0, 1), (0, 1), (0, 1), (1, 2)])
    """

    unit: Unit = "letters"
    kind = "letters"

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


class WordTokenizer(ListedTokenizer):
    """One token for each word; ids 0 to 3 are ``<pad>``, ``<bos>``, ``<eos>``, ``<unk>``.

    Example:
        >>> tokenizer = WordTokenizer(["turn left twice"])
        >>> tokenizer.encode("turn right"), tokenizer.decode([5, 4])
        ([5, 3], 'turn left')
    """

    unit: Unit = "words"
    kind = "words"
    between = " "

    @property
    def words(self) -> list[str]:
        """The vocabulary, in the order of the ids."""
        return list(self.listed)

    def parts(self, text: str) -> list[str]:
        """Divide a text at its spaces; an empty text has no word."""
        return text.split(" ") if text else []
