"""Character tokens: the vocabulary consists of the characters of the training texts."""

import json
import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Self

from selfattn.codec import read_json, refuse_newer
from selfattn.errors import UserError
from selfattn.files import write_text
from selfattn.tokenizers.protocol import BOS, EOS, PAD, SPECIALS, UNK, Tokenizer, printable

FILE_NAME = "char.json"
_ADVICE = "restore the file of the run, or train again"


class CharTokenizer:
    """One token for each character (Unicode code point); ids 0 to 3 are ``<pad>``, ``<bos>``, ``<eos>``, ``<unk>``.

    Args:
        texts: whose characters are the vocabulary, such as the sources and targets of the training data; ids follow
            the code points.

    Attributes:
        source: tokenizer of the source side, this one.
        target: tokenizer of the target side, this one.

    Example:
        >>> tokenizer = CharTokenizer(["Nov 13", "Dec 2"])
        >>> tokenizer.encode("Nov 2")
        [9, 12, 13, 4, 6]
        >>> tokenizer.decode([9, 12, 13, 4, 6, tokenizer.eos_id])
        'Nov 2'
        >>> tokenizer.pieces([9, 4, 2])
        ['N', '␣', '<eos>']
    """

    pad_id = PAD
    bos_id = BOS
    eos_id = EOS
    unk_id = UNK

    def __init__(self, texts: Iterable[str]) -> None:
        self.characters = "".join(sorted(set[str]().union(*texts)))
        self._ids = {character: number for number, character in enumerate(self.characters, len(SPECIALS))}
        self.source: Tokenizer = self
        self.target: Tokenizer = self

    def __len__(self) -> int:
        """Return the size of the vocabulary, with the four special tokens."""
        return len(SPECIALS) + len(self.characters)

    def encode(self, text: str) -> list[int]:
        """Return the id of each character; ``unk_id`` for unknown characters.

        Example:
            >>> CharTokenizer("ab").encode("abz")
            [4, 5, 3]
        """
        return [self._ids.get(character, self.unk_id) for character in text]

    def sample(self, text: str, seed: int, alpha: float) -> list[int]:
        """Return the same as `encode`: characters have one segmentation.

        Args:
            text: any.
            seed: not used.
            alpha: not used.
        """
        return self.encode(text)

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Return the half-open range of characters of each id of ``encode(text)``.

        Example:
            >>> CharTokenizer("ab").spans("abz")
            [(0, 1), (1, 2), (2, 3)]
        """
        return [(place, place + 1) for place in range(len(text))]

    def unknown(self, *texts: str) -> Counter[str]:
        """Count the characters of the texts that are not in the vocabulary.

        Example:
            >>> CharTokenizer("ab").unknown("abz", "zoo").most_common()
            [('z', 2), ('o', 2)]
        """
        return Counter(character for text in texts for character in text if character not in self._ids)

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of the ids without ``<pad>``, ``<bos>`` and ``<eos>``; ``<unk>`` becomes U+FFFD.

        Raises:
            ValueError: an id outside the vocabulary.

        Example:
            >>> CharTokenizer("ab").decode([1, 4, 5, 3, 2, 0])
            'ab\\ufffd'
        """
        return "".join(self._character(number) for number in ids if number not in (PAD, BOS, EOS))

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Return a printable label for each id: ``␣`` for a space, the code of an invisible character.

        Raises:
            ValueError: an id outside the vocabulary.

        Example:
            >>> CharTokenizer("a\\u200f").pieces([4, 5, 3])
            ['a', '<U+200F>', '<unk>']
        """
        return [SPECIALS[n] if 0 <= n < len(SPECIALS) else printable(self._character(n)) for n in ids]

    def _character(self, number: int) -> str:
        if not 0 <= number < len(self):
            raise ValueError(f"token id {number} is outside the vocabulary of {len(self)}")
        return "\N{REPLACEMENT CHARACTER}" if number == self.unk_id else self.characters[number - len(SPECIALS)]

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Write ``char.json`` atomically.

        Args:
            directory: created if it is missing.
        """
        path = Path(directory) / FILE_NAME
        path.parent.mkdir(parents=True, exist_ok=True)
        # In ASCII: UTF-8 cannot write a lone surrogate, which a text may have.
        write_text(path, json.dumps({"tokenizer": "char", "version": 1, "characters": self.characters}) + "\n")

    @classmethod
    def load(cls, directory: str | os.PathLike[str]) -> Self:
        """Read the ``char.json`` that `save` wrote.

        Args:
            directory: of the file.

        Raises:
            UserError: the file is missing or broken.
        """
        path = Path(directory) / FILE_NAME
        values = read_json(path, advice=_ADVICE)
        refuse_newer(values, 1, file=path, key="version")
        match values:
            case {"tokenizer": "char", "version": 1, "characters": str(characters)}:
                tokenizer = cls(characters)
                if tokenizer.characters == characters:  # otherwise ids would differ from those of the training
                    return tokenizer
        raise UserError(f"{path}: not a character vocabulary of version 1; {_ADVICE}")
