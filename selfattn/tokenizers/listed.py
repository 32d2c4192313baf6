"""Tokens of a closed list, one for each part of a text: what characters and words have in common."""

import json
import os
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import ClassVar, Self

from selfattn.codec import read_json, refuse_newer
from selfattn.errors import UserError
from selfattn.files import write_text
from selfattn.tokenizers.protocol import BOS, EOS, PAD, SPECIALS, Tokenizer, Unit, checked_id, printable

_ADVICE = "restore the file of the run, or train again"


class ListedTokenizer(Tokenizer):
    """One token for each part of a text; ids 0 to 3 are ``<pad>``, ``<bos>``, ``<eos>``, ``<unk>``.

    A subclass is made of texts.

    Args:
        parts: the vocabulary, in the order of the ids.

    Attributes:
        source: tokenizer of the source side, this one.
        target: tokenizer of the target side, this one.
        unit: what the parts are.
        kind: name of the tokenizer in its file.
        between: what stands between two parts of a text.
        known: the id of each part.
    """

    unit: Unit
    kind: ClassVar[str]
    between: ClassVar[str]

    def __init__(self, parts: Sequence[str]) -> None:
        self._parts = parts
        self.known = {part: number for number, part in enumerate(parts, len(SPECIALS))}
        self.source: Tokenizer = self
        self.target: Tokenizer = self

    @abstractmethod
    def parts(self, text: str) -> Sequence[str]:
        """Divide a text into parts, known or not."""

    def __len__(self) -> int:
        """Return the size of the vocabulary, with the four special tokens."""
        return len(SPECIALS) + len(self._parts)

    def encode(self, text: str) -> list[int]:
        """Return the id of each part; ``unk_id`` for unknown ones."""
        return [self.known.get(part, self.unk_id) for part in self.parts(text)]

    def sample(self, text: str, seed: int, alpha: float) -> list[int]:
        """Return the same as `encode`: there is one segmentation.

        Args:
            text: any.
            seed: not used.
            alpha: not used.
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
        counts = Counter[str]()
        for text in texts:
            counts.update(part for part in self.parts(text) if part not in self.known)
        return counts

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
        return "\N{REPLACEMENT CHARACTER}" if number == self.unk_id else self._parts[place]

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Write the file atomically.

        Args:
            directory: created if it is missing.
        """
        path = Path(directory) / f"{self.kind}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        # In ASCII: UTF-8 cannot write a lone surrogate, which a text may have.
        write_text(path, json.dumps({"tokenizer": self.kind, "version": 1, self.unit: self._parts}) + "\n")

    @classmethod
    def load(cls, directory: str | os.PathLike[str]) -> Self:
        """Read the file that `save` wrote.

        Args:
            directory: of the file.

        Raises:
            UserError: the file is missing or broken.
        """
        path = Path(directory) / f"{cls.kind}.json"
        values = read_json(path, advice=_ADVICE)
        refuse_newer(values, 1, file=path, key="version")
        match values:
            case {"tokenizer": cls.kind, "version": 1} if values.keys() == {"tokenizer", "version", cls.unit}:
                with suppress(TypeError):  # of values that are no texts
                    tokenizer = cls([cls.between.join(values[cls.unit])])
                    # Otherwise ids would differ from those of the training.
                    if tokenizer._parts == values[cls.unit]:
                        return tokenizer
        raise UserError(f"{path}: not a vocabulary of {cls.unit}, version 1; {_ADVICE}")
